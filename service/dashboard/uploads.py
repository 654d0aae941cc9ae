"""Uploads: files that a page sent, kept until somebody has said what their columns are.

Context: columns are chosen and rows checked before a file is taken, in several requests, which any
API process may answer. Decision: the file lies below its graph, or below the home while it has
none, under an unguessable name and that of the key that sent it, which alone finds it. It goes once
it is taken, given up, or its graph erases nodes; after an hour it is no longer shown, and goes when
the next file is sent or the server starts. Consequence: no table of uploads, nothing in backups,
and no file is sent twice. The chosen columns of the last file are kept beside them for the next
one; an erasure removes these, too.
"""

import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePath
from secrets import token_urlsafe
from typing import Any, BinaryIO, Final, Literal

from blake3 import blake3
from starlette.concurrency import run_in_threadpool

from peewit.service.api.bodies import BodyTooLarge
from peewit.service.inbox.inbox_records import BacklogFull, FileNotListed
from peewit.service.problems import InvalidArgument
from peewit.service.settings import Settings
from peewit.streaming.durable_files import publish_json
from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.table_formats import Format, format_of_file, open_table
from peewit.streaming.graph_paths import GraphPaths

Holds = Literal["edges", "labels", "features", "start"]
"""What a file was sent as, and so which scope its sender had; to start with, before a graph is."""

KEPT_SECONDS: Final = 3600.0
"""How long a file waits."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{24}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._ -]+")
_MAX_NAME: Final = 120
_CHUNK_BYTES: Final = 1 << 20
_PACKED: Final = "packed"
_PACKED_DIGEST: Final = "digest"
_SENT_NAME: Final = "name"


class UploadNotFound(FileNotListed):
    """The file was taken, given up, or waited for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that waits."""

    id: str  # part of the address of its page
    path: Path  # unpacked; has the suffix of its format
    table_format: Format

    @property
    def name(self) -> str:
        """Its sender's name for it, without characters not allowed in paths."""
        return self.path.name

    @property
    def sent_name(self) -> str:
        """The same with the suffix that says how it came packed."""
        with suppress(FileNotFoundError):
            return self.path.with_name(_SENT_NAME).read_text()
        return self.name

    @property
    def n_bytes(self) -> int:
        """Its size."""
        return self.path.stat().st_size

    @property
    def packed_digest(self) -> str | None:
        """Digest of the content as it was sent, of a file that was packed."""
        with suppress(FileNotFoundError):
            return self.path.with_name(_PACKED_DIGEST).read_text()
        return None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file at its start, seekable."""
        with self.path.open("rb") as file:
            yield file

    def remove(self) -> None:
        """Delete the file."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


