"""What commands say when they fail: to people, and to programs with ``--json``."""

import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.service.cli.conftest import Outcome, Peewit


def _error(outcome: Outcome) -> dict[str, Any]:
    """The last line on stderr."""
    assert outcome.out == ""
    error = json.loads(outcome.err.splitlines()[-1])["error"]
    assert error["exit_code"] == outcome.exit_code
    assert isinstance(error, dict)
    return error


def test_failures_are_json_in_the_form_of_the_api(peewit: Peewit, tmp_path: Path) -> None:
    missing = _error(peewit("graph", "show", "nobody", "--json"))
    assert missing["type"] == "urn:peewit:problem:graph-not-found"
    assert (missing["title"], missing["exit_code"]) == ("Graph not found", 1)
    assert missing["detail"].startswith("no graph 'nobody'")
    peewit("graph", "create", "g")
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\na,x\nb,x\nb,y\n")
    twice = _error(peewit("labels", "put", "g", labels, "--json"))
    assert (twice["title"], twice["argument"]) == ("Invalid content", "node")
    assert "'b' has 'x' in row 1 and 'y' in row 2" in twice["detail"]
    labels.write_text("node,label\na,x\n")
    unknown = _error(peewit("labels", "put", "g", labels, "--json"))
    assert (unknown["title"], unknown["refused"], unknown["n_refused"]) == (
        "Unknown nodes",
        ["a"],
        1,
    )


@pytest.mark.parametrize(
    "arguments",
    [("graph", "show"), ("graph", "show", "g", "--bla"), ("nothing",), ("jobs", "list", "-n", "x")],
)
def test_wrong_usage_is_json_too(peewit: Peewit, arguments: tuple[str, ...]) -> None:
    error = _error(peewit(*arguments, "--json"))
    assert (error["title"], error["exit_code"]) == ("Wrong usage", 2)


def test_broken_rules_are_told_in_our_words(
    peewit: Peewit, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "'-n': must be an integer, got 'x'" in peewit("jobs", "list", "-n", "x").err
    assert "'-n': must be at least 1, got '0'" in peewit("jobs", "list", "-n", "0").err
    wrong = peewit("jobs", "list", "--status", "lost").err
    assert "'--status': 'lost' is not one of 'queued', 'running'," in wrong
    assert wrong.endswith("'cancelled'.\n")
    monkeypatch.setenv("PEEWIT_THREADS", "many")
    monkeypatch.setenv("PEEWIT_MEMORY_LIMIT", "much")
    assert peewit("graph", "list").err == (
        "peewit: PEEWIT_THREADS must be an integer, got 'many'; "
        "PEEWIT_MEMORY_LIMIT must be a number of bytes, such as 2.5GiB, got 'much'\n"
    )


def test_advice_names_options(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    table = tmp_path / ("long" * 60) / "table.csv"
    table.parent.mkdir()
    table.write_text("sender,receiver\na,b\n")
    assert "say --src sender --dst receiver" in peewit("ingest", "g", table).err
    assert "say --node COLUMN with" in peewit("labels", "put", "g", table).err
    table.write_text("1,2\n")
    assert "--src '#1' --dst '#2'" in peewit("ingest", "g", table, "--dry-run").out


@pytest.mark.usefixtures("processes")
def test_a_question_that_nobody_answers_deletes_nothing(peewit: Peewit) -> None:
    peewit("graph", "create", "g")
    assert "add --yes" in peewit("graph", "delete", "g").err
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "peewit", "graph", "delete", "g"])
    said = b""
    while b"y/N" not in said:
        said += os.read(terminal, 1000)
    os.write(terminal, b"\x04")
    while b"--yes" not in said:
        said += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    os.close(terminal)
    assert b"g stays; --yes deletes without a question" in said
    assert peewit("graph", "show", "g").exit_code == 0


def test_negative_integers_are_nodes_and_no_options(peewit: Peewit, tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst\n-5,1\n1,2\n")
    peewit("graph", "create", "g", "--node-ids", "int64")
    peewit("ingest", "g", edges)
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\n-5,x\n")
    peewit("labels", "put", "g", labels)
    assert peewit("labels", "remove", "g", "-5").err.startswith("removed 1 labels")
    assert "has no predictions yet" in peewit("why", "g", "-5").err
    assert "No such option" in peewit("why", "g", "-x").err
