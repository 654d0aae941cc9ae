"""One call from edges of any kind to a sparsifier."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import peewit.streaming
import peewit.streaming.calls.sparsify_call
from peewit.solvers.graph import Graph
from peewit.streaming import Sparsified, sparsify, sparsify_relations
from peewit.streaming.calls.sparsify_call import METHODS
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.left_out import LeftOut
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import EdgeList, heavy_tailed, random_graph, two_communities

REPOSITORY = Path(__file__).parents[2]


def arrays(edges: EdgeList) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return edges.u, edges.v, edges.weight.astype(np.float32)


def table(edges: EdgeList) -> pa.Table:
    return pa.table(dict(zip(("src", "dst", "weight"), arrays(edges), strict=True)))


def same(a: Sparsified, b: Sparsified) -> bool:
    return (a.adjacency != b.adjacency).nnz == 0 and a.epsilon_expected == b.epsilon_expected


def test_the_docstring_is_true() -> None:
    results = doctest.testmod(peewit.streaming.calls.sparsify_call)
    assert results.attempted > 5
    assert results.failed == 0


@pytest.mark.parametrize("make", [random_graph, heavy_tailed])
def test_every_kind_of_input_gives_the_same(make: type, tmp_path: Path) -> None:
    edges = make(300, 0.5, 0)
    expected = sparsify(arrays(edges), 0.9, seed=3)
    assert expected.edges_seen == edges.n_edges
    assert expected.edges_kept < 0.6 * edges.n_edges
    assert expected.external_ids is None
    assert same(sparsify(table(edges), 0.9, seed=3, node_ids="dense"), expected)
    pq.write_table(table(edges), tmp_path / "edges.parquet", row_group_size=10_000)
    for url in (tmp_path, str(tmp_path / "edges.parquet"), str(tmp_path / "*.parquet")):
        assert same(sparsify(url, 0.9, seed=3, n_nodes=edges.n_nodes, node_ids="dense"), expected)


def test_integers_of_tables_lists_and_files_are_names_unless_asked(tmp_path: Path) -> None:
    rows = [(10**12, 7, 2.0), (7, 900, 1.0)]
    named = pa.table(dict(zip(("from", "to", "amount"), zip(*rows, strict=True), strict=True)))
    (tmp_path / "edges.csv").write_text("from,to,amount\n1000000000000,7,2\n7,900,1\n,7,1\n")
    names = {"src": "from", "dst": "to", "weight": "amount"}
    for found in (
        sparsify(rows),
        sparsify([(u, v) for u, v, _ in rows]),
        sparsify(named, **names),
        sparsify(tmp_path / "edges.csv", node_ids="int64", max_bad_rows=1, **names),
    ):
        assert found.external_ids is not None
        assert found.external_ids.to_pylist() == [10**12, 7, 900]
        assert found.lookup([900, 8]).tolist() == [2, -1]
    with pytest.raises(BadEdges, match="must lie in"):
        sparsify(named, node_ids="dense", **names)


def test_a_graph_of_networkx_is_a_list_of_its_edges() -> None:
    graph = nx.Graph()
    graph.add_edge("ann", "bob", weight=2.0)
    graph.add_edge("bob", "cid")
    found = sparsify(graph)
    assert found.external_ids is not None
    assert found.external_ids.to_pylist() == ["ann", "bob", "cid"]
    assert found.adjacency.toarray()[0].tolist() == [0.0, 2.0, 0.0]
    assert found.adjacency.toarray()[1].tolist() == [2.0, 0.0, 1.0]
    graph.add_edge(3, "ann")
    with pytest.raises(TypeError, match="all strings or all integers, got int, str"):
        sparsify(graph)
    with pytest.raises(ValueError, match="must be tuples"):
        sparsify([(1, 2), (1, 2, 3.0)])


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        ([(2**64, 1)], "column 'src' must hold text in Unicode or integers below 2^63"),
        ([("a", "\ud800")], "column 'dst' must hold text in Unicode or integers"),
        ((np.array([1, "a"], object), np.array([2, 3])), "column 'src' must hold text in Unicode"),
        ([("a", "b", 1), ("b", "c", "3")], "column 'weight' must hold numbers of one type"),
        ([("a", "b", 2**64)], "column 'weight' must hold numbers of one type; make floats of all"),
    ],
)
def test_values_that_arrow_has_no_type_for_are_refused_by_column(edges: Any, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        sparsify(edges)


def test_a_weight_of_networkx_that_is_called_otherwise_is_asked_for() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", Weight=5.0, color="red")
    with pytest.raises(BadEdges, match="say weight='Weight' where that is meant"):
        sparsify(graph)
    assert sparsify(graph, weight="Weight").adjacency.max() == 5.0
    graph = nx.MultiGraph([("a", "b", {"w": 2.0}), ("a", "b", {"op": "x"})])
    with pytest.warns(UserWarning, match="column 'w' is passed over"):
        assert sparsify(graph).adjacency.max() == 2.0
    with pytest.raises(BadEdges, match="column 'x' is missing"):
        sparsify(nx.Graph([(1, 2)]), weight="x")


def test_a_matrix_and_a_graph_give_the_same() -> None:
    edges = random_graph(300, 0.5, 0)
    graph = edges.graph()
    expected = sparsify(graph, 0.9)
    assert same(sparsify(graph.adjacency, 0.9), expected)
    assert same(sparsify(sp.coo_matrix(graph.adjacency), 0.9), expected)
    assert expected.n_nodes == 300


def test_the_spectrum_lies_within_what_was_asked() -> None:
    errors = []
    for seed in range(10):
        edges = two_communities(400, 0.5, 6, seed)
        result = sparsify(arrays(edges), 0.8, seed=seed)
        assert result.edges_kept < 0.8 * edges.n_edges
        errors.append(spectral_error(edges.graph(), result.graph))
    assert sum(error <= 0.8 for error in errors) >= 9, sorted(errors)


def test_every_method_keeps_to_what_it_expects() -> None:
    expected, kept, measured = {}, {}, {}
    for method in METHODS:
        results = []
        # as printed, N is far larger than such a graph
        n_copies = 25_000 if method == "kelner-levin" else None
        for seed in range(5):
            edges = random_graph(250, 0.8, seed)
            result = sparsify(arrays(edges), 0.7, method=method, seed=seed, max_edges=n_copies)
            assert result.edges_seen == edges.n_edges
            assert result.edges_kept < 0.75 * edges.n_edges
            results.append((result, spectral_error(edges.graph(), result.graph)))
        expected[method] = np.mean([result.epsilon_expected for result, _ in results])
        kept[method] = np.mean([result.edges_kept for result, _ in results])
        measured[method] = np.mean([error for _, error in results])
        assert measured[method] <= 0.7
        assert 0.5 * measured[method] <= expected[method] <= 2.5 * measured[method], method
    # half the edges for about the accuracy that independent coins give
    assert kept["dependent"] < 0.6 * kept["bernoulli"]
    assert measured["dependent"] < 1.25 * measured["bernoulli"]


def test_kelner_levin_takes_its_copies_from_max_edges_and_keeps_names() -> None:
    edges = random_graph(100, 0.9, 0)
    few, many = (
        sparsify(arrays(edges), 0.5, method="kelner-levin", max_edges=n_copies)
        for n_copies in (2_000, 40_000)
    )
    assert few.edges_kept < 2_000 < many.edges_kept
    assert few.epsilon_expected > many.epsilon_expected
    assert few.max_edges_bound
    table = pa.table({"src": ["ann", "bob"], "dst": ["bob", "cid"]})
    named = sparsify(table, 0.7, method="kelner-levin")
    assert named.external_ids is not None
    assert named.external_ids.to_pylist() == ["ann", "bob", "cid"]
    nothing = np.empty(0, np.int64)
    assert sparsify((nothing, nothing), 0.7, n_nodes=3, method="kelner-levin").n_nodes == 3


def test_threads_do_not_matter(tmp_path: Path) -> None:
    edges = random_graph(300, 0.5, 0)
    pq.write_table(table(edges), tmp_path / "edges.parquet", row_group_size=5_000)
    for source in (arrays(edges), tmp_path):
        one, two = (sparsify(source, 0.9, n_threads=n_threads) for n_threads in (1, 2))
        assert same(one, two)


def test_a_seed_is_a_draw() -> None:
    edges = random_graph(200, 0.9, 0)
    assert not same(sparsify(arrays(edges), 0.9, seed=1), sparsify(arrays(edges), 0.9, seed=2))


def test_max_edges_wins_and_is_told() -> None:
    edges = random_graph(300, 0.5, 0)
    result = sparsify(arrays(edges), 0.3, max_edges=3_000)
    assert result.edges_kept <= 3_000
    assert result.max_edges_bound
    assert result.epsilon_expected > 0.3
    assert not sparsify(arrays(edges), 0.9).max_edges_bound


@pytest.mark.parametrize("kind", ["string", "int64", "dictionary"])
def test_ids_of_other_kinds_are_numbered_by_first_appearance(kind: str, tmp_path: Path) -> None:
    edges = random_graph(200, 0.9, 0)
    names: list[str] | list[int] = [f"node {number}" for number in range(200)]
    if kind == "int64":
        names = [10**15 * (number - 100) for number in range(200)]
    sides = [pa.array([names[node] for node in side]) for side in (edges.u, edges.v)]
    if kind == "dictionary":
        sides = [side.dictionary_encode() for side in sides]
    named = pa.table({"src": sides[0], "dst": sides[1], "weight": arrays(edges)[2]})
    node_ids = "int64" if kind == "int64" else None
    result = sparsify(named, 0.9, node_ids=node_ids)
    assert result.external_ids is not None
    order = list(dict.fromkeys(np.column_stack([edges.u, edges.v]).ravel().tolist()))
    assert result.external_ids.to_pylist() == [names[node] for node in order]
    place = result.lookup(names)
    assert np.array_equal(place[order], np.arange(200))
    unknown = [-7] if kind == "int64" else ["nobody", None]
    assert (result.lookup(unknown) == -1).all()
    graph = Graph.from_edges(place[edges.u], place[edges.v], edges.weight, n_nodes=200)
    assert spectral_error(graph, result.graph) <= 0.9
    pq.write_table(named, tmp_path / "a.parquet")
    read = sparsify(tmp_path, 0.9, node_ids=node_ids, n_nodes=200)
    assert same(read, result)


def test_rows_of_weight_zero_are_left_out_of_files_tables_and_matrices(tmp_path: Path) -> None:
    u, v, weight = np.array([0, 1, 1, 2]), np.array([1, 2, 1, 2]), np.array([2.0, 0.0, 3.0, 0.0])
    expected = LeftOut(self_loops=1, zero_weights=2)
    frame = pa.table({"src": u, "dst": v, "weight": weight})
    (tmp_path / "edges.csv").write_text("src,dst,weight\n0,1,2\n1,2,0\n1,1,3\n2,2,0\n")
    (tmp_path / "edges.ndjson").write_text(
        "".join(json.dumps(row) + "\n" for row in frame.to_pylist())
    )
    pq.write_table(frame, tmp_path / "edges.parquet")
    ends = np.append(u, v[:2]), np.append(v, u[:2])  # a sum would drop the zeros that are stored
    matrix = sp.coo_array((np.append(weight, weight[:2]), ends), shape=(3, 3))
    for edges in (
        *(tmp_path / f"edges.{ending}" for ending in ("csv", "ndjson", "parquet")),
        *(frame, (u, v, weight), matrix),
    ):
        is_file = isinstance(edges, Path)
        result = sparsify(edges, node_ids="int64" if is_file else None)
        assert (result.edges_seen, result.left_out, result.edges_kept) == (4, expected, 1)
    assert sparsify((u, v, weight), 0.5, method="kelner-levin").left_out == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool])
def test_duplicates_of_a_narrow_matrix_sum_in_full(dtype: type) -> None:
    ends = np.array([0] * 300 + [1] * 300), np.array([1] * 300 + [0] * 300)
    matrix = sp.coo_array((np.ones(600, dtype), ends), shape=(2, 2))
    assert sparsify(matrix).graph.edges()[2].tolist() == [300.0]


def test_isolated_nodes_and_empty_input_count() -> None:
    u, v = np.array([0, 1]), np.array([1, 1])
    result = sparsify((u, v), n_nodes=5)
    assert (result.n_nodes, result.edges_kept, result.left_out.self_loops) == (5, 1, 1)
    assert result.lookup([0, 4, 5, -1]).tolist() == [0, 4, -1, -1]
    nothing = np.empty(0, np.int64)
    assert sparsify((nothing, nothing)).n_nodes == 0
    assert sparsify((nothing, nothing), n_nodes=3).n_nodes == 3
    assert sparsify(Graph.from_edges(nothing, nothing, [], n_nodes=4)).n_nodes == 4


def test_files_of_equal_content_count_once_and_isolated_nodes_stay(tmp_path: Path) -> None:
    edges = random_graph(50, 0.5, 0)
    for name in ("a", "b"):
        pq.write_table(table(edges), tmp_path / f"{name}.parquet")
    result = sparsify(tmp_path, n_nodes=60, node_ids="dense")
    assert result.edges_seen == edges.n_edges
    assert result.n_nodes == 60


def test_remote_files_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    edges = random_graph(50, 0.5, 0)
    with fsspec.open("memory://notebook/edges.parquet", "wb") as sink:
        pq.write_table(table(edges), sink)
    assert sparsify("memory://notebook/").edges_seen == edges.n_edges
    assert list(tmp_path.iterdir()) == []


def test_faults_are_named(tmp_path: Path) -> None:
    u, v = np.array([0, 1, 2]), np.array([1, 2, 0])
    with pytest.raises(BadEdges, match="must be finite and >= 0, got nan in row 1"):
        sparsify((u, v, np.array([1.0, np.nan, 1.0])))
    with pytest.raises(BadEdges, match=r"'src' must lie in \[0, 1\], got 2 in row 2"):
        sparsify((u, v), n_nodes=2)
    with pytest.raises(BadEdges, match="at most max_nodes = 2 nodes, the next one, got cid"):
        sparsify(pa.table({"src": ["ann", "bob"], "dst": ["bob", "cid"]}), n_nodes=2)
    with pytest.raises(BadEdges, match="column 'dst' is missing"):
        sparsify(pa.table({"src": [1]}))
    with pytest.raises(ValueError, match="equally long, got \\[3, 2\\]"):
        sparsify((u, v[:2]))
    with pytest.raises(ValueError, match=r"edges must be \(u, v\) or \(u, v, weight\), got 1"):
        sparsify((u,))
    with pytest.raises(TypeError, match=r"edges must be a path or URL, .*, got int"):
        sparsify(7)
    with pytest.raises(ValueError, match=r"epsilon must lie in \(0, 1\), got 2"):
        sparsify((u, v), 2.0)
    with pytest.raises(ValueError, match=r"method must be one of bernoulli, .*, got 'spanner'"):
        sparsify((u, v), method="spanner")
    with pytest.raises(ValueError, match="method kelner-levin takes edges in memory, got"):
        sparsify(str(tmp_path), 0.5, method="kelner-levin")
    with pytest.raises(ValueError, match="for method kelner-levin, got None"):
        sparsify((u, v), method="kelner-levin")
    with pytest.raises(ValueError, match="n_nodes must be at least 1, got 0"):
        sparsify((u, v), n_nodes=0)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        sparsify((u, v), n_threads=0)
    with pytest.raises(ValueError, match="scheduler is for edges in files, got edges of tuple"):
        sparsify((u, v), scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="n_nodes must be that of the graph, 3, got 4"):
        sparsify(random_graph(3, 1.0, 0).graph(), n_nodes=4)
    with pytest.raises(ValueError, match="node_ids must be dense for a matrix or a graph"):
        sparsify(random_graph(3, 1.0, 0).graph(), node_ids="int64")
    with pytest.raises(ValueError, match="edges must name at least one table, got"):
        sparsify(str(tmp_path / "*.parquet"))
    bad = pa.table({"src": [0, 1], "dst": [1, -2]})
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(
        BadEdges, match=r"bad.parquet: 1 row is bad, .*: column 'dst' must lie .*, got -2 in row 1"
    ):
        sparsify(tmp_path, node_ids="dense")
    with pytest.raises(ValueError, match="max_bad_rows is for edges in files"):
        sparsify((u, v), max_bad_rows=1)
    with pytest.raises(ValueError, match="must be tuples"):
        sparsify([1, 2])
    with pytest.raises(TypeError, match="real numbers, got type complex128"):
        sparsify(sp.csr_array(np.array([[0, 1 + 2j], [1 - 2j, 0]])))


def test_what_a_refusal_advises_can_be_said(tmp_path: Path) -> None:
    table = pa.table({"src": ["NA", "b"], "dst": ["b", "c"], "op": ["insert", "delete"]})
    with pytest.raises(BadEdges, match="op=''"):
        sparsify(table, missing_ids="keep")
    with pytest.raises(BadEdges, match="missing_ids='keep'"):
        sparsify(table, op="")
    assert sparsify(table, op="", missing_ids="keep").edges_seen == 2
    assert sparsify([("NA", "b")], missing_ids="keep").edges_seen == 1
    (tmp_path / "e.tsv").write_text('src\tdst\n"a\tb\n')
    with pytest.raises(BadEdges, match="quote='none'"):
        sparsify(tmp_path / "e.tsv")
    assert sparsify(tmp_path / "e.tsv", quote="none").edges_seen == 1


def test_ids_of_one_kind_are_asked_for_and_whole_floats_are_integers() -> None:
    for ids in (pa.array([1.0, 2.0]), pa.array([1, 2], pa.decimal128(38, 0))):
        found = sparsify(pa.table({"src": ids, "dst": pa.array([2, 3])}))
        assert found.external_ids is not None
        assert found.external_ids.to_pylist() == [1, 2, 3]
    for edges in ([(True, 2)], (np.ma.masked_array([0, 1], [0, 1]), np.array([1, 2]))):
        with pytest.raises(TypeError):
            sparsify(edges)


@pytest.mark.usefixtures("processes")
def test_the_package_loads_it_on_demand() -> None:
    program = (
        "import sys, peewit.streaming.edges.blocks\n"
        "assert 'peewit.streaming.calls.sparsify_call' not in sys.modules\n"
        "from peewit.streaming import sparsify\n"
        "assert 'distributed' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=REPOSITORY)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        peewit.streaming.nothing  # noqa: B018


def test_bad_rows_of_a_file_that_is_read_in_place_are_counted(tmp_path: Path) -> None:
    rows = {"src": ["a", None, "b", None], "dst": ["b", "c", "c", "d"]}
    pq.write_table(pa.table(rows), tmp_path / "e.parquet")
    with pytest.raises(BadEdges, match="2 rows are bad, max_bad_rows 2 leaves them out") as caught:
        sparsify(tmp_path / "e.parquet", epsilon=0.5)
    assert caught.value.row == 1


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    table = pa.table({"src": ["a", "1.0", "-"], "dst": ["b", "1", "a"], "w": [1.0, 2.0, 3.0]})
    texts = (
        "column 'w' is passed over, and every edge counts 1; say weight='w'",
        "'-' became a node",
        "1 new id is written as 1.0",
    )
    pq.write_table(table, tmp_path / "e.parquet")
    for edges in (table, tmp_path / "e.parquet"):
        with pytest.warns(UserWarning, match="passed over|became a node|written as") as told:
            sparsify(edges)
        messages = [str(each.message) for each in told]
        assert [each[: len(text)] for each, text in zip(messages, texts, strict=True)] == [*texts]
        assert {each.filename for each in told} == {__file__}
        with pytest.warns(UserWarning, match="became a node|written as") as told:
            sparsify(edges, weight="w")
        assert len(told) == 2
    with pytest.warns(UserWarning, match="column 'w' is passed over"):
        sparsify_relations({"one": table.slice(0, 1)})
    ended = pa.table({"src": ["a", "b"], "dst": ["b", "c"], "valid_to": ["2020-01-01", None]})
    pq.write_table(ended, tmp_path / "ended.parquet")
    for edges in (ended, ended.to_pandas(), tmp_path / "ended.parquet"):
        with pytest.warns(UserWarning, match="'valid_to' is passed over, .* 1 of the first rows"):
            sparsify(edges)
    with pytest.warns(UserWarning, match="'valid_to' is passed over, .* 1 of the first rows"):
        sparsify_relations({"one": ended})
    (tmp_path / "e.txt").write_text("0 1 5\n1 2 7\n")
    with pytest.warns(UserWarning, match="column #3 is not read, .* say weight='#3'"):
        sparsify(tmp_path / "e.txt", src="#1", dst="#2")
    (tmp_path / "e.csv").write_text("src,dst\nid,id2\n1,2\n2,3\n")
    with pytest.warns(UserWarning, match="the first row is id, id2"):
        sparsify(tmp_path / "e.csv")
