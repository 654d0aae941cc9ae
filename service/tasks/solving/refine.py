"""Refinement of a solve: passes over all edges from the answer on the snapshot to the exact one."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import cast

from peewit.service.tasks.certify import with_remedy
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.solving.state import Solving, require_whole
from peewit.service.tasks.warm_graphs import WarmGraph
from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Progress, ProgressReport
from peewit.solvers.labels import Targets
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.models.contract.refinable_model import Refinable, refine
from peewit.solvers.solution import Solution
from peewit.streaming.durable_files import remove_abandoned
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_passes import EdgePasses, RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import snapshot_edges, spool_directory


def refine_answer(solving: Solving) -> None:
    """Answer with the solution on the graph of all raw edges."""
    answer = solving.answer
    model, n_passes = cast(Refinable, answer.model), solving.options.max_passes
    solving.take(
        refine_on_all_edges(solving, model, answer.labels, answer.solution, max_passes=n_passes)
    )
    require_whole(solving.answer.solution)


def refine_on_all_edges(
    solving: Solving,
    model: Refinable,
    labels: Targets,
    solution: Solution,
    *,
    max_passes: int,
    looks: bool = True,
) -> Solution:
    """The model's answer on the graph of all raw edges of the snapshot, from one on the snapshot.

    With ``looks`` the last pass measures the residual. Progress is the pass and its fraction done;
    cancellation is asked for between chunks of a pass and in every step of a solve.

    Raises
    ------
    ValueError
        Raw edges are missing or changed, with the list of files, or have other components.
    PassStopped
        The job was cancelled.
    ClusterError
        The task's scheduler or its workers failed.
    OSError
        A file cannot be read or written.
    """
    watch = solving.watch
    with all_edges(solving.graph, solving.task, solving.stages, max_passes=max_passes) as passes:
        return refine(
            model,
            solving.first.prepared,
            labels,
            solution,
            passes,
            passes.degrees,
            max_passes=max_passes,
            looks=looks,
            progress=passes.report_solving,
            cancelled=watch.cancelled,
        )


@contextmanager
def all_edges(
    graph: WarmGraph, task: LabelsTask, stages: StageTimer, *, max_passes: int
) -> Iterator["Passes"]:
    """Passes over all raw edges of the snapshot; raises as `refine_on_all_edges`."""
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
        ) as edges,
    ):
        passes = Passes(edges, max_passes, stages.iteration, watch.is_cancelled)
        try:
            edges.open(on_fraction=passes.report_phase("reading"), cancelled=watch.is_cancelled)
            yield passes
        except RawEdgesGone as error:
            raise with_remedy(error, keep_raw=task.keep_raw) from error


@dataclass(slots=True, eq=False)
class Passes:
    """Products with the full graph, counted and reported."""

    edges: EdgePasses
    max_passes: int
    progress: Progress
    cancelled: Callable[[], bool]
    n_passes: int = 0

    def __call__(self, block: FloatArray) -> FloatArray:
        """One pass."""
        self.n_passes += 1
        return self.edges.laplacian_product(
            block,
            on_fraction=self.report_phase(f"pass {self.n_passes}"),
            cancelled=self.cancelled,
        )

    def degrees(self) -> FullDegrees:
        """Degrees, by one more pass."""
        self.n_passes += 1
        report = self.report_phase("degrees")
        return self.edges.degrees(on_fraction=report, cancelled=self.cancelled)

    def report_solving(self, _report: ProgressReport) -> None:
        """Report that what follows the pass is done in memory."""
        self.report_phase(f"pass {self.n_passes}: solving")

    def report_phase(self, phase: str) -> Callable[[float], None]:
        """Callback that reports the fraction of one phase."""

        def tell(fraction: float) -> None:
            self.progress(
                ProgressReport(
                    phase=phase,
                    n_iter=self.n_passes,
                    max_iter=self.max_passes,
                    fraction=fraction,
                )
            )

        tell(0.0)
        return tell


@contextmanager
def _working_directory(task: LabelsTask) -> Iterator[Path]:
    """Directory of this attempt, removed at its end; those of killed attempts go after a day."""
    root = task.graph_directory / "refine"
    directory = root / f"{task.job_id}-{task.attempt}"
    directory.mkdir(parents=True, exist_ok=True)
    remove_abandoned(root, keep=directory, now=time())
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
