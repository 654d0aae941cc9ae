"""Metrics as rows of a table, with one collector that reads their numbers at each scrape."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

Moment = TypeVar("Moment")


_Family = CounterMetricFamily | GaugeMetricFamily | InfoMetricFamily

_KINDS: Final[Mapping[str, type[_Family]]] = {
    "_total": CounterMetricFamily,
    "_info": InfoMetricFamily,
}
"""By the end of a name; all others are gauges."""


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[Moment]):
    """One metric; ``select`` takes its numbers, by values of its labels, from what was read."""

    name: str  # says the kind, see `_KINDS`
    help: str
    labels: tuple[str, ...]
    select: Callable[[Moment], Mapping[Any, Any]]

    def family(self, numbers: Mapping[Any, Any]) -> Metric:
        """The metric with some numbers; the value of a single label may stand for itself."""
        end = next((each for each in _KINDS if self.name.endswith(each)), "")
        kind = _KINDS.get(end, GaugeMetricFamily)
        family: _Family = kind(self.name.removesuffix(end), self.help, labels=self.labels)
        for labels, number in numbers.items():
            family.add_metric([labels] if isinstance(labels, str) else labels, number)
        return family


class RowCollector(Collector, Generic[Moment]):
    """The metrics of some rows; ``read`` is called once a scrape, and not before."""

    def __init__(self, rows: Sequence[MetricRow[Moment]], read: Callable[[], Moment]) -> None:
        self._rows = rows
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """The metrics without numbers."""
        return [row.family({}) for row in self._rows]

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        moment = self._read()
        return [row.family(row.select(moment)) for row in self._rows]
