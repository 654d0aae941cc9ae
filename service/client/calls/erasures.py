"""Calls about nodes that are to be forgotten."""

from collections.abc import Sequence

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read, until
from peewit.service.wire.erasures import Erasure, ErasureList
from peewit.service.wire.predictions import NodeId


def erase(graph: str, nodes: Sequence[NodeId], *, wait: float | None = 0.0) -> Call[Erasure]:
    """Forget nodes: no call shows them once this returns, and their files are overwritten then.

    Edges, labels, features and predictions of the nodes go with their ids. An id that comes again
    is a new node; where ids are dense the number is never used again.

    Parameters
    ----------
    graph : str
        Its name.
    nodes : sequence of str or int
        External ids, at most 100,000; those that the graph does not know are taken, too.
    wait : float or None
        Longest time to wait until the files are overwritten, in seconds; for ever when None.

    Returns
    -------
    Erasure
        Its ``status`` is ``hidden`` or ``erased``.

    Raises
    ------
    InvalidArgument
        An id is not of the graph's kind, or there are too many or none.
    """
    request = Request(
        method="POST", path=path("graphs", graph, "erasures"), json={"nodes": list(nodes)}
    )
    asked = yield from read(Erasure, request)
    if wait == 0:
        return asked
    return (yield from erasure(graph, asked.id, wait=wait))


def erasure(graph: str, erasure_id: str, *, wait: float | None = 0.0) -> Call[Erasure]:
    """How far an erasure is.

    Parameters
    ----------
    graph, erasure_id : str
        Name of the graph, and the ``id`` that `erase` gave.
    wait : float or None
        Longest time to wait until the nodes are erased, in seconds; for ever when None.
    """
    request = get("graphs", graph, "erasures", erasure_id)
    return (yield from until(Erasure, request, _is_done, seconds=wait))


def erasures(graph: str) -> Call[list[Erasure]]:
    """Erasures of a graph, newest first."""
    return (yield from read(ErasureList, get("graphs", graph, "erasures"))).erasures


def _is_done(erasure: Erasure) -> bool:
    return erasure.status == "erased"
