"""Nodes that are forgotten, through the command line; and again after a restore."""

import json
from pathlib import Path

import pytest

from peewit.service.inbox.leaving.erasure_ledger import LEDGER, BadLedger, Ledger
from tests.service.api.test_erasures import WHO, files_with
from tests.service.cli.conftest import Peewit

EDGES = f"src,dst\n{WHO},ann\nann,bob\nbob,cay\ncay,{WHO}\n"


@pytest.fixture
def source(peewit: Peewit, tmp_path: Path) -> Path:
    table = tmp_path / "edges.csv"
    table.write_text(EDGES)
    labels = tmp_path / "labels.csv"
    labels.write_text(f"node,label\n{WHO},x\nbob,y\n")
    peewit("graph", "create", "g")
    assert peewit("ingest", "g", table).exit_code == 0
    assert peewit("labels", "put", "g", labels).exit_code == 0
    return table


def exported(peewit: Peewit, tmp_path: Path) -> list[str]:
    out = tmp_path / "out.csv"
    assert peewit("graph", "export", "g", "-o", out).exit_code == 0
    return out.read_text().splitlines()[1:]


def test_waiting_tells_which_files_of_mine_still_hold_it(
    peewit: Peewit, home: Path, source: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "who.csv"
    listed.write_text(f"node\n{WHO}\nnobody\ncay\n")
    done = peewit("erase", "g", "--nodes", listed, "--wait")
    assert done.exit_code == 0, done.err
    assert done.out == "g: erased 3 nodes, of which the graph knew 2\n"
    assert f"still holds one of them, as it is yours: {source}" in done.err
    assert files_with(home) == []
    told = peewit("erase", "g", "--node", "bob", "--wait", "--json").json
    assert (told["status"], told["n_nodes"], told["n_known"]) == ("erased", 1, 1)
    assert told["sources"] == {"holding": [str(source)], "unread": []}
    assert "bob" not in json.dumps(told)
    source.unlink()
    gone = peewit("erase", "g", "--node", "ann", "--wait", "--json").json
    assert gone["sources"] == {"holding": [], "unread": [str(source)]}


def test_what_cannot_be_erased_is_told(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g", "--node-ids", "int64")
    empty = tmp_path / "empty.csv"
    empty.write_text("node\n")
    two = tmp_path / "two.csv"
    two.write_text("who,since\n1,2\n")
    for arguments, said in (
        ((), "give nodes"),
        (("--nodes", two), "one of who, since"),
        (("--nodes", two, "--node", "1"), "must be left out beside --nodes"),
        (("--node", "1", "--column", "who"), "needs --nodes"),
        (("--node", "x"), "must be a 64-bit integer"),
        (("--nodes", empty), "must name at least one node"),
        (("--nodes", tmp_path / "none.csv"), "none.csv"),
    ):
        refused = peewit("erase", "g", *arguments)
        assert refused.exit_code != 0
        assert said in refused.err


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (f"{WHO}\nnobody\n", ()),
        (f"{WHO}\nnobody\n", ("--column", "#1")),
        (f"who,since\n{WHO},1\nnobody,2\n", ("--column", "who")),
        (f"id\n{WHO}\nnobody\n", ()),
        (f"who,node\nann,{WHO}\nbob,nobody\n", ()),
    ],
)
def test_a_list_says_itself_which_column_holds_the_nodes(
    peewit: Peewit, source: Path, tmp_path: Path, content: str, options: tuple[str, ...]
) -> None:
    del source
    labels = tmp_path / "labels.csv"
    labels.write_text("who,label\nbob,y\n")
    assert peewit("labels", "put", "g", labels, "--node", "who").exit_code == 0
    listed = tmp_path / "list.csv"
    listed.write_text(content)
    done = peewit("erase", "g", "--nodes", listed, *options)
    assert done.exit_code == 0, done.err
    assert "2 nodes, of which the graph knew 1" in done.out


def test_the_first_line_of_a_list_is_a_name_where_all_others_are_nodes(
    peewit: Peewit, source: Path, tmp_path: Path
) -> None:
    del source
    listed = tmp_path / "list.csv"
    listed.write_text(f"customer\n{WHO}\nbob\n")
    done = peewit("erase", "g", "--nodes", listed)
    assert "2 nodes, of which the graph knew 2" in done.out
    assert "took 'customer' for the name of the column" in done.err


