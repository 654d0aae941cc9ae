"""Prometheus metrics of the stores, which any process can read, and of ingest.

What is in the database (edges, backlog, labels, snapshots; jobs by
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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import and_, exists, func, select

from peewit.service.database.engine import Database
from peewit.service.database.tables import erasures, files, graphs, jobs, pushes, sources
from peewit.service.database.timestamps import now
from peewit.service.jobs.ingest_steps import IngestStep, IngestSteps
from peewit.service.jobs.job import JobStatus
from peewit.service.live_sources.kinds import FILES
from peewit.service.metrics.job_metrics import JobCollector
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
from peewit.streaming.snapshots.store import SnapshotMeta

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MAX_GRAPHS: Final = 100
"""Graphs with their own label, the largest; the rest are added up as `OTHERS`."""

OTHERS: Final = "(others)"
NO_GRAPH: Final = "(none)"
"""No graph can have these names."""

_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


_COUNTED: Final = ("quarantined", "retracting", "retracted")
"""Statuses of files with a metric each."""

_Family = CounterMetricFamily | GaugeMetricFamily

_PER_GRAPH: Final[Mapping[str, tuple[type[_Family], str]]] = {
    "peewit_edges_ingested": (CounterMetricFamily, "Rows of committed files and pushes."),
    "peewit_snapshots": (CounterMetricFamily, "Snapshots published: the number of the newest."),
    "peewit_label_events": (CounterMetricFamily, "Labels given and taken back: labels_seq."),
    "peewit_predicted_snapshot": (GaugeMetricFamily, "Newest snapshot with predictions."),
    "peewit_predicted_label_events": (
        GaugeMetricFamily,
        "Label events that the newest predictions know.",
    ),
    "peewit_kept_edges": (GaugeMetricFamily, "Edges of the newest snapshot."),
    "peewit_backlog_bytes": (GaugeMetricFamily, "Bytes that wait for ingest."),
    "peewit_backlog_files": (GaugeMetricFamily, "Files and single pushes that wait."),
    "peewit_quarantined_files": (GaugeMetricFamily, "Files refused and not retried."),
    "peewit_retracting_files": (GaugeMetricFamily, "Files that wait to be retracted."),
    "peewit_retracted_files": (GaugeMetricFamily, "Files retracted, or replaced by others."),
    "peewit_failing_sources": (GaugeMetricFamily, "Sources that cannot be listed or read."),
    "peewit_source_lag": (
        GaugeMetricFamily,
        "What live sources had and was not read at the last look, as versions of tables.",
    ),
    "peewit_source_refusals": (GaugeMetricFamily, "What live sources had that was not taken."),
    "peewit_waiting_erasures": (GaugeMetricFamily, "Erasures whose nodes files still hold."),
    "peewit_late_erasures": (GaugeMetricFamily, "Those of them that should be done by now."),
}
"""Metrics of one graph, or of several together: by name, with type and meaning."""

_Figures = Mapping[str, int]
"""A number for each of `_PER_GRAPH`."""


class StoreCollector(Collector):
    """Metrics of all graphs, read from the database at each scrape."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterable[Metric]:
        """The metrics without numbers: the database is not asked before a scrape."""
        return _families({})

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        return _families(_largest_graphs(self._figures()))

    def _figures(self) -> dict[str, _Figures]:
        is_pushed = files.c.push_id.is_not(None)
        is_read = exists().where(sources.c.id == files.c.source_id, sources.c.removed_at.is_(None))
        waiting = and_(files.c.status == "pending", is_pushed | is_read)
        counted = (
            select(
                files.c.graph_id,
                func.count().filter(waiting).label("n_files"),
                func.sum(files.c.size).filter(waiting, ~is_pushed).label("n_bytes"),
                *(
                    func.count().filter(files.c.status == status).label(f"n_{status}")
                    for status in _COUNTED
                ),
            )
            .where(files.c.status.in_(("pending", *_COUNTED)))
            .group_by(files.c.graph_id)
        )
        single = (
            select(pushes.c.graph_id, func.count().label("n_pushes"))
            .where(pushes.c.file_id.is_(None))
            .group_by(pushes.c.graph_id)
        )
        failing = (
            select(sources.c.graph_id, func.count().label("n_sources"))
            .where(sources.c.error.is_not(None), sources.c.removed_at.is_(None))
            .group_by(sources.c.graph_id)
        )
        live = (
            select(
                sources.c.graph_id,
                func.sum(sources.c.lag).label("lag"),
                func.sum(sources.c.n_refused).label("n_refused"),
            )
            .where(sources.c.kind != FILES, sources.c.removed_at.is_(None))
            .group_by(sources.c.graph_id)
        )
        solved = (
            select(
                jobs.c.graph_id,
                func.max(jobs.c.snapshot).label("snapshot"),
                func.max(jobs.c.labels_seq).label("labels_seq"),
            )
            .where(jobs.c.status == JobStatus.SUCCEEDED, jobs.c.kind == "solve")
            .group_by(jobs.c.graph_id)
        )
        late = func.count().filter(erasures.c.erase_by < now())
        erasing = (
            select(erasures.c.graph_id, func.count().label("n_all"), late.label("n_late"))
            .where(erasures.c.status == "hidden")
            .group_by(erasures.c.graph_id)
        )
        with self._database.read() as connection:
            known = connection.execute(select(graphs).where(graphs.c.state == "active")).all()
            of_files = {row.graph_id: row for row in connection.execute(counted)}
            of_pushes = {row.graph_id: row.n_pushes for row in connection.execute(single)}
            of_sources = {row.graph_id: row.n_sources for row in connection.execute(failing)}
            of_live = {row.graph_id: row for row in connection.execute(live)}
            of_solves = {row.graph_id: row for row in connection.execute(solved)}
            of_erasures = {row.graph_id: row for row in connection.execute(erasing)}
        figures: dict[str, _Figures] = {}
        for graph in known:
            found = of_files.get(graph.id)
            answered = of_solves.get(graph.id)
            read = of_live.get(graph.id)
            waiting_erasures = of_erasures.get(graph.id)
            n_bytes = int((found.n_bytes if found else 0) or 0)
            figures[graph.name] = {
                "peewit_edges_ingested": graph.edges_seen,
                "peewit_snapshots": graph.snapshot or 0,
                "peewit_label_events": graph.labels_seq,
                "peewit_predicted_snapshot": answered.snapshot if answered else 0,
                "peewit_predicted_label_events": answered.labels_seq if answered else 0,
                "peewit_kept_edges": graph.edges_kept,
                "peewit_backlog_bytes": n_bytes + graph.pushed_bytes,
                "peewit_backlog_files": (found.n_files if found else 0)
                + of_pushes.get(graph.id, 0),
                **{
                    f"peewit_{status}_files": getattr(found, f"n_{status}") if found else 0
                    for status in _COUNTED
                },
                "peewit_failing_sources": of_sources.get(graph.id, 0),
                "peewit_source_lag": int((read.lag if read else 0) or 0),
                "peewit_source_refusals": int(read.n_refused) if read else 0,
                "peewit_waiting_erasures": waiting_erasures.n_all if waiting_erasures else 0,
                "peewit_late_erasures": waiting_erasures.n_late if waiting_erasures else 0,
            }
        return figures


