"""Survivor estimate: exact on small buffers, near on samples, and snapshots that are left whole."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from peewit.streaming.sparsifier import sparsifier, survivor_estimate
from peewit.streaming.sparsifier.settings_and_state import (
    Records,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import sparsifier_graph, thinned
from peewit.streaming.sparsifier.survivor_estimate import estimated_pairs, survivor_share
from tests.streaming.graphs import random_graph, records_of, rings, sparsified


def share_by_hand(records: Records, copies: float) -> float:
    """The same from a dictionary of pairs."""
    degree: dict[int, float] = defaultdict(float)
    weight: dict[tuple[int, int], float] = defaultdict(float)
    for u, v, conductance in zip(records.u, records.v, records.conductance, strict=True):
        degree[int(u)] += conductance
        degree[int(v)] += conductance
        weight[int(min(u, v)), int(max(u, v))] += conductance
    kept = [
        min(1.0, copies * each * (1.0 / degree[u] + 1.0 / degree[v]))
        for (u, v), each in weight.items()
    ]
    return float(np.mean(kept))


@pytest.mark.parametrize("copies", [1.0, 5.0, 50.0])
def test_the_share_is_that_of_merged_edges(copies: float) -> None:
    records = records_of(rings(30, 10, seed=0))
    chunks = [records.part(0, 500), records.part(500, records.n_records)]
    assert survivor_share(chunks, n_nodes=300, copies=copies) == pytest.approx(
        share_by_hand(records, copies), rel=1e-6
    )


def test_a_sample_of_pairs_says_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = random_graph(600, 0.3, seed=1)
    whole = survivor_share([records_of(edges)], n_nodes=600, copies=40.0)
    monkeypatch.setattr(survivor_estimate, "_SAMPLE_RECORDS", 1 << 12)
    assert survivor_share([records_of(edges)], n_nodes=600, copies=40.0) == pytest.approx(
        whole, rel=0.01
    )


def test_pairs_are_estimated_by_the_sample_and_counted_where_all_are_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edges = random_graph(600, 0.3, seed=1)
    records = records_of(edges)
    turned = replace(records, u=records.v, v=records.u)
    assert estimated_pairs([records, turned]) == edges.n_edges
    monkeypatch.setattr(survivor_estimate, "_SAMPLE_RECORDS", 1 << 12)
    estimate = estimated_pairs([records, turned])
    assert estimate != edges.n_edges
    assert estimate == pytest.approx(edges.n_edges, rel=0.05)
    assert estimated_pairs([]) == 0.0


def test_a_buffer_without_edges_keeps_all() -> None:
    assert survivor_share([], n_nodes=3, copies=1.0) == 1.0


def test_rings_are_published_whole_and_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = rings(200, 20, seed=2)
    settings = SparsifierSettings(epsilon=0.7, expected_nodes=edges.n_nodes)
    state = SparsifierState(chunks=(records_of(edges),), n_nodes=edges.n_nodes, n_blocks=1)
    assert state.n_records > sparsifier.expected_size(settings, edges.n_nodes) * 0.55
    monkeypatch.setattr(sparsifier, "thin", None)  # an embedding would fail
    published = thinned(state, settings)
    graph = sparsifier_graph(published)
    whole = sparsifier_graph(sparsified(edges, settings))
    assert published is state
    assert graph.n_edges < 0.8 * state.n_records
    assert (graph.adjacency != whole.adjacency).nnz == 0


def test_dense_graphs_are_thinned_and_max_edges_is_kept_to() -> None:
    dense = random_graph(300, 0.5, seed=0)
    settings = SparsifierSettings(epsilon=0.9, expected_nodes=dense.n_nodes)
    state = SparsifierState(chunks=(records_of(dense),), n_nodes=dense.n_nodes, n_blocks=1)
    assert thinned(state, settings).n_records < 0.7 * state.n_records
    few = rings(200, 20, seed=3)
    bounded = SparsifierSettings(epsilon=0.7, expected_nodes=few.n_nodes, max_edges=8_000)
    state = SparsifierState(chunks=(records_of(few),), n_nodes=few.n_nodes, n_blocks=1)
    assert thinned(state, bounded).n_records <= 8_000
