"""Passes over raw edges: the Laplacian of exactly what was ingested, or the files that are gone."""

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import fsspec
import numpy as np
import pytest

from peewit.streaming.edges.node_kinds import UNTYPED, NodeKind
from peewit.streaming.passes.edge_folds import LANE_BYTES, n_lanes, product_bytes
from peewit.streaming.passes.edge_passes import PassStopped, RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import RawEdges
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from tests.reference.laplacian import dense_laplacian
from tests.streaming.streamed import RawFile, StreamedGraph, random_file, streamed

N_FILES = 3


def write_files(directory: Path, kind: NodeKind, files: Sequence[RawFile]) -> None:
    directory.mkdir(exist_ok=True)
    for number, file in enumerate(files):
        file.write(directory / f"{number}.parquet", kind)


def opened(edges: RawEdges) -> RawEdges:
    edges.open()
    return edges


def vectors(n_nodes: int, n_columns: int) -> np.ndarray:
    return np.random.default_rng(n_columns).standard_normal((n_nodes, n_columns))


@pytest.fixture
def files() -> list[RawFile]:
    return [random_file(seed) for seed in range(N_FILES)]


@pytest.fixture
def graph(tmp_path: Path, kind: NodeKind, files: list[RawFile]) -> StreamedGraph:
    write_files(tmp_path / "data", kind, files)
    return streamed(tmp_path / "graph", tmp_path / "data", kind)


every_kind = pytest.mark.parametrize("kind", UNTYPED)
dense_only = pytest.mark.parametrize("kind", ["dense"])
string_only = pytest.mark.parametrize("kind", ["string"])


@every_kind
@pytest.mark.parametrize("n_columns", [0, 1, 4, 6])
def test_product_is_that_of_the_dense_laplacian(
    graph: StreamedGraph, files: list[RawFile], n_columns: int
) -> None:
    block = vectors(graph.meta.n_nodes, n_columns)
    product = opened(graph.raw_edges()).laplacian_product(block)
    expected = dense_laplacian(graph.raw_graph(files)) @ block
    assert np.allclose(product, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max(initial=0))


@every_kind
def test_degrees_are_those_of_all_edges(graph: StreamedGraph, files: list[RawFile]) -> None:
    found = [opened(graph.raw_edges(n_threads=n)).degrees() for n in (1, 2)]
    assert np.array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0].weight, graph.raw_graph(files).degree, rtol=1e-12)
    n_edges = np.zeros(graph.meta.n_nodes, np.int64)
    for file in files:
        is_edge = file.u != file.v
        for ends in (file.u, file.v):
            np.add.at(n_edges, graph._dense(ends[is_edge]), 1)
    np.testing.assert_array_equal(found[0].n_edges, n_edges)


@every_kind
def test_threads_and_spools_change_no_bit(graph: StreamedGraph) -> None:
    block = vectors(graph.meta.n_nodes, 4)
    first = opened(graph.raw_edges(n_threads=1))
    products = [first.laplacian_product(block), first.laplacian_product(block)]
    products += [
        opened(graph.raw_edges(n_threads=n_threads)).laplacian_product(block)
        for n_threads in (1, 2, 3)
    ]
    for product in products[1:]:
        assert np.array_equal(product, products[0])


@every_kind
def test_constants_map_to_exactly_zero(graph: StreamedGraph) -> None:
    block = np.full((graph.meta.n_nodes, 2), [1.0, 1e9])
    assert not opened(graph.raw_edges()).laplacian_product(block).any()


@every_kind
def test_older_snapshot_has_the_files_it_was_made_of(
    tmp_path: Path, files: list[RawFile], kind: NodeKind
) -> None:
    write_files(tmp_path / "data", kind, files[:2])
    streamed(tmp_path / "graph", tmp_path / "data", kind)
    write_files(tmp_path / "data", kind, files)
    graph = streamed(tmp_path / "graph", tmp_path / "data", kind)
    assert (graph.meta.number, graph.meta.n_files) == (2, 3)
    n_edges = [opened(graph.raw_edges(snapshot=number)).components().n_edges for number in (1, 2)]
    without_loops = [int(np.count_nonzero(file.u != file.v)) for file in files]
    assert n_edges == [sum(without_loops[:2]), sum(without_loops)]


