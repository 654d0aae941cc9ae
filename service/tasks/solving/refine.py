"""Refinement of a solve: passes over all edges from the answer on the snapshot to the exact one."""

from typing import cast

from peewit.service.tasks.solving.all_edges import all_edges
from peewit.service.tasks.solving.state import Solving, require_whole
from peewit.solvers.labels import Targets
from peewit.solvers.models.contract.refinable_model import Refinable, refine
from peewit.solvers.solution import Solution


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

    Raw edges that are missing, changed or have other components are a ValueError, with the files.
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
