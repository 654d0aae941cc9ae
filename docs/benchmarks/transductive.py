"""Do linear transductive machines show here what Sindhwani and Keerthi (SIGIR 2006) show?

``python -m docs.benchmarks.transductive`` with the names of some cases:

- ``tables``: SVM, TSVM by multiple switching and pair by pair (S = 1), and DA at given penalties,
  the share of the classes known: error on the unlabeled rows and on rows never seen (a quarter,
  held back in a second run), objective, trainings, passes over the rows, seconds. G50C (the ten
  published splits, rows as given), PCMAC and TREC 2007 spam from the folder that ``PEEWIT_DATA``
  names, and made-up documents. ``--pairwise`` also switches pair by pair where that takes minutes.
- ``defaults``: everything chosen from the labels alone; nothing is told but the labels.
- ``errors``: what single parameters cost: the share of the classes wrong by so much, the unlabeled
  weight, the norm penalty.
- ``speed``: the made-up documents on one core and on all, beside scikit-learn's LinearSVC on the
  same rows with all their labels as the clock.
- ``citations``: words and edges together: Cora and Citeseer with their public splits, with and
  without the graph term, beside models of the graph alone.
- ``million``: a million made-up documents: in memory, and read from Parquet in every pass; each in
  a process of its own, whose peak memory is that of the case.

Objectives of SVM and DA are J, of TSVM (F4) with its labels. Seconds are wall seconds.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from docs.benchmarks import frame
from docs.benchmarks.documents import Corpus
from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.linear.linear_machine import LinearMachine
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import DASVM, TSVM, TransductiveMachine
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.streaming.features.feature_files import ParquetFeatures
from tests.data_sets import labeled_graph

GIB = 1 << 30
N_THREADS = os.cpu_count() or 1
UNSEEN = 0.25


class Task(NamedTuple):
    """Rows, the class of each, 0 or 1, and draws of labeled rows."""

    name: str
    rows: Any
    classes: Int64Array
    draws: Sequence[Int64Array]
    penalties: tuple[float, ...]
    row_length: str = "unit"

    def without(self, draw: Int64Array, seed: int) -> tuple[Int64Array, Int64Array]:
        """Rows to learn from, increasing, and rows that are held back."""
        others = np.setdiff1d(np.arange(self.classes.size), draw)
        held = np.random.default_rng(seed).choice(others, int(UNSEEN * others.size), replace=False)
        return np.setdiff1d(np.arange(self.classes.size), held), np.sort(held)


def drawn(classes: Int64Array, n_labels: int, seed: int) -> Int64Array:
    """Labels in proportion to the classes."""
    rng = np.random.default_rng(seed)
    counts = np.round(n_labels * np.bincount(classes) / classes.size).astype(int)
    own = [
        rng.choice(np.flatnonzero(classes == value), counts[value], replace=False)
        for value in (0, 1)
    ]
    return np.sort(np.concatenate(own))


def g50c(_n_draws: int) -> Task:
    """Two Gaussians in 50 dimensions."""
    with np.load(frame.folder() / "g50c.npz") as stored:
        points, classes = stored["X"].astype(np.float64), (stored["y"] > 0).astype(np.int64)
        draws = [np.sort(each) for each in stored["idx_labeled"]]
    return Task("g50c", points, classes, draws, (10.0, 1.0, 0.1), "given")


def pcmac(n_draws: int) -> Task:
    """Two newsgroups."""
    with np.load(frame.folder() / "pcmac_tfidf_labels.npz") as stored:
        classes = stored["y"].astype(np.int64)
    rows = sp.csr_array(sp.load_npz(frame.folder() / "pcmac_tfidf.npz"))
    draws = [drawn(classes, 50, seed) for seed in range(n_draws)]
    return Task("pcmac", rows, classes, draws, (1e-1, 1e-2, 1e-3))


def trec(n_draws: int) -> Task:
    """Spam and ham: logarithms of word counts, each by how rare the word is."""
    with np.load(frame.folder() / "trec07p_part1_labels.npz") as stored:
        classes = stored["y"].astype(np.int64)
    rows = sp.csr_array(sp.load_npz(frame.folder() / "trec07p_part1_counts.npz")).astype(np.float32)
    frequency = np.maximum(np.bincount(rows.indices, minlength=rows.shape[1]), 1)
    rarity = np.log(rows.shape[0] / frequency).astype(np.float32)
    rows.data = (1.0 + np.log(rows.data)) * rarity[rows.indices]
    draws = [drawn(classes, 50, seed) for seed in range(min(n_draws, 5))]
    return Task("trec07p", rows, classes, draws, (1e-2, 1e-3))


def documents(n_draws: int, n_rows: int = 40_000) -> Task:
    rows, classes = Corpus().documents(n_rows)
    draws = [drawn(classes, 200, seed) for seed in range(min(n_draws, 3))]
    return Task(f"documents, {n_rows:,}", rows, classes, draws, (1e-2, 1e-3))


TASKS = {
    "g50c": g50c,
    "pcmac": pcmac,
    "trec": trec,
    "few-documents": partial(documents, n_rows=8_000),
    "documents": documents,
}
MACHINES: dict[str, LinearMachine] = {
    "SVM": LinearSVM(),
    "TSVM": TSVM(),
    "TSVM S=1": TSVM(max_pairs=1),
    "DA": DASVM(),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    error: float
    objective: float
    seconds: float
    stats: dict[str, Any]
    solution: Solution


def solved(
    machine: LinearMachine,
    rows: Any,
    classes: Int64Array,
    draw: Int64Array,
    *,
    parallel: Parallel = map,
    kept_bytes: int = 8 * GIB,
) -> Run:
    graph = Graph.from_edges([], [], [], n_nodes=classes.size)
    labels = Labels.from_pairs(draw, classes[draw].tolist())
    with frame.spent() as taken:
        prepared = machine.prepare(graph, rows, parallel=parallel, kept_bytes=kept_bytes)
        solution = machine.solve(prepared, labels)
    if solution.status is not Status.CONVERGED:
        frame.CONSOLE.print(f"[red]{type(machine).__name__}: {solution.status.value}[/red]")
    unlabeled = np.ones(classes.size, bool)
    unlabeled[draw] = False
    return Run(
        error=100 * (1 - frame.share_right(solution.scores.argmax(axis=1), classes, draw)),
        objective=objective(machine, solution, labels, unlabeled),
        seconds=taken.wall,
        stats=dict(solution.stats),
        solution=solution,
    )


def objective(machine: LinearMachine, solution: Solution, labels: Labels, unlabeled: Any) -> float:
    """What TSVM and DA minimise; of the SVM, J at unlabeled weight 1."""
    value = float(solution.stats["objective"])
    if isinstance(machine, TransductiveMachine):
        return value
    outputs = solution.scores[unlabeled, 1]
    return value + 0.5 * float(np.mean(np.square(np.maximum(0.0, 1.0 - np.abs(outputs)))))


def told_shares(machine: LinearMachine, classes: Int64Array, off: float = 0.0) -> LinearMachine:
    """The machine that knows the share of the second class, or a share off by so much."""
    if not isinstance(machine, TransductiveMachine):
        return machine
    share = float(np.clip(classes.mean() + off, 0.01, 0.99))
    return replace(machine, class_balance={0: 1.0 - share, 1: share})


def unseen_error(machine: LinearMachine, task: Task, draw: Int64Array, seed: int) -> float:
    kept, held = task.without(draw, seed)
    run = solved(machine, task.rows[kept], task.classes[kept], np.searchsorted(kept, draw))
    if run.solution.functions is None:
        return float("nan")
    found = run.solution.functions.class_scores(task.rows[held]).argmax(axis=1)
    return 100 * float((found != task.classes[held]).mean())


def tables(asked: argparse.Namespace) -> None:
    """Errors, objectives and times at given penalties."""
    for name in asked.sets:
        task = TASKS[name](asked.draws)
        table = []
        for penalty in task.penalties:
            for label, machine in MACHINES.items():
                if label == "TSVM S=1" and name in {"documents", "trec"} and not asked.pairwise:
                    continue
                own = replace(machine, norm_penalty=penalty, row_length=task.row_length)
                own = told_shares(own, task.classes)
                runs = [solved(own, task.rows, task.classes, draw) for draw in task.draws]
                unseen = "-"
                if label != "TSVM S=1":
                    others = [unseen_error(own, task, draw, k) for k, draw in enumerate(task.draws)]
                    unseen = f"{np.mean(others):.1f}"
                table.append(
                    (
                        *(f"{penalty:g}", label, np.mean([run.error for run in runs])),
                        *(np.std([run.error for run in runs], ddof=1), unseen),
                        np.mean([run.objective for run in runs]),
                        *(
                            np.mean([run.stats[key] for run in runs])
                            for key in ("n_trainings", "n_switches", "n_passes")
                        ),
                        np.mean([run.seconds for run in runs]),
                    )
                )
        columns = "lambda|machine|unlabeled % {:.2f}|(sd) {:.1f}|unseen %|J {:.5f}|"
        columns += "trainings {:.0f}|switches {:.0f}|passes {:.0f}|s {:.3f}"
        frame.show(f"{task.name}, {len(task.draws)} draws", columns, table, left=2)


def defaults(asked: argparse.Namespace) -> None:
    """What somebody gets who has nothing but labels."""
    for name in asked.sets:
        task = TASKS[name](asked.draws)
        table = []
        for label in ("SVM", "TSVM", "DA"):
            runs = [solved(MACHINES[label], task.rows, task.classes, each) for each in task.draws]
            unseen = [
                unseen_error(MACHINES[label], task, draw, k) for k, draw in enumerate(task.draws)
            ]
            chosen, counts = np.unique(
                [run.stats["norm_penalty"] for run in runs], return_counts=True
            )
            each = ", ".join(f"{c:g} x{k}" for c, k in zip(chosen, counts, strict=True))
            error = frame.mean_and_error([run.error / 100 for run in runs])
            seconds = np.mean([run.seconds for run in runs])
            table.append((label, *error, np.mean(unseen), each, seconds))
        columns = "machine|unlabeled % {:.2f}|(se) {:.2f}|unseen % {:.2f}|norm penalties|s {:.2f}"
        frame.show(f"{task.name}, {len(task.draws)} draws, labels alone", columns, table)


def errors(asked: argparse.Namespace) -> None:
    """One parameter off, the others as they should be."""
    offs = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)
    weights = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    for name in asked.sets:
        task = TASKS[name](asked.draws)
        penalty = {"g50c": 10.0}.get(name, 1e-2)
        for label in ("TSVM", "DA"):
            own = replace(MACHINES[label], norm_penalty=penalty, row_length=task.row_length)
            known = told_shares(own, task.classes)
            lines = {
                "share off by": [(off, told_shares(own, task.classes, off)) for off in offs],
                "unlabeled weight": [(w, replace(known, unlabeled_weight=w)) for w in weights],
            }
            for what, machines in lines.items():
                found = [f"{value:g}: {mean_error(m, task):.1f}" for value, m in machines]
                frame.CONSOLE.print(f"{task.name} {label}, {what}  " + "  ".join(found))


def mean_error(machine: LinearMachine, task: Task) -> float:
    runs = [solved(machine, task.rows, task.classes, draw) for draw in task.draws]
    return float(np.mean([run.error for run in runs]))


def speed(asked: argparse.Namespace) -> None:
    """Seconds as multiples of LinearSVC's on the same rows with all labels."""
    for name in asked.sets:
        task = TASKS[name](1)
        draw = task.draws[0]
        clock = min(frame.wall_of(LinearSVC().fit, task.rows, task.classes)[1] for _ in range(3))
        table = []
        with ThreadPoolExecutor(N_THREADS) as pool:
            for label in ("TSVM", "DA"):
                for penalty in task.penalties:
                    own = replace(MACHINES[label], norm_penalty=penalty, row_length=task.row_length)
                    own = told_shares(own, task.classes)
                    ways: list[tuple[str, Parallel]] = [("1", map), (str(N_THREADS), pool.map)]
                    for cores, parallel in ways:
                        runs = [
                            solved(own, task.rows, task.classes, draw, parallel=parallel)
                            for _ in range(3)
                        ]
                        best = min(runs, key=lambda run: run.seconds)
                        n_passes = best.stats["n_passes"]
                        table.append(
                            (
                                *(label, f"{penalty:g}", cores, best.seconds),
                                *(best.seconds / clock, n_passes, 1e3 * best.seconds / n_passes),
                            )
                        )
        columns = "machine|lambda|cores|s {:.2f}|of LinearSVC {:.2f}|passes|ms a pass {:.1f}"
        frame.show(f"{task.name}: LinearSVC on all labels {clock:.3f} s", columns, table)


