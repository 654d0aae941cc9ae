"""Snapshots as people look at them: their edges, for download, and maps.

Written from `peewit.service.operations.snapshots`; `make generate` writes it anew.
"""

from pathlib import Path

import pyarrow as pa

from peewit.service.client.call_steps import Call, Flow
from peewit.service.client.calls.common import get
from peewit.service.client.calls.downloads import batches_of, download, table_of


def snapshot_edges(graph: str, number: int) -> Call[pa.Table]:
    """The edges of a snapshot, with the ids that they came with.

    Parameters
    ----------
    graph : str
        Its name.
    number : int

    Returns
    -------
    pyarrow.Table
        Columns `src`, `dst`, `weight`; where edges have kinds also `relation`, with a row of a
        pair in each that joins it.

    Raises
    ------
    NotFound
        No snapshot of that number is kept.
    """
    return (yield from table_of(get("graphs", graph, "snapshots", number, "edges")))[0]


def stream_snapshot_edges(graph: str, number: int) -> Flow[pa.RecordBatch]:
    """`snapshot_edges` a batch at a time; see `stream_predictions`."""
    return batches_of(get("graphs", graph, "snapshots", number, "edges"))


def download_snapshot_edges(
    graph: str, number: int, target: Path | str, *, table_format: str | None = None
) -> Call[Path]:
    """`snapshot_edges` in a file; see `download_predictions`."""
    request = get("graphs", graph, "snapshots", number, "edges")
    return (yield from download(request, target, table_format))
