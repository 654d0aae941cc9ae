"""Partitions of small Cheeger ratio that keep the labels (G12).

Decision: the energy sum_k TV(f^k) / B(f^k) is minimized over partitions, and only proximal steps
leave them. Context: as printed, class by class and over the simplex, the relaxed energy of more
than two classes is not that of a partition: two classes may share the indicator of one cheap
cluster, f^1 = f^2 = 1_A / 2, and pay its cut twice instead of a more expensive cut between them. So
it falls far below that of any partition near the true classes, and many more labels are wrong.
Consequence: every step ends in a partition, whose own energy decides whether it is kept; of two
classes both energies have the same minimum.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.status import Status
from peewit.solvers.variation.cheeger_ratio import partition_balances, ratio
from peewit.solvers.variation.penalty_inverses import Smoothing
from peewit.solvers.variation.proximal_step import TotalVariation

STEPS: Final = (200.0, 60.0, 20.0, 6.0, 2.0)
"""Lengths of steps along the subgradient of the balance, longest first: short steps stop at borders
that long ones pass."""

_RTOLS: Final = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
"""Gaps of the proximal steps, tighter for shorter steps."""

_LEAST_GAIN: Final = 1e-6
_MAX_PROXIMAL: Final = 300


@dataclass(slots=True, kw_only=True, eq=False)
class PartitionState:
    """A partition, its energy and the values for the next step.

    ``values`` are those before the last partition, ``place`` indexes the present step length, and
    ``proximal`` is the status of the last proximal step.
    """

    classes: Int64Array
    energy: float
    ratios: FloatArray
    balances: FloatArray
    slopes: FloatArray
    values: FloatArray
    place: int = 0
    n_steps: int = 0
    n_proximal: int = 0
    proximal: Status = Status.CONVERGED
    history: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionDescent:
    """Steps that lower a partition's Cheeger energy, for `peewit.solvers.iteration_loop.iterate`.

    ``smoothing`` is applied to the target of a step: the regularized fit of section G.4 or (G11).
    """

    variation: TotalVariation
    first: Int64Array  # (n_nodes,) start; nodes with a label have its class
    n_classes: int
    fixed: Int64Array  # (n_nodes,) class of the nodes with a label, -1 of the others
    weight: FloatArray  # (n_nodes,) weight of nodes in the balance; 0 takes a node out
    smoothing: Smoothing | None = None
    watch: Watch = UNWATCHED  # asked within proximal steps, too, whether to go on

    def init(self) -> PartitionState:
        """The first partition."""
        return self._state(self.first, np.eye(self.n_classes)[self.first])

    def step(self, state: PartitionState) -> PartitionState:
        """One proximal step from the partition, and the partition it leads to.

        That is kept if it lowers the energy; else the next step is shorter.
        """
        reach = STEPS[state.place] * float(state.balances.max())
        target = np.eye(self.n_classes)[state.classes]
        target += reach * state.ratios / state.balances * state.slopes
        if self.smoothing is not None:
            target = self.smoothing.nearest(target)
        step = self.variation.nearest(
            target,
            penalty=reach / state.balances,
            pull=np.ones(self.n_classes),
            on_simplex=True,
            fixed=self.fixed,
            rtol=_RTOLS[state.place],
            max_iter=_MAX_PROXIMAL,
            watch=self.watch,
        )
        classes = step.values.argmax(axis=1)
        after = self._state(classes, step.values)
        n_steps, n_proximal = state.n_steps + 1, state.n_proximal + step.n_iter
        if not after.energy < state.energy * (1.0 - _LEAST_GAIN):
            state.place += 1
            after = state
        else:
            after.place, after.history = state.place, [*state.history, *after.history]
        after.n_steps, after.n_proximal = n_steps, n_proximal
        after.proximal = step.status
        return after

    def terminate(self, state: PartitionState) -> Status | None:
        """Converged once the shortest step lowers nothing, or nothing is left to lower.

        The shortest step must have been as accurate as requested.
        """
        if state.energy == 0.0:
            return Status.CONVERGED
        return state.proximal if state.place == len(STEPS) else None

    def fraction(self, state: PartitionState) -> float:
        """Share of the step lengths that are finished."""
        return 1.0 if state.energy == 0.0 else state.place / len(STEPS)

    def _state(self, classes: Int64Array, values: FloatArray) -> PartitionState:
        asymmetry = self.n_classes - 1.0
        balances, slopes = partition_balances(classes, self.n_classes, self.weight, asymmetry)
        ratios = ratio(self.variation.of(np.eye(self.n_classes)[classes]), balances)
        energy = float(ratios.sum())
        return PartitionState(
            classes=classes,
            energy=energy,
            ratios=ratios,
            balances=balances,
            slopes=slopes,
            values=values,
            history=[energy],
        )
