"""`peewit backup`, `restore` and `doctor` as people and programs call them."""

import json
from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit


def test_a_home_is_backed_up_restored_and_well(
    peewit: Peewit, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("--window", "5d", "--relation-windows", "card=none,login=2d")
    assert peewit("graph", "create", "g", *own).exit_code == 0
    cards = tmp_path / "cards.csv"
    cards.write_text("src,dst,time\nann,bob,2026-01-01\nbob,cay,2026-01-20\n")
    peewit("ingest", "g", cards, "--relation", "card")
    relations = peewit("graph", "relations", "g", "--json").json
    done = peewit("backup", tmp_path / "backup", "--json")
    assert done.exit_code == 0
    assert done.json["rows"]["graphs"] == 1
    assert done.json["missing"] == []
    refused = peewit("restore", tmp_path / "backup")
    assert refused.exit_code == 1
    assert "the database must be empty, it has 1 rows in graphs" in refused.err
    monkeypatch.setenv("PEEWIT_HOME", str(tmp_path / "other"))
    restored = peewit("restore", tmp_path / "backup", "--json")
    assert restored.exit_code == 0, restored.err
    assert restored.json["home"] == str(tmp_path / "other")
    window = peewit("graph", "show", "g", "--json").json["settings"]["window"]
    assert window["relations"] == {"card": None, "login": 172_800.0}
    assert peewit("graph", "relations", "g", "--json").json == relations
    well = peewit("doctor", "--json")
    assert (well.exit_code, well.json["healthy"]) == (0, True)


def test_a_fault_is_named_and_fails_the_command(peewit: Peewit, home: Path) -> None:
    assert peewit("graph", "create", "g").exit_code == 0
    (home / "restore.json").write_text("{}")
    told = peewit("doctor")
    assert told.exit_code == 1
    assert "run `peewit restore` again" in told.out
    found = peewit("doctor", "--json", "--repair")
    assert found.exit_code == 1
    (fault,) = [each for each in found.json["findings"] if each["level"] == "fault"]
    assert (fault["check"], fault["can_repair"], fault["repaired"]) == ("home", False, None)


def test_a_database_that_cannot_be_reached_is_a_finding(
    peewit: Peewit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEEWIT_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    told = peewit("doctor", "--json")
    assert told.exit_code == 1
    (finding,) = json.loads(told.out)["findings"]
    assert finding["check"] == "database"
    assert finding["text"].startswith("cannot be reached")
