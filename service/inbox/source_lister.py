"""Listing of the sources of all graphs: each in its turn, in threads, with back-off.

A live source is read on where one of files is listed. If it gave something, it is read on once that
is in the graph and the next pass may begin, so that the pass has the newest rows and there are no
more files than passes. If it gave nothing, the pause is as long as it has been quiet. Either pause
is at least half of the usual one and, while the graph does not rest, at most all of it.

Where a process was killed while it read a live source, that is a failure of the source.

A few are listed at once, and the next begins when one ends; those first that the watcher of
directories has told of. A slow or absent store delays neither other sources nor pushes. A fault of
a source is stored with the source, for people to see, and never held against its files.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import Final

import structlog
from fsspec.core import url_to_fs
from sqlalchemy.exc import OperationalError

from peewit.service.catalog import GraphNotFound
from peewit.service.inbox.confinement import is_own, is_within, require_within
from peewit.service.inbox.directory_watcher import DirectoryWatch
from peewit.service.inbox.inbox_records import ListedFile, SourceNotFound, SourceRecord
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.settled_files import UnfinishedFiles, has_end_of_format
from peewit.service.live_sources.in_hand import InHand
from peewit.service.redaction import redacted, shown_url
from peewit.service.settings import Settings
from peewit.streaming.edges.sources import EdgeFiles

READING: Final = "reading"
"""Directory of the home with a mark of each live source that is being read."""

LONGEST_REST_SECONDS: Final = 300.0
"""Between two tries of a source that fails again and again."""

_AT_ONCE: Final = 4
_NOTE_SECONDS: Final = 60.0
_NOTE_TOGETHER_SECONDS: Final = 5.0
_LEAST_GAP_SECONDS: Final = 0.2
_LISTING_SHARE: Final = 0.2
"""Of a processor, that listings of all sources take at most where nothing has changed."""

_MAX_SHOWN: Final = 1000
_LEAST_SHARE: Final = 0.5
"""Of the usual pause, between two readings of a live source: each becomes a file of the graph."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watch:
    """One source: when to list and to read it next, what went wrong, which directory to watch.

    ``given_at``: when a live source last gave something. ``read_on_at``: from when it may be read
    on.
    """

    graph_id: str
    source: SourceRecord
    unfinished: UnfinishedFiles
    list_at: float = 0.0
    read_at: float = 0.0
    listing_since: float | None = None
    noted_at: float | None = None
    n_list_failures: int = 0
    n_read_failures: int = 0
    is_told: bool = False  # whether the watcher has told of it
    is_told_slow: bool = False
    is_settled: bool = False
    given_at: float = -math.inf
    read_on_at: float = math.inf
    directory: str | None = None
    busy_seconds: float = 0.0  # of a processor, that the last listing of files took
    registered: dict[str, ListedFile] = field(default_factory=dict)
    skipped_files: frozenset[str] = frozenset()

    @property
    def has_news(self) -> bool:
        return self.is_told or len(self.unfinished) > 0

    @property
    def has_failed(self) -> bool:
        return self.n_list_failures > 0 or self.n_read_failures > 0


