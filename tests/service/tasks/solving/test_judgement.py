"""What labels left out say, whom that speaks for, and that advice which is followed ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from peewit.service.tasks.labels_task import Origins
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.solving.assessment import add_cross_validation
from peewit.service.tasks.solving.judgement import judgement_of
from peewit.service.tasks.solving.solve_options import SolveOptions
from peewit.service.tasks.solving.state import Answered, LeaveOutPlan, Solving
from peewit.solvers.arrays import BoolArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson.poisson import Poisson

MODELS: list[Model] = [HFS(graph_penalty=0), StableHFS(), Poisson(), Auto(walks="anew")]
N_NODES = 2_000


def half_easy() -> tuple[Graph, Int64Array]:
    """Two classes; edges of the first thousand nodes join equal ones, of the others any two."""
    rng = np.random.default_rng(0)
    classes = np.arange(N_NODES) % 2
    u = rng.integers(0, N_NODES, 16_000)
    half = np.where(u < N_NODES // 2, 0, N_NODES // 2)
    v = half + rng.integers(0, N_NODES // 2, u.size)
    is_easy = (half == 0) & (rng.random(u.size) < 0.95)
    v = np.where(is_easy, v // 2 * 2 + u % 2, v)
    keep = u != v
    return Graph.from_edges(u[keep], v[keep], np.ones(keep.sum()), n_nodes=N_NODES), classes


def judgement(
    model: Model,
    made: tuple[Graph, Int64Array],
    nodes: Int64Array,
    is_random: BoolArray,
    *,
    holds_out: bool = True,
    is_thinned: bool = False,
    n_folds: int = 0,
) -> tuple[dict[str, Any], float]:
    """What is told, and the accuracy at the nodes without a label."""
    graph, classes = made
    order = np.argsort(nodes)
    nodes, is_random = nodes[order], is_random[order]
    labels = Labels.from_pairs(nodes, classes[nodes].tolist())
    prepared = model.prepare(graph)
    solution = model.solve(prepared, labels)
    origins = Origins(is_suggested=np.zeros(labels.n_labeled, bool), is_random=is_random)
    answer = Answered(
        model=model,
        prepared=prepared,
        snapshot=SimpleNamespace(graph=graph),  # type: ignore[arg-type]
        labels=labels,
        leave_out_plan=LeaveOutPlan.of(labels, origins, n_folds),
        solution=solution,
    )
    solving = Solving(
        task=SimpleNamespace(),  # type: ignore[arg-type]
        options=SolveOptions(cross_validate=n_folds),
        graphs=SimpleNamespace(),  # type: ignore[arg-type]
        graph=SimpleNamespace(),  # type: ignore[arg-type]
        stages=StageTimer(lambda _: None, lambda: False),
        is_random=is_random,
        first=answer,
        answer=answer,
    )
    if n_folds:
        add_cross_validation(solving)
    told = judgement_of(
        answer,
        solving.assessment,
        is_random,
        is_thinned=is_thinned,
        holds_out=holds_out,
        watch=solving.watch,
    )
    assert told is not None
    asked = np.ones(graph.n_nodes, bool)
    asked[nodes] = False
    found = (np.array(labels.class_names)[solution.scores.argmax(axis=1)] == classes)[asked]
    return told, float((found & solution.reachable[asked]).mean())


def picked_and_random(n_random: int) -> tuple[Int64Array, BoolArray]:
    """300 labels of the easy half, picked, and some of all nodes, at random."""
    rng = np.random.default_rng(1)
    picked = rng.choice(N_NODES // 2, 300, replace=False)
    others = np.setdiff1d(rng.permutation(N_NODES), picked, assume_unique=True)
    drawn = rng.choice(np.union1d(others, picked), N_NODES, replace=False)
    drawn = drawn[~np.isin(drawn, picked)][:n_random]
    nodes = np.concatenate([picked, drawn])
    return nodes, np.arange(nodes.size) >= picked.size


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_picked_labels_have_no_say_beside_enough_random_ones(model: Model) -> None:
    """The picked ones alone say that all is right, where two in five are."""
    made = half_easy()
    told, truth = judgement(model, made, *picked_and_random(0))
    assert told["low"] is None
    assert told["accuracy"] > truth + 0.5  # an interval around it would be silently wrong
    told, truth = judgement(model, made, *picked_and_random(250))
    assert told["only_random"]
    assert not told["are_all_random"]
    assert told["n_left_out"] == (250 if isinstance(model, Auto) else 50)
    assert told["sample"] == "random"
    assert told["low"] <= truth <= told["high"]


@pytest.mark.parametrize("n_folds", [0, 5])
def test_few_random_labels_promise_nothing(n_folds: int) -> None:
    nodes, is_random = picked_and_random(57)
    told, _ = judgement(Poisson(), half_easy(), nodes[270:], is_random[270:], n_folds=n_folds)
    assert told["n_random"] == 57
    if n_folds:  # all 57 are left out, as 50 of them are needed
        assert told["only_random"]
        assert told["n_left_out"] == 57
    else:  # 12 would be
        assert (told["sample"], told["low"]) == ("untested", None)


def test_fifty_random_labels_are_left_out_of_a_hundred() -> None:
    nodes, is_random = picked_and_random(100)
    told, _ = judgement(Poisson(), half_easy(), nodes[300:], is_random[300:])
    assert told["n_left_out"] == 50
    assert told["are_all_random"]


def test_who_follows_the_advice_is_told_no_more() -> None:
    """Labels two of three of which are frauds, then 200 random ones beside them."""
    rng = np.random.default_rng(0)
    n_nodes = 4_000
    classes = (rng.random(n_nodes) < 0.05).astype(np.int64)
    frauds, honest = np.flatnonzero(classes), np.flatnonzero(classes == 0)
    u = np.r_[rng.integers(0, n_nodes, 20_000), rng.choice(frauds, 800)]
    v = np.r_[rng.integers(0, n_nodes, 20_000), rng.choice(frauds, 800)]
    keep = u != v
    graph = Graph.from_edges(u[keep], v[keep], np.ones(keep.sum()), n_nodes=n_nodes)
    model, samples = Auto(walks="anew"), []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        first = np.r_[rng.choice(frauds, 100, False), rng.choice(honest, 50, False)]
        told, _ = judgement(model, (graph, classes), first, np.zeros(150, bool))
        assert told["sample"] == "biased"
        drawn = np.setdiff1d(rng.choice(n_nodes, 230, False), first)[:200]
        nodes = np.concatenate([first, drawn])
        told, truth = judgement(model, (graph, classes), nodes, np.arange(nodes.size) >= 150)
        samples.append(told["sample"])
        assert told["n_left_out"] >= 195
        assert told["accuracy"] == pytest.approx(truth, abs=0.08)
    assert samples.count("random") >= 3


def test_random_marks_on_labels_of_hubs_are_not_believed() -> None:
    made = half_easy()
    hubs = np.argsort(made[0].degree)[-120:]
    for model in (Poisson(), Auto(walks="anew")):
        told, _ = judgement(model, made, hubs, np.ones(hubs.size, bool))
        assert told["sample"] == "biased"
        assert told["biases"] == ["more edges"]
        assert told["low"] is None


def test_what_thinning_did_is_not_put_on_random_labels() -> None:
    """Marked as random, and five of six of one class: predicted shares say otherwise."""
    made = half_easy()
    mixed = np.random.default_rng(5).permutation(N_NODES // 2)
    ones, zeros = (mixed[made[1][mixed] == each] for each in (1, 0))
    nodes = np.concatenate([ones[:150], zeros[:30]])
    for is_thinned, sample in ((False, "biased"), (True, "untested")):
        told, _ = judgement(Poisson(), made, nodes, np.ones(180, bool), is_thinned=is_thinned)
        assert (told["sample"], told["low"]) == (sample, None)
        assert told["biases"] == ([] if is_thinned else ["shares"])


def test_a_solve_that_nobody_asked_for_measures_nothing() -> None:
    nodes, is_random = picked_and_random(60)
    told, _ = judgement(Poisson(), half_easy(), nodes, is_random, holds_out=False)
    assert (told["accuracy"], told["n_left_out"], told["is_measured"]) == (None, 0, False)
    told, _ = judgement(Auto(walks="anew"), half_easy(), nodes, is_random, holds_out=False)
    assert told["only_random"]
    assert told["accuracy"] is not None
