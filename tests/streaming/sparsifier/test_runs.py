"""Runs against a list that has the key of every record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.streaming.sparsifier.runs import EMPTY_RUNS, Runs


def twin(runs: Runs) -> list[str]:
    return [key for key, count in zip(runs.keys, runs.counts, strict=True) for _ in range(count)]


@given(
    grown=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), max_size=12),
    kept=st.randoms(use_true_random=False),
    n_chunks=st.integers(1, 5),
)
def test_what_stays_of_each_run(
    grown: list[tuple[str, int]], kept: np.random.RandomState, n_chunks: int
) -> None:
    runs, records = EMPTY_RUNS, []
    for key, count in grown:
        runs = runs.grown(key, count)
        records += [key] * count
    assert twin(runs) == records
    assert runs.n_records == len(records)
    stays = np.array([kept.random() < 0.5 for _ in records], bool)
    chunks = np.array_split(stays.astype(np.float32), n_chunks)
    left = runs.kept(chunks)
    assert twin(left) == [key for key, stay in zip(records, stays, strict=True) if stay]
    assert (left.counts > 0).all()
    assert twin(runs.joined(left)) == records + twin(left)


def test_places_of_a_run() -> None:
    runs = Runs.of(["a", "b", "c"], [3, 0, 2])
    assert runs.keys == ("a", "c")
    assert runs.places("a") == [slice(0, 3)]
    assert runs.places("c") == [slice(3, 5)]
    assert runs.places("b") == []
    assert runs.grown("a", 2).places("a") == [slice(0, 3), slice(5, 7)]
    with pytest.raises(ValueError, match="read-only"):
        runs.counts[0] = 1
