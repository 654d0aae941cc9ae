"""`peewit repair`, without a server."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.service.cli.conftest import Peewit


def test_a_repair_is_made_and_told(peewit: Peewit, tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    edges = np.random.default_rng(0).integers(0, 40, (2, 2, 2_000))
    for number, ends in enumerate(edges):
        pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), folder / f"{number}.parquet")
    options = ("--node-ids", "dense", "--expected-nodes", 40, "--epsilon", 0.9)
    peewit("graph", "create", "g", "--deletions", "exact", *options)
    peewit("ingest", "g", folder)
    assert "g: nothing to repair" in peewit("repair", "g").out
    n_edges = int((edges[:, 0] != edges[:, 1]).sum())
    told = peewit("repair", "g", "--rebuild").out
    assert f"g: all of the edges sampled anew, {n_edges:,} in " in told
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


def test_a_graph_without_a_log_is_refused(peewit: Peewit) -> None:
    peewit("graph", "create", "g")
    refused = peewit("repair", "g")
    assert refused.exit_code == 1
    assert "must be exact to repair it, they are off" in refused.err
    assert peewit("repair", "nobody").exit_code == 1


def test_without_a_log_all_files_are_read_again(peewit: Peewit, tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    edges = np.random.default_rng(0).integers(0, 40, (2, 2, 2_000))
    for number, ends in enumerate(edges):
        pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), folder / f"{number}.parquet")
    peewit("graph", "create", "g", "--node-ids", "dense", "--max-edges", 100)
    peewit("ingest", "g", folder)
    n_edges = int((edges[:, 0] != edges[:, 1]).sum())
    told = peewit("repair", "g", "--rebuild")
    assert told.exit_code == 0
    assert f"g: all of the edges sampled anew, {n_edges:,} in " in told.out
    (folder / "0.parquet").unlink()
    failed = peewit("repair", "g", "--rebuild")
    assert failed.exit_code == 1
    assert "edges could not be read again" in " ".join(failed.err.split())
    assert "it is missing" in peewit("repair", "g", "--rebuild", "--json").json["fault"]
