"""The budget of edges by command: computed, shown, lowered, raised, refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edge_budget import MOST_EDGES, edge_budget
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
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
    assert "put the files back and try again" in told
    assert peewit("graph", "show", "g", "--json").json["settings"]["max_edges"] == 500
    peewit("graph", "set", "g", "--max-edges", 400)  # a lower one needs nothing
    edges.write_bytes(content)
    assert peewit("graph", "set", "g", "--max-edges", 10_000).exit_code == 0


def test_a_lower_epsilon_is_refused_where_files_are_missing(peewit: Peewit, edges: Path) -> None:
    create(peewit, "--epsilon", 0.8)
    peewit("ingest", "g", edges)
    edges.unlink()
    refused = peewit("graph", "set", "g", "--epsilon", 0.5)
    assert refused.exit_code != 0
    told = " ".join(refused.err.split())
    assert f"epsilon cannot be lowered or taken back while files are missing ({edges})" in told
    assert peewit("graph", "set", "g", "--epsilon", 0.9).exit_code == 0


def test_a_raise_is_refused_while_a_store_does_not_answer(
    peewit: Peewit, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(peewit, "--max-edges", 500)
    peewit("ingest", "g", edges)

    def unreachable(_source: EdgeFiles) -> list[EdgeFile]:
        raise ConnectionError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(EdgeFiles, "list", unreachable)
        refused = peewit("graph", "set", "g", "--max-edges", 10_000)
    told = " ".join(refused.err.split())
    assert refused.exit_code == 1
    assert "max_edges cannot be raised now: the edges that were dropped must be read again" in told
    assert f"{edges} cannot be read now: no answer; try again once it can" in told
    assert peewit("graph", "show", "g", "--json").json["settings"]["max_edges"] == 500


def test_edges_that_could_not_be_read_again_are_told_of(
    peewit: Peewit, edges: Path, tmp_path: Path
) -> None:
    create(peewit, "--max-edges", 500)
    more = tmp_path / "more.parquet"
    pq.write_table(pq.read_table(edges).slice(0, 4_000), more)
    peewit("ingest", "g", edges, more)  # the buffer lets go of the first for the second
    peewit("graph", "set", "g", "--max-edges", 10_000)
    content = edges.read_bytes()
    edges.unlink()
    told = " ".join(peewit("ingest", "g").err.split())
    assert "the graph stays as it is" not in told
    assert "edges could not be read again" in told
    assert f"{edges}: it is missing" in told
    assert "bring the files back and ingest" in told
    shown = peewit("graph", "show", "g")
    assert "fewer than max_edges=10,000 allows" in " ".join(shown.err.split())
    assert "it is missing" in peewit("graph", "show", "g", "--json").json["repair_fault"]
    edges.write_bytes(content)
    assert f"{N_PAIRS:,} different pairs, all kept" in peewit("ingest", "g").out
    assert peewit("graph", "show", "g", "--json").json["repair_fault"] is None


def test_a_limit_on_memory_leaves_room_for_few_edges_whatever_the_budget(
    peewit: Peewit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"src": ["a", "b", "c"], "dst": ["b", "c", "a"]})
    pq.write_table(table, tmp_path / "few.parquet")
    peewit("graph", "create", "g", "--expected-nodes", 1_000, "--max-edges", MOST_EDGES)
    monkeypatch.setenv("PEEWIT_MEMORY_LIMIT", "800MiB")
    ingested = peewit("ingest", "g", tmp_path / "few.parquet")
    assert (ingested.exit_code, ingested.err) == (0, ingested.err)
    assert "all 3 edges kept" in ingested.out
