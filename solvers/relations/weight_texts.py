"""Weights of relations as a text, ``card=3,message=0``, and the rule that they keep."""

import math
from collections.abc import Sequence
from typing import Final

from peewit.solvers.arguments import BadArgument

_MOST_RATIO: Final = 1e15

BY_LABELS: Final = "auto"
"""In place of weights: labels choose them."""


def check_weights(argument: str, weights: Sequence[float], names: Sequence[str]) -> None:
    """Raise `BadArgument` unless each relation has a finite weight >= 0, and one is above 0."""
    if len(weights) != len(names):
        raise BadArgument(
            argument,
            f"must hold one number for each of {', '.join(names)}, got {len(weights)} numbers",
        )
    for name, weight in zip(names, weights, strict=True):
        _check_weight(argument, name, weight)
    if not any(weights):
        raise BadArgument(
            argument,
            f"must leave a relation above 0, got 0 for all of {', '.join(names)}; leave one "
            "unmentioned, which is 1",
        )


def _check_weight(argument: str, name: str, weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0):
        raise BadArgument(
            argument, f"must be finite and >= 0, got {weight:g} for the relation {name!r}"
        )


def named_weights(text: str) -> dict[str, float]:
    """Weights by the names of their relations.

    `BadArgument` for what is not ``name=number``, a relation that is mentioned twice, and weights
    that are not finite and >= 0, or too far from each other.
    """
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (each.strip() for each in part.partition("="))
        if not equals:
            raise BadArgument(
                "relations", f"must read name=weight,name=weight, got {part.strip()!r}"
            )
        if name in weights:
            raise BadArgument("relations", f"must name each relation once, got {name!r} twice")
        try:
            weights[name] = float(number)
        except ValueError:
            raise BadArgument(
                "relations",
                f"must give numbers, got {number!r} for {name!r}; write such as {name}=0.5",
            ) from None
        _check_weight("relations", name, weights[name])
    present = [1.0, *(weight for weight in weights.values() if weight)]
    if max(present) > _MOST_RATIO * min(present):
        raise BadArgument(
            "relations",
            f"must be 0, or within a factor of {_MOST_RATIO:g} of each other and of 1, the "
            f"weight of relations not named: float64 carries no more, got {text!r}",
        )
    return weights


def parsed_weights(text: str, names: Sequence[str]) -> tuple[float, ...]:
    """Weights of the named relations in their order; those that are not mentioned are 1.

    `BadArgument` as `named_weights` and `check_weights`, and for a relation that is unknown.
    """
    weights = named_weights(text)
    for name in weights:
        if name not in names:
            raise BadArgument(
                "relations",
                f"must name relations of the graph, got {name!r}; the relations are "
                f"{', '.join(names) or 'none'}",
            )
    ordered = tuple(weights.get(name, 1.0) for name in names)
    check_weights("relations", ordered, names)
    return ordered


def weights_text(weights: Sequence[float], names: Sequence[str]) -> str:
    """The text that `parsed_weights` reads as these weights."""
    return ",".join(f"{name}={weight:.12g}" for name, weight in zip(names, weights, strict=True))
