"""Passes on dask workers: the bits of threads, from one worker and two, or what went wrong."""

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from peewit.solvers.arrays import AnyArray
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.cluster.dask_folds import DaskExecutor
from peewit.streaming.edges.node_kinds import UNTYPED, NodeKind
from peewit.streaming.passes.certificate_store import Certificate, CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.edge_passes import PassStopped, RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import RawEdges
from tests.streaming.clusters import cluster_of, kill_one_that_works, scheduler_process
from tests.streaming.streamed import StreamedGraph, random_file, streamed

pytestmark = pytest.mark.usefixtures("processes")

N_FILES = 3


@pytest.fixture(scope="module")
def addresses(processes: None) -> Iterator[list[str]]:
    """Schedulers of one worker, and of two."""
    with cluster_of(1) as one, cluster_of(2) as two:
        yield [one.scheduler_address, two.scheduler_address]


@pytest.fixture(scope="module")
def executors(addresses: list[str]) -> Iterator[list[DaskExecutor]]:
    with DaskExecutor(addresses[0]) as one, DaskExecutor(addresses[1]) as two:
        yield [one, two]


@pytest.fixture
def graph(tmp_path: Path, request: pytest.FixtureRequest) -> StreamedGraph:
    kind: NodeKind = getattr(request, "param", "dense")
    (tmp_path / "data").mkdir()
    for seed in range(N_FILES):
        random_file(seed, n_rows=9_000).write(tmp_path / "data" / f"{seed}.parquet", kind)
    return streamed(tmp_path / "graph", tmp_path / "data", kind)


every_kind = pytest.mark.parametrize("graph", UNTYPED, indirect=True)


def opened(graph: StreamedGraph, executor: DaskExecutor | None = None) -> RawEdges:
    edges = graph.raw_edges(executor=executor)
    edges.open()
    return edges


def vectors(graph: StreamedGraph, n_columns: int) -> AnyArray:
    return np.random.default_rng(n_columns).standard_normal((graph.meta.n_nodes, n_columns))


@every_kind
@pytest.mark.parametrize("n_columns", [1, 6])
def test_products_have_the_bits_of_threads(
    graph: StreamedGraph, n_columns: int, executors: list[DaskExecutor]
) -> None:
    block = vectors(graph, n_columns)
    expected = opened(graph).laplacian_product(block)
    for executor in executors:
        edges = opened(graph, executor)
        fractions: list[float] = []
        for _ in range(2):
            product = edges.laplacian_product(block, on_fraction=fractions.append)
            assert product.tobytes() == expected.tobytes()
        assert fractions[-1] == 1.0
        assert all(0.0 < fraction <= 1.0 for fraction in fractions)


@every_kind
def test_degrees_and_components_are_those_of_threads(
    graph: StreamedGraph, executors: list[DaskExecutor]
) -> None:
    here = opened(graph)
    degrees, components = here.degrees(), here.components()
    for executor in executors:
        there = opened(graph, executor)
        found = there.degrees()
        assert found.weight.tobytes() == degrees.weight.tobytes()
        assert np.array_equal(found.n_edges, degrees.n_edges)
        joined = there.components()
        assert joined.n_edges == components.n_edges == here.n_edges
        assert joined.n_components == components.n_components
        assert np.array_equal(joined.component, components.component)


