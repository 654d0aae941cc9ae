"""Certificates against the dense spectrum of the pencil, and what becomes of a run that ends."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.streaming.edges.node_kinds import UNTYPED, NodeKind
from peewit.streaming.passes.certificate_store import (
    Certificate,
    CertificateStore,
    CertifySettings,
    epsilon_between,
)
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.edge_passes import PassStopped, RawEdgesGone
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore
from tests.reference.pencil import pencil_spectrum, spectral_epsilon
from tests.streaming.graphs import (
    EdgeList,
    core_with_paths,
    heavy_tailed,
    merged_edges,
    random_graph,
    two_communities,
)
from tests.streaming.streamed import RawFile, StreamedGraph, streamed

TIGHT = CertifySettings(gap=0.02)


def raw_file(edges: EdgeList) -> RawFile:
    return RawFile(u=edges.u, v=edges.v, weight=edges.weight.astype(np.float32))


def ingested(
    directory: Path, files: list[RawFile], *, kind: NodeKind = "dense", **changes: Any
) -> StreamedGraph:
    (directory / "data").mkdir()
    for number, file in enumerate(files):
        file.write(directory / "data" / f"{number}.parquet", kind)
    return streamed(directory / "graph", directory / "data", kind, **changes)


def kept(graph: StreamedGraph) -> Graph:
    return SnapshotStore(graph.paths.snapshots).load(graph.meta.number).graph


GRAPHS: dict[str, Callable[[], EdgeList]] = {
    "random": lambda: random_graph(220, 0.8, 1),
    "communities": lambda: two_communities(220, 0.9, 5, 2),
    "heavy": lambda: heavy_tailed(200, 0.8, 3),
    "core with paths": lambda: core_with_paths(150, 6, 12, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_certificate_encloses_the_true_accuracy(tmp_path: Path, name: str) -> None:
    file = raw_file(GRAPHS[name]())
    # So small a bound that edges must go.
    graph = ingested(tmp_path, [file], epsilon=0.9, expected_nodes=220, max_edges=6_000)
    raw = graph.raw_graph([file])
    assert graph.meta.edges_kept < raw.n_edges
    found = certify(graph.paths, 1, TIGHT)
    truth, spectrum = spectral_epsilon(kept(graph), raw), pencil_spectrum(kept(graph), raw)
    assert found.status == "converged"
    assert found.epsilon_least is not None
    assert found.epsilon_certified is not None
    assert found.epsilon_least <= truth * (1 + 1e-9) <= found.epsilon_certified * (1 + 2e-9)
    assert found.epsilon_certified <= 1.02 * found.epsilon_least + 1e-3
    assert found.outer_min is not None
    assert found.ritz_min is not None
    assert found.outer_min <= spectrum[0] * (1 + 1e-9) <= found.ritz_min * (1 + 2e-9)
    assert found.ritz_max is not None
    assert found.outer_max is not None
    assert found.ritz_max <= spectrum[-1] * (1 + 1e-9) <= found.outer_max * (1 + 2e-9)
    assert found.n_edges == len(file.u)
    assert found.n_passes <= TIGHT.passes
    assert CertificateStore(graph.paths.snapshots).get(1) == found


@pytest.mark.parametrize("kind", UNTYPED)
def test_graph_that_was_kept_whole_is_certified_exact(tmp_path: Path, kind: NodeKind) -> None:
    """Disconnected, with parallel edges in both orientations, self-loops and an isolated node."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 20, (2, 150))
    part = 20 * rng.integers(0, 3, 150)
    loop = np.array([60])
    files = [
        RawFile(u=ends[0] + part, v=ends[1] + part, weight=rng.uniform(0.1, 9, 150)),
        RawFile(u=loop, v=loop, weight=np.ones(1)),
        RawFile(u=ends[1] + part, v=ends[0] + part, weight=rng.pareto(1.1, 150) + 0.01),
    ]
    graph = ingested(tmp_path, files, kind=kind, epsilon=0.1)
    found = certify(graph.paths, 1)
    assert (found.status, found.epsilon_least) == ("converged", pytest.approx(0.0, abs=1e-6))
    assert found.epsilon_certified == pytest.approx(0.0, abs=1e-3)
    assert found.n_passes == 2


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6), st.integers(2, 6))
def test_any_reweighted_graph_is_certified_right(
    tmp_path_factory: pytest.TempPathFactory, seed: int, density: float, n_vectors: int
) -> None:
    """The snapshot replaced by an arbitrary graph of the same edges."""
    edges = random_graph(40, density, seed)
    file = raw_file(edges)
    graph = ingested(tmp_path_factory.mktemp("any"), [file])
    raw = graph.raw_graph([file])
    u, v, weight = raw.edges()
    factor = np.random.default_rng(seed).uniform(0.3, 3.0, len(weight))
    other = Graph.from_edges(u, v, weight * factor, n_nodes=raw.n_nodes)
    replace_snapshot(graph, other)
    asked = CertifySettings(n_vectors=n_vectors, seed=seed, probability=1 - 1e-6, gap=0.01)
    found = certify(graph.paths, 1, asked)
    truth = spectral_epsilon(other, raw)
    assert found.epsilon_least is not None
    assert found.epsilon_certified is not None
    assert found.epsilon_least - 1e-7 <= truth <= found.epsilon_certified + 1e-7
    assert found.status == "converged"


