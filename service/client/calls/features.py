"""Calls about features of nodes."""

from pathlib import Path
from typing import Literal

import pyarrow as pa

from peewit.service.client.call_steps import Call, Flow, Request
from peewit.service.client.calls.common import broken_contract, get, path, read, until
from peewit.service.client.calls.downloads import batches_of, download, table_of
from peewit.service.client.tables import TableLike, table_body
from peewit.service.wire.features import Features, FeatureSet


def put_features(
    graph: str, rows: TableLike, *, wait: float | None = 0.0, node: str | None = None
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
    return (yield from _send("PUT", graph, rows, wait, node))


def add_features(
    graph: str, rows: TableLike, *, wait: float | None = 0.0, node: str | None = None
) -> Call[FeatureSet]:
    """Add rows, or overwrite those of the same nodes; the others stay. Else as `put_features`.

    Not repeated after a broken connection: what others have written since would be overwritten.
    """
    return (yield from _send("POST", graph, rows, wait, node))


def features(graph: str) -> Call[Features]:
    """The present version of the features, how many nodes have none, and what waits."""
    return (yield from read(Features, get("graphs", graph, "features")))


def feature_set(graph: str, set_id: str, *, wait: float | None = 0.0) -> Call[FeatureSet]:
    """A set as it stands, or once it is pending no more if that is within ``wait`` seconds.

    Raises
    ------
    NotFound
        There is none of this id, or no longer.
    InvalidArgument
        The set was refused when it went in.
    """
    request = get("graphs", graph, "features", "sets", set_id)
    return _require_taken(
        (yield from until(FeatureSet, request, lambda each: each.status != "pending", seconds=wait))
    )


def filtered_features(graph: str, *, job: str | None = None) -> Call[pa.Table]:
    """Smoothed features of all nodes in memory: columns ``node`` and ``features``, a list of each.

    Parameters
    ----------
    graph : str
        Its name.
    job : str, optional
        Those that this job of `submit_filter` has made; of the last one otherwise.

    Raises
    ------
    NotFound
        There are none, or later ones have replaced them.
    """
    return (yield from table_of(_filtered(graph, job)))[0]


def stream_filtered_features(graph: str, *, job: str | None = None) -> Flow[pa.RecordBatch]:
    """The smoothed features, a batch at a time; see `stream_predictions`."""
    return batches_of(_filtered(graph, job))


def download_filtered_features(
    graph: str, target: Path | str, *, table_format: str | None = None, job: str | None = None
) -> Call[Path]:
    """The smoothed features in a file; see `download_predictions`."""
    return (yield from download(_filtered(graph, job), target, table_format))


def _filtered(graph: str, job: str | None) -> Request:
    return get("graphs", graph, "features", "filtered", job=job)


def _send(
    method: Literal["PUT", "POST"],
    graph: str,
    rows: TableLike,
    wait: float | None,
    node: str | None,
) -> Call[FeatureSet]:
    request = Request(
        method=method,
        path=path("graphs", graph, "features"),
        params={"node": node},
        body=table_body(rows),
        is_repeatable=method == "PUT",
    )
    sent = yield from read(FeatureSet, request)
    if sent.status == "pending" and wait != 0:
        return (yield from feature_set(graph, sent.id, wait=wait))
    return _require_taken(sent)


def _require_taken(sent: FeatureSet) -> FeatureSet:
    """The set, unless ingest has refused it."""
    if sent.status == "refused":
        raise broken_contract("Features", sent, "the set was refused")
    return sent
