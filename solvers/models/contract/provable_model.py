"""Labels proven to be those that all edges would give (P1 to P5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peewit.solvers.arrays import BoolArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.extreme_eigenvalues import End
from peewit.solvers.laplacian.unsparsified_system import (
    LEAST_PASSES,
    FullDegrees,
    Product,
    solve_full,
)
from peewit.solvers.models.contract.refinable_model import Degrees, LinearRefinable
from peewit.solvers.proof.label_proof import VARIANCE_FAILURE, LabelJudge
from peewit.solvers.proof.spectral_ends import EndsByPasses, SpectralEnds
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proof:
    """Labels that are those of all edges, with what was chosen on the sparsifier as chosen.

    Attributes
    ----------
    is_proven : (n_nodes,) bool
        False also where no label reaches.
    n_reached, n_proven : int
        Nodes that a label reaches, and those of them whose label is proven. Of the others at most
        ``n_reached - n_proven`` labels differ (P4).
    n_passes : int
        Over all edges: products, of which the last measured the residual, and one for degrees.
    failure : float
        Chance that any proven label is wrong: of the ends, and of the nodes' variances.
    """

    is_proven: BoolArray
    n_reached: int
    n_proven: int
    n_passes: int
    failure: float
    ends: SpectralEnds  # of the matrices of the system
    found_ends: tuple[End, End] | None  # of L_H^+ L_G, where the passes looked for them
    residual: float  # largest relative one, before the last half step

    @property
    def share(self) -> float:
        """Proven share of the reached nodes; 1 if there are none."""
        return self.n_proven / self.n_reached if self.n_reached else 1.0


@one_blas_thread
def prove(
    model: LinearRefinable,
    prepared: Any,
    labels: Labels,
    solution: Solution,
    product: Product,
    degrees: Degrees,
    *,
    most_unproven: float,
    max_passes: int,
    known_ends: SpectralEnds | None = None,
    seed: int = 0,
    watch: Watch = UNWATCHED,
) -> tuple[Solution, Proof]:
    """The model's answer on the full graph, as far as few labels stay unproven.

    Parameters
    ----------
    prepared, labels, solution
        Those of the sparsifier.
    product : callable
        With the full graph's Laplacian; one pass.
    degrees : callable
        Degrees of the full graph, by one pass; called once.
    most_unproven : float
        Share of the reached nodes at which the passes end, in [0, 1).
    max_passes : int
        Most passes, at least 3. A limit that is met first is a result: the proof says what it holds
        for, and the solution has the status of the sparsifier's.
    known_ends : SpectralEnds or None
        Of the sparsifier's Laplacian and that of the full graph; None lets the passes find them.
    seed : int
        Of the vectors that bound variances, and of those that look for ends.

    Raises
    ------
    RunStopped
        The run was cancelled.
    ValueError
        The full graph has other components, or a setting of the model lets nothing be proven.
    """
    if max_passes < LEAST_PASSES + 1:
        raise ValueError(f"max_passes must be at least {LEAST_PASSES + 1}, got {max_passes}")
    if model.why_unproven():
        raise ValueError(f"{model.why_unproven()} must be left out where labels are proven")
    full_degrees = degrees()
    watch.check()
    passes = EndsByPasses(
        product=product,
        known=known_ends,
        graph=prepared.graph,
        seed=seed,
        cancelled=watch.cancelled,
    )
    judge = LabelJudge(
        system=model.full_system(prepared, labels, solution),
        reader=model.full_reader(prepared, labels, solution, full_degrees),
        passes=passes,
        degrees=full_degrees,
        reachable=solution.reachable,
        most_unproven=most_unproven,
        seed=seed,
        cancelled=watch.cancelled,
    )
    answer = solve_full(
        judge.system,
        passes,
        max_passes=max_passes - 1,
        settled=judge.is_settled,
        progress=watch.progress,
        cancelled=watch.cancelled,
    )
    judged = judge.judged
    if answer.status is Status.CANCELLED or judged is None:
        raise RunStopped
    proven = model.full_scores(prepared, labels, solution, judged.columns, _known(full_degrees))
    is_proven = judged.is_proven & (proven.classes() == judged.winner)
    n_proven, n_passes = int(np.count_nonzero(is_proven)), answer.n_passes + 1
    proof = Proof(
        is_proven=is_proven,
        n_reached=int(np.count_nonzero(solution.reachable)),
        n_proven=n_proven,
        n_passes=n_passes,
        failure=judged.ends.failure + VARIANCE_FAILURE,
        ends=judged.ends,
        found_ends=passes.found,
        residual=float(answer.residual.max(initial=0.0)),
    )
    return replace(proven, decisive=None, bound=None), proof


def _known(degrees: FullDegrees) -> Callable[[], FullDegrees]:
    return lambda: degrees
