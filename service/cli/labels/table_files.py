"""Table files of commands, in the format of their suffix, and ``NAME=VALUE`` options."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar, Final

import orjson
import pyarrow as pa
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.session import printable, say
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.job import LABEL_COLUMN
from peewit.service.operations.here import Here
from peewit.service.tables.formats import encode
from peewit.service.tables.table_heads import TableHead, table_head
from peewit.service.tables.uploads import (
    LabelColumns,
    NodeId,
    UploadedLabels,
    node_array,
    read_nodes,
)
from peewit.streaming.durable_files import publish_file
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.parts import content_faults
from peewit.streaming.edges.table_formats import Format, format_of_file, unpacked

NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="COLUMN", help="Column of the node.")
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="Column of the label.")
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="NAME",
        help="A named column of labels; the one without a name by default.",
    ),
]
OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="By suffix; CSV on stdout when left out.")
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", help="Columns of libsvm text count from 0, not from 1.")
]


_NAMES_OF_NODES: Final = ("node", "nodes", "node_id", "id")
"""What the first line of a list may be where it is no node."""


def table_format(path: Path, option: str) -> Format:
    """The format of a suffix; wrong usage if there is none."""
    try:
        return Format.of_path(path)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def write_table(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, safe_csv: bool = False
) -> None:
    """Write a table whole, in the format of its suffix."""
    chosen = table_format(path, "--output")
    write_bytes(path, encode(schema, batches, chosen, safe_csv=safe_csv))


def write_bytes(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file whole: an earlier one is replaced only when all is written."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.writelines(pieces)

    if not path.parent.is_dir():
        raise NotADirectoryError(f"no directory {path.parent} to write {path.name} into; make it")
    publish_file(path, write)


def print_bytes(pieces: Iterable[bytes]) -> None:
    """Send a table to stdout; a reader that stops early, such as ``head``, is no failure."""
    try:
        for piece in pieces:
            if sys.stdout.isatty():  # what others have named must not speak to it
                sys.stdout.write(printable(piece.decode(errors="replace")))
            else:
                sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # for what Python still wants to flush


@dataclass(frozen=True, slots=True)
class LabelsOfFile:
    """Labels of a file in the format of its name, decompressed if need be."""

    path: Path

    is_table: ClassVar[bool] = True

    def labels(
        self, here: Here, graph: GraphRecord, columns: LabelColumns
    ) -> Mapping[str, UploadedLabels]:
        """They by their column."""
        with _unpacked(self.path) as (file, labels_format):
            return here.home.labeling.read(graph, file, labels_format, columns)


def nodes_of_file(
    path: Path, graph: GraphRecord, known_nodes: KnownNodes, *, column: str | None
) -> list[NodeId]:
    """External ids of a column of such a file; else of its only one, or that called ``node``.

    The first line of a list is a name, too, where all others are nodes, and it is none.
    """
    with _unpacked(path) as (file, nodes_format):
        node = column or _column_of_nodes(table_head(file, nodes_format), nodes_format)
        file.seek(0)
        nodes = read_nodes(file, nodes_format, graph.settings.node_ids, node=node)
    if column is None and node == "#1" and len(nodes) > 1:
        is_known = known_nodes.knows(graph, node_array(nodes, graph.settings.node_ids))
        if not is_known[0] and is_known[1:].all():
            say(f"note: took {nodes[0]!r} for the name of the column, as all others are nodes")
            return nodes[1:]
    return nodes


def _column_of_nodes(head: TableHead, nodes_format: Format) -> str:
    """The column of nodes; the first line of a list names it where it is a usual name."""
    if len(head.names) == 1:
        (name,) = head.names
        is_named = nodes_format is not Format.CSV or name.lower() in _NAMES_OF_NODES
        return name if is_named else "#1"
    if "node" in head.names:
        return "node"
    raise typer.BadParameter(
        f"must name the column of nodes, one of {', '.join(head.names)}", param_hint="--column"
    )


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[BinaryIO, Format]]:
    try:
        table_format, compression = format_of_file(path.name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="FILE") from error
    try:
        with content_faults(f"{path} is damaged"), unpacked(path, compression) as file:
            yield file, table_format
    except BadUpload as error:
        if error.argument is not None:
            raise
        text = f"{path}: {error.reason}"
        raise BadUpload(text, row=error.row, value=error.value) from error


def parsed_settings(settings: list[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` options; values are JSON if they can be, else strings."""
    parsed: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"must read NAME=VALUE, got {setting!r}", param_hint="--set")
        parsed[name] = json_or_text(value)
    return parsed


def with_label_column(values: dict[str, Any], label_column: str | None) -> dict[str, Any]:
    """The parameters of a job, with the label column of an option."""
    if label_column is None:
        return values
    if LABEL_COLUMN in values:
        raise typer.BadParameter(
            f"must stand once, got --set {LABEL_COLUMN}={values[LABEL_COLUMN]} beside it",
            param_hint="--label-column",
        )
    return {**values, LABEL_COLUMN: label_column}


def json_or_text(text: str) -> Any:
    """The value of a JSON document, of which a number may begin with its point; else the text."""
    sign, point, digits = text.partition(".")
    starts_with_point = bool(point) and sign in {"", "-"}
    try:
        return orjson.loads(f"{sign}0.{digits}" if starts_with_point else text)
    except orjson.JSONDecodeError:
        return text
