"""Base schemas: answers made of records of the home, and errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, Field

from peewit.service.problems import InvalidArgument
from peewit.solvers.arguments import BadArgument, BadArgumentType


@contextmanager
def refusing() -> Iterator[None]:
    """Around a call whose plain errors speak of arguments of the request."""
    try:
        yield
    except ValueError as error:
        if type(error) in {ValueError, BadArgument, BadArgumentType}:
            raise InvalidArgument(str(error), argument=argument_of(error)) from error
        raise


def argument_of(error: object) -> str | None:
    """The argument that an error says it speaks of."""
    argument: str | None = getattr(error, "argument", None)
    return argument


class Problem(BaseModel):
    """An error (RFC 9457): what is wrong, with which argument, and what to do."""

    type: str = Field(examples=["urn:peewit:problem:graph-not-found"])
    title: str
    status: int
    detail: str
    request_id: str = Field(description="As in the header X-Request-ID and in the server's log.")
    argument: str | None = Field(None, description="What breaks a rule.")
    rule: str | None = None
    row: int | None = Field(None, description="Row of the body, from 0.")
    value: str | None = Field(None, description="What stands there.")
    refused: list[str] | None = Field(None, description="Nodes that the graph does not know.")
    n_refused: int | None = None
