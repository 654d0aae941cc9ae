"""What runs, whether it runs, which models there are, documentation, errors of any call."""

import gc
import re
import shutil
import weakref
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from structlog.testing import capture_logs

from peewit.service.api.app import create_app
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow
from peewit.service.settings import Settings
from peewit.service.tasks.solving.solve_options import options_schema
from peewit.solvers.models.catalogue import CATALOGUE
from tests.service.api.conftest import CSV, Api, serving


def test_the_catalogue_holds_every_model_with_its_schema(refusing: Api) -> None:
    models = refusing.call("GET", "/models", 200).json()["models"]
    assert [model["name"] for model in models] == sorted(CATALOGUE)
    for model in models:
        assert model["description"]
        assert model["parameters"]["additionalProperties"] is False
        names = [parameter.name for parameter in fields(CATALOGUE[model["name"]])]
        assert sorted(model["parameters"]["properties"]) == sorted(names)
        assert model["options"] == options_schema(CATALOGUE[model["name"]])


def test_the_version_is_that_of_the_package(refusing: Api) -> None:
    assert refusing.call("GET", "/version", 200).json()["version"] == version("peewit")


def test_readiness_ends_with_the_database(settings: Settings) -> None:
    with serving(settings) as api:
        assert api.client.get("/readyz").json() == {"status": "ok"}
        with api.home.database.write() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        refused = api.client.get("/readyz")
        assert (refused.status_code, refused.json()["title"]) == (503, "Not ready")
        assert "database" in refused.json()["detail"]
        assert api.client.get("/healthz").json() == {"status": "ok"}


def test_readiness_looks_at_the_schema_and_leaves_it_as_it_is(settings: Settings) -> None:
    with serving(settings) as api:
        with api.home.database.write() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        refused = api.client.get("/readyz")
        assert (refused.status_code, refused.json()["title"]) == (503, "Not ready")
        assert "schema" in refused.json()["detail"]
        with api.home.database.read() as connection:
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        assert found == "0001"


@pytest.mark.slow
def test_readiness_ends_with_the_disk(settings: Settings) -> None:
    free = shutil.disk_usage(settings.home.parent).free
    full = settings.model_copy(update={"min_free_bytes": 2 * free})
    with serving(full) as api:
        refused = api.client.get("/readyz")
        assert refused.status_code == 503
        assert "PEEWIT_MIN_FREE_BYTES" in refused.json()["detail"]
        assert api.client.get("/healthz").status_code == 200
    with serving(settings.model_copy(update={"min_free_bytes": 0})) as api:
        assert api.client.get("/readyz").status_code == 200


def test_readiness_ends_with_the_home(settings: Settings) -> None:
    database_url = f"sqlite:///{settings.home.parent / 'elsewhere.db'}"
    with serving(Settings(home=settings.home, database_url=database_url)) as api:
        shutil.rmtree(settings.home)
        refused = api.client.get("/readyz")
        assert refused.status_code == 503
        assert "PEEWIT_HOME" in refused.json()["detail"]


def test_ingest_that_stands_still_degrades_and_leaves_the_api_ready(settings: Settings) -> None:
    """Who may not read is told that something is wrong, and no name."""
    with serving(settings) as api:
        api.create_graph("secret-name")
        home = api.home
        graph_id = home.catalog.get("secret-name").id
        source = home.manifest.sources.add(graph_id, "edges/", follow=True)
        step = StepNow(
            key="",
            graph_id=graph_id,
            source_id=source.id,
            step="reading",
            file="edges/1.csv",
            step_seconds=90.0,
            quiet_seconds=80.0,
        )
        IngestSteps(home.database).store("ingest:host:1", [step])
        gone = home.manifest.sources.add(graph_id, "gone/", follow=True)
        home.manifest.sources.note_listing(gone.id, error="FileNotFoundError: gone")
        answer = api.client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json()["status"] == "degraded"
        stuck, failing = answer.json()["ingest"]
        assert stuck == {
            "graph": "secret-name",
            "source_id": source.id,
            "source": "edges/",
            "doing": "reading, edges/1.csv",
            "seconds": 80.0,
            "error": None,
        }
        assert (failing["source"], failing["error"]) == ("gone/", "FileNotFoundError: gone")
        key = home.keys.create("k", scopes=("read",))
        for headers in ({}, {"Authorization": "Bearer a.b"}):
            answer = api.client.get("/readyz", headers=headers)
            assert answer.status_code == 200
            assert [set(each.values()) - {None} for each in answer.json()["ingest"]] == [
                {80.0},
                {answer.json()["ingest"][1]["seconds"]},
            ]
        answer = api.client.get("/readyz", headers={"Authorization": f"Bearer {key}"})
        assert answer.json()["ingest"][0] == stuck


def test_a_database_out_of_reach_is_told_in_one_line(settings: Settings) -> None:
    with serving(settings) as api, capture_logs() as logged:
        api.home.database.close()
        shutil.rmtree(settings.home)
        problem = api.problem("GET", "/graphs", 503)
        assert problem["title"] == "Database out of reach"
    told = [entry for entry in logged if entry["event"] == "database out of reach"]
    assert [(entry["log_level"], entry["path"]) for entry in told] == [("warning", "/v1/graphs")]
    assert "unable to open database file" in told[0]["error"]
    assert "exc_info" not in told[0], "a traceback for each request keeps the API from answering"


