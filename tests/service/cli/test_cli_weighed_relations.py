"""A graph of accounts whose relations do not mean the same: from tables to reasons."""

from pathlib import Path

import numpy as np
import pytest

from tests.service.cli.conftest import Peewit
from tests.service.cli.test_cli_kinds import rows_of, written

N_ACCOUNTS = 240
TEAMS = "ab"


def team(account: int) -> str:
    return TEAMS[account % 2]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Devices and cards of one team each; addresses that all share; some cells are empty."""
    rng = np.random.default_rng(1)
    rows = []
    for account in range(N_ACCOUNTS):
        for _ in range(3):
            device, card = (2 * int(k) + account % 2 for k in rng.integers(0, 20, 2))
            rows.append((account, f"d{device}", f"c{card}" if rng.random() < 0.5 else "", "w0"))
    return written(tmp_path / "events.csv", "account,device,card,wifi", rows)


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    """Who writes to anybody: as many as all others, and they mean nothing."""
    pairs = np.random.default_rng(2).integers(0, N_ACCOUNTS, (2_000, 2))
    return written(tmp_path / "messages.csv", "from,to", [tuple(pair) for pair in pairs.tolist()])


@pytest.fixture
def graph(peewit: Peewit, events: Path, messages: Path, tmp_path: Path) -> str:
    assert peewit("graph", "create", "g", "--seed", 1).exit_code == 0
    via = "device:device,card:card,wifi:wifi"
    read = peewit("ingest", "g", events, "--entity", "account:account", "--via", via)
    assert read.exit_code == 0, read.err
    ends = ("--src", "account:from", "--dst", "account:to", "--relation", "message")
    read = peewit("ingest", "g", messages, *ends)
    assert read.exit_code == 0, read.err
    labels = written(tmp_path / "l.csv", "who,label", [(n, team(n)) for n in range(60)])
    put = peewit("labels", "put", "g", labels, "--node", "account:who")
    assert put.exit_code == 0, put.err
    return "g"


@pytest.mark.usefixtures("processes")
def test_labels_weigh_relations_and_reasons_name_them(
    peewit: Peewit, graph: str, events: Path
) -> None:
    listed = peewit("graph", "relations", graph, "--json").json["relations"]
    assert [each["name"] for each in listed] == ["device", "card", "wifi", "message"]
    n_cards = sum(row["card"] != "" for row in rows_of(events.read_text()))
    assert listed[1]["n_edges"] == n_cards
    assert listed[2]["n_nodes"] == N_ACCOUNTS + 1
    assert "relation card" in peewit("graph", "show", graph).out

    solved = peewit("solve", graph, "--json")
    assert solved.exit_code == 0, solved.err
    relations = {each["name"]: each for each in solved.json["result"]["stats"]["relations"]}
    assert relations["message"]["weight"] < relations["device"]["weight"]
    table = rows_of(peewit("predictions", graph).out)
    others = [row for row in table if row["labeled"] == "false"]
    right = sum(row["label"] == team(int(row["id"])) for row in others)
    assert right >= 0.97 * len(others)

    why = peewit("why", graph, "account:100")
    assert why.exit_code == 0, why.err
    assert "(by device" in why.out or "(by card" in why.out
    assert "message" not in why.out or relations["message"]["weight"] > 0


@pytest.mark.usefixtures("processes")
def test_weights_that_are_asked_for_are_kept_to(peewit: Peewit, graph: str) -> None:
    only = "device=0,card=0,wifi=0,message=2"
    solved = peewit("solve", graph, "--model", "stable-hfs", "--set", f"relations={only}", "--json")
    assert solved.exit_code == 0, solved.err
    figures = solved.json["result"]["stats"]
    assert figures["relation_weights"] == only
    assert {each["reading"] for each in figures["relations"]} == {"given"}
    lines = peewit("solve", graph, "--set", f"relations={only}").err
    assert "as asked relations count message 2; left out: device, card, wifi" in lines
    refused = peewit("solve", graph, "--set", "relations=cards=1")
    assert refused.exit_code == 1
    assert "the relations are device, card, wifi, message" in refused.err
    assert peewit("solve", graph, "--set", "relations=card=-1").exit_code == 2


@pytest.mark.usefixtures("processes")
def test_relations_without_edges_are_not_weighed(
    peewit: Peewit, events: Path, tmp_path: Path
) -> None:
    peewit("graph", "create", "g", "--seed", 1, "--deletions", "exact")
    via = "device:device,card:card"
    read = peewit("ingest", "g", events, "--entity", "account:account", "--via", via)
    assert read.exit_code == 0, read.err
    one = written(tmp_path / "one.csv", "from,to", [(1, 2)])
    ends = ("--src", "account:from", "--dst", "account:to", "--relation", "gift")
    assert peewit("ingest", "g", one, *ends).exit_code == 0
    gone = peewit("delete", "g", "account:1", "account:2", "--relation", "gift")
    assert gone.exit_code == 0, gone.err
    labels = written(tmp_path / "l.csv", "who,label", [(n, team(n)) for n in range(30)])
    assert peewit("labels", "put", "g", labels, "--node", "account:who").exit_code == 0
    stats = peewit("solve", "g", "--json").json["result"]["stats"]
    assert [each["name"] for each in stats["relations"]] == ["device", "card"]
    assert "gift" not in stats["relation_weights"]
    asked = peewit("solve", "g", "--set", "relations=card=2,gift=3")
    assert "as asked relations count device 1, card 2\n" in asked.err.replace(";", "\n")
    refused = peewit("solve", "g", "--set", "relations=card=0,device=0")
    assert "must leave a relation above 0" in refused.err


def test_an_erased_account_leaves_every_relation(peewit: Peewit, graph: str) -> None:
    before = peewit("graph", "relations", graph, "--json").json["relations"]
    erased = peewit("erase", graph, "--node", "account:7", "--wait")
    assert erased.exit_code == 0, erased.err
    after = peewit("graph", "relations", graph, "--json").json["relations"]
    fewer = {
        each["name"]
        for each, old in zip(after, before, strict=True)
        if each["edges_kept"] < old["edges_kept"]
    }
    assert {"device", "wifi", "message"} <= fewer


def test_directions_are_said_with_a_file_or_later(peewit: Peewit, messages: Path) -> None:
    assert peewit("graph", "create", "m", "--seed", 1).exit_code == 0
    ends = ("--src", "account:from", "--dst", "account:to")
    unnamed = peewit("ingest", "m", messages, *ends, "--dry-run")
    assert "say --relation NAME --directed to have solves count" in unnamed.out
    refused = peewit("ingest", "m", messages, *ends, "--directed")
    assert refused.exit_code == 1
    assert "directed needs relation, the name of the kind of edges" in refused.err
    named = (*ends, "--relation", "message")
    assert (
        "say --directed to have solves" in peewit("ingest", "m", messages, *named, "--dry-run").out
    )
    read = peewit("ingest", "m", messages, *named, "--directed")
    assert read.exit_code == 0, read.err
    assert "note" not in read.err
    assert "solves of m count what its nodes send and receive in message" in read.err
    settings = peewit("graph", "show", "m", "--json").json["settings"]
    assert settings["directed"] == ["message"]
    (listed,) = peewit("graph", "relations", "m", "--json").json["relations"]
    assert listed["is_directed"]
    assert peewit("graph", "relations", "m").out.split()[-1] == "yes"
    assert peewit("graph", "set", "m", "--directed", "").exit_code == 0
    assert peewit("graph", "show", "m", "--json").json["settings"]["directed"] == []
    (listed,) = peewit("graph", "relations", "m", "--json").json["relations"]
    assert not listed["is_directed"]
    two = ("--directed", "transfer, referral", "--answers", "listing,account")
    assert peewit("graph", "set", "m", *two).exit_code == 0
    settings = peewit("graph", "show", "m", "--json").json["settings"]
    assert settings["directed"] == ["transfer", "referral"]
    assert settings["answers"] == ["listing", "account"]
    refused = peewit("graph", "set", "m", "--directed", "a=b")
    assert refused.exit_code == 2
    assert "directed must have 1 to 64 characters" in refused.err