@dataclass(frozen=True, kw_only=True)
class Citations:
    """A citation graph, its words, and its public split."""

    graph: Graph
    rows: Any
    classes: Int64Array
    labels: Labels
    test: Int64Array

    @classmethod
    def named(cls, name: str) -> "Citations":
        graph, classes = labeled_graph(frame.folder(), name)
        parts = np.array(
            pq.read_table(frame.folder() / f"{name}_labels.parquet")["split"].to_pylist()
        )
        train = np.flatnonzero(parts == "train")
        return cls(
            graph=graph,
            rows=sp.csr_array(sp.load_npz(frame.folder() / f"{name}_features.npz")),
            classes=classes,
            labels=Labels.from_pairs(train, classes[train].tolist()),
            test=np.flatnonzero(parts == "test"),
        )

    def accuracy(self, model: Model, *, on_words: bool = True) -> str:
        prepared = model.prepare(self.graph, self.rows if on_words else None)
        found = model.solve(prepared, self.labels).scores[self.test].argmax(axis=1)
        return f"{100 * np.mean(found == self.classes[self.test]):.1f}"


def citations(_asked: argparse.Namespace) -> None:
    """Accuracy on the test nodes of the public split, by weight of the graph term."""
    weights = (0.0, 1.0, 10.0, 100.0)
    for name in ("cora", "citeseer"):
        case = Citations.named(name)
        table = frame.Figures("", "|".join((name, *(f"{weight:g}" for weight in weights))))
        for label in ("SVM", "TSVM", "DA"):
            machines = [replace(MACHINES[label], graph_penalty=weight) for weight in weights]
            table.add(label, *(case.accuracy(machine) for machine in machines))
        table.add("lapsvm", "", case.accuracy(LapSVM()))
        table.add("hfs, no words", "", case.accuracy(HFS(), on_words=False))
        frame.CONSOLE.print(table)


