"""Deletes over HTTP: rows of changes, pairs by name, and graphs that refuse them."""

import pyarrow.parquet
import pytest

from peewit.service.operations.graphs import get_graph
from peewit.service.operations.here import Here
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.service.api.conftest import CSV, NDJSON, Api


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with a graph g whose edges may be deleted."""
    api.create_graph("g", deletions="exact")
    api.push(b"src,dst,weight\na,b,1\nb,c,2\nc,d,3\n", CSV)
    return api


def test_rows_that_delete_and_set_change_the_graph(graph: Api) -> None:
    graph.push(b"src,dst,weight,op\nb,a,,delete\nb,c,5,set\nd,e,1,insert\n", CSV)
    graph.ingest()
    assert graph.edges() == ['"b","c",5', '"c","d",3', '"d","e",1']
    snapshot = graph.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"][0]
    assert (snapshot["n_deletes"], snapshot["edges_seen"]) == (1, 5)


def test_columns_of_operations_may_have_another_name(graph: Api) -> None:
    pushed = graph.call(
        "POST",
        "/graphs/g/edges?op=change",
        202,
        content=b'{"src":"a","dst":"b","change":"d"}\n{"src":"x","dst":"b","change":"i"}\n',
        headers={"Content-Type": NDJSON},
    )
    assert pushed.json()["n_rows"] == 2
    graph.ingest()
    assert graph.edges() == ['"b","c",2', '"c","d",3', '"x","b",1'] or graph.edges() == [
        '"b","c",2',
        '"b","x",1',
        '"c","d",3',
    ]


def test_pairs_are_deleted_by_their_names(graph: Api) -> None:
    path = "/graphs/g/edges?src=b&dst=a&src=c&dst=d&src=nobody&dst=a"
    pushed = graph.call("DELETE", path, 202).json()
    assert (pushed["n_rows"], pushed["status"]) == (3, "pending")
    graph.ingest()
    assert graph.edges() == ['"b","c",2']
    shown = graph.call("GET", "/graphs/g", 200).json()
    assert shown["nodes"] == 4
    assert shown["settings"]["deletions"] == "exact"


def test_pairs_are_deleted_from_the_relation_that_is_named(api: Api) -> None:
    api.create_graph("g", deletions="exact")
    body, as_csv = b"src,dst\na,b\nb,c\n", {"Content-Type": CSV}
    for relation in ("login", "card"):
        path = f"/graphs/g/edges?relation={relation}"
        api.call("POST", path, 202, content=body, headers=as_csv)
    api.ingest()
    pairs = "/graphs/g/edges?src=a&dst=b"
    problem = api.problem("DELETE", pairs, 422)
    assert problem["argument"] == "relation"
    assert "the graph has login, card" in problem["detail"]
    api.call("DELETE", f"{pairs}&relation=card", 202)
    assert "no relation crad" in api.call("DELETE", f"{pairs}&relation=crad", 202).json()["note"]
    api.ingest()
    listed = api.call("GET", "/graphs/g/relations", 200).json()["relations"]
    assert {each["name"]: each["n_edges"] for each in listed} == {"login": 2, "card": 1}


def test_a_delete_that_is_repeated_with_its_key_counts_once(graph: Api) -> None:
    path, headers = "/graphs/g/edges?src=a&dst=b", {"Idempotency-Key": "k"}
    first = graph.call("DELETE", path, 202, headers=headers).json()
    again = graph.call("DELETE", path, 202, headers=headers)
    assert again.json()["id"] == first["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    graph.call("DELETE", "/graphs/g/edges?src=a&dst=c", 409, headers=headers)


def test_deletes_that_cannot_be_are_refused(graph: Api) -> None:
    graph.create_graph("plain")
    graph.create_graph("ints", node_ids="int64", deletions="exact")
    for path, told in (
        ("g/edges?src=a", "dst"),
        ("g/edges?src=a&dst=b&src=c", "equally often"),
        ("plain/edges?src=a&dst=b", "deletions are off"),
        ("ints/edges?src=1&dst=x", "64-bit integer"),
        ("g/edges?src=&dst=b", "at least one character"),
    ):
        assert told in graph.call("DELETE", f"/graphs/{path}", 422).text
    graph.ingest()
    assert len(graph.edges()) == 3


def test_rows_that_delete_are_refused_at_the_door_where_deletions_are_off(api: Api) -> None:
    api.create_graph("g")
    answer = api.call(
        "POST",
        "/graphs/g/edges?op=op",
        422,
        content=b"src,dst,op\na,b,i\na,b,d\n",
        headers={"Content-Type": CSV},
    ).json()
    assert "deletions are off" in answer["detail"]
    assert answer["row"] == 1


def test_a_column_of_operations_needs_deletions(api: Api) -> None:
    api.call("POST", "/graphs", 422, json={"name": "g", "columns": {"op": "op"}})


def test_pushes_to_a_graph_without_deletions_are_files_without_operations(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\nb,c\n", CSV)
    api.ingest()
    graph = api.home.catalog.get("g")
    root = api.home.settings.graphs_directory / graph.id
    (block,) = (root / "pushes").iterdir()
    assert pyarrow.parquet.read_schema(block).names == ["src", "dst", "weight"]
    state = CheckpointStore(root / "checkpoints").newest().state
    assert (state.runs, state.n_removals) == (None, 0)


@pytest.mark.parametrize(
    ("rows", "n_unmatched"),
    [
        ("x,y,delete\na,z,delete\nz,a,delete\n", 2),
        ("a,c,delete\na,b,delete\n", 1),
        ("q,r,insert\nr,q,delete\n", 0),
        ("q,r,insert\nq,r,delete\na,r,delete\nq,r,insert\n", 1),
    ],
)
def test_deletes_without_an_edge_are_counted(api: Api, rows: str, n_unmatched: int) -> None:
    api.create_graph("g", deletions="exact")
    api.push(b"src,dst\na,b\nb,c\n", CSV)
    api.ingest()
    api.push(f"src,dst,op\n{rows}".encode(), CSV)
    api.ingest()
    assert api.call("GET", "/graphs/g", 200).json()["deleted"]["n_unmatched"] == n_unmatched


@pytest.mark.usefixtures("processes")
def test_exact_deletes_are_told_and_certified(api: Api) -> None:
    api.create_graph("g", deletions="exact")
    assert api.call("GET", "/graphs/g", 200).json()["deleted"] is None  # no snapshot yet
    api.push(b"src,dst,weight\na,b,1\nb,a,4\nb,c,2\nc,d,3\n", CSV)
    api.ingest()
    api.call("DELETE", "/graphs/g/edges?src=b&dst=a&src=a&dst=d&src=a&dst=a", 202)
    api.ingest()
    assert api.edges() == ['"b","c",2', '"c","d",3']
    newest, first = api.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"]
    assert (first["n_live"], newest["n_live"]) == (4, 2)
    assert (newest["n_unmatched"], newest["n_rebuilds"]) == (1, 0)
    told = api.call("GET", "/graphs/g", 200).json()["deleted"]
    assert (told["n_live"], told["n_deleted"], told["n_unmatched"]) == (2, 2, 1)
    assert told["damage"] == {"n_nodes": 0, "weight_share": 0.0, "largest": 0.0}
    assert told["last_repair"] is None  # every edge is kept
    root = api.home.settings.graphs_directory / api.home.catalog.get("g").id
    assert told["log_bytes"] >= sum(path.stat().st_size for path in (root / "log").iterdir())
    assert told == {name: newest[name] for name in told if name != "n_deleted"} | {"n_deleted": 2}
    ended = api.run(kind="certify")
    assert ended["status"] == "succeeded", ended
    assert ended["result"]["n_edges"] == 2


def test_edges_that_left_are_not_told_as_kept(api: Api) -> None:
    for name, deletions in (("g", "exact"), ("plain", "off")):
        api.create_graph(name, deletions=deletions)
        api.push(b"src,dst\na,b\na,b\nb,c\n", CSV, name)
        api.ingest(name)
    api.call("DELETE", "/graphs/g/edges?src=a&dst=b", 202)
    api.ingest()
    for name, n_live, told in (
        ("g", 1, "all 1 edges kept"),
        ("plain", None, "3 rows, 2 different pairs, all kept"),
    ):
        assert api.call("GET", f"/graphs/{name}", 200).json()["n_live"] == n_live
        shown = get_graph(Here(home=api.home), api.home.catalog.get(name))
        assert shown.edges_text == told
    listed = api.call("GET", "/graphs", 200).json()["graphs"]
    assert {each["name"]: each["n_live"] for each in listed} == {"g": 1, "plain": None}


def test_a_graph_that_is_being_deleted_does_not_spoil_the_list(api: Api) -> None:
    api.create_graph("g", deletions="exact")
    api.push(b"src,dst\na,b\n", CSV)
    api.ingest()
    snapshots = SnapshotStore(api.home.paths(api.home.catalog.get("g")).snapshots)
    (snapshots.directory(1) / "meta.json").unlink()
    (listed,) = api.call("GET", "/graphs", 200).json()["graphs"]
    assert (listed["name"], listed["n_live"]) == ("g", None)
