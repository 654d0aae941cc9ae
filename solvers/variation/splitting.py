"""Alternating directions for label loss + total variation + norm (G5), (G7)."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.status import Status
from peewit.solvers.variation.fidelity import Fidelity
from peewit.solvers.variation.penalty_inverses import Smoothing
from peewit.solvers.variation.proximal_step import TotalVariation

Normalization = Literal["none", "sqrt", "as-printed"]
NORMALIZATIONS: tuple[Normalization, ...] = ("none", "sqrt", "as-printed")

_MAX_PROXIMAL: Final = 300
_PATIENCE: Final = 5
"""Steps in a row that move hardly a node before the rescaled iteration ends."""
_FREE_STEPS: Final = 50
_FADING: Final = 0.9
"""Factor by which steps of the duals shrink after those: rescaled iterations may cycle, above all
on graphs of a few nodes, and end once their duals do."""
_TINY: Final = 1e-12


@dataclass(slots=True, kw_only=True, eq=False)
class SplitState:
    """State of the splitting.

    ``values`` is g, ``norm_dual`` and ``label_dual`` are l1 and l2. ``n_still`` counts the last
    steps that moved hardly a node, ``residual`` is the largest difference of g from f and h, and
    ``is_accurate`` says whether the last proximal step converged.
    """

    values: FloatArray
    norm_dual: FloatArray
    label_dual: FloatArray
    intercepts: FloatArray
    classes: Int64Array
    n_steps: int = 0
    n_still: int = 0
    n_moved: int = 0
    n_proximal: int = 0
    residual: float = np.inf
    is_accurate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VariationSplitting:
    """ADMM for min loss(h) + norm(f) + penalty TV(g) with f = g = h, for `iterate`.

    ``contested`` (n_nodes,) marks nodes that count in means and norms, and are rescaled; where all
    labels are of one class there is nothing to balance, and no border. ``normalization`` rescales g
    after each step: not, to root mean square 1 ('sqrt', columns of distributions to sqrt(n / c)),
    or to norm n before the mean is subtracted ('as-printed'). ``rtol`` is the share of the nodes
    that may still move, without normalization the largest residual.

    Notes
    -----
    Rescaled functions are not in the kernel's space, and landmarks span few functions: if f is
    still to equal g, its dual drags the borders far from the thinnest places. So l1 stays 0 unless
    the problem is the convex one, and only the pull ties f to g. Distributions are kept on the
    simplex inside the proximal step, which is the joint one; the text projects afterwards, which is
    not a proximal step of the sum.
    """

    variation: TotalVariation
    fidelity: Fidelity  # the loss at the labels
    smoothing: Smoothing | None  # norm in a kernel's space; None leaves f out
    first: FloatArray  # (n_nodes, n_columns) start of g; one column for two classes
    contested: BoolArray
    penalty: float  # gamma
    pull: float  # r1 = r2
    normalization: Normalization
    rtol: float
    proximal_rtol: float  # gap of the proximal steps
    watch: Watch = UNWATCHED  # asked within proximal steps, too, whether to go on

    @property
    def of_distributions(self) -> bool:
        """Whether there is a column for each class."""
        return int(self.first.shape[1]) > 1

    def init(self) -> SplitState:
        """The first values, normalized, with duals of 0."""
        values = self._normalize(self.first)
        return SplitState(
            values=values,
            norm_dual=np.zeros_like(values),
            label_dual=np.zeros_like(values),
            intercepts=np.zeros(values.shape[1]),
            classes=self._classes(values, np.zeros(values.shape[1])),
        )

    def step(self, state: SplitState) -> SplitState:
        """f, h, then g, and the duals (G5)."""
        pull, values = self.pull, state.values
        labeled, state.intercepts = self.fidelity.nearest(values - state.label_dual / pull, pull)
        target, n_blocks, smooth = labeled + state.label_dual / pull, 1, None
        if self.smoothing is not None:
            smooth = self._base + self.smoothing.nearest(self._target(state))
            target, n_blocks = 0.5 * (target + smooth + state.norm_dual / pull), 2
        n_columns = values.shape[1]
        step = self.variation.nearest(
            target,
            penalty=np.full(n_columns, self.penalty),
            pull=np.full(n_columns, n_blocks * pull),
            on_simplex=self.of_distributions,
            rtol=self.proximal_rtol,
            max_iter=_MAX_PROXIMAL,
            watch=self.watch,
        )
        state.values = self._normalize(step.values)
        state.n_steps += 1
        reach = pull * self._dual_step(state.n_steps)
        state.label_dual += reach * (labeled - state.values)
        missed = [labeled - state.values]
        if smooth is not None:
            if self.normalization == "none":
                state.norm_dual += pull * (smooth - state.values)
            missed.append(smooth - state.values)
        state.residual = max(float(np.abs(part).max(initial=0.0)) for part in missed)
        state.residual = max(state.residual, float(np.abs(state.values - values).max(initial=0.0)))
        classes = self._classes(state.values, state.intercepts)
        state.n_moved = int(np.count_nonzero((classes != state.classes)[self.contested]))
        is_still = state.n_moved <= self.rtol * np.count_nonzero(self.contested)
        state.n_still = state.n_still + 1 if is_still else 0
        state.classes = classes
        state.n_proximal += step.n_iter
        state.is_accurate = step.status is Status.CONVERGED
        return state

    def functions(self, state: SplitState) -> Expansion | None:
        """The copy f of a state plus its intercepts, for any x; None without a norm."""
        if self.smoothing is None:
            return None
        return self.smoothing.nearest_functions(self._target(state), self._base + state.intercepts)

    @property
    def _base(self) -> float:
        return 1.0 / self.first.shape[1] if self.of_distributions else 0.0

    def _target(self, state: SplitState) -> FloatArray:
        """What f is to be near to."""
        return state.values - state.norm_dual / self.pull - self._base

    def terminate(self, state: SplitState) -> Status | None:
        """Converged when residuals are small or, rescaled, when hardly a node moves any more."""
        if self.normalization == "none":
            is_over = state.residual <= self.rtol
        else:
            is_over = state.n_still >= _PATIENCE
        return Status.CONVERGED if is_over and state.is_accurate else None

    def fraction(self, state: SplitState) -> float:
        """Progress toward the stop rule."""
        if self.normalization != "none":
            return state.n_still / _PATIENCE
        if state.residual <= self.rtol:
            return 1.0
        return float(np.clip(np.log(state.residual) / np.log(self.rtol), 0.0, 1.0))

    def _dual_step(self, n_steps: int) -> float:
        """1, or less and less once a rescaled iteration has run for long."""
        n_late = max(0, n_steps - _FREE_STEPS)
        return 1.0 if self.normalization == "none" else _FADING**n_late

    def _classes(self, values: FloatArray, intercepts: FloatArray) -> Int64Array:
        if self.of_distributions:
            return np.asarray(values.argmax(axis=1))
        return np.asarray(values[:, 0] + intercepts[0] > 0, np.int64)

    def _normalize(self, values: FloatArray) -> FloatArray:
        """The contested rows rescaled, the others as they are."""
        if self.normalization == "none" or not self.contested.any():
            return values
        own = values[self.contested]
        n_rows, n_columns = own.shape
        is_printed = self.normalization == "as-printed"
        if not (self.of_distributions or is_printed):
            own = own - own.mean(axis=0)
        size = float(n_rows) if is_printed else np.sqrt(n_rows / n_columns)
        norms = np.linalg.norm(own, axis=0)
        own = own * np.where(norms > _TINY, size / np.maximum(norms, _TINY), 1.0)
        if is_printed and not self.of_distributions:
            own = own - own.mean(axis=0)
        scaled = values.copy()
        scaled[self.contested] = own
        return scaled
