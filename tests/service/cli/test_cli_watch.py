"""`peewit watch` and `peewit plot` as a user calls them."""

import builtins
import os
import pty
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.cli.plot import laid_out
from peewit.service.cli.watch import sparkline
from peewit.solvers.graph import Graph
from tests.end_to_end.processes import Home
from tests.service.cli.conftest import Peewit
from tests.service.solvable import grid, two_communities


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
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"], "weight": [0.0]}), bad)
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


def test_the_layout_parts_what_hangs_together_little() -> None:
    u, v = two_communities()
    graph = Graph.from_edges(np.append(u, 60), np.append(v, 61), np.ones(len(u) + 1), n_nodes=62)
    layout = laid_out(graph, seed=0)
    assert (layout.n_nodes, layout.n_all) == (60, 62)
    for plane in (layout, laid_out(graph, seed=0, axes=(1, 2))):
        sides = np.sign(plane.places[:, 0])
        assert abs(sides[:30].sum()) == 30
        assert (sides[:30] == -sides[30:]).all()
    assert {tuple(sorted(each)) for each in layout.edges.tolist()} == {
        tuple(sorted(each))
        for each in zip(u.tolist(), v.tolist(), strict=True)
        if each[0] != each[1]
    }
    with pytest.raises(ValueError, match="axes must be below 60"):
        laid_out(graph, seed=0, axes=(1, 60))


def test_of_a_large_graph_a_sample_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peewit.service.cli.plot.MAX_NODES", 100)
    monkeypatch.setattr("peewit.service.cli.plot.MAX_EDGES", 50)
    graph = Graph.from_edges(*grid(30), np.ones(2 * 30 * 29), n_nodes=900)
    layout = laid_out(graph, seed=0, axes=(2, 3))
    assert (len(layout.nodes), layout.n_nodes) == (100, 900)
    assert 0 < len(layout.edges) <= 50
    assert np.array_equal(laid_out(graph, seed=0, axes=(2, 3)).nodes, layout.nodes)


@pytest.mark.usefixtures("processes")
def test_a_picture_is_drawn_of_classes_and_of_numbers(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    picture = tmp_path / "g.svg"
    plain = peewit("plot", graph, "-o", picture)
    assert plain.exit_code == 0, plain.err
    assert "60 nodes and" in plain.out
    assert "coloured" not in plain.out
    (tmp_path / "labels.csv").write_text("node,label\nn3,1\nn33,2\n")
    peewit("labels", "put", graph, tmp_path / "labels.csv")
    peewit("solve", graph, "--model", "stable-hfs")
    told = peewit("plot", graph, "-o", picture, "--axes", 1, 3, "--json").json
    assert told["model"] == "stable-hfs"
    assert b"<svg" in picture.read_bytes()
    peewit("solve", graph, "--model", "hfs", "--set", "target=real")
    assert peewit("plot", graph, "-o", tmp_path / "g.png", "--model", "hfs").exit_code == 0
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert peewit("plot", graph, "-o", tmp_path / "g.gif").exit_code == 2
    assert peewit("plot", graph, "-o", picture, "--axes", 2, 2).exit_code == 2
    refused = peewit("plot", graph, "-o", picture, "--model", "poisson")
    assert refused.exit_code == 1
    assert "peewit solve g --model poisson" in refused.err


def test_without_matplotlib_it_says_what_to_install(
    peewit: Peewit, graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *arguments, **named)

    for name in [each for each in sys.modules if each.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    refused = peewit("plot", graph, "-o", tmp_path / "g.png")
    assert refused.exit_code == 1
    assert "peewit[plot]" in refused.err
