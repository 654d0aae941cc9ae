"""Merging edge records: the same pairs and sums as a dictionary, whatever the chunks and ranges."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arrays import AnyArray, Float32Array, FloatArray, IntArray
from peewit.solvers.edge_merging import WeightedEdges, merged_ranges
from peewit.solvers.kernels import adjacency
from tests.reference.adjacency import summed_pairs
from tests.strategies import EdgeList, edge_lists


@dataclass(frozen=True, kw_only=True, eq=False)
class Chunk:
    u: IntArray
    v: IntArray
    weight: AnyArray
    keep_probability: Float32Array

    @property
    def conductance(self) -> FloatArray:
        return self.weight.astype(np.float64) / self.keep_probability

    def split(self, n_chunks: int) -> list["Chunk"]:
        return [
            Chunk(
                u=self.u[rows],
                v=self.v[rows],
                weight=self.weight[rows],
                keep_probability=self.keep_probability[rows],
            )
            for rows in np.array_split(np.arange(self.u.size), n_chunks)
        ]


def random_records(n_nodes: int, n_records: int, seed: int, *, n_hubs: int = 0) -> Chunk:
    """Records with many parallel ones; with hubs, most of them end in one."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n_nodes, (2, n_records), dtype=np.int32)
    if n_hubs:
        to_hub = rng.random(n_records) < 0.7
        v[to_hub] = rng.integers(0, n_hubs, int(to_hub.sum()))
    return Chunk(
        u=u,
        v=v,
        weight=rng.pareto(1.0, n_records).astype(np.float32) + np.float32(0.1),
        keep_probability=rng.uniform(0.01, 1.0, n_records).astype(np.float32),
    )


def listed(parts: Iterator) -> list[tuple[int, int, float]]:
    """All ranges as pairs; they must cover the nodes one after another."""
    pairs, next_node = [], 0
    for part in parts:
        assert part.first == next_node
        next_node += part.counts.size
        assert part.counts.sum() == part.v.size == part.weight.size
        pairs += zip(part.u.tolist(), part.v.tolist(), part.weight.tolist(), strict=True)
    return pairs


@given(edges=edge_lists(), n_chunks=st.integers(1, 4), max_records=st.integers(1, 60))
def test_ranges_hold_every_pair_once_in_order_with_its_sum(
    edges: EdgeList, n_chunks: int, max_records: int
) -> None:
    rows = np.array_split(np.arange(edges.u.size), n_chunks)
    chunks = [
        WeightedEdges(u=edges.u[part], v=edges.v[part], weight=edges.weight[part]) for part in rows
    ]
    merged = merged_ranges(chunks, n_nodes=edges.n_nodes, max_records=max_records)
    assert listed(merged) == summed_pairs(edges.u, edges.v, edges.weight)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("n_nodes", [3, 300, 5_000, 300_000])
@pytest.mark.parametrize("n_hubs", [0, 2])
@pytest.mark.parametrize("max_records", [1_000, 10**9])
def test_many_buckets_and_hubs_are_merged_as_pairs_are(
    n_nodes: int, n_hubs: int, max_records: int
) -> None:
    records = random_records(n_nodes, 20_000, n_nodes, n_hubs=n_hubs)
    merged = merged_ranges(records.split(3), n_nodes=n_nodes, max_records=max_records)
    assert listed(merged) == summed_pairs(records.u, records.v, records.conductance)


def test_ranges_keep_within_the_records_they_may_hold() -> None:
    records = random_records(50_000, 40_000, 1)
    sizes = [part.v.size for part in merged_ranges([records], n_nodes=50_000, max_records=3_000)]
    assert len(sizes) > 10
    assert max(sizes) <= 3_000


def test_records_with_probability_zero_are_not_there() -> None:
    records = random_records(50, 2_000, 2)
    gone = np.random.default_rng(0).random(2_000) < 0.5
    lowered = np.where(gone, np.float32(0.0), records.keep_probability)
    view = Chunk(u=records.u, v=records.v, weight=records.weight, keep_probability=lowered)
    expected = summed_pairs(records.u[~gone], records.v[~gone], records.conductance[~gone])
    assert listed(merged_ranges([view], n_nodes=50)) == expected


