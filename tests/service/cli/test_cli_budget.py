"""The budget of edges by command: computed, shown, lowered, raised, refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edge_budget import MOST_EDGES, edge_budget
from tests.service.cli.conftest import Peewit

N_PAIRS = 100 * 99 // 2


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """All pairs of a hundred nodes."""
    u, v = np.triu_indices(100, 1)
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": u, "dst": v}), path)
    return path


def create(peewit: Peewit, *options: object) -> None:
    peewit("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", 100, *options)


def test_the_budget_follows_from_the_memory_and_is_kept_with_the_graph(
    peewit: Peewit, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(peewit)
    settings = peewit("graph", "show", "g", "--json").json["settings"]
    assert (settings["epsilon"], settings["max_edges"]) == (None, edge_budget())
    monkeypatch.setenv("PEEWIT_MEMORY_LIMIT", "2GiB")
    assert peewit("graph", "show", "g", "--json").json["settings"] == settings
    peewit("graph", "set", "g", "--max-edges", 0)
    assert peewit("graph", "show", "g", "--json").json["settings"]["max_edges"] == 5_000_000
    peewit("graph", "create", "exact", "--deletions", "exact")
    exact = peewit("graph", "show", "exact", "--json").json["settings"]
    assert exact["max_edges"] == 2_500_000


def test_an_epsilon_is_asked_for_instead_and_taken_back(peewit: Peewit) -> None:
    create(peewit, "--epsilon", 0.5)
    settings = peewit("graph", "show", "g", "--json").json["settings"]
    assert (settings["epsilon"], settings["max_edges"]) == (0.5, None)
    peewit("graph", "set", "g", "--epsilon", 0)
    settings = peewit("graph", "show", "g", "--json").json["settings"]
    assert settings["epsilon"] is None
    assert 0 < settings["max_edges"] <= MOST_EDGES


def test_all_edges_are_kept_until_the_budget_is_lowered_and_again_once_it_is_raised(
    peewit: Peewit, edges: Path
) -> None:
    create(peewit)
    assert f"snapshot 1: all {N_PAIRS:,} edges kept" in peewit("ingest", "g", edges).out
    peewit("graph", "set", "g", "--max-edges", 1_000)
    lowered = peewit("ingest", "g")
    assert f"of {N_PAIRS:,} edges kept (at most 1,000, whatever comes; epsilon" in lowered.out
    assert "note: " in lowered.err
    shown = peewit("graph", "show", "g")
    assert "as many as max_edges allows" in shown.err
    raised = peewit("graph", "set", "g", "--max-edges", 10_000)
    assert "all edges will be read again; `peewit ingest g` does it now" in raised.err
    assert f"all {N_PAIRS:,} edges kept" in peewit("ingest", "g").out
    assert peewit("graph", "show", "g").err == ""


def test_what_nothing_keeps_cannot_be_had_again(peewit: Peewit, edges: Path) -> None:
    create(peewit, "--max-edges", 500)
    peewit("ingest", "g", edges)
    content = edges.read_bytes()
    edges.unlink()
    refused = peewit("graph", "set", "g", "--max-edges", 10_000)
    assert refused.exit_code != 0
    told = " ".join(refused.err.split())
    assert f"max_edges cannot be raised while files are missing ({edges})" in told
    assert "put them back and try again" in told
    assert peewit("graph", "show", "g", "--json").json["settings"]["max_edges"] == 500
    peewit("graph", "set", "g", "--max-edges", 400)  # a lower one needs nothing
    edges.write_bytes(content)
    assert peewit("graph", "set", "g", "--max-edges", 10_000).exit_code == 0
