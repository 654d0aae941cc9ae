"""What a solve job may be asked, and what is refused."""

from dataclasses import fields
from typing import Any

import pytest

from service.jobs import FAST_MODELS, HEAVY_OPTIONS, lane_of
from service.solve_options import SolveOptions, options_schema, validate_solve
from solvers.models import CATALOGUE
from solvers.models.base import Rule

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
        ("hsf", {}, "model must be one of hfs, .*stable-hfs, got 'hsf'"),
        ("hfs", {"gamma": 1}, "model hfs has no parameter 'gamma'; it has graph_penalty"),
        ("hfs", {"graph_penalty": -1.0}, "graph_penalty must be"),
        ("hfs", {"graph_penalty": [1.0]}, "graph_penalty must be"),
        ("hfs", {"max_iter": True}, "max_iter must be an integer"),
        ("hfs", {"refine": 1}, "refine must be true or false, got 1"),
        ("hfs", {"refine": "yes"}, "refine must be true or false, got 'yes'"),
    ],
)
def test_wrong_parameters_are_named(model: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate_solve(model, parameters)


def test_long_options_take_any_model_to_the_heavy_lane() -> None:
    assert HEAVY_OPTIONS <= OPTIONS
    for model in FAST_MODELS:
        assert lane_of(model, {"rtol": 1e-3}) == "fast"
        for name in HEAVY_OPTIONS:
            assert lane_of(model, {name: True}) == "heavy"
            assert lane_of(model, {name: False}) == "fast"


def test_boolean_rule_takes_nothing_else() -> None:
    rule = Rule(doc="Whether.", kind=bool)
    rule.check("whether", True)
    assert rule.json_schema() == {"description": "Whether.", "type": "boolean"}
    for wrong in (0, 1.0, "true", None):
        with pytest.raises(TypeError, match="whether must be true or false, got"):
            rule.check("whether", wrong)
