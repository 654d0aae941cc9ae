"""Settled files: those of a followed source that are whole, as far as listings tell.

A file is taken when two listings some time apart show it unchanged and it ends as its format does.
One that is renamed into place is whole at once and only waits for the second listing; one that is
written in place is left alone while it grows, and for a while after it has stopped without an end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from peewit.service.inbox.inbox_records import ListedFile
from peewit.streaming.edges.conversion import edge_format
from peewit.streaming.edges.staging import open_file_system
from peewit.streaming.edges.table_formats import Format

_MAGIC: Final = (b"PAR1", b"PARE")
_TAIL_BYTES: Final = 8
_LEAST_BYTES: Final = 12

_WHOLE_OR_ABSENT: Final = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
"""Object stores show an object when its upload has ended, so nothing of it is read beforehand."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A version of a file, and when a listing showed it first."""

    file: ListedFile
    since: float


class Settling:
    """Files of one source that wait to be taken for whole.

    Parameters
    ----------
    settle_seconds : float
        Unchanged so long, a file is taken; 0 takes it from the first listing on.
    unfinished_seconds : float
        Unchanged so long, a file is taken even where it has no end; ingest then says what it lacks.
    has_end : callable
        Whether a file ends as one of its format does.
    """

    def __init__(
        self,
        *,
        settle_seconds: float,
        unfinished_seconds: float,
        has_end: Callable[[ListedFile], bool],
    ) -> None:
        self._settle_seconds = settle_seconds
        self._unfinished_seconds = unfinished_seconds
        self._has_end = has_end
        self._seen: dict[str, _Seen] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def take(self, listed: Sequence[ListedFile], *, began: float, ended: float) -> list[ListedFile]:
        """The files of a listing that are whole; they wait no more.

        Parameters
        ----------
        listed : sequence of ListedFile
            All that the source shows and that was not taken before.
        began, ended : float
            Monotonic seconds of the listing: the first sight of a file counts from its end, the
            second up to its beginning.

        Raises
        ------
        OSError
            A file cannot be read; what the listing showed is remembered nevertheless.
        """
        before = self._seen
        self._seen = {
            file.path: seen
            if (seen := before.get(file.path)) is not None and seen.file == file
            else _Seen(file, ended)
            for file in listed
        }
        taken = []
        for path, seen in list(self._seen.items()):
            unchanged_seconds = max(began - seen.since, 0.0)
            if unchanged_seconds < self._settle_seconds:
                continue
            if unchanged_seconds >= self._unfinished_seconds or self._has_end(seen.file):
                taken.append(seen.file)
                del self._seen[path]
        return taken


def has_end_of_format(file: ListedFile) -> bool:
    """Whether a file ends with what is written last: the footer of Parquet, the newline of text.

    Compressed files and Arrow streams have no such end and count as whole. Asked of the file as it
    is now; False when it is gone. An object of a store that shows whole objects only is not read.

    Raises
    ------
    OSError, or what its file system raises
        It cannot be read now.
    """
    file_system, path = open_file_system(file.path, {})
    if _WHOLE_OR_ABSENT.intersection(_protocols(file_system)):
        return True
    table_format, compression = edge_format(file.path)
    if compression is not None or table_format is Format.ARROW:
        return True
    is_text = table_format is not Format.PARQUET
    if file.size < (1 if is_text else _LEAST_BYTES):
        return False
    try:
        first = max(file.size - _TAIL_BYTES, 0)
        tail: bytes = file_system.cat_file(path, start=first, end=file.size)
    except FileNotFoundError:
        return False
    if is_text:
        return tail.endswith(b"\n")
    footer_bytes = int.from_bytes(tail[:4], "little")
    return tail[4:] in _MAGIC and footer_bytes + _LEAST_BYTES <= file.size


def _protocols(file_system: Any) -> tuple[str, ...]:
    protocol = file_system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)
