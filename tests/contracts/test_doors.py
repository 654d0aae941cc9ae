"""One suite over all operations: arguments arrive, refusals are told, answers agree."""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import EnumType
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import httpx
import orjson
import pyarrow as pa
import pytest

from peewit.service.client import Client, GraphNotFound, InvalidArgument, NotFound
from peewit.service.operations.declaration import (
    Body,
    Operation,
    Parameter,
    Path,
    Query,
    Table,
    Whole,
)
from peewit.service.operations.table import TABLE
from tests.goldens.command_words import commands
from tests.service.api.conftest import CSV, Api, bring_communities, serving
from tests.service.cli.conftest import Peewit, home, peewit

__all__ = ["home", "peewit"]

OPERATIONS: Final = {each.name: each for operations in TABLE.values() for each in operations}

SAMPLES: Final[Mapping[str, Any]] = {
    "annotator": "ann",
    "before": "2026-03-01T00:00:00Z",
    "file_id": 1,
    "source_id": "0" * 32,
    "job_id": "0" * 32,
    "url": "/tmp/none.parquet",
    "erasure_id": "0" * 32,
    "label": "left",
    "label_columns": [""],
    "node": "n7",
    "nodes": ["n1"],
    "opinions": [{"node": "n1", "label": "left"}],
    "positive": "left",
    "src": ["n1"],
    "dst": ["n2"],
    "number": 1,
    "push_id": "0" * 32,
    "set_id": "0" * 32,
    "edges": pa.table({"src": ["n1"], "dst": ["n2"]}),
    "rows": pa.table({"node": ["n1"], "features": [[1.0]]}),
    "labels": pa.table({"node": ["n1"], "label": ["left"]}),
    "truth": pa.table({"node": ["n1"], "label": ["left"]}),
}
"""A value of each parameter that has no default."""

FURTHER: Final[Mapping[str, Mapping[str, Any]]] = {
    "get_threshold": {"min_precision": 0.5},
    "get_second_opinions": {"annotator": "ann"},
}
"""What an operation needs beside them."""

BODIES: Final[Mapping[str, Any]] = {
    "submit_job": {"kind": "embed"},
    "estimate_job": {"model": "hfs"},
    "create_graph": {"name": "h"},
    "change_graph": {},
}
"""Of operations that take a body whole; the client has a call by hand for these."""

CALLED_OTHERWISE: Final = {*BODIES, "delete_edges", "predict_points"}
"""Those whose client's call takes other arguments."""

IN_PYTHON: Final[Mapping[str, Any]] = {"opinions": {"n1": "left"}}
"""Values that callers in Python give in another form."""

TABLE: Final = b"src,dst\na,b\n"
"""Edges, of a body that is no JSON."""

MOST_LINES: Final = 60

every_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
of_graphs = pytest.mark.parametrize(
    "operation",
    [each for each in OPERATIONS.values() if each.has_graph],
    ids=[each.name for each in OPERATIONS.values() if each.has_graph],
)