@contextmanager
def stored(n_rows: int) -> Iterator[tuple[Path, Int64Array]]:
    """Made-up documents in Parquet, written block by block, and their classes."""
    classes = []
    with tempfile.TemporaryDirectory() as directory:
        path, writer = Path(directory) / "documents.parquet", None
        first = 0
        for rows, own in Corpus().blocks(n_rows):
            starts = pa.array(rows.indptr)
            table = pa.table(
                {
                    "node": np.arange(first, first + own.size),
                    "indices": pa.ListArray.from_arrays(starts, pa.array(rows.indices)),
                    "values": pa.ListArray.from_arrays(starts, pa.array(rows.data)),
                }
            )
            writer = writer or pq.ParquetWriter(path, table.schema, compression="lz4")
            writer.write_table(table)
            first += own.size
            classes.append(own)
        if writer is not None:
            writer.close()
        yield path, np.concatenate(classes)


def million(asked: argparse.Namespace) -> None:
    """Rows in memory, and rows that are read anew in every pass."""
    with stored(asked.rows) as (path, classes):
        frame.CONSOLE.print(f"{asked.rows:,} documents, {path.stat().st_size / GIB:.2f} GiB")
        for label in asked.machines:
            for kept_bytes in (8 * GIB, 0):
                frame.alone(_one_of_million, path, classes, label, kept_bytes)


