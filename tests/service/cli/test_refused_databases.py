"""A database of before the first release, at every door of the commands."""

from pathlib import Path

import pytest
from sqlalchemy import text

from peewit.service.database.engine import open_database
from tests.service.cli.conftest import Peewit


@pytest.mark.parametrize(
    "command",
    [
        "graph list",
        "ingest g edges.csv",
        "ingest --follow",
        "labels list g",
        "solve g",
        "worker",
        "api",
        "serve",
        "backup copy",
        "restore copy",
        "doctor --repair",
    ],
)
def test_every_command_names_it_and_the_way_out_and_leaves_it(
    home: Path, peewit: Peewit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = home / "peewit.db"
    database = open_database(f"sqlite:///{path}")
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0024'"))
    database.close()
    before = path.read_bytes()
    refused = peewit(*command.split())
    assert refused.exit_code == 1
    assert f"the database {path} must be at schema" in refused.out + refused.err
    assert "got 0024, which is older than the first release" in refused.out + refused.err
    assert "anew in a new PEEWIT_HOME" in refused.out + refused.err
    assert path.read_bytes() == before
    assert not (tmp_path / "copy").exists()