@every_kind
def test_components_are_those_of_the_whole_graph(tmp_path: Path, kind: NodeKind) -> None:
    apart = RawFile(
        u=np.array([0, 1, 4, 5, 9, 9]), v=np.array([1, 2, 5, 6, 9, 8]), weight=np.ones(6)
    )
    joint = RawFile(u=np.array([6, 3]), v=np.array([2, 3]), weight=np.ones(2))
    write_files(tmp_path / "data", kind, [apart, joint])
    graph = streamed(tmp_path / "graph", tmp_path / "data", kind)
    found = opened(graph.raw_edges()).components()
    expected = graph.raw_graph([apart, joint])
    assert (found.n_edges, found.n_components) == (6, expected.n_components)
    same = found.component[:, None] == found.component[None, :]
    assert np.array_equal(same, expected.component[:, None] == expected.component[None, :])


@every_kind
def test_all_missing_files_are_named_before_any_work(graph: StreamedGraph, tmp_path: Path) -> None:
    gone = [tmp_path / "data" / f"{number}.parquet" for number in (0, 2)]
    for path in gone:
        path.unlink()
    with pytest.raises(RawEdgesGone, match="got 2 files that are not") as caught:
        graph.raw_edges().open()
    assert caught.value.files == tuple((str(path), "it is missing") for path in gone)
    assert not (graph.paths.root / "spool").exists()


@every_kind
def test_changed_file_is_found_by_its_content(
    graph: StreamedGraph, files: list[RawFile], tmp_path: Path
) -> None:
    path = tmp_path / "data" / "1.parquet"
    before = path.stat()
    changed = files[1].weight.copy()
    changed[0] *= 2
    RawFile(u=files[1].u, v=files[1].v, weight=changed).write(path, graph.kind)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(RawEdgesGone, match="content has changed since it was ingested") as caught:
        graph.raw_edges().open()
    assert [name for name, _ in caught.value.files] == [str(path)]


@every_kind
def test_file_that_was_only_touched_is_the_same_file(graph: StreamedGraph, tmp_path: Path) -> None:
    os.utime(tmp_path / "data" / "1.parquet", ns=(0, 0))
    opened(graph.raw_edges()).components()


@dense_only
@pytest.mark.parametrize("is_gone", [True, False])
def test_file_that_changes_between_passes_ends_the_next_one(
    graph: StreamedGraph, files: list[RawFile], tmp_path: Path, is_gone: bool
) -> None:
    edges = opened(graph.raw_edges())
    block = vectors(graph.meta.n_nodes, 1)
    edges.laplacian_product(block)
    path = tmp_path / "data" / "2.parquet"
    if is_gone:
        path.unlink()
    else:
        files[0].write(path, graph.kind)
    with pytest.raises(RawEdgesGone) as caught:
        edges.laplacian_product(block)
    assert [name for name, _ in caught.value.files] == [str(path)]


@dense_only
def test_file_that_changes_within_a_pass_spoils_it(graph: StreamedGraph, tmp_path: Path) -> None:
    edges = opened(graph.raw_edges())

    def touch(_fraction: float) -> None:
        os.utime(tmp_path / "data" / "0.parquet", ns=(0, 0))

    with pytest.raises(RawEdgesGone, match="changed since it was checked"):
        edges.laplacian_product(vectors(graph.meta.n_nodes, 1), on_fraction=touch)


@string_only
def test_spooled_files_need_no_source_any_more(graph: StreamedGraph, tmp_path: Path) -> None:
    block = vectors(graph.meta.n_nodes, 4)
    expected = opened(graph.raw_edges()).laplacian_product(block)
    for number in range(N_FILES):
        (tmp_path / "data" / f"{number}.parquet").unlink()
    assert np.array_equal(opened(graph.raw_edges()).laplacian_product(block), expected)


@dense_only
def test_local_dense_files_are_read_where_they_lie(graph: StreamedGraph) -> None:
    opened(graph.raw_edges()).components()
    assert not (graph.paths.root / "spool").exists()


