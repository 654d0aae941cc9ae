"""Nodes that somebody asked to be forgotten: what the API shows of them, and what is left."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.database.tables import jobs
from peewit.service.database.timestamps import now
from peewit.service.inbox.leaving.erasures import ErasureLog, ErasureRecord
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from tests.service.api.conftest import ARROW, CSV, NDJSON, Api, serving
from tests.service.solvable import two_communities

WHO: Final = "whoever-it-was"
"""The node that is erased; no other text of the home has it."""

OTHER: Final = "someone-else"


def edges(*more: tuple[str, str]) -> bytes:
    """Two communities, and edges of the node that is to be forgotten."""
    u, v = two_communities()
    rows = [(f"n{a}", f"n{b}") for a, b in zip(u, v, strict=True)]
    rows += [(WHO, f"n{place}") for place in (0, 1, 2, 31)] + [(OTHER, WHO), (OTHER, "n5")]
    return "\n".join(["src,dst", *(f"{a},{b}" for a, b in [*rows, *more])]).encode() + b"\n"


def put_features(api: Api, *nodes: str) -> None:
    rows = [f"{node},{place}.5,{-place}" for place, node in enumerate(nodes)]
    api.call(
        "POST",
        "/graphs/g/features",
        202,
        content="\n".join(["node,x,y", *rows]).encode(),
        headers={"Content-Type": CSV},
    )


def files_with(home: Path, text: str = WHO) -> list[str]:
    """Files of a home that hold some text in any form that we write."""
    forms = [text.encode(), text.encode("utf-16-le")]
    return sorted(
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    )


def erase(api: Api, *nodes: str | int, name: str = "g") -> Any:
    return api.call("POST", f"/graphs/{name}/erasures", 202, json={"nodes": list(nodes)}).json()


@pytest.fixture
def full(settings: Settings, processes: None) -> Iterator[Api]:
    """A graph that holds the node wherever a graph can hold one."""
    with serving(settings, create=create_app) as api:
        api.create_graph("g", seed=1)
        source = settings.source_roots[0] / "mine.csv"
        source.write_bytes(edges())
        api.call("POST", "/graphs/g/sources", 201, json={"url": str(source)})
        api.push(f"src,dst\n{WHO},n7\nn8,n9\n".encode(), CSV)
        api.ingest()
        api.push(f"src,dst\n{WHO},n10\nn11,n12\n".encode(), CSV)  # a second file
        put_features(api, WHO, OTHER, *(f"n{place}" for place in range(60)))
        api.ingest()
        api.put_labels({"n3": "left", "n33": "right", WHO: "left"})
        api.call(
            "PUT",
            "/graphs/g/labels?label_column=team",
            200,
            content=f'{{"node":"{WHO}","team":"red"}}\n'.encode(),
            headers={"Content-Type": NDJSON},
        )
        api.solve("stable-hfs", cross_validate=2)
        api.run(kind="embed")
        api.run(kind="filter")
        api.run(kind="map")
        api.push(f"src,dst\n{WHO},n20\nn21,n22\n".encode(), CSV)  # waits
        put_features(api, WHO, "n1")  # waits
        yield api


def read_paths(api: Api) -> Iterator[str]:
    """Every path that can be read, of API and dashboard, with what is there in its places."""
    job = api.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    solved = next(each["id"] for each in job if each["kind"] == "solve")
    files = api.call("GET", "/graphs/g/files", 200).json()["files"]
    snapshots = api.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"]
    erasures = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    with api.home.database.read() as connection:
        from peewit.service.database.tables import feature_sets, pushes

        push = connection.execute(pushes.select()).first()
        feature_set = connection.execute(feature_sets.select()).first()
    assert push is not None
    assert feature_set is not None
    places = {
        "graph": ["g"],
        "job_id": [each["id"] for each in job],
        "push_id": [push.id],
        "set_id": [feature_set.id],
        "file_id": [str(each["id"]) for each in files],
        "number": [str(each["number"]) for each in snapshots],
        "erasure_id": [each["id"] for each in erasures],
        "z": ["0"],
        "x": ["0"],
        "y": ["0"],
    }
    routes = [
        route.path
        for route in api.client._transport_routes  # type: ignore[attr-defined]
        if "GET" in (route.methods or ())
    ]
    for route in routes:
        names = re.findall(r"{(\w+)(?::\w+)?}", route)
        assert set(names) <= places.keys() | {"name", "path"}, f"{route}: say what goes there"
        if {"name", "path"} & set(names):
            continue  # files of the pages themselves
        paths = [route]
        for name in names:
            paths = [
                re.sub(rf"{{{name}(?::\w+)?}}", value, path)
                for path in paths
                for value in places[name]
            ]
        yield from paths
    yield from (
        f"/v1/graphs/g/predictions?job={solved}&format={shape}"
        for shape in ("csv", "arrow", "parquet", "ndjson")
    )
    yield f"/v1/graphs/g/predictions?job={solved}&positive=left&threshold=0.5&format=csv"
    yield from (
        f"/v1/graphs/g/suggestions?strategy={each}&k=200"
        for each in ("margin", "variance", "coverage")
    )
    yield from (
        "/v1/graphs/g/labels?label_column=team&format=csv",
        "/v1/graphs/g/labels?format=csv",
    )
    for place in (0, 1, 2, 7, 31):
        yield f"/graphs/g/node?id=n{place}"
        yield f"/graphs/g/node/reasons?id=n{place}"
        yield f"/v1/graphs/g/predictions/node/reasons?id=n{place}"


def shown_of(api: Api) -> list[str]:
    """The paths that show the node."""
    found = []
    for path in read_paths(api):
        separator = "&" if "?" in path else "?"
        wait = f"{separator}wait=0.01" if path.startswith("/v1") else ""
        with api.client.stream("GET", path + wait, timeout=20) as answer:
            assert answer.status_code < 500, path
            if "event-stream" in answer.headers.get("content-type", ""):
                content = next(answer.iter_bytes(), b"")
            else:
                content = answer.read()
        if WHO.encode() in content:
            found.append(path)
    return found


@pytest.fixture
def routed(full: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """The same, with the routes of the application at hand."""
    del monkeypatch
    full.client._transport_routes = list(  # type: ignore[attr-defined]
        _routes(create_app_routes(full))
    )
    return full


def create_app_routes(api: Api) -> Any:
    return create_app(api.home.settings).routes


def _routes(routes: Any) -> Iterator[Any]:
    for route in routes:
        if hasattr(route, "methods"):
            yield route
        elif hasattr(route, "routes"):
            yield from _routes(route.routes)


def test_no_call_shows_a_hidden_node_and_then_no_file_holds_it(routed: Api) -> None:
    api, home = routed, routed.home.settings.home
    assert len(shown_of(api)) >= 8, "calls show the node before, or the test looks at nothing"
    assert len(files_with(home)) >= 5
    asked = erase(api, WHO)
    assert (asked["n_nodes"], asked["n_known"], asked["status"]) == (1, 1, "hidden")
    assert shown_of(api) == []
    api.call("GET", f"/graphs/g/predictions/node?id={WHO}", 404)
    looked = api.call("POST", "/graphs/g/predictions:lookup", 200, json={"nodes": [WHO, "n1"]})
    assert looked.json()["unknown"] == [WHO]
    api.ingest()
    told = api.call("GET", f"/graphs/g/erasures/{asked['id']}", 200).json()
    assert told["status"] == "erased"
    (mine,) = told["sources"]["holding"]
    assert mine.endswith("mine.csv")
    assert told["sources"]["unread"] == []
    assert shown_of(api) == []
    assert files_with(home) == []
    assert files_with(home, OTHER), "others stay"


def test_what_comes_after_an_erasure_is_solved_without_the_node(full: Api) -> None:
    erase(full, WHO)
    full.ingest()
    before = full.call("GET", "/graphs/g", 200).json()
    assert before["nodes"] == 62
    full.solve("stable-hfs")
    rows = full.call("GET", "/graphs/g/predictions?format=csv", 200).text.splitlines()
    assert len(rows) == 1 + 61
    features = full.call("GET", "/graphs/g/features", 200).json()
    assert features["n_rows"] == 61
    full.run(kind="embed")
    for strategy in ("variance", "coverage"):
        found = full.call("GET", f"/graphs/g/suggestions?strategy={strategy}&k=200", 200).json()
        assert found["suggestions"]
        assert all(each["node"] is not None for each in found["suggestions"])
    assert files_with(full.home.settings.home) == []


JUDGED: Final = {
    "abstention": "abstention?max_error=.5&",
    "doubtful": "doubtful-labels?k=50&",
    "chosen": "threshold?positive=left&min_recall=.5&",
    "reasons": "node/reasons?id=n45&k=3&",
}
"""What is told from labels: where to abstain, which to doubt, a threshold, and reasons."""


def judged(api: Api, model: str) -> dict[str, Any]:
    return {
        name: api.call("GET", f"/graphs/g/predictions/{path}model={model}", 200).json()[name]
        for name, path in JUDGED.items()
    }


@pytest.mark.usefixtures("processes")
def test_a_node_without_a_label_takes_no_answer_about_others(api: Api) -> None:
    api.create_graph("g", seed=1)
    api.push(edges(), CSV)
    put_features(api, OTHER, *(f"n{place}" for place in range(60)))
    api.ingest()
    api.put_labels({f"n{n}": "left" if n < 30 else "right" for n in range(1, 60, 4)})
    parameters = {"label_shares": True, "cross_validate": 5, "class_mass": "none"}
    api.solve("hfs", **parameters)
    api.solve("auto", cross_validate=5)
    inductive = api.solve("rlsc")["id"]
    before = {model: judged(api, model) for model in ("hfs", "auto")}
    erase(api, OTHER)
    api.ingest()
    assert files_with(api.home.settings.home, OTHER) == []
    for model, then in before.items():
        told = judged(api, model)
        assert told["doubtful"] == then["doubtful"]
        for one in (told, then):
            del one["abstention"]["answered_nodes"]  # of one node less
            one["chosen"]["warning"] = re.sub(r"\d+", "", one["chosen"]["warning"] or "")
        assert told["chosen"] == then["chosen"]
        assert told["abstention"] == then["abstention"]
        names = [[each["node"] for each in one["reasons"]["labels"]] for one in (told, then)]
        assert names[0] == names[1]
        assert len(names[0]) == 3
        assert "nodes were erased since the solve" in told["reasons"]["note"]
        assert "erased" not in (then["reasons"]["note"] or "")
    gone = api.problem(
        "POST", f"/jobs/{inductive}:predict", 404, json={"points": [{"features": [0.0, 0.0]}]}
    )
    assert "was removed as nodes were erased since; solve again" in gone["detail"]


def test_an_id_that_comes_again_is_another_node(full: Api) -> None:
    erase(full, WHO)
    full.push(f"src,dst\n{WHO},n40\n".encode(), CSV)  # while it is hidden
    full.ingest()
    full.ingest()
    assert full.call("GET", "/graphs/g", 200).json()["nodes"] == 63
    full.call("GET", f"/graphs/g/predictions/node?id={WHO}", 404)
    labels = full.call("GET", "/graphs/g/labels?format=csv", 200).text
    assert WHO not in labels
    mine = [line for line in full.edges() if WHO in line]
    assert len(mine) == 1
    assert "n40" in mine[0]
    full.put_labels({WHO: "right"})
    full.solve("stable-hfs")
    told = full.call("GET", f"/graphs/g/predictions/node?id={WHO}", 200).json()
    assert told["prediction"]["label"] == "right"


@pytest.mark.slow
def test_unknown_nodes_are_taken_and_count_as_unknown(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    api.ingest()
    asked = erase(api, "nobody", "a", "nobody")
    assert (asked["n_nodes"], asked["n_known"]) == (2, 1)
    api.ingest()
    (told,) = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert told["status"] == "erased"
    assert files_with(api.home.settings.home, "nobody") == []
    api.call("POST", "/graphs/g/erasures", 422, json={"nodes": [3]})


def test_integers_are_erased(api: Api) -> None:
    api.create_graph("g", node_ids="int64")
    api.push(b"src,dst\n7000000001,2\n2,3\n3,4\n4,2\n", CSV)
    api.ingest()
    api.put_labels({7000000001: "x"})
    erase(api, 7000000001)
    api.ingest()
    assert "7000000001" not in str(api.edges())
    stored = (7000000001).to_bytes(8, "little")
    held = [
        path
        for path in api.home.settings.home.rglob("*")
        if path.is_file() and stored in path.read_bytes()
    ]
    assert held == []
    assert files_with(api.home.settings.home, "7000000001") == []


def test_a_dense_number_is_never_used_again(api: Api) -> None:
    api.create_graph("g", node_ids="dense")
    api.push(b"src,dst\n0,1\n1,2\n2,3\n3,0\n", CSV)
    api.ingest()
    api.put_labels({1: "x", 3: "y"})
    erase(api, 1)
    api.ingest()
    api.push(b"src,dst\n1,3\n3,4\n", CSV)
    put_features(api, "1")
    api.ingest()
    shown = api.call("GET", "/graphs/g", 200).json()
    assert (shown["nodes"], shown["left_out"]["self_loops"]) == (5, 1)
    assert api.edges() == ["0,3,1", "2,3,1", "3,4,1"]
    refused = api.problem(
        "PUT", "/graphs/g/labels", 422, json={"labels": [{"node": 1, "label": "x"}]}
    )
    assert refused["refused"] == ["1"]
    told = api.call("GET", "/graphs/g/features", 200).json()
    assert "erased" in str(told)


def test_files_are_overwritten_once_jobs_that_began_before_have_ended(full: Api) -> None:
    job = full.call(
        "POST", "/graphs/g/jobs", 202, json={"kind": "solve", "model": "stable-hfs"}
    ).json()["id"]
    database = full.home.database
    values = {"status": "running", "started_at": now(-1)}
    with database.write() as connection:
        connection.execute(jobs.update().where(jobs.c.id == job).values(**values))
    asked = erase(full, WHO)
    full.ingest()
    path = f"/graphs/g/erasures/{asked['id']}"
    assert full.call("GET", path, 200).json()["status"] == "hidden"
    assert WHO not in str(full.edges())
    with database.write() as connection:
        connection.execute(jobs.update().where(jobs.c.id == job).values(status="failed"))
    full.ingest()
    assert full.call("GET", path, 200).json()["status"] == "erased"
    assert files_with(full.home.settings.home) == []


def test_a_node_that_the_running_ingest_brings_is_hidden_too(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    api.ingest()
    api.push(f"src,dst\n{WHO},a\nb,c\n".encode(), CSV)
    home = api.home
    graph_id = home.catalog.get("g").id

    def ask(event: object) -> None:
        if type(event).__name__ == "Progress":  # the file is read, and not in the graph yet
            erase(api, WHO)

    Ingestor(home.database, home.settings).ingest_graph(graph_id, on_event=ask)
    (told,) = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert told["status"] == "erased"
    assert files_with(home.settings.home) == []
    assert len(api.edges()) == 2


def test_a_node_that_is_brought_while_an_erasure_is_stored_is_hidden_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ingest takes it in after the look at the index, and before it can know of the erasure."""
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    api.ingest()
    api.push(f"src,dst\n{WHO},a\nb,c\n".encode(), CSV)
    add = ErasureLog.add

    def add_late(log: ErasureLog, *given: Any, **named: Any) -> ErasureRecord:
        api.ingest()
        return add(log, *given, **named)

    monkeypatch.setattr(ErasureLog, "add", add_late)
    erase(api, WHO)
    graph = api.home.catalog.get("g")
    (waiting,) = api.home.manifest.erasures.nodes(graph.id, struck=False)
    assert waiting.dense is not None
    assert waiting.dense in api.home.manifest.hidden.of(graph).dense
    shown = str(api.edges())
    assert "c" in shown
    assert WHO not in shown


