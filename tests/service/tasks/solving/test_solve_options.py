"""What a solve job may be asked, and what is refused."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from peewit.service.jobs.job import FAST_MODELS, HEAVY_OPTIONS, lane_of
from peewit.service.tasks.solving.solve_options import SolveOptions, options_schema, validate_solve
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import Model, RegressionModel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

OPTIONS = {each.name for each in fields(SolveOptions)}


def test_no_model_has_a_hyperparameter_named_like_an_option() -> None:
    for model in CATALOGUE.values():
        assert not OPTIONS & {parameter.name for parameter in fields(model)}


@pytest.mark.parametrize("model", sorted(CATALOGUE))
def test_schema_shows_the_options_that_the_model_takes(model: str) -> None:
    schema = options_schema(CATALOGUE[model])
    assert schema["additionalProperties"] is False
    assert schema["properties"].keys() <= OPTIONS
    assert all(each["description"] for each in schema["properties"].values())


def test_parameters_left_out_take_their_defaults() -> None:
    model, options = validate_solve("hfs", {"rtol": 1e-3})
    assert model == CATALOGUE["hfs"](rtol=1e-3)  # type: ignore[call-arg]
    assert options == SolveOptions()
    assert options.chosen() == {}


def test_an_option_with_its_default_asks_for_nothing() -> None:
    for model in CATALOGUE:
        assert validate_solve(model, {"refine": False})[1] == SolveOptions()


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("hsf", {}, "model must be one of .*stable-hfs, .*got 'hsf'"),
        ("hfs", {"gamma": 1}, "model hfs has no parameter 'gamma'; it has .*graph_penalty"),
        ("hfs", {"graph_penalty": -1.0}, "graph_penalty must be"),
        ("hfs", {"graph_penalty": [1.0]}, "graph_penalty must be"),
        ("hfs", {"max_iter": True}, "max_iter must be an integer"),
        ("hfs", {"refine": 1}, "refine must be true or false, got 1"),
        ("hfs", {"refine": True, "max_passes": 1}, "max_passes must be at least 2, got 1"),
        ("hfs", {"refine": True, "max_passes": 0}, "max_passes must be at least 2, got 0"),
        ("hfs", {"max_passes": 1}, "max_passes must be 0 or at least 2, got 1"),
        ("hfs", {"target": "number"}, "target must be 'class' or 'real', got 'number'"),
        ("hfs", {"variance": 1}, "variance must be true or false, got 1"),
        ("hfs", {"cross_validate": 1}, "cross_validate must be 0 or at least 2 folds, got 1"),
        ("hfs", {"cross_validate": -2}, "cross_validate must be an integer >= 0, got -2"),
        ("hfs", {"cross_validate": 2.5}, "cross_validate must be an integer >= 0, got 2.5"),
        ("hfs", {"without_doubtful": -1}, "without_doubtful must be an integer >= 0, got -1"),
        ("hfs", {"without_doubtful": 1.5}, "without_doubtful must be an integer >= 0, got 1.5"),
        ("hfs", {"without_doubtful": True}, "without_doubtful must be an integer >= 0, got True"),
        (
            "hfs",
            {"without_doubtful": 2, "target": "real"},
            "without_doubtful must be left out where numbers are predicted.* got 2",
        ),
        (
            "linear-svm",
            {"without_doubtful": 2, "scores": "probability"},
            "left out where a model is not judged by its scores, got 2; set scores=decision",
        ),
        ("hfs", {"target": 1}, "target must be 'class' or 'real', got 1"),
        ("hfs", {"refine": "yes"}, "refine must be true or false, got 'yes'"),
    ],
)
def test_wrong_parameters_are_named(model: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate_solve(model, parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Model):
    """A model without a linear system."""

    def prepare(self, graph: Graph, features: Any = None) -> Graph:
        return graph

    def solve_watched(self, prepared: Graph, labels: Labels, *_given: Any) -> Solution:
        scores = np.tile(labels.class_prior(), (prepared.n_nodes, 1))
        everywhere = np.ones(prepared.n_nodes, dtype=bool)
        return Solution(scores=scores, reachable=everywhere, status=Status.CONVERGED)


def test_options_that_a_model_cannot_take_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "constant", Constant)
    assert "refine" not in options_schema(Constant)["properties"]
    assert validate_solve("constant", {"refine": False}) == (Constant(), SolveOptions())
    message = "refine must be left out for model constant, which cannot be refined on the full"
    with pytest.raises(ValueError, match=message):
        validate_solve("constant", {"refine": True})
    with pytest.raises(ValueError, match=r"graph \(auto, hfs, poisson, stable-hfs can\); got True"):
        validate_solve("constant", {"refine": True})
    with pytest.raises(ValueError, match="has no parameter 'speed'"):
        validate_solve("constant", {"speed": 1})


@pytest.mark.parametrize("asked", [{"sets": "auto"}, {"without_doubtful": 3}])
def test_what_needs_labels_left_out_implies_folds(asked: dict[str, Any]) -> None:
    assert validate_solve("hfs", asked)[1].cross_validate == 5
    assert validate_solve("hfs", asked | {"cross_validate": 3})[1].cross_validate == 3
    assert validate_solve("hfs", {"without_doubtful": 0})[1].cross_validate == 0


@pytest.mark.parametrize("max_passes", [0, 2, 7])
def test_passes_of_a_correction_may_be_fewer_or_none(max_passes: int) -> None:
    assert validate_solve("hfs", {"max_passes": max_passes})[1].max_passes == max_passes


@pytest.mark.parametrize("model", ["hfs", "stable-hfs"])
def test_harmonic_models_can_be_refined(model: str) -> None:
    assert options_schema(CATALOGUE[model])["properties"].keys() >= {"refine", "max_passes"}
    options = validate_solve(model, {"refine": True, "max_passes": 7})[1]
    assert options.chosen() == {"refine": True, "max_passes": 7}


def test_long_options_take_any_model_to_the_heavy_lane() -> None:
    assert HEAVY_OPTIONS <= OPTIONS
    for model in FAST_MODELS:
        assert lane_of(model, {"rtol": 1e-3}) == "fast"
        for name in HEAVY_OPTIONS:
            assert lane_of(model, {name: True}) == "heavy"
            assert lane_of(model, {name: False}) == "fast"


def test_numbers_are_predicted_by_the_models_that_can() -> None:
    for name, model in CATALOGUE.items():
        if issubclass(model, RegressionModel):
            assert validate_solve(name, {"target": "real"})[1].chosen() == {"target": "real"}
        else:
            with pytest.raises(ValueError, match="which cannot predict real numbers"):
                validate_solve(name, {"target": "real"})


def test_rule_of_words_alone_takes_no_number() -> None:
    rule = Rule(doc="Which.", kind=str, words=("a", "b"))
    rule.check("which", "b")
    assert rule.json_schema() == {"description": "Which.", "type": "string", "enum": ["a", "b"]}
    with pytest.raises(TypeError, match="which must be 'a' or 'b', got 1"):
        rule.check("which", 1)
    with pytest.raises(ValueError, match="which must be 'a' or 'b', got 'c'"):
        rule.check("which", "c")


def test_rule_of_shares_takes_positive_numbers_by_class() -> None:
    rule = Rule(doc="Sizes.", kind=str, words=("none",), takes_shares=True)
    rule.check("sizes", {"a": 2, "b": 0.5})
    words, text, shares = rule.json_schema()["anyOf"]
    assert text["pattern"] == "="
    assert rule.read("sizes", "a=2,b=.5") == {"a": 2.0, "b": 0.5}
    assert (words["enum"], shares["additionalProperties"]["exclusiveMinimum"]) == (["none"], 0)
    for wrong, message in (
        ({}, "sizes must name at least one class"),
        ({"a": 0}, "sizes must hold finite numbers > 0, got 0 for class 'a'"),
        ({"a": float("nan")}, "sizes must hold finite numbers > 0, got nan"),
        ({"a": 10**400}, "sizes must hold finite numbers > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            rule.check("sizes", wrong)
    for wrong, message in (
        ({"a": "1"}, "sizes must hold numbers, got '1' for class 'a'"),
        ({"a": True}, "sizes must hold numbers, got True"),
        ([1.0], "sizes must be 'none' or shares by class, got"),
    ):
        with pytest.raises(TypeError, match=message):
            rule.check("sizes", wrong)


def test_boolean_rule_takes_nothing_else() -> None:
    rule = Rule(doc="Whether.", kind=bool)
    rule.check("whether", True)
    assert rule.json_schema() == {"description": "Whether.", "type": "boolean"}
    for wrong in (0, 1.0, "true", None):
        with pytest.raises(TypeError, match="whether must be true or false, got"):
            rule.check("whether", wrong)
