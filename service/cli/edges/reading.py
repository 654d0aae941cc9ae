"""What waits is ingested, here until a signal comes, or by the process that does so already."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from peewit.service.cli.machine.first_run_kernels import INGEST
from peewit.service.cli.progress import IngestProgress
from peewit.service.cli.session import INTERRUPTED, say, stderr_console
from peewit.service.database.lease_keeper import LeaseHeld
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import FileRecord, SourceRecord
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.service.process_lifetime import StopSignal, end_now
from peewit.solvers.kernels.compilation import not_kept, told_of_compilations
from peewit.streaming.graph_stream import Interrupted

STOP_SECONDS: Final = 3.5
"""Time that a signal leaves for the work in hand; what is left then is replayed."""

RENEWER_DELAY_SECONDS: Final = 3.0
"""An ingest that ends sooner, and needs no long factorization, goes without a renewer."""

_WATCH_SECONDS: Final = 1.0
_LARGE: Final = 100_000
"""Edges, or bytes, below which no factorization takes long."""

_PAGE: Final = 1000


@contextmanager
def ended_when_stopped(what_now: str) -> Iterator[None]:
    """End the command when a signal stops the block, and say what becomes of the work."""
    try:
        yield
    except Interrupted:
        say(f"stopped; {what_now}")
        end_now(INTERRUPTED)


def read_all(
    home: Home,
    graph_id: str,
    sources: Sequence[SourceRecord],
    stop: StopSignal,
    *,
    is_quiet: bool,
    is_done: Callable[[], bool] | None = None,
) -> set[str]:
    """Ingest the graph here, or wait while another process does; the files that were told of.

    It waits until ``is_done``, or until none of the files waits any more.
    """

    def none_waits() -> bool:
        waiting = {"pending", "retracting"}
        return all(file.status not in waiting for file in files_of(home, graph_id, sources))

    with Renewer(home.database, delay_seconds=RENEWER_DELAY_SECONDS) as renewer:
        ingestor = Ingestor(home.database, home.settings, renewer=renewer)
        for source in sources:
            ingestor.list_source(graph_id, source, is_asked_for=True)
        pending = home.manifest.pending(graph_id)
        if _is_large(home, graph_id, sum(file.size for file in pending)):
            renewer.start()
        return _read_pending(
            home,
            ingestor,
            graph_id,
            pending,
            stop,
            is_quiet=is_quiet,
            is_done=is_done or none_waits,
        )


@contextmanager
def renewer_for(home: Home, graph_id: str) -> Iterator[Renewer]:
    """A renewer of leases, started at once if the graph may need long factorizations."""
    delay_seconds = 0.0 if _is_large(home, graph_id) else RENEWER_DELAY_SECONDS
    with Renewer(home.database, delay_seconds=delay_seconds) as renewer:
        yield renewer


def _is_large(home: Home, graph_id: str, n_bytes: int = 0) -> bool:
    """Whether the graph, or what comes to it, may need long factorizations."""
    return max(home.catalog.get_by_id(graph_id).progress.edges_kept, n_bytes) >= _LARGE


def _read_pending(
    home: Home,
    ingestor: Ingestor,
    graph_id: str,
    pending: Sequence[FileRecord],
    stop: StopSignal,
    *,
    is_quiet: bool,
    is_done: Callable[[], bool],
) -> set[str]:
    sources = home.manifest.sources.list(graph_id)
    may_give = any(each.is_live or each.listed_at is None for each in sources)
    has_window = home.catalog.get_by_id(graph_id).settings.window is not None  # may be shorter
    is_idle = not (may_give or has_window or home.manifest.work(graph_id))
    if is_idle and not is_quiet:
        say("no new files; the graph stays as it is")
    progress = IngestProgress(stderr_console(), pending, expected=lambda: not_kept(INGEST))
    is_told = False
    while True:
        try:
            if is_quiet:
                ingestor.ingest_graph(graph_id, should_stop=stop)
            else:
                with progress, told_of_compilations(progress.compiling):
                    ingestor.ingest_graph(graph_id, should_stop=stop, on_event=progress)
            return progress.told
        except LeaseHeld:
            if not is_told:
                say("another process ingests this graph; waiting for it to read the files")
                is_told = True
        if is_done():
            return progress.told
        if stop.wait(_WATCH_SECONDS):
            raise Interrupted


def files_of(home: Home, graph_id: str, sources: Sequence[SourceRecord]) -> Iterator[FileRecord]:
    """Files of some sources, oldest first; of the whole graph if none is named."""
    source_ids: list[str | None] = [source.id for source in sources]
    for source_id in source_ids or [None]:
        after_id = 0
        while page := home.manifest.list_files(
            graph_id, source_id=source_id, after_id=after_id, limit=_PAGE
        ):
            yield from page
            after_id = page[-1].id
