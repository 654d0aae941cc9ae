"""Columns of other names in pushes, sources and labels over HTTP, and packed bodies."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from tests.service.api.conftest import CSV, Api


def test_a_push_names_its_columns_or_has_those_of_the_graph(api: Api) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h"})
    path, headers = "/graphs/h/edges", {"Content-Type": CSV}
    body = b"from,to,amount\na,b,2\n"
    problem = api.problem("POST", path, 422, content=body, headers=headers)
    assert "src='from', dst='to'" in problem["detail"]
    query = "?src=from&dst=to&weight=amount"
    api.call("POST", path + query, 202, content=body, headers=headers)
    twice = api.problem("POST", path + "?src=to&dst=to", 422, content=body, headers=headers)
    assert "column of its own" in str(twice)
    columns = {"src": "from", "dst": "to"}
    changed = api.call("PATCH", "/graphs/h", 200, json={"columns": columns}).json()
    assert changed["settings"]["columns"] == columns
    api.call("POST", path, 202, content=b"to;from\nc;b\n", headers=headers)
    api.ingest("h")
    assert api.call("GET", "/graphs/h", 200).json()["nodes"] == 3
    labels = api.call(
        "PUT",
        "/graphs/h/labels?node=id&label=kind",
        200,
        content=b"id\tkind\na\tx\n",
        headers=headers,
    )
    assert labels.json()["accepted"] == 1
    unknown = api.problem("PATCH", "/graphs/h", 422, json={"columns": {"source": "x"}})
    assert "columns" in str(unknown)


def test_a_weight_of_the_usual_name_is_not_lost_where_the_graph_has_another(api: Api) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h", "columns": {"weight": "amount"}})
    path, usual = "/graphs/h/edges", b"src,dst,weight\na,b,3\n"
    as_json = b'{"src": "a", "dst": "b", "weight": 3}\n'
    for content, kind in ((usual, CSV), (as_json, "application/x-ndjson")):
        headers = {"Content-Type": kind}
        problem = api.problem("POST", path, 422, content=content, headers=headers)
        assert "column 'amount' is missing" in problem["detail"]
        assert "say weight='weight' where that is meant" in problem["detail"]
    api.push(b"src,dst\na,b\n", CSV, "h")  # of edges without weights each counts 1
    headers = {"Content-Type": CSV}
    api.call("POST", path + "?weight=weight", 202, content=usual, headers=headers)


def test_a_source_says_how_it_is_read(api: Api, tmp_path: Path) -> None:
    api.call("POST", "/graphs", 201, json={"name": "h"})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "e.csv").write_text("u,v\na,b\n,c\n")
    source = api.home.manifest.sources.add(
        api.home.catalog.get("h").id,
        str(tmp_path / "in"),
        columns={"src": "u", "dst": "v"},
        max_bad_rows=1,
    )
    listed = api.call("GET", "/graphs/h/sources", 200).json()["sources"]
    assert [each["columns"] for each in listed] == [{"src": "u", "dst": "v"}]
    assert [each["max_bad_rows"] for each in listed] == [1]
    api.ingest("h")
    (file,) = api.call("GET", "/graphs/h/files", 200).json()["files"]
    assert (file["source_id"], file["status"]) == (source.id, "committed")
    assert (file["n_rows"], file["n_bad_rows"]) == (1, 1)


def test_json_labels_beyond_64_bits_are_refused_not_rounded(api: Api) -> None:
    api.call("POST", "/graphs", 201, json={"name": "g"})
    api.push(b"src,dst\na,b\n", CSV)
    body = b'{"labels": [{"node": "a", "label": 18446744073709551616}]}'
    headers = {"Content-Type": "application/json"}
    problem = api.problem("PUT", "/graphs/g/labels", 422, content=body, headers=headers)
    assert "2^63" in problem["detail"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_bodies_may_be_packed_within_their_limits(api: Api, encoding: str) -> None:
    def packed(content: bytes) -> bytes:
        is_gzip = encoding == "gzip"
        return gzip.compress(content) if is_gzip else pa.compress(content, encoding, asbytes=True)

    api.call("POST", "/graphs", 201, json={"name": "g"})
    headers = {"Content-Type": CSV, "Content-Encoding": encoding}
    edges = packed(b"src,dst\na,b\n")
    api.call("POST", "/graphs/g/edges", 202, content=edges, headers=headers)
    api.ingest("g")
    labels = packed(b'{"labels": [{"node": "a", "label": "x"}]}')
    json = headers | {"Content-Type": "application/json"}
    put = api.call("PUT", "/graphs/g/labels", 200, content=labels, headers=json)
    assert put.json()["accepted"] == 1
    cut = api.problem("POST", "/graphs/g/edges", 422, content=edges[:-5], headers=headers)
    assert encoding in cut["detail"]
    bomb = packed(b" " * (17 << 20))
    api.problem("PUT", "/graphs/g/labels", 413, content=bomb, headers=json)
    plain = api.problem("POST", "/graphs/g/edges", 422, content=b"src,dst\n", headers=headers)
    assert encoding in plain["detail"]
