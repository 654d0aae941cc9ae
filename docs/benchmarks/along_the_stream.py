"""How good are predictions while the graph still arrives, and what does a warm re-solve save?

Labels are given at the start; the edges come in blocks, in random order or node after node, with a
snapshot after each. On every snapshot the model is solved as ``auto_solve`` does it, by one child
that keeps its last solution, and again by a new child that has none. ``--figure FILE.png`` draws
accuracy and iterations (needs matplotlib).
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

from docs.benchmarks.frame import folder, options, share_right, show
from docs.benchmarks.streams import newest_meta, opened
from peewit.service.demo.digits import N_NEIGHBORS, neighbor_edges
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.solving.solve import SolveKind, SolveTask
from peewit.service.tasks.tasks_and_messages import Done
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from tests.data_sets import draw_per_class, labeled_graph

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
        rows = shuffled
        return replace(self, u=self.u[rows], v=self.v[rows], weight=self.weight[rows])


HEADINGS = "edges seen {:,}|kept {:,}|nodes {:,}|accuracy {:.4f}|warm its|cold its|warm s {:.2f}|"
HEADINGS += "cold s {:.2f}"


def digits(per_class: int) -> Data:
    """scikit-learn's digits, 100 neighbors."""
    images, classes = load_digits(return_X_y=True)
    u, v, weight = neighbor_edges(images, N_NEIGHBORS)
    labeled = draw_per_class(classes, per_class, seed=0)
    return Data(name="digits", u=u, v=v, weight=weight, classes=classes, labeled=labeled)


def mnist(per_class: int) -> Data:
    """MNIST, 10 neighbors, with the first published draw of labels."""
    _, classes = labeled_graph(folder(), "mnist_knn10")
    edges = pq.read_table(folder() / "mnist_knn10_edges.parquet")
    with np.load(folder() / "mnist_label_trials.npz") as trials:
        labeled = np.sort(trials[f"per_class_{per_class}"][0]).astype(np.int64)
    u, v, weight = (edges[name].to_numpy() for name in ("src", "dst", "weight"))
    return Data(name="mnist", u=u, v=v, weight=weight, classes=classes, labeled=labeled)


def follow(
    data: Data, root: Path, n_blocks: int, model: str, parameters: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Stream the edges of ``data`` as they stand, and solve after each block; rows of a table."""
    home = root / "graph"
    stream = opened(home, node_kind="int64", epsilon=0.7, seed=0, expected_nodes=data.classes.size)
    warm = WarmGraphs(memory_bytes=MEMORY_BYTES)
    points = []
    for block, rows in enumerate(np.array_split(np.arange(data.u.size), n_blocks)):
        path = root / f"{block:04d}.parquet"
        columns = {"src": data.u[rows], "dst": data.v[rows], "weight": data.weight[rows]}
        pq.write_table(pa.table(columns), path)
        stream.ingest(EdgeFiles(path).list())
        meta = newest_meta(home)
        task = _task(data, home, meta.number, model, parameters)
        both = _solved(warm, task), _solved(WarmGraphs(memory_bytes=MEMORY_BYTES), task)
        points.append(
            (
                *(meta.edges_seen, meta.edges_kept, meta.n_nodes),
                _accuracy(data, GraphPaths(root=home), both[0]),
                *(each.result["stats"]["n_iter"] for each in both),
                *(sum(each.result["seconds"].values()) for each in both),
            )
        )
    return points


def _task(
    data: Data, home: Path, snapshot: int, model: str, parameters: dict[str, Any]
) -> SolveTask:
    return SolveTask(
        job_id="ab12",
        attempt=snapshot,
        graph_id="g",
        graph_directory=home,
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
    context = TaskContext(graphs=solver, report=lambda _advanced: None, cancelled=lambda: False)
    answer = SolveKind().run(task, context)
    if not isinstance(answer, Done):
        raise TypeError(f"the solve must succeed, got {answer}")
    return answer


def _accuracy(data: Data, paths: GraphPaths, answer: Done) -> float:
    """Share of right labels among the nodes that have arrived and were not labeled."""
    table = PredictionFile(paths.predictions / answer.result["file"]).table()
    node, label = table["node"].to_numpy(), table["label"].to_numpy()
    return share_right(label, data.classes[node], np.isin(node, data.labeled))


def draw(path: Path, runs: dict[str, list[tuple[Any, ...]]]) -> None:
    """Accuracy on the left, iterations on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, points in runs.items():
        seen, _, _, accuracy, warm, cold, *_ = np.array(points).T
        share = seen / seen[-1]
        (line,) = left.plot(share, accuracy, marker=".", label=name)
        for label, style, values in (("cold", ":", cold), ("warm", "-", warm)):
            right.plot(share, values, style, color=line.get_color(), label=f"{name}, {label}")
    left.set(xlabel="share of the edges seen", ylabel="accuracy on the nodes that have arrived")
    right.set(xlabel="share of the edges seen", ylabel="PCG iterations", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    asked = options(
        __doc__,
        data=(["digits"], ("digits", "mnist")),
        orders=(list(get_args(Order)), get_args(Order)),
        blocks=20,
        per_class=(5, "labels given at the start"),
        model=DEFAULT_MODEL,
        penalty=(float, "graph_penalty of hfs and stable-hfs"),
        figure=Path,
    )
    parameters = {} if asked.penalty is None else {"graph_penalty": asked.penalty}
    runs = {}
    for name in asked.data:
        data = {"digits": digits, "mnist": mnist}[name](asked.per_class)
        for order in asked.orders:
            with tempfile.TemporaryDirectory(prefix="peewit-stream-") as root:
                ordered = data.ordered(order, seed=0)
                points = follow(ordered, Path(root), asked.blocks, asked.model, parameters)
            runs[f"{name}, {order}"] = points
            show(f"{name}, {order}", HEADINGS, points, left=0)
    if asked.figure is not None:
        draw(asked.figure, runs)


if __name__ == "__main__":
    main()
