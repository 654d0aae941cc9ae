"""Problems name the argument that breaks a rule, and read it from the error, not from its text."""

import ast
from pathlib import Path
from typing import Any

import pytest

import peewit.service.api
from tests.service.api.conftest import CSV, Api

JOBS, EDGES, LABELS, FEATURES = (
    f"/graphs/g/{each}" for each in ("jobs", "edges", "labels", "features")
)
PATTERN_METHODS = {"match", "search", "fullmatch", "findall", "finditer", "split", "sub"}
MESSAGES = {"error", "raised", "cause", "message", "reason", "rule", "detail", "msg", "args"}


def solve(**parameters: Any) -> dict[str, Any]:
    return {"model": "hfs", "parameters": parameters}


def labels(node: Any = "a", label: Any = "x") -> dict[str, Any]:
    return {"labels": [{"node": node, "label": label}]}


@pytest.mark.parametrize(
    ("method", "path", "body", "argument"),
    [
        ("POST", "/graphs", {"name": "No spaces"}, "name"),
        ("POST", "/graphs", {"name": "h", "epsilon": 1.5}, "epsilon"),
        ("POST", "/graphs", {"name": "h", "max_edges": 0}, "max_edges"),
        ("POST", "/graphs", {"name": "h", "expected_nodes": 1}, "expected_nodes"),
        ("POST", "/graphs", {"name": "h", "max_nodes": 1}, "max_nodes"),
        ("POST", "/graphs", {"name": "h", "seed": -1}, "seed"),
        ("POST", "/graphs", {"name": "h", "node_ids": "uuid"}, "node_ids"),
        ("POST", "/graphs", {"name": "h", "snapshot_every": {}}, "snapshot_every"),
        ("POST", "/graphs", {"name": "h", "snapshot_every": {"edges": 0}}, "snapshot_every.edges"),
        ("POST", "/graphs", {"name": "h", "auto_solve": {"model": "none"}}, "model"),
        ("POST", "/graphs", {"name": "h", "auto_solve": solve(rtol=2)}, "rtol"),
        ("PATCH", "/graphs/g", {"epsilon": 0.0}, "epsilon"),
        ("POST", "/graphs/g/sources", {"url": "edges/*.parquet"}, "url"),
        ("POST", "/graphs/g/sources", {"url": "/nowhere/*.parquet"}, "url"),
        ("POST", JOBS, {"kind": "guess"}, "kind"),
        ("POST", JOBS, {"model": "none"}, "model"),
        ("POST", JOBS, solve(graph_penalty=-1), "graph_penalty"),
        ("POST", JOBS, solve(graph_penalty=True), "graph_penalty"),
        ("POST", JOBS, solve(cross_validate=1), "cross_validate"),
        ("POST", JOBS, solve(max_passes=1), "max_passes"),
        ("POST", JOBS, {"model": "lapsvm", "parameters": {"refine": True}}, "refine"),
        ("POST", JOBS, solve() | {"priority": 101}, "priority"),
        ("POST", JOBS, solve(folds=1) | {"kind": "tune"}, "folds"),
        ("POST", JOBS, solve(grid=1) | {"kind": "tune"}, "grid"),
        ("POST", JOBS, solve(grid={"graph_penalty": [-1]}) | {"kind": "tune"}, "graph_penalty"),
        ("POST", JOBS, {"kind": "certify", "parameters": {"snapshot": 0}}, "snapshot"),
        ("POST", JOBS, {"kind": "certify", "parameters": {"passes": 1}}, "passes"),
        ("POST", JOBS, {"kind": "certify", "parameters": {"gap": 2.0}}, "gap"),
        ("POST", JOBS, {"kind": "knn", "parameters": {"k": 0}}, "k"),
        ("POST", JOBS, {"kind": "knn", "parameters": {"width": 2.0}}, "width"),
        ("POST", f"{JOBS}:estimate", {"model": "none"}, "model"),
        ("PUT", LABELS, labels(node=7), "node"),
        ("PUT", LABELS, labels(node="a\0"), "node"),
        ("PUT", LABELS, labels(node="nobody"), "node"),
        ("PUT", LABELS, labels(label=True), "label"),
        ("PUT", LABELS, labels(label="x" * 2000), "label"),
        ("PUT", LABELS, {"labels": [{"node": "a"}]}, "label"),
    ],
)
def test_an_argument_of_a_json_body_is_named(
    refusing: Api, method: str, path: str, body: dict[str, Any], argument: str
) -> None:
    problem = refusing.problem(method, path, 422, json=body)
    assert problem["argument"] == argument
    assert "should" not in problem["detail"], "the words of pydantic"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "name is missing"),
        ({"name": 7}, "name must be a string, got 7"),
        ({"name": "h", "epsilon": "x"}, "epsilon must be a number, got x"),
        ({"name": "h", "seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"name": "h", "keep_raw": "yes"}, "keep_raw must be true or false, got yes"),
        (
            {"name": "h", "node_ids": "uuid"},
            "node_ids must be 'string', 'int64', 'dense' or 'typed', got uuid",
        ),
        ({"name": "h", "colour": "red"}, "colour is not known, got red"),
        ({"name": "h", "columns": 3}, "columns must be an object, got 3"),
    ],
)
def test_a_rule_reads_as_all_our_rules(api: Api, body: dict[str, Any], detail: str) -> None:
    assert api.problem("POST", "/graphs", 422, json=body)["detail"] == detail


