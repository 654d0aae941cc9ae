"""What do the experiments of the Sparse-HFS paper show here?

``python -m docs.benchmarks.sparse_hfs synthetic --figure sparse_hfs.png`` asks for accuracy and
share of edges kept against k on the 12,100 points in four clusters (section D.6, our
reconstruction), two labels in the uppermost cluster and two in the lowermost, gamma = 1,
epsilon = 0.8.
``python -m docs.benchmarks.sparse_hfs spam`` takes the first half of the TREC 2007 spam corpus
(``PEEWIT_DATA``), epsilon = 0.9, beside the paper's baselines, and asks for accuracy on the whole
set, CPU time and peak memory.

Sparsifiers come in two sizes. "sparse" keeps what epsilon asks for here, about n ln(n) / epsilon^2
edges; "sparse, N" as many as the paper has copies, n ln^2(n) / epsilon^2: it is asked for
epsilon / sqrt(ln n).

Graphs are Parquet files in ``--cache``, written and streamed block by block. Every method runs in a
process of its own. What has been measured is kept in the cache too and not measured again;
``--fresh`` forgets it. ``--quick`` is a tenth of the points.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.graphs import rectangle_points
from docs.benchmarks.neighbor_files import EdgesOfFile, write_edges
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.spam import edge_file, messages, nearest
from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.eigenfunctions import EigFun
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.solvers.models.harmonic.nearest_neighbor import NearestNeighbor
from peewit.solvers.models.harmonic.simple_hfs import SimpleHFS
from peewit.solvers.models.harmonic.subsampling import SubSampling
from peewit.streaming.sparsify_call import sparsify

SYNTHETIC_K = (
    100, 500, 1_000, 2_000, 3_000, 4_000, 4_100, 4_200, 4_500, 5_000, 6_000, 7_000, 8_000, 10_000,
    12_000,
)  # fmt: skip
COPIES_K = (100, 1_000, 4_500, 6_000)
SAMPLED_K = 100
_ROWS_AT_A_TIME = 250

Row = dict[str, Any]
Draws = Sequence[tuple[list[int], list[int]]]
"""Label sets: nodes and their classes."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """True classes, and the label sets to learn from, by their name."""

    classes: IntArray
    draws: dict[str, Draws]


def exact(path: Path, n_nodes: int, truth: Truth) -> Row:
    """Stable-HFS on the graph itself."""
    begun = time.process_time()
    graph = Graph.from_records(EdgesOfFile(path=path), n_nodes=n_nodes, dtype=np.float32)
    return {"n_edges": graph.n_edges, "prepare_seconds": time.process_time() - begun} | _solved(
        StableHFS(graph_penalty=1.0), graph, None, truth
    )


def streamed(path: Path, n_nodes: int, truth: Truth, epsilon: float) -> Row:
    """Stable-HFS on the sparsifier of one pass over the file."""
    begun = time.process_time()
    result = sparsify(path, epsilon, n_nodes=n_nodes, node_ids="dense")
    return {
        "n_edges": result.edges_kept,
        "epsilon_expected": result.epsilon_expected,
        "prepare_seconds": time.process_time() - begun,
    } | _solved(StableHFS(graph_penalty=1.0), result.graph, None, truth)


def paper_sized(epsilon: float, n_nodes: int) -> float:
    """The epsilon that keeps about n ln^2(n) / epsilon^2 edges."""
    return float(epsilon / np.sqrt(np.log(n_nodes)))


def copies(path: Path, n_nodes: int, truth: Truth, epsilon: float) -> Row:
    """Stable-HFS on the sparsifier of Kelner-Levin, N = n ln^2(n) / epsilon^2 copies."""
    begun = time.process_time()
    n_copies = round(n_nodes * np.log(n_nodes) ** 2 / epsilon**2)
    table = pq.read_table(path)
    result = sparsify(table, epsilon, method="kelner-levin", max_edges=n_copies, n_nodes=n_nodes)
    return {"n_edges": result.edges_kept, "prepare_seconds": time.process_time() - begun} | _solved(
        StableHFS(graph_penalty=1.0), result.graph, None, truth
    )


def by_features(model: Model, n_messages: int | None, truth: Truth) -> Row:
    """A model on the TF-IDF rows themselves."""
    features = messages(n_messages).features
    graph = Graph.from_edges([], [], [], n_nodes=features.shape[0])
    return {"prepare_seconds": 0.0} | _solved(model, graph, features, truth)


def _solved(model: Model, graph: Graph, features: Any, truth: Truth) -> Row:
    """Accuracy of every draw on all nodes that were not labeled, and CPU seconds of a solve.

    ``right`` takes the class of the greater score. ``right_shares`` gives class 1 to so many
    nodes as its share among the labels asks for, those with the greatest lead.
    """
    prepared = model.prepare(graph, features)
    right: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    seconds, statuses = [], set()
    for name, draws in truth.draws.items():
        right[name], shares[name] = [], []
        for nodes, classes in draws:
            begun = time.process_time()
            solution = model.solve(prepared, Labels.from_pairs(nodes, classes))
            seconds.append(time.process_time() - begun)
            statuses.add(solution.status.value)
            asked = np.ones(truth.classes.size, dtype=bool)
            asked[nodes] = False
            predicted = solution.scores.argmax(axis=1)
            right[name].append(float((predicted == truth.classes)[asked].mean()))
            lead = solution.scores[:, 1] - solution.scores[:, 0]
            predicted = lead > np.quantile(lead, 1.0 - np.mean(classes))
            shares[name].append(float((predicted == truth.classes)[asked].mean()))
    return {
        "right": right,
        "right_shares": shares,
        "solve_seconds": float(np.mean(seconds)),
        "status": sorted(statuses),
    }


def _apart(task: Callable[..., Row], *arguments: Any) -> Row:
    """What a task gives in a new process, with the most memory that this process had."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_with_memory, task, arguments).result()


