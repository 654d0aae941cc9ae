"""Kinds of edges in pushes of the client."""

from pathlib import Path

import pyarrow as pa
import pytest

from peewit.service.client import Client, InvalidArgument
from tests.service.api.conftest import Api

EVENTS = "who,device,ip,kind\n1,x,7,login\n2,,7,card\n"


def test_a_file_counts_once_for_each_way_of_reading_its_relations(
    api: Api, client: Client, tmp_path: Path
) -> None:
    api.create_graph("g", node_ids="string")
    path = tmp_path / "events.csv"
    path.write_text(EVENTS)
    stars = client.push_edges("g", path, entity="who", via=["device", "ip"])
    with pytest.warns(UserWarning, match="was pushed to g before"):
        assert client.push_edges("g", path, entity="who", via="device,ip").id == stars.id
    rows = client.push_edges("g", path, src="who", dst="ip", relation_column="kind")
    one = client.push_edges("g", path, src="who", dst="ip", relation="login")
    assert [stars.n_rows, rows.n_rows, one.n_rows] == [4, 2, 2]
    assert len({stars.id, rows.id, one.id}) == 3
    with pytest.raises(InvalidArgument, match="entity must name the column"):
        client.push_edges("g", path, via="ip")


def test_edges_leave_the_relation_that_is_named(api: Api, client: Client) -> None:
    client.create_graph("g", deletions="exact")
    rows = pa.table({"src": ["a", "a"], "dst": ["b", "b"], "kind": ["login", "card"]})
    client.push_edges("g", rows, relation_column="kind")
    api.ingest()
    with pytest.raises(InvalidArgument, match="the graph has login, card"):
        client.delete_edges("g", [("a", "b")])
    client.delete_edges("g", [("a", "b")], relation="card")
    api.ingest()
    listed = client.relations("g").relations
    assert {each.name: each.n_edges for each in listed} == {"login": 1, "card": 0}


def test_edges_of_a_snapshot_say_their_relation(api: Api, client: Client) -> None:
    client.create_graph("g")
    rows = pa.table({"src": ["a", "b", "b"], "dst": ["b", "a", "c"], "kind": ["x", "y", "y"]})
    client.push_edges("g", rows, relation_column="kind")
    api.ingest()
    table = client.snapshot_edges("g", 1)
    assert table.column_names == ["src", "dst", "weight", "relation"]
    assert sorted(zip(table["relation"].to_pylist(), table["src"].to_pylist(), strict=True)) == [
        ("x", "a"),
        ("y", "a"),
        ("y", "b"),
    ]
    summed = client.sparsifier("g").to_arrow()
    assert summed.to_pylist() == [
        {"src": "a", "dst": "b", "weight": 2.0},
        {"src": "b", "dst": "c", "weight": 1.0},
    ]


def test_a_mapping_of_relations_is_told_to_be_pushed_one_by_one(api: Api, client: Client) -> None:
    api.create_graph("g", node_ids="string")
    tables = {"message": pa.table({"src": ["a"], "dst": ["b"]})}
    told = r"push_edges\('g', edges\['message'\], relation='message'\), or one table"
    with pytest.raises(TypeError, match=told):
        client.push_edges("g", tables)  # type: ignore[arg-type]
    assert client.push_edges("g", tables["message"], relation="message").n_rows == 1
