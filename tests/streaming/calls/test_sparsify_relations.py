"""One call from several kinds of edges to graphs over the same nodes."""

import doctest
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import peewit.streaming.calls.relations_call
from peewit.solvers.arguments import BadArgument
from peewit.solvers.estimators import Auto
from peewit.solvers.iteration_loop import ProgressReport
from peewit.streaming import SparsifiedRelations, sparsify, sparsify_relations
from peewit.streaming.edges.blocks import BadEdges
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import random_graph

LOGINS = pa.table({"user": ["ann", "bob", "cid"], "device": ["d1", "d1", "ann"]})
MESSAGES = pa.table({"from": ["ann", "ann"], "to": ["cid", "cid"], "n": [2.0, 3.0]})
SRC = {"login": "account:user", "message": "account:from"}
DST = {"login": "device:device", "message": "account:to"}


def named_edges(relations: SparsifiedRelations) -> dict[str, dict[tuple[str, str], float]]:
    return {
        name: {
            (min(row["src"], row["dst"]), max(row["src"], row["dst"])): row["weight"]
            for row in each.to_arrow().to_pylist()
        }
        for name, each in relations.items()
    }


EXPECTED = {
    "login": {
        ("account:ann", "device:d1"): 1.0,
        ("account:bob", "device:d1"): 1.0,
        ("account:cid", "device:ann"): 1.0,
    },
    "message": {("account:ann", "account:cid"): 5.0},
}


def test_a_column_of_signs_is_taken_for_no_deletes_where_that_is_said() -> None:
    trust = pa.table({"src": ["a", "b"], "dst": ["b", "c"], "sign": [1, -1]})
    with pytest.raises(BadEdges, match=r"say op='' to take .* one of a signed network"):
        sparsify_relations({"trust": trust})
    assert sparsify_relations({"trust": trust}, op="")["trust"].edges_kept == 2


def test_the_docstring_is_true() -> None:
    results = doctest.testmod(peewit.streaming.calls.relations_call)
    assert results.attempted > 5
    assert results.failed == 0


def test_kinds_keep_nodes_of_one_id_apart() -> None:
    both = sparsify_relations(
        {"login": LOGINS, "message": MESSAGES}, src=SRC, dst=DST, weight={"message": "n"}
    )
    assert named_edges(both) == EXPECTED
    assert both.lookup(["account:ann", "device:ann", "ann"]).tolist() == [0, 4, -1]
    one = sparsify(LOGINS, src="account:user", dst="device:device")
    assert (
        named_edges(SparsifiedRelations(relations={"": one}, external_ids=None))[""]
        == (EXPECTED["login"])
    )


def test_files_columns_of_relations_and_events_tell_the_same(tmp_path: Path) -> None:
    pq.write_table(LOGINS, tmp_path / "logins.parquet")
    (tmp_path / "messages.ndjson").write_text(
        '{"from":"ann","to":"cid","n":2}\n{"from":"ann","to":"cid","n":3}\n{"from":"","to":"x"}\n'
    )
    of_files = sparsify_relations(
        {"login": tmp_path / "logins.parquet", "message": str(tmp_path / "*.ndjson")},
        src=SRC,
        dst=DST,
        weight={"message": "n"},
        max_bad_rows=1,
    )
    assert named_edges(of_files) == EXPECTED
    rows = [("login", "ann", "d1"), ("call", "ann", "bob"), ("login", "bob", "d1")]
    columns = dict(zip(("what", "src", "dst"), zip(*rows, strict=True), strict=True))
    typed = sparsify_relations(pa.table(columns), relation_column="what")
    assert {name: each.edges_kept for name, each in typed.items()} == {"login": 2, "call": 1}
    events = pa.table({"who": [1, 2, 3], "card": [7, 7, None], "phone": [None, None, None]})
    stars = sparsify_relations(events, entity="who", via=("card", "phone"))
    assert {name: each.edges_kept for name, each in stars.items()} == {"card": 2, "phone": 0}
    assert stars["phone"].left_out.empty_cells == 3
    assert stars.n_nodes == 4  # 3 is known, though it has no edge


def test_equal_tables_count_in_each_relation_and_equal_files_once_in_one(tmp_path: Path) -> None:
    twice = sparsify_relations({"a": LOGINS, "b": LOGINS}, src="user", dst="device")
    assert [each.edges_seen for each in twice.values()] == [3, 3]
    for name in ("one", "two", "three"):
        pq.write_table(LOGINS, tmp_path / f"{name}.parquet")
    files = {"a": tmp_path / "one.parquet", "b": tmp_path / "t*.parquet"}
    paths = sparsify_relations(files, src="user", dst="device")
    assert [each.edges_seen for each in paths.values()] == [3, 3]
    with pytest.raises(
        ValueError, match=r"each file in one relation, got it in two: .*two\.parquet"
    ):
        sparsify_relations({"a": tmp_path, "b": tmp_path / "two.parquet"}, src="user", dst="device")


