"""Spans of one attempt at a job: the time in the queue, the stages in the child, the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peewit.service.jobs.job import Job
from peewit.service.tracing.spans import Stages, note_span, span, stages


class AttemptSpan:
    """The span of an attempt with its ``stages``, or nothing while tracing is off."""

    def __init__(self, opened: Any, stages: Stages) -> None:
        self.stages = stages
        self._opened = opened

    def note_outcome(self, outcome: str) -> None:
        """Set the outcome; a failure's text is left out, as it may hold labels."""
        if self._opened is not None:
            self._opened.set(job_outcome=outcome)
            if outcome == "failed":
                self._opened.fail(outcome)


@contextmanager
def attempt_span(job: Job) -> Iterator[AttemptSpan]:
    """A span of an attempt below what led to the job; the first one begins in the queue.

    Times of the queue are by the database's clock.
    """
    is_first = job.attempt == 1 and job.started_at is not None
    with span(
        f"job {job.kind}",
        parent=job.traceparent,
        since=job.created_at if is_first else None,
        job_id=job.id,
        job_attempt=job.attempt,
        graph_id=job.graph_id,
        **({} if job.model is None else {"model": job.model}),
    ) as opened:
        if is_first and job.started_at is not None:
            note_span("queued", job.created_at, job.started_at)
        with stages() as begun:
            yield AttemptSpan(opened, begun)
