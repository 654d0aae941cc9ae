"""A database at the first revision, with rows in every table, opened by this release.

``first_release`` holds it as SQL, and is never changed again.
"""

import json
import multiprocessing
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.config import Config
from sqlalchemy import JSON, bindparam, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from peewit.service.catalog import Catalog
from peewit.service.database import migrations
from peewit.service.database.engine import Database, open_database
from peewit.service.database.migrations import (
    DatabaseVersionError,
    newest_revision,
    revision_of,
)
from peewit.service.database.tables import metadata
from peewit.service.graph_settings import AutoSolve, SnapshotEvery
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.job import IdempotencyConflict, JobSpec, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.key_store import KeyStore
from peewit.service.labels.store import LabelStore
from tests.service.database.schema import schema_differences

DUMPS = Path(__file__).parents[1] / "first_release"
GRAPH = "a" * 32

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def first_release(empty_database_url: str) -> str:
    """The address of such a database."""
    url = make_url(empty_database_url)
    dump = (DUMPS / f"{url.get_backend_name()}.sql").read_text()
    if url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(url.database))
        connection.executescript(dump)
        connection.close()
    else:
        server = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(server) as session:
            session.execute(dump.encode())
    return empty_database_url


@pytest.fixture
def migrated(first_release: str) -> Iterator[Database]:
    database = open_database(first_release)
    yield database
    database.close()


def rows_of(url: str, columns: dict[str, list[str]] | None = None) -> Rows:
    """All rows as the database stores them, of all columns or of some."""
    engine = create_engine(make_url(url))
    try:
        with engine.connect() as connection:
            inspector = inspect(connection)
            wanted = columns or {
                name: [column["name"] for column in inspector.get_columns(name)]
                for name in inspector.get_table_names()
                if name != "alembic_version"
            }
            return {
                name: sorted(
                    (
                        dict(row._mapping)
                        for row in connection.execute(
                            text(
                                "SELECT "
                                + ", ".join(f'"{column}"' for column in names)
                                + f' FROM "{name}"'
                            )
                        )
                    ),
                    key=repr,
                )
                for name, names in wanted.items()
            }
    finally:
        engine.dispose()


def test_the_dump_is_of_the_first_revision_and_fills_every_table(first_release: str) -> None:
    engine = create_engine(make_url(first_release))
    with engine.connect() as connection:
        assert revision_of(connection) == "0007"
    engine.dispose()
    rows = rows_of(first_release)
    assert len(rows) == 12
    assert all(rows.values())


def test_every_row_keeps_what_it_had(first_release: str) -> None:
    before = rows_of(first_release)
    open_database(first_release).close()
    columns = {name: list(rows[0]) for name, rows in before.items()}
    assert rows_of(first_release, columns) == before


def test_the_schema_is_that_of_the_tables(migrated: Database) -> None:
    with migrated.read() as connection:
        assert revision_of(connection) == newest_revision()
        assert schema_differences(connection) == []


def test_indexes_and_checks_are_those_of_a_fresh_database(migrated: Database) -> None:
    def described(database: Database) -> list[str]:
        inspector = inspect(database.engine)
        return [
            json.dumps(
                [
                    name,
                    inspector.get_pk_constraint(name),
                    sorted(inspector.get_check_constraints(name), key=str),
                    sorted(inspector.get_indexes(name), key=str),
                    sorted(inspector.get_foreign_keys(name), key=str),
                    sorted(inspector.get_unique_constraints(name), key=str),
                ],
                default=str,
            )
            for name in sorted(metadata.tables)
        ]

    found = described(migrated)
    with migrated.write() as connection:
        metadata.drop_all(connection)
        metadata.create_all(connection)
    assert found == described(migrated)


def test_rows_mean_what_they_meant(migrated: Database) -> None:
    (graph,) = Catalog(migrated).list()
    assert (graph.id, graph.settings.name) == (GRAPH, "friends")
    assert graph.settings.seed == 4_503_599_627_370_497
    assert graph.settings.snapshot_every == SnapshotEvery(edges=100)
    assert graph.settings.auto_solve == AutoSolve(model="hfs", parameters={"graph_penalty": 1.0})
    assert graph.created_at.isoformat() == "2026-01-02T03:01:05.006000+00:00"
    assert (graph.progress.snapshot, graph.labels_seq, graph.features_version) == (2, 3, 0)

    current = LabelStore(migrated).current(GRAPH)
    assert current.labels_seq == 3
    assert current.nodes.to_pylist() == ["bob"]  # ann's label was taken back

    (key,) = KeyStore(migrated).list()
    assert (key.prefix, key.name, list(key.scopes)) == ("abcd1234", "laptop", ["read", "label"])

    queue = JobQueue(migrated)
    assert queue.get("j1").status is JobStatus.SUCCEEDED
    assert queue.get("j1").result == {"file": "j1-1.arrow"}
    assert [event.kind for event in queue.events("j1")] == ["queued", "succeeded"]
    again = JobSpec(
        graph_id=GRAPH, model="poisson", parameters={}, lane="fast", idempotency_key="key-1"
    )
    with pytest.raises(IdempotencyConflict):
        queue.submit(again)
    claimed = queue.claim("worker", ("fast",))
    assert claimed is not None
    assert claimed.id == "j2"


