"""Rounds of a proof of `auto`: columns of all edges, more exact until labels are proven (P5)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.laplacian.unsparsified_system import LEAST_PASSES, FullSolution, FullSystem
from peewit.solvers.models.auto.columns_of_all_edges import ColumnsOfAllEdges
from peewit.solvers.models.auto.point_arms import MOST_POINT_PASSES
from peewit.solvers.models.auto.preparation import AllEdges, PreparedAuto
from peewit.solvers.models.auto.proven_stack import Stacked, proven_labels
from peewit.solvers.models.contract.provable_model import ProofTask, Proven
from peewit.solvers.models.contract.refinable_model import FullGraph
from peewit.solvers.proof.bounded_system import VARIANCE_FAILURE, Bounded, BoundedSystem
from peewit.solvers.proof.readings import shares_of_components
from peewit.solvers.status import Status

_RTOLS: Final = (1e-3, 1e-2, 1e-2, 1e-2, 1e-2)
"""Parts of what is left that the rounds leave in turn."""

_N_SYSTEMS: Final = 3
"""Potentials, densities and harmonic functions: each may fail with its part of the chance."""


def prove_in_rounds(
    columns: ColumnsOfAllEdges,
    full: FullGraph,
    task: ProofTask,
    stack: Callable[[PreparedAuto], Stacked],
) -> tuple[Proven, AllEdges]:
    """The answer of ``stack`` on all edges, as far as few labels stay unproven; and what it read.

    Points, walks and harmonic functions are made in the first round. If passes are spent before,
    walks stay on the edges kept, and nothing is proven. Raises `RunStopped`.
    """
    graph = columns.prepared.graph
    by_degree = shares_of_components(task.degrees.weight, graph.component)
    of_potentials = _bounds(task, columns.potentials, by_degree)
    of_densities = _bounds(task, columns.densities)
    of_harmonic: BoundedSystem | None = None
    all_edges = AllEdges(passes=full, degrees=task.degrees)
    n_wanted = int(np.count_nonzero(task.wanted))
    systems, shares = (columns.potentials, columns.densities), []
    for rtol in _RTOLS:
        later = 0 if columns.points is not None else MOST_POINT_PASSES
        answers = (
            full.solved(replace(systems[0], rtol=rtol), later=LEAST_PASSES + later),
            full.solved(replace(systems[1], rtol=rtol), later=later),
        )
        if columns.points is None:
            columns = columns.with_points(full)
        potentials, densities = (
            bounds.exactly(answer.x, answer.remainder)
            for bounds, answer in zip((of_potentials, of_densities), answers, strict=True)
        )
        stacked = stack(columns.read(potentials.columns, densities.columns, all_edges))
        harmonic = None
        if all_edges.harmonic is not None:
            of_harmonic = of_harmonic or _bounds(task, all_edges.harmonic.system)
            made = all_edges.harmonic.solution
            harmonic = of_harmonic.exactly(made.x, made.remainder), of_harmonic.deviations()
        is_proven, classes = proven_labels(
            stacked,
            columns,
            (potentials, of_potentials.deviations()),
            (densities, of_densities.deviations()),
            harmonic,
        )
        is_proven &= task.wanted & (classes == stacked.solution.classes())
        if not all_edges.walks:  # an arm of the edges kept, so the answer is not that of all
            is_proven[:] = False
        n_open = n_wanted - int(np.count_nonzero(is_proven))
        shares.append(1.0 - n_open / max(n_wanted, 1))
        task.on_share(shares[-1])
        is_enough = n_open <= task.most_unproven * n_wanted
        is_spent = not all_edges.walks or full.left < 2 * LEAST_PASSES
        if is_enough or is_spent:
            break
        systems = (
            _further(systems[0], potentials, answers[0]),
            _further(systems[1], densities, answers[1]),
        )
    ended = Status.MAX_ITER if is_spent else Status.STAGNATED
    proven = Proven(
        solution=stacked.solution,
        is_proven=is_proven,
        n_products=full.n_passes,
        residual=max(float(each.residual.max(initial=0.0)) for each in answers),
        ends=of_potentials.ends,
        failure=VARIANCE_FAILURE,
        shares=tuple(shares),
        status=Status.CONVERGED if is_enough else ended,
    )
    return proven, all_edges


def _further(system: FullSystem, bounded: Bounded, answer: FullSolution) -> FullSystem:
    """The system of what is left, begun with the direction of the last half step."""
    return replace(system, known=bounded.columns, start=bounded.columns - answer.x)


def _bounds(
    task: ProofTask, system: FullSystem, weights: FloatArray | None = None
) -> BoundedSystem:
    return BoundedSystem(
        system=system,
        passes=task.passes,
        degrees=task.degrees,
        weights=weights,
        failure=VARIANCE_FAILURE / _N_SYSTEMS,
        seed=task.seed,
        cancelled=task.watch.cancelled,
    )
