"""knn jobs over HTTP."""

import pytest

from tests.service.api.conftest import PARQUET, Api, as_parquet
from tests.service.featured import clusters, feature_table


def put_features(api: Api) -> None:
    api.call(
        "PUT",
        "/graphs/g/features",
        202,
        content=as_parquet(feature_table(clusters())),
        headers={"Content-Type": PARQUET},
    )
    api.ingest()


@pytest.mark.usefixtures("processes")
def test_features_become_edges_that_are_solved(api: Api) -> None:
    api.create_graph("g", expected_nodes=60)
    put_features(api)
    body = {"kind": "knn", "parameters": {"k": 5, "weights": "heat", "symmetrize": "max"}}
    job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()
    assert (job["kind"], job["model"], job["parameters"]) == ("knn", None, body["parameters"])
    api.run_job(job["id"])
    ended = api.call("GET", f"/jobs/{job['id']}", 200).json()
    assert ended["status"] == "succeeded", ended["error"]
    assert ended["result"]["recall"] == 1.0
    assert ended["result"]["width"] > 0
    api.ingest()
    graph = api.call("GET", "/graphs/g", 200).json()
    assert graph["edges_seen"] == ended["result"]["n_edges"]
    (source,) = api.call("GET", "/graphs/g/sources", 200).json()["sources"]
    assert "/knn/" in source["url"]
    api.put_labels({"n3": "left", "n33": "right"})
    api.solve("harmonic-mbo")
    node = api.call("GET", "/graphs/g/predictions/node?id=n45", 200).json()
    assert node["prediction"]["label"] == "right"


@pytest.mark.usefixtures("processes")
def test_a_graph_without_features_or_with_such_edges_refuses_at_once(api: Api) -> None:
    api.create_graph("g", expected_nodes=60)
    body = {"kind": "knn", "parameters": {"k": 5}}
    problem = api.problem("POST", "/graphs/g/jobs", 409, json=body)
    assert problem["type"] == "urn:peewit:problem:no-features-yet"
    put_features(api)
    job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()
    api.run_job(job["id"])
    problem = api.problem("POST", "/graphs/g/jobs", 409, json=body)
    assert "its deletions are off; make another graph" in problem["detail"]
    assert len(api.call("GET", "/jobs", 200).json()["jobs"]) == 1