def _with_memory(task: Callable[..., Row], arguments: tuple[Any, ...]) -> Row:
    small = sparsify(np.triu_indices(200, 1), 0.9).graph  # loads what is compiled
    _solved(
        StableHFS(graph_penalty=1.0),
        small,
        None,
        Truth(classes=np.zeros(200, np.int64), draws={"": [([0, 1], [0, 1])]}),
    )
    row = task(*arguments)
    return row | {"peak_bytes": peak_bytes()}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Rows that are there already, in a JSON file."""

    path: Path

    def row(self, name: str, measure: Callable[[], Row]) -> Row:
        """The row of this name, measured now unless it is there."""
        rows = json.loads(self.path.read_text()) if self.path.exists() else {}
        if name not in rows:
            rows[name] = measure()
            self.path.write_text(json.dumps(rows, indent=1))
        row: Row = rows[name]
        return row


def nearest_points(points: FloatArray, cache: Path) -> IntArray:
    """(n_points, n_points - 1) other points of each point, nearest first; kept in ``cache``."""
    n_points = len(points)
    path = cache / f"synthetic-{n_points}-order.npy"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        order = np.lib.format.open_memmap(
            unfinished, "w+", dtype=np.uint16, shape=(n_points, n_points - 1)
        )
        for start in range(0, n_points, _ROWS_AT_A_TIME):
            rows = points[start : start + _ROWS_AT_A_TIME]
            squared = np.square(rows[:, None] - points[None]).sum(axis=2)
            squared[np.arange(len(rows)), np.arange(start, start + len(rows))] = -1.0
            order[start : start + len(rows)] = np.argsort(squared, axis=1)[:, 1:]
        order.flush()
        unfinished.rename(path)
    return np.load(path, mmap_mode="r")


def synthetic(options: argparse.Namespace, console: Console, cache: Path) -> None:
    """Accuracy and edges against k."""
    n_nodes = 1_210 if options.quick else 12_100
    counts = [k // 10 if options.quick else k for k in options.k or SYNTHETIC_K]
    points, cluster = rectangle_points(n_nodes)
    truth = Truth(
        classes=(cluster >= 2).astype(np.int64), draws={"4": _corner_draws(cluster, options.draws)}
    )
    rows: list[Row] = []
    for k in counts:
        measured = Measured(path=cache / f"synthetic-{n_nodes}-{k}-{options.draws}.json")
        if options.fresh:
            measured.path.unlink(missing_ok=True)
        path = cache / f"synthetic-{n_nodes}-{k}.parquet"

        def edges(path: Path = path, k: int = k) -> Path:
            if not path.exists():
                write_edges(path, nearest_points(points, cache), k)
            return path

        methods: dict[str, Callable[[], Row]] = {
            "exact": lambda edges=edges: _apart(exact, edges(), n_nodes, truth),
            "sparse": lambda edges=edges: _apart(streamed, edges(), n_nodes, truth, 0.8),
            "sparse, N": lambda edges=edges: _apart(
                streamed, edges(), n_nodes, truth, paper_sized(0.8, n_nodes)
            ),
        }
        if k in options.copies_k or (options.quick and 10 * k in options.copies_k):
            methods["kelner-levin"] = lambda edges=edges: _apart(
                copies, edges(), n_nodes, truth, 0.8
            )
        found = {name: measured.row(name, measure) for name, measure in methods.items()}
        path.unlink(missing_ok=True)
        rows.append({"k": k, **found})
        console.print(_synthetic_table(rows[-1:]), highlight=False)
    rows.sort(key=lambda row: row["k"])
    console.print(_synthetic_table(rows))
    if options.figure:
        draw(rows, n_nodes, options.figure)


def _corner_draws(cluster: IntArray, n_draws: int) -> Draws:
    """Two random points of the uppermost cluster and two of the lowermost."""
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(n_draws):
        nodes = [
            node
            for number in (0, 3)
            for node in rng.choice(np.flatnonzero(cluster == number), 2, replace=False).tolist()
        ]
        draws.append((nodes, [0, 0, 1, 1]))
    return draws


def _synthetic_table(rows: Sequence[Row]) -> Table:
    table = Table(
        title="accuracy: mean (standard deviation) over draws; CPU seconds: graph + a solve"
    )
    for heading in ("k", "edges", "", "accuracy", "kept", "of edges", "CPU s", "peak MiB"):
        table.add_column(heading, justify="right")
    for row in rows:
        for name in ("exact", "sparse", "sparse, N", "kelner-levin"):
            if name not in row:
                continue
            found, n_edges = row[name], row["exact"]["n_edges"]
            table.add_row(
                f"{row['k']:,}",
                f"{n_edges:,}",
                name,
                _accuracy(found["right"]["4"]),
                f"{found['n_edges']:,}",
                f"{found['n_edges'] / n_edges:.1%}",
                f"{found['prepare_seconds']:.1f} + {found['solve_seconds']:.1f}",
                f"{found['peak_bytes'] >> 20:,}",
            )
    return table


def draw(rows: Sequence[Row], n_nodes: int, path: Path) -> None:
    """The paper's figure: accuracy against k, and the share of edges kept."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    styles = {
        "exact": ("Stable-HFS, whole graph", "-", "o", "#444444"),
        "sparse": ("Sparse-HFS, n ln n / ε² edges", "-", "s", "#0072b2"),
        "sparse, N": ("Sparse-HFS, n ln² n / ε² edges", "-", "^", "#009e73"),
        "kelner-levin": ("Sparse-HFS, Kelner-Levin as printed", "", "D", "#d55e00"),
    }
    for name, (label, line, marker, color) in styles.items():
        there = [row for row in rows if name in row]
        if not there:
            continue
        k = [row["k"] for row in there]
        right_ = [row[name]["right"]["4"] for row in there]
        shares = [row[name]["n_edges"] / row["exact"]["n_edges"] for row in there]
        settings = {"linestyle": line, "marker": marker, "color": color, "markersize": 4}
        settings["markerfacecolor"] = "none" if name == "exact" else color
        left.errorbar(
            k, np.mean(right_, axis=1), np.std(right_, axis=1), label=label, capsize=2, **settings
        )
        if name != "exact":
            right.plot(k, shares, label=label, **settings)
    left.set(xlabel="neighbors k", ylabel="accuracy", ylim=(0.4, 1.03))
    left.set_title(f"{n_nodes:,} points, 4 labels", fontsize=9)
    left.legend(frameon=False, fontsize=8, loc="lower left")
    right.set(xlabel="neighbors k", ylabel="edges kept / edges", yscale="log")
    right.axhline(0.1, color="#bbbbbb", linewidth=0.8, linestyle=":")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def spam(options: argparse.Namespace, console: Console, cache: Path) -> None:
    """Accuracy on the whole spam set, time and memory."""
    n_messages = 3_770 if options.quick else None
    counts = [k // 10 if options.quick else k for k in options.k or (1_000,)]
    mail = messages(n_messages)
    n_nodes = mail.classes.size
    console.print(
        f"{n_nodes:,} messages, {mail.features.shape[1]:,} words, {mail.n_empty} without any",
        highlight=False,
    )
    draws = {str(count): _uniform_draws(mail.classes, count, options.draws) for count in options.l}
    truth = Truth(classes=mail.classes, draws=draws)
    few = Truth(
        classes=mail.classes,
        draws={name: drawn[: options.sampled_draws] for name, drawn in draws.items()},
    )
    measured = Measured(
        path=cache / f"spam-{n_nodes}-{options.draws}-{'-'.join(map(str, options.l))}.json"
    )
    if options.fresh:
        measured.path.unlink(missing_ok=True)
    n_sampled = 1_500 if options.quick else 15_000
    models: dict[str, tuple[Model, Truth]] = {
        "1-NN": (NearestNeighbor(), truth),
        "EigFun, q = 50": (EigFun(), truth),
        "EigFun, q = 500": (EigFun(n_functions=500, n_dimensions=100), truth),
        "Simple-HFS": (SimpleHFS(), truth),
        f"SubSampling, k = {SAMPLED_K}": (
            SubSampling(n_sampled=n_sampled, n_neighbors=SAMPLED_K, graph_penalty=1.0),
            few,
        ),
    }
    most = max([3_000 // (10 if options.quick else 1), *counts])
    rows: dict[str, Row] = {}
    for k in counts if options.only != "features" else ():
        path = edge_file(*nearest(mail.features, most, cache, tell=console.print), k, cache)
        n_edges = pq.ParquetFile(path).metadata.num_rows
        for name, task in (
            (f"Sparse-HFS, k = {k}", lambda path=path: _apart(streamed, path, n_nodes, truth, 0.9)),
            (
                f"Sparse-HFS, N, k = {k}",
                lambda path=path: _apart(streamed, path, n_nodes, truth, paper_sized(0.9, n_nodes)),
            ),
            (f"Stable-HFS, k = {k}", lambda path=path: _apart(exact, path, n_nodes, truth)),
        ):
            rows[name] = measured.row(name, task) | {"all_edges": n_edges}
            console.print(_spam_table({name: rows[name]}, options.l))
    for name, (model, asked) in models.items() if options.only != "graphs" else ():
        rows[name] = measured.row(
            name, lambda model=model, asked=asked: _apart(by_features, model, n_messages, asked)
        )
        console.print(_spam_table({name: rows[name]}, options.l))
    console.print(_spam_table(rows, options.l))


def _uniform_draws(classes: IntArray, n_labeled: int, n_draws: int) -> Draws:
    """Messages drawn at random, both classes among them."""
    rng = np.random.default_rng(n_labeled)
    draws: list[tuple[list[int], list[int]]] = []
    while len(draws) < n_draws:
        nodes = rng.choice(classes.size, n_labeled, replace=False)
        if np.unique(classes[nodes]).size == 2:
            draws.append((nodes.tolist(), classes[nodes].tolist()))
    return draws


def _spam_table(rows: dict[str, Row], counts: Sequence[int]) -> Table:
    title = (
        "accuracy: mean over draws by the greater score (sd) | at the labels' class shares; "
        "CPU seconds: graph + a solve"
    )
    table = Table(title=title)
    table.add_column("")
    for heading in (*(f"l = {count:,}" for count in counts), "edges", "CPU s", "peak MiB"):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        edges = f"{row['n_edges']:,}" if "n_edges" in row else "-"
        if row.get("all_edges", 0) > row.get("n_edges", 0):
            edges += f" ({row['n_edges'] / row['all_edges']:.1%})"
        table.add_row(
            name,
            *(
                f"{_accuracy(row['right'][str(count)])} | "
                f"{np.mean(row['right_shares'][str(count)]):.3f}"
                for count in counts
            ),
            edges,
            f"{row['prepare_seconds']:.1f} + {row['solve_seconds']:.1f}",
            f"{row['peak_bytes'] >> 20:,}",
        )
    return table


def _accuracy(right: Sequence[float]) -> str:
    return f"{np.mean(right):.3f} ({np.std(right):.3f})"


def main() -> None:
    """Run one of the experiments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=("synthetic", "spam"))
    parser.add_argument("--k", type=int, nargs="+", help="neighbors; before --quick divides by 10")
    parser.add_argument("--copies-k", type=int, nargs="*", default=COPIES_K, help="also copies")
    parser.add_argument("--l", type=int, nargs="+", default=[20, 100, 1_000], help="labels of spam")
    parser.add_argument("--draws", type=int, default=5, help="label sets")
    parser.add_argument("--sampled-draws", type=int, default=2, help="of them for SubSampling")
    parser.add_argument("--only", choices=("graphs", "features"), help="some methods of spam")
    parser.add_argument("--cache", type=Path, help="where files are kept; temporary without")
    parser.add_argument("--figure", type=Path, help="PNG or SVG of the synthetic set")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as temporary:
        cache = options.cache or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        (synthetic if options.experiment == "synthetic" else spam)(options, console, cache)


if __name__ == "__main__":
    main()