def test_the_documentation_covers_every_call(refusing: Api) -> None:
    document = refusing.client.get("/openapi.json").json()
    operations = [
        (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    ]
    names = [operation["operationId"] for _, operation in operations]
    assert len(set(names)) == len(names) > 25
    tags = {tag["name"] for tag in document["tags"]}
    for path, operation in operations:
        assert set(operation["tags"]) <= tags
        assert operation["description"], path
        problem = operation["responses"]["default"]["content"]["application/problem+json"]
        assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
        assert "422" not in operation["responses"] or "HTTPValidationError" not in str(operation)
    schemas = document["components"]["schemas"]
    for reference in re.findall(r"#/components/schemas/(\w+)", str(document)):
        assert reference in schemas
    assert "key" in document["components"]["securitySchemes"]


def test_unknown_paths_and_methods_are_problems(refusing: Api) -> None:
    assert "/v1/nothing" in refusing.problem("GET", "/nothing", 404)["detail"]
    refused = refusing.call("DELETE", "/models", 405)
    assert refused.headers["allow"] == "GET"
    assert refused.json()["type"] == "urn:peewit:problem:method-not-allowed"
    refused = refusing.call("POST", "/graphs/g/labels", 405)
    assert refused.headers["allow"] == "GET, PUT, DELETE"


def test_broken_json_is_a_problem(refusing: Api) -> None:
    headers = {"Content-Type": "application/json"}
    for content in (b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000):
        response = refusing.client.post("/v1/graphs", content=content, headers=headers)
        assert response.status_code in {400, 422}
        assert response.headers["content-type"] == "application/problem+json"
    problem = refusing.problem("POST", "/graphs", 422, content=b'{"name":"g"}')
    assert "Content-Type: application/json" in problem["detail"]


def test_a_fault_of_ours_is_a_problem_without_details(api: Api) -> None:
    with api.home.database.write() as connection:
        connection.execute(
            text(
                "INSERT INTO graphs (id, name, node_ids, epsilon, expected_nodes, "
                "max_nodes, seed, keep_raw, state, created_at, n_nodes, edges_seen, edges_kept, "
                "left_out, files_seq, labels_seq, features_version, pushed_bytes) "
                "VALUES ('x', 'broken', "
                "'string', 7, 10, 10, 1, 1, 'active', '2026-01-01T00:00:00.000Z', "
                "0, 0, 0, '{}', 0, 0, 0, 0)"
            )
        )
    problem = api.problem("GET", "/graphs/broken", 500, headers={"X-Request-ID": "of-a-fault"})
    assert problem["request_id"] == "of-a-fault"
    assert problem["type"] == "urn:peewit:problem:internal-error"
    assert "epsilon" not in str(problem)


def test_a_disk_that_fails_without_being_full_is_a_fault_of_ours(api: Api) -> None:
    graph_id = api.create_graph("g")["id"]
    directory = api.home.settings.graphs_directory / graph_id
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "feature_sets").write_text("no directory")
    headers = {"Content-Type": CSV}
    problem = api.problem(
        "PUT", "/graphs/g/features", 500, content=b"node,x\na,1\n", headers=headers
    )
    assert problem["type"] == "urn:peewit:problem:internal-error"


def test_metrics_show_what_the_stores_know(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    answer = api.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'peewit_backlog_files{graph="g"} 1.0' in answer.text
    api.ingest()
    answer = api.client.get("/metrics")
    assert 'peewit_edges_ingested_total{graph="g"} 1.0' in answer.text
    assert 'peewit_backlog_bytes{graph="g"} 0.0' in answer.text


def test_metrics_need_a_key_where_there_are_keys(api: Api) -> None:
    api.home.keys.create("admin", ["admin"])
    assert api.client.get("/metrics").status_code == 401


def test_the_documentation_needs_no_other_host(api: Api) -> None:
    page = api.client.get("/docs").text
    places = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(places) >= 3
    for place in places:
        assert place.startswith("/static-offline-docs/"), place
        assert api.client.get(place).status_code == 200


def test_the_document_is_that_of_the_server_that_is_asked(
    refusing: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.service.api.app.version", lambda _name: "0.0.1")
    with serving(settings) as api:
        documents = [each.client.get("/openapi.json").json() for each in (refusing, api)]
    assert [each["info"]["version"] for each in documents] == [version("peewit"), "0.0.1"]
    assert documents[0]["paths"] == documents[1]["paths"]


def test_an_application_that_nobody_holds_is_freed(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path))
    here = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 1234)}
    with TestClient(app, **here) as client:  # FastAPI builds the routes at the first request
        for path in ("/docs", "/openapi.json", "/v1/graphs"):
            assert client.get(path).status_code == 200
    freed = weakref.ref(app)
    del app, client
    gc.collect()
    assert freed() is None
