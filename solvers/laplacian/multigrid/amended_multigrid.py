"""Amended multigrid: a cycle that still serves after a few nodes got more shift.

Context: each new label shifts one node, and setting up a cycle takes as long as solving for the
label. Decision: the cycle B of the system before is amended by Woodbury's identity,

    (B^-1 + E D E^T)^-1 = B - W (D^-1 + E^T W)^-1 W^T,   W = B E,

where E picks the nodes and D > 0 is the growth of their shift. Consequence: a node costs one
application of B and one vector. The amended cycle is symmetric and positive definite if B is, and
as near to the inverse of the new matrix as B was to that of the old one, however large D.
"""

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.laplacian.multigrid.multigrid import Multigrid
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian

MAX_AMENDED = 8
"""Most nodes with a grown shift before a new cycle is set up."""

_NOTHING = np.zeros(0, np.int64), np.zeros(0)


class AmendedCycle:
    """A cycle with more shift at some nodes; build it with `of`.

    Parameters
    ----------
    cycle : Multigrid
        Of the system before.
    nodes : (r,) int64
        Nodes whose shift has grown, increasing.
    growth : (r,) float64, > 0
        Of their shift.
    columns : (n_nodes, r) float64
        The cycle applied to the unit vectors of ``nodes``.
    """

    name = Multigrid.name
    stagnation_window = Multigrid.stagnation_window

    def __init__(
        self, cycle: Multigrid, nodes: IntArray, growth: FloatArray, columns: FloatArray
    ) -> None:
        self.cycle = cycle
        self.hierarchy = cycle.hierarchy
        self._nodes, self._growth, self._columns = nodes, growth, columns
        inside = columns[nodes]
        inside = (inside + inside.T) / 2  # single precision left it slightly asymmetric
        self._core = np.linalg.inv(np.diag(1 / growth) + inside)

    @classmethod
    def of(
        cls, previous: "Multigrid | AmendedCycle", operator: ShiftedLaplacian
    ) -> "Multigrid | AmendedCycle | None":
        """The cycle of a system before, amended for ``operator``; None if it needs a new one.

        It needs a new one if anything but the shift differs, if a node has less shift than the
        cycle was set up for, or if more than `MAX_AMENDED` nodes have more.
        """
        if isinstance(previous, Multigrid):
            previous = cls(previous, *_NOTHING, np.empty((operator.n_nodes, 0)))
        cycle = previous.cycle
        if not _differ_in_shift_only(cycle.operator, operator):
            return None
        grown = operator.shift - cycle.operator.shift
        nodes = np.flatnonzero(grown)
        if nodes.size == 0:
            return cycle
        if nodes.size > MAX_AMENDED or (grown[nodes] < 0).any():
            return None
        columns = np.empty((operator.n_nodes, nodes.size))
        for place, node in enumerate(nodes.tolist()):
            columns[:, place] = previous._column(node)
        return cls(cycle, nodes, grown[nodes], columns)

    def _column(self, node: int) -> FloatArray:
        """The cycle applied to a unit vector, (n_nodes,)."""
        known = np.flatnonzero(self._nodes == node)
        if known.size:
            return self._columns[:, known[0]]
        unit = np.zeros((self.cycle.operator.n_nodes, 1))
        unit[node] = 1.0
        self.cycle.operator.project(unit)
        column = np.empty_like(unit)
        self.cycle.apply(unit, column)
        return column[:, 0]

    def apply(self, residual: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the amended cycle's answer."""
        self.cycle.apply(residual, out)
        amendment = self._core @ out[self._nodes]
        columns = self._columns

        def amend(start: int, stop: int) -> None:
            out[start:stop] -= columns[start:stop] @ amendment

        self.cycle.operator.ranges.run(amend)
        out[self._nodes] = amendment / self._growth[:, None]  # the same, exact for a large growth

    def rest(self) -> None:
        """Release the vectors of the cycle until it is applied again."""
        self.cycle.rest()


def _differ_in_shift_only(one: ShiftedLaplacian, other: ShiftedLaplacian) -> bool:
    """Whether two operators of the same graph differ at most in their shift."""
    return (
        one.scale == other.scale
        and one.dtype == other.dtype
        and one.projects_products == other.projects_products
        and np.array_equal(one.projected, other.projected)
    )
