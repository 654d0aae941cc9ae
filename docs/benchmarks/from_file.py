"""From one Parquet file to numbered ids, to a graph and to predictions: what do others take?

Every method reads the same file (string or integer ids, random weights) and the same random labels
in a process of its own: CPU seconds from the file on, peak resident memory of the process from its
start, libraries counted, and what came out: distinct ids, edges, or the share of the other nodes
that are right. A first run on a small file loads and compiles. Peers that are not installed are
left out: ``polars``, ``duckdb``, ``networkit``, ``igraph``, ``scikit-network``, ``graphlearning``;
networkit's label propagation may start from a clustering, but no label stays fixed.
"""

import importlib
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from docs.benchmarks import N_THREADS
from docs.benchmarks.peak_memory import peak_bytes

# peewit is imported where it is measured: the memory of a peer shall not hold it
FIRST_ID, ID_STEP = 10**9, 7


class Edges(NamedTuple):
    """Numbered ends of every row, and the id of each number."""

    u: Any
    v: Any
    weight: Any
    ids: Any


class Known(NamedTuple):
    ids: pa.Array
    classes: Any


def by_arrow(path: Path) -> Edges:
    table = pq.read_table(path, use_threads=False)
    weight = table["weight"].to_numpy()
    ends = pa.chunked_array([*table["src"].chunks, *table["dst"].chunks])
    del table
    coded = ends.dictionary_encode().combine_chunks()
    number = coded.indices.to_numpy()
    return Edges(number[: weight.size], number[weight.size :], weight, coded.dictionary)


def by_polars(path: Path) -> Edges:
    """Distinct ids, joined to both columns."""
    polars: Any = importlib.import_module("polars")
    rows = polars.read_parquet(path)
    ids = polars.concat([rows["src"], rows["dst"]]).unique()
    numbers = polars.DataFrame({"id": ids, "n": np.arange(len(ids), dtype=np.int32)})
    u, v = (
        rows.select(end)
        .join(numbers, left_on=end, right_on="id", how="left", maintain_order="left")["n"]
        .to_numpy()
        for end in ("src", "dst")
    )
    return Edges(u, v, rows["weight"].to_numpy(), ids)


def by_duckdb(path: Path) -> Edges:
    """Distinct ids, joined to both columns."""
    database: Any = importlib.import_module("duckdb").connect()
    database.execute(f"set threads = {N_THREADS}")
    database.execute(f"create view rows as select * from '{path}'")
    database.execute(
        "create table ids as select id, (row_number() over () - 1)::int as n from "
        "(select src as id from rows union select dst from rows)"
    )
    found = database.execute(
        "select a.n as u, b.n as v, weight from rows join ids a on src = a.id "
        "join ids b on dst = b.id"
    ).fetchnumpy()
    ids = database.execute("select id from ids order by n").fetchnumpy()["id"]
    return Edges(found["u"], found["v"], found["weight"], ids)


def by_peewit(path: Path) -> int:
    """Checked and numbered block by block, which are dropped; the number of ids."""
    from peewit.streaming.cluster.sparsified_shares import index_in_memory
    from peewit.streaming.edges.reader import read_parts
    from peewit.streaming.edges.sources import EdgeFiles
    from peewit.streaming.edges.staging import stage

    kind: Any = "string" if pq.read_schema(path).field("src").type == pa.string() else "int64"
    nodes = index_in_memory(kind, hash_seed=0)
    (file,) = EdgeFiles(path).list()
    with stage(file, path.parent / "staging") as staged:
        parts = [(staged, part) for part in staged.parts]
        for block in read_parts(parts, node_kind=kind, max_nodes=10**8, n_threads=1):
            nodes.map_block(block)
    return nodes.n_nodes


def reading(read: Callable[[Path], Edges]) -> Callable[[Path, Known], int]:
    return lambda path, _known: len(read(path).ids)


def in_networkit(path: Path, _known: Known) -> int:
    networkit: Any = importlib.import_module("networkit")
    networkit.setNumberOfThreads(1)
    edges = by_arrow(path)
    triplets = edges.weight.astype(np.float64), (edges.u, edges.v)
    graph = networkit.GraphFromCoo(triplets, n=len(edges.ids), weighted=True)
    return int(graph.numberOfEdges())


def in_igraph(edges: Edges) -> Any:
    igraph: Any = importlib.import_module("igraph")
    graph = igraph.Graph(n=len(edges.ids), edges=np.column_stack((edges.u, edges.v)))
    graph.es["weight"] = edges.weight.tolist()
    return graph


