"""Prometheus metrics of the memory and processor time of a process and its descendants.

The names are those of prometheus_client's own collector, which sees one process only.
"""

from collections.abc import Iterable

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class ProcessTreeCollector(Collector):
    """Sums over a process and its descendants.

    Parameters
    ----------
    pid : int
        The root; it must live as long as this is asked.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def describe(self) -> Iterable[Metric]:
        """The metrics without numbers."""
        return _families()

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment; processor time includes that of descendants that ended."""
        families = _families()
        processor, resident, descriptors, count, started = families
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
        processor.add_metric([], seconds)
        resident.add_metric([], n_bytes)
        descriptors.add_metric([], n_descriptors)
        count.add_metric([], n_processes)
        started.add_metric([], self._root.create_time())
        return families


def _families() -> tuple[
    CounterMetricFamily,
    GaugeMetricFamily,
    GaugeMetricFamily,
    GaugeMetricFamily,
    GaugeMetricFamily,
]:
    return (
        CounterMetricFamily("process_cpu_seconds", "Processor time, in seconds."),
        GaugeMetricFamily("process_resident_memory_bytes", "Resident memory."),
        GaugeMetricFamily("process_open_fds", "Open file descriptors."),
        GaugeMetricFamily("peewit_processes", "Processes that these numbers are the sums of."),
        GaugeMetricFamily("process_start_time_seconds", "Start of the first, since the epoch."),
    )