@dense_only
def test_remote_dense_files_are_spooled_and_their_copies_go(
    tmp_path: Path, files: list[RawFile], kind: NodeKind
) -> None:
    url = f"memory://{uuid4().hex}"
    write_files(tmp_path / "data", kind, files)
    file_system = fsspec.filesystem("memory")
    file_system.put(str(tmp_path / "data"), url, recursive=True)
    graph = streamed(tmp_path / "graph", url, kind)
    block = vectors(graph.meta.n_nodes, 2)
    expected = dense_laplacian(graph.raw_graph(files)) @ block
    edges = opened(graph.raw_edges())
    file_system.rm(url, recursive=True)
    assert np.allclose(edges.laplacian_product(block), expected)
    assert len(list((graph.paths.root / "spool").iterdir())) == N_FILES
    assert list(graph.paths.staging.iterdir()) == []


@string_only
@pytest.mark.parametrize("stop_after", [0, 1, 2, 4, 6, 8])
def test_stopped_wherever_it_leaves_whole_spool_files_only(
    graph: StreamedGraph, files: list[RawFile], stop_after: int
) -> None:
    n_asked = 0

    def cancelled() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > stop_after

    with pytest.raises(PassStopped):
        graph.raw_edges().open(cancelled=cancelled)
    spool = graph.paths.root / "spool"
    left = [path.name for path in spool.iterdir()] if spool.exists() else []
    assert len(left) < N_FILES
    assert all(name.endswith(".arrow") and not name.startswith(".") for name in left)
    found = opened(graph.raw_edges()).components()
    assert found.n_edges == sum(int(np.count_nonzero(file.u != file.v)) for file in files)


@every_kind
def test_stopped_pass_gives_no_answer(graph: StreamedGraph) -> None:
    edges = opened(graph.raw_edges())
    block = vectors(graph.meta.n_nodes, 1)
    fractions: list[float] = []
    with pytest.raises(PassStopped):
        edges.laplacian_product(
            block, on_fraction=fractions.append, cancelled=lambda: len(fractions) > 1
        )
    edges.laplacian_product(block, on_fraction=fractions.append)
    assert fractions == sorted(fractions[:2]) + sorted(fractions[2:])
    assert 0.0 < fractions[0] < fractions[1] < fractions[-1] == 1.0


@string_only
def test_lost_checkpoint_is_told(graph: StreamedGraph) -> None:
    store = CheckpointStore(graph.paths.checkpoints)
    with pytest.raises(ValueError, match="the first 4 files of the graph, it knows 3"):
        store.first_files(4)


@dense_only
def test_wrong_arguments_are_named(graph: StreamedGraph) -> None:
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        graph.raw_edges(n_threads=0)
    with pytest.raises(ValueError, match=r"block must have shape \(60, k\), got \(60,\)"):
        graph.raw_edges().laplacian_product(np.ones(60))


@pytest.mark.slow
@dense_only
@pytest.mark.parametrize("n_columns", [4, 10])
def test_product_keeps_to_the_memory_that_is_told(
    tmp_path: Path, kind: NodeKind, n_columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.streaming.passes.edge_folds.SPAN_EDGES", 0)
    n_nodes = 100_000
    write_files(tmp_path / "data", kind, [random_file(0, n_nodes=n_nodes, n_rows=20_000)])
    graph = streamed(tmp_path / "graph", tmp_path / "data", kind)
    edges = opened(graph.raw_edges(n_threads=8))
    block = vectors(graph.meta.n_nodes, n_columns)
    tracemalloc.start()
    try:
        edges.laplacian_product(block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    told = product_bytes(graph.meta.n_nodes, n_columns) + block.nbytes
    assert told / 4 < peak < told + 2**20  # a mebibyte for blocks of 500 rows


@pytest.mark.parametrize(
    ("n_nodes", "expected"), [(0, 4), (1_000_000, 4), (6_000_000, 2), (10**8, 1)]
)
def test_lanes_stay_within_their_memory(n_nodes: int, expected: int) -> None:
    assert n_lanes(n_nodes) == expected
    assert expected == 1 or expected * 64 * n_nodes <= LANE_BYTES
