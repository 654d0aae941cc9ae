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


def test_what_cannot_fit_is_refused_with_what_would_do(tight: Api) -> None:
    found = tight.call("POST", "/graphs/g/jobs:estimate", 200, json=TOO_LARGE).json()
    assert not found["fits"]
    problem = tight.problem("POST", "/graphs/g/jobs", 422, json=TOO_LARGE)
    assert problem["type"] == "urn:peewit:problem:does-not-fit-the-memory"
    assert problem["detail"] == found["message"]
    assert tight.call("GET", "/jobs", 200).json()["jobs"] == []
    tight.call("POST", "/graphs/g/jobs", 202, json={"model": "hfs"})
