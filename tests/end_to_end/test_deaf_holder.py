"""A lease outlasts a call that keeps its holder's interpreter to itself, and no stopped holder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peewit.service.database.engine import open_database
from peewit.service.database.lease_keeper import LEASE_SECONDS, LeaseHeld, held_lease

pytestmark = pytest.mark.usefixtures("processes")

DEAF_SECONDS = LEASE_SECONDS + 4.0

HOLDER = """
import ctypes, sys, time
from peewit.service.database.engine import open_database
from peewit.service.database.lease_keeper import held_lease
from peewit.service.ingest.renewer import Renewer

database = open_database(sys.argv[1])
with (
    Renewer(database) as renewer,
    held_lease(database, "ingest:g", purpose="ingests this graph") as keeper,
    renewer.holding(keeper.lease),
):
    print("held", flush=True)
    sys.stdin.readline()
    ctypes.PyDLL(None).usleep(int(float(sys.argv[2]) * 1e6))  # keeps the interpreter's lock
    keeper.confirm()
    print("kept", flush=True)
"""


@contextmanager
def holder(database_url: str, deaf_seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease; it is deaf for so long from the first line it is sent."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, database_url, str(deaf_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        time.sleep(4.0)  # the renewer has a Python to start
        try:
            yield process
        finally:
            process.kill()


def test_nobody_takes_the_lease_of_a_holder_that_computes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'peewit.db'}"
    database = open_database(url)
    with holder(url, DEAF_SECONDS) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        until = time.monotonic() + DEAF_SECONDS - 0.5
        while time.monotonic() < until:
            with (
                pytest.raises(LeaseHeld),
                held_lease(database, "ingest:g", purpose="ingests this graph"),
            ):
                pass
            time.sleep(0.2)
        assert process.stdout.readline() == "kept\n"
    database.close()


def test_the_lease_of_a_stopped_holder_can_be_taken(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'peewit.db'}"
    database = open_database(url)
    with holder(url, 0.0) as process:
        os.kill(process.pid, signal.SIGSTOP)
        until = time.monotonic() + 10 * LEASE_SECONDS
        while True:
            try:
                with held_lease(database, "ingest:g", purpose="ingests this graph"):
                    break
            except LeaseHeld:
                assert time.monotonic() < until, "the lease did not run out"
                time.sleep(0.2)
    database.close()
