"""Prometheus metrics of the stores, which any process can read, and of ingest.

What is in the database (graphs by `peewit.service.metrics.graph_metrics`, jobs by
`peewit.service.metrics.job_metrics`) is read at every scrape, so the API's processes agree and
nothing is lost when one ends. Only the ingest process knows, since its start, how long blocks and
resparsifications take.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    make_wsgi_app,
    start_http_server,
)

from peewit.service.database.engine import Database
from peewit.service.jobs.ingest_steps import IngestStep, IngestSteps
from peewit.service.metrics.graph_metrics import MAX_GRAPHS, OTHERS, graph_collector
from peewit.service.metrics.job_metrics import job_collector
from peewit.service.metrics.metric_rows import MetricRow, RowCollector
from peewit.service.settings import Settings
from peewit.streaming.events import (
    Committed,
    Duplicate,
    IngestEvent,
    Progress,
    Quarantined,
    Repaired,
    Retracted,
    Withheld,
)
from peewit.streaming.snapshots.provenance import SnapshotMeta

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

NO_GRAPH: Final = "(none)"
"""No graph can have this name."""

_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


_Steps = Mapping[str, Sequence[IngestStep]]
"""Present steps of all ingest processes, by name of the graph."""


def _present_steps(database: Database) -> _Steps:
    steps: dict[str, list[IngestStep]] = {}
    for step in IngestSteps(database).present():
        steps.setdefault(step.graph or NO_GRAPH, []).append(step)
    return steps


def _step_row(
    name: str, text: str, figure: Callable[[Sequence[IngestStep]], float]
) -> MetricRow[_Steps]:
    def select(steps: _Steps) -> Mapping[str, float]:
        return {graph: figure(some) for graph, some in steps.items()}

    return MetricRow(name, text, ("graph",), select)


def _step_rows(stall_seconds: float) -> Sequence[MetricRow[_Steps]]:
    return (
        _step_row(
            "peewit_ingest_step_seconds",
            "How long the longest of the present steps of ingest lasts.",
            lambda steps: max(step.step_seconds for step in steps),
        ),
        _step_row(
            "peewit_ingest_quiet_seconds",
            "For how long one of them has neither made progress nor used the processor.",
            lambda steps: max(step.quiet_seconds for step in steps),
        ),
        _step_row(
            "peewit_ingest_stuck_steps",
            "Those of them that have stood still for PEEWIT_STALL_SECONDS.",
            lambda steps: sum(step.is_stuck(stall_seconds) for step in steps),
        ),
    )


def _setting_rows(settings: Settings) -> Sequence[MetricRow[None]]:
    limits = {"graph": settings.max_backlog_bytes, "all": settings.max_total_backlog_bytes}
    limit_text = "Pushed bytes that may wait, of one graph and of all together."
    info = {(): {"version": version("peewit")}}
    return (
        MetricRow("peewit_info", "What runs here.", (), lambda _: info),
        MetricRow("peewit_backlog_limit_bytes", limit_text, ("of",), lambda _: limits),
    )


def store_registry(
    database: Database, settings: Settings, kinds: Collection[str]
) -> CollectorRegistry:
    """Metrics of the stores, which any process can show; ``kinds`` of job appear in any case."""
    registry = CollectorRegistry()
    registry.register(graph_collector(database))
    registry.register(job_collector(database, kinds))
    steps = partial(_present_steps, database)
    registry.register(RowCollector(_step_rows(settings.stall_seconds), steps))
    registry.register(RowCollector(_setting_rows(settings), lambda: None))
    return registry


class IngestMetrics:
    """Numbers of one ingest process since its start; ``registry`` also has those of the stores."""

    def __init__(self, database: Database, settings: Settings, kinds: Collection[str]) -> None:
        self.registry = store_registry(database, settings, kinds)
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            self.registry.register(collector)
        self._labels: set[str] = set()
        counter = partial(Counter, labelnames=["graph"], registry=self.registry)
        histogram = partial(
            Histogram, labelnames=["graph"], registry=self.registry, buckets=_SECONDS
        )
        self._rows = counter(
            "peewit_ingest_rows",
            "Rows that this process has absorbed, those replayed after a fault counted again.",
        )
        self._files = Counter(
            "peewit_ingest_files",
            "Files that ended in this process, by how.",
            ["graph", "outcome"],
            registry=self.registry,
        )
        self._blocks = histogram(
            "peewit_block_seconds",
            "Seconds from asking for a block to its last record, the mean of its group.",
        )
        self._resparsify = histogram("peewit_resparsify_seconds", "Seconds of a resparsification.")
        self._repairs = Counter(
            "peewit_repairs",
            "Repairs after deletes, by what was sampled anew: none, part, all, or failed.",
            ["graph", "kind"],
            registry=self.registry,
        )
        self._repair_seconds = histogram(
            "peewit_repair_seconds", "Seconds of a repair, with the reading of the log."
        )
        gauge = partial(Gauge, labelnames=["graph"], registry=self.registry)
        self._live_edges = gauge("peewit_live_edges", "Edges that are not deleted.")
        self._deleted_edges = gauge("peewit_deleted_edges", "Edges that were deleted.")
        self._damage_max = gauge(
            "peewit_damage_max", "Largest part that a node has lost since its edges were sampled."
        )
        self._log_bytes = gauge("peewit_log_bytes", "Bytes of the log of all edges.")
        self._expired_edges = gauge("peewit_expired_edges", "Edges that left the window.")
        self._late_edges = gauge("peewit_late_edges", "Edges that came when it was past them.")
        self._horizon = gauge("peewit_horizon_seconds", "Since when edges live, since 1970.")
        self._watermark = gauge("peewit_watermark_seconds", "Latest time of an edge, since 1970.")
        self._listings = histogram("peewit_listing_seconds", "Seconds of a listing of a source.")
        self._listing_errors = counter("peewit_listing_errors", "Listings that failed.")
        self._failures = counter(
            "peewit_ingest_failures", "Passes over a graph that failed and are tried again."
        )

    def note_event(self, graph: str, event: IngestEvent) -> None:
        """Count an event of a graph's stream."""
        label = self._label(graph)
        match event:
            case Progress():
                self._rows.labels(label).inc(event.n_rows)
                blocks = self._blocks.labels(label)
                for _ in range(event.n_blocks):
                    blocks.observe(event.block_seconds / event.n_blocks)
                if event.resparsify_seconds is not None:
                    self._resparsify.labels(label).observe(event.resparsify_seconds)
            case Committed():
                self._files.labels(label, "committed").inc(len(event.files))
                self._note_deletions(label, event.summary.newest)
            case Duplicate():
                self._files.labels(label, "duplicate").inc()
            case Quarantined():
                self._files.labels(label, "quarantined").inc()
            case Withheld():
                self._files.labels(label, "withheld").inc()
            case Retracted():
                self._files.labels(label, "retracted").inc(len(event.files))
                self._note_deletions(label, event.summary.newest)
            case Repaired():
                kind = "failed" if event.repair.has_failed else event.repair.kind
                self._repairs.labels(label, kind).inc()
                self._repair_seconds.labels(label).observe(event.seconds)

    def _note_deletions(self, label: str, newest: SnapshotMeta | None) -> None:
        """Set what the newest snapshot says of a window, and of deletes where there is a log."""
        if newest is None or label == OTHERS:
            return
        if newest.horizon is not None and newest.watermark is not None:
            self._expired_edges.labels(label).set(newest.n_expired)
            self._late_edges.labels(label).set(newest.n_late)
            self._horizon.labels(label).set(newest.horizon)
            self._watermark.labels(label).set(newest.watermark)
        if newest.damage is None:
            return
        self._live_edges.labels(label).set(newest.n_live or 0)
        self._deleted_edges.labels(label).set(newest.n_deleted or 0)
        self._damage_max.labels(label).set(newest.damage.largest)
        self._log_bytes.labels(label).set(newest.log_bytes or 0)

    def note_listing(self, graph: str, seconds: float | None) -> None:
        """Count a listing of a source; ``seconds`` is None when it failed."""
        label = self._label(graph)
        if seconds is None:
            self._listing_errors.labels(label).inc()
        else:
            self._listings.labels(label).observe(seconds)

    def note_failure(self, graph: str) -> None:
        """Count a pass over a graph that failed, through no fault of a file."""
        self._failures.labels(self._label(graph)).inc()

    def _label(self, graph: str) -> str:
        """The graph's name while there are few, so that the number of series stays bounded."""
        if graph not in self._labels and len(self._labels) >= MAX_GRAPHS:
            return OTHERS
        self._labels.add(graph)
        return graph


@contextmanager
def metrics_server(
    registry: CollectorRegistry, port: int | None, host: str, fault: Callable[[], str]
) -> Iterator[int | None]:
    """Serve a registry at ``http://host:port/metrics`` meanwhile; nothing where port is None.

    ``/healthz`` answers 200, or 503 with the reason from ``fault``. Yields the port. Raises an
    OSError when it is taken.
    """
    if port is None:
        yield None
        return
    server, thread = start_http_server(port, addr=host, registry=registry)
    server.set_app(_with_health(make_wsgi_app(registry), fault))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _with_health(metrics: "WSGIApplication", fault: Callable[[], str]) -> "WSGIApplication":
    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            return metrics(environ, start_response)
        reason = fault()
        status = "503 Service Unavailable" if reason else "200 OK"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [reason.encode()]

    return answer
