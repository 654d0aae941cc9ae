"""Nodes that are to be forgotten."""

from typing import Annotated, Final

from pydantic import Field

from peewit.service.api.schemas.bodies_and_problems import Body, NodeIn, answer_of
from peewit.service.inbox.erasures import ErasureRecord
from peewit.service.wire.erasures import Erasure, SourcesHolding

MAX_ERASED: Final = 100_000
"""Most nodes of one call; more come in several."""


class ErasureIn(Body):
    """Nodes to forget."""

    nodes: Annotated[list[NodeIn], Field(min_length=1, max_length=MAX_ERASED)]


def erasure_of(erasure: ErasureRecord) -> Erasure:
    """The answer for an erasure."""
    sources = None if erasure.sources is None else SourcesHolding(**erasure.sources)
    return answer_of(Erasure, erasure, sources=sources)
