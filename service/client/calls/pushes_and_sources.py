"""Edges that are pushed."""

import warnings
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from peewit.service.client.call_steps import (
    Answer,
    Body,
    Call,
    Pause,
    Request,
    once,
    repeated,
)
from peewit.service.client.calls.common import (
    broken_contract,
    get,
    parsed,
    path,
    until,
)
from peewit.service.client.tables import TableLike, table_body
from peewit.service.wire.sources_and_pushes import (
    Push,
)


def push_edges(
    graph: str,
    edges: TableLike,
    *,
    wait: float | None = 0.0,
    key: str | None = None,
    src: str | None = None,
    dst: str | None = None,
    weight: str | None = None,
    op: str | None = None,
    time: str | None = None,
) -> Call[Push]:
    """Push a block of edges; it is checked whole, and on the server's disk before this returns.

    Parameters
    ----------
    graph : str
        Its name.
    edges : TableLike
        Columns of both ends and, if need be, of a weight: an Arrow table, batches, a data frame,
        or the path of a Parquet, CSV, NDJSON or Arrow file.
    wait : float or None
        Longest time to wait until the edges are in the graph, in seconds; for ever when None. When
        time is over the push is returned as it stands, pending.
    key : str, optional
        Names the push: one that is sent again with its key is the first one. Left out, it follows
        from the content of a file, so that a file counts once however often it is pushed within a
        month; for other edges it is made up, so that a push whose answer was lost is repeated
        without counting twice.
    src, dst, weight : str, optional
        What the columns are called; as the graph says when left out, else ``src`` and so on.
    op : str, optional
        Column that says insert, delete or set, in graphs with deletions; as the graph says when
        left out, else every row inserts.
    time : str, optional
        Column of the time, in graphs with a window by time; as the graph says when left out.

    Returns
    -------
    Push

    Raises
    ------
    InvalidArgument
        An edge breaks a rule; ``row`` and ``value`` say which.
    RateLimited
        The backlog stayed full.
    Conflict
        The key is that of another push.
    ValueError, TypeError, OSError
        See `peewit.service.client.tables.table_body`.

    Warns
    -----
    UserWarning
        The same content was pushed before from a file, and does not count again.
    """
    body = table_body(edges)
    is_file = key is None and isinstance(edges, str | Path)
    if is_file:
        key = yield from _content_key(
            body, src, dst, weight, *(each for each in (op, time) if each)
        )
    request = Request(
        method="POST",
        path=path("graphs", graph, "edges"),
        params={"src": src, "dst": dst, "weight": weight, "op": op, "time": time},
        headers={"Idempotency-Key": key or uuid4().hex},
        body=body,
        is_repeatable=True,
    )
    n_tries = 0

    def attempt() -> Call[Answer]:
        nonlocal n_tries
        n_tries += 1
        return once(request)

    answer = yield from repeated(request, attempt)
    pushed = parsed(Push, answer.content)
    if is_file and n_tries == 1 and "Idempotent-Replayed" in answer.headers:
        warnings.warn(
            f"{edges} was pushed to {graph} before, as push {pushed.id}, and counts once; give a "
            "key to have it count again",
            stacklevel=2,
        )
    if pushed.status == "pending" and wait != 0:
        return (yield from push(graph, pushed.id, wait=wait))
    return _require_taken(pushed)


def delete_edges(
    graph: str,
    pairs: Iterable[tuple[str | int, str | int]],
    *,
    wait: float | None = 0.0,
    key: str | None = None,
) -> Call[Push]:
    """Delete all edges between some pairs of nodes, in a graph with deletions.

    Edges that come later stay; of a pair without edges nothing happens.

    Parameters
    ----------
    graph : str
        Its name.
    pairs : iterable of pairs
        Ids of both ends, whichever comes first.
    wait : float or None
        As of `push_edges`.
    key : str, optional
        Names the push: one that is sent again with its key is the first one.

    Returns
    -------
    Push

    Raises
    ------
    ValueError
        There are no pairs.
    InvalidArgument
        Deletions of the graph are off, or an id is not of its kind.
    RateLimited
        The backlog stayed full.
    """
    listed = list(pairs)
    if not listed:
        raise ValueError("pairs must hold at least one, got none")
    src, dst = zip(*listed, strict=True)
    table = pa.table({"src": list(src), "dst": list(dst), "op": ["delete"] * len(src)})
    named = {"src": "src", "dst": "dst", "op": "op"}
    return (yield from push_edges(graph, table, wait=wait, key=key, **named))


def _content_key(body: Body, *columns: str | None) -> Call[str]:
    """A key that equal bytes have whose columns are read alike."""
    digest = sha256(repr((body.media_type, columns)).encode())
    for piece in body.pieces():
        digest.update(piece)
        yield Pause(0.0)  # an event loop has others to serve
    return digest.hexdigest()


def push(graph: str, push_id: str, *, wait: float | None = 0.0) -> Call[Push]:
    """A push as it stands, or once it is pending no more if that is within ``wait`` seconds.

    A push whose key was made up is forgotten a month after it went in.

    Raises
    ------
    NotFound
        There is none of this id, or no longer.
    InvalidArgument
        The push was refused when it went in.
    """
    request = get("graphs", graph, "pushes", push_id)
    return _require_taken(
        (yield from until(Push, request, lambda each: each.status != "pending", seconds=wait))
    )


def _require_taken(push: Push) -> Push:
    """The push, unless ingest has refused it."""
    if push.status == "quarantined":
        raise broken_contract("Edges", push.file, "the block was refused")
    return push
