"""What `peewit demo` prints to go on with works as printed."""

import os
import subprocess
from pathlib import Path

import pytest

from peewit.service.catalog import Catalog
from peewit.service.cli.machine.demo_command import demo_command
from peewit.service.database.engine import open_database
from peewit.service.demo.own_home import demo_settings
from peewit.service.graph_settings import GraphSettings
from peewit.service.settings import Settings


@pytest.mark.parametrize("path", ["/usr/bin:/bin", ""])
def test_printed_commands_find_the_demo_from_elsewhere(
    processes: None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    directory = tmp_path / "the demo"
    monkeypatch.setenv("PEEWIT_DATABASE_URL", f"sqlite:///{tmp_path}/other.db")
    if path:
        monkeypatch.setenv("PATH", path)
    users = Settings()
    database = open_database(demo_settings(users, directory).database)
    Catalog(database).create(GraphSettings(name="digits"))
    database.close()
    found = subprocess.run(
        ["sh", "-c", f"{demo_command(directory, users)} graph list"],
        cwd="/",
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "digits" in found.stdout
