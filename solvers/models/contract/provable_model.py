"""Models whose labels can be proven to be those that all edges would give (P1 to P5)."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.laplacian.extreme_eigenvalues import End
from peewit.solvers.laplacian.unsparsified_system import (
    LEAST_PASSES,
    FullDegrees,
    FullSystem,
    Product,
    solve_full,
)
from peewit.solvers.models.contract.refinable_model import Degrees, FullGraph, Refinable
from peewit.solvers.proof.bounded_system import BoundedSystem
from peewit.solvers.proof.label_proof import LabelJudge
from peewit.solvers.proof.readings import Reader
from peewit.solvers.proof.spectral_ends import EndsByPasses, SpectralEnds
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

OnShare: TypeAlias = Callable[[float], None]
"""Hears what share of the labels is proven, at each look."""


def _ignored(_share: float) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProofTask:
    """All edges, and how far labels are to be proven."""

    passes: EndsByPasses  # products with the Laplacian of all edges
    degrees: FullDegrees
    wanted: BoolArray  # (n_nodes,) nodes that labels reach and that are asked about
    most_unproven: float  # share of them at which the passes end
    max_passes: int  # products
    seed: int  # of random vectors
    watch: Watch
    on_share: OnShare


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proven:
    """What passes over all edges came to."""

    solution: Solution
    is_proven: BoolArray  # (n_nodes,)
    n_products: int
    residual: float  # largest relative one, before the last half step
    ends: SpectralEnds  # of the matrices of the system
    failure: float  # chance that a variance was too small
    shares: tuple[float, ...]  # proven at each look
    status: Status  # converged if few enough are unproven; max-iter; or stagnated


@dataclass(frozen=True, slots=True, kw_only=True)
class Provable(Refinable):
    """A model whose labels can be proven."""

    least_passes: ClassVar[int] = LEAST_PASSES + 1  # that a proof takes, with that for degrees

    def why_unproven(self) -> str:
        """Setting that keeps labels from being proven; empty if none does."""
        return ""

    @abstractmethod
    def proven(self, prepared: Any, labels: Labels, solution: Solution, task: ProofTask) -> Proven:
        """The answer on all edges, as far as few labels stay unproven; raises `RunStopped`.

        ``prepared`` and ``solution`` are those of the sparsifier.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearModelOfEdges(Provable):
    """A model whose scores are read from the columns of one linear system."""

    @abstractmethod
    def full_system(self, prepared: Any, labels: Targets, solution: Solution) -> FullSystem:
        """The system of the full graph, with what was chosen for ``solution`` as chosen."""

    @abstractmethod
    def full_scores(
        self, prepared: Any, labels: Targets, solution: Solution, x: FloatArray, degrees: Degrees
    ) -> Solution:
        """``solution`` with scores read from solutions ``x`` of `full_system`."""

    @abstractmethod
    def full_reader(
        self, prepared: Any, labels: Labels, solution: Solution, degrees: FullDegrees
    ) -> Reader:
        """How labels are read from solutions of `full_system`."""

    def full_solution(
        self, prepared: Any, labels: Targets, solution: Solution, full: FullGraph
    ) -> Solution:
        """See `Refinable`."""
        x = full.solve(self.full_system(prepared, labels, solution))
        return self.full_scores(prepared, labels, solution, x, full.degrees)

    def proven(self, prepared: Any, labels: Labels, solution: Solution, task: ProofTask) -> Proven:
        """See `Provable`."""
        reader = self.full_reader(prepared, labels, solution, task.degrees)
        bounds = BoundedSystem(
            system=self.full_system(prepared, labels, solution),
            passes=task.passes,
            degrees=task.degrees,
            weights=reader.weights if reader.gauge else None,
            seed=task.seed,
            cancelled=task.watch.cancelled,
        )
        judge = LabelJudge(
            bounds=bounds,
            reader=reader,
            reachable=task.wanted,
            most_unproven=task.most_unproven,
            on_share=task.on_share,
        )
        answer = solve_full(
            bounds.system,
            task.passes,
            max_passes=task.max_passes,
            settled=judge.is_settled,
            progress=task.watch.progress,
            cancelled=task.watch.cancelled,
        )
        judged = judge.judged
        if answer.status is Status.CANCELLED or judged is None:
            raise RunStopped
        read = self.full_scores(prepared, labels, solution, judged.columns, lambda: task.degrees)
        return Proven(
            solution=read,
            is_proven=judged.is_proven & (read.classes() == judged.winner),
            n_products=answer.n_passes,
            residual=float(answer.residual.max(initial=0.0)),
            ends=judged.ends,
            failure=bounds.failure,
            shares=tuple(judge.shares),
            status=answer.status,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proof:
    """Labels that are those of all edges, with what was chosen on the sparsifier as chosen.

    Only nodes that are asked about count.

    Attributes
    ----------
    is_proven : (n_nodes,) bool
        False also where no label reaches.
    n_reached, n_proven : int
        Nodes that a label reaches, and those of them whose label is proven. Of the others at most
        ``n_reached - n_proven`` labels differ (P4).
    n_passes : int
        Over all edges: products, and one for degrees.
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
    shares: tuple[float, ...]  # proven at each look: before each pass but the first, and at the end
    status: Status  # why the passes ended: converged once few enough are unproven

    @property
    def share(self) -> float:
        """Proven share of the reached nodes; 1 if there are none."""
        return self.n_proven / self.n_reached if self.n_reached else 1.0


@one_blas_thread
def prove(
    model: Provable,
    prepared: Any,
    labels: Labels,
    solution: Solution,
    product: Product,
    degrees: Degrees,
    *,
    most_unproven: float,
    max_passes: int,
    known_ends: SpectralEnds | None = None,
    looks_on: bool = False,
    seed: int = 0,
    watch: Watch = UNWATCHED,
    on_share: OnShare = _ignored,
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
        Most passes, at least ``model.least_passes``. A limit that is met first is a result: the
        proof says what it holds for, and the solution has the status of the sparsifier's.
    known_ends : SpectralEnds or None
        Of the sparsifier's Laplacian and that of the full graph; None lets the passes find them.
    looks_on : bool
        Whether passes look for closer ends than the known ones.
    seed : int
        Of the vectors that bound variances, and of those that look for ends.
    on_share : callable
        Hears the proven share at each look.

    Raises
    ------
    RunStopped
        The run was cancelled.
    ValueError
        The full graph has other components, or a setting of the model lets nothing be proven.
    """
    if max_passes < model.least_passes:
        raise ValueError(f"max_passes must be at least {model.least_passes}, got {max_passes}")
    if model.why_unproven():
        raise ValueError(f"{model.why_unproven()} must be left out where labels are proven")
    full_degrees = degrees()
    watch.check()
    passes = EndsByPasses(
        product=product,
        known=known_ends,
        looks_on=looks_on,
        graph=prepared.graph,
        seed=seed,
        cancelled=watch.cancelled,
    )
    wanted = labels.asked_of(solution.reachable)
    proven = model.proven(
        prepared,
        labels,
        solution,
        ProofTask(
            passes=passes,
            degrees=full_degrees,
            wanted=wanted,
            most_unproven=most_unproven,
            max_passes=max_passes - 1,
            seed=seed,
            watch=watch,
            on_share=on_share,
        ),
    )
    proof = Proof(
        is_proven=proven.is_proven,
        n_reached=int(np.count_nonzero(wanted)),
        n_proven=int(np.count_nonzero(proven.is_proven & wanted)),
        n_passes=proven.n_products + 1,
        failure=proven.ends.failure + proven.failure,
        ends=proven.ends,
        found_ends=passes.found,
        residual=proven.residual,
        shares=proven.shares,
        status=proven.status,
    )
    return replace(proven.solution, decisive=None, bound=None), proof
