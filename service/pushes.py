"""Edges that come over HTTP: checked at the door, on disk and flushed before they are acknowledged.

A push becomes one Parquet file below the graph and one pending file of its manifest. What breaks
the data contract is refused here with its row, and leaves nothing behind.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet

from service.catalog import GraphNotFound, GraphRecord
from service.formats import Format
from service.jobs import IdempotencyConflict
from service.manifest import Manifest, PushRecord
from service.uploads import BadUpload, edge_batches
from streaming.blocks import read_columns
from streaming.durable import fsync_directory, publish_file
from streaming.snapshots import GraphPaths

ROWS_PER_GROUP: Final = 1 << 17
"""Rows of a row group, the unit that ingest reads."""

RETRY_SECONDS: Final = 5
"""When to try again while the backlog is full."""


class BacklogFull(RuntimeError):
    """Pushes that wait for ingest leave no room; try again after `RETRY_SECONDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushStore:
    """Takes pushes in.

    Attributes
    ----------
    manifest : Manifest
        Lists them.
    graphs_directory : Path
        ``Settings.graphs_directory``.
    max_backlog_bytes : int
        Most bytes of one graph that may wait.
    """

    manifest: Manifest
    graphs_directory: Path
    max_backlog_bytes: int

    def require_room(self, graph_id: str) -> None:
        """Raise `BacklogFull` while as much waits as may wait; asked before a body is read."""
        waiting = self.manifest.backlog(graph_id).pushed_bytes
        if waiting >= self.max_backlog_bytes:
            raise BacklogFull(
                f"pushes that wait for ingest must stay below {self.max_backlog_bytes} bytes, got "
                f"{waiting}; try again in {RETRY_SECONDS} seconds, and see that ingest is running"
            )

    def add(
        self,
        graph: GraphRecord,
        file: BinaryIO,
        table_format: Format,
        *,
        body_digest: str,
        idempotency_key: str | None = None,
    ) -> PushRecord:
        """The push of some edges, durable when this returns.

        Parameters
        ----------
        graph : GraphRecord
            Where they belong.
        file : binary file
            The body, seekable.
        table_format : Format
            How it is written.
        body_digest : str
            Of the body and its format.
        idempotency_key : str, optional
            With one that came before, the earlier push is returned and nothing is stored.

        Raises
        ------
        BadUpload, streaming.blocks.BadEdges
            A row breaks the data contract.
        IdempotencyConflict
            The key came before with another body.
        GraphNotFound
            The graph was deleted.
        """
        if idempotency_key is not None:
            earlier = self.manifest.find_push(graph.id, idempotency_key, body_digest)
            if earlier is not None:
                return earlier
        name = uuid4().hex
        path = _made(GraphPaths(root=self.graphs_directory / graph.id).pushes) / f"{name}.parquet"
        batches = _checked(graph, file, table_format)
        publish_file(path, lambda temporary: _write(temporary, batches, _schema(graph, name)))
        try:
            push = self.manifest.add_push(
                graph.id,
                path=str(path),
                body_digest=body_digest,
                n_rows=pa.parquet.read_metadata(path).num_rows,
                n_bytes=path.stat().st_size,
                idempotency_key=idempotency_key,
            )
        except (IdempotencyConflict, GraphNotFound):
            path.unlink()
            raise
        if push.path != str(path):  # another request with the same key was faster
            path.unlink()
        return push

    def sweep(self, graph: GraphRecord, *, older_than_seconds: float) -> list[Path]:
        """Remove blocks that nobody will read: what a process killed at the wrong line leaves.

        Goes: files that no push names, and, unless raw edges are kept, those that are in the graph.
        """
        directory = GraphPaths(root=self.graphs_directory / graph.id).pushes
        if not directory.exists():
            return []
        before = time.time() - older_than_seconds
        old = [path for path in directory.iterdir() if path.stat().st_mtime < before]
        needed = self.manifest.pushed_paths(graph.id, without_committed=not graph.settings.keep_raw)
        removed = [path for path in old if str(path) not in needed]
        for path in removed:
            path.unlink(missing_ok=True)
        return removed


def _made(directory: Path) -> Path:
    """The directory, which survives a power failure once files in it do."""
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        for parent in directory.parents[:3]:  # graph, graphs, home
            fsync_directory(parent)
    return directory


def _schema(graph: GraphRecord, name: str) -> pa.Schema:
    """Names the push: equal edges pushed twice count twice, so their files must differ."""
    id_type = pa.large_string() if graph.settings.node_ids == "string" else pa.int64()
    columns = [("src", id_type), ("dst", id_type), ("weight", pa.float32())]
    return pa.schema(columns, metadata={b"lapwing.push": name.encode()})


def _checked(graph: GraphRecord, file: BinaryIO, table_format: Format) -> Iterator[pa.RecordBatch]:
    """Batches of columns that fulfil the data contract."""
    settings = graph.settings
    first_row = 0
    for batch in edge_batches(file, table_format, settings.node_ids):
        block = read_columns(
            batch,
            node_kind=settings.node_ids,
            max_nodes=settings.max_nodes,
            first_row=first_row,
        )
        first_row += block.n_rows
        yield pa.record_batch({"src": block.src, "dst": block.dst, "weight": block.weight})
    if first_row == 0:
        raise BadUpload("the body must hold at least one edge")


def _write(path: Path, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for group in _gathered(batches):
            writer.write_table(group.cast(schema), row_group_size=ROWS_PER_GROUP)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches joined until there are enough rows for a row group."""
    waiting: list[pa.Table] = []
    n_rows = 0
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]))
        n_rows += batch.num_rows
        if n_rows >= ROWS_PER_GROUP:
            yield pa.concat_tables(waiting, promote_options="permissive")
            waiting, n_rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting, promote_options="permissive")
