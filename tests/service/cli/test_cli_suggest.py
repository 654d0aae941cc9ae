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
def test_nodes_are_suggested_before_and_after_labels(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    refused = peewit("suggest", graph)
    assert refused.exit_code == 1
    assert "has no predictions yet" in refused.err
    begun = peewit("suggest", graph, "--strategy", "coverage", "-k", 2, "--json")
    assert begun.exit_code == 0, begun.err
    nodes = [each["node"] for each in begun.json["suggestions"]]
    assert {int(node[1:]) // 30 for node in nodes} == {0, 1}
    names = {0: "left", 1: "right"}
    rows = "".join(f"{node},{names[int(node[1:]) // 30]}\n" for node in nodes)
    (tmp_path / "labels.csv").write_text(f"node,label\n{rows}")
    assert peewit("labels", "put", graph, tmp_path / "labels.csv").exit_code == 0
    assert peewit("solve", graph, "--model", "stable-hfs").exit_code == 0
    shown = peewit("suggest", graph, "-k", 5)
    lines = shown.out.splitlines()
    assert lines[0].split() == ["node", "predicted", "margin"]
    assert len(lines) == 6
    assert not {line.split()[0] for line in lines[1:]} & set(nodes)
    assert "FILE --origin suggested" in shown.err
    assert "FILE --origin random" in peewit("suggest", graph, "--strategy", "random").err
    assert begun.json["origin"] == "suggested"
    assert peewit("suggest", graph, "--strategy", "luck").exit_code == 2
    assert peewit("suggest", graph, "-k", 0).exit_code == 2
    assert peewit("suggest", "nobody").exit_code == 1
    held = peewit("suggest", graph, "-k", 58, "--reserve", "--annotator", "Ann")
    assert len(held.out.splitlines()) == 1 + 58
    others = peewit("suggest", graph, "-k", 5, "--reserve", "--annotator", "Bob")
    assert "or is reserved for somebody else" in others.err
    assert peewit("suggest", graph, "--reserve", "--annotator", " ").exit_code != 0
