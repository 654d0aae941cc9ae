"""Runs against a list that has the key and the bucket of every record."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.streaming.sparsifier.runs import EMPTY_RUNS, Runs

Record = tuple[str, int]


def twin(runs: Runs) -> list[Record]:
    columns = (runs.keys, runs.buckets.tolist(), runs.counts.tolist())
    return [
        (key, bucket) for key, bucket, count in zip(*columns, strict=True) for _ in range(count)
    ]


@given(
    grown=st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.lists(st.tuples(st.integers(0, 5), st.integers(-2, 2)), max_size=4),
        ),
        max_size=8,
    ),
    kept=st.randoms(use_true_random=False),
    n_chunks=st.integers(1, 5),
)
def test_what_stays_of_each_run(
    grown: list[tuple[str, list[tuple[int, int]]]], kept: np.random.RandomState, n_chunks: int
) -> None:
    runs, records = EMPTY_RUNS, []
    for key, blocks in grown:
        runs = runs.grown(key, [count for count, _ in blocks], [bucket for _, bucket in blocks])
        records += [(key, bucket) for count, bucket in blocks for _ in range(count)]
    assert twin(runs) == records
    assert runs.n_records == len(records)
    ends = list(zip(runs.keys, runs.buckets.tolist(), strict=True))
    assert all(one != next_one for one, next_one in pairwise(ends))
    stays = np.array([kept.random() < 0.5 for _ in records], bool)
    chunks = np.array_split(stays.astype(np.float32), n_chunks)
    left = runs.kept(chunks)
    assert twin(left) == [record for record, stay in zip(records, stays, strict=True) if stay]
    assert (left.counts > 0).all()
    assert twin(runs.joined(left)) == records + twin(left)
    sizes = [chunk.size for chunk in chunks]
    marks = runs.marks(runs.buckets < 1, sizes)
    assert [mark.size for mark in marks] == sizes
    assert np.concatenate(marks).tolist() == [bucket < 1 for _, bucket in records]
    stored = json.loads(json.dumps(runs.stored))
    assert twin(Runs.of(stored["keys"], stored["counts"], stored.get("buckets"))) == records
    assert ("buckets" in stored) == any(bucket for _, bucket in records)


def test_runs_of_nothing_are_left_out() -> None:
    runs = Runs.of(["a", "b", "c"], [3, 0, 2], [5, 6, 7])
    assert (runs.keys, runs.buckets.tolist()) == (("a", "c"), [5, 7])
    assert EMPTY_RUNS.marks(np.zeros(0, bool), []) == []
    for column in (runs.counts, runs.buckets):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_neighbors_of_one_file_and_bucket_are_one_run() -> None:
    runs = Runs.of(["a", "b"], [3, 2], [1, 1])
    assert runs.grown("b", [4], [1]).counts.tolist() == [3, 6]
    assert runs.grown("b", [4], [2]).counts.tolist() == [3, 2, 4]
    assert runs.grown("a", [4], [1]).counts.tolist() == [3, 2, 4]
    assert runs.grown("b", [0, 4, 1, 7], [2, 1, 1, 3]).buckets.tolist() == [1, 1, 3]
