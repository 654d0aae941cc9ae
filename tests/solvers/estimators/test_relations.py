"""Estimators on a mapping of relations: names in, names out, and weights as a parameter."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from peewit import HFS, Auto, FilteredRidge, HFSRegressor, StableHFS, sparsify, sparsify_relations
from tests.solvers.relations.made import made

RELATIONS, CLASSES = made({"login": 0.9, "random": 0.0}, n_nodes=120)
GRAPHS = dict(zip(RELATIONS.names, RELATIONS.graphs, strict=True))
Y = np.where(np.arange(120) < 30, CLASSES, -1)
NODES = [f"n{node}" for node in range(120)]


def test_the_labels_choose_and_tell_what_they_chose() -> None:
    model = Auto().fit(GRAPHS, Y)
    assert model.relations_.best.weights[1] < 0.2
    assert [report.name for report in model.relations_] == ["login", "random"]
    assert model.stats_["relations"].startswith("login=")
    assert repr(model.relations_) == f"RelationChoice({model.stats_['relations']})"
    alone = Auto().fit(GRAPHS["login"], Y)
    assert (model.transduction_ == alone.transduction_).mean() > 0.95
    assert not hasattr(model.fit(GRAPHS["login"], Y), "relations_")


@pytest.mark.parametrize("model", [Auto(), HFS(), StableHFS(probabilities=True)], ids=repr)
def test_given_weights_are_those_of_one_graph(model: Any) -> None:
    weighed = clone(model).set_params(relations="random=0").fit(GRAPHS, Y)
    alone = clone(model).fit(GRAPHS["login"], Y)
    assert np.array_equal(weighed.transduction_, alone.transduction_)
    assert weighed.relations_.best.reading == "given"


def test_one_relation_is_one_graph() -> None:
    one, alone = Auto().fit({"login": GRAPHS["login"]}, Y), Auto().fit(GRAPHS["login"], Y)
    assert np.array_equal(one.label_distributions_, alone.label_distributions_)


def test_frames_are_joined_by_the_names_of_their_nodes() -> None:
    order = np.random.default_rng(0).permutation(120)
    dense = {name: graph.adjacency.toarray() for name, graph in GRAPHS.items()}
    frames = {
        "login": pl.DataFrame(dense["login"], schema=NODES),
        "random": pl.DataFrame(
            dense["random"][np.ix_(order, order)], schema=[NODES[each] for each in order]
        ),
    }
    by_name = {NODES[node]: int(CLASSES[node]) for node in range(30)}
    named, numbered = Auto().fit(frames, by_name), Auto().fit(GRAPHS, Y)
    np.testing.assert_allclose(named.label_distributions_, numbered.label_distributions_)
    assert named.predictions().table["node"].to_pylist() == NODES
    with pytest.raises(ValueError, match="y must name its nodes, as a mapping or a Series"):
        Auto().fit(frames, Y)


def test_nodes_that_only_one_relation_has_are_nodes_of_all() -> None:
    relations = {"a": sparsify([("ann", "bob"), ("bob", "cid")]), "b": sparsify([("eve", "dan")])}
    model = HFS(unlabeled="?", relations="b=2").fit(relations, {"ann": "x", "dan": "z"})
    found = model.predict(nodes=["cid", "eve"])
    assert found.tolist() == ["x", "z"]


PHONES = {"src": ["ann", "bob", "eve"], "dst": ["p1", "p1", "p2"], "weight": [1.0, 2.0, 1.0]}
TRANSFERS = {"src": ["ann", "dan"], "dst": ["bob", "eve"]}


@pytest.mark.parametrize("frame", [pl.DataFrame, pa.table])
def test_tables_of_edges_are_relations(frame: Any) -> None:
    tables = {"phone": frame(PHONES), "transfer": frame(TRANSFERS)}
    y = {"ann": "honest", "eve": "fraud"}
    model = HFS().fit(tables, y)
    assert model.predict(nodes=["bob", "dan", "p2"]).tolist() == ["honest", "fraud", "fraud"]
    expected = HFS().fit(sparsify_relations(tables), y)
    assert model.predictions().table == expected.predictions().table
    alone = HFS().fit(frame(PHONES), y)
    assert alone.predictions().table == HFS().fit(sparsify(pa.table(PHONES)), y).predictions().table
    matrix = pl.DataFrame({"dan": [0.0, 1.0], "eve": [1.0, 0.0]})
    for other in (sparsify(pa.table(TRANSFERS)), matrix):
        beside = HFS().fit({"phone": frame(PHONES), "transfer": other}, y)
        assert beside.predict(nodes=["bob", "dan", "p2"]).tolist() == ["honest", "fraud", "fraud"]


def test_tables_of_pandas_are_relations() -> None:
    pandas = pytest.importorskip("pandas")
    tables = {"phone": pandas.DataFrame(PHONES), "transfer": pandas.DataFrame(TRANSFERS)}
    model = HFS().fit(tables, pandas.Series({"ann": "honest", "eve": "fraud"}))
    assert model.predict(nodes=["bob", "dan", "p2"]).tolist() == ["honest", "fraud", "fraud"]


def test_an_index_that_names_a_node_twice_or_may_only_number_rows_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    named = pandas.Series(["honest", "fraud", "fraud"], index=["ann", "ann", "eve"])
    with pytest.raises(ValueError, match="y must name each node once, got 'ann' 2 times"):
        HFS().fit(pa.table(PHONES), named)
    path = sparsify(pa.table({"src": [3, 2, 1], "dst": [2, 1, 0]}))
    numbered = pandas.Series([0, -1, -1, 3])
    with pytest.raises(ValueError, match="y must be clear of order: its index 0 to 3"):
        HFS().fit(path, numbered)
    assert path.external_ids is not None
    in_order = numbered.loc[path.external_ids.to_pylist()]
    for y in in_order, in_order.to_numpy():
        assert HFS().fit(path, y).predict(nodes=[0, 1, 2, 3]).tolist() == [0, 0, 3, 3]
    rows = pandas.DataFrame({"f": [0.0, 1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="X must be clear of order: its index 0 to 3"):
        FilteredRidge().fit(rows, [0, -1, -1, 3], graph=path)


@pytest.mark.parametrize(
    ("change", "y", "told"),
    [
        ({"src": ["ann", None]}, {"ann": 1, "dan": 2}, "transfer: .*column 'src' must not be null"),
        ({"weight": [1.0, -2.0]}, {"ann": 1, "dan": 2}, "transfer: .*-2"),
        ({"src": [1, 2]}, {"ann": 1, "dan": 2}, "transfer: "),
        ({}, [1, 2, -1, -1], "y must name its nodes, as a mapping or a Series, where tables or"),
    ],
)
def test_tables_of_edges_keep_the_contract_of_edges(change: Any, y: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        HFS().fit({"phone": pa.table(PHONES), "transfer": pa.table(TRANSFERS | change)}, y)


def test_a_matrix_with_nodes_called_src_and_dst_is_a_matrix() -> None:
    frame = pl.DataFrame(np.ones((4, 4)) - np.eye(4), schema=["src", "dst", "ann", "bob"])
    assert HFS().fit(frame, [1, 2, -1, -1]).predict(nodes=["src", "dst"]).tolist() == [1, 2]


def test_columns_of_labels_choose_each_for_themselves() -> None:
    model = HFS().fit(GRAPHS, np.stack([Y, np.where(Y == 2, 0, Y)], axis=1))
    assert len(model.relations_) == 2
    assert model.transduction_.shape == (120, 2)


def test_numbers_are_predicted_on_relations() -> None:
    numbers = np.where(Y >= 0, Y.astype(float), np.nan)
    model = HFSRegressor().fit(GRAPHS, numbers)
    whole = HFSRegressor().fit(RELATIONS.combined((1, 1)), numbers)
    assert np.array_equal(model.transduction_, whole.transduction_)


@pytest.mark.parametrize(
    ("graphs", "weights", "told"),
    [
        (GRAPHS, "card=3", "relations must name relations of the graph, got 'card'; .* login"),
        (GRAPHS["login"], "login=3", "relations must be 'auto' unless X is a mapping"),
        (
            {"login": GRAPHS["login"], "card": "x"},
            "auto",
            "must hold graphs or tables of edges, and the relation 'c",
        ),
        ({"login": np.ones((2, 3))}, "auto", "'login' does not: matrix must be square"),
        ({}, "auto", "must be 1 to 64 named graphs, got 0"),
    ],
)
def test_what_is_no_relations_is_refused(graphs: Any, weights: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Auto(relations=weights).fit(graphs, Y)