def _one_of_million(path: Path, classes: Int64Array, label: str, kept_bytes: int) -> None:
    own = told_shares(replace(MACHINES[label], norm_penalty=1e-3), classes)
    rows = ParquetFeatures.open(path, n_columns=Corpus().n_words, n_threads=N_THREADS)
    draw = drawn(classes, 200, 0)
    with ThreadPoolExecutor(N_THREADS) as pool:
        run = solved(own, rows, classes, draw, parallel=pool.map, kept_bytes=kept_bytes)
    n_passes = run.stats["n_passes"]
    peak = peak_bytes() / GIB
    frame.CONSOLE.print(
        f"  {label}, rows {run.stats['rows']}: {run.seconds:.1f} s, {n_passes} passes of "
        f"{1e3 * run.seconds / n_passes:.0f} ms, error {run.error:.1f} %, peak {peak:.2f} GiB"
    )


def main() -> None:
    kinds = tables, defaults, errors, speed, citations, million
    cases = {kind.__name__: kind for kind in kinds}
    asked = frame.options(
        __doc__,
        cases=cases,
        quick={"sets": ["few-documents"], "draws": 2, "rows": 20_000},
        sets=(["documents"], TASKS),
        draws=(10, "of labels, where none are published"),
        pairwise=(False, "S = 1 on the large sets, too"),
        rows=(1_000_000, "of 'million'"),
        machines=(["SVM", "TSVM", "DA"], MACHINES),
    )
    for name in asked.cases:
        cases[name](asked)


if __name__ == "__main__":
    main()
