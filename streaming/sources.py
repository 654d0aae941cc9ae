"""Where edges come from: files in a fixed order, each cut into numbered parts.

A position in a source is (file, part). ``ParquetEdges`` lists the files of a directory, a glob or
any fsspec URL and stages one at a time: its digest is computed and its footer read. ``parts`` cuts
and reads staged files.
"""

import hashlib
import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
from glob import has_magic
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from blake3 import blake3
from fsspec.core import url_to_fs

from streaming.blocks import BadEdges
from streaming.parts import (
    PART_ROWS,
    EdgeFile,
    Part,
    StagedFile,
    Stamp,
    file_stamp,
    open_staged,
)
from streaming.reading import read_part, read_parts

__all__ = [
    "PART_ROWS",
    "EdgeFile",
    "EdgeSource",
    "ParquetEdges",
    "Part",
    "StagedFile",
    "read_part",
    "read_parts",
    "stage",
]

_COPY_BYTES = 1 << 20
_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".crc", ".inprogress", "._copying_", "~")
_ENTITY_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "generation")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class EdgeSource(Protocol):
    """Contract of sources.

    A source lists files in a fixed order, and a file is cut into parts by its content alone. A
    position is a file and the number of a part: whoever stops before part k of a file goes on, with
    equal results, by staging it again and reading from part k.
    """

    def list(self) -> list[EdgeFile]:
        """Files there are now, sorted by path."""


