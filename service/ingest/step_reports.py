"""Reports of what this process does, from the work itself to the renewer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fsspec.asyn import get_loop

from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.streaming.steps import Step, Steps

_WORK: Final = ""
"""Key of the one step at a time that a process takes on its graphs."""

_REMOTE_THREAD: Final = "fsspecIO"


class ReportedSteps(Steps):
    """Steps of the work on one graph, or on none, reported to a renewer.

    ``source_of`` gives the source's id of a file.
    """

    def __init__(
        self,
        renewer: Renewer,
        graph_id: str | None = None,
        *,
        source_of: Callable[[str], str | None] = lambda _path: None,
    ) -> None:
        self._renewer = renewer
        self._graph_id = graph_id
        self._source_of = source_of

    def begin(self, step: Step, path: str | None = None) -> None:
        """Report a step, or that it makes progress."""
        self._renewer.begin(
            _WORK,
            graph_id=self._graph_id,
            source_id=None if path is None else self._source_of(path),
            step=step,
            file=path,
        )

    def move_on(self) -> None:
        """Report progress."""
        self._renewer.move_on(_WORK)

    def end(self) -> None:
        """Report that nothing is done."""
        self._renewer.end(_WORK)


@contextmanager
def reported_listing(renewer: Renewer | None, source: SourceRecord) -> Iterator[None]:
    """Report that this thread lists a source while the block runs."""
    if renewer is None:
        yield
        return
    if "://" in source.url:
        get_loop()  # the thread in which fsspec speaks with stores
    helpers = [thread for thread in threading.enumerate() if thread.name == _REMOTE_THREAD]
    renewer.begin(
        source.id,
        graph_id=source.graph_id,
        source_id=source.id,
        step="listing",
        file=None,
        threads=[thread.native_id for thread in (threading.current_thread(), *helpers)],
    )
    try:
        yield
    finally:
        renewer.end(source.id)
