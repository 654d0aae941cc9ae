"""A lease outlasts a call that keeps its holder's interpreter to itself, and no stopped holder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from peewit.service.database.engine import Database, open_database
from peewit.service.database.lease_keeper import LEASE_SECONDS, LeaseHeld, held_lease
from peewit.service.database.tables import workers
from tests.end_to_end.processes import eventually

pytestmark = pytest.mark.usefixtures("processes")

DEAF_SECONDS = LEASE_SECONDS + 4.0

HOLDER = """
import ctypes, sys
from peewit.service.database.engine import open_database
from peewit.service.database.lease_keeper import held_lease
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.service.jobs.worker_registry import WorkerRegistry

url, deaf_seconds, has_renewer = sys.argv[1:]
database = open_database(url)
WorkerRegistry(database).register("holder", ())
with (
    Renewer(database) as renewer,
    held_lease(database, "ingest:g", purpose="ingests this graph") as keeper,
):
    if has_renewer == "True":
        hold = renewer.holding(keeper.lease)
        hold.__enter__()
    renewer.beat_for("holder")
    print("held", flush=True)
    sys.stdin.readline()
    ctypes.PyDLL(None).usleep(int(float(deaf_seconds) * 1e6))  # keeps the interpreter's lock
    keeper.confirm()
    print("kept", flush=True)
"""


@contextmanager
def holder(
    database: Database, deaf_seconds: float, *, has_renewer: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease; it is deaf for so long from the first line it is sent."""
    url = database.engine.url.render_as_string(hide_password=False)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, url, str(deaf_seconds), str(has_renewer)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        registered = beaten_at(database)
        eventually(lambda: beaten_at(database) > registered)  # the renewer's Python has started
        try:
            yield process
        finally:
            process.kill()


def beaten_at(database: Database) -> object:
    with database.read() as connection:
        return connection.execute(select(workers.c.heartbeat_at)).scalar_one()


def is_free(database: Database) -> bool:
    """Whether the lease can be taken; it is given back."""
    try:
        with held_lease(database, "ingest:g", purpose="ingests this graph"):
            return True
    except LeaseHeld:
        return False


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.mark.parametrize("has_renewer", [True, False])
def test_nobody_takes_the_lease_of_a_holder_that_computes(
    database: Database, has_renewer: bool
) -> None:
    """But for one without a renewer: its lease is taken."""
    with holder(database, DEAF_SECONDS, has_renewer=has_renewer) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        until = time.monotonic() + DEAF_SECONDS - 0.5
        was_free = False
        while time.monotonic() < until and not was_free:
            was_free = is_free(database)
            time.sleep(0.2)
        assert was_free is not has_renewer
        assert process.stdout.readline() == ("kept\n" if has_renewer else "")


def test_the_lease_of_a_stopped_holder_can_be_taken(database: Database) -> None:
    with holder(database, 0.0) as process:
        os.kill(process.pid, signal.SIGSTOP)
        eventually(lambda: is_free(database), seconds=10 * LEASE_SECONDS)
