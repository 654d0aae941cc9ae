"""All edges of a snapshot for the passes of a job: held, read, and kept for its next attempt."""

import hashlib
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from typing import Final

import numpy as np

from peewit.service.predictions.prediction_files import write_array
from peewit.service.tasks.certify import with_remedy
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.warm_graphs import WarmGraph
from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Progress, ProgressReport
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.streaming.durable_files import remove_abandoned
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_passes import EdgePasses, RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import hold_edges, snapshot_edges, spool_directory

WORTH_KEEPING_SECONDS: Final = 2.0
"""Least length of a pass whose product is kept for another attempt."""

_PLENTY: Final = 20
"""Free bytes of the disk that keeping a product asks for, relative to its own."""


@contextmanager
def all_edges(
    graph: WarmGraph, task: LabelsTask, stages: StageTimer, *, max_passes: int
) -> Iterator["Passes"]:
    """Passes over all raw edges of the snapshot; raises as `refine.refine_on_all_edges`."""
    paths, watch = GraphPaths(root=task.graph_directory), stages.watch
    with (
        _working_directory(task) as directory,
        snapshot_edges(
            paths,
            graph.snapshot.meta,
            spool=spool_directory(paths, directory / "spool", keep_raw=task.keep_raw),
            staging=directory / "staging",
            n_threads=task.n_threads,
            scheduler=task.scheduler,
            weights=graph.weights,
            held=graph.held,
        ) as edges,
    ):
        kept = KeptProducts(_root(task) / f"{task.job_id}-passes")
        in_use = directory, kept.directory, _held_directory(task)
        passes = Passes(edges, kept, in_use, max_passes, stages.iteration, watch.is_cancelled)
        try:
            edges.open(on_fraction=passes.report_phase("reading"), cancelled=watch.is_cancelled)
            yield passes
        except RawEdgesGone as error:
            raise with_remedy(error, keep_raw=task.keep_raw) from error
        finally:
            stages.count_passes(passes.n_passes)


@dataclass(slots=True, eq=False)
class Passes:
    """Products with the full graph, counted and reported."""

    edges: EdgePasses
    kept: "KeptProducts"
    in_use: tuple[Path, ...]
    max_passes: int
    progress: Progress
    cancelled: Callable[[], bool]
    n_passes: int = 0
    proven: str = ""  # share of the labels that is proven, in words

    def __call__(self, block: FloatArray) -> FloatArray:
        """One pass, or what a killed attempt of the job left of the same."""
        self.n_passes += 1
        for directory in self.in_use:  # so that nobody takes them for abandoned
            with suppress(FileNotFoundError):
                os.utime(directory)
        report, began = self.report_phase(f"pass {self.n_passes}{self.proven}"), monotonic()
        product = self.kept.get(block)
        if product is None:
            product = self.edges.laplacian_product(
                block, on_fraction=report, cancelled=self.cancelled
            )
            if monotonic() - began >= WORTH_KEEPING_SECONDS:
                self.kept.put(block, product)
        return product

    def degrees(self) -> FullDegrees:
        """Degrees, by one more pass."""
        self.n_passes += 1
        report = self.report_phase("degrees")
        return self.edges.degrees(on_fraction=report, cancelled=self.cancelled)

    def report_solving(self, _report: ProgressReport) -> None:
        """Report that what follows the pass is done in memory."""
        self.report_phase(f"pass {self.n_passes}: solving{self.proven}")

    def report_proven(self, share: float) -> None:
        """Say with what follows what share of the labels is proven."""
        self.proven = f", {math.floor(1_000 * share) / 10:.1f}% proven"

    def report_phase(self, phase: str) -> Callable[[float], None]:
        """Callback that reports the fraction of one phase."""

        def tell(fraction: float) -> None:
            self.progress(
                ProgressReport(
                    phase=phase, n_iter=self.n_passes, max_iter=self.max_passes, fraction=fraction
                )
            )

        tell(0.0)
        return tell


@dataclass(frozen=True, slots=True)
class KeptProducts:
    """Products of long passes, by what was multiplied, for the next attempt of a killed job.

    All between two passes is computed again, with the same bits.
    """

    directory: Path

    def get(self, block: FloatArray) -> FloatArray | None:
        """The product with a block; None where none is kept."""
        with suppress(FileNotFoundError):
            product: FloatArray = np.load(self._path(block), allow_pickle=False)
            return product
        return None

    def put(self, block: FloatArray, product: FloatArray) -> None:
        """Keep a product, if the disk has plenty of room."""
        with suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(self.directory).free < _PLENTY * product.nbytes:
                return
            write_array(self._path(block), product)

    def _path(self, block: FloatArray) -> Path:
        digest = hashlib.blake2b(repr(block.shape).encode(), digest_size=24)
        digest.update(np.ascontiguousarray(block).data)
        return self.directory / f"{digest.hexdigest()}.npy"


def hold_all_edges(task: LabelsTask, graph: WarmGraph) -> None:
    """Hold what passes of the job read, if it may make any, until `release_all_edges`.

    Where that fails passes read what the graph has then, and tell what is missing.
    """
    graph.held, meta = None, graph.snapshot.meta
    if meta.is_whole or task.is_automatic:
        return
    paths = GraphPaths(root=task.graph_directory)
    with suppress(ValueError, OSError):
        graph.held = hold_edges(paths, meta, _held_directory(task))


def release_all_edges(task: LabelsTask, *, has_ended: bool) -> None:
    """Let go of what was held and, once the job has ended, of what its passes left."""
    shutil.rmtree(_held_directory(task), ignore_errors=True)
    if has_ended:
        shutil.rmtree(_root(task) / f"{task.job_id}-passes", ignore_errors=True)


def forget_passes(graph_directory: Path, is_over: Callable[[str], bool]) -> None:
    """Remove what attempts of jobs that are over left, as killed and cancelled ones do."""
    for directory in graph_directory.glob("refine/*"):
        if is_over(directory.name.partition("-")[0]):
            shutil.rmtree(directory, ignore_errors=True)


def _root(task: LabelsTask) -> Path:
    return task.graph_directory / "refine"


def _held_directory(task: LabelsTask) -> Path:
    return _root(task) / f"{task.job_id}-{task.attempt}-held"


@contextmanager
def _working_directory(task: LabelsTask) -> Iterator[Path]:
    """Directory of this attempt, removed at its end; those of killed attempts go after a day."""
    root = _root(task)
    directory = root / f"{task.job_id}-{task.attempt}"
    directory.mkdir(parents=True, exist_ok=True)
    remove_abandoned(root, keep=directory, now=time())
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
