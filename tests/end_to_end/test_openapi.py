"""Every operation of the OpenAPI document against a real server: what it promises is what comes.

Examples are drawn from the document, half of them valid and half not, half with names of what is
there and half without. `make test-nightly` tries PEEWIT_OPENAPI_EXAMPLES of each sort for each
operation; about 1,000 make a long run.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import schemathesis
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, CheckContext, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from peewit.service.catalog import GraphExists
from peewit.service.graph_settings import GraphSettings
from peewit.service.settings import Settings
from tests.service.api.conftest import ARROW, PARQUET, Api, as_arrow, community_edges, serving
from tests.service.featured import clusters, feature_table

AT_LENGTH: Final = int(os.environ.get("PEEWIT_OPENAPI_EXAMPLES", "25"))
GRAPH: Final = "looked-at"
"""No example makes up this name, and deletes what goes by it."""

LONGEST_WAIT_SECONDS: Final = 0.01


def status_stands_by_itself(_context: CheckContext, response: Response, case: Case) -> bool | None:
    """``default`` describes what any operation may answer; it excuses no code of its own."""
    told = case.operation.definition.raw["responses"]
    assert str(response.status_code) in told, f"{response.status_code} is not among {sorted(told)}"
    return None


def refuses_what_is_wrong(context: CheckContext, response: Response, case: Case) -> bool | None:
    """As Schemathesis has it, but for tables and queries with arrays: what it makes there is text.

    A number there is a string, and an object an array of its names and values.
    """
    if case.meta is not None and case.media_type != "application/json":
        told = case.meta.components.items()
        wrong = {where for where, made in told if made.mode is GenerationMode.NEGATIVE}
        if wrong == {ParameterLocation.BODY}:
            return None
    parameters = case.operation.definition.raw.get("parameters", [])
    if any("array" in str(each["schema"]) for each in parameters if each["in"] == "query"):
        return None
    return negative_data_rejection(context, response, case)


_CHECKS: Final = [
    status_stands_by_itself,
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    refuses_what_is_wrong,
]


class _Home:
    """A served home that holds one of everything, and the names of it."""

    def __init__(self, api: Api, directory: Path) -> None:
        self.api = api
        self._source = directory / "edges"
        self._source.mkdir()
        table = pa.table({"src": ["n0", "n1"], "dst": ["n2", "n3"]})
        pq.write_table(table, self._source / "good.parquet")
        (self._source / "bad.parquet").write_bytes(b"PAR1")
        api.create_graph(GRAPH, seed=1)
        self.push_id = api.push(community_edges(PARQUET), PARQUET, GRAPH)["id"]
        self.set_id = self._give_features()
        self._add_source()
        api.ingest(GRAPH)
        files = api.call("GET", f"/graphs/{GRAPH}/files", 200).json()["files"]
        self.file_id = files[0]["id"]
        api.put_labels({"n3": "left", "n33": "right"}, GRAPH)
        self.job_id = self._solved("stable-hfs")
        self.trained_id = self._solved("svm")

    def names(self, operation_id: str) -> dict[str, Any]:
        """What the path of an operation may hold; what is deleted is made anew."""
        names: dict[str, Any] = {"graph": GRAPH, "job_id": self.job_id, "push_id": self.push_id}
        names |= {"set_id": self.set_id, "file_id": self.file_id, "number": 1}
        match operation_id:
            case "delete_graph" | "change_graph" | "put_features" | "add_features" | "push_edges":
                names["graph"] = self._spare_graph()
            case "predict_points":
                names["job_id"] = self.trained_id
            case "remove_source" | "retry_source":
                names["source_id"] = self._add_source()
            case _:
                names["source_id"] = "1"
        return names

    def _spare_graph(self) -> str:
        with suppress(GraphExists):
            self.api.home.catalog.create(GraphSettings(name="spare"))
        return "spare"

    def _add_source(self) -> str:
        body = {"url": str(self._source), "follow": False}
        return str(self.api.call("POST", f"/graphs/{GRAPH}/sources", 201, json=body).json()["id"])

    def _give_features(self) -> str:
        options = {
            "content": as_arrow(feature_table(clusters())),
            "headers": {"Content-Type": ARROW},
        }
        return str(self.api.call("PUT", f"/graphs/{GRAPH}/features", 202, **options).json()["id"])

    def _solved(self, model: str) -> str:
        body = {"kind": "solve", "model": model}
        job = self.api.call("POST", f"/graphs/{GRAPH}/jobs", 202, json=body).json()
        self.api.run_job(job["id"])
        answer = self.api.call("GET", f"/jobs/{job['id']}", 200).json()
        assert answer["status"] == "succeeded", answer
        return str(job["id"])


@pytest.fixture(scope="module")
def home(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Home]:
    directory = tmp_path_factory.mktemp("described")
    own = Settings(
        home=directory / "home", database_url=None, admin_key_file=None, source_roots=(directory,)
    )
    # a thread that prints while pytest puts another sys.stdout in place can crash CPython
    before = structlog.get_config()
    structlog.configure(processors=[_drop])
    try:
        with serving(own) as api:
            yield _Home(api, directory)
    finally:
        structlog.configure(**before)


def _drop(*_event: object) -> NoReturn:
    raise structlog.DropEvent


@pytest.fixture(scope="module")
def described(home: _Home) -> BaseSchema:
    # without keys every caller may do everything; tests.service.api.test_auth is about keys
    config = SchemathesisConfig.from_dict(
        {"generation": {"with-security-parameters": False, "database": "none"}}
    )
    document = home.api.client.get("/openapi.json").json()
    return schemathesis.openapi.from_dict(document, config=config)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("n_examples", [2, pytest.param(AT_LENGTH, marks=pytest.mark.nightly)])
def test_what_the_document_promises_is_what_comes(
    home: _Home, described: BaseSchema, subtests: pytest.Subtests, n_examples: int
) -> None:
    n_operations = 0
    for result in described.get_all_operations():
        operation = result.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            for names in ({}, home.names(operation.definition.raw["operationId"])):
                with subtests.test(operation.label, mode=mode.value, existing=bool(names)):
                    _try_examples(home, operation, mode, names, n_examples)
        n_operations += 1
    assert n_operations > 25


def _try_examples(
    home: _Home,
    operation: APIOperation,
    mode: GenerationMode,
    names: dict[str, Any],
    n_examples: int,
) -> None:
    wanted = {parameter.name for parameter in operation.path_parameters}
    known = {name: value for name, value in names.items() if name in wanted}
    if names and not known:
        return
    cases = operation.as_strategy(mode, path_parameters=known or None)

    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def try_example(case: Case) -> None:
        home.names(operation.definition.raw["operationId"])
        _bound_wait(case)
        case.call_and_validate(
            base_url=str(home.api.client.base_url), checks=_CHECKS, timeout=30, stream=False
        )

    try:
        try_example()
    except Unsatisfiable:
        if mode is GenerationMode.POSITIVE:
            raise
        # nothing of this operation can be wrong: it has no arguments but the path that is given


def _bound_wait(case: Case) -> None:
    """A valid wait is cut short; what it is refused for stays."""
    wait = (case.query or {}).get("wait")
    if isinstance(wait, int | float) and LONGEST_WAIT_SECONDS < wait <= 300:
        case.query["wait"] = LONGEST_WAIT_SECONDS