class Uploads:
    """The files that wait, of all graphs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def receive(
        self,
        graph_id: str | None,
        holds: Holds,
        name: str,
        content: AsyncIterator[bytes],
        *,
        owner: str | None,
    ) -> Upload:
        """Write a file to the disk as it arrives, unpacked if its suffix says that it is packed.

        Raises InvalidArgument for a suffix of no table or an empty file; BacklogFull where as much
        waits as may wait; `BodyTooLarge` where it is too large; and `BadUpload` where it is not
        packed as its name says.
        """
        plain, table_format, compression = _plain_name(name)
        await run_in_threadpool(self._require_room, graph_id)
        upload_id = token_urlsafe(18)
        directory = self._place(graph_id, holds, upload_id, owner)
        await run_in_threadpool(directory.mkdir, parents=True)
        path = directory / plain
        upload = Upload(id=upload_id, path=path, table_format=table_format)
        try:
            received = path if compression is None else directory / _PACKED
            if not await _write(received, content, self._settings.max_body_bytes):
                raise InvalidArgument(
                    f"file must hold something, got the empty {plain}; send the others without it",
                    argument="file",
                )
            if compression is not None:
                await run_in_threadpool(
                    _unpack, received, compression, path, self._settings.max_body_bytes
                )
                directory.joinpath(_SENT_NAME).write_text(_safe(name))
            # others may have come meanwhile
            await run_in_threadpool(self._require_room, graph_id, upload.n_bytes)
        except BaseException:
            upload.remove()
            raise
        return upload

    def get(
        self, graph_id: str | None, holds: Holds, upload_id: str, *, owner: str | None
    ) -> Upload:
        """A file of an owner that waits; raises `UploadNotFound`."""
        if _ID.fullmatch(upload_id):
            uploads = [
                path
                for path in _files(self._place(graph_id, holds, upload_id, owner))
                if not _is_old(path)
            ]
            if uploads:
                table_format, _ = format_of_file(uploads[0].name)
                return Upload(id=upload_id, path=uploads[0], table_format=table_format)
        minutes = round(KEPT_SECONDS / 60)
        raise UploadNotFound(
            f"the file is not here any more: it was taken, given up, or waited for {minutes} "
            "minutes; choose it once more"
        )

    def move(self, upload: Upload, holds: Holds, graph_id: str) -> None:
        """Move a waiting file to another graph."""
        below = self._directory(graph_id, holds)
        below.mkdir(parents=True, exist_ok=True)
        upload.path.parent.rename(below / upload.path.parent.name)

    def copied(self, upload: Upload, holds: Holds, graph_id: str, *, owner: str | None) -> Upload:
        """The same file waiting for one thing that it is for, in a graph."""
        upload_id = token_urlsafe(18)
        directory = self._place(graph_id, holds, upload_id, owner)
        shutil.copytree(upload.path.parent, directory, copy_function=os.link)
        return replace(upload, id=upload_id, path=directory / upload.path.name)

    def made(self, name: str, holds: Holds, graph_id: str, *, owner: str | None) -> Upload:
        """A file that is yet to be written, of others that were sent."""
        upload_id = token_urlsafe(18)
        directory = self._place(graph_id, holds, upload_id, owner)
        directory.mkdir(parents=True)
        table_format, _ = format_of_file(name)
        return Upload(id=upload_id, path=directory / name, table_format=table_format)

    def remember(self, graph_id: str, holds: Holds, columns: Mapping[str, Any]) -> None:
        """Keep the chosen columns of a file, to propose them for the next one."""
        self._directory(graph_id, holds).mkdir(parents=True, exist_ok=True)
        publish_json(self._remembered(graph_id, holds), dict(columns))

    def remembered(self, graph_id: str, holds: Holds) -> Mapping[str, Any]:
        """The columns of the last file; empty if they are not known."""
        try:
            columns: dict[str, Any] = json.loads(self._remembered(graph_id, holds).read_bytes())
        except FileNotFoundError:
            return {}
        return columns

    def sweep(self) -> None:
        """Remove files of all graphs that have waited for too long."""
        of_graphs = self._settings.graphs_directory.glob("*/uploads/*/*")
        for path in chain(of_graphs, self._below(None).glob("*/*")):
            if _is_old(path):
                shutil.rmtree(path, ignore_errors=True)

    def _place(self, graph_id: str | None, holds: Holds, upload_id: str, owner: str | None) -> Path:
        return self._directory(graph_id, holds) / f"{upload_id}.{owner or ''}"

    def _directory(self, graph_id: str | None, holds: Holds) -> Path:
        return self._below(graph_id) / holds

    def _below(self, graph_id: str | None) -> Path:
        """Where files of a graph wait; None: those to start with."""
        if graph_id is None:
            return self._settings.home / "uploads"
        return GraphPaths(root=self._settings.graphs_directory / graph_id).uploads

    def _remembered(self, graph_id: str, holds: Holds) -> Path:
        return self._directory(graph_id, holds).with_suffix(".json")

    def _require_room(self, graph_id: str | None, n_new_bytes: int = 0) -> None:
        self.sweep()
        most = self._settings.max_backlog_bytes
        n_bytes = sum(_size(path) for path in self._below(graph_id).glob("*/*/*"))
        if n_bytes - n_new_bytes >= most:
            raise BacklogFull(
                f"files that wait for their columns must stay below {most} bytes, got {n_bytes}; "
                "take or give up those that were sent before"
            )


def _plain_name(name: str) -> tuple[str, Format, str | None]:
    """Name without compression suffix and characters not allowed in paths; format; compression."""
    safe = _safe(name)
    try:
        table_format, compression = format_of_file(safe)
    except ValueError as error:
        raise InvalidArgument(str(error), argument="file") from error
    if table_format is Format.PARQUET and compression is not None:
        raise InvalidArgument(
            f"a Parquet file must not be packed once more, got {safe!r}", argument="file"
        )
    plain = PurePath(safe) if compression is None else PurePath(safe).with_suffix("")
    return f"{plain.stem[:_MAX_NAME]}{plain.suffix}", table_format, compression


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", PurePath(name.replace("\\", "/")).name).strip(" .")


async def _write(path: Path, content: AsyncIterator[bytes], max_bytes: int) -> int:
    """Number of bytes written."""
    n_bytes = 0
    with path.open("xb") as file:
        async for chunk in content:
            n_bytes += len(chunk)
            _require_within(max_bytes, n_bytes)
            await run_in_threadpool(file.write, chunk)
    return n_bytes


def _unpack(packed: Path, compression: str, plain: Path, max_bytes: int) -> None:
    n_bytes = 0
    with plain.open("xb") as content:
        for chunk in _chunks(packed, compression):
            n_bytes += len(chunk)
            _require_within(max_bytes, n_bytes)
            content.write(chunk)
    digest = blake3().update_mmap(packed).hexdigest()
    packed.with_name(_PACKED_DIGEST).write_text(f"blake3:{digest}")
    packed.unlink()


def _chunks(packed: Path, compression: str) -> Iterator[bytes]:
    with (
        named_faults(f"the file must be {compression}, as its name says"),
        open_table(str(packed), compression) as opened,
    ):
        while chunk := opened.read(_CHUNK_BYTES):
            yield chunk


def _require_within(max_bytes: int, n_bytes: int) -> None:
    if n_bytes > max_bytes:
        raise BodyTooLarge(
            f"a file must have at most {max_bytes} bytes, got {n_bytes} or more; raise "
            "PEEWIT_MAX_BODY_BYTES, or have the server read it from where it lies"
        )


def _files(directory: Path) -> list[Path]:
    try:
        own = {_PACKED, _PACKED_DIGEST, _SENT_NAME}
        return [path for path in directory.iterdir() if path.name not in own and path.is_file()]
    except FileNotFoundError:
        return []


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > KEPT_SECONDS
    except FileNotFoundError:  # taken meanwhile
        return False


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
