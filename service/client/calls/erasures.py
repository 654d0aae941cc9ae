"""Nodes that somebody asked to be forgotten.

Written from `peewit.service.operations.erasures`; `make generate` writes it anew.
"""

from collections.abc import Sequence

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read, settled, until
from peewit.service.wire.erasures import Erasure, ErasureList


def erasure(graph: str, erasure_id: str, *, wait: float | None = 0.0) -> Call[Erasure]:
    """How far an erasure is; `wait` can wait until the nodes are erased.

    Parameters
    ----------
    graph : str
        Its name.
    erasure_id : str
        The `id` that erasing gave.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    NotFound
        The graph has no erasure of this id.
    """
    return (yield from until(Erasure, get("graphs", graph, "erasures", erasure_id), seconds=wait))


def erasures(graph: str) -> Call[list[Erasure]]:
    """Erasures of a graph, newest first; a key that must not read sees its own."""
    return (yield from read(ErasureList, get("graphs", graph, "erasures"))).erasures


def erase(graph: str, nodes: Sequence[int | str], *, wait: float | None = 0.0) -> Call[Erasure]:
    """Forget nodes: their edges, labels, features and predictions, and their ids.

    From the answer on no call shows them: they are hidden. Whoever ingests the graph then
    overwrites the files that hold them, and the nodes are erased. Nodes that the graph does not
    know are taken, too. An id that comes again later is a new node; where ids are dense the number
    is never used again. Files of sources and backups stay as they are.

    Parameters
    ----------
    graph : str
        Its name.
    nodes : Sequence[int or str]
        Ids of nodes.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    InvalidArgument
        What came cannot be read as the table it should be; nothing of it is taken.
    """
    request = Request(
        method="POST", path=path("graphs", graph, "erasures"), json={"nodes": list(nodes)}
    )
    return (
        yield from settled(
            Erasure, request, lambda first: get("graphs", graph, "erasures", first.id), seconds=wait
        )
    )
