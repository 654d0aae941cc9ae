"""New points with edges to nodes: placed as a node with such edges, or refused with their row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from peewit.service.settings import Settings
from tests.service.api.conftest import (
    ARROW,
    CSV,
    NDJSON,
    PARQUET,
    Api,
    as_arrow,
    as_parquet,
    serving,
)
from tests.service.api.test_predictions import read
from tests.service.featured import clusters, feature_table
from tests.service.solvable import two_communities

N_NODES = 60
ROW = [1.0, 2.0, 3.0, 4.0]
SCORES = ["score:even", "score:odd"]


@pytest.fixture(scope="module")
def trained(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, dict[str, str]]]:
    """A server with a weighted graph, jobs by model, and a node that came after them."""
    home = tmp_path_factory.mktemp("trained")
    with serving(Settings(home=home, database_url=None)) as api:
        api.create_graph("g", seed=1)
        u, v = two_communities(N_NODES)
        weight = np.random.default_rng(1).lognormal(0.0, 1.0, u.size)
        edges = {"src": [f"n{at}" for at in u], "dst": [f"n{at}" for at in v], "weight": weight}
        api.push(as_parquet(pa.table(edges)), PARQUET)
        headers = {"Content-Type": PARQUET}
        features = as_parquet(feature_table(clusters(N_NODES)))
        api.call("PUT", "/graphs/g/features", 202, content=features, headers=headers)
        api.ingest()
        api.put_labels({"n4": "even", "n36": "even", "n7": "odd", "n33": "odd"})
        jobs = {}
        for model, parameters in (("filtered-ridge", {"teleport": 0.3}), ("svm", {})):
            body = {"model": model, "parameters": parameters}
            jobs[model] = api.call("POST", "/graphs/g/jobs", 202, json=body).json()["id"]
            api.run_job(jobs[model])
        api.push(as_parquet(pa.table({"src": ["n0"], "dst": ["late"]})), PARQUET)
        api.ingest()
        yield api, jobs


def neighbors_of(api: Api) -> dict[str, list[dict[str, Any]]]:
    """Edges of every node in the snapshot that was solved."""
    answer = api.call("GET", "/graphs/g/snapshots/2/edges", 200, headers={"Accept": ARROW})
    found: dict[str, list[dict[str, Any]]] = {f"n{at}": [] for at in range(N_NODES)}
    for row in read(answer.content, ARROW).to_pylist():
        found[row["src"]].append({"node": row["dst"], "weight": row["weight"]})
        found[row["dst"]].append({"node": row["src"], "weight": row["weight"]})
    return found


def scores_of(table: pa.Table) -> np.ndarray:
    return np.column_stack([table[name] for name in SCORES])


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_a_point_with_features_and_edges_of_a_node_is_scored_as_the_node(
    trained: tuple[Api, dict[str, str]], form: str
) -> None:
    api, jobs = trained
    job, rows = jobs["filtered-ridge"], clusters(N_NODES).tolist()
    neighbors = neighbors_of(api)
    points = [{"features": rows[at], "edges": neighbors[f"n{at}"]} for at in range(N_NODES)]
    path = f"/jobs/{job}:predict?format=arrow"
    if form == "json":
        answer = api.call("POST", path, 200, json={"points": points})
    else:
        lines = b"\n".join(map(orjson.dumps, points))
        answer = api.call("POST", path, 200, content=lines, headers={"Content-Type": NDJSON})
    found = scores_of(read(answer.content, ARROW))
    stored = api.call("GET", f"/graphs/g/predictions?job={job}&format=arrow", 200)
    nodes = read(stored.content, ARROW)
    order = [f"n{at}" for at in range(N_NODES)]
    expected = scores_of(nodes)[[nodes["node"].to_pylist().index(node) for node in order]]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    alone = api.call("POST", path, 200, json={"points": [{"features": row} for row in rows]})
    assert np.abs(scores_of(read(alone.content, ARROW)) - expected).max() > 0.01


def test_weights_count_from_1_and_parallel_edges_add_up(
    trained: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = trained

    def told(*edges: dict[str, Any]) -> str:
        points = [{"features": ROW, "edges": edges}, {"features": ROW}]
        path = f"/jobs/{jobs['filtered-ridge']}:predict"
        return api.call("POST", path, 200, json={"points": points}).text

    assert told({"node": "n1"}) == told({"node": "n1", "weight": 1})
    both = told({"node": "n1", "weight": 2}, {"node": "n1", "weight": 1.5}, {"node": "n40"})
    assert both == told({"node": "n40", "weight": 1}, {"node": "n1", "weight": 3.5})
    _, joined, alone = told({"node": "n50", "weight": 3}).splitlines()
    assert joined != alone
    _, first, second = told().splitlines()
    assert first == second == alone


@pytest.mark.parametrize(
    ("edges", "argument", "rule"),
    [
        ([{"node": "nobody"}], "edges", "must lead to nodes of graph g"),
        ([{"node": "n1"}, {"node": "late"}], "edges", "must lead to nodes of snapshot 2"),
        ([{"node": "n1", "weight": 0}], "edges", "must be finite and > 0"),
        ([{"node": "n1", "weight": -1}], "edges", "must be finite and > 0"),
        ([{"node": "n1", "weight": 1e39}], "edges", "must be finite and > 0"),
        ([{"node": "n1", "weight": "1"}], "edges", "must be finite and > 0"),
        ([{"node": "n1", "weight": True}], "edges", "must be finite and > 0"),
        ([{"node": "n1", "weight": None}], "edges", "must be finite and > 0"),
        ([{"node": 1}], "node", "must be a string in this graph"),
        ([{"node": "n1", "wieght": 2}], "edges", "must be a list of objects with node"),
        ([{"weight": 2}], "edges", "must be a list of objects with node"),
        (["n1"], "edges", "must be a list of objects with node"),
        ({"node": "n1"}, "edges", "must be a list of objects with node"),
    ],
)
def test_edges_that_do_not_fit_are_refused_with_their_row(
    trained: tuple[Api, dict[str, str]], edges: Any, argument: str, rule: str
) -> None:
    api, jobs = trained
    points = [{"features": ROW, "edges": [{"node": "n1"}]}, {"features": ROW, "edges": edges}]
    path = f"/jobs/{jobs['filtered-ridge']}:predict"
    problem = api.problem("POST", path, 422, json={"points": points})
    assert (problem["argument"], problem["row"]) == (argument, 1)
    assert rule in problem["rule"]


def test_a_model_of_features_alone_refuses_edges_by_name(
    trained: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = trained
    path = f"/jobs/{jobs['svm']}:predict"
    points: list[dict[str, Any]] = [{"features": ROW, "edges": []}]
    api.call("POST", path, 200, json={"points": points})
    points.append({"features": ROW, "edges": [{"node": "n1"}]})
    problem = api.problem("POST", path, 422, json={"points": points})
    assert (problem["argument"], problem["row"]) == ("edges", 1)
    assert "svm predicts new points by their features alone" in problem["rule"]


@pytest.mark.parametrize(("media_type", "written"), [(ARROW, as_arrow), (PARQUET, as_parquet)])
def test_tables_with_edges_say_which_formats_take_them(
    trained: tuple[Api, dict[str, str]], media_type: str, written: Any
) -> None:
    api, jobs = trained
    table = pa.table({"features": [ROW], "edges": [[{"node": "n1", "weight": 1.0}]]})
    path, headers = f"/jobs/{jobs['filtered-ridge']}:predict", {"Content-Type": media_type}
    problem = api.problem("POST", path, 422, content=written(table), headers=headers)
    assert problem["argument"] == "edges"
    assert "must come as NDJSON or JSON" in problem["rule"]


AGES = [20 + at % 7 + 30 * (at % 2) for at in range(N_NODES)]
TOWNS = [("Rome", "Oslo")[at % 2] for at in range(N_NODES)]
SIZES = [float(at % 5) for at in range(N_NODES)]


@pytest.fixture(scope="module")
def by_columns(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, dict[str, str]]]:
    """A server with a graph, and jobs on features of words and numbers, and of numbers alone."""
    home = tmp_path_factory.mktemp("by_columns")
    jobs = {}
    with serving(Settings(home=home, database_url=None)) as api:
        api.create_graph("g", seed=1)
        u, v = two_communities(N_NODES)
        edges = {"src": [f"n{at}" for at in u], "dst": [f"n{at}" for at in v]}
        api.push(as_parquet(pa.table(edges)), PARQUET)
        api.put_labels({"n4": "even", "n36": "even", "n7": "odd", "n33": "odd"})
        for kind, second in (("town", TOWNS), ("size", SIZES)):
            rows = [f"n{at},{AGES[at]},{second[at]}" for at in range(N_NODES)]
            body = "\n".join([f"node,age,{kind}", *rows])
            headers = {"Content-Type": CSV}
            api.call("PUT", "/graphs/g/features", 202, content=body, headers=headers)
            api.ingest()
            asked = {"model": "filtered-ridge", "parameters": {"teleport": 0.3}}
            jobs[kind] = api.call("POST", "/graphs/g/jobs", 202, json=asked).json()["id"]
            api.run_job(jobs[kind])
        yield api, jobs


@pytest.mark.parametrize("form", ["json", "ndjson"])
@pytest.mark.parametrize("kind", ["town", "size"])
def test_points_are_objects_with_the_columns_by_name_and_edges(
    by_columns: tuple[Api, dict[str, str]], kind: str, form: str
) -> None:
    api, jobs = by_columns
    second = TOWNS if kind == "town" else SIZES
    neighbors = neighbors_of(api)
    bare = [{kind: second[at], "age": AGES[at]} for at in range(N_NODES)]
    joined = [row | {"edges": neighbors[f"n{at}"]} for at, row in enumerate(bare)]
    path = f"/jobs/{jobs[kind]}:predict?format=arrow"

    def scored(points: list[dict[str, Any]]) -> np.ndarray:
        if form == "json":
            answer = api.call("POST", path, 200, json={"points": points})
        else:
            lines = b"\n".join(map(orjson.dumps, points))
            answer = api.call("POST", path, 200, content=lines, headers={"Content-Type": NDJSON})
        return scores_of(read(answer.content, ARROW))

    stored = api.call("GET", f"/graphs/g/predictions?job={jobs[kind]}&format=arrow", 200)
    nodes = read(stored.content, ARROW)
    order = [nodes["node"].to_pylist().index(f"n{at}") for at in range(N_NODES)]
    np.testing.assert_allclose(scored(joined), scores_of(nodes)[order], atol=1e-4)
    rows = [f"{AGES[at]},{second[at]}" for at in range(N_NODES)]
    content = "\n".join([f"age,{kind}", *rows])
    answer = api.call("POST", path, 200, content=content, headers={"Content-Type": CSV})
    alone = scored(bare)
    for media_type, written in ((ARROW, as_arrow), (PARQUET, as_parquet)):
        headers = {"Content-Type": media_type}
        stored = api.call(
            "POST", path, 200, content=written(pa.Table.from_pylist(bare)), headers=headers
        )
        np.testing.assert_allclose(alone, scores_of(read(stored.content, ARROW)), atol=1e-6)
    np.testing.assert_allclose(alone, scores_of(read(answer.content, ARROW)), atol=1e-6)
    some = scored([bare[0], joined[1]])
    np.testing.assert_allclose(some, [alone[0], scores_of(nodes)[order[1]]], atol=1e-4)


def test_columns_of_tables_that_are_no_numbers_are_refused_by_name(
    by_columns: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = by_columns
    path, headers = f"/jobs/{jobs['size']}:predict", {"Content-Type": ARROW}
    for table, told in (
        (
            {"age": [1], "size": ["large"]},
            "'size' must hold a number in every row, got large in row 0",
        ),
        ({"age": [1], "size": [[1]]}, "'size' must hold numbers, got type list<item: int64>"),
        ({"age": [None], "size": [1]}, "'age' must hold finite numbers, got nan in row 0"),
        ({"age": [1]}, "this table lacks 'size'"),
    ):
        problem = api.problem("POST", path, 422, content=as_arrow(pa.table(table)), headers=headers)
        assert told in problem["detail"]


@pytest.mark.parametrize(
    ("kind", "point", "argument", "rule"),
    [
        ("town", {"town": "Rome"}, "age", "is missing"),
        ("town", {"town": "Rome", "age": "many"}, "age", "must hold numbers"),
        ("town", {"town": ["Rome"], "age": 1}, "town", "must hold numbers, text or truth"),
        ("town", {"town": "Rome", "age": 1, "edges": [{"node": "nobody"}]}, "edges", "must lead"),
        ("size", {"size": 1}, "age", "this table lacks 'age'"),
        ("size", {"size": 1, "age": 2, "town": "Rome"}, "town", "has further 'town'"),
        ("size", {"size": 1, "age": None}, "age", "must hold a number in every row"),
        ("size", {"size": 1, "age": 1, "edges": ["n1"]}, "edges", "a list of objects with node"),
    ],
)
def test_points_by_name_that_do_not_fit_are_refused(
    by_columns: tuple[Api, dict[str, str]], kind: str, point: Any, argument: str, rule: str
) -> None:
    api, jobs = by_columns
    body = {"points": [point]}
    problem = api.problem("POST", f"/jobs/{jobs[kind]}:predict", 422, json=body)
    assert problem["argument"] == argument
    assert rule in problem["rule"]


def test_new_points_are_refused_where_the_spectrum_predicts(
    processes: None, tmp_path: Path
) -> None:
    rng, n_nodes = np.random.default_rng(3), 400
    u, v = rng.integers(0, n_nodes, (2, 4_000))
    kept = (u % 2 != v % 2) | ((rng.random(u.size) < 0.1) & (u != v))
    with serving(Settings(home=tmp_path, database_url=None)) as api:
        api.create_graph("g", seed=1)
        edges = {"src": [f"n{at}" for at in u[kept]], "dst": [f"n{at}" for at in v[kept]]}
        api.push(as_parquet(pa.table(edges)), PARQUET)
        headers = {"Content-Type": PARQUET}
        features = as_parquet(feature_table(rng.standard_normal((n_nodes, 4))))
        api.call("PUT", "/graphs/g/features", 202, content=features, headers=headers)
        api.ingest()
        api.put_labels({f"n{at}": ("buyer", "seller")[at % 2] for at in range(40)})
        body = {"model": "filtered-ridge"}
        job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()["id"]
        api.run_job(job)
        assert api.call("GET", f"/jobs/{job}", 200).json()["result"]["stats"]["arm"] == "points"
        points = {"points": [{"features": ROW, "edges": [{"node": "n0"}]}]}
        problem = api.problem("POST", f"/jobs/{job}:predict", 422, json=points)
        why = api.call("GET", "/graphs/g/predictions/node/reasons?id=n101", 200).json()["reasons"]
    assert "kind of neighbors the node has counts beside its features" in why["note"]
    assert problem["argument"] == "job"
    assert "points of the graph's spectrum here" in problem["detail"]
    assert "solve with teleport=0.1" in problem["detail"]