def test_certificates_are_refused_once_nodes_were_erased(full: Api) -> None:
    erase(full, WHO)
    full.ingest()
    told = full.run(kind="certify")
    assert told["status"] == "failed"
    assert "without erased nodes" in told["error"]


def test_a_repeated_erasure_of_a_hidden_node_erases_what_is_there(full: Api) -> None:
    erase(full, WHO)
    again = erase(full, WHO)
    assert again["n_known"] == 0
    full.ingest()
    listed = full.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert [each["status"] for each in listed] == ["erased", "erased"]
    assert files_with(full.home.settings.home) == []


def test_a_key_that_may_only_erase_sees_its_own(api: Api) -> None:
    keys = api.home.keys
    api.create_graph("g")
    mine, other = (
        {"Authorization": f"Bearer {keys.create(name, ['erase'])}"} for name in ("mine", "other")
    )
    body = {"nodes": ["a"]}
    asked = api.call("POST", "/graphs/g/erasures", 202, json=body, headers=mine).json()
    path = f"/graphs/g/erasures/{asked['id']}"
    api.call("GET", path, 200, headers=mine)
    api.call("GET", path, 404, headers=other)
    listed = api.call("GET", "/graphs/g/erasures", 200, headers=other).json()["erasures"]
    assert listed == []


