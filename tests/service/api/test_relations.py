"""Kinds of edges in pushes and sources: of all rows, of each row, of each column of events."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from peewit.service.inbox.block_rows import RELATED
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.left_out import LeftOut
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from tests.service.api.conftest import CSV, Api

EVENTS = b"who,device,ip,kind\n1,x,7,login\n2,,7,card\n3,x,8,login\n1,NULL,8,card\n"
AS_CSV = {"Content-Type": CSV}
VIA = "entity=account:who&via=device:device,ip:ip"


def paths_of(api: Api, name: str = "h") -> GraphPaths:
    graph = api.home.catalog.get(name)
    return GraphPaths(root=api.home.settings.graphs_directory / graph.id)


def pushed_rows(api: Api) -> list[tuple[str, str, str | None]]:
    """Rows of the one file of pushes that name relations: relation, src, dst."""
    (path,) = paths_of(api).pushes.glob(f"*{RELATED}")
    table = pq.read_table(path)
    columns = (table[name].to_pylist() for name in ("relation", "src", "dst"))
    return list(zip(*columns, strict=True))


def test_pushes_of_any_relation_share_a_file(api: Api) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h"})
    path = "/graphs/h/edges"
    api.call("POST", f"{path}?{VIA}", 202, content=EVENTS, headers=AS_CSV)
    ends = "src=account:who&dst=ip:ip"
    api.call("POST", f"{path}?{ends}&relation_column=kind", 202, content=EVENTS, headers=AS_CSV)
    api.call("POST", f"{path}?{ends}&relation=seen", 202, content=EVENTS, headers=AS_CSV)
    api.call("POST", f"{path}?{ends}", 202, content=EVENTS, headers=AS_CSV)
    api.ingest("h")
    assert api.call("GET", "/graphs/h", 200).json()["edges_seen"] == 8 + 3 * 4
    rows = pushed_rows(api)
    assert rows[:4] == [
        ("device", "account:1", "device:x"),
        ("device", "account:2", None),
        ("device", "account:3", "device:x"),
        ("device", "account:1", None),
    ]
    relations = [relation for relation, _, _ in rows]
    assert relations[4:8] == ["ip"] * 4
    assert relations[8:12] == ["login", "card", "login", "card"]
    assert relations[12:] == ["seen"] * 4 + [""] * 4
    (file,) = CheckpointStore(paths_of(api).checkpoints).newest().files
    assert file.columns.relation_column == "relation"
    assert file.left_out == LeftOut(empty_cells=2)


@pytest.mark.parametrize("query", [VIA, "src=account:who&dst=ip:ip&relation_column=kind"])
def test_bad_rows_of_a_push_are_left_out_of_all_relations(api: Api, query: str) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h"})
    body = EVENTS + b",x,7,login\n"
    problem = api.problem("POST", f"/graphs/h/edges?{query}", 422, content=body, headers=AS_CSV)
    assert "1 row is bad" in problem["detail"]
    push = api.call(
        "POST", f"/graphs/h/edges?{query}&max_bad_rows=1", 202, content=body, headers=AS_CSV
    ).json()
    assert push["n_bad_rows"] == 1
    api.ingest("h")
    relations = sorted({relation for relation, _, _ in pushed_rows(api)})
    assert relations == (["device", "ip"] if "via" in query else ["card", "login"])


def test_a_large_push_names_its_relations_on_disk(api: Api) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h"})
    rows = b"".join(b"%d,d%d,%d\n" % (k, k % 50, k % 7) for k in range(9_000))
    body = b"who,device,ip\n" + rows
    api.call("POST", f"/graphs/h/edges?{VIA}", 202, content=body, headers=AS_CSV)
    api.ingest("h")
    assert api.call("GET", "/graphs/h", 200).json()["edges_seen"] == 18_000
    assert {relation for relation, _, _ in pushed_rows(api)} == {"device", "ip"}


def test_a_source_says_its_relations(api: Api, tmp_path: Path) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h"})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "e.csv").write_bytes(EVENTS)
    columns = {"entity": "account:who", "via": "device:device,ip:ip"}
    api.home.manifest.sources.add(
        api.home.catalog.get("h").id, str(tmp_path / "in"), columns=columns
    )
    assert api.call("GET", "/graphs/h", 200).json()["settings"]["node_ids"] == "typed"
    api.ingest("h")
    assert api.call("GET", "/graphs/h", 200).json()["edges_seen"] == 8
    (file,) = CheckpointStore(paths_of(api).checkpoints).newest().files
    assert file.columns.via == ("device:device", "ip:ip")
    assert file.left_out.empty_cells == 2


@pytest.mark.usefixtures("processes")
def test_a_changed_label_keeps_how_relations_are_weighed(api: Api) -> None:
    """While few labels change, a child that knows the weights does not look for others."""
    api.call("POST", "/graphs", 201, json={"name": "g", "seed": 1})
    team = [(n, 2 * (n * k % 7) + n % 2) for n in range(60) for k in (1, 2, 3)]
    noise = [(n, n * 37 % 60) for n in range(60)]
    for relation, rows in (("device", team), ("message", noise), ("", team[:30])):
        kind = "account" if relation == "message" else "device"
        body = "src,dst\n" + "".join(f"{src},{dst}\n" for src, dst in rows)
        query = f"src=account:src&dst={kind}:dst"
        query += f"&relation={relation}" if relation else ""
        api.call("POST", f"/graphs/g/edges?{query}", 202, content=body.encode(), headers=AS_CSV)
    api.ingest()
    patch = {"directed": ["message,device"], "answers": ["account"]}
    told = api.call("PATCH", "/graphs/g", 200, json=patch).json()["settings"]
    assert told["directed"] == ["message", "device"]
    api.call("PATCH", "/graphs/g", 200, json={"directed": ["message"]})
    listed = api.call("GET", "/graphs/g/relations", 200).json()
    assert [each["is_directed"] for each in listed["relations"]] == [False, True, False]
    assert [(each["name"], each["n_edges"]) for each in listed["relations"]] == [
        ("device", 180),
        ("message", 60 - sum(src == dst for src, dst in noise)),
        ("", 30),
    ]
    labels = {f"account:{n}": "ab"[n % 2] for n in range(20)}
    api.put_labels(labels)
    for text in ("card=3", "device=1e300,message=1e-300"):
        job = {"kind": "solve", "model": "hfs", "parameters": {"relations": text}}
        assert api.problem("POST", "/graphs/g/jobs", 422, json=job)["argument"] == "relations"
    weights = []
    for more in ({}, {"account:20": "a"}):
        api.put_labels(labels | more)
        stats = api.solve("auto")["result"]["stats"]
        weights.append(stats["relation_weights"])
        assert {each["name"] for each in stats["relations"]} == {"device", "message", ""}
    assert weights[0] == weights[1]
    why = api.call("GET", "/graphs/g/predictions/node/reasons?id=account:30", 200).json()
    steps = {
        name
        for each in why["reasons"]["labels"]
        for step in each["relations"] or ()
        for name in step
    }
    assert "device" in steps
