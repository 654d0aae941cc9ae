"""Proofs of labels of `auto` against dense columns of all edges and the same weights (P5)."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.walks.walk_rows import looped_degrees
from peewit.solvers.models.auto import proof_rounds
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.columns_of_all_edges import ColumnsOfAllEdges
from peewit.solvers.models.auto.density_arm import EVERYWHERE, TELEPORT
from peewit.solvers.models.auto.poisson_arm import Bend
from peewit.solvers.models.auto.proven_stack import Interval, Stacked, _softmax, proven_labels
from peewit.solvers.models.auto.stacked_arm import SHARE
from peewit.solvers.models.contract.provable_model import Proof
from peewit.solvers.proof import bounded_system
from peewit.solvers.proof.spectral_ends import SpectralEnds
from peewit.solvers.solution import Solution
from tests.reference.laplacian import dense_laplacian
from tests.solvers.proof.test_label_proof import Case, drawn_case, proof_of


class Watched(NamedTuple):
    solution: Solution
    proof: Proof
    stacked: Stacked
    columns: ColumnsOfAllEdges


def watched_proof(case: Case, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Watched:
    """A proof, and what its last round judged."""
    seen: list[tuple[Stacked, ColumnsOfAllEdges]] = []

    def note(stacked: Stacked, columns: ColumnsOfAllEdges, *bounded: Any) -> Any:
        seen.append((stacked, columns))
        return proven_labels(stacked, columns, *bounded)

    monkeypatch.setattr(proof_rounds, "proven_labels", note)
    monkeypatch.setattr(bounded_system, "N_PROBES", 16)  # looser, as true, and cheaper
    solution, proof = proof_of(Auto(**how.pop("model", {})), case, **how)
    return Watched(solution, proof, *seen[-1])


def exact_values(case: Case, watched: Watched) -> dict[str, FloatArray]:
    """Values of the linear arms by dense algebra on all edges."""
    graph, labels, task = case.full, case.labels, watched.stacked.poisson.task
    laplacian, targets = dense_laplacian(graph), labels.targets()
    sources = np.zeros((graph.n_nodes, labels.n_classes))
    sources[labels.nodes] = targets - task.means[task.component[labels.nodes]]
    potentials = np.linalg.pinv(laplacian, rcond=1e-13, hermitian=True) @ sources
    degree = graph.degree
    for number in range(graph.n_components):
        own = graph.component == number
        potentials[own] -= np.average(potentials[own], axis=0, weights=degree[own])
    potentials *= degree.mean()
    lacks = task.lacks[task.component]
    lowest = np.where(lacks, np.inf, potentials).min(axis=1, keepdims=True)
    potentials = np.where(lacks, lowest, potentials)
    potentials[~task.reachable] = 0.0
    bend = Bend.made(watched.stacked.poisson.scores, task.reachable)[0]
    values = {"poisson": bend.values(potentials - potentials.mean(axis=1, keepdims=True))}
    looped = looped_degrees(degree, np.diff(graph.adjacency.indptr))
    matrix = (1 - TELEPORT) * laplacian + TELEPORT * np.diag(looped)
    on_nodes = np.zeros_like(sources)
    on_nodes[labels.nodes] = targets
    densities = looped.sum() * TELEPORT * np.linalg.solve(matrix, on_nodes) / targets.sum(axis=0)
    values["density"] = np.log(densities + EVERYWHERE)
    if "harmonic" in watched.stacked.arms:
        held = np.zeros(graph.n_nodes, bool)
        held[labels.nodes] = True
        shares = on_nodes.copy()
        pull = -laplacian[np.ix_(~held, held)] @ on_nodes[held]
        free = laplacian[np.ix_(~held, ~held)]
        shares[~held] = np.linalg.lstsq(free, pull, rcond=None)[0]
        values["harmonic"] = np.log(np.maximum(shares, 0.0) + SHARE)
    return values


def exact_classes(case: Case, watched: Watched) -> np.ndarray:
    """Classes by exact linear arms, with all that was judged as it was."""
    stacked = watched.stacked
    values = {name: np.asarray(arm.values, np.float64) for name, arm in stacked.arms.items()}
    values |= exact_values(case, watched)
    mixed = []
    for stack in (stacked.stack.far, stacked.stack.near):
        probabilities = np.zeros((case.full.n_nodes, case.labels.n_classes))
        for weight, fit in stack.counted():
            logits = np.tile(fit.intercept, (case.full.n_nodes, 1))
            logits += stacked.covariate[:, None] * fit.slope
            logits += stack.shares.of_all if fit.uses_shares else 0.0
            for name, own in fit.weights.items():
                logits += own * stacked.arms[name].scale * values[name]
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            probabilities += weight * shares / shares.sum(axis=1, keepdims=True)
        mixed.append(probabilities)
    is_near = stacked.stack.coverage.is_near[:, None]
    weighed = np.where(is_near, mixed[1], mixed[0]) * stacked.factors
    weighed /= weighed.sum(axis=1, keepdims=True)
    rule = watched.solution.decision
    return (weighed if rule is None else rule.values(weighed)).argmax(axis=1)


def usable_case(seed: int) -> Case:
    """Without weights far apart, whose potentials fractions alone would tell."""
    first = 40 * seed
    return next(
        case
        for case in map(drawn_case, range(first, first + 40))
        if case.full.weight_spread <= 1e4 and case.labels.n_classes > 1
    )


@pytest.mark.parametrize(("most_unproven", "objective"), [(0.6, "accuracy"), (0.0, "macro-f1")])
def test_no_label_is_proven_that_exact_columns_contradict(
    monkeypatch: pytest.MonkeyPatch, most_unproven: float, objective: str
) -> None:
    n_proven = 0
    for seed in range(2):
        case = usable_case(seed)
        watched = watched_proof(
            case,
            monkeypatch,
            most_unproven=most_unproven,
            max_passes=100,
            model={"objective": objective},
        )
        is_wrong = exact_classes(case, watched) != watched.solution.classes()
        assert not (is_wrong & watched.proof.is_proven).any()
        n_proven += watched.proof.n_proven
    assert n_proven > 0


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(10, 60, 10))
def test_no_label_of_many_draws_is_proven_wrongly(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    for seed in range(first, first + 10):
        case = usable_case(seed)
        watched = watched_proof(case, monkeypatch, max_passes=[11, 20, 60][seed % 3])
        is_wrong = exact_classes(case, watched) != watched.solution.classes()
        assert not (is_wrong & watched.proof.is_proven).any()


def blocks(n_nodes: int, n_edges: int, seed: int) -> tuple[Graph, np.ndarray]:
    """Four blocks that a third of the edges tell apart."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n_nodes, (2, n_edges))
    v = np.where(rng.random(n_edges) < 0.35, v // 4 * 4 + u % 4, v)
    return Graph.from_edges(u, v, np.ones(n_edges), n_nodes=n_nodes), np.arange(n_nodes) % 4


@pytest.mark.slow
def test_walks_of_a_refined_answer_go_along_all_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the edges says little; all of them say all."""
    full, classes = blocks(200, 6_000, 0)
    u, v, weight = full.edges()
    stays = np.random.default_rng(1).random(u.size) < 0.15
    kept = Graph.from_edges(u[stays], v[stays], weight[stays] / 0.15, n_nodes=200)
    assert kept.n_components == 1
    nodes = np.arange(0, 200, 5)
    labels = drawn_case(0).labels.from_pairs(nodes, classes[nodes])
    case = Case(full, kept, labels, 1.0, 100, knows_ends=False)
    watched = watched_proof(case, monkeypatch, most_unproven=0.01, max_passes=100)
    model = Auto()
    before = model.solve(model.prepare(kept), labels).classes()
    assert (before == classes).mean() < 0.8
    assert (watched.solution.classes() == classes).mean() > 0.97
    assert watched.solution.stats["walks_on"] == "all edges"
    assert watched.proof.share >= 0.99


def test_where_nothing_is_known_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    case = usable_case(0)
    unknown = SpectralEnds(low=0.0, high=np.inf, failure=0.005)
    watched = watched_proof(case, monkeypatch, known_ends=unknown, max_passes=60)
    assert watched.proof.n_proven == 0


def test_shares_of_unknown_logits_may_be_anything() -> None:
    low = np.array([[0.0, -np.inf, 1.0], [-np.inf] * 3, [0.0, 1.0, 2.0]])
    high = np.array([[0.0, np.inf, 1.0], [np.inf] * 3, [0.0, 1.0, 2.0]])
    shares = _softmax(Interval(low, high))
    assert shares.low[0] == pytest.approx([0.0, 0.0, 0.0])
    others = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    assert shares.high[0] == pytest.approx([others[0], 1.0, others[1]])
    assert shares.low[1] == pytest.approx([0.0] * 3)
    assert shares.high[1] == pytest.approx([1.0] * 3)
    exact = np.exp(low[2]) / np.exp(low[2]).sum()
    assert shares.low[2] == pytest.approx(exact)
    assert shares.high[2] == pytest.approx(exact)
