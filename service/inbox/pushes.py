"""Pushes of edges over HTTP: checked on arrival, durable before they are acknowledged.

A small push is a row of the database, a larger one a Parquet file below the graph and a row that
names it; `push_gatherer` makes files of both. What breaks the data contract is refused here with
its row, and leaves nothing behind. Requests that come together share one transaction: each alone
would wait for the disk.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from sqlalchemy.exc import DBAPIError

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.block_rows import RELATED, block_rows, relations_of, says_relation
from peewit.service.inbox.edge_deletes import relation_text
from peewit.service.inbox.inbox_records import BacklogFull, NewPush, PushLimits, PushRecord
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.push_log import PushLog, backlog_full
from peewit.service.tables.uploads import BadUpload, UploadLimits, edge_batches, id_type
from peewit.solvers.arguments import BadArgument
from peewit.streaming.durable_files import make_durable_directory, publish_file
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.change_columns import rows_ended
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.conversion import too_many
from peewit.streaming.edges.operations import DELETE, DELETIONS_OFF, INSERT, OPERATIONS
from peewit.streaming.edges.parts import EdgeFile, StagedFile
from peewit.streaming.edges.passing import require_past
from peewit.streaming.edges.reader import read_part
from peewit.streaming.edges.relations import UNNAMED
from peewit.streaming.edges.staging import stage
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.edges.time_units import SECOND
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore

__all__ = ["BacklogFull", "PushStore", "block_schema", "write_block"]

ROWS_PER_GROUP: Final = 1 << 17
"""Rows of a row group, the unit that ingest reads."""

SMALL_BYTES: Final = 1 << 16
"""Blocks up to this size stay in the database until they are gathered."""

Look = Callable[[pa.Table, Sequence[str], Mapping[str, int]], None]

_LOOK_SECONDS: Final = 0.1


@dataclass(slots=True)
class _Waiting:
    graph_id: str
    push: NewPush
    answer: PushRecord | Exception | None = None


class PushStore:
    """Store of incoming pushes; any number of threads may use it.

    At most ``max_backlog_bytes`` of one graph may wait, and ``max_total_backlog_bytes`` of all.
    """

    def __init__(
        self,
        *,
        manifest: Manifest,
        graphs_directory: Path,
        max_backlog_bytes: int,
        max_total_backlog_bytes: int,
    ) -> None:
        self._log = manifest.push_log
        self._graphs_directory = graphs_directory
        self._limits = PushLimits(
            graph_bytes=max_backlog_bytes, total_bytes=max_total_backlog_bytes
        )
        self._lock = Lock()
        self._writing = Lock()
        self._waiting: list[_Waiting] = []
        self._room_seen: dict[str, float] = {}

    def require_room(self, graph_id: str) -> None:
        """Raise `BacklogFull` while the backlog is full; to be called before a body is read.

        Room is remembered for a moment, as `add` checks every time; fullness is not.
        """
        seen_at = self._room_seen.get(graph_id)
        if seen_at is not None and time.monotonic() - seen_at < _LOOK_SECONDS:
            return
        of_graph, of_all = self._log.backlog_bytes(graph_id)
        if of_graph >= self._limits.graph_bytes:
            raise backlog_full("of one graph", self._limits.graph_bytes, of_graph)
        if of_all >= self._limits.total_bytes:
            raise backlog_full("of all graphs", self._limits.total_bytes, of_all)
        self._room_seen[graph_id] = time.monotonic()

    def add(
        self,
        graph: GraphRecord,
        file: BinaryIO,
        table_format: Format,
        *,
        body_digest: str,
        columns: EdgeColumns = PLAIN,
        idempotency_key: str | None = None,
        owner: str | None = None,
        file_digest: str | None = None,
        max_bad_rows: int = 0,
        n_bad_rows: int = 0,
        limits: UploadLimits | None = None,
        staged: StagedFile | None = None,
        look: Look = lambda _first_rows, _names, _ended: None,
    ) -> PushRecord:
        """The push of some edges, durable when this returns.

        ``file`` is the body, seekable; ``body_digest`` is of the body and its format; ``owner`` is
        a prefix of the sender's key; ``file_digest`` is of the file that the edges came as, if it
        was one, of which ``n_bad_rows`` are left out already; ``limits`` are on the decoded edges.
        Of a body that is ``staged`` the parts are read instead. ``look`` is called with the first
        rows, once they are checked, the names of the body's columns, and `rows_ended` of these.
        If the ``idempotency_key`` came before, the earlier push is returned and nothing is stored.

        Raises BadUpload or BadEdges where more than ``max_bad_rows`` break the data contract, with
        the number of all, or the limits are broken,
        `BacklogFull` where others were faster to fill the room that `require_room` saw,
        IdempotencyConflict where the key came before with another body, `GraphNotFound`, and
        BadArgument where rows delete edges of no relation in a graph that names some.
        """
        if idempotency_key is not None:
            earlier = self._log.find(graph.id, idempotency_key, body_digest)
            if earlier is not None:
                return earlier
        start = file.tell()
        try:
            store = SnapshotStore(GraphPaths(root=self._graphs_directory / graph.id).snapshots)
            unsaid = store.relation_names() if columns.op and not says_relation(columns) else ()
            checked = _Checked(graph, self._latest(graph), relations_of(columns), unsaid)
            batches = (
                checked.body(file, table_format, columns, limits)
                if staged is None
                else checked.parts(staged)
            )
            push = self._written(checked, batches, look, body_digest, idempotency_key)
        except (BadEdges, BadUpload) as fault:
            if fault.row is None:
                raise
            file.seek(start)
            with self._without_bad_rows(
                graph, file, table_format, columns, max_bad_rows
            ) as without:
                if not without.bad_rows:  # it breaks a rule of the graph
                    raise
                batches = checked.parts(without)
                push = self._written(checked, batches, look, body_digest, idempotency_key)
                n_bad_rows = len(without.bad_rows)
        push = replace(push, owner=owner, file_digest=file_digest, n_bad_rows=n_bad_rows)
        try:
            record = self._store(graph.id, push)
        except DBAPIError:
            raise  # it may be stored and the answer be lost; `sweep` removes what no row names
        except Exception:
            if push.path:
                Path(push.path).unlink()
            raise
        if push.path != record.path and push.path:  # another request with this key was faster
            Path(push.path).unlink()
        return record

    @contextmanager
    def _without_bad_rows(
        self,
        graph: GraphRecord,
        file: BinaryIO,
        table_format: Format,
        columns: EdgeColumns,
        max_bad_rows: int,
    ) -> Iterator[StagedFile]:
        """A copy of a body without its bad rows; raises BadEdges with the number of all of them."""
        below = GraphPaths(root=self._graphs_directory / graph.id).uploads / "looks"
        below.mkdir(parents=True, exist_ok=True)
        kind, max_nodes = graph.settings.node_ids, graph.settings.max_nodes
        with tempfile.TemporaryDirectory(dir=below) as directory:
            path = Path(directory) / f"body{table_format.suffix}"
            with path.open("wb") as body:
                shutil.copyfileobj(file, body)
            sent = EdgeFile(
                path=str(path),
                size=path.stat().st_size,
                version="",
                columns=columns,
                max_bad_rows=max_bad_rows,
            )
            try:
                if not max_bad_rows and table_format is Format.PARQUET:  # to be counted
                    sent = replace(sent, max_bad_rows=1)
                with stage(sent, Path(directory), node_kind=kind, max_nodes=max_nodes) as staged:
                    if len(staged.bad_rows) > max_bad_rows:
                        raise too_many(staged.bad_rows[0], len(staged.bad_rows))
                    yield staged
            except BadEdges as error:
                raise _of_body(error, path) from error

    def _written(
        self,
        checked: "_Checked",
        batches: Iterator[pa.RecordBatch],
        look: Look,
        body_digest: str,
        idempotency_key: str | None,
    ) -> NewPush:
        """The block of a table that keeps the rules, on disk where it is large."""
        head, n_bytes = [], 0
        for batch in batches:
            head.append(pa.Table.from_batches([batch]))
            n_bytes += head[-1].nbytes
            if n_bytes > SMALL_BYTES:
                break
        if head:
            look(head[0], checked.names, checked.ended[0] if checked.ended else {})
        if n_bytes > SMALL_BYTES:
            return self._on_disk(checked, head, batches, body_digest, idempotency_key)
        return _in_row(checked, head, body_digest, idempotency_key)

    def _latest(self, graph: GraphRecord) -> int:
        """The latest known time: now, or of an edge of the newest snapshot."""
        now = round(time.time() * SECOND)
        if not has_times(graph):
            return now
        paths = GraphPaths(root=self._graphs_directory / graph.id)
        newest = SnapshotStore(paths.snapshots).newest()
        known = newest.watermark if newest is not None else None
        return now if known is None else max(now, round(known * SECOND))

    def _on_disk(
        self,
        checked: "_Checked",
        head: list[pa.Table],
        batches: Iterator[pa.RecordBatch],
        body_digest: str,
        idempotency_key: str | None,
    ) -> NewPush:
        name = uuid4().hex
        directory = GraphPaths(root=self._graphs_directory / checked.graph.id).pushes
        make_durable_directory(directory)
        path = directory / f"{name}{RELATED if checked.relations else '.parquet'}"

        def tables() -> Iterator[pa.Table]:
            yield from head
            for batch in batches:
                yield pa.Table.from_batches([batch])

        write_block(path, tables(), checked.schema(name))
        return NewPush(
            body_digest=body_digest,
            n_rows=pa.parquet.read_metadata(path).num_rows,
            n_bytes=path.stat().st_size,
            path=str(path),
            idempotency_key=idempotency_key,
        )

    def _store(self, graph_id: str, push: NewPush) -> PushRecord:
        """Store the push with all others of its graph that wait by now."""
        mine = _Waiting(graph_id, push)
        with self._lock:
            self._waiting.append(mine)
        with self._writing:
            if mine.answer is None:  # else the one before took it along
                with self._lock:
                    together = [each for each in self._waiting if each.graph_id == graph_id]
                    self._waiting = [each for each in self._waiting if each.graph_id != graph_id]
                _store_together(self._log, graph_id, together, self._limits)
        if isinstance(mine.answer, Exception):
            raise mine.answer
        if mine.answer is None:
            raise RuntimeError("a push must be answered by the transaction that took it")
        return mine.answer


def _store_together(
    log: PushLog, graph_id: str, together: list[_Waiting], limits: PushLimits
) -> None:
    """Answer all of them; an error of the transaction is everyone's."""
    try:
        answers = log.add(graph_id, [waiting.push for waiting in together], limits)
    except Exception as error:  # noqa: BLE001 - handed to every thread that waits
        for waiting in together:
            waiting.answer = error
    else:
        for waiting, answer in zip(together, answers, strict=True):
            waiting.answer = answer


