"""Edges by push.

Written from `peewit.service.operations.edges`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call
from peewit.service.client.calls.common import get, taken, until
from peewit.service.client.errors import InvalidArgument
from peewit.service.wire.sources_and_pushes import Push


def push(graph: str, push_id: str, *, wait: float | None = 0.0) -> Call[Push]:
    """One push and the file it was gathered into; `wait` can wait until it is pending no more.

    A key that must not read sees its own. A push without Idempotency-Key is forgotten ten minutes
    after it went in, others after a month.

    Parameters
    ----------
    graph : str
        Its name.
    push_id : str
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    NotFound
        The graph has no push of this id, or it was forgotten some time after it was ingested.
    InvalidArgument
        Edges break a rule of the data contract; the file they came from is not taken.
    """
    return taken(
        (yield from until(Push, get("graphs", graph, "pushes", push_id), seconds=wait)),
        (InvalidArgument, "Edges break the contract"),
    )
