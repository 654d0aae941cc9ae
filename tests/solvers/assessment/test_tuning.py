from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.assessment.tuning import (
    PENALTIES,
    UNLABELED_WEIGHTS,
    default_grid,
    grid_models,
    tune,
)
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.solvers.models.linear.linear_machine import PENALTIES as LINEAR_PENALTIES
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import DASVM, TSVM
from peewit.solvers.models.machines.laprlsc import LapRLSC
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.status import Status
from tests.solvers.models.machines.test_lapsvm import clouds, graph_of, labels_of


@pytest.fixture(scope="module")
def case() -> tuple:
    points, classes = clouds()
    return graph_of(points), points, labels_of(classes, 8), classes


@pytest.mark.slow
@pytest.mark.parametrize("bias", ["none", "free", "penalized"])
@pytest.mark.parametrize(
    "model",
    [
        LapSVM(method="newton"),
        LapRLSC(),
        LapSVM(method="dual"),
        LapSVM(gram="landmarks", n_landmarks=50),
        LapSVM(kernel="linear"),
        LapSVM(graph_penalty=0.0),
    ],
)
def test_quick_trials_count_what_cross_validation_counts(case, model, bias: str) -> None:
    graph, points, labels, _ = case
    model = replace(model, bias=bias)
    grid = {"norm_penalty": [1e-1, 1e-3], "power": [1, 2]}
    prepared = model.prepare(graph, points)
    tuning = tune(model, prepared, labels, grid=grid, n_folds=4, seed=3)
    assert len(tuning.trials) == 4
    for trial in tuning.trials:
        each = replace(model, **trial.parameters)
        slow = cross_validate(each, prepared, labels, n_folds=4, seed=3)
        assert trial.accuracy == pytest.approx(slow.mean)
        assert trial.n_left_out == slow.n_left_out == 24


@pytest.mark.slow
def test_models_without_a_quick_way_are_cross_validated(case) -> None:
    graph, _, labels, _ = case
    small = {"kept_bytes": 40 * graph.n_nodes**2}
    for model, memory in (
        (StableHFS(), {}),
        (LapSVM(method="pcg", gram="blocked"), {}),
        (LapSVM(stop="stability", max_iter=40), {}),
        (LapSVM(), small),
    ):
        prepared = model.prepare(graph, **memory)
        if isinstance(model, LapSVM):
            assert not model.has_left_out_scores(prepared)
        grid = {"graph_penalty": [1.0, 0.01]}
        tuning = tune(model, prepared, labels, grid=grid, n_folds=3)
        for trial in tuning.trials:
            each = replace(model, **trial.parameters)
            slow = cross_validate(each, prepared, labels, n_folds=3)
            assert trial.accuracy == pytest.approx(slow.mean)


def test_labels_left_out_do_not_show_through_an_early_stop(case) -> None:
    """A solve with all labels, started from, would tell their classes."""
    graph, points, labels, _ = case
    model = LapSVM(stop="stability")
    prepared = model.prepare(graph, points)
    everything = model.solve(prepared, labels)
    found = cross_validate(model, prepared, labels, n_folds=3, start=everything)
    assert found == cross_validate(model, prepared, labels, n_folds=3)


def test_the_best_is_right_most_often_and_first_of_equals(case) -> None:
    graph, points, labels, _ = case
    model = LapSVM()
    tuning = tune(model, model.prepare(graph, points), labels)
    assert len(tuning.trials) == 16
    assert [trial.parameters for trial in tuning.trials] == [
        values for values, _ in grid_models(model, PENALTIES)
    ]
    most = max(trial.n_right for trial in tuning.trials)
    first = next(trial for trial in tuning.trials if trial.n_right == most)
    assert tuning.best == replace(model, **first.parameters)
    assert tuning.status is Status.CONVERGED


def test_tuning_helps_where_the_default_is_wrong(case) -> None:
    graph, points, labels, classes = case
    wrong = LapSVM(norm_penalty=100.0, graph_penalty=100.0, width=0.3)
    prepared = wrong.prepare(graph, points)
    grid = {"norm_penalty": [100.0, 0.1, 0.001], "width": [0.3, 3.0]}
    best = tune(wrong, prepared, labels, grid=grid).best
    right = [
        (model.solve(prepared, labels).scores.argmax(axis=1) == classes).mean()
        for model in (wrong, best)
    ]
    assert right[1] > right[0] + 0.02


