"""Readiness of this process: database in its present schema, writable home, no stop asked for.

If ingest stands still or a source fails the process stays ready: it still serves reads, labels and
pushes, and other API processes would be no better off. This is told as a degradation, with status
200, so that no load balancer takes the server away from readers.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from peewit.service.api.draining import Stopping
from peewit.service.database.engine import Database
from peewit.service.database.migrations import DatabaseVersionError, require_present
from peewit.service.jobs.ingest_steps import IngestFault, IngestSteps
from peewit.service.settings import Settings
from peewit.streaming.problems import Problem


class NotReady(Problem, RuntimeError):
    """Something that every request needs is out of order."""

    status = 503
    title = "Not ready"


def require_ready(settings: Settings, database: Database, stopping: Stopping) -> None:
    """Raise `NotReady` with the first thing that is out of order."""
    if stopping:
        raise NotReady(
            "the server must be running, it is about to stop; send requests to another one"
        )
    with _not_ready("the database must answer, in the schema of this version"):
        require_present(database.read)
    with (
        _not_ready("PEEWIT_HOME must be writable"),
        tempfile.TemporaryFile(dir=settings.home) as file,
    ):
        file.write(b"0")
    free_bytes = shutil.disk_usage(settings.home).free
    if free_bytes < settings.min_free_bytes:
        raise NotReady(
            f"PEEWIT_HOME must have {settings.min_free_bytes} bytes free, got {free_bytes}; make "
            "room or lower PEEWIT_MIN_FREE_BYTES"
        )


def ingest_faults(settings: Settings, database: Database) -> list[IngestFault]:
    """What of ingest stands still or fails, which leaves this process ready."""
    with _not_ready("the database must answer, in the schema of this version"):
        return IngestSteps(database).faults(settings.stall_seconds)


@contextmanager
def _not_ready(rule: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, DatabaseVersionError, OSError) as error:
        raise NotReady(f"{rule}, got {type(error).__name__}; the server's log says more") from error
