"""Models whose answer on a sparsifier can be refined to that on the full graph."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.iteration_loop import UNWATCHED, Cancelled, Progress, RunStopped, Watch
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.laplacian.unsparsified_system import (
    LEAST_PASSES,
    FullDegrees,
    FullSolution,
    FullSystem,
    Product,
    solve_full,
)
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure

Degrees: TypeAlias = Callable[[], FullDegrees]
"""Degrees of the full graph; one pass over its edges."""


class PassesSpent(Exception):
    """No more passes may be made."""


@dataclass(slots=True, kw_only=True, eq=False)
class FullGraph:
    """The full graph, reachable only by passes over its edges, and how those passes went."""

    product: Product  # with its Laplacian
    degrees: Degrees  # of its nodes; a pass that `n_passes` does not count
    max_passes: int  # products in all, but for `LEAST_PASSES` of every system and those of points
    looks: bool = True  # whether the last pass measures the residual
    watch: Watch = UNWATCHED  # a step is a pass
    status: Status = Status.CONVERGED  # of the first system that failed
    n_passes: int = field(default=0, init=False)  # products so far
    residual: float = field(default=0.0, init=False)  # largest true relative one so far

    @property
    def left(self) -> int:
        """Products within the limit."""
        return self.max_passes - self.n_passes

    def times(self, block: FloatArray) -> FloatArray:
        """The Laplacian times a block, (n_nodes, k): one pass, whatever their limit."""
        self.n_passes += 1
        return self.product(block)

    def times_within(self, block: FloatArray) -> FloatArray:
        """The same; raises `PassesSpent` beyond the limit."""
        if self.n_passes >= self.max_passes:
            raise PassesSpent
        return self.times(block)

    def solve(self, system: FullSystem) -> FloatArray:
        """(n_nodes, k) solutions; raises `RunStopped` and what `solve_full` raises."""
        return self.solved(system).x

    def solved(self, system: FullSystem, *, later: int = 0) -> FullSolution:
        """The same, with what passes left of the right-hand sides; leaves ``later`` for others."""
        answer = solve_full(
            system,
            self.product,
            max_passes=max(self.left - later, LEAST_PASSES),
            looks=self.looks,
            progress=self.watch.progress,
            cancelled=self.watch.cancelled,
        )
        if answer.status is Status.CANCELLED:
            raise RunStopped
        self.status = first_failure(self.status, answer.status)
        self.n_passes += answer.n_passes
        self.residual = max(self.residual, float(answer.residual.max(initial=0.0)))
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinable(Model):
    """A model whose scores come from linear systems in the Laplacian of its graph."""

    def full_columns(self, n_nodes: int, n_classes: int) -> int:
        """Most right-hand sides that are solved for together on the full graph."""
        del n_nodes
        return n_classes

    @abstractmethod
    def full_solution(
        self, prepared: Any, labels: Targets, solution: Solution, full: FullGraph
    ) -> Solution:
        """``solution`` with the scores of the full graph; raises `RunStopped`.

        What was chosen on the sparsifier, such as a penalty, stays as chosen.
        """


@one_blas_thread
def refine(
    model: Refinable,
    prepared: Any,
    labels: Targets,
    solution: Solution,
    product: Product,
    degrees: Degrees,
    *,
    max_passes: int,
    looks: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Solution:
    """The model's answer on the full graph.

    ``prepared``, ``labels`` and ``solution`` are those of the sparsifier; the model's ``rtol`` is
    the residual to reach on the full graph, and ``max_passes``, at least 2, limits the products
    with its Laplacian. ``degrees`` is called at most once. ``looks`` is whether the last pass
    measures the residual. A step of progress is a pass.

    The status is that of the passes or, if they converged, of ``solution``. Stats gain ``refined``
    1, the number of ``passes``, the true relative ``residual`` on the full graph, and
    ``n_changed``, the nodes whose class changed; for numbers ``largest_change`` instead. Raises
    ValueError if ``max_passes`` < 2 or if the full graph has other components.
    """
    if max_passes < LEAST_PASSES:
        raise ValueError(f"max_passes must be at least {LEAST_PASSES}, got {max_passes}")
    full = FullGraph(
        product=product,
        degrees=degrees,
        max_passes=max_passes,
        looks=looks,
        watch=Watch(progress=progress, cancelled=cancelled),
    )
    try:
        refined = model.full_solution(prepared, labels, solution, full)
    except RunStopped:
        return replace(solution, status=Status.CANCELLED)
    return replace(
        refined,
        status=solution.status if full.status is Status.CONVERGED else full.status,
        stats={
            **refined.stats,
            "refined": 1,
            "passes": full.n_passes,
            "residual": full.residual,
            **change_of(labels, solution, refined),
        },
    )


def change_of(labels: Targets, before: Solution, after: Solution) -> dict[str, float | int]:
    """Stats that tell how far an answer moved."""
    if not isinstance(labels, Labels):
        return {"largest_change": float(np.abs(after.scores - before.scores).max(initial=0.0))}
    has_changed = after.classes() != before.classes()
    return {"n_changed": int(np.count_nonzero(has_changed & before.reachable))}
