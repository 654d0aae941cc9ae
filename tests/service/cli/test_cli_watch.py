"""`peewit watch` as a user calls it."""

import os
import pty
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.cli.graphs.watch import sparkline
from tests.end_to_end.processes import Home
from tests.service.cli.conftest import Peewit
from tests.service.solvable import two_communities


@pytest.fixture
def graph(peewit: Peewit, tmp_path: Path) -> str:
    u, v = two_communities()
    table = pa.table({"src": [f"n{each}" for each in u], "dst": [f"n{each}" for each in v]})
    pq.write_table(table, tmp_path / "edges.parquet")
    peewit("graph", "create", "g", "--seed", 1)
    assert peewit("ingest", "g", tmp_path / "edges.parquet").exit_code == 0
    return "g"


@pytest.mark.usefixtures("processes")
def test_a_graph_is_shown_once_where_there_is_no_terminal(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"], "weight": [-1.0]}), bad)
    assert peewit("ingest", graph, bad).exit_code == 1
    shown = peewit("watch", graph)
    assert shown.exit_code == 0, shown.err
    for said in ("60", "241", "217", "idle", "1 quarantined", "no jobs yet", "bad.parquet"):
        assert said in shown.out
    (tmp_path / "labels.csv").write_text("node,label\nn3,left\nn33,right\n")
    peewit("labels", "put", graph, tmp_path / "labels.csv")
    assert peewit("solve", graph, "--model", "stable-hfs").exit_code == 0
    shown = peewit("watch", graph)
    assert "solve stable-hfs" in shown.out
    assert "succeeded" in shown.out
    told = peewit("watch", graph, "--json").json
    assert (told["progress"]["n_nodes"], told["jobs"][0]["status"]) == (60, "succeeded")
    assert peewit("watch", "nobody").exit_code == 1
    assert peewit("watch", graph, "--every", 0).exit_code == 2


@pytest.mark.usefixtures("processes")
def test_watching_ends_with_a_signal(peewit: Peewit, graph: str, home: Path) -> None:
    ours, theirs = pty.openpty()
    watcher = Home(home, TERM="xterm", COLUMNS="100", LINES="30")
    process = watcher.start("watch", graph, "--every", "0.1", stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 60
    while shown.count(b"edges kept") < 3 and time.monotonic() < deadline:
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0
    os.close(ours)
    watcher.end()
    assert shown.count(b"edges kept") >= 3


def test_bars_show_the_greatest_as_full() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "  "
    assert sparkline([1, 2, 4]) == "▂▄█"
    assert len(sparkline(range(1000))) == 40
    assert sparkline(range(1000))[-1] == "█"
