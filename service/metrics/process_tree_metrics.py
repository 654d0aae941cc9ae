"""Prometheus metrics of the memory and processor time of a process and its descendants.

The names are those of prometheus_client's own collector, which sees one process only.
"""

from collections.abc import Iterable, Sequence

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class ProcessTreeCollector(Collector):
    """Sums over a process, which must outlive this, and its descendants."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def describe(self) -> Iterable[Metric]:
        """The metrics without numbers."""
        return _families()

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment; processor time includes that of descendants that ended."""
        seconds, n_bytes, n_descriptors, n_processes = 0.0, 0, 0, 0
        for process in (self._root, *self._root.children(recursive=True)):
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
        return _families(seconds, n_bytes, n_descriptors, n_processes, self._root.create_time())


def _families(*figures: float) -> Sequence[Metric]:
    families: tuple[CounterMetricFamily | GaugeMetricFamily, ...] = (
        CounterMetricFamily("process_cpu_seconds", "Processor time, in seconds."),
        GaugeMetricFamily("process_resident_memory_bytes", "Resident memory."),
        GaugeMetricFamily("process_open_fds", "Open file descriptors."),
        GaugeMetricFamily("peewit_processes", "Processes that these numbers are the sums of."),
        GaugeMetricFamily("process_start_time_seconds", "Start of the first, since the epoch."),
    )
    for family, figure in zip(families, figures, strict=False):
        family.add_metric([], figure)
    return families
