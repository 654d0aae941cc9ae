"""What every ingesting process does at the moment, and which of it stands still or fails.

The renewer of a process writes its rows every few seconds, see `peewit.service.ingest.step_watch`.
Rows count while they are fresh: a missing heartbeat tells that a process has ended.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Final, Self

from sqlalchemy import Row, and_, delete, insert, or_, select, true

from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs, ingest_steps, sources
from peewit.service.database.timestamps import now
from peewit.service.jobs.worker_registry import SILENT_AFTER_SECONDS
from peewit.service.redaction import redacted, shown_url
from peewit.solvers.late_modules import LateModule
from peewit.streaming.edges.windows import FOR_EVER

provenance: Final = LateModule("peewit.streaming.snapshots.provenance")

_FORGOTTEN_AFTER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNow:
    """One step of one process, as its renewer stores it."""

    key: str  # within the process: id of a source that is listed, empty for work on graphs
    graph_id: str | None
    source_id: str | None
    step: str  # such as thinning
    file: str | None  # that is worked on
    step_seconds: float  # since the step began
    quiet_seconds: float  # without progress or use of the processor


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestStep(StepNow):
    """A step with the names that people know."""

    process: str  # role, host, process number and a random part
    graph: str | None  # name
    url: str | None  # of the source, without passwords

    @classmethod
    def of(cls, row: Row[tuple[object, ...]]) -> Self:
        """The step of a joined row."""
        values = row._asdict()
        del values["seen_at"]
        for name in ("url", "file"):
            if values[name] is not None:
                values[name] = shown_url(values[name])
        return cls(**values)

    def is_stuck(self, stall_seconds: float) -> bool:
        """Whether it has stood still for so long."""
        return self.quiet_seconds >= stall_seconds

    def doing(self, stall_seconds: float) -> str:
        """What is done and for how long, in words."""
        done = self.step if self.file is None else f"{self.step}, {self.file}"
        if self.is_stuck(stall_seconds):
            return f"{done}: no progress for {duration(self.quiet_seconds)}"
        return f"{done} for {duration(self.step_seconds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestFault:
    """Something of ingest that stands still, or a source or graph where something fails."""

    graph: str | None  # name
    source_id: str | None
    url: str | None
    doing: str
    seconds: float | None  # since the last progress or listing of the source; None of graphs
    error: str | None  # why it fails; None where something stands still
    process: str | None  # that stands still

    def __str__(self) -> str:
        """One line for people."""
        place = "ingest" if self.graph is None else f"graph {self.graph}"
        if self.url is not None:
            place += f", source {self.url}"
        since = "" if self.seconds is None else f" for {duration(self.seconds)}"
        if self.error is not None:
            return f"{place}: {self.doing} has failed{since}: {self.error}"
        return f"{place}: {self.doing}: no progress{since}"


class IngestSteps:
    """The table of steps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def store(self, process: str, steps: Collection[StepNow]) -> None:
        """Replace the steps of a process, and forget old ones of others."""
        old = ingest_steps.c.seen_at < now(-_FORGOTTEN_AFTER_SECONDS)
        with self._database.write() as connection:
            connection.execute(
                delete(ingest_steps).where(or_(ingest_steps.c.process == process, old))
            )
            if steps:
                rows = [{"process": process, **asdict(step)} for step in steps]
                connection.execute(insert(ingest_steps), rows)

    def present(self, graph_id: str | None = None) -> list[IngestStep]:
        """Steps under way, of one graph or of all; the longest first."""
        mine = true() if graph_id is None else ingest_steps.c.graph_id == graph_id
        statement = (
            select(ingest_steps, graphs.c.name.label("graph"), sources.c.url)
            .outerjoin(graphs, graphs.c.id == ingest_steps.c.graph_id)
            .outerjoin(sources, sources.c.id == ingest_steps.c.source_id)
            .where(mine, ingest_steps.c.seen_at >= now(-SILENT_AFTER_SECONDS))
            .order_by(ingest_steps.c.step_seconds.desc())
        )
        with self._database.read() as connection:
            return [IngestStep.of(row) for row in connection.execute(statement)]

    def faults(self, stall_seconds: float) -> list[IngestFault]:
        """What has stood still for so long, and sources and graphs where something fails.

        That is sources whose last listing or reading failed, and graphs that could not be thinned
        or read again. Work that reports itself as slow is none, see
        `peewit.service.ingest.step_watch`.
        """
        stuck = [
            IngestFault(
                graph=step.graph,
                source_id=step.source_id,
                url=step.url,
                doing=step.step if step.file is None else f"{step.step}, {step.file}",
                seconds=step.quiet_seconds,
                error=None,
                process=step.process,
            )
            for step in self.present()
            if step.is_stuck(stall_seconds)
        ]
        ids = {fault.source_id for fault in stuck}  # a listing that stands still is an error too
        failing = [fault for fault in self._failing_sources() if fault.source_id not in ids]
        return [*stuck, *failing, *self.failing_graphs()]

    def failing_graphs(self) -> list[IngestFault]:
        """Graphs that could not be thinned or read again, or whose clock is in doubt."""
        has_failed = or_(
            graphs.c.n_failed_embeddings > 0,
            graphs.c.repair_fault.is_not(None),
            graphs.c.arrivals_fault.is_not(None),
        )
        statement = (
            select(graphs).where(graphs.c.state == "active", has_failed).order_by(graphs.c.name)
        )
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        ids = []
        for row in rows:
            causes = {
                "reading edges again": row.repair_fault,
                "taking edges by their arrival": row.arrivals_fault,
                "thinning": provenance.failed_thinnings_text(row.n_failed_embeddings),
            }
            ids += [
                IngestFault(
                    graph=row.name,
                    source_id=None,
                    url=None,
                    doing=doing,
                    seconds=None,
                    error=redacted(error),
                    process=None,
                )
                for doing, error in causes.items()
                if error
            ]
        return ids

    def _failing_sources(self) -> list[IngestFault]:
        failing = and_(
            sources.c.error.is_not(None), sources.c.removed_at.is_(None), graphs.c.state == "active"
        )
        statement = (
            select(sources, graphs.c.name.label("graph"), now().label("present"))
            .join(graphs)
            .where(failing)
            .order_by(graphs.c.name, sources.c.url)
        )
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        return [
            IngestFault(
                graph=row.graph,
                source_id=row.id,
                url=shown_url(row.url),
                doing="listing or reading",
                seconds=(row.present - (row.listed_at or row.created_at)).total_seconds(),
                error=redacted(row.error),
                process=None,
            )
            for row in rows
        ]


def duration(seconds: float) -> str:
    """Seconds as people write them: 52 s, 3 min, 2.5 h, 30 d."""
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    if seconds < 7200.0:
        return f"{seconds / 60.0:.0f} min"
    if seconds < 172_800.0:
        return f"{seconds / 3600.0:.1f} h"
    return f"{seconds / 86_400.0:.4g} d"


def length_text(length: float | None) -> str:
    """How long edges live, as people write it: a duration, or none for ever."""
    return FOR_EVER if length is None else duration(length)
