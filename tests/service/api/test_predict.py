"""New points through the model of a job: every format in and out, and what is refused."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions.predictors import latest_predictor
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
from tests.service.solvable import Solvable, parity_features, two_communities

POINTS = parity_features(60)
COLUMNS = ["label", "score", "margin", "score:even", "score:odd"]
BAD_BODIES: list[tuple[Any, str, int | None]] = [
    ({"points": [{"features": [1, 2]}]}, "features", 0),
    ({"points": [{"features": [1, 2, 3]}, {"features": [1, 2]}]}, "features", 1),
    ({"points": [{"features": [1, 2, None]}]}, "features", 0),
    ({"points": [{"features": [1, 2, 1e300]}]}, "features", 0),
    ({"points": [{"features": [1, 2, "3"]}]}, "features", 0),
    ({"points": [{"features": [1, 2, True]}]}, "features", 0),
    ({"points": [{"features": 3}]}, "features", 0),
    ({"points": [{"indices": [3], "values": [1]}]}, "indices", 0),
    ({"points": [{"indices": [-1], "values": [1]}]}, "indices", 0),
    ({"points": [{"indices": [1.5], "values": [1]}]}, "indices", 0),
    ({"points": [{"indices": [2**63], "values": [1]}]}, "indices", 0),
    ({"points": [{"indices": [0, 1], "values": [1]}]}, None, 0),
    ({"points": [{"features": [1, 2, 3]}, {"indices": [0], "values": [1]}]}, None, 1),
    ({"points": [{"node": "n1"}]}, None, 0),
    ({"points": ["n1"]}, None, 0),
    ({"points": {}}, None, None),
    ({"nodes": []}, None, None),
    ([], None, None),
]


OF_FAMILY = [
    ("simplex", "lap-svm", {"norm_penalty": 0.01}),
    ("calibrated cut", "tv-rls", {"probabilities": True, "cross_validate": 2}),
    ("without norm", "tv-rls", {"norm_penalty": 0}),
]
"""Jobs by name, their models and settings: those whose functions are fitted beside a graph."""


@pytest.fixture(scope="module")
def trained(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, dict[str, str]]]:
    """A server with a graph whose features tell even nodes from odd ones, and its jobs by model."""
    home = tmp_path_factory.mktemp("trained")
    with serving(Settings(home=home, database_url=None, max_body_bytes=1 << 16)) as api:
        graph = api.create_graph("g", node_ids="dense")
        u, v = two_communities()
        api.push(as_parquet(pa.table({"src": u, "dst": v})), PARQUET)
        api.ingest()
        api.put_labels({4: "even", 36: "even", 7: "odd", 33: "odd"})
        jobs = {"embedded": solve(api, "svm")}
        solvable = Solvable(
            database=api.home.database, settings=api.home.settings, graph_id=graph["id"]
        )
        solvable.features(1, POINTS)
        jobs |= {model: solve(api, model) for model in ("lapsvm", "hfs")}
        asked = {"probabilities": True, "sets": "marginal", "cross_validate": 2}
        jobs["calibrated"] = submit(api, "lapsvm", parameters=asked)
        api.run_job(jobs["calibrated"])
        for name, model, parameters in OF_FAMILY:
            jobs[name] = submit(api, model, parameters=parameters)
            api.run_job(jobs[name])
        jobs["waiting"] = submit(api, "svm")
        jobs["tuning"] = submit(api, "svm", kind="tune")
        yield api, jobs


def submit(
    api: Api, model: str, kind: str = "solve", parameters: Mapping[str, Any] = MappingProxyType({})
) -> str:
    body = {"kind": kind, "model": model, "parameters": dict(parameters)}
    job: str = api.call("POST", "/graphs/g/jobs", 202, json=body).json()["id"]
    return job


def solve(api: Api, model: str) -> str:
    job = submit(api, model)
    api.run_job(job)
    return job


def listed(points: Any) -> pa.Table:
    return pa.table({"features": [row.tolist() for row in points]})


def written(media_type: str) -> bytes:
    """The points as a body."""
    match media_type:
        case "text/csv":
            lines = [",".join(map(repr, row.tolist())) for row in POINTS]
            return "\n".join(["a,b,c", *lines]).encode()
        case "application/x-ndjson":
            return b"\n".join(b'{"features": %s}' % str(row.tolist()).encode() for row in POINTS)
        case "application/vnd.apache.parquet":
            return as_parquet(listed(POINTS))
        case _:
            return as_arrow(listed(POINTS))


def test_points_have_the_probabilities_that_nodes_have(trained: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trained
    path = f"/jobs/{jobs['calibrated']}:predict"
    headers = {"Content-Type": ARROW, "Accept": ARROW}
    found = read(
        api.call("POST", path, 200, content=written(ARROW), headers=headers).content, ARROW
    )
    names = [name.replace("score", "probability") for name in COLUMNS]
    assert found.schema.names == names
    job = f"/graphs/g/predictions?job={jobs['calibrated']}"
    stored = read(api.call("GET", job, 200, headers={"Accept": ARROW}).content, ARROW)
    assert "p_value:even" in stored.schema.names
    assert found["label"].to_pylist() == stored["label"].to_pylist()
    for name in names[1:]:
        np.testing.assert_allclose(found[name], stored[name], rtol=1e-4, atol=1e-5)
    by_class = np.column_stack([found[name] for name in names if ":" in name])
    np.testing.assert_allclose(by_class.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("media_type", [ARROW, PARQUET, CSV, NDJSON])
def test_training_rows_are_predicted_as_they_were_solved(
    trained: tuple[Api, dict[str, str]], media_type: str
) -> None:
    api, jobs = trained
    path = f"/jobs/{jobs['lapsvm']}:predict"
    headers = {"Content-Type": media_type, "Accept": media_type}
    answer = api.call("POST", path, 200, content=written(media_type), headers=headers)
    found = read(answer.content, media_type)
    assert found.schema.names == COLUMNS
    job = f"/graphs/g/predictions?job={jobs['lapsvm']}"
    stored = read(api.call("GET", job, 200, headers={"Accept": ARROW}).content, ARROW)
    assert found["label"].to_pylist() == stored["label"].to_pylist()
    for name in COLUMNS[1:]:
        np.testing.assert_allclose(found[name], stored[name], rtol=1e-4, atol=1e-5)
    assert answer.headers["peewit-job"] == jobs["lapsvm"]
    assert answer.headers["peewit-model"] == "lapsvm"
    assert answer.headers["peewit-snapshot"] == "1"
    assert answer.headers["peewit-labels-seq"] == "4"
    assert answer.headers["peewit-features-version"] == "1"


def test_dense_and_sparse_json_say_the_same(trained: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trained
    path = f"/jobs/{jobs['lapsvm']}:predict"
    dense = {"points": [{"features": [-5, 0, 0.5]}, {"features": [0, 0, 0]}]}
    sparse = {"points": [{"indices": [2, 0], "values": [0.5, -5]}, {"indices": [], "values": []}]}
    told = [api.call("POST", path, 200, json=each).text for each in (dense, sparse)]
    assert told[0] == told[1]
    assert told[0].splitlines()[1].startswith('"odd",')
    assert api.call("POST", path, 200, json={"points": []}).text.splitlines() == [
        ",".join(f'"{name}"' for name in COLUMNS)
    ]


def test_a_column_of_nodes_is_ignored(trained: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trained
    path = f"/jobs/{jobs['lapsvm']}:predict?format=ndjson"
    answers = {
        api.call("POST", path, 200, content=body, headers={"Content-Type": CSV}).text
        for body in (b"a,b,c\n1,2,3\n", b"node,a,b,c\nx,1,2,3\n")
    }
    assert len(answers) == 1


@pytest.mark.parametrize(("body", "argument", "row"), BAD_BODIES)
def test_points_that_do_not_fit_are_refused_with_their_row(
    trained: tuple[Api, dict[str, str]], body: Any, argument: str | None, row: int | None
) -> None:
    api, jobs = trained
    problem = api.problem("POST", f"/jobs/{jobs['lapsvm']}:predict", 422, json=body)
    assert (problem.get("argument"), problem.get("row")) == (argument, row)


@pytest.mark.parametrize(
    ("media_type", "body", "row"),
    [
        (CSV, b"a,b,c\n1,2,3\n1,,3\n", 1),
        (CSV, b"a,b,c\n1,2,3\n1,x,3\n", 1),
        (CSV, b"a,b,c\n1,2,3\n1,nan,3\n", 1),
        (CSV, b"a,b\n1,2\n", 0),
        (CSV, b"a,a,b\n1,2,3\n", None),
        (CSV, b"node\n1\n", None),
        (NDJSON, b'{"features": [1, 2, 3]}\n{"features": [1, NaN, 3]}\n', 1),
        (ARROW, b"no arrow", None),
        (PARQUET, b"no parquet", None),
        (PARQUET, as_parquet(pa.table({"node": [1]})), None),
        (ARROW, as_arrow(pa.table({"features": [[1.0, 2.0, np.inf]]})), 0),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    trained: tuple[Api, dict[str, str]], media_type: str, body: bytes, row: int | None
) -> None:
    api, jobs = trained
    path, headers = f"/jobs/{jobs['lapsvm']}:predict", {"Content-Type": media_type}
    problem = api.problem("POST", path, 422, content=body, headers=headers)
    assert problem.get("row") == row
    assert problem["rule"]


def test_bodies_too_large_or_of_another_type_are_refused(
    trained: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = trained
    path = f"/jobs/{jobs['lapsvm']}:predict"
    large = b"a,b,c\n" + b"1,2,3\n" * 20_000
    api.problem("POST", path, 413, content=large, headers={"Content-Type": CSV})
    api.problem("POST", path, 415, content=b"1,2", headers={"Content-Type": "text/plain"})
    api.problem("POST", path, 406, json={"points": []}, headers={"Accept": "image/png"})


def test_the_freshest_solve_that_can_predicts_points(trained: tuple[Api, dict[str, str]]) -> None:
    """One by a partition of the nodes with probabilities, and one without norm, are fresher."""
    api, jobs = trained
    order = list(jobs)
    assert order.index("simplex") < order.index("calibrated cut") < order.index("without norm")
    for name, is_inductive in (("simplex", True), ("calibrated cut", False)):
        result = api.call("GET", f"/jobs/{jobs[name]}", 200).json()["result"]
        assert result["inductive"] is is_inductive
    found = latest_predictor(api.home.prediction_files, api.home.graph("g").id)
    assert found is not None
    assert found.id == jobs["simplex"]


def test_functions_beside_a_graph_score_points_as_such_nodes(
    trained: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = trained
    headers = {"Content-Type": ARROW, "Accept": ARROW}
    path = f"/jobs/{jobs['simplex']}:predict"
    answer = api.call("POST", path, 200, content=written(ARROW), headers=headers)
    path = f"/graphs/g/predictions?job={jobs['simplex']}"
    stored = read(api.call("GET", path, 200, headers=headers).content, ARROW)
    found = read(answer.content, ARROW)
    assert found["label"].to_pylist() == stored["label"].to_pylist()
    np.testing.assert_allclose(found["score"], stored["score"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("job", "status", "said"),
    [
        ("waiting", 409, "which is queued; wait for it"),
        (
            "hfs",
            422,
            "job must be a solve by one of cheeger-rls, cheeger-svm, da-svm, filtered-ridge, ",
        ),
        ("tuning", 422, "which is of kind tune"),
        ("embedded", 422, "on the spectral embedding alone; give the nodes features"),
        ("without norm", 422, "functions have no norm; solve with norm_penalty above 0"),
        ("calibrated cut", 422, "solve without probabilities to predict new points"),
    ],
)
def test_jobs_that_predict_no_points_say_what_to_do(
    trained: tuple[Api, dict[str, str]], job: str, status: int, said: str
) -> None:
    api, jobs = trained
    body = {"points": [{"features": [1, 2, 3]}]}
    problem = api.problem("POST", f"/jobs/{jobs[job]}:predict", status, json=body)
    assert said in problem["detail"]
    assert problem["argument"] == "job"
    api.problem("POST", "/jobs/none:predict", 404, json=body)