@pytest.fixture(scope="module")
def judged(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with a graph whose predictions can be judged."""
    from peewit.service.settings import Settings

    place = tmp_path_factory.mktemp("judged")
    with serving(Settings(home=place, database_url=None, admin_key_file=None)) as api:
        bring_communities(api)
        nodes = [*range(1, 12), *range(31, 42)]
        api.put_labels({f"n{each}": "left" if each < 30 else "right" for each in nodes})
        api.solve("stable-hfs", sets="auto", probabilities=True, cross_validate=3)
        api.run(kind="map")
        yield api


@pytest.fixture
def client(judged: Api) -> Iterator[Client]:
    with Client(str(judged.client.base_url)) as client:
        yield client


def commands_of() -> dict[str, str]:
    """The command of each operation that has one."""
    found: dict[str, str] = {}
    for words, command in commands():
        operation = getattr(inspect.unwrap(command.callback), "operation", None)
        if operation is None:
            closure = inspect.getclosurevars(command.callback).nonlocals
            operation = getattr(closure.get("callback"), "operation", None)
        if operation is not None:
            found[operation.name] = words
    return found


COMMANDS: Final = commands_of()


def values_of(operation: Operation[Any]) -> dict[str, Any]:
    """Values of what it must be given, and of what it needs beside them."""
    whole = {each.name for each in operation.of(Whole)}
    required = [each.name for each in operation.parameters if each.is_required]
    required = [name for name in required if name not in whole]
    return {name: SAMPLES[name] for name in required} | dict(FURTHER.get(operation.name, {}))


def sent(operation: Operation[Any], graph: str, values: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Path, query and body of a request."""
    given = [each for each in operation.parameters if each.name in values]
    place = {each.key: values[each.name] for each in given if isinstance(each.mark, Path)}
    query = {each.key: values[each.name] for each in given if isinstance(each.mark, Query)}
    body = {each.key: values[each.name] for each in given if isinstance(each.mark, Body)}
    path = ("/graphs/{graph}" if operation.has_graph else "") + operation.path
    sent_body = BODIES.get(operation.name, body) if operation.of(Body, Whole) else None
    return path.format(graph=graph, **place), query, sent_body


def typed(operation: Operation[Any], graph: str, values: Mapping[str, Any]) -> list[str]:
    """Words of the command."""
    words = [*COMMANDS[operation.name].split(), *([graph] if operation.has_graph else [])]
    for each in operation.parameters:
        if each.name not in values:
            continue
        flag, value = each.mark.flag, values[each.name]
        if isinstance(each.mark, Table):
            value = __file__  # some file
        for one in value if isinstance(value, list) else [value]:
            if flag is None or flag.startswith("-"):
                words.append(flag or f"--{each.name.replace('_', '-')}")
                words += [] if one is True else [str(one)]
            else:
                words.append(str(one))
    return words


@every_operation
def test_it_is_said_in_few_lines(operation: Operation[Any]) -> None:
    assert len(inspect.getsource(operation.call).splitlines()) <= MOST_LINES
    assert operation.doc
    for each in operation.of(Query, Body):
        assert each.mark.doc, each.name


@every_operation
def test_the_client_takes_every_option(operation: Operation[Any]) -> None:
    if operation.name in CALLED_OTHERWISE or not hasattr(Client, operation.client):
        return
    taken = {*inspect.signature(getattr(Client, operation.client)).parameters, *operation.hidden}
    left = {each.name for each in operation.of(Query)} - taken
    assert left <= {"safe_csv"}, operation.name  # which no table in memory needs


def chosen(kind: Any) -> Any:
    """A value of a type that is hardly a default."""
    kinds = [each for each in get_args(kind) or (kind,) if each is not NoneType]
    if get_origin(kind) is Literal:
        return get_args(kind)[-1]
    if get_origin(kind) is Annotated or len(kinds) == 1 != len(get_args(kind) or (0,)):
        return chosen(kinds[0])
    if isinstance(kind, EnumType):
        return list(kind)[-1]
    if get_origin(kind) in (Sequence, list, tuple):
        return ["n3"]
    if get_origin(kind) in (Mapping, dict):
        return {"src": "from"}
    of_kind = {bool: True, int: 7, float: 0.25, str: "word", datetime: "2026-03-01T00:00:00Z"}
    return next((value for each, value in of_kind.items() if each in kinds), None)


@pytest.mark.parametrize(
    "operation",
    [
        each
        for each in OPERATIONS.values()
        if each.name not in CALLED_OTHERWISE and hasattr(Client, each.client)
    ],
    ids=lambda each: each.name,
)
def test_every_argument_of_the_client_arrives(operation: Operation[Any]) -> None:
    taken = inspect.signature(getattr(Client, operation.client)).parameters
    left = [each for each in operation.of(Query, Body) if each.name in taken]
    values = values_of(operation)
    values |= {each.name: chosen(each.kind) for each in left if each.name not in values}
    path, query, body = sent(operation, "g", values)
    requests: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(404)

    graph = ["g"] if operation.has_graph else []
    given = {name: IN_PYTHON.get(name, value) for name, value in values.items()}
    client = Client("http://h", transport=httpx.MockTransport(refuse))
    with client, pytest.raises(NotFound):
        list_of(getattr(client, operation.client)(*graph, **given))
    (request,) = requests
    assert (request.method, request.url.path) == (operation.method, f"/v1{path}")
    arrived = {name: request.url.params.get_list(name) for name in query}
    assert arrived == {name: texts(value) for name, value in query.items()}
    if operation.of(Body):
        assert json.loads(request.content) == body


def texts(value: Any) -> list[str]:
    """What a query says of a value."""
    each = value if isinstance(value, list) else [value]
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in each]


