"""Directory watcher: triggers listings of local directories when something changes in them.

Only a hint: listings are the truth, and go on at their pace where the system reports nothing
(network file systems, no inotify watches left).
"""

import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

import structlog
from watchfiles import watch

_DEBOUNCE_MILLISECONDS: Final = 400
"""Changes this close together are reported once."""

_LOOK_MILLISECONDS: Final = 500
"""How often the thread checks whether it is to end."""

_log = structlog.get_logger(__name__)


class DirectoryWatch:
    """Watches a set of directories; calls ``on_change``, in its own thread, with changed ones."""

    def __init__(self, on_change: Callable[[Collection[str]], None]) -> None:
        self._on_change = on_change
        self._directories: frozenset[str] = frozenset()
        self._stopped = threading.Event()

    def set(self, directories: Iterable[str]) -> None:
        """Watch these directories from now on; reads none of them, as they may not answer."""
        wanted = frozenset(directories)
        if wanted == self._directories:
            return
        self.close()
        self._directories = wanted
        if wanted:
            self._stopped = threading.Event()
            threading.Thread(
                target=self._run, args=(wanted, self._stopped), name="watch", daemon=True
            ).start()

    def close(self) -> None:
        """Watch nothing."""
        self._stopped.set()
        self._directories = frozenset()

    def _run(self, directories: frozenset[str], stopped: threading.Event) -> None:
        try:
            for changes in watch(
                *directories,
                stop_event=stopped,
                debounce=_DEBOUNCE_MILLISECONDS,
                rust_timeout=_LOOK_MILLISECONDS,
                raise_interrupt=False,
                watch_filter=None,
                ignore_permission_denied=True,
            ):
                paths = (Path(path) for _, path in changes)
                places = {str(place) for path in paths for place in (path, *path.parents)}
                self._on_change(directories & places)
        except (OSError, RuntimeError) as error:
            _log.warning("directories are listed, not watched", error=str(error))