def in_sknetwork(edges: Edges) -> Any:
    """Adjacency matrix by scikit-network, without self-loops."""
    parse: Any = importlib.import_module("sknetwork.data.parse")
    apart = edges.u != edges.v
    ends = np.column_stack((edges.u[apart], edges.v[apart]))
    shape = (len(edges.ids),) * 2
    return parse.from_edge_array(ends, edges.weight[apart], shape=shape, matrix_only=True)


def sparsified(path: Path) -> Any:
    from peewit import sparsify

    return sparsify(path, n_threads=1)


def ingested(path: Path, _known: Known) -> int:
    """Edges of the snapshot that a stream with its checkpoints leaves on disk."""
    from docs.benchmarks.ingest import ingest

    kind: Any = "string" if pq.read_schema(path).field("src").type == pa.string() else "int64"
    return ingest(path.parent, 1, 10**6, 0.7, None, kind)[0]


def labeled_by_sknetwork(name: str, **parameters: Any) -> Callable[[Path, Known], Any]:
    def predict(path: Path, known: Known) -> tuple[Any, Any]:
        edges = by_arrow(path)
        model = getattr(importlib.import_module("sknetwork.classification"), name)(**parameters)
        nodes = pc.index_in(known.ids, edges.ids).to_numpy()
        labels = dict(zip(nodes.tolist(), known.classes.tolist(), strict=True))
        return edges.ids, model.fit_predict(in_sknetwork(edges), labels=labels)

    return predict


def labeled_by_graphlearning(name: str) -> Callable[[Path, Known], Any]:
    def predict(path: Path, known: Known) -> tuple[Any, Any]:
        edges = by_arrow(path)
        adjacency = in_sknetwork(edges)
        joined = np.diff(adjacency.indptr) > 0  # of one node without edges all scores would be NaN
        place = np.cumsum(joined) - 1
        nodes = pc.index_in(known.ids, edges.ids).to_numpy()
        model = getattr(importlib.import_module("graphlearning").ssl, name)(
            adjacency[joined][:, joined]
        )
        predicted = np.full(joined.size, np.bincount(known.classes).argmax())
        predicted[joined] = model.fit_predict(place[nodes], known.classes)
        return edges.ids, predicted

    return predict


def labeled_by_igraph(path: Path, known: Known) -> tuple[Any, Any]:
    """Label propagation from fixed labels; it numbers the classes anew."""
    edges = by_arrow(path)
    nodes = pc.index_in(known.ids, edges.ids).to_numpy()
    initial = np.full(len(edges.ids), -1)
    initial[nodes] = known.classes
    graph = in_igraph(edges)
    found = graph.community_label_propagation(
        weights="weight", initial=initial.tolist(), fixed=(initial >= 0).tolist()
    )
    membership = np.array(found.membership)
    class_of = np.full(membership.max() + 1, np.bincount(known.classes).argmax())
    class_of[membership[nodes]] = known.classes
    return edges.ids, class_of[membership]


def labeled_by_peewit(name: str) -> Callable[[Path, Known], Any]:
    def predict(path: Path, known: Known) -> tuple[Any, Any]:
        from peewit.solvers.labels import Labels
        from peewit.solvers.models.catalogue import CATALOGUE

        found = sparsified(path)
        labels = Labels.from_pairs(found.lookup(known.ids), known.classes)
        model = CATALOGUE[name]()
        scores = model.solve(model.prepare(found.graph), labels).scores
        return found.external_ids, np.asarray(labels.class_names)[scores.argmax(axis=1)]

    return predict


