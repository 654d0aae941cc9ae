"""What every kind of job promises: a name, refusals that say why, a schema, a task that travels."""

from collections.abc import Iterator
from dataclasses import fields
from inspect import getdoc
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from peewit.service.api.app import create_app
from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.home import Home
from peewit.service.jobs.job import LANES
from peewit.service.settings import Settings
from peewit.service.tasks.job_kind import GraphKind, Kind, ModelKind
from peewit.service.tasks.kind_list import KINDS, kind_of
from peewit.solvers.models.catalogue import CATALOGUE
from tests.fresh_databases import fresh
from tests.service.solvable import Solvable, parity_features, two_communities

every_kind = pytest.mark.parametrize("kind", list(KINDS.values()), ids=list(KINDS))


def model_of(kind: Kind[Any]) -> str | None:
    return kind.example_model if isinstance(kind, ModelKind) else None


def arguments_of(kind: Kind[Any]) -> list[str]:
    """What a job may be asked, whatever it is called."""
    if isinstance(kind, ModelKind):
        return [each.name for each in fields(CATALOGUE[kind.example_model])]
    assert isinstance(kind, GraphKind)
    return [each.name for each in fields(kind.options.settings)]


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[Solvable]:
    """A graph that jobs of every kind can work on."""
    settings = Settings(home=tmp_path, database_url=None)
    database = open_database(fresh(settings.database))
    graph_id = Catalog(database).create(GraphSettings(name="g", seed=1)).id
    graph = Solvable(database=database, settings=settings, graph_id=graph_id)
    graph.publish(1, *two_communities())
    graph.features(1, parity_features(60))
    graph.label({"n3": "left", "n33": "right"})
    yield graph
    database.close()


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = Settings(home=tmp_path_factory.mktemp("home"), database_url=None)
    described: dict[str, Any] = create_app(settings).openapi()["components"]["schemas"]
    return described


def test_a_kind_that_is_not_in_the_table_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"kind must be one of solve, .*, got 'dance'"):
        kind_of("dance")


@every_kind
def test_its_defaults_may_be_asked_and_have_a_lane(kind: Kind[Any]) -> None:
    kind.check(model_of(kind), {})
    spec = kind.spec("ab12", model=model_of(kind), parameters={})
    assert (spec.kind, spec.model) == (kind.name, model_of(kind))
    assert spec.lane in LANES


@every_kind
def test_a_model_stands_where_one_is_needed_and_nowhere_else(kind: Kind[Any]) -> None:
    wrong = None if isinstance(kind, ModelKind) else "hfs"
    with pytest.raises(ValueError, match=rf"model must .*{kind.name}|{kind.name} must .*model"):
        kind.check(wrong, {})


@every_kind
def test_an_unknown_option_is_refused_with_those_it_has(kind: Kind[Any]) -> None:
    with pytest.raises(ValueError, match="has no parameter 'oracle'; it has") as refused:
        kind.check(model_of(kind), {"oracle": 1})
    assert all(name in str(refused.value) for name in arguments_of(kind))


@pytest.mark.parametrize(
    ("kind", "argument"),
    [(kind, argument) for kind in KINDS.values() for argument in arguments_of(kind)],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_a_wrong_option_is_refused_by_argument_rule_and_value(
    kind: Kind[Any], argument: str
) -> None:
    with pytest.raises(ValueError, match=rf"{argument} must .*got \['wrong'\]"):
        kind.check(model_of(kind), {argument: ["wrong"]})


@every_kind
def test_its_options_stand_in_the_openapi_document(
    kind: Kind[Any], schemas: dict[str, Any]
) -> None:
    body = schemas[f"{kind.name.capitalize()}In"]
    assert body["description"] == getdoc(kind)
    assert body["properties"]["kind"]["const"] == kind.name
    if isinstance(kind, ModelKind):  # its options depend on the model: /v1/models tells them
        assert {"model", "parameters"} <= body["properties"].keys()
        return
    assert isinstance(kind, GraphKind)
    assert set(kind.options.docs) == set(arguments_of(kind))
    parameters = schemas.get(f"{kind.name.capitalize()}Parameters", {"properties": {}})
    shown = {name: each["description"] for name, each in parameters["properties"].items()}
    assert shown == kind.options.docs


@every_kind
def test_its_task_is_captured_and_survives_the_trip_to_the_child(
    kind: Kind[Any], ready: Solvable
) -> None:
    home = Home(ready.database, ready.settings)
    graph = home.catalog.get_by_id(ready.graph_id)
    submitted = home.jobs.submit(kind.spec(graph.id, model=model_of(kind), parameters={}))
    job = home.jobs.claim("w", LANES, job_id=submitted.id)
    assert job is not None
    task = kind.capture(job, graph, home)
    captured = home.jobs.get(job.id)
    assert (captured.snapshot, captured.labels_seq, captured.features_version) == (1, 2, 1)
    assert (task.kind, task.job_id, task.attempt) == (kind.name, job.id, 1)
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send(task)
        assert theirs.recv() == task


@every_kind
def test_a_graph_without_edges_is_refused_in_the_worker(kind: Kind[Any], ready: Solvable) -> None:
    home = Home(ready.database, ready.settings)
    empty = home.catalog.create(GraphSettings(name="empty", seed=1))
    submitted = home.jobs.submit(kind.spec(empty.id, model=model_of(kind), parameters={}))
    job = home.jobs.claim("w", LANES, job_id=submitted.id)
    assert job is not None
    with pytest.raises(ValueError, match="graph empty has no"):
        kind.capture(job, empty, home)
