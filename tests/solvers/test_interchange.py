"""Graphs and predictions as objects of other libraries, which know the same nodes and edges."""

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import duckdb
import networkx as nx
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from peewit.service.client import Predictions, Sparsifier
from peewit.solvers import interchange
from peewit.solvers.graph import Graph
from peewit.streaming.calls.sparsify_call import sparsify

EDGES = [("ann", "bob", 1.0), ("bob", "cid", 2.0), ("dan", "ann", 0.5), ("<b>", "dan", 3.0)]
KINDS = ("graph", "sparsified", "numbered", "client")


def weighted_edges(graph: Any) -> set[tuple[frozenset[Any], float]]:
    return {(frozenset({u, v}), w) for u, v, w in graph.edges(data="weight")}


def wanted(kind: str) -> set[tuple[frozenset[Any], float]]:
    names = ["ann", "bob", "cid", "dan", "<b>"]
    is_named = kind in {"sparsified", "client"}
    return {
        (frozenset({u, v} if is_named else {names.index(u), names.index(v)}), w)
        for u, v, w in EDGES
    }


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table_of_edges(kind: str) -> interchange.EdgeTable:
    u, v, weight = zip(*EDGES, strict=True)
    if kind == "client":
        table = pa.table({"src": u, "dst": v, "weight": weight})
        halves = pa.concat_tables([table.slice(0, 2), table.slice(2)])  # as batches arrive
        return Sparsifier(table=halves, graph="friends", snapshot=3)
    if kind == "sparsified":
        return sparsify(EDGES)
    names = ["ann", "bob", "cid", "dan", "<b>"]
    ends = ([names.index(name) for name in u], [names.index(name) for name in v])
    graph = Graph.from_edges(*ends, weight, n_nodes=5)
    return graph if kind == "graph" else sparsify(graph)


def test_networkx_knows_nodes_by_name_and_weights(
    table_of_edges: interchange.EdgeTable, kind: str
) -> None:
    graph = table_of_edges.to_networkx()
    assert weighted_edges(graph) == wanted(kind)
    assert len(graph) == 5


def test_tables_of_others_read_the_same_edges(
    table_of_edges: interchange.EdgeTable, kind: str
) -> None:
    edges = table_of_edges  # duckdb finds it by this name
    read = [
        pl.DataFrame(edges).rows(),
        edges.to_polars().rows(),
        duckdb.sql("select src, dst, weight from edges").fetchall(),
        [tuple(row.values()) for row in edges.to_arrow().to_pylist()],
    ]
    assert edges.to_arrow().column_names == ["src", "dst", "weight"]
    for rows in read:
        assert {(frozenset({u, v}), w) for u, v, w in rows} == wanted(kind)


def test_pandas_reads_the_same_edges(table_of_edges: interchange.EdgeTable, kind: str) -> None:
    pytest.importorskip("pandas")
    rows = table_of_edges.to_pandas().itertuples(index=False)
    assert {(frozenset({u, v}), w) for u, v, w in rows} == wanted(kind)


def test_a_capsule_shares_the_memory_of_the_table() -> None:
    table = pa.table({"node": np.arange(1000), "label": np.ones(1000)})
    predictions = predicted(table)
    taken = pa.table(predictions)
    addresses = [
        [chunk.buffers()[1].address for chunk in each["node"].chunks] for each in (table, taken)
    ]
    assert addresses[0] == addresses[1]


def test_the_matrix_may_be_changed_and_has_a_name_for_each_row(
    table_of_edges: interchange.EdgeTable, kind: str
) -> None:
    matrix = table_of_edges.to_scipy()
    assert abs(matrix - matrix.T).nnz == 0
    names = getattr(table_of_edges, "external_ids", None)
    named = range(5) if names is None else names.to_pylist()
    rows, columns = matrix.nonzero()
    assert {
        (frozenset({named[u], named[v]}), float(matrix[u, v]))
        for u, v in zip(rows, columns, strict=True)
    } == wanted(kind)
    before = table_of_edges.to_scipy()
    matrix.data[:] = 0.0
    assert (table_of_edges.to_scipy() != before).nnz == 0


def test_isolated_nodes_stay() -> None:
    graph = Graph.from_edges([0], [1], [1.0], n_nodes=4)
    assert graph.to_networkx().number_of_nodes() == 4


