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


def test_without_a_log_all_files_are_read_again(peewit: Peewit, folder: Path) -> None:
    peewit("graph", "create", "g", "--node-ids", "dense", "--max-edges", 100)
    peewit("ingest", "g", folder)
    told = peewit("repair", "g", "--rebuild")
    assert told.exit_code == 0
    assert f"g: all of the edges sampled anew, {N_EDGES:,} in " in told.out
    (folder / "0.parquet").unlink()
    failed = peewit("repair", "g", "--rebuild")
    assert failed.exit_code == 1
    assert "edges could not be read again" in " ".join(failed.err.split())
    failed = peewit("repair", "g", "--rebuild", "--json")
    assert (failed.exit_code, "it is missing" in failed.json["fault"]) == (1, True)