def test_float32_sums_are_rounded_once() -> None:
    records = random_records(5, 30_000, 3)
    conductance = records.conductance.astype(np.float32).astype(np.float64)
    expected = [
        (u, v, float(np.float32(total)))
        for u, v, total in summed_pairs(records.u, records.v, conductance)
    ]
    assert listed(merged_ranges([records], n_nodes=5, dtype=np.float32)) == expected


@pytest.mark.parametrize("id_type", [np.int16, np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("weight_type", [np.int64, np.float16, np.float32, np.float64])
def test_ids_and_weights_of_every_type_are_read(id_type: type, weight_type: type) -> None:
    u, v = np.array([[0, 1], [2, 0], [1, 0]], id_type).T  # not contiguous
    chunk = WeightedEdges(u=u, v=v, weight=np.array([1, 2, 4], weight_type))
    assert listed(merged_ranges([chunk], n_nodes=3)) == [(0, 1, 5.0), (0, 2, 2.0)]


@pytest.mark.parametrize("change", [-1, 1])
def test_chunks_that_change_between_two_passes_are_refused(change: int) -> None:
    @dataclass
    class Changing:
        size: int = 10

        def __iter__(self) -> Iterator[Chunk]:
            yield random_records(100, 10, 0).split(2)[0]
            yield random_records(100, self.size, 1)
            self.size += change

    with pytest.raises(ValueError, match=r"the same records every time, got (more|fewer)"):
        list(merged_ranges(Changing(), n_nodes=100))


@pytest.mark.parametrize(
    ("weight", "probability", "message"),
    [
        (np.nan, 0.5, "weight must be finite and > 0, got nan in row 1"),
        (1.0, np.nan, r"weight / keep_probability must be finite and > 0, got 1.0 / nan in row 1"),
        (1.0, -0.5, r"got 1.0 / -0.5 in row 1"),
    ],
)
def test_bad_conductances_are_refused_with_the_row(weight, probability, message) -> None:
    records = Chunk(
        u=np.array([0, 1], np.int32),
        v=np.array([1, 2], np.int32),
        weight=np.array([1.0, weight], np.float32),
        keep_probability=np.array([1.0, probability], np.float32),
    )
    with pytest.raises(ValueError, match=message):
        list(merged_ranges([records], n_nodes=3))


def test_probabilities_of_another_length_and_empty_ranges_are_refused() -> None:
    records = random_records(3, 4, 0)
    short = Chunk(u=records.u, v=records.v, weight=records.weight, keep_probability=np.ones(3))
    with pytest.raises(ValueError, match="as long as weight, got 3 and 4"):
        list(merged_ranges([short], n_nodes=3))
    with pytest.raises(ValueError, match="max_records must be at least 1, got 0"):
        list(merged_ranges([records], n_nodes=3, max_records=0))


@pytest.mark.usefixtures("processes")
def test_buckets_are_sorted_the_same_without_the_compiler() -> None:
    program = """
import numpy as np
from tests.solvers.test_edge_merging import listed, random_records
from peewit.solvers.graph import Graph
from peewit.solvers.edge_merging import merged_ranges
records = random_records(5000, 3000, 7)
pairs = listed(merged_ranges(records.split(2), n_nodes=5000, max_records=700))
graph = Graph.from_records([records], n_nodes=5000)
again = Graph.from_sorted_edges([graph.edges()], n_nodes=5000)
matrices = [
    [a.tobytes() for a in (g.adjacency.indptr, g.adjacency.indices, g.adjacency.data, g.component)]
    for g in (graph, again)
]
assert matrices[0] == matrices[1]
print(hash(tuple(pairs)), graph.n_components, hash(tuple(matrices[0])))
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disabled in ("0", "1")
    ]
    assert outputs[0] == outputs[1]
    assert hasattr(adjacency.sort_buckets, "py_func")
