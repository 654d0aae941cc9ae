"""Prometheus metrics of the memory and processor time of a process and its descendants.

The names are those of prometheus_client's own collector, which sees one process only.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import psutil

from peewit.service.metrics.metric_rows import MetricRow, RowCollector

_Figures = Sequence[float]


def _row(place: int, name: str, text: str) -> MetricRow[_Figures]:
    return MetricRow(name, text, (), lambda figures: {(): figures[place]})


_ROWS: Final = (
    _row(0, "process_cpu_seconds_total", "Processor time, in seconds."),
    _row(1, "process_resident_memory_bytes", "Resident memory."),
    _row(2, "process_open_fds", "Open file descriptors."),
    _row(3, "peewit_processes", "Processes that these numbers are the sums of."),
    _row(4, "process_start_time_seconds", "Start of the first, since the epoch."),
)


def process_tree_collector(pid: int) -> RowCollector[_Figures]:
    """Sums over a process, which must outlive this, and its descendants."""
    return RowCollector(_ROWS, partial(_read, psutil.Process(pid)))


def _read(root: psutil.Process) -> _Figures:
    """The figures of this moment; processor time includes that of descendants that ended."""
    seconds, n_bytes, n_descriptors, n_processes = 0.0, 0, 0, 0
    for process in (root, *root.children(recursive=True)):
        try:
            with process.oneshot():
                times = process.cpu_times()
                seconds += times.user + times.system
                seconds += times.children_user + times.children_system
                n_bytes += process.memory_info().rss
                n_descriptors += process.num_fds()
                n_processes += 1
        except psutil.NoSuchProcess:
            continue  # it ended while this was looking; its parent counts its time
    return seconds, n_bytes, n_descriptors, n_processes, root.create_time()
