"""Transactions, clock and migrations of the database, on SQLite and on PostgreSQL."""

import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import insert, inspect, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from peewit.service.database.engine import Database, open_database, refuse_network_file_system
from peewit.service.database.tables import graphs, keys, leases, metadata, sources, workers
from peewit.service.database.timestamps import now
from tests.service.database.schema import schema_differences


def add_worker(database: Database, name: str) -> None:
    with database.write() as connection:
        connection.execute(insert(workers).values(id=name, lanes=["fast"]))


def worker_names(database: Database) -> list[str]:
    with database.read() as connection:
        return list(connection.execute(select(workers.c.id).order_by(workers.c.id)).scalars())


@pytest.fixture
def made(empty_database_url: str) -> Iterator[Database]:
    """A database that the test opens first."""
    database = open_database(empty_database_url)
    yield database
    database.close()


def test_the_made_schema_equals_the_tables(made: Database) -> None:
    with made.read() as connection:
        assert schema_differences(connection) == []


def test_the_made_indexes_and_checks_equal_those_of_the_tables(made: Database) -> None:
    """Compares what alembic's comparison passes over: conditions of indexes, and checks."""

    def described(of: Database) -> str:
        inspector = inspect(of.engine)
        rules = {
            name: [
                inspector.get_check_constraints(name),
                sorted(inspector.get_indexes(name), key=lambda index: index["name"] or ""),
                sorted(inspector.get_foreign_keys(name), key=lambda key: key["name"] or ""),
            ]
            for name in metadata.tables
        }
        return json.dumps(rules, sort_keys=True, default=str)

    before = described(made)
    with made.write() as connection:
        metadata.drop_all(connection)
        metadata.create_all(connection)
    assert described(made) == before


def test_a_writing_transaction_is_committed_whole_or_not_at_all(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(workers).values(id="kept", lanes=[]))
    twice: list[dict[str, object]] = [{"id": name, "lanes": []} for name in ("lost", "kept")]
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(insert(workers), twice)
    assert worker_names(database) == ["kept"]


def test_a_reading_transaction_cannot_write(database: Database) -> None:
    with pytest.raises(DBAPIError, match=r"read-?only"), database.read() as connection:
        connection.execute(insert(workers).values(id="w", lanes=[]))
    add_worker(database, "after")
    assert worker_names(database) == ["after"]


def test_a_reading_transaction_sees_one_moment(database: Database) -> None:
    add_worker(database, "before")
    statement = select(workers.c.id)
    with database.read() as connection:
        first = connection.execute(statement).scalars().all()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(add_worker, database, "meanwhile").result(timeout=60)
        assert connection.execute(statement).scalars().all() == first == ["before"]
    assert worker_names(database) == ["before", "meanwhile"]


def test_two_writers_of_one_row_come_one_after_the_other(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(leases).values(name="x", holder="", token=0, expires_at=now()))

    def count_up() -> None:
        for _ in range(10):
            with database.write() as connection:
                statement = select(leases.c.token).where(leases.c.name == "x").with_for_update()
                token = connection.execute(statement).scalar_one()
                connection.execute(update(leases).values(token=token + 1))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(count_up) for _ in range(4)]:
            done.result(timeout=60)
    with database.read() as connection:
        assert connection.execute(select(leases.c.token)).scalar_one() == 40


def test_the_clock_is_that_of_the_statement_and_can_be_moved(database: Database) -> None:
    with database.read() as connection:
        row = connection.execute(select(now(), now(90.5), now(-0.25))).one()
    assert row[1] - row[0] == timedelta(seconds=90.5)
    assert row[0] - row[2] == timedelta(seconds=0.25)
    assert abs(datetime.now(UTC) - row[0]) < timedelta(minutes=1)


