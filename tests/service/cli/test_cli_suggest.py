"""`peewit suggest` as a user calls it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from tests.service.cli.conftest import Peewit
from tests.service.solvable import two_communities


@pytest.fixture
def graph(peewit: Peewit, tmp_path: Path) -> str:
    u, v = two_communities()
    table = pa.table({"src": [f"n{each}" for each in u], "dst": [f"n{each}" for each in v]})
    pa.parquet.write_table(table, tmp_path / "edges.parquet")
    peewit("graph", "create", "g", "--seed", 1)
    assert peewit("ingest", "g", tmp_path / "edges.parquet").exit_code == 0
    return "g"


@pytest.mark.usefixtures("processes")
def test_nodes_are_suggested_before_there_are_labels(peewit: Peewit, graph: str) -> None:
    refused = peewit("suggest", graph)
    assert refused.exit_code == 1
    assert "has no predictions yet" in refused.err
    begun = peewit("suggest", graph, "--strategy", "coverage", "-k", 2, "--json")
    assert begun.exit_code == 0, begun.err
    assert begun.json["origin"] == "suggested"
    nodes = [each["node"] for each in begun.json["suggestions"]]
    assert {int(node[1:]) // 30 for node in nodes} == {0, 1}
    assert "FILE --origin random" in peewit("suggest", graph, "--strategy", "random").err
    held = peewit(
        "suggest", graph, "--strategy", "random", "-k", 60, "--reserve", "--annotator", "A"
    )
    assert len(held.out.splitlines()) == 1 + 60
    others = ("suggest", graph, "--strategy", "random", "--reserve", "--annotator")
    assert "or is reserved for somebody else" in peewit(*others, "B").err
    assert peewit(*others, " ").exit_code != 0