def replace_snapshot(graph: StreamedGraph, other: Graph) -> None:
    store = SnapshotStore(graph.paths.snapshots)
    meta = replace(store.meta(1), n_nodes=other.n_nodes)
    shutil.rmtree(graph.paths.snapshots)
    store.publish_records(meta, [merged_edges(other)])


@pytest.mark.parametrize("lost", ["sparsifier", "raw"])
def test_other_components_are_a_status_and_no_figure(tmp_path: Path, lost: str) -> None:
    apart = [np.array([0, 1, 3, 4]), np.array([1, 2, 4, 5])]
    joined = [np.array([0, 1, 2, 3, 4]), np.array([1, 2, 3, 4, 5])]
    raw, other = (joined, apart) if lost == "sparsifier" else (apart, joined)
    graph = ingested(tmp_path, [RawFile(u=raw[0], v=raw[1], weight=np.ones(len(raw[0])))])
    replace_snapshot(graph, Graph.from_edges(*other, np.ones(len(other[0])), n_nodes=6))
    found = certify(graph.paths, 1)
    assert (found.status, found.epsilon_certified, found.outer_max) == (
        "components-differ",
        None,
        None,
    )
    assert found.n_passes == 1


@pytest.mark.slow
def test_too_few_passes_are_a_status_with_bounds_that_hold(tmp_path: Path) -> None:
    file = raw_file(GRAPHS["random"]())
    graph = ingested(tmp_path, [file], epsilon=0.9, expected_nodes=220, max_edges=6_000)
    found = certify(graph.paths, 1, CertifySettings(passes=4, n_vectors=2, gap=0.01))
    assert (found.status, found.n_passes) == ("max-passes", 4)
    assert "raise passes" in found.message
    truth = spectral_epsilon(kept(graph), graph.raw_graph([file]))
    assert found.epsilon_certified is None or truth <= found.epsilon_certified
    better = certify(graph.paths, 1)
    assert better.status == "converged"
    certify(graph.paths, 1, CertifySettings(passes=2))
    assert CertificateStore(graph.paths.snapshots).get(1) == better


@pytest.fixture
def certifiable(tmp_path: Path) -> StreamedGraph:
    """Needs several passes."""
    files = [raw_file(random_graph(120, 0.9, seed)) for seed in range(3)]
    return ingested(tmp_path, files, kind="string", expected_nodes=120, max_edges=3_000)


def outcome(certificate: Certificate) -> Certificate:
    """What does not depend on the clock."""
    return replace(certificate, seconds=0.0, created_at=0.0)


