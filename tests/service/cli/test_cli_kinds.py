"""A graph of accounts and devices: each operation that names nodes heeds their kinds."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from tests.service.cli.conftest import Peewit

N_ACCOUNTS, N_DEVICES = 90, 30
TEAMS = "ab"


def written(path: Path, header: str, rows: list[tuple[object, ...]]) -> Path:
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def team(number: int) -> str:
    return TEAMS[number % 2]


@pytest.fixture
def logins(tmp_path: Path) -> Path:
    """Accounts that share devices of their team; both are called by numbers from 0 on."""
    rng = np.random.default_rng(0)
    rows = [
        (account, 2 * int(rng.integers(0, N_DEVICES // 2)) + account % 2)
        for account in range(N_ACCOUNTS)
        for _ in range(3)
    ]
    return written(tmp_path / "logins.csv", "account_id,device_id", rows)


@pytest.fixture
def graph(peewit: Peewit, logins: Path, tmp_path: Path) -> str:
    assert peewit("graph", "create", "g", "--seed", 1).exit_code == 0
    read = peewit("ingest", "g", logins, "--src", "account:account_id", "--dst", "device:device_id")
    assert read.exit_code == 0, read.err
    labels = written(tmp_path / "labels.csv", "who,label", [(n, team(n)) for n in range(20)])
    put = peewit("labels", "put", "g", labels, "--node", "account:who")
    assert put.exit_code == 0, put.err
    return "g"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.usefixtures("processes")
def test_every_answer_is_about_the_kind_that_has_labels(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    shown = peewit("graph", "show", graph, "--json").json
    assert shown["settings"]["node_ids"] == "typed"
    assert shown["nodes"] == N_ACCOUNTS + N_DEVICES
    solved = peewit("solve", graph, "--json")
    assert solved.exit_code == 0, solved.err
    result = solved.json["result"]
    assert result["n_nodes"] == N_ACCOUNTS
    assert result["n_unreachable"] == 0

    table = rows_of(peewit("predictions", graph).out)
    assert {row["kind"] for row in table} == {"account"}
    assert sorted(int(row["id"]) for row in table) == list(range(N_ACCOUNTS))
    assert all(row["node"] == f"account:{row['id']}" for row in table)
    assert all(row["label"] == team(int(row["id"])) for row in table if row["labeled"] == "false")
    best = rows_of(peewit("predictions", graph, "--sort", "probability:a", "--top", 5).out)
    assert {(row["kind"], row["label"]) for row in best} == {("account", "a")}

    truth = written(tmp_path / "t.csv", "who,label", [(n, team(n)) for n in range(N_ACCOUNTS)])
    judged = peewit("evaluate", graph, truth, "--node", "account:who", "--json")
    assert judged.json["of_classes"]["n_judged"] == N_ACCOUNTS - 20
    for strategy in ("margin", "random", "coverage", "variance"):
        asked = peewit("suggest", graph, "--strategy", strategy, "-k", 50, "--json")
        assert asked.exit_code == 0, asked.err
        kinds = {each["node"].partition(":")[0] for each in asked.json["suggestions"]}
        assert kinds == {"account"}, strategy

    why = peewit("why", graph, "account:50")
    assert "device:" in why.out  # others are on the way
    bare = peewit("evaluate", graph, truth, "--node", "who")
    assert "KIND:ID" in bare.err
    assert "KIND:ID" in peewit("why", graph, "50").err
    refused = peewit("why", graph, "device:5")
    assert refused.exit_code == 1
    assert "about nodes of kind account; `graph set --answers` names others" in refused.err


@pytest.mark.usefixtures("processes")
def test_answers_may_be_about_another_kind(peewit: Peewit, graph: str) -> None:
    told = peewit("graph", "set", graph, "--answers", "device,devise")
    assert told.exit_code == 0
    assert "no node is of kind devise yet; the graph has account, device" in told.err
    assert peewit("graph", "set", graph, "--answers", "devise").exit_code == 0
    refused = peewit("solve", graph)
    assert refused.exit_code != 0
    assert "kinds that the graph has, account, device, got devise" in refused.err
    assert peewit("graph", "set", graph, "--answers", "device").err == ""
    solved = peewit("solve", graph, "--json")
    assert solved.json["result"]["n_nodes"] == N_DEVICES
    table = rows_of(peewit("predictions", graph).out)
    assert {(row["kind"], row["label"] == team(int(row["id"]))) for row in table} == {
        ("device", True)
    }
    asked = peewit("suggest", graph, "--strategy", "random", "-k", 50, "--json").json
    assert len(asked["suggestions"]) == N_DEVICES
    assert all(each["prediction"]["node"] == each["node"] for each in asked["suggestions"])


@pytest.mark.usefixtures("processes")
def test_a_node_without_its_kind_is_refused_at_every_door(
    peewit: Peewit, graph: str, logins: Path, tmp_path: Path
) -> None:
    bare = written(tmp_path / "bare.csv", "who,label", [(3, "a")])
    named = written(tmp_path / "nodes.csv", "who", [("account:3",), ("4",)])
    for command in (
        ("labels", "put", graph, bare, "--node", "who"),
        ("labels", "remove", graph, "3"),
        ("erase", graph, "--node", "3"),
        ("erase", graph, "--nodes", named, "--column", "who"),
        ("features", graph, written(tmp_path / "f.csv", "node,x", [(3, 1.0)]), "--node", "node"),
    ):
        refused = peewit(*command)
        assert refused.exit_code != 0, command
        assert "KIND:ID" in refused.err, (command, refused.err)
    again = written(tmp_path / "more.csv", "src,dst", [(1, 2)])
    refused = peewit("ingest", graph, again, "--src", "src", "--dst", "dst")
    assert refused.exit_code != 0
    assert "KIND:src" in refused.err


def test_kinds_come_with_the_first_table_or_never(
    peewit: Peewit, logins: Path, tmp_path: Path
) -> None:
    peewit("graph", "create", "plain")
    assert peewit("ingest", "plain", logins, "--src", "account_id", "--dst", "device_id").out
    more = written(tmp_path / "more.csv", "a,b", [(1, 2)])
    refused = peewit("ingest", "plain", more, "--src", "account:a", "--dst", "device:b")
    assert refused.exit_code != 0
    assert "whose nodes are string ids without kinds; create another graph" in refused.err
    assert "src must not name a kind" in refused.err
    refused = peewit("ingest", "plain", more, "--entity", "account:a", "--via", "device:b")
    assert "entity must not name a kind of nodes, 'account'" in refused.err
    features = written(tmp_path / "features.csv", "a,x", [(1, 2)])
    refused = peewit("features", "plain", features, "--node", "account:a")
    assert "node must not name a kind of nodes, 'account'" in refused.err
    set_answers = peewit("graph", "set", "plain", "--answers", "account")
    assert "needs node_ids='typed', got 'string'" in set_answers.err
    peewit("graph", "create", "numbers", "--node-ids", "int64")
    refused = peewit("ingest", "numbers", more, "--src", "account:a", "--dst", "device:b")
    assert "whose nodes are int64 ids without kinds" in refused.err


def test_labels_that_are_exported_go_in_again(peewit: Peewit, graph: str, tmp_path: Path) -> None:
    own = written(tmp_path / "own.csv", "who,label", [("device:1", "a")])
    assert peewit("labels", "put", graph, own, "--node", "who").exit_code == 0
    out = tmp_path / "out.csv"
    assert peewit("labels", "export", graph, out).exit_code == 0
    before = out.read_text()
    put = peewit("labels", "put", graph, out)
    assert put.exit_code == 0, put.err
    assert peewit("labels", "export", graph).out == before
    mixed = written(tmp_path / "mixed.csv", "who,label", [(3, "a"), ("account:4", "b")])
    refused = peewit("labels", "put", graph, mixed)
    assert "say who in place of account:who, got account:4 in row 1" in refused.err


@pytest.mark.usefixtures("processes")
def test_deletes_and_erasures_name_kinds(peewit: Peewit, logins: Path, tmp_path: Path) -> None:
    peewit("graph", "create", "g", "--deletions", "exact")
    names = ("--src", "account:account_id", "--dst", "device:device_id")
    peewit("ingest", "g", logins, *names)
    before = peewit("graph", "show", "g", "--json").json["n_live"]
    gone = [tuple(line.split(",")) for line in logins.read_text().splitlines()[1:2]]
    pairs = written(tmp_path / "gone.csv", "account_id,device_id", gone)
    deleted = peewit("delete", "g", "--edges", pairs, *names)
    assert deleted.exit_code == 0, deleted.err
    peewit("ingest", "g")
    after = peewit("graph", "show", "g", "--json").json["n_live"]
    assert before - 3 <= after < before
    leaves = written(tmp_path / "leaves.csv", "who", [("7",), ("8",)])
    erased = peewit("erase", "g", "--nodes", leaves, "--column", "account:who", "--wait")
    assert erased.exit_code == 0, erased.err
    exported = peewit("graph", "export", "g", "-o", tmp_path / "left.csv")
    assert exported.exit_code == 0, exported.err
    with (tmp_path / "left.csv").open() as file:
        names_left = {name for row in csv.reader(file) for name in row[:2]}
    assert "account:7" not in names_left
    assert {"device:7", "account:6"} <= names_left
    assert peewit("graph", "create", "again", "--node-ids", "typed").exit_code == 0
    back = peewit("ingest", "again", tmp_path / "left.csv")  # it names the kind of each node
    assert back.exit_code == 0, back.err
    n_left = len(names_left - {"src", "dst"})
    assert peewit("graph", "show", "again", "--json").json["nodes"] == n_left


def test_ids_that_two_columns_share_are_told(peewit: Peewit, logins: Path, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    names = ("--src", "account_id", "--dst", "device_id")
    looked = peewit("ingest", "g", logins, *names, "--dry-run")
    note = "0 is in 'account_id' and in 'device_id': one node"
    assert note in looked.out
    assert note in peewit("ingest", "g", logins, *names).err
    offers = written(tmp_path / "o.csv", "account_id,listing_id", [(1, "x"), (2, 7)])
    read = peewit("ingest", "g", offers, "--src", "account_id", "--dst", "listing_id")
    assert "7 is in 'listing_id' and in the graph already, which has 'account_id'" in read.err
    again = peewit("ingest", "g", offers, "--src", "account_id", "--dst", "listing_id")
    assert "one node" not in again.err
    pairs = written(tmp_path / "p.csv", "from,to", [("p", "q"), ("q", "p")])
    assert "one node" not in peewit("ingest", "g", pairs, "--src", "from", "--dst", "to").err
    peewit("graph", "create", "t")
    typed = ("--src", "account:account_id", "--dst", "device:device_id")
    assert "one node" not in peewit("ingest", "t", logins, *typed).err


@pytest.mark.usefixtures("processes")
def test_features_are_of_a_kind(peewit: Peewit, graph: str, tmp_path: Path) -> None:
    rows = [(n, n % 2, n / 90) for n in range(N_ACCOUNTS)]
    table = written(tmp_path / "f.csv", "account,x,y", rows)
    put = peewit("features", graph, table, "--node", "account:account")
    assert put.exit_code == 0, put.err
    assert peewit("graph", "show", graph, "--json").json["nodes"] == N_ACCOUNTS + N_DEVICES
    peewit("graph", "create", "alone")  # features come first, and make it typed
    assert peewit("features", "alone", table, "--node", "account:account").exit_code == 0
    shown = peewit("graph", "show", "alone", "--json").json
    assert (shown["settings"]["node_ids"], shown["nodes"]) == ("typed", N_ACCOUNTS)


def test_a_column_of_changes_that_asks_for_no_delete_is_told(
    peewit: Peewit, tmp_path: Path
) -> None:
    peewit("graph", "create", "g")
    changes = written(tmp_path / "c.csv", "src,dst,op", [("a", "b", "insert"), ("b", "c", "u")])
    note = "column 'op' is passed over, as it asks for no delete in the first rows ('insert', 'u')"
    assert note in peewit("ingest", "g", changes, "--dry-run").out
    assert note in peewit("ingest", "g", changes).err


def test_rows_that_do_not_hold_any_more_are_told(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    path = written(
        tmp_path / "e.csv", "src,dst,status", [("a", "b", "open"), ("b", "c", "Deleted")]
    )
    told = peewit("ingest", "g", path)
    assert "column 'status' is passed over, and says that 1 of the first rows does not" in told.err


def test_a_file_that_comes_packed_once_more_is_told(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    plain = written(tmp_path / "e.csv", "src,dst", [("a", "b")])
    packed = tmp_path / "e.csv.gz"
    assert "note" not in peewit("ingest", "g", plain).err
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    note = f"note: {packed} is the name of another file too, unpacked or packed otherwise"
    assert note in peewit("ingest", "g", packed).err
    assert "packed" not in peewit("ingest", "g", packed).err
    peewit("graph", "create", "both")
    assert "is the name of another file too" in peewit("ingest", "both", tmp_path).err


def test_a_column_that_looks_like_weights_is_told(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    path = written(tmp_path / "pay.csv", "src,dst,Amount", [("a", "b", 7)])
    note = "column 'Amount' is passed over, and every edge counts 1; say --weight Amount"
    assert note in peewit("ingest", "g", path, "--dry-run").out
    assert "passed over" not in peewit("ingest", "g", path, "--weight", "Amount").err


def test_columns_say_the_kinds_of_the_nodes_of_each_row(peewit: Peewit, tmp_path: Path) -> None:
    header = "relation,src_kind,src,dst_kind,dst"
    rows = [("use", "account", 1, "device", 1), ("pay", "account", 1, "card", "c")]
    path = written(tmp_path / "typed.csv", header, rows)
    peewit("graph", "create", "g")
    kinds = ("--src-kind-column", "src_kind", "--dst-kind-column", "dst_kind")
    options = (*kinds, "--relation-column", "relation")
    dry = peewit("ingest", "g", path, *options, "--dry-run", "--json")
    assert dry.exit_code == 0, dry.err
    assert dry.json["files"][0]["first_rows"][0][:2] == ["account:1", "device:1"]
    read = peewit("ingest", "g", path, *options)
    assert read.exit_code == 0, read.err
    assert peewit("graph", "show", "g", "--json").json["settings"]["node_ids"] == "typed"
    out = tmp_path / "out.csv"
    assert peewit("graph", "export", "g", "-o", out).exit_code == 0
    edges = {(row["src"], row["dst"], row["relation"]) for row in rows_of(out.read_text())}
    assert edges == {("account:1", "device:1", "use"), ("account:1", "card:c", "pay")}
    (tmp_path / "more").mkdir()
    more = written(tmp_path / "more" / "more.csv", header, [("use", "shop", 1, "device", 1)])
    added = peewit("source", "add", "g", more.parent, *options)
    assert added.exit_code == 0, added.err
    assert peewit("ingest", "g").exit_code == 0
    assert peewit("graph", "show", "g", "--json").json["edges_seen"] == 3
    refused = peewit("ingest", "g", path, *options, "--src", "account:src")
    assert "src_kind_column must be left out where src names the kind 'account'" in refused.err