def test_downloads_of_every_format_leave_hidden_nodes_out(full: Api, tmp_path: Path) -> None:
    erase(full, WHO)
    stored = full.call("GET", "/graphs/g/predictions?format=parquet", 200).content
    (tmp_path / "p.parquet").write_bytes(stored)
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.num_rows == 61
    assert table["node"].null_count == 0
    arrow = full.call("GET", "/graphs/g/predictions", 200, headers={"Accept": ARROW}).content
    assert WHO.encode() not in arrow


def test_what_waits_and_names_nobody_else_comes_in_empty(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    put_features(api, WHO)
    api.ingest()
    assert api.call("GET", "/graphs/g/features", 200).json()["n_rows"] == 1
    pushed = api.push(f"src,dst\n{WHO},a\n".encode(), CSV)
    put_features(api, WHO)
    erase(api, WHO)
    api.ingest()
    assert api.call("GET", f"/graphs/g/pushes/{pushed['id']}", 200).json()["status"] == "committed"
    told = api.call("GET", "/graphs/g", 200).json()
    assert told["nodes"] == 3
    assert files_with(api.home.settings.home) == []
    put_features(api, "a")
    api.ingest()
    assert api.call("GET", "/graphs/g/features", 200).json()["n_rows"] == 1


def test_both_databases_forget(api_on_any_database: Api) -> None:
    api = api_on_any_database
    api.create_graph("g")
    api.push(f"src,dst\n{WHO},a\na,b\n".encode(), CSV)
    api.ingest()
    api.put_labels({WHO: "x", "a": "y"})
    api.push(f"src,dst\n{WHO},b\n".encode(), CSV)
    asked = erase(api, WHO)
    assert WHO not in api.call("GET", "/graphs/g/labels?format=csv", 200).text
    api.ingest()
    told = api.call("GET", f"/graphs/g/erasures/{asked['id']}?wait=1", 200).json()
    assert told["status"] == "erased"
    assert files_with(api.home.settings.home) == []


def test_an_id_that_is_erased_twice_in_one_pass_is_gone_both_times(api: Api) -> None:
    """The second is asked for while the first is carried out, and the id comes between them."""
    api.create_graph("g")
    api.push(f"src,dst\n{WHO},a\na,b\n".encode(), CSV)
    api.ingest()
    home = api.home
    graph_id = home.catalog.get("g").id
    erase(api, WHO)
    api.push(f"src,dst\n{WHO},b\nb,c\n".encode(), CSV)
    asked: list[object] = []

    def ask(event: object) -> None:
        if type(event).__name__ == "Progress" and not asked:
            asked.append(erase(api, WHO))

    Ingestor(home.database, home.settings).ingest_graph(graph_id, on_event=ask)
    assert asked
    listed = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert [each["status"] for each in listed] == ["erased", "erased"]
    assert files_with(home.settings.home) == []
    assert len(api.edges()) == 2


def test_reasons_of_refused_files_forget_too(api: Api) -> None:
    api.create_graph("g", max_nodes=2)
    source = api.home.settings.source_roots[0] / "mine.csv"
    source.write_text(f"src,dst\na,b\n{WHO},b\n")
    api.call("POST", "/graphs/g/sources", 201, json={"url": str(source)})
    api.ingest()
    (refused,) = api.call("GET", "/graphs/g/files", 200).json()["files"]
    assert (refused["status"], refused["value"]) == ("quarantined", WHO)
    asked = erase(api, WHO)
    assert asked["n_known"] == 0
    api.ingest()
    (refused,) = api.call("GET", "/graphs/g/files", 200).json()["files"]
    assert (refused["status"], refused["value"]) == ("quarantined", "(erased)")
    assert files_with(api.home.settings.home) == []


@pytest.mark.parametrize("n_words", [3, 300])
def test_words_go_out_of_features_that_wait_and_of_those_sent_meanwhile(
    api: Api, n_words: int
) -> None:
    """Rows are dense or sparse; sets that wait still join the features there."""
    columns = [f"c{k}" for k in range(1 + n_words // 40)]

    def put(method: str, *more: str) -> None:
        lines = [",".join(["node", "friend", *columns])]
        for row, node in enumerate([*more, *(f"n{k}" for k in range(600))]):
            friend = WHO if node in ("n3", "n5") else f"n{row % 2}"
            word = f"of-{WHO}" if node == WHO else f"w{row % n_words}"
            lines.append(",".join([node, friend, *[word for _ in columns]]))
        body = {"content": "\n".join(lines).encode(), "headers": {"Content-Type": CSV}}
        api.call(method, "/graphs/g/features", 202, **body)

    api.create_graph("g", seed=1)
    api.push(edges(), CSV)
    put("PUT", OTHER, WHO)
    api.ingest()
    put("POST", WHO)
    erase(api, WHO)
    put("POST", OTHER)
    api.ingest()
    assert files_with(api.home.settings.home) == []
    told = api.call("GET", "/graphs/g/features", 200).json()
    assert (told["n_pending"], told["refused"]) == (0, None)