@pytest.mark.parametrize(
    ("method", "path", "content", "argument"),
    [
        ("POST", EDGES, b"src,dst,weight\na,b,-2\n", "weight"),
        ("POST", EDGES, b"src,dst,weight\na,b,heavy\n", "weight"),
        ("POST", EDGES, b"from,to\na,b\n", "src"),
        ("PUT", LABELS, b"node,tag\na,x\n", "label"),
        ("PUT", FEATURES, b"node,one\n" + b"a" * 2001 + b",1\n", "node"),
        ("PUT", FEATURES, b"node,one\na,inf\n", "one"),
    ],
)
def test_a_column_of_a_table_is_named(
    refusing: Api, method: str, path: str, content: bytes, argument: str
) -> None:
    headers = {"Content-Type": CSV}
    problem = refusing.problem(method, path, 422, content=content, headers=headers)
    assert problem["argument"] == argument


def test_a_setting_that_is_fixed_is_named(refusing: Api) -> None:
    problem = refusing.problem("PATCH", "/graphs/g", 409, json={"node_ids": "int64"})
    assert problem["argument"] == "node_ids"
    assert refusing.problem("POST", "/graphs", 409, json={"name": "g"})["argument"] == "name"


@pytest.mark.parametrize(
    ("path", "expected", "header", "argument"),
    [
        (EDGES, 415, {"Content-Type": "text/plain"}, "Content-Type"),
        (EDGES, 415, {"Content-Encoding": "br"}, "Content-Encoding"),
        (EDGES, 422, {"Idempotency-Key": ""}, "idempotency-key"),
    ],
)
def test_a_header_is_named(
    refusing: Api, path: str, expected: int, header: dict[str, str], argument: str
) -> None:
    headers = {"Content-Type": CSV} | header
    problem = refusing.problem("POST", path, expected, content=b"src,dst\na,b\n", headers=headers)
    assert problem["argument"] == argument


def test_what_a_table_is_asked_in_is_named(refusing: Api) -> None:
    problem = refusing.problem("GET", LABELS, 406, headers={"Accept": "image/png"})
    assert problem["argument"] == "Accept"
    assert refusing.problem("GET", f"{LABELS}?format=xml", 422)["argument"] == "format"


def test_no_module_of_the_api_searches_the_text_of_an_error() -> None:
    for path in Path(*peewit.service.api.__path__).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr in PATTERN_METHODS:
                parts = [part for argument in call.args for part in ast.walk(argument)]
                words = {getattr(part, "id", getattr(part, "attr", "")) for part in parts}
                assert not words & MESSAGES, f"{path.name}, line {call.lineno}"
