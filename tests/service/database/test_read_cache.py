"""Values read from the database are kept until something is committed, by whomever."""

from collections.abc import Callable, Iterator
from threading import Barrier, Thread

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import OperationalError

import peewit.service.database.read_cache
from peewit.service.database.engine import Database, open_database
from peewit.service.database.read_cache import Recent, arriving
from peewit.service.database.tables import workers


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url)
    with opened.write() as connection:
        connection.execute(insert(workers).values(id="a", lanes=["fast"]))
    yield opened
    opened.close()


@pytest.fixture
def recent(database: Database) -> Iterator[Recent]:
    made = Recent(database)
    yield made
    made.close()


class Names:
    """Reads the ids of workers, and counts how often."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.n_reads = 0

    def __call__(self) -> list[str]:
        self.n_reads += 1
        with self.database.read() as connection:
            return list(connection.execute(select(workers.c.id).order_by("id")).scalars())


def add(database: Database, name: str) -> None:
    with database.write() as connection:
        connection.execute(insert(workers).values(id=name, lanes=["fast"]))


def test_a_value_is_kept_while_nothing_is_committed(database: Database, recent: Recent) -> None:
    names = Names(database)
    for _ in range(100):
        assert recent.get("names", names) == ["a"]
        with database.read() as connection:
            connection.execute(select(workers))
    # PostgreSQL counts the commits of all databases of a server.
    assert names.n_reads == 1 if database.is_sqlite else names.n_reads < 100


def test_every_commit_is_seen_at_once(
    database: Database, recent: Recent, database_url: str
) -> None:
    names = Names(database)
    expected = ["a"]
    other = open_database(database_url)
    for number in range(20):
        recent.get("names", names)
        expected.append(f"b{number:02}")
        add(database if number % 2 else other, expected[-1])
        assert recent.get("names", names) == expected
    other.close()


def test_a_commit_between_the_look_and_the_read_does_no_harm(
    database: Database, recent: Recent
) -> None:
    names = Names(database)

    def late() -> list[str]:
        found = names()
        add(database, "b")  # after the read: what was found is old already
        return found

    assert recent.get("names", late) == ["a"]
    assert recent.get("names", names) == ["a", "b"]


def test_a_change_that_is_rolled_back_changes_nothing(database: Database, recent: Recent) -> None:
    names = Names(database)
    recent.get("names", names)
    with database.write() as connection:
        connection.execute(update(workers).values(id="b"))
        connection.rollback()
    assert recent.get("names", names) == ["a"]


def test_a_transaction_that_began_before_the_read_and_commits_after_it_is_seen(
    database: Database, recent: Recent
) -> None:
    names = Names(database)
    with database.write() as connection:
        connection.execute(insert(workers).values(id="b", lanes=["fast"]))
        assert recent.get("names", names) == ["a"]
    assert recent.get("names", names) == ["a", "b"]


def test_what_loading_raises_is_raised_again(database: Database, recent: Recent) -> None:
    def absent() -> None:
        raise LookupError("no such thing")

    for _ in range(2):
        with pytest.raises(LookupError):
            recent.get("absent", absent)


def test_one_look_serves_a_whole_request(database: Database, recent: Recent) -> None:
    names = Names(database)
    with arriving():
        assert recent.get("names", names) == ["a"]
        add(database, "b")
        assert recent.get("names", names) == ["a"]  # as it was when the request came
    with arriving():
        assert recent.get("names", names) == ["a", "b"]


def test_what_is_at_hand_needs_no_reading(database: Database, recent: Recent) -> None:
    names = Names(database)
    with arriving():
        assert not recent.is_cached("names")
        recent.get("names", names)
        assert recent.is_cached("names")
    with arriving():
        # PostgreSQL would have to be asked first, which takes a round trip.
        assert recent.is_cached("names") == database.is_sqlite
        add(database, "b")
    with arriving():
        assert not recent.is_cached("names")


def test_values_do_not_pile_up(
    database: Database, recent: Recent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peewit.service.database.read_cache, "_MAX_VALUES", 10)
    for number in range(100):
        assert recent.get(number, lambda: "value") == "value"
    assert sum(recent.is_cached(number) for number in range(100)) <= (
        10 if database.is_sqlite else 0
    )


def test_values_are_not_kept_for_ever(
    database: Database, recent: Recent, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(database)
    recent.get("names", names)
    monkeypatch.setattr(peewit.service.database.read_cache, "MAX_AGE_SECONDS", 0.0)
    recent.get("names", names)
    assert names.n_reads == 2


def test_threads_see_what_was_committed_before_they_asked(
    database: Database, recent: Recent
) -> None:
    names = Names(database)
    faults: list[str] = []

    def ask(number: int, start: Callable[[], object]) -> None:
        start()
        for step in range(10):
            name = f"thread-{number}-{step}"
            add(database, name)
            if name not in recent.get("names", names):
                faults.append(name)

    start = Barrier(4)
    threads = [Thread(target=ask, args=(number, start.wait)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_connection_that_sqlite_gives_up_is_replaced(
    database: Database, recent: Recent, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(database)
    assert recent.get("names", names) == ["a"]
    connection = recent._revisions._connection
    assert connection is not None
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.close()
    add(database, "b")
    assert recent.get("names", names) == ["a", "b"]
    monkeypatch.setattr("peewit.service.database.revision._DATA_VERSION", "SELECT * FROM nowhere")
    with pytest.raises(OperationalError, match="nowhere"):
        recent.get("names", names)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_lost_connection_is_replaced(database: Database, recent: Recent) -> None:
    names = Names(database)
    recent.get("names", names)
    with database.write() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid != pg_backend_pid() AND datname = current_database()"
            )
        )
    add(database, "b")
    assert recent.get("names", names) == ["a", "b"]