@pytest.mark.slow
def test_threads_change_nothing(certifiable: StreamedGraph) -> None:
    found = [outcome(certify(certifiable.paths, 1, n_threads=n)) for n in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


@dataclass(kw_only=True)
class Stopper:
    """Lets a run go on for a few phases only."""

    n_phases: int
    seen: list[ProgressReport] = field(default_factory=list)

    def __call__(self, report: ProgressReport) -> None:
        self.seen.append(report)

    def is_enough(self) -> bool:
        return len({report.phase for report in self.seen}) > self.n_phases


@pytest.mark.slow
def test_stopped_in_every_phase_and_started_again_it_ends_as_the_unbroken_run(
    certifiable: StreamedGraph,
) -> None:
    expected = outcome(certify(certifiable.paths, 1))
    shutil.rmtree(certifiable.paths.root / "spool")
    n_stops = 0
    while n_stops < 60:
        run = Stopper(n_phases=6)
        try:
            found = certify(certifiable.paths, 1, progress=run, cancelled=run.is_enough)
        except PassStopped:
            n_stops += 1
            continue
        break
    # but for the rounding of sums over the basis, which is read back in one piece
    pairs = zip(asdict(outcome(found)).items(), asdict(expected).items(), strict=True)
    for (name, value), (_, wanted) in pairs:
        assert value == (
            pytest.approx(wanted, rel=1e-6) if isinstance(wanted, float) else wanted
        ), name
    assert n_stops >= 2
    assert all(0.0 <= report.fraction <= 1.0 for report in run.seen)
    assert not list((certifiable.paths.root / "certify").iterdir())


def test_equal_runs_at_once_do_not_disturb_each_other(certifiable: StreamedGraph) -> None:
    others: list[Certificate] = []

    def run_another(report: ProgressReport) -> None:
        if report.phase == "pass 3" and not others:
            others.append(certify(certifiable.paths, 1, owner="b"))

    found = certify(certifiable.paths, 1, owner="a", progress=run_another)
    assert [outcome(other) for other in others] == [outcome(found)]
    assert not list((certifiable.paths.root / "certify").iterdir())


def test_a_stopped_run_is_gone_on_with_by_the_next_owner(certifiable: StreamedGraph) -> None:
    stopped = Stopper(n_phases=8)
    with pytest.raises(PassStopped):
        certify(certifiable.paths, 1, owner="a", progress=stopped, cancelled=stopped.is_enough)
    following = Stopper(n_phases=0)
    certify(certifiable.paths, 1, owner="b", progress=following)
    assert "start" in {report.phase for report in stopped.seen}
    assert "start" not in {report.phase for report in following.seen}
    assert not list((certifiable.paths.root / "certify").iterdir())


def test_missing_file_fails_and_leaves_neither_certificate_nor_work(
    certifiable: StreamedGraph, tmp_path: Path
) -> None:
    (tmp_path / "data" / "1.parquet").unlink()
    with pytest.raises(RawEdgesGone, match=r"got 1 files .*1\.parquet: it is missing"):
        certify(certifiable.paths, 1)
    assert CertificateStore(certifiable.paths.snapshots).get(1) is None
    assert not list((certifiable.paths.root / "certify").iterdir())


@pytest.mark.parametrize("keep_raw", [True, False])
def test_raw_edges_stay_only_where_they_are_to_be_kept(
    certifiable: StreamedGraph, keep_raw: bool
) -> None:
    certify(certifiable.paths, 1, keep_raw=keep_raw)
    spool = certifiable.paths.root / "spool"
    assert spool.exists() is keep_raw
    assert not list((certifiable.paths.root / "certify").iterdir())


def test_unknown_snapshot_is_named(certifiable: StreamedGraph) -> None:
    with pytest.raises(SnapshotNotFound, match="no snapshot 9, the newest is 1"):
        certify(certifiable.paths, 9)
    with pytest.raises(SnapshotNotFound, match="no snapshot 9"):
        CertificateStore(certifiable.paths.snapshots).get(9)


@pytest.mark.parametrize(
    ("smallest", "greatest", "epsilon"),
    [
        (1.0, 1.0, 0.0),
        (0.5, 1.0, 1.0),
        (1.0, 2.0, 0.5),
        (0.8, 1.25, 0.25),
        (0.0, 1.0, np.inf),
        (-1.0, 1.0, np.inf),
        (0.5, np.inf, 1.0),
        (1.5, 1.6, 0.375),
    ],
)
def test_epsilon_covers_both_ends_of_the_inverse_pencil(
    smallest: float, greatest: float, epsilon: float
) -> None:
    assert epsilon_between(smallest, greatest) == pytest.approx(epsilon)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("passes", 1, "passes must be at least 2, got 1"),
        ("passes", 2.5, "passes must be an integer, got 2.5"),
        ("n_vectors", True, "n_vectors must be an integer, got True"),
        ("gap", 1.0, r"gap must lie in \(0, 1\), got 1.0"),
        ("probability", "much", "probability must be a number, got 'much'"),
        ("seed", -1, "seed must be at least 0, got -1"),
    ],
)
def test_wrong_settings_are_named(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CertifySettings(**{field: value})
