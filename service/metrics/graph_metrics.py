"""Prometheus metrics of graphs, as the database has them: one row, one expression of SQL."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, exists, func, select

from peewit.service.database.engine import Database
from peewit.service.database.tables import erasures, files, graphs, jobs, pushes, sources
from peewit.service.database.timestamps import now
from peewit.service.jobs.job import JobStatus
from peewit.service.live_sources.kinds import FILES
from peewit.service.metrics.metric_rows import MetricRow, RowCollector

MAX_GRAPHS: Final = 100
"""Graphs with their own label, the largest; the rest are added up as `OTHERS`."""

OTHERS: Final = "(others)"
"""No graph can have this name."""

_Figures = Mapping[str, Mapping[str, Any]]
"""By name of a graph and of a metric."""


def _of(table: Table, figure: ColumnElement[Any], *which: ColumnElement[bool]) -> Any:
    """A figure of rows of a graph; zero where there are none."""
    chosen = select(figure).select_from(table).where(table.c.graph_id == graphs.c.id, *which)
    return func.coalesce(chosen.scalar_subquery(), 0)


def _files(status: str) -> Any:
    return _of(files, func.count(), files.c.status == status)


def _solves(column: str) -> Any:
    is_done = (jobs.c.status == JobStatus.SUCCEEDED) & (jobs.c.kind == "solve")
    return _of(jobs, func.max(jobs.c[column]), is_done)


def _live_sources(column: str) -> Any:
    return _of(sources, func.sum(sources.c[column]), sources.c.kind != FILES, _IS_THERE)


def _erasures(*which: ColumnElement[bool]) -> Any:
    return _of(erasures, func.count(), erasures.c.status == "hidden", *which)


_IS_THERE: Final = sources.c.removed_at.is_(None)
_IS_PUSHED: Final = files.c.push_id.is_not(None)
_IS_READ: Final = exists().where(sources.c.id == files.c.source_id, _IS_THERE)
_WAITS: Final = (files.c.status == "pending") & (_IS_PUSHED | _IS_READ)
_FILE_BYTES: Final = _of(files, func.sum(files.c.size), _WAITS, ~_IS_PUSHED)
_BYTES: Final = _FILE_BYTES + graphs.c.pushed_bytes
_SINGLE_PUSHES: Final = _of(pushes, func.count(), pushes.c.file_id.is_(None))
_WAITING: Final = _of(files, func.count(), _WAITS) + _SINGLE_PUSHES
_FAILING: Final = _of(sources, func.count(), sources.c.error.is_not(None), _IS_THERE)
_SNAPSHOTS: Final = func.coalesce(graphs.c.snapshot, 0)


_FIGURES: Final[tuple[tuple[str, str, Any], ...]] = (
    ("peewit_edges_ingested_total", "Rows of committed files and pushes.", graphs.c.edges_seen),
    ("peewit_snapshots_total", "Snapshots published: the number of the newest.", _SNAPSHOTS),
    ("peewit_label_events_total", "Labels given and taken back: labels_seq.", graphs.c.labels_seq),
    ("peewit_predicted_snapshot", "Newest snapshot with predictions.", _solves("snapshot")),
    (
        "peewit_predicted_label_events",
        "Label events that the newest predictions know.",
        _solves("labels_seq"),
    ),
    ("peewit_kept_edges", "Edges of the newest snapshot.", graphs.c.edges_kept),
    ("peewit_backlog_bytes", "Bytes that wait for ingest.", _BYTES),
    ("peewit_backlog_files", "Files and single pushes that wait.", _WAITING),
    ("peewit_quarantined_files", "Files refused and not retried.", _files("quarantined")),
    ("peewit_retracting_files", "Files that wait to be retracted.", _files("retracting")),
    ("peewit_retracted_files", "Files retracted, or replaced by others.", _files("retracted")),
    ("peewit_failing_sources", "Sources that cannot be listed or read.", _FAILING),
    (
        "peewit_source_lag",
        "What live sources had and was not read at the last look, as versions of tables.",
        _live_sources("lag"),
    ),
    (
        "peewit_source_refusals",
        "What live sources had that was not taken.",
        _live_sources("n_refused"),
    ),
    ("peewit_waiting_erasures", "Erasures whose nodes files still hold.", _erasures()),
    (
        "peewit_late_erasures",
        "Those of them that should be done by now.",
        _erasures(erasures.c.erase_by < now()),
    ),
)
"""Metrics of one graph, or of several together: name, help, and its number of a graph."""


def _numbers(metric: str, figures: _Figures) -> Mapping[str, Any]:
    return {graph: each[metric] for graph, each in figures.items()}


_ROWS: Final = tuple(
    MetricRow(name, text, ("graph",), partial(_numbers, name)) for name, text, _ in _FIGURES
)


def graph_collector(database: Database) -> RowCollector[_Figures]:
    """Metrics of all graphs."""
    return RowCollector(_ROWS, partial(_read, database))


def _read(database: Database) -> _Figures:
    columns = [figure.label(name) for name, _, figure in _FIGURES]
    statement = select(graphs.c.name, *columns).where(graphs.c.state == "active")
    with database.read() as connection:
        figures: dict[str, Mapping[str, Any]] = {
            row.name: row._asdict() for row in connection.execute(statement)
        }
    size = "peewit_edges_ingested_total"
    by_size = sorted(figures, key=lambda name: (-figures[name][size], name))
    if len(by_size) <= MAX_GRAPHS:
        return figures
    rest = [figures[name] for name in by_size[MAX_GRAPHS:]]
    others = {row.name: sum(each[row.name] for each in rest) for row in _ROWS}
    return {name: figures[name] for name in by_size[:MAX_GRAPHS]} | {OTHERS: others}
