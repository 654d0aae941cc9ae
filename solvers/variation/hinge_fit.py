"""Fits of hinges at the labels under a quadratic penalty, by their dual (G4), (G11)."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.gram.feature_spaces import symmetric
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.status import Status, first_failure
from peewit.solvers.svm.dual import box_program
from peewit.solvers.variation.penalty_inverses import PenaltyInverse

_CHUNK_COLUMNS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HingeFit:
    """argmin_f penalty(f) + pull / 2 |f - values|^2 + hinges of f + b, b free; see `of`."""

    inverse: PenaltyInverse  # includes the pull
    nodes: Int64Array  # (n_labeled,)
    targets: FloatArray  # (n_labeled, n_columns) 1 or -1
    label_weight: float  # mu
    margin: float  # the hinge is label_weight max(0, 1 - y f / margin)
    kernel: FloatArray  # (n_labeled, n_labeled) the inverse between the labels, G of (G11)

    @classmethod
    def of(
        cls,
        inverse: PenaltyInverse,
        nodes: Int64Array,
        targets: FloatArray,
        n_nodes: int,
        *,
        label_weight: float,
        margin: float = 1.0,
        on_step: OnStep = ignore_step,
    ) -> "HingeFit":
        """The fit, prepared with one solve for each label, some at a time."""
        kernel = np.empty((nodes.size, nodes.size))
        for start in range(0, nodes.size, _CHUNK_COLUMNS):
            on_step(start, nodes.size)
            some = nodes[start : start + _CHUNK_COLUMNS]
            unit = np.zeros((n_nodes, some.size))
            unit[some, np.arange(some.size)] = 1.0
            kernel[:, start : start + some.size] = inverse.apply(unit)[nodes]
        on_step(nodes.size, nodes.size)
        return cls(
            inverse=inverse,
            nodes=nodes,
            targets=targets,
            label_weight=label_weight,
            margin=margin,
            kernel=symmetric(kernel),
        )

    def residual(self, values: FloatArray) -> tuple[FloatArray, FloatArray, Status]:
        """The inverse's residual at the fit, the intercepts (n_columns,), the program's status."""
        residual = self.inverse.pull * values
        dual, intercepts, status = self._dual(self.inverse.apply(residual)[self.nodes])
        residual[self.nodes] += dual
        return residual, intercepts, status

    def _dual(self, smooth: FloatArray) -> tuple[FloatArray, FloatArray, Status]:
        """Y b of (G11) for every column, with b <= label_weight / margin."""
        most = self.label_weight / self.margin
        # constants cost nothing, and may be nearly all of it
        constant = self.kernel.mean(axis=0)  # b takes back the mean that centering removed from f
        kernel = self.kernel - constant - constant[:, None] + self.kernel.mean()
        dual, intercepts = np.zeros_like(smooth), np.zeros(smooth.shape[1])
        status = Status.CONVERGED
        for column in range(smooth.shape[1]):
            target = self.targets[:, column]
            shares, multiplier, ended = box_program(
                most * kernel * np.outer(target, target),
                gain=self.margin - target * smooth[:, column],
                balance=target,
            )
            dual[:, column] = most * target * shares
            intercepts[column] = multiplier - constant @ dual[:, column]
            status = first_failure(status, ended)
        return dual, intercepts, status
