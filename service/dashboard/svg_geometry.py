"""Geometry of the drawings: positions in a picture, of which templates make SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from peewit.service.dashboard.neighborhoods import Neighborhood
from peewit.service.wire.graphs import GraphDetails

WIDTH: Final = 640.0
"""Width of a picture in its own units; the page scales it."""

_LEFT: Final = 92.0  # room for names
_RIGHT: Final = WIDTH - 24.0
_RADIUS: Final = 130.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A number on an axis: its position and text."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """Picture of a snapshot's spectral error: the spectrum of L_G^+ L_H around 1.

    Ranges are (from, to) positions that the spectrum may cover by the epsilon ``asked``,
    ``expected`` and ``certified``, and that it is known to reach (``least``); None where unknown.
    ``one`` is the position of 1.
    """

    asked: tuple[float, float] | None
    expected: tuple[float, float] | None
    certified: tuple[float, float] | None
    least: tuple[float, float] | None
    ticks: Sequence[Tick]
    axis: tuple[float, float]
    one: float

    @classmethod
    def of(cls, details: GraphDetails) -> Self:
        """The picture of a graph's newest certificate, or without one."""
        certificate = details.certificate
        spans: list[float] = [details.epsilon_asked or 0.0, details.epsilon_expected or 0.0]
        if certificate is not None:
            spans += [certificate.epsilon_certified or 0.0]
        widest = max(0.1, *spans) * 1.1

        def at(value: float) -> float:
            share = (value - 1.0 + widest) / (2 * widest)
            return _LEFT + min(max(share, 0.0), 1.0) * (_RIGHT - _LEFT)

        def around(epsilon: float | None) -> tuple[float, float] | None:
            return None if epsilon is None else (at(1.0 - epsilon), at(1.0 + epsilon))

        least = certified = None
        if certificate is not None:
            certified = around(certificate.epsilon_certified)
            if certificate.ritz_min and certificate.ritz_max:
                # eigenvalues of L_G^+ L_H are the inverses of the Ritz values
                least = at(1.0 / certificate.ritz_max), at(1.0 / certificate.ritz_min)
        step = _step(widest)
        n_steps = math.floor(widest / step)
        values = [1.0 + step * number for number in range(-n_steps, n_steps + 1)]
        return cls(
            asked=around(details.epsilon_asked),
            expected=around(details.epsilon_expected),
            certified=certified,
            least=least,
            ticks=[Tick(x=at(value), text=f"{value:g}") for value in values],
            axis=(_LEFT, _RIGHT),
            one=at(1.0),
        )


@dataclass(frozen=True, slots=True)
class Spot:
    """A node of a small graph."""

    x: float
    y: float
    radius: float
    place: int  # in the neighborhood


@dataclass(frozen=True, slots=True)
class Line:
    """An edge of a small graph: start, end and width."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallGraph:
    """A node with its strongest neighbors around it, in a square of 400 units."""

    spots: Sequence[Spot]  # the neighbors
    lines: Sequence[Line]  # edges to them
    chords: Sequence[Line]  # edges among them

    @classmethod
    def of(cls, around: Neighborhood) -> Self:
        """Neighbors on a circle; joined ones are neighbors there where that is easy."""
        order = _order_neighbors(around)
        greatest = float(around.weights.max(initial=0.0)) or 1.0
        at: dict[int, tuple[float, float]] = {}
        for turn, place in enumerate(order):
            angle = 2 * math.pi * turn / max(len(order), 1) - math.pi / 2
            at[place] = 200 + _RADIUS * math.cos(angle), 200 + _RADIUS * math.sin(angle)
        spots = [
            Spot(*at[place], radius=7 + 7 * float(around.weights[place]) / greatest, place=place)
            for place in order
        ]
        lines = [
            Line(200, 200, *at[place], width=1 + 4 * float(around.weights[place]) / greatest)
            for place in order
        ]
        chords = [
            Line(*at[first], *at[second], width=0.5 + 2.5 * min(float(weight) / greatest, 1.0))
            for (first, second), weight in zip(
                around.pairs.tolist(), around.pair_weights.tolist(), strict=True
            )
        ]
        return cls(spots=spots, lines=lines, chords=chords)


def _order_neighbors(around: Neighborhood) -> list[int]:
    """Places of the neighbors, in an order in which joined ones follow each other."""
    joined: dict[int, set[int]] = {place: set() for place in range(len(around.neighbors))}
    for first, second in around.pairs.tolist():
        joined[first].add(second)
        joined[second].add(first)
    left = list(joined)
    order: list[int] = []
    while left:
        near = [place for place in left if order and place in joined[order[-1]]]
        following = near[0] if near else left[0]
        left.remove(following)
        order.append(following)
    return order


def _step(widest: float) -> float:
    """A round distance of ticks, for three to six on each side."""
    for step in (0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0):
        if widest / step <= 5:
            return step
    return 10.0 ** math.ceil(math.log10(widest / 5))