def test_progress_is_told_and_a_cancelled_search_keeps_what_it_has(case) -> None:
    graph, points, labels, _ = case
    model = LapSVM()
    prepared = model.prepare(graph, points)
    fractions: list[float] = []

    def note(report: ProgressReport) -> None:
        if report.phase == "tuning":
            fractions.append(report.fraction)

    tune(model, prepared, labels, progress=note)
    assert fractions == [number / 16 for number in range(17)]
    fractions.clear()
    part = tune(model, prepared, labels, progress=note, cancelled=lambda: len(fractions) == 3)
    assert part.status is Status.CANCELLED
    assert len(part.trials) in {2, 3}
    nothing = tune(model, prepared, labels, cancelled=lambda: True)
    assert nothing.trials == ()
    assert nothing.best == model


@pytest.mark.slow
@pytest.mark.parametrize("model", [TSVM(), DASVM(max_iter=8)])
def test_one_search_serves_all_unlabeled_weights_of_a_penalty(
    case, model, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, points, labels, _ = case
    grid = {"unlabeled_weight": [1.0, 0.0, 0.3, 1.0], "norm_penalty": [1e-2, 1e-3]}
    prepared = model.prepare(graph, points)
    searches = []
    plain = type(model).left_out_scores

    def counted(self, *given):
        searches.append(self.norm_penalty)
        return plain(self, *given)

    monkeypatch.setattr(type(model), "left_out_scores", counted)
    tuning = tune(model, prepared, labels, grid=grid, n_folds=4, seed=3)
    assert searches == [1e-2, 1e-3]
    for trial in tuning.trials:
        each = replace(model, **trial.parameters)
        slow = cross_validate(each, prepared, labels, n_folds=4, seed=3)
        assert trial.accuracy == pytest.approx(slow.mean)
        assert trial.n_left_out == slow.n_left_out == 24


@pytest.mark.slow
def test_linear_machines_try_penalties_and_unlabeled_weights(case) -> None:
    graph, points, labels, _ = case
    assert default_grid(LinearSVM()) == {"norm_penalty": LINEAR_PENALTIES}
    grid = default_grid(TSVM())
    assert grid == {"norm_penalty": LINEAR_PENALTIES, "unlabeled_weight": UNLABELED_WEIGHTS}
    for model in (LinearSVM(), TSVM()):
        tuning = tune(model, model.prepare(graph, points), labels)
        best = max(trial.n_right for trial in tuning.trials)
        first = next(trial for trial in tuning.trials if trial.n_right == best)
        assert tuning.best == replace(model, **first.parameters)
        assert tuning.status is Status.CONVERGED


def test_labels_without_features_are_left_aside(case) -> None:
    from peewit.solvers.features import FeatureRows

    graph, points, labels, _ = case
    known = np.setdiff1d(np.arange(graph.n_nodes), labels.nodes[:2])
    model = LapSVM()
    prepared = model.prepare(graph, FeatureRows(values=points[known], nodes=known))
    tuning = tune(model, prepared, labels, n_folds=4)
    assert tuning.trials[0].n_left_out == 22


def test_fewer_labels_mean_fewer_folds(case) -> None:
    graph, points, labels, _ = case
    model = LapSVM()
    prepared = model.prepare(graph, points)
    few = Labels.from_pairs(labels.nodes[labels.classes < 2][:3], ["a", "a", "b"])
    assert tune(model, prepared, few).n_folds == 2
    single = Labels.from_pairs([0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="each class has a single one; label more nodes"):
        tune(model, prepared, single)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "grid must name at least one hyperparameter, got none"),
        ({"sigma": [1.0]}, "grid must name settings of LapSVM .*got 'sigma'"),
        ({"width": []}, r"grid must hold a list of values for width, got \[\]"),
        ({"kernel": "linear"}, "grid must hold a list of values for kernel, got 'linear'"),
        ({"norm_penalty": [1.0, -1.0]}, "norm_penalty must be .* > 0 or .auto., got -1.0"),
    ],
)
def test_grids_that_break_a_rule_are_refused(case, grid, message: str) -> None:
    graph, points, labels, _ = case
    model = LapSVM()
    with pytest.raises(ValueError, match=message):
        tune(model, model.prepare(graph, points), labels, grid=grid)


def test_models_without_penalties_have_no_default_grid() -> None:
    assert default_grid(StableHFS()) == {"graph_penalty": PENALTIES["graph_penalty"]}
    with pytest.raises(ValueError, match="grid must name settings of Poisson"):
        default_grid(Poisson())
