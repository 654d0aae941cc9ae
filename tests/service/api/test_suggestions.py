"""Suggestions over HTTP: never a labeled node, the job they wait for, and what is refused."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.client import Client, JobCancelled, PredictionsNotFound, StillWaiting
from peewit.service.key_store import KeyStore, Scope
from peewit.service.predictions.suggestions import random_places
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import EmbeddingStore, embed
from tests.service.api.conftest import CSV, PARQUET, Api, as_parquet, bring_communities, serving
from tests.service.solvable import two_communities

STRATEGIES = ["margin", "variance", "coverage", "random"]


def located(api: Api, name: str = "g") -> None:
    """What a job of kind embed does, without the process it would start."""
    graph = api.home.catalog.get(name)
    assert graph.progress.snapshot is not None
    embed(GraphPaths(root=api.home.settings.graphs_directory / graph.id), graph.progress.snapshot)


def suggested(api: Api, query: str, name: str = "g") -> Any:
    return api.call("GET", f"/graphs/{name}/suggestions?{query}", 200).json()


@pytest.fixture(scope="module")
def ready(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A graph with predictions and an embedding; tests only look at it."""
    home = tmp_path_factory.mktemp("suggesting")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        bring_communities(api)
        api.solve("stable-hfs")
        located(api)
        yield api


def test_least_margins_come_first(ready: Api) -> None:
    answer = suggested(ready, "k=10")
    assert (answer["strategy"], answer["model"], answer["snapshot"]) == ("margin", "stable-hfs", 1)
    assert (answer["labels_seq"], answer["predicted_labels_seq"]) == (2, 2)
    assert answer["embedding_snapshot"] is None
    nodes = [each["node"] for each in answer["suggestions"]]
    lines = ready.call("GET", "/graphs/g/predictions?format=ndjson", 200).text.splitlines()
    rows = [json.loads(line) for line in lines]
    free = [row for row in rows if row["node"] not in {"n3", "n33"}]
    margin = {row["node"]: row["margin"] for row in free}
    expected = sorted(margin.values())[:10]
    assert [margin[node] for node in nodes] == pytest.approx(expected)
    for each in answer["suggestions"]:
        assert each["prediction"]["node"] == each["node"]
        assert each["prediction"]["label"] in {"left", "right"}


