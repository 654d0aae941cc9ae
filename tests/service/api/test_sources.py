"""Sources and the manifest over HTTP."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.service.api.conftest import Api


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """A directory with a good file, a broken one, and one whose last row group holds a NaN."""
    directory = tmp_path / "edges"
    directory.mkdir()
    good = pa.table({"src": ["a", "b"], "dst": ["b", "c"]})
    pa.parquet.write_table(good, directory / "good.parquet")
    whole = (directory / "good.parquet").read_bytes()
    (directory / "truncated.parquet").write_bytes(whole[: len(whole) // 2])
    weight = np.ones(30)
    weight[25] = np.nan
    late = pa.table({"src": ["x"] * 30, "dst": ["y"] * 30, "weight": weight})
    pa.parquet.write_table(late, directory / "late.parquet", row_group_size=10)
    return directory


def test_a_source_is_read_and_its_bad_files_are_told(api: Api, edges: Path) -> None:
    api.create_graph("g")
    made = api.call("POST", "/graphs/g/sources", 201, json={"url": str(edges)}).json()
    assert (made["url"], made["follow"]) == (str(edges), False)
    api.ingest()
    shown = api.call("GET", "/graphs/g/sources", 200).json()
    (source,) = shown["sources"]
    ended = {status: n for status, n in source["files"].items() if n}
    assert ended == {"committed": 1, "quarantined": 2}
    files = {Path(file["path"]).stem: file for file in shown["files"]}
    assert files["good"]["status"] == "committed"
    assert files["truncated"]["reason"]
    assert (files["late"]["row"], files["late"]["value"]) == (25, "nan")
    graph = api.call("GET", "/graphs/g", 200).json()
    assert (graph["nodes"], graph["edges_seen"]) == (3, 2)


def test_quarantined_files_can_be_offered_again(api: Api, edges: Path) -> None:
    api.create_graph("g")
    source = api.call("POST", "/graphs/g/sources", 201, json={"url": str(edges)}).json()
    api.ingest()
    retried = api.call("POST", f"/graphs/g/sources/{source['id']}:retry", 200).json()
    assert retried == {"n_files": 2}
    pending = api.call("GET", "/graphs/g/files?status=pending", 200).json()["files"]
    assert {Path(file["path"]).stem for file in pending} == {"truncated", "late"}


def test_the_manifest_comes_in_pages(api: Api, edges: Path) -> None:
    api.create_graph("g")
    api.call("POST", "/graphs/g/sources", 201, json={"url": str(edges)})
    api.ingest()
    seen, page = [], "0"
    while page is not None:
        answer = api.call("GET", f"/graphs/g/files?limit=2&page={page}", 200).json()
        seen += [file["id"] for file in answer["files"]]
        page = answer["next_page"]
    assert seen == [1, 2, 3]


def test_a_source_is_added_once_and_removed(api: Api, edges: Path) -> None:
    api.create_graph("g")
    first = api.call("POST", "/graphs/g/sources", 201, json={"url": str(edges)}).json()
    body = {"url": str(edges), "follow": True}
    second = api.call("POST", "/graphs/g/sources", 201, json=body).json()
    assert (second["id"], second["follow"]) == (first["id"], True)
    api.call("DELETE", f"/graphs/g/sources/{first['id']}", 204)
    assert api.call("GET", "/graphs/g/sources", 200).json()["sources"] == []
    api.problem("DELETE", f"/graphs/g/sources/{first['id']}", 404)
    api.problem("POST", f"/graphs/g/sources/{first['id']}:retry", 404)


@pytest.mark.parametrize("url", ["", "edges/*.parquet", "gopher://x/y", "/a\0b", "/" + "x" * 3000])
def test_a_url_that_cannot_be_read_is_refused(refusing: Api, url: str) -> None:
    problem = refusing.problem("POST", "/graphs/g/sources", 422, json={"url": url})
    assert "url" in problem["detail"]


def test_an_unknown_file_is_not_found(refusing: Api) -> None:
    refusing.problem("GET", "/graphs/g/files/7", 404)
    refusing.problem("GET", f"/graphs/g/files/{2**70}", 422)
