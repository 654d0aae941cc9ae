"""What the renewer's process does with its orders; end_to_end/test_deaf_holder has the process."""

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import psutil
import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from peewit.service.database.engine import open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.database.tables import ingest_steps, leases
from peewit.service.database.timestamps import now
from peewit.service.ingest import lease_and_heartbeat_renewer
from peewit.service.ingest.lease_and_heartbeat_renewer import Keep, Renewer, run
from peewit.service.jobs.ingest_steps import IngestSteps
from tests.end_to_end.processes import eventually


def test_a_database_that_is_away_is_told_and_waited_for(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    away = Keep(f"sqlite:///{blocked}/peewit.db", os.getpid())
    with capture_logs() as logs:
        away.renew()
    assert [(line["event"], line["log_level"]) for line in logs] == [("nothing renewed", "warning")]
    blocked.unlink()
    with capture_logs() as logs:
        away.renew()
    assert logs == []
    away.close()


def test_what_is_held_is_renewed_until_it_is_dropped_or_taken(database_url: str) -> None:
    database = open_database(database_url)
    store = LeaseStore(database)

    def left(name: str) -> bool:
        with database.read() as connection:
            column = leases.c.expires_at > now(60.0)
            return bool(connection.execute(select(column).where(leases.c.name == name)).scalar())

    def short(name: str) -> dict:
        lease = store.acquire(name, "me", 1.0)
        assert lease is not None
        return asdict(lease) | {"ttl_seconds": 600.0}

    keep = Keep(database_url, os.getpid())
    kept, dropped, taken = short("kept"), short("dropped"), short("taken")
    for lease in (kept, dropped, taken):
        keep.obey({"hold": lease})
    keep.obey({"drop": "dropped"})
    with database.write() as connection:
        connection.execute(leases.update().where(leases.c.name == "taken").values(token=9))
    keep.renew()
    assert [left("kept"), left("dropped"), left("taken")] == [True, False, False]
    keep.close()
    database.close()


def test_steps_are_stored_as_told_and_forgotten_as_they_end(database_url: str) -> None:
    database = open_database(database_url)
    keep = Keep(database_url, os.getpid(), "ingest:me")
    begin = {"graph_id": "g", "source_id": None, "file": None, "threads": [], "since": monotonic()}
    keep.obey({"begin": begin | {"key": "", "step": "thinning"}})
    keep.obey({"begin": begin | {"key": "s", "step": "listing", "source_id": "s"}})
    keep.renew()
    found = IngestSteps(database).present()
    assert {(each.process, each.key, each.step) for each in found} == {
        ("ingest:me", "", "thinning"),
        ("ingest:me", "s", "listing"),
    }
    keep.obey({"begin": begin | {"key": "", "step": "reading", "file": "a.csv"}})
    keep.obey({"end": "s"})
    keep.renew()
    (present,) = IngestSteps(database).present()
    assert (present.step, present.file) == ("reading", "a.csv")
    keep.obey({"end": ""})
    keep.renew()
    assert IngestSteps(database).present() == []
    keep.close()
    database.close()


@pytest.mark.usefixtures("processes")
def test_a_renewer_that_was_killed_is_started_again_and_knows_what_stands(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may kill it for want of memory, before the long factorisation."""
    monkeypatch.setattr(lease_and_heartbeat_renewer, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(lease_and_heartbeat_renewer, "PROGRESS_SECONDS", 0.0)
    database = open_database(database_url)
    store = IngestSteps(database)
    lease = LeaseStore(database).acquire("ingest:g", "me", 30.0)
    assert lease is not None
    values = {"graph_id": "g", "source_id": None, "step": "thinning", "file": None}
    with Renewer(database) as renewer, renewer.holding(lease):
        renewer.begin("", **values)
        eventually(lambda: bool(store.present()))
        for child in psutil.Process().children():
            with suppress(psutil.ZombieProcess):  # some other test's
                if "lease_and_heartbeat_renewer" in " ".join(child.cmdline()):
                    child.kill()
                    child.wait()
        with database.write() as connection:
            connection.execute(ingest_steps.delete())
            connection.execute(leases.update().values(expires_at=now(5.0)))

        def is_kept_up() -> bool:
            renewer.begin("", **values)  # as the work goes on
            with database.read() as connection:
                is_renewed = select(leases.c.expires_at > now(20.0))
                return bool(store.present()) and bool(connection.execute(is_renewed).scalar())

        eventually(is_kept_up, pause_seconds=0.2)
    database.close()


@pytest.mark.usefixtures("processes")
def test_what_ends_soon_starts_no_renewer(database_url: str) -> None:
    database = open_database(database_url)
    before = len(psutil.Process().children())
    with Renewer(database, delay_seconds=60.0) as renewer:
        renewer.begin("", graph_id="g", source_id=None, step="reading", file=None)
        assert len(psutil.Process().children()) == before
        renewer.start()
        eventually(lambda: bool(IngestSteps(database).present()))
    database.close()


@pytest.mark.usefixtures("processes")
def test_a_daemon_has_one_only_while_a_lease_is_held_or_a_step_lasts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(database_url)
    store = IngestSteps(database)
    lease = LeaseStore(database).acquire("ingest:g", "me", 30.0)
    assert lease is not None
    n_before = len(psutil.Process().children())

    def n_started() -> int:
        return len(psutil.Process().children()) - n_before

    with Renewer(database, delay_seconds=None) as renewer:
        renewer.begin("", graph_id="g", source_id=None, step="listing", file=None)
        renewer.tend()
        assert n_started() == 0
        monkeypatch.setattr(lease_and_heartbeat_renewer, "LASTING_SECONDS", 0.0)
        renewer.tend()
        assert n_started() == 1
        eventually(lambda: bool(store.present()))
        renewer.end("")
        monkeypatch.setattr(lease_and_heartbeat_renewer, "IDLE_SECONDS", 0.0)
        renewer.tend()
        assert n_started() == 0
        with renewer.holding(lease):
            assert n_started() == 1
            renewer.tend()
            assert n_started() == 1
        renewer.tend()
        assert n_started() == 0
    database.close()


def test_it_ends_with_its_orders(database_url: str) -> None:
    run([])
    run(
        [
            json.dumps(
                {
                    "url": database_url,
                    "parent": os.getpid(),
                    "name": "i",
                    "logs": ["error", "console"],
                }
            )
        ]
    )
