"""Edges, and where they come from: pushes, sources and their files."""

import warnings
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pyarrow as pa

from peewit.service.client.call_steps import (
    Answer,
    Body,
    Call,
    Flow,
    Pause,
    Request,
    answered,
    once,
    repeated,
)
from peewit.service.client.calls.common import (
    broken_contract,
    get,
    pages,
    parsed,
    path,
    read,
    until,
)
from peewit.service.client.errors import Conflict
from peewit.service.client.further_answers import Refusal
from peewit.service.client.tables import TableLike, table_body
from peewit.service.wire.sources_and_pushes import (
    File,
    FilePage,
    FileStatus,
    Push,
    Retry,
    Source,
    SourceList,
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


def add_source(
    graph: str,
    url: str,
    *,
    kind: str = "files",
    holds: Literal["edges", "labels", "features"] = "edges",
    label_column: str | None = None,
    start: str | int | None = None,
    follow: bool = False,
    columns: Mapping[str, str] | None = None,
    max_bad_rows: int | None = None,
    replaces: bool | None = None,
) -> Call[Source]:
    """Have ingest read files or a live source; one that is there is read in the new way.

    Parameters
    ----------
    graph : str
        Its name.
    url : str
        Absolute path on the server, of a file or directory, a glob, or an fsspec URL; of another
        kind the place that it names.
    kind : str
        What is read: ``files``, or a live source, ``delta``, ``iceberg`` or ``kafka``.
    holds : {"edges", "labels", "features"}
        What the rows of a live source are.
    label_column : str, optional
        The column of labels that labels go to; by default the one without a name.
    start : str or int, optional
        After what a live source begins: a version, or of a topic ``earliest``, ``latest`` or a
        time; by default with all there is, or where it was.
    follow : bool
        Look for new files until the source is removed.
    columns : mapping of str to str, optional
        What the columns ``src``, ``dst`` and ``weight``, or ``node`` and ``label``, are called
        there, where that is not as the graph says.
    max_bad_rows : int, optional
        Most rows of each file that may be left out because they break a rule; none at first.
    replaces : bool, optional
        Whether a file that changed takes the place of its earlier version; not at first.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "sources"),
        json={
            "url": url,
            "kind": kind,
            "holds": holds,
            "label_column": label_column,
            "start": None if start is None else str(start),
            "follow": follow,
            "columns": None if columns is None else dict(columns),
            "max_bad_rows": max_bad_rows,
            "replaces": replaces,
        },
        is_repeatable=True,
    )
    return (yield from read(Source, request))


def sources(graph: str) -> Call[list[Source]]:
    """The sources of a graph, with their files by status and their last error."""
    return (yield from read(SourceList, get("graphs", graph, "sources", limit=1))).sources


def remove_source(graph: str, source_id: str) -> Call[None]:
    """Read nothing more from a source; what is committed stays in the graph."""
    yield from answered(Request(method="DELETE", path=path("graphs", graph, "sources", source_id)))


def retry_source(graph: str, source_id: str) -> Call[int]:
    """Offer the quarantined files of a source again; how many there are."""
    request = Request(
        method="POST",
        path=path("graphs", graph, "sources", source_id, verb="retry"),
        is_repeatable=True,
    )
    return (yield from read(Retry, request)).n_files


def files(graph: str, *, status: FileStatus | None = None) -> Flow[File]:
    """The files of a graph, pushes included, oldest first.

    Parameters
    ----------
    graph : str
        Its name.
    status : str, optional
        Only files that stand so: pending, committed, quarantined, duplicate, retracting, retracted.
    """
    return pages(FilePage, lambda page: page.files, "graphs", graph, "files", status=status)


def file(graph: str, file_id: int) -> Call[File]:
    """One file of a graph."""
    return (yield from read(File, get("graphs", graph, "files", file_id)))


def retract_file(
    graph: str, file_id: int, *, inserts_only: bool = False, wait: float | None = 0.0
) -> Call[File]:
    """Have the edges of a file leave the graph, or a file that waits be left out.

    The file itself is not touched. It does not come again until its content changes, or somebody
    asks for it (`retry_file`).

    Parameters
    ----------
    graph : str
        Its name.
    file_id : int
        Of the file, as `files` tells.
    inserts_only : bool
        Let edges stay deleted that the file deleted or set.
    wait : float or None
        Longest time to wait until it is out of the graph, in seconds; for ever when None. When time
        is over the file is returned as it stands, retracting.

    Returns
    -------
    File

    Raises
    ------
    Conflict
        It cannot be retracted: it was pushed, refused or a duplicate, it deleted edges of others,
        or deletions of the graph are off.
    NotFound
        There is no such file.
    """
    place = path("graphs", graph, "files", file_id)
    request = Request(
        method="DELETE",
        path=place,
        params={"inserts_only": "true" if inserts_only else None},
        is_repeatable=True,
    )
    found = yield from read(File, request)
    if wait == 0 or found.status == "retracted":
        return found
    found = yield from until(
        File,
        get("graphs", graph, "files", file_id),
        lambda each: each.status != "retracting",
        seconds=wait,
    )
    if found.status == "committed":
        title, detail = "File cannot be retracted", f"file {file_id} stays: {found.reason}"
        raise Conflict(Refusal(title=title, detail=detail))
    return found


def retry_file(graph: str, file_id: int) -> Call[File]:
    """Offer a file again that is quarantined, or was retracted and has no newer version."""
    request = Request(
        method="POST",
        path=path("graphs", graph, "files", file_id, verb="retry"),
        is_repeatable=True,
    )
    return (yield from read(File, request))


def _require_taken(push: Push) -> Push:
    """The push, unless ingest has refused it."""
    if push.status == "quarantined":
        raise broken_contract("Edges", push.file, "the block was refused")
    return push