def test_every_relation_is_within_epsilon_or_all_within_one_budget() -> None:
    graphs = {name: random_graph(200, 0.6, seed) for seed, name in enumerate(("a", "b"))}
    edges = {name: (each.u, each.v, each.weight) for name, each in graphs.items()}
    edges["small"] = tuple(column[:50] for column in edges["a"])
    whole = sparsify_relations(edges, n_nodes=200)
    thinned = sparsify_relations(edges, 0.7, n_nodes=200, seed=4, n_threads=1)
    for name in ("a", "b"):
        assert whole[name].is_whole
        assert thinned[name].edges_kept < 0.8 * whole[name].edges_kept
        assert spectral_error(whole[name].graph, thinned[name].graph) < 0.7
    again = sparsify_relations(edges, 0.7, n_nodes=200, seed=4, n_threads=2)
    assert all((again[name].adjacency != thinned[name].adjacency).nnz == 0 for name in edges)
    within = sparsify_relations(edges, n_nodes=200, max_edges=4_000)
    assert sum(each.edges_kept for each in within.values()) <= 4_000
    assert within["small"].is_whole
    assert within["a"].max_edges_bound
    for share in itertools.pairwise(within[name].edges_kept for name in ("a", "b")):
        assert max(share) < 1.2 * min(share)


def test_matrices_are_relations_of_numbered_nodes() -> None:
    ring = sp.csr_array(np.roll(np.eye(5), 1, axis=1))
    ring = ring + ring.T
    both = sparsify_relations({"ring": ring, "pair": (np.array([0]), np.array([1]))})
    assert both.n_nodes == 5
    assert both.external_ids is None
    assert (both["ring"].adjacency != ring).nnz == 0
    assert both["pair"].edges_kept == 1


def test_estimators_take_it_with_labels_by_name() -> None:
    groups = {"x": range(10), "y": range(10, 20)}
    pairs = [pair for each in groups.values() for pair in itertools.combinations(each, 2)]
    noise = np.random.default_rng(0).integers(0, 20, (90, 2))
    tables = {
        "card": pa.table({"src": [f"n{u}" for u, _ in pairs], "dst": [f"n{v}" for _, v in pairs]}),
        "message": pa.table(
            {"src": [f"n{u}" for u in noise[:, 0]], "dst": [f"n{v}" for v in noise[:, 1]]}
        ),
    }
    relations = sparsify_relations(tables)
    model = Auto().fit(relations, {"n0": "x", "n1": "x", "n10": "y", "n11": "y"})
    assert model.predict(nodes=["n5", "n15"]).tolist() == ["x", "y"]
    assert [each.name for each in model.relations_.relations] == ["card", "message"]


def test_progress_counts_tables_and_a_notebook_shows_relations() -> None:
    reports: list[ProgressReport] = []
    both = sparsify_relations(
        {"a": LOGINS, "b": LOGINS}, src="user", dst="device", progress=reports.append
    )
    assert [(each.phase, each.n_iter, each.max_iter) for each in reports] == [
        ("tables", 0, 2),
        ("tables", 1, 2),
    ]
    shown = both._repr_html_()
    assert "nodes <b>4</b>" in shown
    assert "edges seen" in shown


def test_who_brings_tables_elsewhere_is_told_where_to_go() -> None:
    with pytest.raises(TypeError, match="`sparsify_relations` takes those of several"):
        sparsify({"a": LOGINS})
    with pytest.raises(BadArgument, match=r"name others in `peewit.sparsify_relations`"):
        Auto().fit({"a": LOGINS}, {"ann": "x", "bob": "y"})


@pytest.mark.parametrize(
    ("edges", "arguments", "reason"),
    [
        ({}, {}, "edges must have at least one relation"),
        (LOGINS, {}, "edges must be a mapping of relations to their edges, or one table"),
        (LOGINS, {"entity": "user", "via": "device"}, "via must be a sequence of names"),
        (LOGINS, {"via": ["device"]}, "entity and via must stand together"),
        (LOGINS, {"relation_column": "x", "src": {"a": "user"}}, "src must be one name where"),
        ({"a": LOGINS}, {"entity": "user"}, "entity is for one table with several relations"),
        ({"a": LOGINS}, {"src": {"b": "user"}}, "src must name relations of a, got 'b'"),
        ({"a,b": LOGINS}, {}, "relation must have 1 to 64 characters"),
        ({"a": LOGINS}, {}, "a: column 'src' is missing; the file has user, device"),
        ({"a": LOGINS}, {"src": "account:user", "dst": "device"}, "must name the kind"),
        ({"a": LOGINS}, {"max_bad_rows": 1}, "max_bad_rows is for edges in files"),
        (
            {"a": pa.table({"src": ["x"], "dst": ["y"], "weight": [-1.0]})},
            {},
            "column .weight. must be finite and >= 0, got -1.0 in row 0",
        ),
        (
            {"a": pa.table({"src": [1], "dst": [2]}), "b": sp.eye_array(3)},
            {},
            "edges must be arrays, matrices and graphs in all relations",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    edges: Any, arguments: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises((ValueError, BadArgument, BadEdges), match=reason):
        sparsify_relations(edges, **arguments)
