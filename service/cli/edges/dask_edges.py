"""Edges that dask computes, of `peewit ingest NAME --dask MODULE:NAME`, taken as pushes.

A partition is a push whose key tells the name that was said and its number, so that the same
command goes on where it stopped. One that is in is passed over where dask calls it as before; where
it does not, it is computed, and its rows must be those that came.
"""

import importlib
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.edges.outcome import tell_outcome
from peewit.service.cli.edges.reading import STOP_SECONDS, ended_when_stopped, read_all
from peewit.service.cli.option_names import as_options
from peewit.service.cli.progress import RowProgress, fault_text
from peewit.service.cli.session import say, stderr_console
from peewit.service.graphs.table_notes import pushed_notes
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import BacklogFull, PushRecord
from peewit.service.inbox.typed_graphs import typed_graph
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.streaming.calls.dask_partitions import DaskPartitions, NoEdges, Partition, is_dask
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import NO_COLUMN, EdgeColumns
from peewit.streaming.edges.node_ids import id_type
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.graph_stream import Interrupted


def ingest_dask(
    home: Home,
    graph: GraphRecord,
    said: str,
    columns: EdgeColumns,
    max_bad_rows: int,
    *,
    as_json: bool,
) -> bool:
    """Take in the edges that dask computes; whether no partition was refused."""
    started, n_bad_before = monotonic(), home.manifest.n_bad_rows(graph.id)
    partitions = DaskPartitions(collection_named(said), columns)
    with (
        StopSignal() as stop,
        exit_after_signal(STOP_SECONDS),
        ended_when_stopped("the same command goes on from here"),
    ):
        intake = PartitionIntake(
            home=home,
            graph=graph,
            said=said,
            columns=columns,
            max_bad_rows=max_bad_rows,
            stop=stop,
            is_quiet=as_json,
        )
        progress = RowProgress(stderr_console(), None)
        try:
            with nullcontext() if as_json else progress:
                intake.push_all(partitions, home.settings.n_threads, progress)
        finally:  # those before one that is refused are in all the same
            if not stop():
                intake.read_pushed()
    refused = [each.file for each in intake.pushes if each.status == "quarantined" and each.file]
    n_bad_rows = home.manifest.n_bad_rows(graph.id) - n_bad_before
    seconds = monotonic() - started
    tell_outcome(home, graph, refused, (), seconds, n_bad_rows=n_bad_rows, as_json=as_json)
    if not as_json:
        say(f"{len(partitions):,} partitions of {said}, {intake.n_before:,} of them in before")
        for note in intake.notes:
            say(f"note: {as_options(note)}")
        for file in refused:
            say(f"quarantined: {fault_text(file.reason, file.row, file.value)}")
    return not refused


def collection_named(said: str) -> Any:
    """The dask collection that MODULE:NAME names, or that it returns; modules may lie here."""
    module_name, _, name = said.partition(":")
    if not module_name or not name:
        raise _unusable("must be MODULE:NAME, as pipeline:edges of pipeline.py here", said)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: Any
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module's own
        raise _unusable("must name a module that is installed or lies here", said) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found) and not is_dask(found):
        found = found()
    if not is_dask(found):
        rule = "must name a dask.dataframe, a dask.bag, a list of delayed tables, or a function"
        raise _unusable(f"{rule} that returns one", f"{said}, which is {type(found).__name__}")
    return found


def _unusable(rule: str, got: str) -> typer.BadParameter:
    return typer.BadParameter(f"{rule}, got {got}", param_hint="--dask")