def _of_body(error: BadEdges, path: Path) -> BadEdges:
    """The error without the place where a body lay."""
    bare = error.bare()
    bare.reason = error.reason.replace(str(path), "the body")
    bare.args = (bare.reason,)
    return bare


def _in_row(
    checked: "_Checked", head: list[pa.Table], body_digest: str, idempotency_key: str | None
) -> NewPush:
    schema = checked.schema()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for table in head:
            writer.write_table(_in_schema(table, schema))
    content = sink.getvalue().to_pybytes()
    return NewPush(
        body_digest=body_digest,
        n_rows=sum(table.num_rows for table in head),
        n_bytes=len(content),
        content=content,
        idempotency_key=idempotency_key,
    )


def block_schema(
    graph: GraphRecord, name: str | None = None, *, has_relations: bool = False
) -> pa.Schema:
    """Columns of a pushed block, with its name if it is in a file.

    Equal edges that are pushed twice count twice, so their files must differ.
    """
    ids = id_type(graph.settings.node_ids)
    columns = [("src", ids), ("dst", ids), ("weight", pa.float32())]
    if graph.settings.deletions != "off":
        columns.append(("op", pa.string()))
    if has_times(graph):
        columns.append(("time", pa.timestamp("us")))
    if has_relations:
        columns.append(("relation", pa.string()))
    return pa.schema(columns, metadata=None if name is None else {b"peewit.push": name.encode()})


