"""Edges and features that are sent."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pyarrow as pa

from peewit.service.client.call_steps import Answer, Body, Call, Pause, Request, once, repeated
from peewit.service.client.calls.common import parsed, path, read, taken
from peewit.service.client.calls.edges import push
from peewit.service.client.calls.feature_sets import feature_set
from peewit.service.client.errors import InvalidArgument
from peewit.service.client.tables import TableLike, table_body
from peewit.service.wire.features import FeatureSet
from peewit.service.wire.sources_and_pushes import Push
from peewit.streaming.edges.reading_options import MissingIds, NodelessRows, Quote
from peewit.streaming.edges.time_units import TimeUnit


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
    relation: str | None = None,
    relation_column: str | None = None,
    src_kind_column: str | None = None,
    dst_kind_column: str | None = None,
    entity: str | None = None,
    via: str | Sequence[str] | None = None,
    time_unit: TimeUnit | None = None,
    time_format: str | None = None,
    quote: Quote | None = None,
    missing_ids: MissingIds | None = None,
    max_bad_rows: int = 0,
) -> Call[Push]:
    """Push a block of edges; it is checked whole, and on the server's disk before this returns.

    Parameters
    ----------
    graph : str
        Its name.
    edges : TableLike
        Columns of both ends and, if need be, of a weight: an Arrow table, batches, a data frame,
        or the path of a Parquet, CSV, NDJSON or Arrow file. Tables of several kinds of edges are
        pushed one by one, each with its ``relation``.
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
    relation : str, optional
        Kind of edges that all rows are of.
    relation_column : str, optional
        Column of the kind of edges of each row.
    src_kind_column, dst_kind_column : str, optional
        Columns of the kind of the node at either end of each row.
    entity : str, optional
        Column of events that is joined with each of ``via``.
    via : str or sequence of str, optional
        Columns of events, instead of ``src`` and ``dst``, with commas between in a string; each
        gives a kind of edges of its name, and an empty cell is no edge.
    time_unit : {"s", "ms", "us", "ns"}, optional
        What times that are numbers count; seconds of our days when left out.
    time_format : str, optional
        How times are written, as strptime has it.
    quote : {"double", "none"}, optional
        Whether a double quote before a field of CSV quotes it; looked at when left out.
    missing_ids : {"refuse", "keep"}, optional
        What becomes of ids that are words for nothing, as NA; refused when left out.
    max_bad_rows : int
        Most rows that may be left out because they break a rule; ``n_bad_rows`` of the push says
        how many are.

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
    if isinstance(edges, Mapping):
        name = next(iter(edges), "NAME")
        raise TypeError(
            f"edges must be one table, got a mapping; push each kind of edges by itself, as "
            f"push_edges({graph!r}, edges[{name!r}], relation={name!r}), or one table with a "
            "relation_column"
        )
    body = table_body(edges)
    relations = {
        "relation": relation,
        "relation_column": relation_column,
        "src_kind_column": src_kind_column,
        "dst_kind_column": dst_kind_column,
        "entity": entity,
        "via": via if via is None or isinstance(via, str) else ",".join(via),
    }
    related = (f"{name}={each}" for name, each in relations.items() if each)
    reading = {
        "time_unit": time_unit,
        "time_format": time_format,
        "quote": quote,
        "missing_ids": missing_ids,
    }
    is_file = key is None and isinstance(edges, str | Path)
    if is_file:
        further = op, time, *reading.values()
        key = yield from _content_key(body, src, dst, weight, *filter(None, further), *related)
    request = Request(
        method="POST",
        path=path("graphs", graph, "edges"),
        params={
            "src": src,
            "dst": dst,
            "weight": weight,
            "op": op,
            "time": time,
            **relations,
            **reading,
            "max_bad_rows": max_bad_rows or None,
        },
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
    if not pushed.is_settled and wait != 0:
        return (yield from push(graph, pushed.id, wait=wait)).since(pushed)
    return taken(pushed, (InvalidArgument, "Edges break the contract"))


def delete_edges(
    graph: str,
    pairs: Iterable[tuple[str | int, str | int]],
    *,
    relation: str | None = None,
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
    relation : str, optional
        Kind of the edges, '' for those without a name; needed where some have one.
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
        Deletions of the graph are off, an id is not of its kind, or the edges of the graph have
        kinds and ``relation`` says none.
    RateLimited
        The backlog stayed full.
    """
    listed = list(pairs)
    if not listed:
        raise ValueError("pairs must hold at least one, got none")
    src, dst = zip(*listed, strict=True)
    table = pa.table({"src": list(src), "dst": list(dst), "op": ["delete"] * len(src)})
    pushed = partial(push_edges, src="src", dst="dst", op="op", relation=relation)
    return (yield from pushed(graph, table, wait=wait, key=key))


def _content_key(body: Body, *columns: str | None) -> Call[str]:
    """A key that equal bytes have whose columns are read alike."""
    digest = sha256(repr((body.media_type, columns)).encode())
    for piece in body.pieces():
        digest.update(piece)
        yield Pause(0.0)  # an event loop has others to serve
    return digest.hexdigest()


def put_features(
    graph: str,
    rows: TableLike,
    *,
    wait: float | None = 0.0,
    node: str | None = None,
    text: str | None = None,
    without: str | None = None,
    missing_ids: NodelessRows | None = None,
) -> Call[FeatureSet]:
    """Replace the features of all nodes; nodes that the graph does not know are created.

    Parameters
    ----------
    graph : str
        Its name.
    rows : TableLike
        Column ``node`` and either ``features``, lists of equal length, or ``indices`` and
        ``values``, one list of each; a CSV file has ``node`` and a column for each number.
    wait : float or None
        Longest time to wait until they are in the graph, in seconds; for ever when None. When time
        is over the set is returned as it stands, pending.
    node : str, optional
        What the column of the node is called; as the graph says when left out, else ``node``.
    text : str, optional
        Columns of texts, with commas between: their words become features, by a hash.
    without : str, optional
        Columns that become no features, with commas between, as one that holds the label.
    missing_ids : {"refuse", "leave-out"}, optional
        What becomes of rows that name no node: the table is refused, or they are left out and
        ``note`` says how many.

    Returns
    -------
    FeatureSet

    Raises
    ------
    InvalidArgument
        A row breaks a rule; ``row`` and ``value`` say which.
    RateLimited
        The backlog stayed full.
    """
    return (yield from _send("PUT", graph, rows, wait, node, text, without, missing_ids))


def add_features(
    graph: str,
    rows: TableLike,
    *,
    wait: float | None = 0.0,
    node: str | None = None,
    text: str | None = None,
    without: str | None = None,
    missing_ids: NodelessRows | None = None,
) -> Call[FeatureSet]:
    """Add rows, or overwrite those of the same nodes; the others stay. Else as `put_features`.

    Not repeated after a broken connection: what others have written since would be overwritten.
    """
    return (yield from _send("POST", graph, rows, wait, node, text, without, missing_ids))


def _send(
    method: Literal["PUT", "POST"],
    graph: str,
    rows: TableLike,
    wait: float | None,
    node: str | None,
    text: str | None,
    without: str | None,
    missing_ids: NodelessRows | None,
) -> Call[FeatureSet]:
    request = Request(
        method=method,
        path=path("graphs", graph, "features"),
        params={"node": node, "text": text, "without": without, "missing_ids": missing_ids},
        body=table_body(rows),
        is_repeatable=method == "PUT",
    )
    sent = yield from read(FeatureSet, request)
    if not sent.is_settled and wait != 0:
        return (yield from feature_set(graph, sent.id, wait=wait))
    return taken(sent, (InvalidArgument, "Features break the contract"))
