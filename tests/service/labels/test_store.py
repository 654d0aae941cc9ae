"""Label events, on SQLite and on PostgreSQL."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

from peewit.service.catalog import Catalog, GraphNotFound
from peewit.service.database.engine import Database, open_database
from peewit.service.database.tables import label_events, workers
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.labels.store import BadLabels, LabelStore
from peewit.service.wire.labels import LabelOrigin
from tests.fresh_databases import fresh

LabelValue = str | int


@pytest.fixture
def store(database: Database) -> LabelStore:
    return LabelStore(database)


def labels_of(store: LabelStore, graph_id: str, upto_seq: int | None = None) -> dict[str, Any]:
    current = store.current(graph_id, upto_seq=upto_seq)
    return dict(zip(current.nodes.to_pylist(), current.labels, strict=True))


def test_labels_come_back_as_they_were_given(store: LabelStore, graph_id: str) -> None:
    given_labels: dict[str, LabelValue] = {
        "a": "3",
        "b": 3,
        "c": -(2**63),
        "d": 'quote " and \\ backslash',
        "é 漢 \U0001f600": "é 漢 \U0001f600",
        "": "of the empty name",
        "f": 2.5,
        "g": 3.0,
        "h": 0.1 + 0.2,
        "i": -5e-324,
    }
    receipt = store.put(graph_id, list(given_labels), list(given_labels.values()))
    assert (receipt.labels_seq, receipt.accepted, receipt.refused) == (10, 10, ())
    stored = labels_of(store, graph_id)
    assert stored == given_labels
    kinds = [type(label) for label in stored.values()]
    assert kinds == [str, int, int, str, str, str] + 4 * [float]


def test_numbers_of_numpy_and_negative_zero_are_stored_plainly(
    store: LabelStore, graph_id: str
) -> None:
    given_labels = [np.float32(0.5), np.float64(-0.0), np.int8(3)]
    store.put(graph_id, ["a", "b", "c"], given_labels)
    stored = list(labels_of(store, graph_id).values())
    assert [str(label) for label in stored] == ["0.5", "0.0", "3"]


def test_a_number_written_in_two_ways_is_counted_once(store: LabelStore, graph_id: str) -> None:
    store.put(graph_id, ["a", "b", "c"], [3, 3.0, 0.5])
    assert store.class_counts(graph_id) == {3: 2, 0.5: 1}


def test_a_graph_without_labels_has_none(store: LabelStore, graph_id: str) -> None:
    current = store.current(graph_id)
    assert (len(current.nodes), current.labels) == (0, [])
    assert current.labels_seq == 0
    assert store.class_counts(graph_id) == {}


def test_the_latest_label_wins_within_a_batch_and_after_it(
    store: LabelStore, graph_id: str
) -> None:
    store.put(graph_id, ["a", "b", "a"], ["x", "x", "y"])
    assert labels_of(store, graph_id) == {"a": "y", "b": "x"}
    store.put(graph_id, ["b"], ["z"])
    assert labels_of(store, graph_id) == {"a": "y", "b": "z"}


def test_earlier_labels_stay_readable(store: LabelStore, graph_id: str) -> None:
    first = store.put(graph_id, ["a", "b"], [1, 2]).labels_seq
    second = store.put(graph_id, ["a"], [3]).labels_seq
    third = store.delete(graph_id, ["a", "b"]).labels_seq
    assert labels_of(store, graph_id, 0) == {}
    assert labels_of(store, graph_id, 1) == {"a": 1}
    assert labels_of(store, graph_id, first) == {"a": 1, "b": 2}
    assert labels_of(store, graph_id, second) == {"a": 3, "b": 2}
    assert labels_of(store, graph_id, third) == {}
    assert store.current(graph_id, upto_seq=second).labels_seq == second
    assert store.current(graph_id, upto_seq=10**6).labels_seq == third


def test_a_removal_is_an_event_of_the_nodes_that_had_a_label(
    store: LabelStore, graph_id: str
) -> None:
    store.put(graph_id, ["a", "b"], ["x", "x"])
    receipt = store.delete(graph_id, ["b", "never labeled", "b"])
    assert (receipt.accepted, receipt.labels_seq) == (1, 3)
    assert store.delete(graph_id, ["b"]).accepted == 0
    assert labels_of(store, graph_id) == {"a": "x"}
    store.put(graph_id, ["b"], ["again"])
    assert labels_of(store, graph_id) == {"a": "x", "b": "again"}


def test_an_empty_batch_is_no_event(store: LabelStore, graph_id: str) -> None:
    store.put(graph_id, ["a"], ["x"])
    for receipt in (store.put(graph_id, [], []), store.delete(graph_id, [])):
        assert (receipt.labels_seq, receipt.accepted) == (1, 0)


def test_unknown_nodes_are_listed_once_and_nothing_is_stored(
    store: LabelStore, graph_id: str
) -> None:
    receipt = store.put(
        graph_id,
        ["a", "y", "b", "x", "y"],
        [1, 2, 3, 4, 5],
        is_known=np.array([1, 0, 1, 0, 0], bool),
    )
    assert receipt.refused == ("y", "x")
    assert (receipt.n_refused, receipt.accepted, receipt.labels_seq) == (2, 0, 0)
    assert labels_of(store, graph_id) == {}
    assert store.put(graph_id, ["a", "b"], [1, 2], is_known=np.ones(2, bool)).accepted == 2


def test_a_receipt_names_a_thousand_unknown_nodes_and_counts_all(
    store: LabelStore, graph_id: str
) -> None:
    nodes = [f"n{number}" for number in range(1500)]
    receipt = store.put(graph_id, nodes, [0] * 1500, is_known=np.zeros(1500, bool))
    assert receipt.refused == tuple(nodes[:1000])
    assert receipt.n_refused == 1500


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        (True, "label must be a string or a number, got True in row 1"),
        (np.True_, "label must be a string or a number"),
        (1j, "label must be a string or a number, got 1j"),
        (float("nan"), "label must be a finite number, got nan"),
        (-np.inf, "label must be a finite number, got -inf"),
        (None, "label must be a string or a number, got None"),
        ([1], r"label must be a string or a number, got \[1\]"),
        (2**63, "label must be a 64-bit integer"),
        ("", "label must have 1 to 1000 bytes and no NUL, got ''"),
        ("é" * 501, "label must have 1 to 1000 bytes"),
        ("a\0b", "label must have 1 to 1000 bytes and no NUL"),
        ("\ud800", "label must have 1 to 1000 bytes"),
    ],
)
def test_a_label_against_the_rules_is_refused_with_its_row(
    tmp_path: Any, label: Any, reason: str
) -> None:
    database = open_database(fresh(f"sqlite:///{tmp_path / 'peewit.db'}"))
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    store = LabelStore(database)
    with pytest.raises(BadLabels, match=reason) as refusal:
        store.put(graph_id, ["a", "b"], ["x", label])
    assert refusal.value.row == 1
    assert labels_of(store, graph_id) == {}
    database.close()


def test_a_node_against_the_rules_is_refused_with_its_row(store: LabelStore, graph_id: str) -> None:
    refused: list[Any] = ["x" * 2001, "a\0b", "\ud800", 7, None]
    for node in refused:
        with pytest.raises(BadLabels, match=r"node must be .* in row 1") as refusal:
            store.put(graph_id, ["a", node], ["x", "x"])
        assert (refusal.value.row, refusal.value.value[:5]) == (1, repr(node)[:5])
    store.put(graph_id, ["x" * 2000], ["the longest"])
    assert labels_of(store, graph_id) == {"x" * 2000: "the longest"}


def test_numpy_integers_are_integers(store: LabelStore, graph_id: str) -> None:
    labels: Any = np.array([4, 5])
    store.put(graph_id, ["a", "b"], labels)
    assert labels_of(store, graph_id) == {"a": 4, "b": 5}


def test_columns_of_different_length_are_refused(store: LabelStore, graph_id: str) -> None:
    with pytest.raises(ValueError, match="equally long, got 2 and 1"):
        store.put(graph_id, ["a", "b"], ["x"])


def test_classes_are_counted_by_their_present_nodes(store: LabelStore, graph_id: str) -> None:
    store.put(graph_id, list("abcde"), ["x", "x", "y", 1, "1"])
    store.put(graph_id, ["c", "d"], ["x", "x"])
    store.delete(graph_id, ["a"])
    assert store.class_counts(graph_id) == {"x": 3, "1": 1}
    assert sum(store.class_counts(graph_id).values()) == 4


@pytest.mark.parametrize("seed", range(3))
def test_present_labels_are_those_of_a_replay(store: LabelStore, graph_id: str, seed: int) -> None:
    rng, replay = random.Random(seed), dict[str, str]()
    for _ in range(30):
        nodes = rng.choices("abcdefgh", k=rng.randint(1, 5))  # some of them twice
        if rng.random() < 0.3:
            store.delete(graph_id, nodes)
            replay = {node: label for node, label in replay.items() if node not in nodes}
        else:
            labels = rng.choices("xyz", k=len(nodes))
            store.put(graph_id, nodes, labels)
            replay |= zip(nodes, labels, strict=True)
        current = store.current(graph_id)
        assert dict(zip(current.nodes.to_pylist(), current.labels, strict=True)) == replay
        assert store.class_counts(graph_id) == Counter(replay.values())
        assert store.of_nodes(graph_id, list("abcdefgh")) == replay
        assert {each.node: each.label for each in store.page(graph_id)} == replay
        assert store.count_to_two(graph_id) == min(2, len(set(replay.values())))


def test_classes_are_counted_to_two_among_present_labels(store: LabelStore, graph_id: str) -> None:
    assert store.count_to_two(graph_id) == 0
    store.put(graph_id, ["a", "b"], ["x", "x"])
    assert store.count_to_two(graph_id) == 1
    store.put(graph_id, ["c"], ["y"])
    assert store.count_to_two(graph_id) == 2
    store.put(graph_id, ["d"], ["z"])
    assert store.count_to_two(graph_id) == 2
    store.put(graph_id, ["c", "d"], ["x", "x"])
    assert store.count_to_two(graph_id) == 1
    store.delete(graph_id, ["a", "b", "c", "d"])
    assert store.count_to_two(graph_id) == 0


def test_graphs_do_not_see_each_other(database: Database, store: LabelStore, graph_id: str) -> None:
    other = Catalog(database).create(GraphSettings(name="other")).id
    store.put(graph_id, ["a"], ["x"])
    assert store.put(other, ["a"], ["y"]).labels_seq == 1
    store.delete(other, ["a"])
    assert labels_of(store, graph_id) == {"a": "x"}
    assert store.class_counts(other) == {}


def test_a_graph_that_is_not_there_takes_no_labels(store: LabelStore) -> None:
    forbidden: list[Callable[[], object]] = [
        lambda: store.put("none", ["a"], ["x"]),
        lambda: store.put("none", ["a"], ["x"], is_known=np.zeros(1, bool)),
        lambda: store.delete("none", ["a"]),
        lambda: store.current("none"),
    ]
    for each in forbidden:
        with pytest.raises(GraphNotFound):
            each()


def test_labels_and_what_they_lead_to_are_stored_together(
    database: Database, store: LabelStore, graph_id: str
) -> None:
    with database.write() as connection:
        store.put(graph_id, ["a"], ["x"], connection=connection)
        connection.execute(insert(workers).values(id="job", lanes=[]))
        connection.rollback()
    assert store.current(graph_id).labels_seq == 0
    with database.write() as connection:
        assert store.put(graph_id, ["a"], ["x"], connection=connection).labels_seq == 1
        assert store.delete(graph_id, ["a"], connection=connection).labels_seq == 2
    assert store.current(graph_id).labels_seq == 2


def test_writers_at_once_get_numbers_without_gap_or_overlap(
    database: Database, store: LabelStore, graph_id: str
) -> None:
    def write(writer: int) -> list[int]:
        return [store.put(graph_id, [f"{writer}"] * 3, [0, 1, 2]).labels_seq for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        ends = [end for each in pool.map(write, range(4), timeout=60) for end in each]
    assert sorted(ends) == list(range(3, 63, 3))
    with database.read() as connection:
        statement = select(label_events.c.seq, label_events.c.label).order_by(label_events.c.seq)
        rows = connection.execute(statement).all()
    assert [row.seq for row in rows] == list(range(1, 61))
    assert [row.label for row in rows] == ["0", "1", "2"] * 20  # batches stay whole


@pytest.mark.parametrize("n_nodes", [1, 1_500])  # more go to the driver as they are
def test_labels_remember_where_they_come_from(
    store: LabelStore, graph_id: str, n_nodes: int
) -> None:
    nodes = [f"n{number}" for number in range(n_nodes)]
    origins: tuple[LabelOrigin, ...] = get_args(LabelOrigin)
    for origin in origins:
        store.put(graph_id, nodes, ["x"] * n_nodes, origin=origin)
        assert set(store.current(graph_id).origins.to_pylist()) == {origin}
    assert [each.origin for each in store.history(graph_id, node="n0")] == [*reversed(origins)]
    assert store.page(graph_id, limit=1)[0].origin == origins[-1]
    early = store.current(graph_id, upto_seq=3 * n_nodes)
    assert early.origins.to_pylist() == ["suggested"] * n_nodes
    store.put(graph_id, ["n0"], ["y"])
    assert store.current(graph_id).origins.to_pylist()[-1] == "given"


@pytest.mark.slow
def test_many_labels_are_one_batch(store: LabelStore, graph_id: str) -> None:
    """More rows than a statement has parameters, on either back end."""
    n_nodes = 120_000
    nodes = [f"node {number}" for number in range(n_nodes)]
    store.put(graph_id, ["before"], ["it"])
    labels = [number % 10 for number in range(n_nodes)]
    origins: list[LabelOrigin] = ["random", "suggested"] * (n_nodes // 2)
    annotators = [None, "Ann"] * (n_nodes // 2)
    receipt = store.put(graph_id, nodes, labels, origin=origins, annotator=annotators)
    assert (receipt.accepted, receipt.labels_seq) == (n_nodes, n_nodes + 1)
    current = store.current(graph_id)
    assert current.nodes.to_pylist() == ["before", *nodes]
    assert current.labels == ["it", *labels]
    assert current.origins.to_pylist() == ["given", *origins]
    assert current.annotators.to_pylist() == [None, *annotators]
    assert store.delete(graph_id, nodes[:40_000]).accepted == 40_000
    assert sum(store.class_counts(graph_id).values()) == n_nodes - 40_000 + 1


def test_events_of_one_batch_have_one_time_that_of_the_database(
    database: Database, store: LabelStore, graph_id: str
) -> None:
    store.put(graph_id, [f"n{number}" for number in range(5_000)], ["x"] * 5_000)
    with database.read() as connection:
        (at,) = connection.execute(select(label_events.c.created_at).distinct()).scalars()
        age = connection.execute(select(now())).scalar_one() - at
    assert 0 <= age.total_seconds() < 600


@pytest.fixture(scope="module")
def shared_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One for all examples of a property; each makes a graph of its own."""
    database = open_database(fresh(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'peewit.db'}"))
    yield database
    database.close()


NODES = st.lists(st.sampled_from("abcd"), max_size=4)
EVENTS = st.lists(
    NODES.map(lambda nodes: ("delete", nodes, []))
    | NODES.flatmap(
        lambda nodes: st.tuples(
            st.just("put"),
            st.just(nodes),
            st.lists(st.integers(0, 3), min_size=len(nodes), max_size=len(nodes)),
        )
    ),
    max_size=6,
)


@given(EVENTS)
def test_labels_behave_like_a_dict_at_every_number(
    shared_database: Database, events: list[tuple[str, list[str], list[int]]]
) -> None:
    catalog, store = Catalog(shared_database), LabelStore(shared_database)
    graph_id = catalog.create(GraphSettings(name="g")).id
    expected: dict[str, int] = {}
    history: list[tuple[int, dict[str, int]]] = []
    for kind, nodes, labels in events:
        if kind == "put":
            expected |= dict(zip(nodes, labels, strict=True))
            receipt = store.put(graph_id, nodes, labels)
        else:
            expected = {node: label for node, label in expected.items() if node not in nodes}
            receipt = store.delete(graph_id, nodes)
        history.append((receipt.labels_seq, dict(expected)))
    assert labels_of(store, graph_id) == expected
    for seq, state in history:
        assert labels_of(store, graph_id, seq) == state
    catalog.delete(graph_id, cancel_jobs=lambda *_: None)


def test_pages_show_present_labels_the_last_given_first(store: LabelStore, graph_id: str) -> None:
    store.put(graph_id, ["a1", "a2", "b1", "a_3"], ["x", "y", "x", 3])
    store.put(graph_id, ["a1"], ["y"])
    store.delete(graph_id, ["a2"])
    page = store.page(graph_id)
    assert [(each.node, each.label) for each in page] == [("a1", "y"), ("a_3", 3), ("b1", "x")]
    assert [each.node for each in store.page(graph_id, prefix="a")] == ["a1", "a_3"]
    assert [each.node for each in store.page(graph_id, prefix="a_")] == ["a_3"]
    assert [each.node for each in store.page(graph_id, label="x")] == ["b1"]
    assert [each.node for each in store.page(graph_id, label=3)] == ["a_3"]
    first = store.page(graph_id, limit=2)
    rest = store.page(graph_id, before_seq=first[-1].seq, limit=2)
    assert [each.node for each in rest] == ["b1"]
    assert store.of_nodes(graph_id, ["a1", "a2", "b1", "zz"]) == {"a1": "y", "b1": "x"}


def test_history_keeps_what_was_taken_back(store: LabelStore, graph_id: str) -> None:
    store.put(graph_id, ["a", "b"], ["x", "y"])
    store.delete(graph_id, ["a"])
    events = store.history(graph_id)
    assert [(each.seq, each.node, each.label) for each in events] == [
        (3, "a", None),
        (2, "b", "y"),
        (1, "a", "x"),
    ]
    assert events[0].at >= events[-1].at
    assert [each.seq for each in store.history(graph_id, prefix="a", before_seq=3)] == [1]