class ParquetEdges:
    """Parquet files of a directory, a glob, a single file or any fsspec URL of these.

    Directories are walked recursively and give the ``*.parquet`` files; names that begin with ``.``
    or ``_`` (of directories too) or end like unfinished files are skipped. A glob gives every file
    it matches, but for such names. A file that is named itself is taken whatever its name.

    Parameters
    ----------
    url : str or Path
        ``data/``, ``data/*.parquet``, ``s3://bucket/prefix`` and so on.
    storage_options : mapping or None
        Passed to the fsspec file system (keys, endpoints).

    Raises
    ------
    ValueError
        The protocol is unknown, or needs a package that is not installed.
    """

    def __init__(
        self, url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self.url = os.fspath(url)
        self._storage_options = dict(storage_options or {})
        self._file_system, self._root = _open_file_system(self.url, self._storage_options)

    def list(self) -> list[EdgeFile]:
        """Files there are now, sorted by path.

        Raises
        ------
        FileNotFoundError
            There is no such file or directory. A glob may match nothing yet.
        """
        file_system, root = self._file_system, self._root
        file_system.invalidate_cache()  # a poll must see new files
        if file_system.isfile(root):
            paths = [root]
        elif file_system.isdir(root):
            paths = [
                path
                for path in file_system.find(root)
                if path.lower().endswith(".parquet") and _is_wanted(path, root)
            ]
        elif has_magic(root):
            base = _before_magic(root)
            paths = [path for path in file_system.glob(root) if _is_wanted(path, base)]
            paths = [path for path in paths if file_system.isfile(path)]
        else:
            raise FileNotFoundError(
                f"url must name a file, a directory or a glob, got {self.url!r}"
            )
        files = []
        for path in paths:
            with suppress(FileNotFoundError):  # deleted since it was found
                files.append(_edge_file(file_system, path, self._storage_options))
        return sorted(files, key=lambda file: file.path)


def stage(file: EdgeFile, directory: Path, *, part_rows: int = PART_ROWS) -> StagedFile:
    """Make one file readable, with its digest and its parts.

    A local file is read in place. Another is copied into ``directory``, its digest taken meanwhile,
    and ``release`` deletes the copy. Stage one file at a time: that bounds the room taken.

    Parameters
    ----------
    file : EdgeFile
        From ``EdgeSource.list``. If it has changed since, ``StagedFile.file`` says what it is now.
    directory : Path
        Receives the copy; what a killed process left there may be deleted.
    part_rows : int
        Most rows of a part. Numbers of parts mean nothing without it.

    Raises
    ------
    BadEdges
        It is not a whole Parquet file, lacks a column, or changed meanwhile.
    OSError
        It cannot be read, which is no fault of its content: try again later.
    """
    if part_rows < 1:
        raise ValueError(f"part_rows must be at least 1, got {part_rows}")
    file_system, path = _open_file_system(file.path, file.storage_options)
    if _is_local(file_system):
        return _stage_in_place(path, part_rows)
    directory.mkdir(parents=True, exist_ok=True)
    name = hashlib.blake2b(file.path.encode(), digest_size=16).hexdigest()
    copy_path = directory / f"staged-{name}.parquet"
    try:
        return _stage_copy(file, file_system, path, copy_path, part_rows)
    except BaseException:
        copy_path.unlink(missing_ok=True)
        raise


def _stage_in_place(path: str, part_rows: int) -> StagedFile:
    with Path(path).open("rb", buffering=0) as content:
        stamp = file_stamp(content.fileno())
        digest = _copy_and_digest(content, None)
    file = _local_file(path, stamp)
    staged = open_staged(file, path, digest=digest, is_copy=False, stamp=stamp, part_rows=part_rows)
    if not staged.is_unchanged():
        raise _changed(path)
    return staged


def _stage_copy(
    file: EdgeFile, file_system: Any, path: str, copy_path: Path, part_rows: int
) -> StagedFile:
    file_system.invalidate_cache()
    before = _edge_file(file_system, path, file.storage_options)
    with file_system.open(path, "rb") as content, copy_path.open("wb") as copy:
        digest = _copy_and_digest(content, copy)
    file_system.invalidate_cache()
    if _edge_file(file_system, path, file.storage_options) != before:
        raise _changed(file.path)
    return open_staged(
        before,
        str(copy_path),
        digest=digest,
        is_copy=True,
        stamp=file_stamp(str(copy_path)),
        part_rows=part_rows,
    )


def _edge_file(file_system: Any, path: str, storage_options: Mapping[str, Any]) -> EdgeFile:
    if _is_local(file_system):
        return _local_file(path, file_stamp(path))
    info = file_system.info(path)
    return EdgeFile(
        path=file_system.unstrip_protocol(path),
        size=int(info["size"]),
        version=_version(info) or str(file_system.ukey(path)),
        storage_options=storage_options,
    )


def _local_file(path: str, stamp: Stamp) -> EdgeFile:
    return EdgeFile(path=path, size=stamp[0], version=str(stamp[1]))


def _is_local(file_system: Any) -> bool:
    protocol = file_system.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _open_file_system(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        file_system, root = url_to_fs(url, **storage_options)
    except ImportError as error:
        raise ValueError(f"url {url!r} needs a package that is not installed: {error}") from error
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"url {url!r} cannot be opened: {error}") from error
    return file_system, root


def _version(info: dict[str, Any]) -> str | None:
    """Entity tag, or time of modification, whichever the file system gives."""
    for key in (*_ENTITY_TAGS, *_TIMES):
        if info.get(key):
            return str(info[key])
    return None


def _is_wanted(path: str, base: str) -> bool:
    """Whether no name below ``base`` is hidden or looks unfinished."""
    names = [name for name in path.removeprefix(base).split("/") if name]
    return not path.lower().endswith(_UNFINISHED) and not any(
        name.startswith((".", "_")) for name in names
    )


def _before_magic(pattern: str) -> str:
    """Return the directories of a glob before its first wildcard."""
    names = itertools.takewhile(lambda name: not has_magic(name), pattern.split("/"))
    return "/".join(names)


class _Readable(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...


def _copy_and_digest(content: _Readable, copy: BinaryIO | None) -> str:
    digest = blake3()
    buffer = memoryview(bytearray(_COPY_BYTES))  # one for all: new ones cost page faults
    while n_bytes := content.readinto(buffer):
        digest.update(buffer[:n_bytes])
        if copy is not None:
            copy.write(buffer[:n_bytes])
    return f"blake3:{digest.hexdigest()}"


def _changed(path: str) -> BadEdges:
    return BadEdges(f"{path} changed while it was read; it is new once its writer is done")