def test_times_return_as_they_were_stored_and_in_utc(database: Database) -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 7000, tzinfo=timezone(timedelta(hours=5)))
    values = {"name": "x", "holder": "", "token": 1, "expires_at": moment}
    with database.write() as connection:
        stored = connection.execute(insert(leases).values(values).returning(leases)).one()
        is_before = connection.execute(select(leases.c.expires_at < now())).scalar_one()
    assert stored.expires_at == moment
    assert stored.expires_at.utcoffset() == timedelta(0)
    assert is_before


def test_a_time_without_zone_is_refused(database: Database) -> None:
    naive = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - what is refused
    with (
        pytest.raises(Exception, match="times must carry a time zone"),
        database.write() as connection,
    ):
        connection.execute(insert(leases).values(name="x", holder="", token=1, expires_at=naive))


def test_json_none_is_the_null_of_sql(database: Database) -> None:
    with database.write() as connection:
        row = {"prefix": "p", "name": "n", "secret_sha256": "", "scopes": None}
        with pytest.raises(IntegrityError):
            connection.execute(insert(keys).values(row))


def test_rows_of_unknown_graphs_are_refused(database: Database) -> None:
    orphan = {"id": "s", "graph_id": "no such graph", "url": "edges/", "follow": False}
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(insert(sources).values(orphan))


def test_opening_again_changes_nothing(database: Database, database_url: str) -> None:
    add_worker(database, "w")
    again = open_database(database_url)
    assert worker_names(again) == ["w"]
    again.close()


def open_and_write(url: str, name: str) -> list[str]:
    """Work of one process of the test below."""
    database = open_database(url)
    add_worker(database, name)
    try:
        return worker_names(database)
    finally:
        database.close()


@pytest.mark.usefixtures("processes")
def test_many_processes_may_open_one_fresh_database_at_once(empty_database_url: str) -> None:
    names = [f"process-{number}" for number in range(4)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(names), mp_context=context) as pool:
        seen = list(pool.map(open_and_write, [empty_database_url] * len(names), names, timeout=60))
    assert max(len(each) for each in seen) == len(names)


def test_sqlite_commits_to_the_disk_and_lets_readers_in(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'new' / 'peewit.db'}")
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }
    database.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_sqlite_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must name a file that processes can share"):
        open_database(url)


def test_other_databases_are_refused() -> None:
    with pytest.raises(ValueError, match="must start with sqlite or postgresql, got mysql"):
        open_database("mysql://user@host/name")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "glusterfs"])
def test_sqlite_on_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path}/my\\040disk {kind} rw 0 0\n")
    with pytest.raises(ValueError, match=rf"\({kind}\).*PEEWIT_DATABASE_URL"):
        refuse_network_file_system(tmp_path / "my disk" / "deep" / "peewit.db", mounts)


def test_a_local_disk_below_a_network_mount_is_taken(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x / nfs rw 0 0\n/dev/sdb {tmp_path} ext4 rw 0 0\n")
    refuse_network_file_system(tmp_path / "peewit.db", mounts)


def test_the_last_of_two_mounts_at_one_place_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sdb {tmp_path} ext4 rw 0 0\nserver:/x {tmp_path} nfs rw 0 0\n")
    with pytest.raises(ValueError, match="nfs"):
        refuse_network_file_system(tmp_path / "peewit.db", mounts)


def test_a_system_without_a_table_of_mounts_is_taken(tmp_path: Path) -> None:
    refuse_network_file_system(tmp_path / "peewit.db", tmp_path / "no such file")


def test_only_active_graphs_need_different_names(database: Database) -> None:
    row = {
        "name": "g",
        "node_ids": "string",
        "epsilon": 0.5,
        "expected_nodes": 10,
        "max_nodes": 10,
        "seed": 1,
        "keep_raw": True,
    }
    with database.write() as connection:
        connection.execute(insert(graphs).values(id="1", state="deleted", **row))
        connection.execute(insert(graphs).values(id="2", state="deleted", **row))
        connection.execute(insert(graphs).values(id="3", **row))
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(insert(graphs).values(id="4", **row))
