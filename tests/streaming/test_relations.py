"""Relations: each a sparsifier of its own over one node index, within one budget."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.linalg

from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Quarantined
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.memory import HELD_BYTES, RECORD_BYTES
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.passes.certificate_store import CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.raw_edge_passes import snapshot_edges
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.snapshots.variances import VARIANCES
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from peewit.streaming.sparsifier.sparsifier import BUDGET_FACTOR
from tests.streaming.clusters import cluster_of

N_NODES = 120
COMBINATIONS = [
    {"card": 1.0, "login": 1.0, "message": 1.0},
    {"card": 1.0, "login": 0.0, "message": 0.0},
    {"card": 0.0, "login": 1.0, "message": 0.0},
    {"card": 0.0, "login": 0.0, "message": 1.0},
    {"card": 1e6, "login": 1.0, "message": 1.0},
    {"card": 1.0, "login": 1e6, "message": 1.0},
    {"card": 1.0, "login": 1.0, "message": 1e6},
    {"card": 1e-6, "login": 1.0, "message": 1e3},
    {"card": 1e3, "login": 0.0, "message": 1e-3},
    {"card": 0.0, "login": 1e-9, "message": 1e9},
]


def settings(**changes: object) -> StreamSettings:
    sparsifier = {"epsilon": 0.8, "seed": 3, "expected_nodes": N_NODES} | {
        name: changes.pop(name) for name in ("epsilon", "max_edges") if name in changes
    }
    values: dict[str, object] = {
        "node_kind": "dense",
        "max_nodes": N_NODES,
        "sparsifier": SparsifierSettings(**sparsifier),  # type: ignore[arg-type]
        "group_blocks": 2,
        "checkpoint_seconds": 0.0,
        "max_part_rows": 1 << 13,
    }
    return StreamSettings(**(values | changes))  # type: ignore[arg-type]


def adversarial(relation: str, seed: int, n_rows: int = 40_000) -> pa.Table:
    """A hub that all cards meet in, two dense halves with few edges between, or heavy tails."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, N_NODES, (2, n_rows))
    weight = np.ones(n_rows)
    if relation == "card":
        src[: n_rows // 2] = 0
        weight[: n_rows // 2] = 1e-3
    if relation == "login":
        dst = (dst // 2) * 2 + src % 2
        dst[:3] += 1 - 2 * (dst[:3] % 2)
    if relation == "message":
        weight = rng.pareto(1.0, n_rows) + 1e-3
    return pa.table({"src": src, "dst": dst, "weight": weight.astype(np.float32)})


def written(root: Path, tables: Mapping[str, pa.Table], **columns: object) -> list[EdgeFile]:
    """One file for each relation, of that name."""
    root.mkdir(exist_ok=True)
    files = []
    for name, table in tables.items():
        path = root / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=1 << 13)
        (file,) = EdgeFiles(path, columns=EdgeColumns(relation=name, **columns)).list()  # type: ignore[arg-type]
        files.append(file)
    return files


def ingested(
    root: Path, files: list[EdgeFile], stream_settings: StreamSettings | None = None
) -> SnapshotStore:
    paths = GraphPaths(root=root)
    Stream(paths, stream_settings or settings()).ingest(files)
    return SnapshotStore(paths.snapshots)


def graph_of(table: pa.Table, factor: float = 1.0) -> Graph:
    u, v, weight = (table[name].to_numpy() for name in ("src", "dst", "weight"))
    other = u != v
    return Graph.from_edges(u[other], v[other], factor * weight[other], n_nodes=N_NODES)


def ends(kept: Graph, whole: Graph) -> tuple[float, float]:
    """Least and largest ratio of the Laplacian forms, on the space where the second is not 0."""
    laplacian = scipy.sparse.diags(whole.degree) - whole.adjacency
    values, vectors = np.linalg.eigh(laplacian.toarray())
    space = vectors[:, values > 1e-12 * values.max()]
    space = space / np.sqrt(values[values > 1e-12 * values.max()])
    other = (scipy.sparse.diags(kept.degree) - kept.adjacency).toarray()
    ratios = np.linalg.eigvalsh(space.T @ other @ space)
    return float(ratios.min()), float(ratios.max())


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {name: adversarial(name, seed) for seed, name in enumerate(COMBINATIONS[0])}


@pytest.fixture(scope="module")
def snapshots(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, pa.Table]
) -> SnapshotStore:
    root = tmp_path_factory.mktemp("relations")
    return ingested(root / "graph", written(root / "data", tables))


def test_relations_are_listed_with_what_is_kept_of_each(
    snapshots: SnapshotStore, tables: dict[str, pa.Table]
) -> None:
    meta = snapshots.meta(1)
    assert [each.name for each in meta.relations] == list(tables)
    for each in meta.relations:
        assert each.edges_seen == tables[each.name].num_rows
        assert 0 < each.edges_kept < each.n_edges
        graph = snapshots.load_relations(1)[each.name]
        assert each.volume == pytest.approx(graph.degree.sum())
        assert each.n_nodes == np.count_nonzero(graph.degree)
        assert each.sampling_constant is not None
    assert meta.epsilon_expected == max(each.epsilon_expected for each in meta.relations)


@pytest.mark.parametrize("weights", COMBINATIONS, ids=str)
def test_the_guarantee_holds_for_every_combination_at_once(
    snapshots: SnapshotStore, tables: dict[str, pa.Table], weights: dict[str, float]
) -> None:
    parts = snapshots.load_relations(1)
    of_relations = [ends(parts[name], graph_of(tables[name])) for name in tables]
    whole = Graph.from_edges(
        *(
            np.concatenate(columns)
            for columns in zip(
                *(
                    graph_of(tables[name], weight).edges()
                    for name, weight in weights.items()
                    if weight
                ),
                strict=True,
            )
        ),
        n_nodes=N_NODES,
    )
    kept = SnapshotStore(snapshots._directory, weights=weights).load(1).graph
    least, largest = ends(kept, whole)
    used = [each for each, name in zip(of_relations, tables, strict=True) if weights[name]]
    rounding = 1e-4
    assert min(low for low, _ in used) - rounding <= least
    assert largest <= max(high for _, high in used) + rounding
    assert max(largest - 1.0, 1.0 - least) < 0.8


def test_a_certificate_holds_for_every_combination(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    paths = GraphPaths(root=tmp_path / "graph")
    store = ingested(paths.root, written(tmp_path / "data", tables))
    certificate = certify(paths, 1, CertifySettings(gap=0.05))
    assert certificate.status == "converged"
    assert certificate.outer_min is not None
    assert certificate.outer_max is not None
    own = [ends(store.load_relations(1)[name], graph_of(tables[name])) for name in tables]
    # those of the inverse: of all edges by what is kept
    assert certificate.outer_min <= 1.0 / max(high for _, high in own) * (1 + 1e-4)
    assert certificate.outer_max >= 1.0 / min(low for low, _ in own) * (1 - 1e-4)
    assert certificate.epsilon_certified == pytest.approx(
        max(abs(end - 1.0) for each in own for end in each), abs=0.05
    )


def test_weighed_edges_and_variances_are_sums_over_relations(snapshots: SnapshotStore) -> None:
    weights = {"card": 3.0, "login": 0.0, "message": 0.25}
    weighed = SnapshotStore(snapshots._directory, weights=weights)
    expected, variance = np.zeros((2, N_NODES, N_NODES))
    for name, number in (("card", 0), ("message", 2)):
        own = SnapshotStore(snapshots._directory).directory(1) / f"relation-{number}"
        relative = np.load(own / VARIANCES)
        u, v, weight = snapshots.load_relations(1)[name].edges()
        expected[u, v] += weights[name] * weight
        variance[u, v] += (weights[name] * weight) ** 2 * relative
    u, v, weight = weighed.load(1).graph.edges()
    assert weight == pytest.approx(expected[u, v])
    assert len(u) == np.count_nonzero(expected)
    relative = np.load(weighed.companion(1, VARIANCES))
    assert relative * weight**2 == pytest.approx(variance[u, v], rel=1e-4, abs=1e-12)


def test_one_named_relation_is_the_graph_without_a_name(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    (named,) = written(tmp_path / "data", {"card": tables["card"]})
    plain = replace(named, columns=EdgeColumns())
    stores = [ingested(tmp_path / str(k), [file]) for k, file in enumerate((named, plain))]
    first, second = (store.edges(1) for store in stores)
    assert first.equals(second)
    assert [each.name for each in stores[0].meta(1).relations] == ["card"]
    assert stores[1].meta(1).relations == ()


def test_the_first_relation_is_what_it_would_be_alone(
    tmp_path: Path, snapshots: SnapshotStore, tables: dict[str, pa.Table]
) -> None:
    (file,) = written(tmp_path / "data", {"card": tables["card"]})
    alone = ingested(tmp_path / "graph", [file]).load(1).graph
    among = snapshots.load_relations(1)["card"]
    assert (alone.adjacency != among.adjacency).nnz == 0


def test_a_table_of_relations_and_a_file_for_each_make_one_graph(
    tmp_path: Path, tables: dict[str, pa.Table], snapshots: SnapshotStore
) -> None:
    joined = pa.concat_tables(
        table.append_column("kind", pa.array([name] * table.num_rows))
        for name, table in tables.items()
    )
    path = tmp_path / "all.parquet"
    pq.write_table(joined, path)
    (file,) = EdgeFiles(path, columns=EdgeColumns(relation_column="kind")).list()
    meta = ingested(tmp_path / "graph", [file]).meta(1)
    expected = snapshots.meta(1)
    assert [each.name for each in meta.relations] == list(tables)
    assert [each.n_edges for each in meta.relations] == [
        each.n_edges for each in expected.relations
    ]


def test_one_budget_holds_for_all_relations_with_one_constant(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    few = {"card": tables["card"].slice(0, 300), "login": tables["login"]}
    many = few | {"message": tables["message"], "image": adversarial("image", 9)}
    budget = 3_000
    store = ingested(
        tmp_path / "graph",
        written(tmp_path / "data", many),
        settings(epsilon=None, max_edges=budget),
    )
    meta = store.meta(1)
    assert 0.8 * budget <= sum(each.edges_kept for each in meta.relations) <= 1.1 * budget
    whole = {each.name: each.sampling_constant is None for each in meta.relations}
    assert whole == {"card": True, "login": False, "message": False, "image": False}
    constants = [each.sampling_constant for each in meta.relations if each.sampling_constant]
    assert max(constants) < 2.0 * min(constants)


def test_relations_are_thinned_no_more_often_than_need_be(tmp_path: Path) -> None:
    budget, n_nodes, n_rows = 30_000, 600, 40_000
    rng = np.random.default_rng(4)
    files = []
    for number in range(8):
        ends_of_rows = rng.integers(0, n_nodes, (2, n_rows))
        table = pa.table(dict(zip(("src", "dst"), ends_of_rows, strict=True)))
        data = tmp_path / f"data-{number}"
        files += written(data, {f"relation {number % 4}": table})
    sizes: list[int] = []
    limits = settings(epsilon=None, max_edges=budget, max_nodes=n_nodes)
    stream = Stream(
        GraphPaths(root=tmp_path / "graph"),
        limits,
        on_event=lambda _event: sizes.append(stream.state.n_records),
    )
    stream.ingest(files)
    meta = SnapshotStore(GraphPaths(root=tmp_path / "graph").snapshots).meta(1)
    group_rows = limits.blocks_per_group * limits.part_rows
    assert budget < max(sizes) <= RECORD_BYTES / HELD_BYTES * BUDGET_FACTOR * budget + group_rows
    assert sum(state.n_resparsifications for state in stream.states.values()) <= len(files)
    assert 0.9 * budget <= meta.n_records <= budget
    constants = [each.sampling_constant or np.inf for each in meta.relations]
    assert max(constants) < 1.1 * min(constants)


def test_a_budget_that_holds_everything_drops_nothing(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    store = ingested(
        tmp_path / "graph",
        written(tmp_path / "data", tables),
        settings(epsilon=None, max_edges=40_000),
    )
    assert store.meta(1).is_whole
    for name, graph in store.load_relations(1).items():
        assert abs(graph.adjacency - graph_of(tables[name]).adjacency).max() < 1e-2


def test_a_bad_file_leaves_no_relation(tmp_path: Path, tables: dict[str, pa.Table]) -> None:
    bad = tables["message"].set_column(2, "weight", pa.array(np.full(40_000, np.nan)))
    files = written(tmp_path / "data", {"bad": bad, "card": tables["card"], "worse": bad})
    events: list[IngestEvent] = []
    stream = Stream(GraphPaths(root=tmp_path / "graph"), settings(), on_event=events.append)
    stream.ingest(files)
    assert sum(isinstance(event, Quarantined) for event in events) == 2
    assert list(stream.states) == ["card"]


def test_a_graph_has_at_most_64_relations(tmp_path: Path) -> None:
    rows = pa.table({"src": [0, 1], "dst": [1, 2], "weight": [1.0, 1.0]})
    weights = ([[1.0 + k, 1.0]] for k in range(65))
    tables = {f"r{k}": rows.set_column(2, "weight", each) for k, each in enumerate(weights)}
    files = written(tmp_path / "data", tables)
    events: list[IngestEvent] = []
    rarely = settings(checkpoint_seconds=1e9)
    stream = Stream(GraphPaths(root=tmp_path / "graph"), rarely, on_event=events.append)
    stream.ingest(files)
    (refused,) = [event for event in events if isinstance(event, Quarantined)]
    assert "at most 64 relations" in refused.reason
    assert len(stream.states) == 64


def test_a_deleted_edge_leaves_its_own_relation_and_an_erased_node_all(tmp_path: Path) -> None:
    rows = pa.table({"src": [0, 1, 2], "dst": [1, 2, 3], "op": ["insert"] * 3})
    exact = settings(deletions="exact")
    other = rows.append_column("weight", pa.array([2.0] * 3))
    files = written(tmp_path / "data", {"card": rows, "login": other}, op="op")
    gone = pa.table({"src": [0], "dst": [1], "op": ["delete"]})
    files += written(tmp_path / "deletes", {"login": gone}, op="op")
    store = ingested(tmp_path / "graph", files, exact)
    number = store.latest() or 0
    pairs = {
        name: set(zip(*(ends.tolist() for ends in graph.edges()[:2]), strict=True))
        for name, graph in store.load_relations(number).items()
    }
    assert pairs == {"card": {(0, 1), (1, 2), (2, 3)}, "login": {(1, 2), (2, 3)}}
    stream = Stream(GraphPaths(root=tmp_path / "graph"), exact)
    stream.erase(np.array([2], np.int32))
    number = store.latest() or 0
    assert {name: graph.n_edges for name, graph in store.load_relations(number).items()} == {
        "card": 1,
        "login": 0,
    }
    store.erase(number - 1, np.array([2], np.int32))
    assert [each.edges_kept for each in store.meta(number - 1).relations] == [1, 0]


def test_deletes_alone_make_no_relation(tmp_path: Path) -> None:
    exact = settings(deletions="exact")
    paths = GraphPaths(root=tmp_path / "graph")
    gone = pa.table({"src": [1, 0], "dst": [0, 1], "op": ["delete"] * 2})
    rows = pa.table({"src": [0, 1], "dst": [1, 2], "op": ["insert"] * 2})
    steps = [("before", "", gone), ("data", "login", rows), ("after", "card", gone)]
    for number, (directory, relation, table) in enumerate(steps):
        named = {"relation": relation} if relation else {}
        (tmp_path / directory).mkdir()
        path = tmp_path / directory / "rows.parquet"
        pq.write_table(table.append_column("n", pa.array([number] * 2)), path)
        Stream(paths, exact).ingest(EdgeFiles(path, columns=EdgeColumns(op="op", **named)).list())
    stream, store = Stream(paths, exact), SnapshotStore(paths.snapshots)
    assert list(stream.states) == ["login"]
    assert [file.relations for file in stream.files] == [(), ("login",), ()]
    meta = store.meta(store.latest() or 0)
    assert (meta.n_deletes, meta.n_unmatched, meta.n_live) == (4, 2, 2)
    later = rows.append_column("n", pa.array([3] * 2))
    stream.ingest(written(tmp_path / "later", {"card": later}, op="op"))
    for file in stream.files:
        stream.retract(file.path)
    assert {name: state.n_live for name, state in stream.states.items()} == {"login": 0, "card": 0}


def test_a_retracted_file_leaves_every_relation_that_it_has(tmp_path: Path) -> None:
    rows = pa.table(
        {"src": [0, 1, 2], "dst": [1, 2, 3], "weight": [1.0] * 3, "kind": ["a", "b", "a"]}
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path)
    (file,) = EdgeFiles(path, columns=EdgeColumns(relation_column="kind")).list()
    stream = Stream(GraphPaths(root=tmp_path / "graph"), settings(deletions="exact"))
    stream.ingest([file])
    assert stream.files[0].relations == ("a", "b")
    stream.retract(file.path)
    assert {name: state.n_live for name, state in stream.states.items()} == {"a": 0, "b": 0}


@pytest.mark.parametrize("node_kind", ["dense", "int64"])
@pytest.mark.parametrize("deletions", ["off", "exact"])
def test_passes_over_all_edges_weigh_relations(
    tmp_path: Path, tables: dict[str, pa.Table], node_kind: str, deletions: str
) -> None:
    paths = GraphPaths(root=tmp_path / "graph")
    store = ingested(
        paths.root,
        written(tmp_path / "data", tables),
        settings(node_kind=node_kind, deletions=deletions),
    )
    meta = store.meta(1)
    weights = {"card": 0.0, "login": 2.0, "message": 0.5}
    vectors = np.random.default_rng(0).normal(size=(meta.n_nodes, 3))
    with snapshot_edges(
        paths, meta, spool=tmp_path / "spool", staging=tmp_path, n_threads=1, weights=weights
    ) as edges:
        edges.open()
        assert edges.components().n_edges == edges.n_edges
        product = edges.laplacian_product(vectors)
    expected = np.zeros_like(vectors)
    names = np.arange(N_NODES)
    if node_kind == "int64":
        index = open_nodes(paths.nodes, kind="int64", n_nodes=meta.n_nodes, writable=False)
        names = index.lookup(pa.array(names))
    for name in ("login", "message"):
        graph = graph_of(tables[name])
        laplacian = scipy.sparse.diags(graph.degree) - graph.adjacency
        expected[names] += weights[name] * (laplacian @ vectors[names])
    assert product == pytest.approx(expected, rel=1e-4, abs=1e-2)


def test_a_larger_budget_reads_every_relation_again(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    few = {"epsilon": None, "max_edges": 2_000}
    files = written(tmp_path / "data", tables)
    store = ingested(tmp_path / "graph", files, settings(**few))
    assert not store.meta(1).is_whole
    stream = Stream(GraphPaths(root=tmp_path / "graph"), settings(**(few | {"max_edges": 40_000})))
    stream.repair(everything=True)
    meta = store.meta(2)
    assert meta.is_whole
    assert [each.n_edges for each in meta.relations] == [
        each.n_edges for each in store.meta(1).relations
    ]
    assert meta.n_rebuilds == len(tables)


@pytest.mark.usefixtures("processes")
def test_relations_are_the_same_from_one_worker_and_two(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    files = written(tmp_path / "data", tables)
    stores = []
    for n_workers in (1, 2):
        with cluster_of(n_workers) as cluster:
            there = settings(scheduler=cluster.scheduler_address)
            stores.append(ingested(tmp_path / str(n_workers), files, there))
    first, second = (store.load_relations(1) for store in stores)
    for name, table in tables.items():
        assert (first[name].adjacency != second[name].adjacency).nnz == 0
        low, high = ends(first[name], graph_of(table))
        assert max(high - 1.0, 1.0 - low) < 0.8
