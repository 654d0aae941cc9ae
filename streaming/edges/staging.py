"""Staging: files made readable here, with digests, copies where they are needed, one file ahead.

``stage`` computes the digest of a file and reads its footer. ``Staging`` does that in a thread, for
the next file while the caller absorbs the present one.
"""

import hashlib
import os
import stat
import threading
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

from blake3 import blake3

from peewit.solvers.late_modules import LateModule
from peewit.streaming.edges.blocks import MAX_NODES, BadEdges
from peewit.streaming.edges.conversion import as_bad_edges, convert, is_read_in_place
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import (
    PART_ROWS,
    EdgeFile,
    StagedFile,
    Stamp,
    file_stamp,
    open_staged,
)
from peewit.streaming.edges.table_formats import Seams

fsspec_core = LateModule("fsspec.core")
fsspec_local = LateModule("fsspec.implementations.local")

_COPY_BYTES = 1 << 20
_CHECK_SECONDS = 0.1
_ENTITY_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "generation")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class Abandoned(Exception):
    """Nobody waits for the file any more."""


def stage(
    file: EdgeFile,
    directory: Path,
    *,
    node_kind: NodeKind = "string",
    max_nodes: int = MAX_NODES,
    part_rows: int = PART_ROWS,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> StagedFile:
    """One file made readable, with its digest and its parts.

    A local Parquet file is read in place. Another is copied into ``directory``, its digest taken
    meanwhile, and ``release`` deletes the copy; so is one of another format, or whose bad rows are
    left out, as `conversion` writes it. What a killed process left there may be deleted.

    If the file has changed since it was listed, ``StagedFile.file`` says what it is now. Numbers of
    parts mean nothing without ``part_rows``, the most rows of one. ``is_abandoned`` is asked after
    every mebibyte.

    `BadEdges` says that the content is at fault, OSError that a later try may succeed.
    """
    if part_rows < 1:
        raise ValueError(f"part_rows must be at least 1, got {part_rows}")
    file_system, path = open_file_system(file.path, file.storage_options)
    name = f"staged-{_short_hash(file.path)}"
    original, copy = directory / name, directory / f"{name}.parquet"
    is_local = _is_local(file_system)
    try:
        if is_local:
            current, digests, stamp = _digest_local(path, is_abandoned)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            current, digests = _copy_remote(file, file_system, path, original, is_abandoned)
            stamp = file_stamp(str(original))
        current = replace(
            current, columns=file.columns, max_bad_rows=file.max_bad_rows, arrived=file.arrived
        )
        local_path = path if is_local else str(original)
        bad_rows, is_copy = None, not is_local
        if not is_read_in_place(current, local_path):
            directory.mkdir(parents=True, exist_ok=True)
            bad_rows = convert(
                current,
                local_path,
                str(copy),
                node_kind=node_kind,
                max_nodes=max_nodes,
                check=lambda: _raise_if(is_abandoned),
            )
            if file_stamp(local_path) != stamp:
                raise _change_fault(file.path)
            if not is_local:
                original.unlink()
            local_path, is_copy, stamp = str(copy), True, file_stamp(str(copy))
        digest, byte_digest = digests
        again = f"+{_short_hash(file.path)}" if file.again else ""
        staged = open_staged(
            current,
            local_path,
            digest=f"{digest}{again}",
            byte_digest=f"{byte_digest}{again}",
            is_copy=is_copy,
            stamp=stamp,
            part_rows=part_rows,
            bad_rows=bad_rows,
        )
        if not staged.is_unchanged():
            raise _change_fault(file.path)
        return staged
    except BaseException:
        original.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
        raise


def _raise_if(is_abandoned: Callable[[], bool]) -> None:
    if is_abandoned():
        raise Abandoned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    """A file that is being staged, or was."""

    file: EdgeFile
    abandoned: threading.Event
    result: Future[StagedFile]


class Staging:
    """Stages files in a thread, one ahead of the caller; leaving its ``with`` block ends that.

    At most two files are staged at any time: the one that the caller has and the one after it.
    ``check`` is called ten times a second while a file is waited for; what it raises ends the
    waiting. ``on_progress`` is called in the thread that stages, as often as ``stage`` asks
    ``is_abandoned``.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node_kind: NodeKind = "string",
        max_nodes: int = MAX_NODES,
        part_rows: int = PART_ROWS,
        check: Callable[[], None] = lambda: None,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_progress = on_progress
        self._directory = directory
        self._node_kind = node_kind
        self._max_nodes = max_nodes
        self._part_rows = part_rows
        self._check = check
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stage")
        self._ahead: _Job | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._drop(self._ahead)
        self._pool.shutdown()

    def take(self, file: EdgeFile, following: EdgeFile | None = None) -> StagedFile:
        """Staged file, as ``stage`` gives it; staging of ``following`` begins then.

        A file that was staged ahead is staged again where it had a fault or has changed since: what
        is said of it holds when it is taken.
        """
        staged = self._take_ahead(file)
        if staged is None:
            begun = self._begin(file)
            self._wait(begun)
            staged = begun.result.result()
        if following is not None and following.path != file.path:
            self._ahead = self._begin(following)
        return staged

    def _begin(self, file: EdgeFile) -> _Job:
        abandoned = threading.Event()

        def is_abandoned() -> bool:
            self._on_progress()
            return abandoned.is_set()

        result = self._pool.submit(
            stage,
            file,
            self._directory,
            node_kind=self._node_kind,
            max_nodes=self._max_nodes,
            part_rows=self._part_rows,
            is_abandoned=is_abandoned,
        )
        return _Job(file=file, abandoned=abandoned, result=result)

    def _take_ahead(self, file: EdgeFile) -> StagedFile | None:
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.file != file:
            self._drop(ahead)
            return None
        self._wait(ahead)
        if ahead.result.exception() is not None:
            return None
        staged = ahead.result.result()
        if staged.is_unchanged():
            return staged
        staged.release()
        return None

    def _wait(self, staged: _Job) -> None:
        try:
            while not wait([staged.result], timeout=_CHECK_SECONDS).done:
                self._check()
        except BaseException:
            self._drop(staged)
            raise

    @staticmethod
    def _drop(staged: _Job | None) -> None:
        if staged is not None:
            staged.abandoned.set()
            if staged.result.exception() is None:
                staged.result.result().release()


def _short_hash(path: str) -> str:
    return hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


def _digest_local(
    path: str, is_abandoned: Callable[[], bool]
) -> tuple[EdgeFile, tuple[str, str], Stamp]:
    """A local file as it is, its digests, and the stamp under which it was read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait
    with open(descriptor, "rb", buffering=0) as content:  # noqa: PTH123 - a Path takes no descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadEdges(f"{path} must be a regular file")
        stamp = file_stamp(descriptor)
        digests = _copy_and_digest(content, None, is_abandoned)
    return _local_file(path, stamp), digests, stamp


def _copy_remote(
    file: EdgeFile, file_system: Any, path: str, copy_path: Path, is_abandoned: Callable[[], bool]
) -> tuple[EdgeFile, tuple[str, str]]:
    """A remote file as it is, and the digests of its copy."""
    file_system.invalidate_cache()
    before = edge_file(file_system, path, file.storage_options)
    with file_system.open(path, "rb") as content, copy_path.open("wb") as copy:
        digests = _copy_and_digest(content, copy, is_abandoned)
    file_system.invalidate_cache()
    if edge_file(file_system, path, file.storage_options) != before:
        raise _change_fault(file.path)
    return before, digests


def edge_file(file_system: Any, path: str, storage_options: Mapping[str, Any]) -> EdgeFile:
    """Path, size and version of a file as it is now."""
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


def open_file_system(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system of an fsspec URL, and the path there; ValueError if there is none."""
    if "://" not in url and "::" in url:  # a file's name, not a chain of file systems
        return fsspec_local.LocalFileSystem(), os.path.abspath(url)  # noqa: PTH100 - fsspec's way of writing it
    try:
        file_system, root = fsspec_core.url_to_fs(url, **storage_options)
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


class _Readable(Protocol):
    """What local files and those of fsspec have in common."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer from its beginning; 0 at the end."""


class _Digests:
    """BLAKE3 of a content twice: of its text, and of its bytes.

    Of a text a byte order mark does not count, nor the carriage return of a line's end: a file that
    passed through another system is the same. What holds a zero byte is no text.
    """

    def __init__(self) -> None:
        self._of_text = blake3()
        self._of_bytes: blake3 | None = None  # where it is another
        self._is_text: bool | None = None
        self._held: bytes = b""  # a carriage return at the end of the last piece

    def update(self, piece: bytearray, n_bytes: int) -> None:
        """Go on with the first bytes of a piece."""
        start = 0
        if self._is_text is None:
            self._is_text = piece.find(b"\0", 0, n_bytes) < 0
            start = len(BOM_UTF8) if self._is_text and piece.startswith(BOM_UTF8) else 0
        has_returns = self._is_text and piece.find(b"\r", 0, n_bytes) >= 0
        if self._of_bytes is None and (start or has_returns):  # the same up to here
            self._of_bytes = self._of_text.copy()
        content = memoryview(piece)[:n_bytes]
        if self._of_bytes is not None:
            self._of_bytes.update(content)
        if not (has_returns or self._held):
            self._of_text.update(content[start:])
            return
        text = (self._held + content[start:]).replace(b"\r\n", b"\n")
        self._held = b"\r" if text.endswith(b"\r") else b""
        self._of_text.update(text.removesuffix(self._held))

    def end(self) -> tuple[str, str]:
        """The digests of the text and of the bytes, each with the name of the hash."""
        self._of_text.update(self._held)
        of_bytes = self._of_bytes or self._of_text
        return f"blake3:{self._of_text.hexdigest()}", f"blake3:{of_bytes.hexdigest()}"


def _copy_and_digest(
    content: _Readable, copy: BinaryIO | None, is_abandoned: Callable[[], bool]
) -> tuple[str, str]:
    digests, seams = _Digests(), Seams()
    stored = bytearray(_COPY_BYTES)  # one for all: new ones cost page faults
    buffer = memoryview(stored)
    while n_bytes := content.readinto(buffer):
        with as_bad_edges():
            seams.look(stored, n_bytes)
        digests.update(stored, n_bytes)
        if copy is not None:
            copy.write(buffer[:n_bytes])
        if is_abandoned():
            raise Abandoned
    return digests.end()


def _change_fault(path: str) -> BadEdges:
    return BadEdges(f"{path} changed while it was read; it is new once its writer is done")