def test_margins_go_on_beyond_those_that_are_remembered(
    ready: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = suggested(ready, "k=200")
    monkeypatch.setattr("peewit.service.predictions.suggestions.MAX_REMEMBERED", 7)
    ready.home.suggester._unsure.clear()
    for k in (5, 7, 30, 200):
        found = suggested(ready, f"k={k}")["suggestions"]
        assert found == expected["suggestions"][:k]
    ready.home.suggester._unsure.clear()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_node_that_has_a_label_is_suggested(ready: Api, strategy: str) -> None:
    answer = suggested(ready, f"strategy={strategy}&k=200")
    nodes = [each["node"] for each in answer["suggestions"]]
    assert len(nodes) == len(set(nodes)) == 58
    assert not {"n3", "n33"} & set(nodes)
    few = suggested(ready, f"strategy={strategy}&k=4")
    assert len(few["suggestions"]) == 4
    assert suggested(ready, f"strategy={strategy}&k=4") == few
    assert answer["embedding_snapshot"] == (None if strategy in {"margin", "random"} else 1)


@pytest.mark.parametrize("strategy", ["variance", "coverage"])
def test_nodes_that_differ_lie_in_both_halves(ready: Api, strategy: str) -> None:
    answer = suggested(ready, f"strategy={strategy}&k=2")
    halves = {int(each["node"][1:]) // 30 for each in answer["suggestions"]}
    assert halves == {0, 1}


def test_random_nodes_are_the_first_of_an_order_that_never_changes(ready: Api) -> None:
    whole = [each["node"] for each in suggested(ready, "strategy=random&k=200")["suggestions"]]
    for k in (1, 7, 30):
        some = suggested(ready, f"strategy=random&k={k}")["suggestions"]
        assert [each["node"] for each in some] == whole[:k]
    assert suggested(ready, "strategy=random")["origin"] == "random"
    assert suggested(ready, "strategy=coverage")["origin"] == "suggested"
    numbers = np.array([int(name[1:]) for name in whole])
    assert abs(np.corrcoef(numbers, np.arange(numbers.size))[0, 1]) < 0.35


def test_places_of_a_random_order_are_even_and_differ_by_seed() -> None:
    nodes = np.arange(20_000)
    places = random_places(nodes, 3)
    assert np.unique(places).size == nodes.size
    np.testing.assert_array_equal(random_places(nodes[5:9], 3), places[5:9])
    low = places < np.uint64(2**62)
    assert abs(low.mean() - 0.25) < 0.01
    assert abs(low.reshape(-1, 100).mean(axis=1).std() - 0.0433) < 0.006  # of independent ones
    other = random_places(nodes, 4) < np.uint64(2**62)
    assert abs((low & other).mean() - 0.0625) < 0.006


def test_what_is_not_there_is_told(ready: Api) -> None:
    path = "/graphs/g/suggestions"
    assert ready.problem("GET", f"{path}?strategy=luck", 422)["argument"] == "strategy"
    for strategy in ("margin", "coverage"):
        refused = ready.problem("GET", f"{path}?strategy={strategy}&model=hfs", 404)
        assert refused["title"] == "Predictions not found"
    assert ready.problem("GET", f"{path}?job=nobody", 404)["title"] == "Job not found"


def test_suggestions_need_the_scope_of_labels(tmp_path: Path) -> None:
    with serving(Settings(home=tmp_path, database_url=None, admin_key_file=None)) as api:
        api.create_graph("g")
        keys = KeyStore(api.home.database)
        statuses: list[tuple[Scope, int]] = [("read", 403), ("ingest", 403), ("label", 409)]
        for scope, status in statuses:
            headers = {"Authorization": f"Bearer {keys.create(scope, [scope])}"}
            path = "/graphs/g/suggestions?strategy=coverage"
            api.call("GET", path, status, headers=headers)


@pytest.mark.usefixtures("processes")
def test_where_to_begin_is_told_before_the_first_label(api: Api) -> None:
    api.create_graph("g", seed=1)
    problem = api.problem("GET", "/graphs/g/suggestions?strategy=coverage", 409)
    assert problem["title"] == "No embedding yet"
    u, v = two_communities()
    table = pa.table({"src": [f"n{each}" for each in u], "dst": [f"n{each}" for each in v]})
    api.push(as_parquet(table), PARQUET)
    api.ingest()
    problem = api.problem("GET", "/graphs/g/suggestions", 404)
    assert "put labels" in problem["detail"]
    answer = api.call("GET", "/graphs/g/suggestions?strategy=variance", 202)
    first = answer.json()
    assert (first["kind"], answer.headers["location"]) == ("embed", f"/v1/jobs/{first['id']}")
    assert int(answer.headers["retry-after"]) > 0
    assert api.call("GET", "/graphs/g/suggestions?strategy=coverage", 202).json() == first
    api.run_job(first["id"])
    done = api.call("GET", f"/jobs/{first['id']}", 200).json()
    assert (done["status"], done["snapshot"], done["lane"]) == ("succeeded", 1, "heavy")
    assert (done["result"]["snapshot"], done["result"]["status"]) == (1, "converged")
    answer = suggested(api, "strategy=coverage&k=2")
    assert (answer["job"], answer["model"], answer["predicted_labels_seq"]) == (None, None, None)
    assert [each["prediction"] for each in answer["suggestions"]] == [None, None]
    assert {int(each["node"][1:]) // 30 for each in answer["suggestions"]} == {0, 1}
    # a label changes the answer at once, predictions or not
    taken = answer["suggestions"][0]["node"]
    api.put_labels({taken: "left"})
    after = suggested(api, "strategy=coverage&k=200")
    assert after["labels_seq"] == 1
    assert taken not in {each["node"] for each in after["suggestions"]}


@pytest.mark.slow
def test_embedding_is_made_again_once_the_graph_has_grown(api: Api) -> None:
    bring_communities(api)
    located(api)
    api.push(b"src,dst\nn0,n2\n", CSV)
    api.ingest()
    assert suggested(api, "strategy=coverage")["embedding_snapshot"] == 1
    assert api.home.jobs.list().jobs == []
    rows = "".join(f"n0,m{number}\n" for number in range(40))
    api.push(f"src,dst\n{rows}".encode(), CSV)
    api.ingest()
    assert suggested(api, "strategy=coverage")["embedding_snapshot"] == 1  # serves meanwhile
    waiting = api.home.jobs.newest(api.home.catalog.get("g").id, "embed")
    assert waiting is not None
    assert waiting.status == "queued"
    located(api)
    answer = suggested(api, "strategy=coverage&k=200")
    assert answer["embedding_snapshot"] == 3
    assert len(answer["suggestions"]) == 98


def test_embedding_is_made_again_once_edges_have_gone(api: Api) -> None:
    bring_communities(api, deletions="exact")
    located(api)
    edges = list(zip(*two_communities(), strict=True))
    for n_gone, is_made_again in ((len(edges) // 20, False), (len(edges) // 5, True)):
        pairs = "&".join(f"src=n{u}&dst=n{v}" for u, v in edges[:n_gone])
        api.call("DELETE", f"/graphs/g/edges?{pairs}", 202)
        api.ingest()
        suggested(api, "strategy=coverage")
        waiting = api.home.jobs.newest(api.home.catalog.get("g").id, "embed")
        assert (waiting is not None and waiting.status == "queued") == is_made_again


@pytest.mark.usefixtures("processes")
def test_an_embedding_that_failed_is_not_tried_for_ever(api: Api) -> None:
    bring_communities(api)
    asked = api.call("GET", "/graphs/g/suggestions?strategy=coverage", 202).json()
    root = api.home.settings.graphs_directory / api.home.catalog.get("g").id
    edges = root / "snapshots" / "00000001" / "edges.arrow"
    edges.rename(root / "edges.arrow")
    for _ in range(3):
        api.run_job(asked["id"])
    assert api.call("GET", f"/jobs/{asked['id']}", 200).json()["status"] == "failed"
    for _ in range(2):
        problem = api.problem("GET", "/graphs/g/suggestions?strategy=coverage&wait=5", 409)
        assert asked["id"] in problem["detail"]
    (root / "edges.arrow").rename(edges)
    api.run(kind="embed")
    assert suggested(api, "strategy=coverage")["embedding_snapshot"] == 1


@pytest.mark.usefixtures("processes")
def test_numbers_have_no_margins(api: Api) -> None:
    api.create_graph("g", seed=1)
    u, v = two_communities()
    table = pa.table({"src": [f"n{each}" for each in u], "dst": [f"n{each}" for each in v]})
    api.push(as_parquet(table), PARQUET)
    api.ingest()
    api.put_labels({"n3": 1.5, "n33": 4.0})
    api.solve("hfs", target="real")
    assert api.problem("GET", "/graphs/g/suggestions", 422)["title"] == "No margins"
    located(api)
    answer = suggested(api, "strategy=variance&k=3")
    assert len(answer["suggestions"]) == 3
    assert isinstance(answer["suggestions"][0]["prediction"]["label"], float)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", ["int64", "dense"])
def test_numbers_as_ids_come_back_as_they_went_in(api: Api, kind: str) -> None:
    api.create_graph("g", seed=1, node_ids=kind)
    u, v = two_communities()
    high = 2**60 if kind == "int64" else 0
    api.push(as_parquet(pa.table({"src": u + high, "dst": v + high})), PARQUET)
    api.ingest()
    api.put_labels({str(high + 3): "left", str(high + 33): "right"})
    api.solve("stable-hfs")
    located(api)
    for strategy in STRATEGIES:
        for each in suggested(api, f"strategy={strategy}&k=5")["suggestions"]:
            assert isinstance(each["node"], str if high else int)
            assert 0 <= int(each["node"]) - high < 60


@pytest.mark.usefixtures("processes")
def test_nodes_without_a_label_near_come_by_where_they_lie_only(api: Api) -> None:
    bring_communities(api)
    rows = "".join(f"a{u},a{u + 1}\n" for u in range(40))
    api.push(f"src,dst\n{rows}b,c\n".encode(), CSV)
    api.ingest()
    api.solve("stable-hfs")
    located(api)
    names = [each["node"] for each in suggested(api, "k=200")["suggestions"]]
    assert not [name for name in names if name[0] in "abc"]  # no label reaches them: no margin
    names = [each["node"] for each in suggested(api, "strategy=coverage&k=12")["suggestions"]]
    assert [name for name in names if name[0] == "a"]
    store = EmbeddingStore(
        GraphPaths(root=api.home.settings.graphs_directory / api.home.catalog.get("g").id)
    )
    embedding = store.open()
    assert embedding is not None
    assert np.bincount(embedding.component).tolist() == [60, 41, 2]


@pytest.mark.usefixtures("processes")
def test_the_client_waits_until_the_nodes_are_located(api: Api) -> None:
    bring_communities(api)
    with Client(str(api.client.base_url)) as client:
        with pytest.raises(PredictionsNotFound):
            client.suggestions("g")
        with pytest.raises(StillWaiting):
            client.suggestions("g", "coverage", timeout=0.3)
        (job,) = client.jobs(graph="g")
        assert (job.kind, job.status) == ("embed", "queued")
        client.cancel(job.id)
        waiting = client.submit_embed("g")
        threading.Timer(0.3, api.run_job, [waiting.id]).start()
        found = client.suggestions("g", "coverage", 3, timeout=60)
        assert len(found.nodes) == 3
        assert found.embedding_snapshot == 1
        assert found.suggestions[0].prediction is None


def test_the_client_says_that_the_job_was_cancelled(api: Api) -> None:
    bring_communities(api)
    with Client(str(api.client.base_url)) as client:

        def cancel() -> None:
            while not (found := api.home.jobs.list().jobs):
                time.sleep(0.02)
            api.home.jobs.cancel(found[0].id)

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(JobCancelled):
            client.suggestions("g", "coverage", timeout=60)
        canceller.join()
