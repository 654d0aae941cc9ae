"""What the renewer's process does with its orders; end_to_end/test_deaf_holder has the process."""

import json
import os
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import select
from structlog.testing import capture_logs

from peewit.service.database.engine import open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.database.tables import leases
from peewit.service.database.timestamps import now
from peewit.service.ingest.lease_and_heartbeat_renewer import Keep, run


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


def test_it_ends_with_its_orders(database_url: str) -> None:
    run([])
    run([json.dumps({"url": database_url, "parent": os.getpid(), "logs": ["error", "console"]})])
