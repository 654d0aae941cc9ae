"""Nodes and new points that predictions are asked for."""

from typing import Annotated

from pydantic import Field

from peewit.service.api.schemas.bodies_and_problems import NodeIn
from peewit.service.operations.bodies import Body

MAX_LOOKUP: int = 10_000
"""Most nodes of one lookup; more come as a table."""


class PointEdgeIn(Body):
    """An edge from a point to a node."""

    node: NodeIn
    weight: Annotated[float, Field(gt=0)] = 1.0


class PointIn(Body):
    """A point: all of its numbers, or those that are not 0 and where they stand; its edges."""

    features: list[float] | None = None
    indices: list[int] | None = None
    values: list[float] | None = None
    edges: list[PointEdgeIn] | None = None


class PointsIn(Body):
    """New points, all dense or all sparse."""

    points: list[PointIn]


class LookupIn(Body):
    """Nodes to look up."""

    nodes: Annotated[list[NodeIn], Field(min_length=1, max_length=MAX_LOOKUP)]
