"""Files that are published whole or not at all.

Everything Peewit keeps is written beside its final name, flushed to the disk and renamed, so that a
process killed at any line leaves either the old state or the new one. Nothing here knows what the
bytes mean.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

TEMPORARY_PREFIX = ".tmp-"
"""Prefix of unfinished files; whoever owns the directory may delete them."""

_FLUSH_BYTES = 1 << 26
_ABANDONED_SECONDS = 86_400.0
_NO_LINKS = (errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)


def fsync_directory(directory: Path) -> None:
    """Make the names inside ``directory`` survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Make the bytes of ``path`` survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_flushed(file: BinaryIO, content: memoryview, on_flushed: Callable[[], None]) -> None:
    """Write contiguous bytes, flushed 64 MiB at a time, so that a slow disk shows progress.

    ``on_flushed`` is called after each of those pieces; the rest is flushed with the whole file.
    """
    content = content.cast("B") if content.nbytes else memoryview(b"")
    for start in range(0, content.nbytes, _FLUSH_BYTES):
        piece = content[start : start + _FLUSH_BYTES]
        file.write(piece)
        if piece.nbytes == _FLUSH_BYTES:  # what is less is flushed with the whole file
            file.flush()
            os.fsync(file.fileno())
            on_flushed()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name ``path`` in every OSError raised inside that names no file, as on a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        raise OSError(number, reason, str(path)) from error


def link_file(source: Path, target: Path) -> None:
    """Give a file that never changes a second name; copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)


def publish_file(path: Path, write: Callable[[Path], None]) -> None:
    """Create or replace one file whole.

    ``write`` writes the complete content to the temporary path it receives. The directory of
    ``path`` must exist.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{path.name}")
    try:
        write(temporary)
        fsync_file(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def publish_json(path: Path, value: Any) -> None:
    """Create or replace a JSON file whole."""
    publish_file(path, lambda temporary: write_json(temporary, value))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file under a name that nobody reads yet."""
    with naming(path):
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


@contextmanager
def publish_directory(
    path: Path, *, on_flushed: Callable[[], None] = lambda: None
) -> Iterator[Path]:
    """Fill a new directory whole.

    Yields a temporary directory; on normal exit its files are flushed and it takes the name
    ``path``, which must not exist; ``on_flushed`` is called after each file. On an exception
    nothing remains.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.iterdir():
            fsync_file(file)
            on_flushed()
        fsync_directory(temporary)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    fsync_directory(path.parent)


def reserved_array(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """A new array of zeros in an ``.npy`` file, memory-mapped for writing.

    Its room is taken on the disk at once: whoever fills a map on a full disk is killed.
    """
    with naming(path):
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):  # macOS lacks it
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def remove_unfinished(directory: Path) -> None:
    """Delete what a killed process left half-written in ``directory``."""
    for entry in directory.glob(f"{TEMPORARY_PREFIX}*"):
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def remove_abandoned(root: Path, *, keep: Path, now: float) -> None:
    """Delete the directories in ``root``, except ``keep``, that nobody wrote to for a day.

    ``root`` has one directory per run; ``now`` is in seconds since the epoch.
    """
    for other in root.iterdir():
        if other != keep and now - other.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def make_durable_directory(directory: Path) -> None:
    """Make a directory of a graph that survives a power failure once files in it do."""
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        for parent in directory.parents[:3]:  # graph, graphs, home
            fsync_directory(parent)
