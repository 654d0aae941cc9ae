"""Settled files: those of a followed source that are whole, as far as listings tell.

A file is taken when two listings some time apart show it unchanged and it ends as its format does.
A file that is renamed into place is whole at once and only waits for the second listing. One that
is written in place is left alone while it grows, and for a while after it has stopped without an
end.
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
"""Object stores that show an object only when its upload has ended, so its end need not be read."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    file: ListedFile
    since: float


class UnfinishedFiles:
    """Files of one source that wait until they count as whole.

    A file that stays unchanged for ``settle_seconds`` and has the end of its format is taken; 0
    takes it from the first listing on. After ``unfinished_seconds`` it is taken even without an
    end, and ingest says what it lacks.
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
        self._candidates: dict[str, _Candidate] = {}

    def __len__(self) -> int:
        return len(self._candidates)

    def take(self, listed: Sequence[ListedFile], *, began: float, ended: float) -> list[ListedFile]:
        """The files of a listing that are whole; they wait no more.

        ``listed`` is all that the source shows and that was not taken before. ``began`` and
        ``ended`` are monotonic seconds of the listing: the first sight of a file counts from its
        end, the second up to its beginning. Raises an OSError where a file cannot be read; the
        listing is remembered nevertheless.
        """
        before = self._candidates
        self._candidates = {
            file.path: candidate
            if (candidate := before.get(file.path)) is not None and candidate.file == file
            else _Candidate(file, ended)
            for file in listed
        }
        whole = []
        for path, candidate in list(self._candidates.items()):
            unchanged_seconds = max(began - candidate.since, 0.0)
            if unchanged_seconds < self._settle_seconds:
                continue
            if unchanged_seconds >= self._unfinished_seconds or self._has_end(candidate.file):
                whole.append(candidate.file)
                del self._candidates[path]
        return whole


def has_end_of_format(file: ListedFile) -> bool:
    """Whether a file ends with what is written last: the footer of Parquet, the newline of text.

    Compressed files and Arrow streams have no such end and count as whole. False when the file is
    gone. An object of a store that shows whole objects only is not read. Raises what its file
    system raises.
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
