"""Prometheus metrics of HTTP requests, added up over the processes that share one port.

A scrape reaches any of the processes, so each keeps its numbers in files of one directory and the
one that is asked adds them up. Files of ended processes stay, as counters never go down; the next
scrape removes their gauges.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from peewit.service.database.lease_holders import holder_name, is_dead
from peewit.service.settings import metrics_directory, share_metrics

ABORTED: Final = "aborted"
"""Status of a request that was aborted or timed out before an answer began."""

_PREFIX: Final = "peewit-metrics-"
_HOLDER: Final = "holder"
"""The file that names the process that holds the directory."""

OTHER_METHOD: Final = "(other)"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS: Final = (0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class RequestMetrics:
    """Requests of this process; ``registry`` shows them with those of sibling processes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        directory = metrics_directory()
        shown = registry
        if directory is not None:
            mark_process_dead(os.getpid(), str(directory))  # of one that had this number before
            registry.register(_AllProcesses(directory))
            shown = CollectorRegistry()
        self._requests = Counter(
            "peewit_http_requests",
            "Requests answered, by route template, method and class of status.",
            ["route", "method", "status"],
            registry=shown,
        )
        self._seconds = Histogram(
            "peewit_http_request_seconds",
            "Seconds from the head of a request to the last byte of its answer.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=shown,
        )
        self._in_flight = Gauge(
            "peewit_http_requests_in_flight",
            "Requests being answered, the scrape among them.",
            multiprocess_mode="livesum",
            registry=shown,
        )
        self._counted: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}

    def begin(self) -> None:
        """Count a request as in flight."""
        self._in_flight.inc()

    def end(self) -> None:
        """Count a request as no longer in flight."""
        self._in_flight.dec()

    def count(self, method: str, route: str, status: int | None, seconds: float) -> None:
        """Count an answer; ``status`` is None if none was begun."""
        series = (
            route,
            method if method in _METHODS else OTHER_METHOD,
            ABORTED if status is None else f"{status // 100}xx",
        )
        figures = self._counted.get(series)
        if figures is None:
            figures = self._requests.labels(*series), self._seconds.labels(*series[:2])
            self._counted[series] = figures
        requests, latency = figures
        requests.inc()
        latency.observe(seconds)


class _AllProcesses(Collector):
    """Metrics in the files of a directory, without the gauges of processes that have ended."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the names are in the files."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """The present sums."""
        for path in self._directory.glob("gauge_live*_*.db"):
            pid = int(path.stem.rpartition("_")[2])
            if not _is_sibling(pid):
                mark_process_dead(pid, str(self._directory))
        return list(MultiProcessCollector(None, str(self._directory)).collect())


def _is_sibling(pid: int) -> bool:
    """Whether a process of this number runs beside this one, under the same parent."""
    try:
        process = psutil.Process(pid)
        return process.ppid() == os.getppid() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def shared_metrics(n_processes: int) -> Iterator[None]:
    """Within the block, processes that start count together; nothing for a single one.

    The directory is new each time, so that counts start anew.
    """
    if n_processes == 1:
        yield
        return
    _remove_left_directories()
    with TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as directory:
        (Path(directory) / _HOLDER).write_text(holder_name())
        share_metrics(Path(directory))
        yield


def _remove_left_directories() -> None:
    """Remove directories of killed servers; one that is not surely dead stays."""
    for directory in Path(gettempdir()).glob(f"{_PREFIX}*"):
        try:
            holder = (directory / _HOLDER).read_text()
        except (OSError, UnicodeDecodeError):  # another user's, or one that begins just now
            continue
        if is_dead(holder):
            rmtree(directory, ignore_errors=True)
