"""Processes that run the jobs of many tests, as those of workers do: starting one takes seconds."""

import atexit
from threading import Lock
from typing import Final

from peewit.service.settings import Settings
from peewit.service.worker.warm_child import WarmChild

_children: Final[dict[tuple[object, ...], WarmChild]] = {}
_lock: Final = Lock()


def lasting_child(settings: Settings) -> WarmChild:
    """A child for jobs of any home with such settings; one thread at a time may use it."""
    key = (settings.child_memory_bytes, settings.threads, settings.source_hosts)
    with _lock:
        child = _children.get(key)
        if child is None:
            child = _children[key] = WarmChild("tests", settings)
            atexit.register(child.stop)  # before multiprocessing would wait for it
    return child