def test_pushes_and_sources_are_what_they_were(migrated: Database) -> None:
    manifest = Manifest(migrated)
    assert manifest.pushes.waiting(GRAPH) == []
    (pending,) = manifest.pending(GRAPH)
    assert (pending.push_id, pending.position, pending.size) == ("p2", 3, 500)
    assert manifest.pushes.get(GRAPH, "p2").file == pending
    assert manifest.backlog(GRAPH).pushed_bytes == 250  # p1 is in the graph
    known = manifest.pushes.find(GRAPH, "k1", "blake3:p1")
    assert known is not None
    assert known.file is not None
    assert known.file.status == "committed"
    assert manifest.counts(GRAPH) == {
        "pending": 1,
        "committed": 2,
        "quarantined": 1,
        "duplicate": 0,
        "retracting": 0,
        "retracted": 0,
    }
    (source,) = manifest.sources.list(GRAPH)
    assert (source.url, source.follow, source.error, source.n_failures) == (
        "/data/inbox",
        True,
        None,
        0,
    )


def open_and_count(url: str) -> int:
    """Work of one process of the test below."""
    database = open_database(url)
    try:
        with database.read() as connection:
            return connection.execute(text("SELECT COUNT(*) FROM feature_sets")).scalar_one()
    finally:
        database.close()


@pytest.mark.usefixtures("processes")
def test_processes_that_open_it_at_once_migrate_it_once(first_release: str) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        assert list(pool.map(open_and_count, [first_release] * 4, timeout=60)) == [1] * 4
    database = open_database(first_release)
    assert Manifest(database).backlog(GRAPH).pushed_bytes == 250
    database.close()


def test_a_parameter_that_models_have_no_more_is_taken_out(first_release: str) -> None:
    solve = {"model": "stable-hfs", "parameters": {"graph_penalty": 1.0, "bound": True}}
    asked = {"gamma": 2.0, "bound": True}
    engine = create_engine(make_url(first_release))
    with engine.begin() as connection:
        for change, value in (
            ("UPDATE graphs SET auto_solve = :value", solve),
            ("UPDATE jobs SET parameters = :value", asked),
        ):
            connection.execute(text(change).bindparams(bindparam("value", value, type_=JSON())))
    engine.dispose()
    database = open_database(first_release)
    try:
        (graph,) = Catalog(database).list()
        assert graph.settings.auto_solve == AutoSolve(
            model="stable-hfs", parameters={"graph_penalty": 1.0}
        )
        queue = JobQueue(database)
        assert queue.get("j2").parameters == {"gamma": 2.0}
        assert queue.get("j1").parameters == asked, "it has ended, with what it was asked"
    finally:
        database.close()


ADDED = {
    "graphs": {
        "columns": None,
        "deletions": "off",
        "parallel": "sum",
        "erasures_seq": 0,
        "repair_wanted": None,
        "repair_fault": None,
        "n_failed_embeddings": 0,
        "window": None,
        "horizon_wanted": None,
    },
    "sources": {
        "columns": None,
        "max_bad_rows": 0,
        "replaces": 0,
        "kind": "files",
        "holds": "edges",
        "label_column": None,
        "position": None,
        "lag": None,
        "n_reads": 0,
        "n_refused": 0,
    },
    "files": {"n_bad_rows": None, "retractable": None, "inserts_only": 0},
    "label_events": {"column_name": "", "origin": "given", "annotator": None, "by_majority": 0},
    "jobs": {"owner": None, "traceparent": None},
    "pushes": {"owner": None},
    "feature_sets": {"owner": None, "source_id": None},
}
"""Columns that this release has beyond the first, and what rows of before have in them."""

LATER = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "%s"


def upgrade() -> None:
    op.add_column("graphs", sa.Column("note", sa.Text(), nullable=True))
"""


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step more than this release has."""
    versions = Path(migrations.__file__).parent / "versions"
    steps = tmp_path / "steps"
    steps.mkdir()
    (steps / "v9999_note.py").write_text(LATER % newest_revision())
    original = migrations._config

    def config() -> Config:
        made = original()
        made.set_main_option("path_separator", "newline")
        made.set_main_option("version_locations", f"{versions}\n{steps}")
        return made

    monkeypatch.setattr(migrations, "_config", config)
    monkeypatch.setattr(migrations, "NEWEST", "9999")


def test_a_present_database_is_known_by_the_last_step() -> None:
    assert newest_revision() == migrations.NEWEST


@pytest.mark.usefixtures("later")
def test_a_step_is_taken_once_by_all_who_come_at_once_and_loses_nothing(
    first_release: str,
) -> None:
    before = rows_of(first_release)
    with ThreadPoolExecutor(4) as pool:
        for database in pool.map(open_database, [first_release] * 4, timeout=60):
            database.close()
    after = rows_of(first_release)
    assert {note for graph in after["graphs"] for note in [graph.pop("note")]} == {None}
    for table, added in ADDED.items():
        for row in after[table]:
            assert {name: row.pop(name) for name in added} == added
    for table in (
        *("ingest_steps", "erasures", "erased_nodes", "refusals"),
        *("opinions", "reservations"),
    ):
        assert after.pop(table) == []
    assert after == before


@pytest.mark.usefixtures("later")
def test_a_new_database_takes_no_steps(empty_database_url: str) -> None:
    database = open_database(empty_database_url)
    with database.read() as connection:
        assert revision_of(connection) == newest_revision()
    assert "note" not in {each["name"] for each in inspect(database.engine).get_columns("graphs")}
    database.close()


def test_a_schema_of_before_the_first_release_is_refused(first_release: str) -> None:
    engine = create_engine(make_url(first_release))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
    engine.dispose()
    with pytest.raises(DatabaseVersionError, match="must be at schema 0007 or after it, got 0003"):
        open_database(first_release)


def test_tables_of_another_program_are_not_taken_for_ours(empty_database_url: str) -> None:
    engine = create_engine(make_url(empty_database_url))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE jobs (id integer)"))
    with pytest.raises(DBAPIError, match="jobs"):
        open_database(empty_database_url)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["jobs"]
    engine.dispose()
