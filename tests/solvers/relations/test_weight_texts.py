"""Texts of weights: what they mean, what is refused, and that they are read as written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arguments import BadArgument
from peewit.solvers.relations.weight_texts import parsed_weights, weights_text

NAMES = ("login", "card", "message")


def test_relations_that_are_not_mentioned_weigh_1() -> None:
    assert parsed_weights("card=3, message=0", NAMES) == (1.0, 3.0, 0.0)


@given(st.tuples(*[st.sampled_from([0.0, 0.0465, 1.0, 2.03, 1e-9, 1234.5])] * 3).filter(any))
def test_a_text_is_read_as_it_was_written(weights: tuple[float, ...]) -> None:
    assert parsed_weights(weights_text(weights, NAMES), NAMES) == weights


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("phone=3", "must name relations of the graph, got 'phone'; .* login, card, message"),
        ("card", "must read name=weight,name=weight, got 'card'"),
        ("", "must read name=weight,name=weight, got ''"),
        ("card=many", "must give numbers, got 'many' for 'card'; write such as card=0.5"),
        ("card=-1", "must be finite and >= 0, got -1 for the relation 'card'"),
        ("card=nan", "must be finite and >= 0, got nan for the relation 'card'"),
        ("card=1e300,login=1e-300", "within a factor of 1e\\+15 .* got 'card=1e300,login=1e-300'"),
        ("card=1e8,login=1e-8", "within a factor of 1e\\+15 of each other and of 1, the weight of"),
        ("card=1e16", "within a factor of 1e\\+15"),
        ("card=1e-16", "within a factor of 1e\\+15"),
        ("card=1,card=2", "must name each relation once, got 'card' twice"),
        ("login=0,card=0,message=0", "must leave a relation above 0, got 0 for all of"),
    ],
)
def test_texts_that_break_a_rule_are_refused(text: str, told: str) -> None:
    with pytest.raises(BadArgument, match=told) as refused:
        parsed_weights(text, NAMES)
    assert refused.value.argument == "relations"


def test_a_relation_without_a_name_is_named_by_nothing() -> None:
    names = ("", "card")
    assert parsed_weights("=0.5,card=2", names) == (0.5, 2.0)
    assert parsed_weights(weights_text((3.0, 0.0), names), names) == (3.0, 0.0)
