"""Table files of commands, in the format of their suffix, and ``NAME=VALUE`` options."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import orjson
import pyarrow as pa
import typer

from peewit.service.tables.formats import Format, encode
from peewit.service.tables.uploads import UploadedLabels, read_labels
from peewit.streaming.durable_files import publish_file
from peewit.streaming.edges.blocks import NodeKind

OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="By suffix; CSV on stdout when left out.")
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", help="Columns of libsvm text count from 0, not from 1.")
]


def table_format(path: Path, option: str) -> Format:
    """The format that a suffix names; wrong usage when it names none."""
    try:
        return Format.of_path(path)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def write_table(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a table whole, in the format of its suffix."""
    write_bytes(path, encode(schema, batches, table_format(path, "--output")))


def write_bytes(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file whole: what stood there before is replaced only when all is written."""

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
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # for what Python still wants to flush


def labels_of_file(path: Path, node_kind: NodeKind) -> UploadedLabels:
    """Labels of a file in the format of its suffix."""
    labels_format = table_format(path, "FILE")
    with path.open("rb") as file:
        return read_labels(file, labels_format, node_kind)


def parsed_settings(settings: list[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` options; values are JSON where they can be, else strings."""
    parsed: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"must read NAME=VALUE, got {setting!r}", param_hint="--set")
        parsed[name] = json_or_text(value)
    return parsed


def json_or_text(text: str) -> Any:
    """The value of a JSON document; of what is none, the text itself."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def given(**options: Any) -> dict[str, Any]:
    """The options that were not left out."""
    return {name: value for name, value in options.items() if value is not None}
