"""`peewit health ingest`: well, slow, stuck, and with sources that fail."""

from pathlib import Path
from socket import gethostname

import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow
from peewit.service.settings import Settings
from tests.service.cli.conftest import Peewit


@pytest.fixture
def database(home: Path, peewit: Peewit) -> Database:
    assert peewit("graph", "create", "g").exit_code == 0
    return open_database(Settings(home=home).database)


def store(database: Database, host: str, *, quiet_seconds: float, step: str = "reading") -> str:
    """What an ingest of that host does; returns the id of the source that it reads."""
    graph_id = Catalog(database).get("g").id
    source = Manifest(database).sources.add(graph_id, "/edges", follow=True)
    values = {"key": "", "graph_id": graph_id, "source_id": source.id, "file": None}
    now = StepNow(**values, step=step, step_seconds=300.0, quiet_seconds=quiet_seconds)
    IngestSteps(database).store(f"ingest:{host}:1:a", [now])
    return source.id


def test_ingest_that_is_not_there_is_not_well(peewit: Peewit, database: Database) -> None:
    store(database, "elsewhere", quiet_seconds=0.0)
    told = peewit("health", "ingest")
    assert (told.exit_code, "no fresh heartbeat" in told.err) == (1, True)
    database.close()


def test_slow_work_is_told_and_well(peewit: Peewit, database: Database) -> None:
    store(database, gethostname(), quiet_seconds=3.0, step="thinning")
    told = peewit("health", "ingest")
    assert told.exit_code == 0
    assert told.err == "peewit: graph g: thinning for 5 min\n"
    database.close()


def test_work_that_stands_still_is_told_with_graph_source_and_time(
    peewit: Peewit, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(database, gethostname(), quiet_seconds=50.0)
    told = peewit("health", "ingest")
    assert told.exit_code == 1
    assert "graph g, source /edges: reading: no progress for 50 s" in told.err
    monkeypatch.setenv("PEEWIT_STALL_SECONDS", "60")
    assert peewit("health", "ingest").exit_code == 0
    database.close()


def test_a_source_that_fails_is_told_and_leaves_ingest_well(
    peewit: Peewit, database: Database
) -> None:
    """A new start, which exit code 1 leads to, would not mend it."""
    source_id = store(database, gethostname(), quiet_seconds=0.0)
    Manifest(database).sources.note_listing(source_id, error="PermissionError: denied")
    told = peewit("health", "ingest")
    assert told.exit_code == 0
    assert "graph g, source /edges: listing or reading has failed for" in told.err
    assert "PermissionError: denied" in told.err
    database.close()
