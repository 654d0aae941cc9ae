"""Sources in hand: which a process reads, so that the next one knows what a dead one was reading.

A table may be such that reading it ends the process, as under a memory limit. Nobody is left to
count that as a failure but who comes next.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class ReaderDied(RuntimeError):
    """The process that read the source before was killed meanwhile."""


class InHand:
    """Marks of sources in hand: files of a directory, locked for as long as a process lives."""

    def __init__(self) -> None:
        self._marks: set[BinaryIO] = set()

    @contextmanager
    def marked(self, mark: Path) -> Iterator[None]:
        """Mark a source while the block runs; nothing where another process has it marked.

        Raises `ReaderDied`, once, where the process died that had it marked.
        """
        mark.parent.mkdir(parents=True, exist_ok=True)
        with mark.open("a+b") as file:
            if not _is_locked(file):
                yield
                return
            try:
                if file.tell():
                    raise ReaderDied(
                        "the process that read it before was killed, perhaps because "
                        "memory ran out; other sources that it was reading say the same"
                    )
                file.write(b"+")
                file.flush()
                self._marks.add(file)
                yield
            finally:
                self._marks.discard(file)
                file.truncate(0)
                mark.unlink(missing_ok=True)

    def release(self) -> None:
        """Take all marks off, as this process is about to end by itself."""
        for file in list(self._marks):
            file.truncate(0)


def _is_locked(file: BinaryIO) -> bool:
    """Whether this process has the lock of a file now; the lock ends with it, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
