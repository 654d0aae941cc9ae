"""Weights of relations as a text, ``card=3,message=0``, and the rule that they keep."""

import math
from collections.abc import Sequence
from typing import Final

from peewit.solvers.arguments import BadArgument

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
        if not (math.isfinite(weight) and weight >= 0):
            raise BadArgument(
                argument, f"must be finite and >= 0, got {weight:g} for the relation {name!r}"
            )
    if not any(weights):
        raise BadArgument(
            argument,
            f"must leave a relation above 0, got 0 for all of {', '.join(names)}; leave one "
            "unmentioned, which is 1",
        )


def parsed_weights(text: str, names: Sequence[str]) -> tuple[float, ...]:
    """Weights of the named relations in their order; those that are not mentioned are 1.

    `BadArgument` for what is not ``name=number``, a relation that is unknown or mentioned twice,
    and weights as in `check_weights`.
    """
    known = f"; the relations are {', '.join(names)}"
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (each.strip() for each in part.partition("="))
        if not equals:
            raise BadArgument(
                "relations", f"must read name=weight,name=weight, got {part.strip()!r}{known}"
            )
        if name not in names:
            raise BadArgument("relations", f"must name relations of the graph, got {name!r}{known}")
        if name in weights:
            raise BadArgument("relations", f"must name each relation once, got {name!r} twice")
        try:
            weights[name] = float(number)
        except ValueError:
            raise BadArgument(
                "relations",
                f"must give numbers, got {number!r} for {name!r}; write such as {name}=0.5",
            ) from None
    ordered = tuple(weights.get(name, 1.0) for name in names)
    check_weights("relations", ordered, names)
    return ordered


def weights_text(weights: Sequence[float], names: Sequence[str]) -> str:
    """The text that `parsed_weights` reads as these weights."""
    return ",".join(f"{name}={weight:.12g}" for name, weight in zip(names, weights, strict=True))
