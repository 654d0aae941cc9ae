"""Named columns of labels, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.database.tables import label_events
from peewit.service.graph_settings import AutoSolve
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.home import Home
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.job import Job
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.label_entry import Labeling
from peewit.service.labels.store import BadLabels, LabelColumn, LabelColumnNotFound, LabelStore
from peewit.service.settings import Settings
from peewit.service.tables.uploads import UploadedLabels
from peewit.service.tasks.solving.solve_columns import submit_columns
from tests.service.solvable import Solvable, two_communities


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = open_database(settings.database)
    yield database
    database.close()


@pytest.fixture
def store(database: Database) -> LabelStore:
    return LabelStore(database)


@pytest.fixture
def graph(database: Database, settings: Settings) -> Solvable:
    """A graph of 60 nodes with a snapshot and no label."""
    graph = Solvable.create(database, settings, "g")
    graph.publish(1, *two_communities())
    return graph


@pytest.fixture
def labeling(database: Database, store: LabelStore, settings: Settings) -> Labeling:
    nodes = KnownNodes(settings.graphs_directory, Manifest(database))
    return Labeling(database=database, labels=store, nodes=nodes)


def labels_of(store: LabelStore, graph: Solvable, column: str, **upto: int) -> dict[str, Any]:
    current = store.current(graph.graph_id, column=column, **upto)
    return dict(zip(current.nodes.to_pylist(), current.labels, strict=True))


def of(labels: dict[str, Any]) -> UploadedLabels:
    return UploadedLabels(nodes=list(labels), labels=list(labels.values()))


def waiting(database: Database) -> list[Job]:
    return [each for each in JobQueue(database).list().jobs if each.status == "queued"]


def test_a_node_has_a_label_in_each_column(store: LabelStore, graph: Solvable) -> None:
    store.put(graph.graph_id, ["n1", "n2"], ["x", "y"])
    store.put(graph.graph_id, ["n1"], [7], column="size")
    store.put(graph.graph_id, ["n1"], ["z"], column="hue")
    assert labels_of(store, graph, "") == {"n1": "x", "n2": "y"}
    assert labels_of(store, graph, "size") == {"n1": 7}
    assert store.delete(graph.graph_id, ["n1", "n2"], column="size").accepted == 1
    assert labels_of(store, graph, "size") == {}
    assert labels_of(store, graph, "size", upto_seq=3) == {"n1": 7}
    assert labels_of(store, graph, "hue") == {"n1": "z"}
    assert store.are_text(graph.graph_id, column="hue")
    assert store.of_nodes(graph.graph_id, ["n1"], column="hue") == {"n1": "z"}
    assert [each.label for each in store.history(graph.graph_id, column="size")] == [None, 7]
    assert store.described_columns(graph.graph_id) == [
        LabelColumn(name="", n_labeled=2, n_labels=2),
        LabelColumn(name="hue", n_labeled=1, n_labels=1),
        LabelColumn(name="size", n_labeled=0, n_labels=0),
    ]


def test_many_labels_go_into_their_column(
    database: Database, store: LabelStore, graph: Solvable
) -> None:
    nodes = [f"n{each}" for each in range(1500)]  # beyond what is bound by name
    store.put(graph.graph_id, nodes, list(range(1500)), column="size")
    with database.read() as connection:
        assert set(connection.execute(select(label_events.c.column_name)).scalars()) == {"size"}
    assert labels_of(store, graph, "") == {}
    assert labels_of(store, graph, "size")["n1499"] == 1499


def test_a_column_without_labels_is_refused_by_name(store: LabelStore, graph: Solvable) -> None:
    store.put(graph.graph_id, ["n1"], ["x"], column="hue")
    for ask in (
        lambda: store.current(graph.graph_id, column="hues"),
        lambda: store.delete(graph.graph_id, ["n1"], column="hues"),
        lambda: store.require_column(graph.graph_id, "hues"),
    ):
        with pytest.raises(LabelColumnNotFound, match="got 'hues'; graph g has 'hue'"):
            ask()


def test_columns_are_put_together_or_not_at_all(
    store: LabelStore, graph: Solvable, labeling: Labeling, database: Database
) -> None:
    record = Catalog(database).get("g")
    labeling.put(
        record, {"hue": of({"n1": "red", "n2": "blue"}), "size": of({"n1": 3})}, unknown="keep"
    )
    with pytest.raises(BadLabels, match="labels of column 'size' are all text or all numbers"):
        labeling.put(
            record, {"hue": of({"n3": "red"}), "size": of({"n3": "large"})}, unknown="keep"
        )
    assert labels_of(store, graph, "hue") == {"n1": "red", "n2": "blue"}


def test_labels_of_a_column_are_all_text_or_all_numbers(
    database: Database, store: LabelStore, graph: Solvable, labeling: Labeling
) -> None:
    record = Catalog(database).get("g")

    def put(**labels: Any) -> None:
        labeling.put(record, {"": of(labels)}, unknown="keep")

    told = "all text or all numbers, and node 'n1' has 'bot', got 3"
    with pytest.raises(BadLabels, match="label of node 'n2' must be text: the") as refused:
        put(n1="bot", n2=3)
    assert told in str(refused.value)
    assert refused.value.row == 1
    put(n1="bot")
    with pytest.raises(BadLabels, match=told):
        put(n2=3.5)
    put(n1=3.5)  # of all labels that there are
    with pytest.raises(BadLabels, match="must be a number: "):
        put(n2="human")
    store.delete(graph.graph_id, ["n1"])
    put(n2="human")


def test_only_the_columns_that_changed_are_solved_again(
    database: Database, graph: Solvable, labeling: Labeling
) -> None:
    auto_solve = AutoSolve(model="hfs")
    record = Catalog(database).update(graph.graph_id, partial(replace, auto_solve=auto_solve))
    classes = {"n1": "red", "n2": "blue"}
    labeling.put(record, {"hue": of(classes), "size": of({"n1": 1, "n2": 2})}, unknown="keep")
    labeling.put(record, {"": of({"n1": "alone"})}, unknown="keep")
    asked = [each.parameters for each in waiting(database)]
    assert sorted(each["label_column"] for each in asked) == ["hue", "size"]
    labeling.delete(record, ["n1"], column="hue")  # one class is left
    labeling.put(record, {"size": of({"n3": 2})}, unknown="keep")
    assert len(waiting(database)) == 2


def test_auto_solve_can_be_of_one_column(
    database: Database, graph: Solvable, labeling: Labeling
) -> None:
    auto_solve = AutoSolve(model="hfs", parameters={"label_column": "hue"})
    record = Catalog(database).update(graph.graph_id, partial(replace, auto_solve=auto_solve))
    classes = {"n1": "red", "n2": "blue"}
    labeling.put(record, {"hue": of(classes), "size": of({"n1": 1, "n2": 2})}, unknown="keep")
    assert [each.parameters for each in waiting(database)] == [{"label_column": "hue"}]


def test_several_columns_are_submitted_together_or_not_at_all(
    database: Database, settings: Settings, graph: Solvable, store: LabelStore
) -> None:
    store.put(graph.graph_id, ["n1", "n2"], ["x", "y"])
    store.put(graph.graph_id, ["n1", "n2"], ["x", "y"], column="hue")
    home, record = Home(database, settings), Catalog(database).get("g")

    def submit(*columns: str, **parameters: Any) -> list[Job]:
        return submit_columns(
            home, record, columns, model="hfs", parameters=parameters, idempotency_key="k"
        )

    for columns, parameters, rule in (
        (["hue", "nope"], {}, "got 'nope'"),
        (["hue", "hue"], {}, "must name each column once, got 'hue' twice"),
        ([], {}, "must be 1 to 100 names, got 0"),
        (["hue"], {"label_column": "hue"}, "must be left out beside label_columns"),
        (["hue"], {"graph_penalty": -1}, "graph_penalty"),
    ):
        with pytest.raises(ValueError, match=rule):
            submit(*columns, **parameters)
    assert waiting(database) == []
    jobs = submit("", "hue")
    assert [each.parameters for each in jobs] == [{}, {"label_column": "hue"}]
    assert [each.snapshot for each in jobs] == [1, 1]
    assert [each.idempotency_key for each in jobs] == ["k:", "k:hue"]
    assert submit("", "hue") == jobs
    assert home.prediction_files.kept_snapshots(graph.graph_id) == {1}