@dataclass(slots=True, kw_only=True)
class PartitionIntake:
    """Takes in the partitions of a collection, by order of their numbers."""

    home: Home
    graph: GraphRecord
    said: str
    columns: EdgeColumns
    max_bad_rows: int
    stop: StopSignal
    is_quiet: bool
    notes: list[str] = field(default_factory=list)
    n_before: int = 0
    pushes: list[PushRecord] = field(default_factory=list)

    def push_all(self, partitions: DaskPartitions, n_threads: int, progress: RowProgress) -> None:
        """Push what did not come before; `read_pushed` takes it in.

        Raises BadEdges, TypeError or ValueError where a partition cannot be taken, those before it
        being in or on disk, and `Interrupted` between two.
        """
        kinds = self.columns.kinds_by_argument
        self.graph = typed_graph(self.home.database, self.graph, kinds)
        keys = [f"{self._prefix}{number}" for number in range(len(partitions))]
        known = self.home.manifest.push_log.of_prefix(self.graph.id, self._prefix)
        if beyond := known.keys() - {*keys}:
            raise ValueError(
                f"{self.said} must have as many partitions as before, got {len(keys):,}, and "
                f"{len(beyond):,} more are in; take it into a new graph, since what came stays"
            )
        names = partitions.keys
        wanted = [
            number
            for number, key in enumerate(keys)
            if key not in known or known[key].file_digest != self._called(names[number])
        ]
        self.n_before = len(keys) - len(wanted)
        passed = (known[keys[number]] for number in sorted({*range(len(keys))}.difference(wanted)))
        self.pushes = [each for each in passed if each.status in {"pending", "quarantined"}]
        for each in _told(partitions.tables(n_threads, wanted)):
            if self.stop():
                raise Interrupted
            key = keys[each.number]
            self._push(each, key, self._called(names[each.number]), known.get(key))
            progress.advance(each.table.num_rows)

    @property
    def _prefix(self) -> str:
        """Of the keys of all partitions."""
        return f"dask:{self.said}:"

    def _called(self, name: str) -> str:
        """What a partition is called by dask and read by."""
        return f"dask:{sha256(f'{name} {self.columns!r}'.encode()).hexdigest()}"

    def _push(
        self, partition: Partition, key: str, name_digest: str, earlier: PushRecord | None
    ) -> None:
        body = io.BytesIO()
        table = partition.table.replace_schema_metadata(None)
        if not table.num_rows:
            table = self._empty()
        with pa.ipc.new_stream(body, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        digest = sha256(repr(partition.columns).encode() + body.getbuffer()).hexdigest()
        if earlier is not None:
            if earlier.body_digest != digest:
                raise ValueError(
                    f"partition {partition.number} (from 0) of {self.said} came before with other "
                    "rows or columns; take it into a new graph, since what came stays"
                )
            self.n_before += 1
            return
        push = self._taken(body, digest, key, name_digest, partition)
        self.pushes.append(push)  # to the list as it is by now

    def _empty(self) -> pa.Table:
        """A table without rows, whose partition then is known to have come."""
        kind = id_type(self.graph.settings.node_ids)
        types = dict.fromkeys(self.columns.nodes, kind)
        types |= {self.columns.weight: pa.float64(), self.columns.time: pa.timestamp("us")}
        names = [name for name in self.columns if name != NO_COLUMN]
        return pa.table({name: pa.array([], types.get(name, pa.string())) for name in names})

    def _taken(
        self, body: io.BytesIO, digest: str, key: str, name_digest: str, partition: Partition
    ) -> PushRecord:
        """The push of a body; where no room is left, what waits is taken in first."""
        while True:
            body.seek(0)
            try:
                return self.home.pushes.add(
                    self.graph,
                    body,
                    Format.ARROW,
                    body_digest=digest,
                    columns=partition.columns,
                    idempotency_key=key,
                    file_digest=name_digest,
                    max_bad_rows=self.max_bad_rows,
                    look=partial(self._look, partition.names),
                )
            except BacklogFull:
                if not self.read_pushed():
                    raise
            except BadEdges as error:
                error.reason = f"partition {partition.number} (from 0): {error.reason}"
                raise

    def _look(
        self, names: list[str], rows: pa.Table, _sent: Sequence[str], ended: Mapping[str, int]
    ) -> None:
        """Note what is odd; ``names`` are those of all columns, of which some were sent."""
        store = self.home.snapshots(self.graph)
        found = pushed_notes(self.graph, self.home.nodes, store, self.columns, rows, names, ended)
        self.notes += [note for note in found if note and note not in self.notes]

    def read_pushed(self) -> bool:
        """Take in what was pushed; whether anything waited."""
        log = self.home.manifest.push_log
        waiting = [each.id for each in self.pushes if each.status == "pending"]
        if not waiting:
            return False
        read_all(
            *(self.home, self.graph.id, (), self.stop),
            is_quiet=self.is_quiet,
            is_done=lambda: log.get(self.graph.id, waiting[-1]).status != "pending",
        )
        self.pushes = [
            log.get(self.graph.id, each.id) if each.status == "pending" else each
            for each in self.pushes
        ]
        return True


def _told(partitions: Iterator[Partition]) -> Iterator[Partition]:
    """Partitions, or a ValueError of one that is none, which commands tell in a line."""
    try:
        yield from partitions
    except NoEdges as error:
        raise ValueError(str(error)) from error
