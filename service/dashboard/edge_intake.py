"""Edge intake: uploaded files and files at a place, checked and then taken."""

import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.column_choices import EdgeChoice, at_their_places
from peewit.service.dashboard.proposed_names import name_of_place, proposed_relation
from peewit.service.dashboard.uploads import Upload
from peewit.service.graphs.directed_relations import directed_relation, mark_directed
from peewit.service.graphs.table_notes import columns_before, table_note
from peewit.service.inbox.block_rows import relations_of
from peewit.service.inbox.confinement import SourceRules, require_within
from peewit.service.inbox.edge_reports import FileReport, file_report
from peewit.service.inbox.file_times import FileTimes
from peewit.service.inbox.inbox_records import PushRecord
from peewit.service.inbox.typed_graphs import as_typed, typed_graph
from peewit.service.live_sources.kinds import FILES
from peewit.service.problems import InvalidArgument
from peewit.service.tables.column_names import edge_columns
from peewit.service.tables.table_heads import TableHead, table_head
from peewit.service.tables.uploads import decoding_bytes
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import NO_COLUMN, EdgeColumns
from peewit.streaming.edges.conversion import edge_format
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.edges.table_formats import Format, open_table

_HEAD_BYTES: Final = 16 << 20
"""Bytes of a file that are unpacked to show its first rows."""


MAX_BAD_ROWS_LOOKED_FOR: Final = 1_000
"""Most bad rows that are counted before a file is taken, unless more are allowed.

Each takes a millisecond, and in a column chosen by mistake all are bad.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Files that a source would read."""

    url: str
    files: Sequence[EdgeFile]  # empty for what only ingest reads
    is_local: bool  # files on this machine


def upload_file(upload: Upload) -> EdgeFile:
    """An upload as a file of edges."""
    status = upload.path.stat()
    return EdgeFile(path=str(upload.path), size=status.st_size, version=str(status.st_mtime_ns))


def files_at(url: str, home: ServedHome, kind: str = FILES) -> Place:
    """The files of a place that is open to sources added over HTTP.

    Remote places and live sources are left to ingest, whose redirects are confined. Raises
    `peewit.service.inbox.confinement.SourceRefused` where it is not open or leads elsewhere, and
    InvalidArgument where it cannot be read.
    """
    within = SourceRules.of(home.settings).place_of(url)
    if kind != FILES or not within.startswith("/"):
        return Place(url=url, files=(), is_local=False)
    with refusing():
        try:
            files = EdgeFiles(url).list()
        except OSError as error:
            raise BadArgument("url", f"must name files that can be read: {error}") from error
    for file in files:
        require_within(file.path, within, home=home.settings.home)
    return Place(url=url, files=files, is_local=True)


def head_of(file: EdgeFile, home: ServedHome, *, is_data: bool, quote: Quote | None) -> TableHead:
    """Column names and first rows of a file; raises `BadUpload`."""
    table_format, compression = edge_format(file.path, file.path)
    if compression is not None and table_format is Format.PARQUET:
        raise BadUpload("a Parquet file must not be compressed as a whole")
    has_names = not is_data
    if compression is not None:
        with open_table(file.path, compression) as content:
            beginning = io.BytesIO(content.read(_HEAD_BYTES))
        return table_head(beginning, table_format, has_names=has_names, quote=quote)
    with Path(file.path).open("rb") as content:
        if table_format in {Format.ARROW, Format.PARQUET}:
            decoding_bytes(content, table_format, file.size, home.upload_limits)
            content.seek(0)
        return table_head(content, table_format, has_names=has_names, quote=quote)


def proposal(
    file: EdgeFile,
    graph: GraphRecord,
    home: ServedHome,
    choice: EdgeChoice,
    *,
    last: Mapping[str, str],
) -> tuple[TableHead, EdgeChoice]:
    """Head of a file, and the choice of columns, proposed where none is made."""
    head = head_of(file, home, is_data=choice.is_data, quote=choice.quote)
    if set(choice.named.values()) - set(head.names):  # chosen before the first line was said to be
        other = head_of(
            file, home, is_data=not choice.is_data, quote=choice.quote
        )  # names, or data
        choice = at_their_places(choice, head, other)
    if choice.named:
        return head, choice
    is_data = choice.is_data or not head.has_names
    return head, EdgeChoice.proposed(
        *(head, graph, home.nodes),
        is_data=is_data,
        quote=choice.quote,
        last=last,
        relation=_proposed_relation(Path(file.path).name, graph, home),
    )


def proposed_for_place(url: str, graph: GraphRecord, home: ServedHome) -> str:
    """A kind of edges by the name of a place that the page does not look into."""
    return _proposed_relation(name_of_place(url), graph, home)


def _proposed_relation(name: str, graph: GraphRecord, home: ServedHome) -> str:
    """A kind of edges by the name of a file, in graphs that have kinds."""
    known = home.snapshots(graph).relation_names()
    has_names = any(known) or graph.settings.node_ids == "typed"
    return proposed_relation(name, known) if has_names else ""


