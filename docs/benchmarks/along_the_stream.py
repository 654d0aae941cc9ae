"""How good are predictions while the graph still arrives, and what does a warm re-solve save?

Run ``python -m docs.benchmarks.along_the_stream`` (digits) or ``--data mnist``, which reads
mnist_knn10 from the directory that PEEWIT_DATA names. Labels are given at the start; the edges
come in blocks, in random order or node after node, with a snapshot after each. On every snapshot
the model is solved as ``auto_solve`` does it, by one child that keeps its last solution, and again
by a new child that has none. ``--figure FILE.png`` draws accuracy and iterations (needs
matplotlib).
"""

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from peewit.service.demo.digits import N_NEIGHBORS, neighbor_edges
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.tasks.job_kind import Child
from peewit.service.tasks.solve import SolveKind, SolveTask
from peewit.service.tasks.tasks_and_messages import Done
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.data_sets import draw_per_class

Order = Literal["shuffled", "arrival"]

MEMORY_BYTES = 2**33


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Data:
    """A graph with classes, and the nodes whose class is given."""

    name: str
    u: Int64Array
    v: Int64Array
    weight: FloatArray
    classes: Int64Array
    labeled: Int64Array

    def ordered(self, order: Order, seed: int) -> "Data":
        """Edges in random order, or in the order of the later of their nodes, drawn at random."""
        rng = np.random.default_rng(seed)
        shuffled = rng.permutation(self.u.size)
        if order == "arrival":
            arrival = rng.permutation(self.classes.size)
            arrival[self.labeled] = -1  # labels are given at the start, and their nodes with them
            last = np.maximum(arrival[self.u], arrival[self.v])[shuffled]
            shuffled = shuffled[np.argsort(last, kind="stable")]
        return Data(
            name=self.name,
            u=self.u[shuffled],
            v=self.v[shuffled],
            weight=self.weight[shuffled],
            classes=self.classes,
            labeled=self.labeled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One snapshot."""

    edges_seen: int
    edges_kept: int
    n_nodes: int
    accuracy: float
    warm_iter: int
    cold_iter: int
    warm_seconds: float
    cold_seconds: float


def digits(per_class: int) -> Data:
    """scikit-learn's digits, 100 neighbors."""
    images, classes = load_digits(return_X_y=True)
    u, v, weight = neighbor_edges(images, N_NEIGHBORS)
    labeled = draw_per_class(classes, per_class, seed=0)
    return Data(name="digits", u=u, v=v, weight=weight, classes=classes, labeled=labeled)


def mnist(per_class: int) -> Data:
    """MNIST, 10 neighbors, with the first published draw of labels."""
    directory = Path(os.environ["PEEWIT_DATA"])
    edges = pq.read_table(directory / "mnist_knn10_edges.parquet")
    table = pq.read_table(directory / "mnist_knn10_labels.parquet")
    classes = np.empty(table.num_rows, np.int64)
    classes[table["node"].to_numpy()] = table["label"].to_numpy()
    with np.load(directory / "mnist_label_trials.npz") as trials:
        labeled = np.sort(trials[f"per_class_{per_class}"][0]).astype(np.int64)
    u, v, weight = (edges[name].to_numpy() for name in ("src", "dst", "weight"))
    return Data(name="mnist", u=u, v=v, weight=weight, classes=classes, labeled=labeled)


def follow(
    data: Data, root: Path, n_blocks: int, model: str, parameters: dict[str, Any]
) -> list[Point]:
    """Stream the edges of ``data`` as they stand, and solve after each block."""
    paths = GraphPaths(root=root / "graph")
    sparsifier = SparsifierSettings(epsilon=0.7, seed=0, expected_nodes=data.classes.size)
    stream = Stream(paths, StreamSettings(node_kind="int64", sparsifier=sparsifier))
    warm = WarmGraphs(memory_bytes=MEMORY_BYTES)
    points = []
    for block, rows in enumerate(np.array_split(np.arange(data.u.size), n_blocks)):
        path = root / f"{block:04d}.parquet"
        columns = {"src": data.u[rows], "dst": data.v[rows], "weight": data.weight[rows]}
        pq.write_table(pa.table(columns), path)
        stream.ingest(EdgeFiles(path).list())
        meta = SnapshotStore(paths.snapshots).list()[-1]
        task = _task(data, paths, meta.number, model, parameters)
        kept = _solved(warm, task)
        cold = _solved(WarmGraphs(memory_bytes=MEMORY_BYTES), task)
        points.append(
            Point(
                edges_seen=meta.edges_seen,
                edges_kept=meta.edges_kept,
                n_nodes=meta.n_nodes,
                accuracy=_accuracy(data, paths, kept),
                warm_iter=kept.result["stats"]["n_iter"],
                cold_iter=cold.result["stats"]["n_iter"],
                warm_seconds=sum(kept.result["seconds"].values()),
                cold_seconds=sum(cold.result["seconds"].values()),
            )
        )
    return points


def _task(
    data: Data, paths: GraphPaths, snapshot: int, model: str, parameters: dict[str, Any]
) -> SolveTask:
    return SolveTask(
        job_id="ab12",
        attempt=snapshot,
        graph_id="g",
        graph_directory=paths.root,
        snapshot=snapshot,
        labels_seq=data.labeled.size,
        features_version=0,
        model=model,
        parameters=parameters,
        nodes=pa.array(data.labeled.astype(str), pa.large_string()),
        labels=data.classes[data.labeled].tolist(),
        origins=pa.array(["given"] * data.labeled.size),
    )


def _solved(solver: WarmGraphs, task: SolveTask) -> Done:
    child = Child(graphs=solver, report=lambda _advanced: None, cancelled=lambda: False)
    answer = SolveKind().run(task, child)
    if not isinstance(answer, Done):
        raise TypeError(f"the solve must succeed, got {answer}")
    return answer


def _accuracy(data: Data, paths: GraphPaths, answer: Done) -> float:
    """Share of right labels among the nodes that have arrived and were not labeled."""
    table = PredictionFile(paths.predictions / answer.result["file"]).table()
    node, label = table["node"].to_numpy(), table["label"].to_numpy()
    asked = ~np.isin(node, data.labeled)
    return float((label[asked] == data.classes[node[asked]]).mean())


def table_of(name: str, points: list[Point]) -> Table:
    """One row per snapshot."""
    table = Table(title=name)
    columns = (
        "edges seen",
        "kept",
        "nodes",
        "accuracy",
        "warm its",
        "cold its",
        "warm s",
        "cold s",
    )
    for column in columns:
        table.add_column(column, justify="right")
    for point in points:
        table.add_row(
            f"{point.edges_seen:,}",
            f"{point.edges_kept:,}",
            f"{point.n_nodes:,}",
            f"{point.accuracy:.4f}",
            f"{point.warm_iter}",
            f"{point.cold_iter}",
            f"{point.warm_seconds:.2f}",
            f"{point.cold_seconds:.2f}",
        )
    return table


def draw(path: Path, runs: dict[str, list[Point]]) -> None:
    """Accuracy on the left, iterations on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, points in runs.items():
        share = [point.edges_seen / points[-1].edges_seen for point in points]
        (line,) = left.plot(share, [point.accuracy for point in points], marker=".", label=name)
        for label, style, values in (
            ("cold", ":", [point.cold_iter for point in points]),
            ("warm", "-", [point.warm_iter for point in points]),
        ):
            right.plot(share, values, style, color=line.get_color(), label=f"{name}, {label}")
    left.set(xlabel="share of the edges seen", ylabel="accuracy on the nodes that have arrived")
    right.set(xlabel="share of the edges seen", ylabel="PCG iterations", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print a table per order, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=("digits", "mnist"), default=["digits"])
    parser.add_argument("--orders", nargs="*", choices=get_args(Order), default=get_args(Order))
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--per-class", type=int, default=5, help="labels given at the start")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--penalty", type=float, help="graph_penalty of hfs and stable-hfs")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    parameters = {} if options.penalty is None else {"graph_penalty": options.penalty}
    console = Console(width=110)
    runs = {}
    for name in options.data:
        data = {"digits": digits, "mnist": mnist}[name](options.per_class)
        for order in options.orders:
            with tempfile.TemporaryDirectory(prefix="peewit-stream-") as root:
                ordered = data.ordered(order, seed=0)
                points = follow(ordered, Path(root), options.blocks, options.model, parameters)
            runs[f"{name}, {order}"] = points
            console.print(table_of(f"{name}, {order}", points))
    if options.figure is not None:
        draw(options.figure, runs)


if __name__ == "__main__":
    main()
