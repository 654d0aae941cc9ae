"""Estimates over HTTP, and jobs that are refused because they cannot fit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.settings import Settings
from tests.service.api.conftest import PARQUET, Api, community_edges, serving

TOO_LARGE = {"model": "lapsvm", "parameters": {"gram": "dense"}}


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Api]:
    """A server whose workers have hardly any memory, with a graph of 60 nodes."""
    settings = Settings(home=tmp_path / "home", database_url=None, child_memory_bytes=2**20)
    with serving(settings) as api:
        api.create_graph("g")
        api.push(community_edges(PARQUET), PARQUET)
        api.ingest()
        yield api


def test_an_estimate_says_memory_and_that_time_is_not_known(solved: Api) -> None:
    body = {"model": "lapsvm"}
    found = solved.call("POST", "/graphs/g/jobs:estimate", 200, json=body).json()
    assert (found["gram"], found["precision"], found["gram_bytes"]) == ("dense", "float64", 72960)
    assert (found["n_points"], found["n_features"]) == (60, 32)
    assert (found["input"], found["features_version"]) == ("spectral embedding", 0)
    assert (found["fits"], found["message"], found["seconds"]) == (True, None, None)
    assert found["limit_bytes"] == 2**31


def test_an_estimate_names_the_last_equal_job(solved: Api) -> None:
    body = {"kind": "solve", "model": "stable-hfs"}
    found = solved.call("POST", "/graphs/g/jobs:estimate", 200, json=body).json()
    (job,) = solved.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    assert (found["seconds_job"], found["seconds_snapshot"]) == (job["id"], 1)
    assert found["seconds"] == pytest.approx(sum(job["result"]["seconds"].values()), abs=1e-3)
    assert (found["gram"], found["input"], found["n_nodes"]) == (None, "graph", 60)


def test_what_cannot_fit_is_refused_with_what_would_do(tight: Api) -> None:
    found = tight.call("POST", "/graphs/g/jobs:estimate", 200, json=TOO_LARGE).json()
    assert not found["fits"]
    problem = tight.problem("POST", "/graphs/g/jobs", 422, json=TOO_LARGE)
    assert problem["type"] == "urn:peewit:problem:does-not-fit-the-memory"
    assert problem["detail"] == found["message"]
    assert tight.call("GET", "/jobs", 200).json()["jobs"] == []
    tight.call("POST", "/graphs/g/jobs", 202, json={"model": "hfs"})


def test_a_search_that_cannot_fit_is_refused_as_its_solves_are(tight: Api) -> None:
    found = tight.call("POST", "/graphs/g/jobs:estimate", 200, json=TOO_LARGE).json()
    body = {"kind": "tune", "model": "lapsvm", "parameters": {"gram": "dense", "folds": 2}}
    problem = tight.problem("POST", "/graphs/g/jobs", 422, json=body)
    assert problem["type"] == "urn:peewit:problem:does-not-fit-the-memory"
    assert problem["detail"] == found["message"]
    assert tight.call("GET", "/jobs", 200).json()["jobs"] == []


def test_wrong_estimates_are_refused(refusing: Api) -> None:
    path = "/graphs/g/jobs:estimate"
    problem = refusing.problem("POST", path, 422, json={"model": "magic"})
    assert problem["argument"] == "model"
    refusing.problem("POST", path, 422, json={"kind": "certify", "model": "hfs"})
    refusing.problem("POST", "/graphs/none/jobs:estimate", 404, json={"model": "hfs"})


def test_an_estimate_needs_a_snapshot(api: Api) -> None:
    api.create_graph("g")
    problem = api.problem("POST", "/graphs/g/jobs:estimate", 409, json={"model": "hfs"})
    assert problem["detail"] == "graph g has no snapshot yet; ingest edges first"