def look(
    file: EdgeFile,
    graph: GraphRecord,
    home: ServedHome,
    choice: EdgeChoice,
    packed_digest: str | None = None,
) -> FileReport:
    """What the graph would take of a file, which may have come packed; reads all of it."""
    looked_for = max(choice.max_bad_rows, MAX_BAD_ROWS_LOOKED_FOR)
    columns = _columns(graph, choice)
    as_chosen = replace(file, columns=columns, max_bad_rows=looked_for)
    if any(columns.said_kinds) and not graph.progress.edges_seen:
        graph = as_typed(graph)
    with _work_directory(graph, home) as directory:
        report = file_report(
            graph,
            as_chosen,
            directory,
            max_bad_rows=choice.max_bad_rows,
            times=FileTimes.of(graph, home.settings.graphs_directory),
        )
    before = columns_before(graph, home.manifest.sources.list(graph.id))
    if choice.directed:  # as it will be once the file is taken
        directed = (*graph.settings.directed, choice.one_relation)
        graph = replace(graph, settings=replace(graph.settings, directed=directed))
    note = table_note(graph, home.nodes, as_chosen, before, door="page")
    return replace(report, digest=packed_digest or report.digest, note=note)


def earlier(report: FileReport, graph: GraphRecord, home: ServedHome) -> str | None:
    """What brought the content of a file to the graph before; None where nothing did."""
    if report.digest is None:
        return None
    path = home.manifest.path_of_content(graph.id, report.digest)
    if path is None and report.digest in home.manifest.push_log.file_digests(graph.id):
        return "a file that was sent"
    return path


def missing_rows(
    file: EdgeFile, report: FileReport, home: ServedHome, choice: EdgeChoice
) -> str | None:
    """Message for a file without faults and without rows; None for others."""
    if report.n_rows or report.bad_rows or report.refusal is not None:
        return None
    head = head_of(file, home, is_data=choice.is_data, quote=choice.quote)
    return head.without_rows(Path(file.path).name)


def take(
    upload: Upload,
    graph: GraphRecord,
    home: ServedHome,
    choice: EdgeChoice,
    *,
    owner: str | None,
    again: bool = False,
) -> PushRecord:
    """The push of an upload, which is removed.

    A file of equal content whose columns are read alike is the same push, unless it is meant
    ``again``. Raises BadEdges,
    BadUpload, TableTooLarge, BacklogFull and InvalidArgument as a push does.
    """
    columns = _columns(graph, choice)
    with refusing():
        graph = typed_graph(home.database, graph, columns.kinds_by_argument)
        directed_one = directed_relation(choice.one_relation, is_directed=choice.directed)
    file = replace(upload_file(upload), columns=columns, max_bad_rows=choice.max_bad_rows)
    kind, max_nodes = graph.settings.node_ids, graph.settings.max_nodes
    with (
        named_as(upload),
        _work_directory(graph, home) as directory,
        stage(file, directory, node_kind=kind, max_nodes=max_nodes) as staged,
        Path(staged.local_path).open("rb") as content,
    ):
        digest = upload.packed_digest or staged.digest
        path = None if again else home.manifest.path_of_content(graph.id, digest)
        if path is not None:
            raise InvalidArgument(
                f"file must be new to the graph, which has the same content from {path}; say that "
                "it counts again to mean it",
                argument="file",
            )
        said = (staged.digest, staged.columns, columns, *([upload.id] if again else ()))
        key = sha256(repr(said).encode()).hexdigest()
        push = home.pushes.add(
            graph,
            content,
            Format.PARQUET,
            body_digest=key,
            columns=columns if relations_of(columns) else staged.columns,
            idempotency_key=key,
            owner=owner,
            file_digest=digest,
            n_bad_rows=len(staged.bad_rows),
            limits=home.upload_limits,
            staged=staged if relations_of(columns) else None,
        )
    mark_directed(home.catalog, graph, directed_one)
    upload.remove()
    return push


def _columns(graph: GraphRecord, choice: EdgeChoice) -> EdgeColumns:
    """The columns to read; without a weight column every edge counts 1, whatever the file has."""
    with refusing():
        columns = edge_columns(graph.settings.columns_of_edges, choice.reading)
    if choice.weight or choice.src.startswith("#"):
        return columns
    return replace(columns, weight=NO_COLUMN, needs_weight=False)


@contextmanager
def _work_directory(graph: GraphRecord, home: ServedHome) -> Iterator[Path]:
    """Directory for a copy of a file; swept like uploads after a crash."""
    below = home.paths(graph).uploads / "looks"
    below.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=below) as directory:
        yield Path(directory)


@contextmanager
def named_as(upload: Upload) -> Iterator[None]:
    """Context in which faults of an upload show its name, not its path."""
    try:
        yield
    except BadEdges as error:
        reason = plain_text(error.reason, upload)
        raise BadEdges(reason, argument=error.argument, row=error.row, value=error.value) from error


def plain_text(text: str, upload: Upload) -> str:
    """A text with the path of an upload replaced by its name."""
    return text.replace(str(upload.path), upload.name)
