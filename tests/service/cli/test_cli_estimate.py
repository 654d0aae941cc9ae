"""`peewit estimate`, and `peewit solve` of what cannot fit."""

import re
from pathlib import Path

import pytest

from tests.service.api.conftest import PARQUET, community_edges
from tests.service.cli.conftest import Peewit


@pytest.fixture
def ingested(peewit: Peewit, tmp_path: Path) -> Peewit:
    """A graph of 60 nodes."""
    path = tmp_path / "edges.parquet"
    path.write_bytes(community_edges(PARQUET))
    assert peewit("graph", "create", "g").exit_code == 0
    assert peewit("ingest", "g", path).exit_code == 0
    return peewit


def test_an_estimate_tells_form_memory_and_that_time_is_not_known(ingested: Peewit) -> None:
    told = ingested("estimate", "g", "--model", "lapsvm", "--set", "precision=float32")
    assert told.exit_code == 0
    assert "dense, float32, 0 MiB" in told.out
    assert "spectral embedding" in told.out
    assert "no equal solve tells how long it takes" in told.err
    found = ingested("estimate", "g", "--model", "lapsvm", "--json").json
    assert (found["fits"], found["gram"], found["n_points"]) == (True, "dense", 60)


def test_an_estimate_tells_what_exact_deletions_add_to_ingest(
    ingested: Peewit, tmp_path: Path
) -> None:
    told = ingested("estimate", "g")
    assert re.search(
        r"exact deletions +would add a log of 0.0 to 0.0 MiB on disk for 241 edges, 1.34 of the "
        r"CPU and [1-9]\d* MiB more memory of ingest",
        told.out,
    )
    peewit = ingested
    peewit("graph", "create", "exact", "--deletions", "exact")
    peewit("ingest", "exact", tmp_path / "edges.parquet")
    cost = peewit("estimate", "exact", "--json").json["exact_deletions"]
    assert (cost["are_on"], cost["n_edges"]) == (True, 241)
    log_bytes = peewit("graph", "show", "exact", "--json").json["deleted"]["log_bytes"]
    assert cost["log_bytes_least"] == 3 * 241 < log_bytes  # small files are mostly headers
    looked = peewit("ingest", "exact", tmp_path / "edges.parquet", "--dry-run", "--json").json
    found = looked["exact_deletions"]
    assert (found["n_edges"], found["log_bytes_most"]) == (2 * 241, 12 * 2 * 241)
    off = peewit("ingest", "g", tmp_path / "edges.parquet", "--dry-run", "--json").json
    more = looked["memory_bytes"] - off["memory_bytes"]
    assert more == pytest.approx(cost["memory_bytes"], rel=1e-3)
    assert more > 0
    told = peewit("ingest", "exact", tmp_path / "edges.parquet", "--dry-run")
    assert "exact deletions add a log of 0.0 to 0.0 MiB on disk for 482 edges" in told.out


def test_what_cannot_fit_fails_before_it_runs(
    ingested: Peewit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEEWIT_CHILD_MEMORY_BYTES", "1MiB")
    asked = ("g", "--model", "lapsvm")
    told = ingested("estimate", *asked)
    assert told.exit_code == 1
    assert "it does not fit: gram 'dense' in float32 needs" in told.err
    for command in ("solve", "tune"):
        refused = ingested(command, *asked)
        assert refused.exit_code == 1
        assert "gram 'dense' in float32 needs" in refused.err
        assert "job" not in refused.err
