"""What do the experiments of the Sparse-HFS paper show here?

``python -m docs.benchmarks.sparse_hfs synthetic --figure sparse_hfs.png`` asks for accuracy and
share of edges kept against k on the 12,100 points in four clusters (section D.6, our
reconstruction), two labels in the uppermost cluster and two in the lowermost, epsilon = 0.8.
``python -m docs.benchmarks.sparse_hfs spam`` takes the first half of the TREC 2007 spam corpus
(``PEEWIT_DATA``), epsilon = 0.9, beside the paper's baselines, and asks for accuracy on the whole
set, CPU time and peak memory; ``--k`` and ``--q`` ask for more neighbors and eigenfunctions, and
``--figure`` draws error against both.

"Sparse-HFS" keeps what epsilon asks for here, about n ln(n) / epsilon^2 edges. "Sparse-HFS, N"
keeps as many as the paper has copies, n ln^2(n) / epsilon^2. "Kelner-Levin" samples these copies as
the paper does, at the k of ``--copies-k``.

Graphs are Parquet files in ``--cache``, written and streamed block by block. Every method runs in a
process of its own. What has been measured is kept in the cache too and not measured again;
``--fresh`` forgets it. ``--quick`` is a tenth of the points.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from docs.benchmarks.frame import CONSOLE, Figures, alone, cpu_of, options, share_right
from docs.benchmarks.graphs import rectangle_points
from docs.benchmarks.neighbor_files import EdgesOfFile, nearest_points, write_edges
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.spam import edge_file, messages, nearest
from peewit.solvers.arrays import IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.eigenfunctions import EigFun
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.solvers.models.harmonic.nearest_neighbor import NearestNeighbor
from peewit.solvers.models.harmonic.simple_hfs import SimpleHFS
from peewit.solvers.models.harmonic.subsampling import SubSampling
from peewit.streaming.calls.sparsify_call import sparsify

SYNTHETIC_K = (
    100, 500, 1_000, 2_000, 3_000, 4_000, 4_100, 4_200, 4_500, 5_000, 6_000, 7_000, 8_000, 10_000,
    12_000,
)  # fmt: skip
COPIES_K = (100, 1_000, 4_500, 6_000)
SAMPLED_K = 100

HARMONIC = StableHFS(graph_penalty=1.0)

STYLES = {
    "Stable-HFS": ("Stable-HFS, whole graph", "o", "#444444"),
    "Sparse-HFS": ("Sparse-HFS, n ln n / ε² edges", "s", "#0072b2"),
    "Sparse-HFS, N": ("Sparse-HFS, n ln² n / ε² edges", "^", "#009e73"),
    "Kelner-Levin": ("Sparse-HFS, Kelner-Levin as printed", "D", "#d55e00"),
}
"""Label, marker and color of each method."""

Row = dict[str, Any]
Draws = Sequence[tuple[list[int], list[int]]]
"""Label sets: nodes and their classes."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """True classes, and the label sets to learn from, by their name."""

    classes: IntArray
    draws: dict[str, Draws]


def exact(path: Path, n_nodes: int, truth: Truth) -> Row:
    edges = EdgesOfFile(path=path)
    graph, seconds = cpu_of(Graph.from_records, edges, n_nodes=n_nodes, dtype=np.float32)
    return {"n_edges": graph.n_edges, "prepare_seconds": seconds} | _solved(HARMONIC, graph, truth)


def streamed(path: Path, n_nodes: int, truth: Truth, epsilon: float) -> Row:
    """Stable-HFS on the sparsifier of one pass over the file."""
    result, seconds = cpu_of(sparsify, path, epsilon, n_nodes=n_nodes, node_ids="dense")
    row = {"n_edges": result.edges_kept, "epsilon_expected": result.epsilon_expected}
    return row | {"prepare_seconds": seconds} | _solved(HARMONIC, result.graph, truth)


def copies(path: Path, n_nodes: int, truth: Truth, epsilon: float) -> Row:
    """Stable-HFS on the sparsifier of Kelner-Levin, N = n ln^2(n) / epsilon^2 copies."""
    n_copies = round(n_nodes * np.log(n_nodes) ** 2 / epsilon**2)
    table, reading = cpu_of(pq.read_table, path)
    limits = {"max_edges": n_copies, "n_nodes": n_nodes, "node_ids": "dense"}
    result, seconds = cpu_of(sparsify, table, epsilon, method="kelner-levin", **limits)
    row = {"n_edges": result.edges_kept, "prepare_seconds": reading + seconds}
    return row | _solved(HARMONIC, result.graph, truth)


def by_features(model: Model, n_messages: int | None, truth: Truth) -> Row:
    features = messages(n_messages).features
    graph = Graph.from_edges([], [], [], n_nodes=features.shape[0])
    return {"prepare_seconds": 0.0} | _solved(model, graph, truth, features)


def _solved(model: Model, graph: Graph, truth: Truth, features: Any = None) -> Row:
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
            labels = Labels.from_pairs(nodes, classes)
            solution, taken = cpu_of(model.solve, prepared, labels)
            seconds.append(taken)
            statuses.add(solution.status.value)
            right[name].append(share_right(solution.scores.argmax(axis=1), truth.classes, nodes))
            lead = solution.scores[:, 1] - solution.scores[:, 0]
            predicted = lead > np.quantile(lead, 1.0 - np.mean(classes))
            shares[name].append(share_right(predicted, truth.classes, nodes))
    return {
        "right": right,
        "right_shares": shares,
        "solve_seconds": float(np.mean(seconds)),
        "status": sorted(statuses),
    }


def by_graph(
    edges: Callable[[], Path], n_nodes: int, truth: Truth, epsilon: float, *, has_copies: bool
) -> dict[str, Callable[[], Row]]:
    """What measures each method on the graph of a file, which is made when it is asked for."""
    finer = float(epsilon / np.sqrt(np.log(n_nodes)))  # keeps about n ln^2(n) / epsilon^2 edges
    tasks: dict[str, tuple[Any, ...]] = {
        "Stable-HFS": (exact,),
        "Sparse-HFS": (streamed, epsilon),
        "Sparse-HFS, N": (streamed, finer),
    }
    if has_copies:
        tasks["Kelner-Levin"] = (copies, epsilon)

    def measured(task: Callable[..., Row], *more: float) -> Row:
        return _apart(task, edges(), n_nodes, truth, *more)

    return {name: partial(measured, *task) for name, task in tasks.items()}


def _apart(task: Callable[..., Row], *arguments: Any) -> Row:
    """What a task gives in a new process, with the most memory that this process had."""
    return alone(_with_memory, task, arguments)


def _with_memory(task: Callable[..., Row], arguments: tuple[Any, ...]) -> Row:
    small = sparsify(np.triu_indices(200, 1), 0.9).graph  # loads what is compiled
    truth = Truth(classes=np.zeros(200, np.int64), draws={"": [([0, 1], [0, 1])]})
    _solved(HARMONIC, small, truth)
    return task(*arguments) | {"peak_bytes": peak_bytes()}


def kept_row(path: Path, name: str, measure: Callable[[], Row]) -> Row:
    """The row of this name in a JSON file, measured now unless it is there."""
    rows: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
    if name not in rows:
        rows[name] = measure()
        path.write_text(json.dumps(rows, indent=1))
    return rows[name]


def synthetic(options: argparse.Namespace, cache: Path) -> None:
    divisor = 10 if options.quick else 1
    n_nodes = 12_100 // divisor
    counts = [k // divisor for k in options.k or SYNTHETIC_K]
    points, cluster = rectangle_points(n_nodes)
    truth = Truth(
        classes=(cluster >= 2).astype(np.int64), draws={"4": _corner_draws(cluster, options.draws)}
    )
    rows: list[Row] = []
    for k in counts:
        measured = cache / f"synthetic-{n_nodes}-{k}-{options.draws}.json"
        if options.fresh:
            measured.unlink(missing_ok=True)
        path = cache / f"synthetic-{n_nodes}-{k}.parquet"

        def edges(path: Path = path, k: int = k) -> Path:
            if not path.exists():
                write_edges(path, nearest_points(points, cache), k)
            return path

        methods = by_graph(edges, n_nodes, truth, 0.8, has_copies=divisor * k in options.copies_k)
        rows.append({"k": k})
        for name, measure in methods.items():
            rows[-1][name] = kept_row(measured, name, measure)
        path.unlink(missing_ok=True)
        show_synthetic(rows[-1:])
    rows.sort(key=lambda row: row["k"])
    show_synthetic(rows)
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


def show_synthetic(rows: Sequence[Row]) -> None:
    title = "accuracy: mean (standard deviation) over draws; CPU seconds: graph + a solve"
    columns = "k {:,}|edges {:,}||accuracy {:.3f} ({:.3f})|kept {:,}|of edges {:.1%}|"
    table = Figures(title, columns + "CPU s {:.1f} + {:.1f}|peak MiB {:,}", left=0)
    for row in rows:
        n_edges = row["Stable-HFS"]["n_edges"]
        for name in (name for name in STYLES if name in row):
            found = row[name]
            seconds = found["prepare_seconds"], found["solve_seconds"]
            shares, kept = found["right"]["4"], found["n_edges"]
            table.add(
                *(row["k"], n_edges, name, (np.mean(shares), np.std(shares)), kept),
                *(kept / n_edges, seconds, found["peak_bytes"] >> 20),
            )
    CONSOLE.print(table)


def draw(rows: Sequence[Row], n_nodes: int, path: Path) -> None:
    """The paper's figure: accuracy against k, and the share of edges kept."""
    figure, (left, right) = _panels()
    for name, (label, marker, color) in STYLES.items():
        there = [row for row in rows if name in row]
        if not there:
            continue
        k = [row["k"] for row in there]
        accuracy = np.array([row[name]["right"]["4"] for row in there])
        shares = [row[name]["n_edges"] / row["Stable-HFS"]["n_edges"] for row in there]
        settings = {"marker": marker, "color": color, "markersize": 4, "label": label}
        settings["linestyle"] = "" if name == "Kelner-Levin" else "-"
        settings["markerfacecolor"] = "none" if name == "Stable-HFS" else color
        left.errorbar(k, accuracy.mean(axis=1), accuracy.std(axis=1), capsize=2, **settings)
        if name != "Stable-HFS":
            right.plot(k, shares, **settings)
    left.set(xlabel="neighbors k", ylabel="accuracy", ylim=(0.4, 1.03))
    left.set_title(f"{n_nodes:,} points, 4 labels", fontsize=9)
    left.legend(frameon=False, fontsize=8, loc="lower left")
    right.set(xlabel="neighbors k", ylabel="edges kept / edges", yscale="log")
    right.axhline(0.1, color="#bbbbbb", linewidth=0.8, linestyle=":")
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def _panels(**shared: Any) -> Any:
    """A figure and its two panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    panels = figure.subplots(1, 2, **shared)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def spam(options: argparse.Namespace, cache: Path) -> None:
    divisor, n_messages = (10, 3_770) if options.quick else (1, None)
    counts = [k // divisor for k in options.k or (1_000,)]
    mail = messages(n_messages)
    n_nodes = mail.classes.size
    n_words = mail.features.shape[1]
    CONSOLE.print(f"{n_nodes:,} messages, {n_words:,} words, {mail.n_empty} without any")
    draws = {str(count): _uniform_draws(mail.classes, count, options.draws) for count in options.l}
    truth = Truth(classes=mail.classes, draws=draws)
    n_few = options.sampled_draws
    few = replace(truth, draws={name: each[:n_few] for name, each in draws.items()})
    measured = cache / f"spam-{n_nodes}-{options.draws}-{'-'.join(map(str, options.l))}.json"
    if options.fresh:
        measured.unlink(missing_ok=True)
    sampling = SubSampling(n_sampled=15_000 // divisor, n_neighbors=SAMPLED_K, graph_penalty=1.0)
    models: dict[str, tuple[Model, Truth]] = {
        "1-NN": (NearestNeighbor(), truth),
        **{f"EigFun, q = {q}": (_eigfun(q), truth) for q in options.q},
        "Simple-HFS": (SimpleHFS(), truth),
        f"SubSampling, k = {SAMPLED_K}": (sampling, few),
    }
    most = max([3_000 // divisor, *counts])
    lists = partial(nearest, mail.features, most, cache, tell=CONSOLE.print)
    rows: dict[str, Row] = {}
    for k in counts if options.only != "features" else ():
        edges = partial(edge_file, *lists(), k, cache)
        n_edges = pq.ParquetFile(edges()).metadata.num_rows
        methods = by_graph(edges, n_nodes, truth, 0.9, has_copies=divisor * k in options.copies_k)
        for method, measure in methods.items():
            name = f"{method}, k = {k}"
            rows[name] = kept_row(measured, name, measure) | {"all_edges": n_edges}
            show_spam({name: rows[name]}, options.l)
    for name, (model, asked) in models.items() if options.only != "graphs" else ():
        task = partial(_apart, by_features, model, n_messages, asked)
        rows[name] = kept_row(measured, name, task)
        show_spam({name: rows[name]}, options.l)
    show_spam(rows, options.l)
    if options.figure and options.cases == ["spam"]:
        draw_spam(rows, options.l, options.figure)


def _eigfun(n_functions: int) -> EigFun:
    """Up to 50 of the default's dimensions, more of 100."""
    model = EigFun(n_functions=n_functions)
    return replace(model, n_dimensions=100) if n_functions > 50 else model


