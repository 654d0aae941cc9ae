"""Steps from one schema to the next, and databases that are refused: of before them, or after."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, make_url, select, text
from sqlalchemy.exc import DBAPIError

from peewit.service.catalog import Catalog
from peewit.service.database import migrations
from peewit.service.database.engine import Database, open_database
from peewit.service.database.migrations import FIRST, NEWEST, DatabaseVersionError, require_present
from peewit.service.database.tables import graphs
from peewit.service.graph_settings import GraphSettings

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
    (steps / "v9999_note.py").write_text(LATER % NEWEST)
    original = migrations._config

    def config() -> Config:
        made = original()
        made.set_main_option("path_separator", "newline")
        made.set_main_option("version_locations", f"{versions}\n{steps}")
        return made

    monkeypatch.setattr(migrations, "_config", config)
    monkeypatch.setattr(migrations, "NEWEST", "9999")


def set_version(database: Database, version: str) -> None:
    with database.write() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))


def version_of(database: Database) -> str:
    with database.read() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def test_the_first_and_the_last_step_are_those_of_the_files() -> None:
    scripts = ScriptDirectory.from_config(migrations._config())
    assert (scripts.get_base(), scripts.get_current_head()) == (FIRST, NEWEST)


def test_a_step_is_taken_once_by_all_who_come_at_once_and_loses_nothing(
    database: Database, database_url: str, request: pytest.FixtureRequest
) -> None:
    Catalog(database).create(GraphSettings(name="friends", seed=7))
    with database.read() as connection:
        before = connection.execute(select(graphs)).mappings().one()
    request.getfixturevalue("later")
    with ThreadPoolExecutor(4) as pool:
        for opened in pool.map(open_database, [database_url] * 4, timeout=60):
            assert version_of(opened) == "9999"
            opened.close()
    with database.read() as connection:
        after = connection.execute(text("SELECT note FROM graphs")).one()
        assert connection.execute(select(graphs)).mappings().one() == before
    assert after.note is None


@pytest.mark.parametrize("lacks", [["directed"], ["answers", "directed"]])
def test_graphs_of_the_first_step_become_graphs_that_may_be_directed(
    database: Database, database_url: str, lacks: list[str]
) -> None:
    Catalog(database).create(GraphSettings(name="friends", seed=7))
    with database.write() as connection:
        for column in lacks:
            connection.execute(text(f"ALTER TABLE graphs DROP COLUMN {column}"))
    set_version(database, "0027")
    opened = open_database(database_url)
    catalog = Catalog(opened)
    assert catalog.get("friends").settings.directed == ()
    directed = replace(catalog.get("friends").settings, directed=("message",))
    changed = catalog.update(catalog.get("friends").id, lambda _settings: directed)
    assert changed.settings.directed == catalog.get("friends").settings.directed == ("message",)
    assert version_of(opened) == NEWEST
    opened.close()


@pytest.mark.usefixtures("later")
def test_a_new_database_takes_no_steps(empty_database_url: str) -> None:
    database = open_database(empty_database_url)
    assert version_of(database) == "9999"
    assert "note" not in {each["name"] for each in inspect(database.engine).get_columns("graphs")}
    database.close()


@pytest.mark.parametrize(
    ("version", "way_out"),
    [
        ("0024", "got 0024, which is older than the first release; ingest and label anew in a new"),
        ("9999", "got the later 9999; install the newer version that wrote it"),
    ],
)
def test_a_database_of_another_schema_is_refused_and_stays_as_it_is(
    database: Database, database_url: str, version: str, way_out: str
) -> None:
    url = database.engine.url
    set_version(database, version)
    for opening in (lambda: open_database(database_url), lambda: require_present(database.read)):
        with pytest.raises(DatabaseVersionError) as refused:
            opening()
        assert f"{url.database} must be at schema {NEWEST}, {way_out}" in str(refused.value)
    assert version_of(database) == version


def test_tables_of_another_program_are_not_taken_for_ours(empty_database_url: str) -> None:
    engine = create_engine(make_url(empty_database_url))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE jobs (id integer)"))
    with pytest.raises(DBAPIError, match="jobs"):
        open_database(empty_database_url)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["jobs"]
    engine.dispose()
