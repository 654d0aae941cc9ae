"""Jobs and estimates of jobs, and how results of solves are put in words."""

from datetime import datetime
from typing import Any, Literal

from peewit.service.wire.records import Ongoing, described, record
from peewit.service.wire.solve_lines import solve_lines, warning_text
from peewit.solvers.notebook_html import progress, shown

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


@record
class Job(Ongoing):
    """A job at this moment."""

    id: str
    graph_id: str
    kind: str
    model: str | None
    parameters: dict[str, Any]
    lane: Literal["fast", "heavy"] = described("Quick solves do not wait behind long work.")
    priority: int
    status: JobStatus
    phase: str | None = described("What it is doing.")
    progress: float | None = described("Part of the whole job that is done, in [0, 1].")
    expected_end_at: datetime | None = described(
        "By its pace and the last equal job; null where neither tells."
    )
    cancel_requested: bool
    attempt: int
    max_attempts: int | None = described(
        "That may end with their process before the job fails.", default=None
    )
    worker_id: str | None = described("Who runs it, or ran it last.", default=None)
    owner: str | None = described("Prefix of the key that asked for it.", default=None)
    idempotency_key: str | None
    snapshot: int | None = described("What it works on, as the two that follow.")
    labels_seq: int | None
    features_version: int | None
    result: dict[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_final(self) -> bool:
        """True when the job never changes again."""
        return self.status not in {"queued", "running"}

    @property
    def is_settled(self) -> bool:
        """The same, for whoever waits for it."""
        return self.is_final

    @property
    def lines(self) -> list[str]:
        """What is to be known first of the answer of a solve, see `solve_lines`; else nothing."""
        return [] if self.result is None else solve_lines(self.result, **self._where)

    @property
    def _where(self) -> dict[str, Any]:
        """Where a program reads it, for `solve_lines` and `warning_text`."""
        return {"label_column": self.parameters.get("label_column") or "", "door": "python"}

    def _repr_html_(self) -> str:
        """What a notebook shows of it: facts, and a bar of how far it is."""
        facts = {
            "status": self.status,
            "model": self.model,
            "phase": self.phase,
            "snapshot": self.snapshot,
            "labels_seq": self.labels_seq,
            **{f"to know, {place}": line for place, line in enumerate(self.lines, 1)},
            "warning": warning_text(self.result or {}, **self._where),
            "error": self.error,
        }
        page = shown(f"Job {self.id}", {name: each for name, each in facts.items() if each})
        done = 1.0 if self.is_final else self.progress
        return page + progress(done, self.phase or self.status)


@record
class JobList:
    """Some jobs, newest first."""

    jobs: list[Job]
    next_page: str | None = described("For ?page=; null on the last one.")


@record
class Estimate:
    """What a solve on the newest snapshot and the present features would take."""

    model: str
    input: str = described("graph, features, or what serves in their place.")
    snapshot: int
    features_version: int = described("0 where no features are used.")
    n_nodes: int
    n_edges: int
    n_points: int | None = described("Nodes that take part, for models of points.")
    n_features: int | None = described("Numbers of each.")
    gram: str | None = described("Form of the Gram matrix; null where none fits.")
    precision: str | None
    gram_bytes: int | None = described("Memory of it and of what is factored.")
    n_bytes: int | None = described("Memory of the process, at most about; null as gram is.")
    limit_bytes: int = described("What it may take.")
    fits: bool = described("Whether the job would be taken.")
    message: str | None = described("Why not, or why perhaps not, and what would do.")
    seconds: float | None = described("What the last equal job took; null where there was none.")
    seconds_job: str | None = described("That job.")
    seconds_snapshot: int | None = described("What it solved.")