def _uniform_draws(classes: IntArray, n_labeled: int, n_draws: int) -> Draws:
    """Messages drawn at random, both classes among them."""
    rng = np.random.default_rng(n_labeled)
    draws: list[tuple[list[int], list[int]]] = []
    while len(draws) < n_draws:
        nodes = rng.choice(classes.size, n_labeled, replace=False)
        if np.unique(classes[nodes]).size == 2:
            draws.append((nodes.tolist(), classes[nodes].tolist()))
    return draws


def draw_spam(rows: dict[str, Row], counts: Sequence[int], path: Path) -> None:
    """The paper's other figure: error at the labels' class shares against q and against k."""
    figure, panels = _panels(sharey=True)
    lines = dict(zip(map(str, counts), ("-", "--", ":"), strict=False))
    curves = {name: ("k", *style) for name, (_, *style) in STYLES.items()}
    curves["EigFun"] = ("q", "o", "#cc79a7")
    for name, (size, marker, color) in curves.items():
        start = f"{name}, {size} = "
        sizes = sorted(int(key[len(start) :]) for key in rows if key.startswith(start))
        for count, line in lines.items() if sizes else ():
            errors = [1.0 - np.mean(rows[f"{start}{at}"]["right_shares"][count]) for at in sizes]
            settings = {"linestyle": line, "marker": marker, "markersize": 4, "color": color}
            settings["label"] = f"{name}, {count} labels"
            panels["qk".index(size)].plot(sizes, errors, **settings)
    for axes, text in zip(panels, ("eigenfunctions q", "neighbors k"), strict=True):
        axes.set(xscale="log", xlabel=text, ylim=(0.0, 0.4))
        if axes.lines:
            axes.legend(frameon=False, fontsize=7, ncols=2)
    panels[0].set(ylabel="error")
    figure.savefig(path, dpi=110)


