"""Edges that leave a graph again, through the command line."""

from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit

ROWS = "src,dst,weight,op\nann,bob,1,c\nbob,cay,2,c\ncay,dan,1,c\nann,cay,,d\nann,bob,3,u\n"


def edges_of(peewit: Peewit, tmp_path: Path) -> list[str]:
    out = tmp_path / "out.csv"
    assert peewit("graph", "export", "g", "-o", out).exit_code == 0
    return out.read_text().splitlines()[1:]


def test_pairs_leave_by_a_file_and_by_name(peewit: Peewit, tmp_path: Path) -> None:
    table, gone = tmp_path / "changes.csv", tmp_path / "gone.csv"
    table.write_text(ROWS)
    gone.write_text("one,other,weight\ncay,bob,\nnobody,bob,x\n")
    peewit("graph", "create", "g", "--deletions", "exact")
    assert peewit("ingest", "g", table).exit_code == 0
    assert edges_of(peewit, tmp_path) == ['"ann","bob",3', '"bob","cay",2', '"cay","dan",1']
    named = ("--src", "one", "--dst", "other")
    deleted = peewit("delete", "g", "cay", "dan", "--edges", gone, *named)
    assert deleted.exit_code == 0
    assert "rows that delete 3, edges kept 1, before 3; 1 of the pairs had no edge;" in deleted.out
    assert edges_of(peewit, tmp_path) == ['"ann","bob",3']
    feed = peewit("delete", "g", "--edges", table)
    assert feed.exit_code == 1
    assert "must say delete in every row" in feed.err
    table.write_text("src,dst,__deleted\nann,bob,true\ncay,bob,false\n")
    assert "must say delete in every row" in peewit("delete", "g", "--edges", table).err
    assert edges_of(peewit, tmp_path) == ['"ann","bob",3']
    bare = tmp_path / "bare.txt"
    bare.write_text("ann cay\n")
    assert peewit("ingest", "g", bare, "--src", "#1", "--dst", "#2").exit_code == 0
    assert peewit("delete", "g", "--edges", bare, "--src", "#1", "--dst", "#2").exit_code == 0
    told = peewit("delete", "g", "ann", "bob", "--json").json
    assert (told["status"], told["rows"], told["without_edges"]) == ("committed", 1, 0)
    assert edges_of(peewit, tmp_path) == []


def test_edges_leave_one_relation_and_make_none(peewit: Peewit, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("src,dst,kind\nann,bob,login\nann,bob,card\nbob,cay,card\n")
    peewit("graph", "create", "g", "--deletions", "exact")
    assert peewit("ingest", "g", rows, "--relation-column", "kind").exit_code == 0

    def kept() -> dict[str, int]:
        listed = peewit("graph", "relations", "g", "--json").json["relations"]
        return {each["name"]: each["n_edges"] for each in listed}

    refused = peewit("delete", "g", "ann", "bob")
    assert refused.exit_code == 1
    assert "relation must say of which kind the edges are" in refused.err
    assert "the graph has login, card" in refused.err
    unknown = peewit("delete", "g", "ann", "bob", "--relation", "crad")
    assert "1 of the pairs had no edge; the graph has no relation crad" in unknown.out
    assert kept() == {"login": 1, "card": 2}
    assert peewit("delete", "g", "bob", "ann", "--relation", "card").exit_code == 0
    assert kept() == {"login": 1, "card": 1}
    plain = tmp_path / "plain.csv"
    plain.write_text("src,dst\nann,cay\n")
    assert peewit("ingest", "g", plain).exit_code == 0
    assert peewit("delete", "g", "ann", "cay", "--relation", "").exit_code == 0
    assert kept() == {"login": 1, "card": 1, "": 0}


@pytest.mark.slow
def test_what_cannot_be_deleted_is_told(peewit: Peewit, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("src,dst\n")
    peewit("graph", "create", "plain")
    off = peewit("delete", "plain", "a", "b")
    assert off.exit_code == 1
    assert "create another graph with --deletions exact" in off.err
    peewit("graph", "create", "g", "--deletions", "exact")
    for arguments, told in (
        ((), "give a pair"),
        (("a",), "must be two"),
        (("--edges", empty), "at least one pair"),
        (("--edges", tmp_path / "none.csv"), "none.csv"),
    ):
        refused = peewit("delete", "g", *arguments)
        assert refused.exit_code != 0
        assert told in refused.err
    assert peewit("graph", "set", "g", "--deletions", "off").exit_code == 2


def test_a_dry_run_tells_which_rows_delete(peewit: Peewit, tmp_path: Path) -> None:
    table = tmp_path / "changes.csv"
    table.write_text(ROWS)
    peewit("graph", "create", "g", "--deletions", "exact")
    told = peewit("ingest", "g", table, "--dry-run")
    assert told.exit_code == 0
    assert "1 delete, 1 set" in told.out
    (report,) = peewit("ingest", "g", table, "--dry-run", "--json").json["files"]
    assert report["n_changes"] == {"delete": 1, "set": 1}
    assert report["first_rows"][0] == ["ann", "bob", 1.0, "insert"]
    peewit("graph", "create", "plain")
    refused = peewit("ingest", "plain", table, "--op", "op", "--dry-run")
    assert refused.exit_code == 1
    assert "deletions are off" in refused.out
