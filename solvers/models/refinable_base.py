"""Models whose answer on a sparsifier can be carried on to that on the full graph."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.laplacian.unsparsified_system import FullSystem, Product, solve_full
from peewit.solvers.models.base import Model
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

Degrees: TypeAlias = Callable[[], FloatArray]
"""The degree of every node of the full graph, (n_nodes,); one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinable(Model):
    """A model whose scores come from one linear system in the Laplacian of its graph."""

    @abstractmethod
    def full_system(self, prepared: Any, labels: Targets, solution: Solution) -> FullSystem:
        """The system of the full graph, with ``solution`` on the sparsifier to begin with.

        What was chosen on the sparsifier, such as a penalty, stays as it was chosen.
        """

    @abstractmethod
    def full_solution(
        self,
        prepared: Any,
        labels: Targets,
        solution: Solution,
        x: FloatArray,
        degrees: Degrees,
    ) -> Solution:
        """``solution`` with the scores that ``x``, which solves `full_system`, stands for."""


def refine(
    model: Refinable,
    prepared: Any,
    labels: Targets,
    solution: Solution,
    product: Product,
    degrees: Degrees,
    *,
    max_passes: int,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Solution:
    """The model's answer on the full graph.

    Parameters
    ----------
    model : Refinable
        With the ``rtol`` that the residual on the full graph is to reach.
    prepared, labels, solution
        Of the sparsifier, as `Model.solve` took and gave them.
    product : callable
        With the full graph's Laplacian.
    degrees : callable
        Degrees of the full graph; called once, after the products, by models that need them.
    max_passes : int
        Most products, at least 2.
    progress, cancelled
        As in `peewit.solvers.iteration_loop.iterate`; a step is a pass.

    Returns
    -------
    Solution
        Its status is that of the passes or, when these converged, of ``solution``; its stats are
        those of ``solution`` with ``refined`` 1, the number of ``passes``, the true relative
        ``residual`` on the full graph, and ``n_changed``, the nodes that another class wins now;
        of numbers ``largest_change`` instead.

    Raises
    ------
    ValueError
        ``max_passes`` < 2, or the full graph has other components.
    """
    answer = solve_full(
        model.full_system(prepared, labels, solution),
        product,
        max_passes=max_passes,
        progress=progress,
        cancelled=cancelled,
    )
    found = model.full_solution(prepared, labels, solution, answer.x, degrees)
    return replace(
        found,
        status=solution.status if answer.status is Status.CONVERGED else answer.status,
        stats={
            **found.stats,
            "refined": 1,
            "passes": answer.n_passes,
            "residual": float(answer.residual.max(initial=0.0)),
            **_change(labels, solution, found.scores),
        },
    )


def _change(labels: Targets, before: Solution, scores: FloatArray) -> dict[str, float | int]:
    """How far the answer moved."""
    if not isinstance(labels, Labels):
        return {"largest_change": float(np.abs(scores - before.scores).max(initial=0.0))}
    has_changed = scores.argmax(axis=1) != before.scores.argmax(axis=1)
    return {"n_changed": int(np.count_nonzero(has_changed & before.reachable))}