class SourceLister:
    """Lists sources into the manifest, as often as is due.

    ``on_listed`` gets the source and the seconds of its listing, None when that failed.
    ``on_change`` is called in any thread when `due_at` has changed. ``listing`` makes a context
    manager around the listing of a source in its thread. ``clock`` gives monotonic seconds.
    """

    def __init__(
        self,
        manifest: Manifest,
        settings: Settings,
        *,
        reader: LiveReader,
        clock: Callable[[], float] = time.monotonic,
        on_listed: Callable[[SourceRecord, float | None], None] = lambda _source, _seconds: None,
        on_change: Callable[[], None] = lambda: None,
        listing: Callable[[SourceRecord], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._manifest = manifest
        self._settings = settings
        self._clock = clock
        self._on_listed = on_listed
        self._on_change = on_change
        self._listing = listing
        self._reader = reader
        self._in_hand = InHand()
        self._is_closed = False
        self._polled_at = -math.inf
        self._watches: dict[str, _Watch] = {}
        self._sources: dict[str, frozenset[str]] = {}
        self._changed = threading.Condition()
        self._choosing = threading.Lock()
        self._resting: frozenset[str] = frozenset()
        self._due: deque[_Watch] = deque()
        self._under_way: list[_Watch] = []
        self._n_listing = 0
        self._listed: set[str] = set()
        self._listed_noted_at = -math.inf
        self._watch = DirectoryWatch(self._wake)

    def poll(self, graph_ids: Iterable[str], *, resting: Collection[str] = ()) -> None:
        """Begin the listings that are due; returns at once.

        ``graph_ids`` are all graphs; ``resting`` ones take no files now, but still labels and
        features.
        """
        self._polled_at = self._clock()
        present: dict[str, _Watch] = {}
        of_all = self._manifest.sources.of_all_graphs()
        for graph_id in graph_ids:
            sources = of_all.get(graph_id, ())
            if self._sources.get(graph_id) != (ids := frozenset(source.id for source in sources)):
                self._sources[graph_id] = ids
                self._forget_registered(graph_id)
            for source in sources:
                present[source.id] = self._watch_of(graph_id, source)
        with self._changed:
            self._watches = present
        self._reader.close_all_but(present)
        self._watch.set(
            watch.directory for watch in present.values() if watch.source.follow and watch.directory
        )
        for watch in present.values():
            self._tell_if_slow(watch)
        if self._listed:
            self._note_listed()
        self._resting = frozenset(resting)
        self._choose()
        while (due := self._take_due()) is not None:
            threading.Thread(target=self._list_all, args=(due,), name="list", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait some time for listings under way; whether all have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self._n_listing == 0, seconds)

    def due_at(self) -> float:
        """When `poll` has work though nothing has changed; infinite where it never has.

        What was due at the last `poll` and was not begun waits for a change.
        """
        times = (time for watch in self._watches.values() for time in self._times_of(watch))
        return min((time for time in times if time > self._polled_at), default=math.inf)

    def resting(self, graph_id: str) -> list[str]:
        """Ids of sources whose files could not be read and are not tried yet."""
        now = self._clock()
        return [
            source_id
            for source_id, watch in self._watches.items()
            if watch.graph_id == graph_id and watch.read_at > now
        ]

    def note_read(self, source_ids: Iterable[str], unreadable: Mapping[str, Exception]) -> None:
        """Remember which sources gave their files, and the error of those that did not."""
        for source_id in source_ids:
            watch = self._watches.get(source_id)
            if watch is None:
                continue
            error = unreadable.get(source_id)
            if error is not None:
                watch.n_read_failures += 1
                watch.read_at = self._clock() + self._rest(watch.n_read_failures)
                self._note_error(watch, error.__cause__ or error)
            elif watch.n_read_failures:
                watch.n_read_failures, watch.read_at = 0, 0.0
                self._note_success(watch)

    def close(self) -> None:
        """Begin nothing more; listings under way end with the process."""
        self._is_closed = True
        self._watch.close()
        self.release()

    def release(self) -> None:
        """Note that this process is not killed, though it may end in the midst of a reading."""
        self._in_hand.release()

    def _watch_of(self, graph_id: str, source: SourceRecord) -> _Watch:
        """The state of a source; one whose failures were forgiven is tried at once."""
        watch = self._watches.get(source.id)
        if watch is None:
            unfinished = UnfinishedFiles(
                settle_seconds=self._settings.settle_seconds,
                unfinished_seconds=self._settings.unfinished_seconds,
                has_end=has_end_of_format,
            )
            return _Watch(graph_id, source, unfinished, n_list_failures=source.n_failures)
        if watch.has_failed and watch.source.n_failures and not source.n_failures:
            watch.n_list_failures = watch.n_read_failures = 0
            watch.list_at = watch.read_at = 0.0
        is_asked_anew = watch.is_settled and source.is_live and source.lag is None
        if is_asked_anew or (source.follow and not watch.source.follow):
            watch.is_settled = False
            watch.list_at = 0.0
        if _reading(source) != _reading(watch.source):
            watch.registered = {}  # its refused files were forgotten
        watch.source = source
        return watch

    def _forget_registered(self, graph_id: str) -> None:
        """Ask the manifest again: a file of a removed source may belong to another one now."""
        for watch in self._watches.values():
            if watch.graph_id == graph_id:
                watch.registered = {}

    def _choose(self) -> None:
        """Put those in a row that are due now: first with news, then who waits for longest."""
        now = self._polled_at
        waiting = [
            watch
            for watch in self._watches.values()
            if watch.listing_since is None and min(watch.list_at, watch.read_on_at) <= now
        ]
        waiting.sort(key=lambda watch: (not watch.has_news, watch.list_at))
        with self._choosing:
            self._due = deque(waiting)

    def _take_due(self) -> _Watch | None:
        """The source to list next of those due at the last `poll`, marked as under way.

        None where there is no room.
        """
        with self._choosing:
            while self._due and not self._is_closed:
                listing = [watch for watch in self._under_way if self._is_listed(watch)]
                if len(listing) >= _AT_ONCE:
                    return None
                watch = self._due.popleft()
                is_left = watch.listing_since is None and self._is_due(watch, self._resting)
                if is_left and self._begin(watch):
                    self._under_way = [*listing, watch]
                    return watch
        return None

    def _list_all(self, watch: _Watch) -> None:
        """List a source, then what is due in this thread, so that nothing waits for a round."""
        due: _Watch | None = watch
        while due is not None:
            self._list(due)
            due = self._take_due()
            with self._changed:
                self._n_listing -= 1
                self._changed.notify_all()
        self._on_change()

    def _is_due(self, watch: _Watch, resting: Collection[str]) -> bool:
        now = self._clock()
        if watch.read_on_at == math.inf:
            return watch.list_at <= now
        is_resting = watch.graph_id in resting and watch.source.holds == "edges"
        if is_resting or now < watch.read_on_at:
            return False
        return watch.list_at <= now or not self._manifest.live.waiting_bytes(watch.source.id)

    def _times_of(self, watch: _Watch) -> tuple[float, ...]:
        """When a source may be due, or late."""
        if watch.listing_since is None:
            return watch.list_at, watch.read_on_at, watch.read_at
        return () if watch.is_told_slow else (watch.listing_since + self._settings.stall_seconds,)

    def _is_listed(self, watch: _Watch) -> bool:
        """Whether a listing takes up one of the places; one that stands still does not.

        Its thread cannot be ended; there are no more such threads than sources.
        """
        since = watch.listing_since
        return since is not None and self._clock() - since < self._settings.stall_seconds

    def _begin(self, watch: _Watch) -> bool:
        """Begin the listing of a source; False where there is nothing to list."""
        if not watch.source.follow and (watch.is_settled or self._has_given(watch.source)):
            watch.is_settled = True
            watch.list_at = watch.read_on_at = math.inf
            return False
        watch.listing_since = self._clock()
        watch.is_told = watch.is_told_slow = False
        with self._changed:
            self._n_listing += 1
        return True

    def _has_given(self, source: SourceRecord) -> bool:
        """Whether a source that is not followed has given all it had."""
        return source.lag == 0 if source.is_live else self._manifest.has_files(source.id)

    def _list(self, watch: _Watch) -> None:
        began = self._clock()
        try:
            with self._listing(watch.source):
                if watch.source.is_live:
                    self._read(watch)
                else:
                    self._take(watch, began)
        except (GraphNotFound, SourceNotFound):
            watch.list_at = self._clock() + self._settings.list_seconds  # removed meanwhile
        except OperationalError as error:
            _log.warning("listing not stored", error=str(error.orig))
            watch.list_at = self._clock() + self._settings.list_seconds
        except Exception as error:  # noqa: BLE001 - file systems raise what they like
            watch.n_list_failures += 1
            watch.directory = None
            watch.list_at = self._clock() + self._rest(watch.n_list_failures)
            self._on_listed(watch.source, None)
            self._note_error(watch, error)
        else:
            watch.n_list_failures = 0
            self._on_listed(watch.source, self._clock() - began)
            self._note_success(watch)
        finally:
            watch.listing_since = None

    def _read(self, watch: _Watch) -> None:
        """Read a live source on; while it gives chunks it does not count as slow."""
        began = self._clock()
        watch.read_on_at = math.inf

        def go_on() -> None:
            watch.listing_since = watch.given_at = self._clock()

        with self._in_hand.marked(self._settings.home / READING / watch.source.id):
            self._reader.read(watch.source, should_stop=lambda: self._is_closed, on_chunk=go_on)
        now, longest = self._clock(), self._settings.list_seconds
        least = _LEAST_SHARE * longest
        if watch.given_at >= began:
            watch.read_on_at, watch.list_at = now + least, now + longest
        else:
            watch.list_at = now + min(max(now - watch.given_at, least), longest)

    def _take(self, watch: _Watch, began: float) -> None:
        """List a source and register what is whole."""
        busy = time.thread_time()
        listed, skipped_files = list_files(watch.source, home=self._settings.home)
        watch.directory = _local_directory(watch.source.url)
        ended = self._clock()
        for path in sorted(skipped_files - watch.skipped_files):
            _log.warning(
                "file passed over",
                graph_id=watch.graph_id,
                path=shown_url(path),
                error="the name of a file must be UTF-8",
            )
        watch.skipped_files = skipped_files
        source_id, graph_id = watch.source.id, watch.graph_id
        if not watch.source.follow:
            self._manifest.register_files(graph_id, source_id, listed)
            watch.list_at = ended + self._settings.list_seconds
            return
        before = watch.registered
        unseen = [file for file in listed if before.get(file.path) != file]
        unknown, known = self._manifest.unknown_files(graph_id, unseen)
        whole = watch.unfinished.take(unknown, began=began, ended=ended)
        fresh = [*known, *whole]
        if fresh:
            self._manifest.register_files(graph_id, source_id, fresh)
        still = set(listed)
        watch.registered = {path: file for path, file in before.items() if file in still}
        watch.registered.update({file.path: file for file in fresh})
        watch.busy_seconds = time.thread_time() - busy
        pause = self._settings.list_seconds
        if len(watch.unfinished):
            pause = max(min(pause, self._settings.settle_seconds), _LEAST_GAP_SECONDS)
        else:
            busy = sum(each.busy_seconds for each in self._watches.values())
            pause = max(pause, min(busy / _LISTING_SHARE, LONGEST_REST_SECONDS))
        watch.list_at = ended + pause

    def _rest(self, n_failures: int) -> float:
        doubled: float = self._settings.list_seconds * 2.0 ** min(n_failures, 16)
        return min(doubled, LONGEST_REST_SECONDS)

    def _tell_if_slow(self, watch: _Watch) -> None:
        """Store a listing that takes too long as an error of its source."""
        if watch.listing_since is None or watch.is_told_slow or self._is_listed(watch):
            return
        watch.is_told_slow = True
        watch.directory = None  # whoever began to watch it could wait for ever
        stall_seconds = self._settings.stall_seconds
        self._note_error(
            watch, TimeoutError(f"the listing has taken more than {stall_seconds:g} seconds so far")
        )

    def _note_error(self, watch: _Watch, error: BaseException) -> None:
        reason = explained(error)
        _log.warning(
            "source not read",
            graph_id=watch.source.graph_id,
            url=shown_url(watch.source.url),
            error=reason,
            failures=watch.n_list_failures + watch.n_read_failures,
        )
        watch.noted_at = None
        self._note(watch, reason)

    def _note_success(self, watch: _Watch) -> None:
        """Store a success when it is news, else now and then."""
        now = self._clock()
        if watch.has_failed:  # the listing works, the files do not come
            return
        is_recent = watch.noted_at is not None and now - watch.noted_at < _NOTE_SECONDS
        if not is_recent:
            if watch.noted_at is None:
                self._note(watch, None)
            else:
                self._listed.add(watch.source.id)
            watch.noted_at = now

    def _note_listed(self) -> None:
        """Store successes that are no news, together: every change of the database wakes others."""
        now = self._clock()
        if now - self._listed_noted_at >= _NOTE_TOGETHER_SECONDS:
            self._listed_noted_at = now
            listed, self._listed = self._listed, set()
            self._manifest.sources.note_listed(listed)

    def _note(self, watch: _Watch, error: str | None) -> None:
        try:
            self._manifest.sources.note_listing(watch.source.id, error=error)
        except OperationalError as unreachable:
            _log.warning("state of a source not stored", error=str(unreachable.orig))

    def _wake(self, directories: Collection[str]) -> None:
        soon = self._clock() + _LEAST_GAP_SECONDS
        with self._changed:
            for watch in self._watches.values():
                if not watch.n_list_failures and watch.directory in directories:
                    watch.is_told = True
                    watch.list_at = min(watch.list_at, soon)
                    self._due.appendleft(watch)  # passed over unless it is due already
        self._on_change()


def _reading(source: SourceRecord) -> tuple[object, ...]:
    return source.columns, source.max_bad_rows, source.replaces, source.again


def list_files(source: SourceRecord, *, home: Path) -> tuple[list[ListedFile], frozenset[str]]:
    """Files that a source shows now, and paths that are passed over as their names are no UTF-8.

    There are none where an object store has no such prefix yet. Left out are files that a link
    takes outside the place of a source added over HTTP, and files of Peewit's own home unless the
    source lies there. Raises `SourceRefused` for a source added over HTTP that may not be read, and
    what its file system raises.
    """
    place = source.confined_to
    if place is not None:
        require_within(source.url, place, home=home)
    edge_files = EdgeFiles(source.url)
    try:
        files = edge_files.list()
    except FileNotFoundError:
        if not _is_empty_prefix(source.url):
            raise
        files = []
    else:
        if not files:  # fsspec's walk passes over what it cannot list
            _is_empty_prefix(source.url)
    if place is not None:
        files = [file for file in files if is_within(file.path, place, home=home)]
    elif not is_own(source.url, home):
        files = [file for file in files if not is_own(file.path, home)]
    listed = [ListedFile(file.path, file.version, file.size) for file in files]
    return listed, frozenset(edge_files.skipped_files)


def explained(error: BaseException) -> str:
    """An error for people: its kind, its text, no secrets."""
    text = redacted(str(error)).strip()
    kind = type(error).__name__
    return f"{kind}: {text}"[:_MAX_SHOWN] if text else kind


def _is_empty_prefix(url: str) -> bool:
    """Whether a place holds nothing; raises its error, which ``isdir`` of fsspec takes for a no."""
    file_system, root = url_to_fs(url)
    file_system.invalidate_cache()
    with suppress(FileNotFoundError):
        file_system.ls(_before_magic(root), detail=False)
        return not _is_local(url)
    bucket = root.strip("/").partition("/")[0]
    if _is_local(url) or not bucket or bucket == root.strip("/"):
        return False
    try:
        file_system.ls(bucket, detail=False)
    except FileNotFoundError:
        return False
    return True


def _is_local(url: str) -> bool:
    return url.startswith("file://") or ("://" not in url and "::" not in url)


def _before_magic(path: str) -> str:
    return "/".join(takewhile(lambda name: not has_magic(name), path.split("/")))


def _local_directory(url: str) -> str | None:
    """The directory to watch for a local source: its own, or the part before its wildcard."""
    if not _is_local(url):
        return None
    path = Path(_before_magic(url.removeprefix("file://")) or "/")
    return str(path if path.is_dir() else path.parent)