def _largest_graphs(figures: dict[str, _Figures]) -> dict[str, _Figures]:
    if len(figures) <= MAX_GRAPHS:
        return figures
    by_size = sorted(figures, key=lambda name: (-figures[name]["peewit_edges_ingested"], name))
    rest = [figures[name] for name in by_size[MAX_GRAPHS:]]
    others = {metric: sum(each[metric] for each in rest) for metric in _PER_GRAPH}
    return {name: figures[name] for name in by_size[:MAX_GRAPHS]} | {OTHERS: others}


def _families(figures: dict[str, _Figures]) -> Sequence[Metric]:
    families = []
    for metric, (kind, text) in _PER_GRAPH.items():
        made = kind(metric, text, labels=["graph"])
        for name, each in figures.items():
            made.add_metric([name], each[metric])
        families.append(made)
    return families


class _StepCollector(Collector):
    """The steps of all ingest processes, and how long each has made no progress."""

    def __init__(self, database: Database, stall_seconds: float) -> None:
        self._steps = IngestSteps(database)
        self._stall_seconds = stall_seconds

    def describe(self) -> Iterable[Metric]:
        """The metrics without numbers."""
        return self._families([])

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        return self._families(self._steps.present())

    def _families(self, steps: Sequence[IngestStep]) -> Sequence[Metric]:
        of_graph: dict[str, list[IngestStep]] = {}
        for step in steps:
            of_graph.setdefault(step.graph or NO_GRAPH, []).append(step)
        lasting = GaugeMetricFamily(
            "peewit_ingest_step_seconds",
            "How long the longest of the present steps of ingest lasts.",
            labels=["graph"],
        )
        quiet = GaugeMetricFamily(
            "peewit_ingest_quiet_seconds",
            "For how long one of them has neither made progress nor used the processor.",
            labels=["graph"],
        )
        stuck = GaugeMetricFamily(
            "peewit_ingest_stuck_steps",
            "Those of them that have stood still for PEEWIT_STALL_SECONDS.",
            labels=["graph"],
        )
        for name, some in of_graph.items():
            lasting.add_metric([name], max(step.step_seconds for step in some))
            quiet.add_metric([name], max(step.quiet_seconds for step in some))
            stuck.add_metric([name], sum(step.is_stuck(self._stall_seconds) for step in some))
        return [lasting, quiet, stuck]


class _SettingsCollector(Collector):
    """Constants: the version, and how much may wait."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        limit = GaugeMetricFamily(
            "peewit_backlog_limit_bytes",
            "Pushed bytes that may wait, of one graph and of all together.",
            labels=["of"],
        )
        limit.add_metric(["graph"], self._settings.max_backlog_bytes)
        limit.add_metric(["all"], self._settings.max_total_backlog_bytes)
        info = InfoMetricFamily("peewit", "What runs here.")
        info.add_metric([], {"version": version("peewit")})
        return [info, limit]


def store_registry(
    database: Database, settings: Settings, kinds: Collection[str]
) -> CollectorRegistry:
    """Metrics of the stores, which any process can show; ``kinds`` of job appear in any case."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(database))
    registry.register(JobCollector(database, kinds))
    registry.register(_StepCollector(database, settings.stall_seconds))
    registry.register(_SettingsCollector(settings))
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
