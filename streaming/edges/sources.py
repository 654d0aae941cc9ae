"""Sources of edges: files in a fixed order, each cut into numbered parts.

A position in a source is (file, part). ``EdgeFiles`` lists the files of a directory, a glob or
any fsspec URL. ``staging`` makes them readable here, ``parts`` cuts, ``reader`` reads them.
"""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Any, Final, Protocol

from peewit.solvers.late_modules import LateModule
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.node_ids import is_text
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.staging import edge_file, open_file_system
from peewit.streaming.edges.table_formats import is_table

fsspec_local = LateModule("fsspec.implementations.local")

_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".crc", ".inprogress", "._copying_", "~")


class EdgeSource(Protocol):
    """Contract of sources.

    A source lists files in a fixed order, and a file is cut into parts by its content alone. A
    position is a file and the number of a part: whoever stops before part k of a file goes on, with
    equal results, by staging it again and reading from part k.
    """

    def list(self) -> list[EdgeFile]:
        """Files there are now, sorted by path."""


class EdgeFiles:
    r"""Tables of a directory, a glob, a single file or any fsspec URL of these.

    Directories are walked recursively and give the files whose names end like those of tables (see
    `table_formats.format_of_file`). Skipped are names that begin with ``.`` or ``_`` (of
    directories too), end like unfinished files or are no UTF-8, and what is no regular file. A link
    is followed, but not into a directory that leads to it. A glob gives every file it matches, but
    for such names. A file that is named itself is taken whatever its name.

    ``storage_options`` go to the fsspec file system (keys, endpoints). ``skipped_files`` has the
    paths that the last `list` left out as they are no UTF-8, with ``\xff`` for what is none, and
    ``unlike_tables`` those in directories whose names end like no table's. Raises ValueError where
    the protocol is unknown, or needs a package that is not installed.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        columns: EdgeColumns = PLAIN,
        max_bad_rows: int = 0,
    ) -> None:
        self.url = os.fspath(url)
        self._storage_options = dict(storage_options or {})
        self._columns = columns
        self._max_bad_rows = max_bad_rows
        self.skipped_files: list[str] = []
        self.unlike_tables: list[str] = []
        self._file_system, self._root = open_file_system(self.url, self._storage_options)

    def list(self) -> list[EdgeFile]:
        """Files there are now, sorted by path.

        Raises FileNotFoundError where there is no such file or directory; a glob may match nothing
        yet.
        """
        file_system, root = self._file_system, self._root
        file_system.invalidate_cache()  # a poll must see new files
        if _is_local(file_system):
            _require_no_table_above(root)
        self.unlike_tables = []
        if file_system.isfile(root):
            paths = [root]
        elif file_system.isdir(root):
            below = list(_files_below(file_system, root))
            _require_plain_files(below, root)
            wanted = [path for path in below if _is_wanted(path, root)]
            paths = list(filter(is_table, wanted))
            self.unlike_tables = sorted(map(_escaped, {*wanted}.difference(paths)))
        elif has_magic(root):
            base = _before_magic(root)
            paths = [path for path in file_system.glob(root) if _is_wanted(path, base)]
            paths = [path for path in paths if file_system.isfile(path)]
        else:
            raise FileNotFoundError(
                f"url must name a file, a directory or a glob; nothing is there: {self.url!r}"
            )
        files = []
        self.skipped_files = [_escaped(path) for path in paths if not is_text(path)]
        for path in filter(is_text, paths):
            with suppress(FileNotFoundError):  # deleted since it was found
                entry = edge_file(file_system, path, self._storage_options)
                files.append(replace(entry, columns=self._columns, max_bad_rows=self._max_bad_rows))
        return sorted(files, key=lambda file: file.path)


class TableDirectory(ValueError):
    """A directory is a table of another system, whose files hold rows that were removed, too."""


_LEVELS: Final = 4  # of directories of partitions in a table

_SIGNS_OF_TABLES: Final = {
    "Delta": re.compile(r"(?P<table>.*)/_delta_log/[^/]+"),
    "Iceberg": re.compile(r"(?P<table>.*)/metadata/[^/]+\.metadata\.json"),
    "Hudi": re.compile(r"(?P<table>.*)/\.hoodie/.+"),
}


def _require_plain_files(paths: Sequence[str], root: str) -> None:
    """Raise `TableDirectory` where files below a directory belong to a table."""
    for kind, sign in _SIGNS_OF_TABLES.items():
        table = next((match["table"] for match in map(sign.fullmatch, paths) if match), None)
        if table is not None:
            way = (
                "export its rows to Parquet and read that"
                if kind == "Hudi"
                else f"`peewit source add GRAPH {table} --kind {kind.lower()}` reads it as one"
            )
            raise TableDirectory(
                f"url must not hold files of a {kind} table, got {root!r}: those of {table} have "
                f"rows that were removed; {way}"
            )


def _require_no_table_above(root: str) -> None:
    """Raise `TableDirectory` where files of a table are named one by one, or by a part of it."""
    inside = f"{_before_magic(root)}/*" if has_magic(root) else root
    for above in list(Path(inside).parents)[:_LEVELS]:
        held = (above / name for name in ("_delta_log", "metadata", ".hoodie"))
        paths = [path for directory in held if directory.is_dir() for path in directory.iterdir()]
        _require_plain_files([str(path) for path in paths if path.is_file()], root)


def _files_below(file_system: Any, root: str) -> Iterator[str]:
    """Files below a directory; regular files, where it is local."""
    if not _is_local(file_system):
        yield from file_system.find(root)
        return
    waiting = [(root, frozenset[tuple[int, int]]())]
    while waiting:
        directory, above = waiting.pop()
        try:
            status = os.stat(directory)  # noqa: PTH116 - paths stay text, as fsspec has them
            identity = status.st_dev, status.st_ino
            entries = [] if identity in above else list(os.scandir(directory))
        except OSError:  # gone since, or closed to us: of no harm to the others
            if directory == root:
                raise
            continue
        for entry in entries:
            with suppress(OSError):  # a link to nowhere, or to itself
                if entry.is_dir():
                    waiting.append((entry.path, above | {identity}))
                elif entry.is_file():
                    yield entry.path


def _is_local(file_system: Any) -> bool:
    return isinstance(file_system, fsspec_local.LocalFileSystem)


def _is_wanted(path: str, base: str) -> bool:
    """Whether no name below ``base`` is hidden or looks unfinished."""
    names = [name for name in path.removeprefix(base).split("/") if name]
    return not path.lower().endswith(_UNFINISHED) and not any(
        name.startswith((".", "_")) for name in names
    )


def _escaped(path: str) -> str:
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _before_magic(pattern: str) -> str:
    """The directories of a glob before its first wildcard."""
    names = itertools.takewhile(lambda name: not has_magic(name), pattern.split("/"))
    return "/".join(names)