def show_spam(rows: dict[str, Row], counts: Sequence[int]) -> None:
    title = (
        "accuracy: mean over draws by the greater score (sd) | at the labels' class shares; "
        "CPU seconds: graph + a solve"
    )
    shares = "".join(f"|l = {count:,} {{:.3f}} ({{:.3f}}) / {{:.3f}}" for count in counts)
    table = Figures(title, f"{shares}|edges|CPU s {{:.1f}} + {{:.1f}}|peak MiB {{:,}}")
    for name, row in rows.items():
        edges = f"{row['n_edges']:,}" if "n_edges" in row else "-"
        if row.get("all_edges", 0) > row.get("n_edges", 0):
            edges += f" ({row['n_edges'] / row['all_edges']:.1%})"
        right, by_shares = row["right"], row["right_shares"]
        each = [
            (np.mean(right[count]), np.std(right[count]), np.mean(by_shares[count]))
            for count in map(str, counts)
        ]
        seconds = row["prepare_seconds"], row["solve_seconds"]
        table.add(name, *each, edges, seconds, row["peak_bytes"] >> 20)
    CONSOLE.print(table)


def main() -> None:
    asked = options(
        __doc__,
        cases=("synthetic", "spam"),
        quick={"sizes": "a tenth"},
        k=([int], "neighbors; before --quick divides by 10"),
        copies_k=(list(COPIES_K), "k of Kelner-Levin, as --k"),
        q=([50, 500], "eigenfunctions"),
        l=([20, 100, 1_000], "labels of spam"),
        draws=(5, "label sets"),
        sampled_draws=(2, "of them for SubSampling"),
        only=(str, ("graphs", "features"), "some methods of spam"),
        cache=(Path, "where files are kept; temporary without"),
        figure=(Path, "PNG or SVG of the synthetic set, or of spam alone"),
        fresh=False,
    )
    with tempfile.TemporaryDirectory() as temporary:
        cache = asked.cache or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        for case in asked.cases:
            {"synthetic": synthetic, "spam": spam}[case](asked, cache)


if __name__ == "__main__":
    main()
