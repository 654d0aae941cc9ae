"""`peewit repair`, without a server."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit

EDGES = np.random.default_rng(0).integers(0, 40, (2, 2, 2_000))
N_EDGES = int((EDGES[:, 0] != EDGES[:, 1]).sum())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of edges."""
    directory = tmp_path / "edges"
    directory.mkdir()
    for number, (src, dst) in enumerate(EDGES):
        pq.write_table(pa.table({"src": src, "dst": dst}), directory / f"{number}.parquet")
    return directory


def test_a_repair_is_made_and_told(peewit: Peewit, folder: Path) -> None:
    options = ("--node-ids", "dense", "--expected-nodes", 40, "--epsilon", 0.9)
    peewit("graph", "create", "g", "--deletions", "exact", *options)
    peewit("ingest", "g", folder)
    assert "g: nothing to repair" in peewit("repair", "g").out
    told = peewit("repair", "g", "--rebuild").out
    assert f"g: all of the edges sampled anew, {N_EDGES:,} in " in told
    found = peewit("repair", "g", "--rebuild", "--json").json
    assert found["repair"]["kind"] == "all"
    assert found["repair"]["snapshot"] == found["snapshot"] == 3
    assert peewit("repair", "g", "--json").json == {
        "wanted": None,
        "snapshot": 3,
        "repair": None,
        "fault": None,
    }
    assert "last repair" in peewit("graph", "show", "g").out
