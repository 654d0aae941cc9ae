"""Leases by the database's clock, on SQLite and on PostgreSQL."""

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest
from sqlalchemy import insert, select, update

from peewit.service.database.engine import Database, open_database
from peewit.service.database.lease_holders import holder_name, is_dead
from peewit.service.database.lease_keeper import LeaseHeld, held_lease
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore, confirm
from peewit.service.database.tables import leases, workers
from peewit.service.database.timestamps import now

LONG = 600.0


@pytest.fixture
def store(database: Database) -> LeaseStore:
    return LeaseStore(database)


def acquired(store: LeaseStore, holder: str = "me", ttl_seconds: float = LONG) -> Lease:
    lease = store.acquire("ingest:g", holder, ttl_seconds)
    assert lease is not None
    return lease


def let_expire(database: Database) -> None:
    with database.write() as connection:
        connection.execute(update(leases).values(expires_at=now(-0.001)))


def write_as(database: Database, lease: Lease) -> None:
    with database.write() as connection:
        connection.execute(insert(workers).values(id=lease.holder, lanes=[]))
        confirm(connection, lease)


def test_one_holder_at_a_time(store: LeaseStore) -> None:
    acquired(store, "me")
    assert store.acquire("ingest:g", "other", LONG) is None
    assert store.acquire("ingest:g", "me", LONG) is None
    assert store.holder("ingest:g") == "me"


def test_leases_of_other_names_are_free(store: LeaseStore) -> None:
    acquired(store)
    assert store.acquire("ingest:h", "other", LONG) is not None


def test_a_lease_that_was_given_back_is_free_at_once(store: LeaseStore) -> None:
    first = acquired(store)
    store.release(first)
    assert store.holder("ingest:g") is None
    assert acquired(store, "other").token > first.token


def test_a_lease_runs_out_by_itself(store: LeaseStore) -> None:
    acquired(store, ttl_seconds=0.05)
    deadline = monotonic() + 60
    while store.acquire("ingest:g", "other", LONG) is None:
        assert monotonic() < deadline, "the lease did not run out"
    assert store.holder("ingest:g") == "other"


def test_renewing_starts_the_time_again(database: Database, store: LeaseStore) -> None:
    lease = acquired(store)
    with database.write() as connection:
        connection.execute(update(leases).values(expires_at=now(1.0)))
    store.renew(lease)
    with database.read() as connection:
        left = connection.execute(select(leases.c.expires_at > now(LONG - 60))).scalar_one()
    assert left


def test_a_lease_that_ran_out_can_be_renewed_until_another_has_it(
    database: Database, store: LeaseStore
) -> None:
    lease = acquired(store)
    let_expire(database)
    store.renew(lease)
    assert store.acquire("ingest:g", "other", LONG) is None
    let_expire(database)
    acquired(store, "other")
    with pytest.raises(LeaseExpired, match=r"g of me \(token 1\) ran out and was taken by other;"):
        store.renew(lease)


def test_a_lease_that_was_given_back_cannot_be_renewed(store: LeaseStore) -> None:
    lease = acquired(store)
    store.release(lease)
    with pytest.raises(LeaseExpired, match="taken by another process, which has ended"):
        store.renew(lease)


def test_the_earlier_holder_cannot_write_over_the_next(
    database: Database, store: LeaseStore
) -> None:
    earlier = acquired(store, "sleeper")
    let_expire(database)
    present = acquired(store, "other")
    with pytest.raises(LeaseExpired):
        write_as(database, earlier)
    store.release(earlier)
    with database.read() as connection:
        assert connection.execute(select(workers)).all() == []
    write_as(database, present)
    assert store.holder("ingest:g") == "other"


def test_nobody_takes_a_lease_between_its_confirmation_and_the_commit(
    database: Database, store: LeaseStore
) -> None:
    lease = acquired(store, "me")
    with ThreadPoolExecutor(1) as pool:
        with database.write() as connection:
            confirm(connection, lease)
            connection.execute(update(leases).values(expires_at=now(-0.001)))
            other = pool.submit(store.acquire, "ingest:g", "other", LONG)
            connection.execute(insert(workers).values(id="mine", lanes=[]))
            assert not other.done()
        taken = other.result(timeout=60)
    assert taken is not None
    assert taken.token == lease.token + 1


def test_of_many_who_want_a_lease_one_gets_it(store: LeaseStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        names = [f"holder-{number}" for number in range(8)]
        got = list(pool.map(lambda name: store.acquire("x", name, LONG), names, timeout=60))
    assert sum(lease is not None for lease in got) == 1


def test_a_lease_that_runs_out_while_its_holder_is_looked_up_is_taken(
    database: Database, store: LeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquired(store, "other")
    with (
        pytest.raises(LeaseHeld, match="another process ingests this graph: other"),
        held_lease(database, "ingest:g", purpose="ingests this graph"),
    ):
        pass
    look_up = LeaseStore.holder

    def expire_and_look_up(self: LeaseStore, name: str) -> str | None:
        let_expire(database)
        return look_up(self, name)

    monkeypatch.setattr(LeaseStore, "holder", expire_and_look_up)
    with held_lease(database, "ingest:g", purpose="ingests this graph") as keeper:
        keeper.confirm()


@pytest.mark.parametrize("ttl_seconds", [0.0, -1.0, float("nan")])
def test_a_time_that_is_not_positive_is_refused(store: LeaseStore, ttl_seconds: float) -> None:
    with pytest.raises(ValueError, match="ttl_seconds must be positive"):
        store.acquire("x", "me", ttl_seconds)


def hold_and_die(database_url: str) -> None:
    """Work of a process that is killed while it holds a lease."""
    database = open_database(database_url)
    assert LeaseStore(database).acquire("ingest:g", holder_name(), 600.0) is not None
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("processes")
def test_the_lease_of_a_dead_process_can_be_taken_at_once(
    database: Database, database_url: str
) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=hold_and_die, args=(database_url,)
    )
    process.start()
    assert process.pid is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie until it is joined
    store = LeaseStore(database)
    dead = store.holder("ingest:g")
    assert dead is not None
    assert is_dead(dead)
    process.join()
    assert is_dead(dead)
    assert store.acquire("ingest:g", "second", 600.0) is None
    assert store.acquire("ingest:g", "second", 600.0, dead="third") is None
    lease = store.acquire("ingest:g", "second", 600.0, dead=dead)
    assert lease is not None
    assert lease.token == 2


def test_only_what_is_sure_counts_as_dead() -> None:
    host, pid, name, machine, started = holder_name().rsplit(":", 4)
    assert not is_dead(f"{host}:{pid}:{name}:{machine}:{started}")
    assert is_dead(f"{host}:{pid}:{name}:{machine}:1.00"), "the number belongs to another now"
    assert not is_dead(f"{host}:999999999:{name}:other-machine:{started}")
    assert not is_dead(f"{host}:999999999:{name}:-:{started}")
    assert not is_dead("somebody")
