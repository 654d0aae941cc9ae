"""`peewit certify`, without a server."""

from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit
from tests.streaming.streamed import random_file

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def graph(peewit: Peewit, tmp_path: Path) -> str:
    random_file(4).write(tmp_path / "edges.parquet", "string")
    peewit("graph", "create", "g", "--expected-nodes", 60, "--max-edges", 600)
    assert peewit("ingest", "g", tmp_path / "edges.parquet").exit_code == 0
    return "g"


def test_snapshot_is_certified_and_shown(peewit: Peewit, graph: str) -> None:
    shown = peewit("graph", "show", graph, "--json").json
    assert shown["certificate"] is None
    done = peewit("certify", graph, "--set", "gap=0.2", "--passes", 30, "--json").json
    assert (done["status"], done["kind"]) == ("succeeded", "certify")
    assert done["parameters"] == {"gap": 0.2, "passes": 30}
    certified = done["result"]["epsilon_certified"]
    assert 0.0 < done["result"]["epsilon_least"] <= certified
    assert peewit("graph", "show", graph, "--json").json["certificate"]["snapshot"] == 1
    told = peewit("graph", "show", graph).out
    assert f"{certified:.4g} (snapshot 1)" in told
    again = peewit("certify", graph, "--snapshot", 1, "--passes", 3)
    assert again.exit_code == 0
    assert "epsilon certified" in again.out
    assert "raise passes" in again.err
    kept = peewit("graph", "show", graph, "--json").json["certificate"]
    assert kept["epsilon_certified"] == certified


def test_missing_files_are_told(peewit: Peewit, graph: str, tmp_path: Path) -> None:
    (tmp_path / "edges.parquet").unlink()
    failed = peewit("certify", graph)
    assert failed.exit_code == 1
    assert "edges.parquet: it is missing" in failed.err