def test_a_restored_backup_forgets_again(
    peewit: Peewit, home: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del source
    assert peewit("backup", tmp_path / "backup").exit_code == 0
    assert peewit("erase", "g", "--node", WHO, "--wait").exit_code == 0
    ledger = home / LEDGER
    assert WHO not in ledger.read_text()
    assert not list((tmp_path / "backup").rglob(LEDGER))
    other = tmp_path / "other"
    monkeypatch.setenv("PEEWIT_HOME", str(other))
    back = peewit("restore", tmp_path / "backup", "--erasures", ledger, "--json")
    assert back.exit_code == 0, back.err
    assert back.json["n_erased"] == 1
    assert exported(peewit, tmp_path) == ['"ann","bob",1', '"bob","cay",1']
    assert WHO not in peewit("labels", "list", "g").out
    assert peewit("ingest", "g").exit_code == 0
    assert files_with(other) == []
    assert peewit("erase", "g", "--node", "ann").exit_code == 0
    assert len(list(Ledger(other / LEDGER).entries())) == 2, "the ledger goes on"


def test_a_ledger_left_in_the_home_is_taken(
    peewit: Peewit, home: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del source
    assert peewit("backup", tmp_path / "backup").exit_code == 0
    assert peewit("erase", "g", "--node", WHO).exit_code == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / LEDGER).write_bytes((home / LEDGER).read_bytes())
    monkeypatch.setenv("PEEWIT_HOME", str(other))
    assert peewit("restore", tmp_path / "backup", "--json").json["n_erased"] == 1


def test_what_is_no_ledger_restores_nothing(
    peewit: Peewit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peewit("graph", "create", "g")
    assert peewit("backup", tmp_path / "backup").exit_code == 0
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("what\n")
    monkeypatch.setenv("PEEWIT_HOME", str(tmp_path / "other"))
    refused = peewit("restore", tmp_path / "backup", "--erasures", wrong)
    assert refused.exit_code == 1
    assert "is no ledger of erasures" in refused.err
    assert peewit("graph", "list", "--json").json["graphs"] == []
    with pytest.raises(BadLedger):
        list(Ledger(wrong).entries())


def test_a_late_erasure_is_a_fault(
    peewit: Peewit, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del source
    monkeypatch.setenv("PEEWIT_ERASE_WITHIN", "0.001")
    hidden = peewit("erase", "g", "--node", WHO)
    assert hidden.out == "g: hidden 1 nodes, of which the graph knew 1\n"
    assert "`peewit ingest g` overwrites the files, until 20" in hidden.err
    told = peewit("doctor", "--json")
    (late,) = [each for each in told.json["findings"] if each["check"] == "erasures"]
    assert late["level"] == "fault"
    assert "peewit ingest g" in late["text"]
    assert peewit("ingest", "g").exit_code == 0
    (well,) = [
        each for each in peewit("doctor", "--json").json["findings"] if each["check"] == "erasures"
    ]
    assert well["level"] == "ok"


FRIENDS = f"src,dst\nann,bob\nbob,cay\ncay,ann\ncay,{WHO}\n{WHO},ann\n"
ROWS = (
    "node,friend,mail,joined,amount,said\n"
    f"ann,{WHO},a@x,2020-01-01,1,12-05\n"
    f"bob,{WHO},b@x,2020-01-02,2,12-06\n"
    "cay,ann,a@x,2020-01-03,3,12-07\n"
    f"{WHO},ann,only-mine,1987-06-05,98765.4321,my words\n"
)


def test_words_of_features_go_with_the_nodes_that_they_name_or_that_had_them(
    peewit: Peewit, home: Path, tmp_path: Path
) -> None:
    """Ids that are words, words of nobody else, and values that are shown as examples."""
    edges, rows = tmp_path / "edges.csv", tmp_path / "rows.csv"
    edges.write_text(FRIENDS)
    rows.write_text(ROWS)
    peewit("graph", "create", "g")
    assert peewit("ingest", "g", edges).exit_code == 0
    assert "but for 'my words' in row 3" in peewit("features", "g", rows).err
    assert peewit("erase", "g", "--node", WHO, "--wait").exit_code == 0
    for left in (WHO, "only-mine", "my words"):
        assert files_with(home, left) == []
    assert files_with(home, "a@x"), "others stay"
    more = tmp_path / "more.csv"
    more.write_text(ROWS.replace(f"{WHO},ann", f"dan,{WHO}"))
    added = peewit("features", "g", more, "--add")
    assert added.exit_code == 0, added.err
    assert files_with(home, "only-mine") == []
    assert "4 rows of" in peewit("graph", "show", "g").out


def test_words_that_are_the_id_without_its_kind_go_too(
    peewit: Peewit, home: Path, tmp_path: Path
) -> None:
    edges, rows = tmp_path / "edges.csv", tmp_path / "rows.csv"
    edges.write_text(FRIENDS)
    rows.write_text(ROWS.replace(f"bob,{WHO}", f"bob,account:{WHO}"))
    peewit("graph", "create", "g")
    told = peewit("ingest", "g", edges, "--src", "account:src", "--dst", "account:dst")
    assert told.exit_code == 0, told.err
    assert peewit("features", "g", rows, "--node", "account:node").exit_code == 0
    assert peewit("erase", "g", "--node", f"account:{WHO}", "--wait").exit_code == 0
    assert files_with(home) == []