@of_graphs
def test_a_graph_that_is_not_there_is_told_at_every_door(
    operation: Operation[Any], judged: Api, client: Client, peewit: Peewit, monkeypatch: Any
) -> None:
    values = values_of(operation)
    path, query, body = sent(operation, "nobody", values)
    answer = judged.client.request(operation.method, f"/v1{path}", params=query, json=body)
    assert (answer.status_code, answer.json()["title"]) == (404, "Graph not found")
    if operation.name not in CALLED_OTHERWISE:
        given = {name: IN_PYTHON.get(name, value) for name, value in values.items()}
        with pytest.raises(GraphNotFound):
            list_of(getattr(client, operation.client)("nobody", **given))
    if operation.name in COMMANDS:
        monkeypatch.setenv("PEEWIT_HOME", str(judged.home.settings.home))
        done = peewit(*typed(operation, "nobody", values), "--json")
        assert done.exit_code == 1
        assert json.loads(done.err.splitlines()[-1])["error"]["title"] == "Graph not found"


def bounded() -> list[tuple[Operation[Any], Parameter, float]]:
    """Parameters with a bound, and a value beyond it."""
    found = []
    for operation in OPERATIONS.values():
        for each in operation.of(Query):
            rules = each.mark.rules
            if "le" in rules:
                found.append((operation, each, rules["le"] + 1))
            if "ge" in rules:
                found.append((operation, each, rules["ge"] - 1))
    return found


@pytest.mark.parametrize(
    ("operation", "parameter", "value"),
    bounded(),
    ids=[f"{operation.name}-{each.name}-{value}" for operation, each, value in bounded()],
)
def test_a_value_beyond_its_bound_is_refused_by_name(
    operation: Operation[Any],
    parameter: Parameter,
    value: float,
    judged: Api,
    client: Client,
    peewit: Peewit,
    monkeypatch: Any,
) -> None:
    values = values_of(operation) | {parameter.name: value}
    path, query, body = sent(operation, "g", values)
    content = {"content": TABLE, "headers": {"Content-Type": CSV}}
    sending: dict[str, Any] = content if operation.name == "push_edges" else {"json": body}
    answer = judged.client.request(operation.method, f"/v1{path}", params=query, **sending)
    assert (answer.status_code, answer.json()["argument"]) == (422, parameter.key)
    graph = ["g"] if operation.has_graph else []
    if parameter.key in operation.hidden:
        return  # the client leaves it to nobody: it gives all
    with pytest.raises(InvalidArgument, match=parameter.key):
        list_of(getattr(client, operation.client)(*graph, **values))
    if operation.name in COMMANDS:
        monkeypatch.setenv("PEEWIT_HOME", str(judged.home.settings.home))
        done = peewit(*typed(operation, "g", values))
        assert done.exit_code == 2
        assert (parameter.mark.flag or f"--{parameter.name}").strip("-") in done.err


def of_whole_graphs() -> list[Operation[Any]]:
    """Operations that read of a graph all that it has."""
    found = (each for each in OPERATIONS.values() if each.method == "GET")
    return [each for each in found if not each.of(Path)]


@pytest.mark.parametrize(
    "operation",
    [each for each in of_whole_graphs() if each.rows is None],
    ids=lambda each: each.name,
)
def test_answers_agree_at_every_door(
    operation: Operation[Any], judged: Api, client: Client, peewit: Peewit, monkeypatch: Any
) -> None:
    values = values_of(operation)
    path, query, _ = sent(operation, "g", values)
    answer = judged.client.request("GET", f"/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    graph = ["g"] if operation.has_graph else []
    called = list_of(getattr(client, operation.client)(*graph, **values))
    expected = told if operation.items is None else told[operation.items]
    assert plain(called) == expected
    if operation.name in COMMANDS:
        monkeypatch.setenv("PEEWIT_HOME", str(judged.home.settings.home))
        assert plain(peewit(*typed(operation, "g", values), "--json").json) == told


@pytest.mark.parametrize(
    "operation",
    [each for each in of_whole_graphs() if each.rows is not None],
    ids=lambda each: each.name,
)
def test_tables_agree_at_every_door(operation: Operation[Any], judged: Api, client: Client) -> None:
    values = values_of(operation)
    path, query, _ = sent(operation, "g", values)
    answer = judged.client.request("GET", f"/v1{path}", params={**query, "format": "arrow"})
    if answer.status_code == 404:
        with pytest.raises(NotFound):
            getattr(client, operation.client)("g", **values)
        return
    called = getattr(client, operation.client)("g", **values)
    table = pa.ipc.open_stream(answer.content).read_all()
    assert getattr(called, "table", called).equals(table)


def list_of(answer: Any) -> Any:
    """What a call came to, all of it where it iterates."""
    return list(answer) if isinstance(answer, Iterator) else answer


def plain(value: Any) -> Any:
    """A record as JSON reads it, times as the API writes them."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    fields = value if isinstance(value, dict) else asdict(value)
    text = orjson.dumps(fields, option=orjson.OPT_UTC_Z).decode()
    return json.loads(text.replace("+00:00", "Z"))