def has_times(graph: GraphRecord) -> bool:
    """Whether edges of a graph have times."""
    window = graph.settings.window
    return window is not None and window.by == "time"


class RelationsNamed(Exception):
    """Rows name their relations, and the file that they go to does not."""


def write_block(path: Path, tables: Iterator[pa.Table], schema: pa.Schema) -> None:
    """Publish a block of edges as a Parquet file in a directory that exists.

    Raises `RelationsNamed` where the schema has no column of relations and rows name some.
    """

    def write(temporary: Path) -> None:
        with pa.parquet.ParquetWriter(temporary, schema) as writer:
            for group in _join_tables(tables):
                writer.write_table(_in_schema(group, schema), row_group_size=ROWS_PER_GROUP)

    publish_file(path, write)


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A block with the columns of its graph; rows without an operation insert."""
    if "op" in schema.names:
        inserts = pa.repeat(OPERATIONS[INSERT], table.num_rows)
        if "op" not in table.schema.names:
            table = table.append_column("op", inserts)
        # null in blocks without operations that were joined to others
        elif table.column("op").null_count:
            filled = pc.fill_null(table.column("op"), OPERATIONS[INSERT])
            table = table.set_column(table.schema.get_field_index("op"), "op", filled)
    if "time" in schema.names and "time" not in table.schema.names:  # rows that delete need none
        table = table.append_column("time", pa.nulls(table.num_rows, pa.timestamp("us")))
    if "relation" in schema.names:
        if "relation" not in table.schema.names:
            table = table.append_column("relation", pa.repeat(UNNAMED, table.num_rows))
        named = pc.fill_null(table.column("relation"), UNNAMED)
        table = table.set_column(table.schema.get_field_index("relation"), "relation", named)
    elif "relation" in table.schema.names:
        raise RelationsNamed
    return table.select(schema.names).cast(schema)


@dataclass(frozen=True, slots=True)
class _Checked:
    """Rows of a push that keep the rules of their graph; each pass raises where one does not."""

    graph: GraphRecord
    latest: int  # time that is known
    relations: Sequence[str]  # as `block_rows` has them
    unsaid: Sequence[str] = ()  # of the graph, where the rows would have to name theirs to delete
    names: list[str] = field(default_factory=list)  # of the body's columns, once it is read
    ended: list[Mapping[str, int]] = field(default_factory=list)  # `rows_ended` of the first batch

    def schema(self, name: str | None = None) -> pa.Schema:
        """Columns of the rows, with the name of the block if it is in a file."""
        return block_schema(self.graph, name, has_relations=bool(self.relations))

    def body(
        self,
        file: BinaryIO,
        table_format: Format,
        columns: EdgeColumns,
        limits: UploadLimits | None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a body as it was sent."""
        settings = self.graph.settings
        first_row = 0
        for batch in edge_batches(
            *(file, table_format, settings.node_ids),
            columns=columns,
            limits=limits,
            see_names=self._see_names,
            see_states=self._see_states,
        ):
            block = read_columns(
                batch,
                node_kind=settings.node_ids,
                max_nodes=settings.max_nodes,
                columns=columns,
                first_row=first_row,
            )
            first_row += block.n_rows
            yield from self._rows(block, self.relations)

    def _see_names(self, names: Sequence[str]) -> None:
        self.names.extend(name for name in names if name not in self.names)

    def _see_states(self, columns: Mapping[str, pa.Array]) -> None:
        if not self.ended:  # by the first batch, as of files
            self.ended.append(rows_ended(columns))

    def parts(self, staged: StagedFile) -> Iterator[pa.RecordBatch]:
        """Rows of a body that is staged."""
        settings = self.graph.settings
        for part in staged.parts:
            block = read_part(
                staged, part, node_kind=settings.node_ids, max_nodes=settings.max_nodes
            )
            yield from self._rows(block, (part.relation,) if self.relations else ())

    def _rows(self, block: RawBlock, relations: Sequence[str]) -> Iterator[pa.RecordBatch]:
        settings = self.graph.settings
        if settings.window is not None:
            require_past(block, self.latest, settings.window)
        if block.op is not None and settings.deletions == "off":
            row = block.first_row + int((block.op != INSERT).argmax())
            raise BadEdges(DELETIONS_OFF, argument="op", row=row)
        if self.unsaid and block.op is not None and (block.op == DELETE).any():
            have = ", ".join(map(relation_text, self.unsaid))
            rule = f"must say of which kind the edges are that rows delete; the graph has {have}"
            raise BadArgument("relation", f"{rule}, got none; say one, '' for that without a name")
        yield from block_rows(block, relations)


def _join_tables(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables joined until they fill a row group."""
    waiting: list[pa.Table] = []
    n_rows = 0
    for table in tables:
        waiting.append(table)
        n_rows += table.num_rows
        if n_rows >= ROWS_PER_GROUP:
            yield pa.concat_tables(waiting, promote_options="permissive")
            waiting, n_rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting, promote_options="permissive")