def test_predictions_go_along_as_attributes() -> None:
    friends = sparsify(EDGES)
    rows = pa.table({"node": ["cid", "ann"], "label": ["west", None], "score": [0.5, 0.25]})
    graph = friends.to_networkx(rows)
    assert graph.nodes["cid"] == {"label": "west", "score": 0.5}
    assert graph.nodes["ann"] == {"score": 0.25}
    assert graph.nodes["bob"] == {}
    assert nx.is_connected(graph)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"id": ["ann"]}, r"must have a column 'node', got \['id'\]"),
        ({"node": ["ann", "eve"]}, "must be nodes of the graph, got 'eve'"),
    ],
)
def test_rows_of_other_nodes_are_refused(rows: dict[str, list[str]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        sparsify(EDGES).to_networkx(pa.table(rows))


def test_edge_index_has_both_directions_of_each_edge() -> None:
    """What `to_pyg` hands to torch; sorted by row, as PyTorch Geometric coalesces."""
    index, weight = interchange.edge_index(sparsify(EDGES).adjacency)
    assert (index.dtype, weight.dtype, index.shape) == (np.int64, np.float32, (2, 8))
    pairs = {(u, v): w for u, v, w in zip(*index.tolist(), weight.tolist(), strict=True)}
    assert all(pairs[v, u] == w for (u, v), w in pairs.items())
    assert list(pairs) == sorted(pairs)


@pytest.mark.usefixtures("processes")  # torch starts one where it is imported
def test_torch_geometric_reads_edges_names_and_predictions() -> None:
    pytest.importorskip("torch")
    utilities = pytest.importorskip("torch_geometric.utils")
    friends = sparsify(EDGES)
    names = friends.external_ids.to_pylist()
    rows = pa.table({"node": names[::-1], "score": [1.0, 2.0, 3.0, 4.0, 5.0], "label": names[::-1]})
    data = friends.to_pyg(rows)
    assert data.validate()
    assert data.is_undirected()
    assert (data.num_nodes, data.num_edges, data.node_id) == (5, 8, names)
    assert data.score.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert data.label == names
    matrix = utilities.to_scipy_sparse_matrix(data.edge_index, data.edge_weight, 5)
    assert abs(matrix - friends.adjacency).max() == 0
    with pytest.raises(ValueError, match="one row for each of the 5 nodes, got 2 rows"):
        friends.to_pyg(rows.slice(0, 2))


@pytest.mark.parametrize(
    ("library", "method", "how"),
    [
        ("networkx", "to_networkx", r"pip install 'peewit\[networkx\]'"),
        ("pandas", "to_pandas", "pip install pandas"),
        ("polars", "to_polars", "pip install polars"),
        ("torch", "to_pyg", "torch must be installed for this; pip install torch torch_geometric"),
    ],
)
def test_what_is_missing_is_named_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, library: str, method: str, how: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=how):
        getattr(sparsify(EDGES), method)()


def predicted(table: pa.Table) -> Predictions:
    return Predictions(
        table=table,
        job="j1",
        model="<i>",
        snapshot=1,
        labels_seq=2,
        features_version=0,
        solver_status="converged",
        etag=None,
    )


class _Tags(HTMLParser):
    """Tags and text; unescaped names of nodes would be tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> _Tags:
    tags = _Tags()
    tags.feed(html)
    return tags


def test_notebooks_show_facts_and_some_rows_escaped(
    table_of_edges: interchange.EdgeTable, kind: str
) -> None:
    html = read(table_of_edges._repr_html_())
    assert html.tags == {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "progress"}
    heard = html.text.index("nodes by number of neighbors")
    assert html.text[heard + 1 : heard + 7] == ["0", "0", "1", "2", "2–3", "3"]  # a path of five
    assert ("<b>" in html.text) == (kind in {"sparsified", "client"})


def test_notebooks_show_the_first_rows_of_many_and_no_color_of_their_own() -> None:
    table = pa.table({"node": [f"<script>{'x' * 99}"] * 1000, "label": [None] * 1000})
    page = predicted(table)._repr_html_()
    html = read(page)
    assert "script" not in html.tags
    assert "10 of 1,000 rows" in html.text
    assert html.text.count("–") == 10
    assert all(len(text) <= 60 for text in html.text)
    assert "<i>" in html.text
    assert "color:inherit" in page
    assert not {"#", "white", "black"} & set(page.replace(";", " ").split())


def test_notebooks_show_the_commonest_labels_and_the_others_in_one_bar() -> None:
    labels = [f"c{n}" for n in range(20) for _ in range(n + 1)] + [None] * 300
    html = read(predicted(pa.table({"node": range(len(labels)), "label": labels}))._repr_html_())
    heard = html.text.index("nodes by label")
    assert html.text[heard + 1 : heard + 5] == ["no label", "300", "c19", "20"]
    assert html.text[heard + 19 : heard + 21] == ["12 more", str(sum(range(1, 13)))]
    numbers = predicted(pa.table({"node": [1], "label": [0.5]}))._repr_html_()
    assert "progress" not in read(numbers).tags


@pytest.mark.usefixtures("processes")
def test_a_small_graph_of_the_client_loads_no_kernels() -> None:
    code = (
        "import sys, pyarrow as pa; from peewit.service.client import Sparsifier; "
        "edges = pa.table({'src': [1], 'dst': [5], 'weight': [2.0]}); "
        "graph = Sparsifier(table=edges, graph='g', snapshot=1).to_networkx(); "
        "print(list(graph.edges(data='weight')), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(1, 5, 2.0)] False"
