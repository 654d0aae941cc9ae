"""Solves without doubtful labels: wrong labels go, and the answer is that of the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peewit.service.predictions.doubtful_labels import doubtful_labels
from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.tasks.solving.solve import SolveKind
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.solvers.models.catalogue import CATALOGUE
from tests.service.solvable import graphs_within, publish_snapshot, two_communities
from tests.service.tasks.solving.test_solve import (
    MEMORY_BYTES,
    context_with,
    predictions,
    solved,
    task,
)

SIDES: dict[str, str | int] = {
    f"n{node}": "left" if node < 60 else "right" for node in range(0, 120, 4)
}
FLIPPED = {"n8": "right", "n32": "right", "n84": "left"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of two communities with one snapshot."""
    directory = tmp_path_factory.mktemp("home") / "g"
    publish_snapshot(directory, 1, *two_communities(120))
    return directory


def asked(
    directory: Path, labels: dict[str, str | int], model: str = "hfs", **parameters: Any
) -> Done:
    """A solve by a process without anything warm."""
    return solved(
        graphs_within(MEMORY_BYTES), task(directory, labels, model=model, parameters=parameters)
    )


def dropped(file: PredictionFile) -> set[str | int]:
    listed = doubtful_labels(file, k=1000).labels
    return {each.node for each in listed if each.dropped}


@pytest.mark.parametrize("model", ["auto", "hfs", "stable-hfs", "poisson", "harmonic-mbo"])
def test_flipped_labels_are_dropped_and_predicted(directory: Path, model: str) -> None:
    answer = asked(directory, SIDES | FLIPPED, model, without_doubtful=3)
    file = predictions(directory, answer)
    assert dropped(file) == set(FLIPPED)
    assert answer.result["stats"]["n_labels_dropped"] == 3
    assert answer.result["n_labels"] == len(SIDES) - 3
    shown = dict(zip(*(file.table()[name].to_pylist() for name in ("node", "label")), strict=True))
    assert all(shown[node] == SIDES[node] for node in FLIPPED)


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("model", sorted(CATALOGUE))
def test_the_answer_is_that_of_the_other_labels(directory: Path, model: str) -> None:
    robust = asked(directory, SIDES | FLIPPED, model, without_doubtful=3)
    file = predictions(directory, robust)
    kept = {node: label for node, label in (SIDES | FLIPPED).items() if node not in dropped(file)}
    by_hand = predictions(directory, asked(directory, kept, model)).table()
    assert file.table()["label"].to_pylist() == by_hand["label"].to_pylist()
    score = file.score_column
    np.testing.assert_allclose(file.table()[score], by_hand[score], rtol=2e-3, atol=1e-3)


def test_labels_left_out_are_all_judged_by(directory: Path) -> None:
    robust, plain = (
        read_left_out(predictions(directory, asked(directory, SIDES | FLIPPED, **options)))
        for options in ({"without_doubtful": 3}, {"cross_validate": 5})
    )
    assert robust.classes.size == len(SIDES)
    np.testing.assert_array_equal(robust.scores, plain.scores)
    assert (robust.is_dropped.sum(), plain.is_dropped.sum()) == (3, 0)


def test_the_first_of_the_ranking_are_dropped(directory: Path) -> None:
    for options in ({}, {"probabilities": True}):
        answer = asked(directory, SIDES | FLIPPED, "stable-hfs", without_doubtful=2, **options)
        listed = doubtful_labels(predictions(directory, answer), k=3).labels
        assert [each.dropped for each in listed] == [True, True, False]


def test_labels_that_the_others_agree_with_stay(directory: Path) -> None:
    answer = asked(directory, SIDES, without_doubtful=10)
    assert answer.result["stats"]["n_labels_dropped"] == 0
    assert answer.result["n_labels"] == len(SIDES)
    same = predictions(directory, asked(directory, SIDES)).table()
    assert predictions(directory, answer).table().equals(same)


def test_a_class_keeps_its_last_label(directory: Path) -> None:
    labels = SIDES | {"n8": "rare", "n84": "rare"}
    answer = asked(directory, labels, without_doubtful=10, cross_validate=4)
    file = predictions(directory, answer)
    assert file.meta.class_names == ("left", "rare", "right")
    assert len(dropped(file) & {"n8", "n84"}) == 1
    assert answer.result["n_classes"] == 3


@pytest.mark.slow
def test_sets_of_nodes_that_lose_all_labels_hold_all_classes(tmp_path: Path) -> None:
    directory = tmp_path / "g"
    u, v = two_communities(120)
    publish_snapshot(directory, 1, np.append(u, 120), np.append(v, 121))
    labels = SIDES | {"n120": "left", "n121": "right"}  # each contradicts the other
    answer = asked(directory, labels, without_doubtful=5, sets="marginal", cross_validate=32)
    table = predictions(directory, answer).table()
    alone = table.filter(np.isin(table["node"].to_pylist(), ["n120", "n121"]))
    assert alone["label"].to_pylist() == [None, None]
    assert alone["p_value:left"].to_pylist() == alone["p_value:right"].to_pylist() == [1.0, 1.0]
    assert answer.result["n_unreachable"] == 2


def test_variances_are_those_of_the_answer(directory: Path) -> None:
    worth = {"variance": True, "graph_penalty": 1.0}
    labels = SIDES | FLIPPED
    robust = asked(directory, labels, "stable-hfs", without_doubtful=3, **worth)
    kept = {node: label for node, label in labels.items() if node not in FLIPPED}
    by_hand = asked(directory, kept, "stable-hfs", **worth)
    robust_variance, variance = (
        predictions(directory, each).table()["variance"].to_numpy() for each in (robust, by_hand)
    )
    np.testing.assert_allclose(robust_variance, variance, rtol=1e-4)


def test_a_refit_stops_when_it_is_told_to(tmp_path: Path) -> None:
    publish_snapshot(tmp_path / "g", 1, *two_communities(120))
    job = task(tmp_path / "g", SIDES | FLIPPED, parameters={"without_doubtful": 3})
    stages: list[str | None] = []
    context = context_with(
        graphs_within(MEMORY_BYTES),
        report=lambda advanced: stages.append(advanced.stage),
        cancelled=lambda: "refitting" in stages,
    )
    assert SolveKind().run(job, context) == TaskStopped()
    assert not list((tmp_path / "g").glob("predictions/*"))


def test_too_few_labels_are_refused_by_what_was_asked(directory: Path) -> None:
    with pytest.raises(ValueError, match="without_doubtful leaves labels out in 5 folds"):
        asked(directory, {"n0": "left", "n90": "right"}, without_doubtful=1)