def test_a_row_group_cut_into_spans_changes_no_bit(
    tmp_path: Path, executors: list[DaskExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.streaming.passes.edge_folds.SHARE_ROWS", 2_000)
    random_file(5, n_rows=20_000).write(tmp_path / "a.parquet", "dense", row_group_size=15_000)
    graph = streamed(tmp_path / "graph", tmp_path / "a.parquet", "dense")
    block = vectors(graph, 3)
    products = [
        opened(graph, executor).laplacian_product(block).tobytes()
        for executor in (None, *executors)
    ]
    assert products == products[:1] * 3
    assert np.allclose(
        np.frombuffer(products[0]).reshape(block.shape),
        opened(graph).laplacian_product(np.eye(graph.meta.n_nodes)) @ block,
    )


def same_but_for_the_time(found: Certificate) -> dict[str, object]:
    values = {name: getattr(found, name) for name in Certificate.__slots__}
    return values | {"seconds": None, "created_at": None}


def test_certificates_are_those_of_threads(graph: StreamedGraph, addresses: list[str]) -> None:
    found = [
        certify(graph.paths, 1, CertifySettings(gap=0.5), n_threads=2, scheduler=scheduler)
        for scheduler in (None, *addresses)
    ]
    assert found[0].n_passes > 2
    assert [same_but_for_the_time(each) for each in found] == 3 * [same_but_for_the_time(found[0])]


def test_a_worker_killed_in_a_pass_changes_nothing(graph: StreamedGraph) -> None:
    block = vectors(graph, 4)
    expected = opened(graph).laplacian_product(block).tobytes()
    killed: list[int] = []
    with cluster_of(2) as cluster, DaskExecutor(cluster.scheduler_address) as executor:
        edges = opened(graph, executor)
        killer = threading.Thread(target=kill_one_that_works, args=(cluster, killed))
        killer.start()
        while killer.is_alive():
            assert edges.laplacian_product(block).tobytes() == expected
        assert edges.laplacian_product(block).tobytes() == expected
    assert killed


@pytest.mark.parametrize("n_looks", [0, 1, 2])
def test_a_pass_that_is_stopped_has_no_answer_and_the_next_one_has(
    graph: StreamedGraph, executors: list[DaskExecutor], n_looks: int
) -> None:
    block = vectors(graph, 4)
    expected = opened(graph).laplacian_product(block)
    n_asked = 0

    def cancelled() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > n_looks

    for executor in executors:
        edges = opened(graph, executor)
        n_asked = 0
        with pytest.raises(PassStopped):
            edges.laplacian_product(block, cancelled=cancelled)
        assert np.array_equal(edges.laplacian_product(block), expected)


def test_files_that_are_gone_or_changed_are_told_as_in_threads(
    graph: StreamedGraph, executors: list[DaskExecutor], tmp_path: Path
) -> None:
    block = vectors(graph, 1)
    path = tmp_path / "data" / "1.parquet"
    edges = opened(graph, executors[1])
    edges.laplacian_product(block)
    path.rename(tmp_path / "away")
    with pytest.raises(RawEdgesGone, match=r"1\.parquet: it is missing") as caught:
        edges.laplacian_product(block)
    assert [name for name, _ in caught.value.files] == [str(path)]
    with pytest.raises(RawEdgesGone, match="it is missing"):
        opened(graph, executors[1])


def test_files_that_workers_do_not_see_are_named_with_the_rule(
    tmp_path: Path, executors: list[DaskExecutor]
) -> None:
    random_file(0).write(tmp_path / "edges.parquet", "dense")
    with (tmp_path / "edges.parquet").open("rb") as open_here:
        # so high that no worker has one of that number
        descriptor = fcntl.fcntl(open_here.fileno(), fcntl.F_DUPFD, 910)
        path = f"/proc/self/fd/{descriptor}"
        with os.fdopen(descriptor, "rb"):
            graph = streamed(tmp_path / "graph", path, "dense")
            edges = opened(graph, executors[1])
            with pytest.raises(ClusterError, match=f"dask workers must see {path}, which this"):
                edges.laplacian_product(vectors(graph, 1))


@pytest.mark.parametrize("graph", ["string"], indirect=True)
def test_a_spool_that_is_gone_is_told(graph: StreamedGraph, executors: list[DaskExecutor]) -> None:
    edges = opened(graph, executors[0])
    for path in (graph.paths.root / "spool").iterdir():
        path.unlink()
    with pytest.raises(RawEdgesGone, match=r"No such file or directory: .*spool"):
        edges.laplacian_product(vectors(graph, 1))


def test_a_lost_scheduler_ends_a_certificate_which_goes_on_without_it(graph: StreamedGraph) -> None:
    settings = CertifySettings(gap=0.5)
    whole = same_but_for_the_time(certify(graph.paths, 1, settings))
    with scheduler_process() as (scheduler, address):
        phases: list[str] = []

        def kill_at_the_third_pass(report: object) -> None:
            phases.append(str(getattr(report, "phase", "")))
            if phases[-1] == "pass 3":
                scheduler.kill()
                scheduler.wait(timeout=30)

        with pytest.raises(ClusterError, match=r"is lost; nothing of the work in hand is kept"):
            certify(
                graph.paths,
                1,
                settings,
                owner="me",
                scheduler=address,
                progress=kill_at_the_third_pass,
            )
    later: list[str] = []
    found = certify(
        graph.paths, 1, settings, owner="me", progress=lambda report: later.append(report.phase)
    )
    assert same_but_for_the_time(found) == whole
    assert "pass 2" not in later
    assert "pass 3" in later