METHODS: dict[str, tuple[str, Callable[[Path, Known], Any]]] = {
    "ids: pyarrow": ("pyarrow", reading(by_arrow)),
    "ids: polars": ("polars", reading(by_polars)),
    "ids: duckdb": ("duckdb", reading(by_duckdb)),
    "ids: peewit, block by block": ("peewit", lambda path, _known: by_peewit(path)),
    "graph: networkit": ("networkit", in_networkit),
    "graph: igraph": ("igraph", lambda path, _known: in_igraph(by_arrow(path)).ecount()),
    "graph: scikit-network": (
        "sknetwork",
        lambda path, _known: in_sknetwork(by_arrow(path)).nnz // 2,
    ),
    "graph: peewit, sparsify": ("peewit", lambda path, _known: sparsified(path).edges_kept),
    "graph: peewit, ingest with checkpoints": ("peewit", ingested),
    "labels: scikit-network, diffusion": (
        "sknetwork",
        labeled_by_sknetwork("DiffusionClassifier", n_iter=50),
    ),
    "labels: scikit-network, PageRank": ("sknetwork", labeled_by_sknetwork("PageRankClassifier")),
    "labels: graphlearning, Poisson": ("graphlearning", labeled_by_graphlearning("poisson")),
    "labels: graphlearning, Laplace": ("graphlearning", labeled_by_graphlearning("laplace")),
    "labels: igraph, propagation": ("igraph", labeled_by_igraph),
    "labels: peewit, auto": ("peewit", labeled_by_peewit("auto")),
    "labels: peewit, harmonic-mbo": ("peewit", labeled_by_peewit("harmonic-mbo")),
}
"""Method, the module that it imports, and what it does with a file and labels."""


def write(family: str, directory: Path, n_nodes: int, n_labels: int) -> str:
    """Write edges, labels and truth; tell what they are."""
    from docs.benchmarks.edge_families import FAMILIES, made, node_names, write_edges

    u, v, classes = made(family, n_nodes)
    rng = np.random.default_rng(1)
    number = np.arange(n_nodes)
    has_names = FAMILIES[family].has_names
    ids = node_names(number) if has_names else pa.array(FIRST_ID + ID_STEP * number)
    weight = rng.random(u.size, dtype=np.float32) + np.float32(0.5)
    write_edges(directory / "edges.parquet", ids, u, v, weight)
    joined = np.unique(np.concatenate([u[u != v], v[u != v]]))
    labeled = rng.permutation(joined)[:n_labels]
    pq.write_table(pa.table({"id": ids, "class": classes}), directory / "truth.parquet")
    known = pa.table({"id": ids.take(pa.array(labeled)), "class": classes[labeled]})
    pq.write_table(known, directory / "labels.parquet")
    return (
        f"{family}: {n_nodes:,} nodes with {'string' if has_names else 'int64'} ids, {u.size:,} "
        f"rows, {labeled.size:,} labels; commonest class {np.bincount(classes).max() / n_nodes:.1%}"
    )


def run(method: str, warm: Path, directory: Path, limit: int) -> tuple[float, float, str]:
    """CPU seconds, peak MiB, and what came out, in this process, which the limit ends."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    module, task = METHODS[method]
    importlib.import_module(module)
    for place in (warm, directory):
        labels = pq.read_table(place / "labels.parquet", use_threads=False).combine_chunks()
        known = Known(labels["id"].combine_chunks(), labels["class"].to_numpy())
        begun = time.process_time()
        found = task(place / "edges.parquet", known)
        seconds = time.process_time() - begun
    mebibytes = peak_bytes() / 2**20
    if not isinstance(found, tuple):
        return seconds, mebibytes, f"{found:,}"
    ids, predicted = found
    truth = pq.read_table(directory / "truth.parquet")
    row = pc.index_in(pa.array(ids), truth["id"].combine_chunks()).to_numpy()
    asked = ~pc.is_in(pa.array(ids), known.ids).to_numpy(zero_copy_only=False)
    right = (truth["class"].to_numpy()[row] == predicted)[asked].mean()
    return seconds, mebibytes, f"{right:.1%}"


def main() -> None:
    from docs.benchmarks.edge_families import FAMILIES
    from docs.benchmarks.frame import CONSOLE, Figures, alone, options

    asked = options(
        __doc__,
        quick={"nodes": 20_000, "labels": 200},
        families=([*FAMILIES], FAMILIES),
        nodes=1_000_000,
        labels=2_000,
        methods=([*METHODS], METHODS),
        limit=(120, "CPU seconds that each may take"),
    )
    for family in asked.families:
        with tempfile.TemporaryDirectory() as temporary:
            warm, directory = Path(temporary) / "warm", Path(temporary) / family
            write(family, warm, 3_000, 50)
            title = write(family, directory, asked.nodes, asked.labels)
            table = Figures(title, "|CPU s {:.2f}|peak MiB {:,.0f}|ids, edges or right")
            for method in asked.methods:
                try:
                    table.add(method, *alone(run, method, warm, directory, asked.limit))
                except ImportError as missing:
                    CONSOLE.print(f"left out: {method} ({missing})")
                except BrokenProcessPool:
                    table.add(method, f"> {asked.limit}", "", "no end")
            CONSOLE.print(table)


if __name__ == "__main__":
    main()
