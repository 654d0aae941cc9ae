"""Files that leave a graph, and are replaced, through the command line."""

import json
from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit
from tests.service.cli.test_cli_delete import edges_of


@pytest.mark.slow
def test_files_leave_by_path_and_by_id_and_come_again_by_name(
    peewit: Peewit, tmp_path: Path
) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "mon.csv").write_text("src,dst\nann,bob\n")
    (folder / "tue.csv").write_text("src,dst\nbob,cay\n")
    (folder / "wed.csv").write_text("src,dst\ncay,dan\n")
    peewit("graph", "create", "g", "--deletions", "exact")
    assert peewit("ingest", "g", folder).exit_code == 0
    gone = peewit("retract", "g", folder / "mon.csv")
    assert gone.exit_code == 0
    assert f"retracted {folder}/mon.csv: 1 edges" in gone.out
    assert "edges kept 2, before 3;" in gone.out
    told = peewit("retract", "g", 2, folder / "mon.csv", "--json").json
    assert [file["status"] for file in told["files"]] == ["retracted", "retracted"]
    assert edges_of(peewit, tmp_path) == ['"cay","dan",1']
    (folder / "tue.csv").touch()
    assert "no new files" not in peewit("ingest", "g", folder).err
    assert edges_of(peewit, tmp_path) == ['"cay","dan",1']
    assert peewit("ingest", "g", folder / "mon.csv").exit_code == 0
    assert edges_of(peewit, tmp_path) == ['"ann","bob",1', '"cay","dan",1']
    counts = peewit("source", "list", "g", "--json").json["sources"]
    assert sum(each["files"]["retracted"] for each in counts) >= 1


def test_what_cannot_leave_is_told(peewit: Peewit, tmp_path: Path) -> None:
    table = tmp_path / "edges.csv"
    table.write_text("src,dst\nann,bob\n")
    peewit("graph", "create", "g")
    peewit("ingest", "g", table)
    off = peewit("retract", "g", table)
    assert off.exit_code == 1
    assert "create another graph with --deletions exact" in off.err
    for place, told in ((tmp_path, "not of a directory"), ("nix.csv", "nix.csv"), (99, "file 99")):
        unknown = peewit("retract", "g", place)
        assert unknown.exit_code == 1
        assert told in unknown.err
    assert peewit("retract", "g").exit_code == 2
    assert peewit("ingest", "g", "--replace").exit_code == 2
    problem = peewit("retract", "g", table, "--json")
    assert json.loads(problem.err)["error"]["type"] == "urn:peewit:problem:file-cannot-be-retracted"
