"""Aggregation multigrid: one symmetric cycle over a hierarchy of contracted graphs.

Context: Jacobi needs hundreds of steps where clusters are large, and a factor of a neighbor graph
in four dimensions is many times the graph. Decision: nodes are paired along their heaviest edges,
twice a level, until the graph is small enough for a dense inverse; a cycle with one Jacobi sweep
before and after each coarse solve is the preconditioner. Contraction keeps the values of L on
vectors that are constant on aggregates, and overrates the energy of smooth ones: corrections are
enlarged by `OVERCORRECTION` (Braess 1995), less where that would only spread the spectrum.
Consequence: no elimination, only products, for any number of columns and threads, mostly in
float32.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.adjacency import label_components, row_sums
from peewit.solvers.kernels.multigrid import (
    dense_rows,
    largest_entry,
    prolong_rows,
    resize_rows,
    restrict_rows,
)
from peewit.solvers.laplacian.multigrid.elimination import Elimination
from peewit.solvers.laplacian.multigrid.hierarchy import MAX_DENSE_NODES, Hierarchy, Rows
from peewit.solvers.laplacian.multigrid.residual_sweep import Sweep
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.late_modules import LateModule
from peewit.solvers.row_ranges import Parallel, RowRanges

sp = LateModule("scipy.sparse")

OVERCORRECTION = 1.5
"""Factor that enlarges a coarse correction, if the coarse cycle allows it."""

_DAMPING = 0.85
_LARGEST_GAIN = 1.8
_POWER_STEPS = 6
_MARGIN = 1.1  # the power method stops short of the largest
_LAST_SWEEPS = 8
_HELD = 1e4
"""Ratio of shift to degree above which a node is solved by the sweep and left out of coarse levels,
where it would hold all nodes of its aggregate.
"""
_NARROW_LEAST, _NARROW_MOST = 1e-25, 1e25
_MOST_BESIDE_SHIFT = 1e4
_FAR_APART = 1e8
"""Ratio of weights from which the coarsest matrix is inverted by elimination."""


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """Vectors of one level, (n_nodes, k): right-hand side, iterate, and the output of a sweep."""

    rhs: RealArray
    block: RealArray
    other: RealArray


class Multigrid:
    """One symmetric cycle over a hierarchy, for one scale and shift.

    ``operator`` is one of ``hierarchy.graph``; the hierarchy serves any of them.
    """

    name = "multigrid"
    stagnation_window = 60

    def __init__(self, operator: ShiftedLaplacian, hierarchy: Hierarchy) -> None:
        self.operator = operator
        self.hierarchy = hierarchy
        self._levels = hierarchy.levels
        scale, parallel = operator.scale, operator.ranges.parallel
        self._held = np.flatnonzero(operator.shift > _HELD * (operator.diagonal - operator.shift))
        shifts = [operator.shift.astype(np.float64)]
        beside = above = _beside_held(operator, self._held)
        for level in hierarchy.levels:
            above = _sum_children(above, level.first_child)
            shifts.append(above)
        self._dtype = _cycle_dtype(operator, self._held, shifts, beside)
        single = operator.in_single() if self._dtype == np.float32 else None
        weight = operator.weight if single is None else single.weight
        self._sweeps = [_damped_sweep(operator, weight, shifts[0], self._dtype, parallel)]
        for level, shift in zip(hierarchy.levels, shifts[1:], strict=True):
            weight = level.weight if scale == 1.0 else level.weight * scale
            self._sweeps.append(_damped_sweep(level, weight, shift, self._dtype, parallel))
        last = self._sweeps[-1]
        self._inverse = (
            _pseudo_inverse(last).astype(self._dtype) if last.n_nodes <= MAX_DENSE_NODES else None
        )
        self._memory: list[RealArray] = []
        is_free = not operator.shift.any()
        self._gains = hierarchy.gains if is_free and hierarchy.gains else self._compute_gains()
        if is_free:
            hierarchy.gains[:] = self._gains

    def _compute_gains(self) -> list[float]:
        """Factor by which the correction of each level is enlarged."""
        self._gains = [OVERCORRECTION] * len(self._levels)
        for depth in range(len(self._levels) - 1, 0, -1):  # the last level is solved exactly
            largest = self._largest_eigenvalue(depth)
            # a gain of 2 over an eigenvalue would turn that error around instead of reducing it
            self._gains[depth - 1] = min(OVERCORRECTION, _LARGEST_GAIN / largest)
        return self._gains

    def apply(self, residual: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the cycle's answer, projected if the operator projects products."""
        rooms, ranges = self._rooms(residual.shape[1]), self._sweeps[0].ranges
        rhs = rooms[0].rhs
        largest = max(ranges.run(lambda a, b: largest_entry(residual[a:b]), residual.size))
        size = largest if largest > 0 else 1.0  # so that no residual leaves the range of float32
        work = 2 * residual.size
        ranges.run(lambda a, b: resize_rows(residual[a:b], 1.0, size, rhs[a:b]), work)
        answer = self._cycle(0, rooms)
        ranges.run(lambda a, b: resize_rows(answer[a:b], size, 1.0, out[a:b]), work)
        if self.operator.projects_products:
            self.operator.project(out)

    def rest(self) -> None:
        """Release the vectors of the cycle until it is applied again."""
        self._memory = []

    def _rooms(self, n_columns: int) -> list[_Room]:
        """Vectors for a cycle, in the same memory from cycle to cycle."""
        needed = 3 * n_columns
        if not self._memory or len(self._memory[0]) < needed * self._sweeps[0].n_nodes:
            self._memory = [np.empty(needed * sweep.n_nodes, self._dtype) for sweep in self._sweeps]
        rooms = []
        for sweep, memory in zip(self._sweeps, self._memory, strict=True):
            room = memory[: needed * sweep.n_nodes].reshape(3, sweep.n_nodes, n_columns)
            rooms.append(_Room(*room))
        return rooms

    def _cycle(self, depth: int, rooms: list[_Room]) -> RealArray:
        """Answer of the cycle from ``depth`` on to the right-hand side there."""
        sweep, room = self._sweeps[depth], rooms[depth]
        if depth == len(self._levels):
            return self._solved_last(sweep, room)
        first_child, below = self._levels[depth].first_child, self._sweeps[depth + 1].ranges
        sweep.start(room.rhs, room.block)  # one sweep before the coarse solve, from zero
        sweep.residual(room.block, room.rhs, room.other)
        coarse, held = rooms[depth + 1].rhs, self._held if depth == 0 else self._held[:0]
        # the sweep has solved held nodes; the coarse graph does not have them
        room.other[held], values = 0.0, room.block[held]
        work = 2 * room.other.size
        below.run(lambda a, b: restrict_rows(room.other, first_child, coarse, a, b), work)
        correction = self._cycle(depth + 1, rooms)
        gain = self._dtype.type(self._gains[depth])
        below.run(lambda a, b: prolong_rows(correction, first_child, gain, room.block, a, b), work)
        room.block[held] = values
        sweep.relaxed(room.block, room.rhs, room.other)  # and one after: the cycle is symmetric
        return room.other

    def _solved_last(self, sweep: Sweep, room: _Room) -> RealArray:
        """Solve by the dense inverse, or by a few sweeps on a graph that would not shrink."""
        if self._inverse is not None:
            sweep.ranges.run(lambda a, b: dense_rows(self._inverse, room.rhs, room.block, a, b))
            return room.block
        sweep.start(room.rhs, room.block)
        block, other = room.block, room.other
        for _ in range(_LAST_SWEEPS - 1):
            sweep.relaxed(block, room.rhs, other)
            block, other = other, block
        return block

    def _largest_eigenvalue(self, depth: int) -> float:
        """Of the cycle from ``depth`` on times its matrix, by the power method, rounded up."""
        sweep, rooms = self._sweeps[depth], self._rooms(1)
        nodes = np.arange(sweep.n_nodes, dtype=np.float64)
        block = np.cos(nodes * nodes)[:, None].astype(self._dtype)  # no seed, no pattern
        zero = np.zeros_like(block)
        largest = 1.0
        for _ in range(_POWER_STEPS):
            sweep.residual(-block, zero, rooms[depth].rhs)
            image = self._cycle(depth, rooms)
            size = float(np.linalg.norm(block))
            grown = float(np.linalg.norm(image))
            if not (size > 0 and grown > 0):
                break
            largest = max(1.0, grown / size)
            block = image / self._dtype.type(grown)
        return _MARGIN * largest


def _beside_held(operator: ShiftedLaplacian, held: IntArray) -> FloatArray:
    """The shift of the coarse levels: held nodes are not in them, but hold their neighbors."""
    shift = operator.shift.astype(np.float64)
    if held.size:
        shift[held] = 0.0
        entries = operator.weight, operator.indices, operator.indptr
        is_held = np.zeros(shift.size)
        is_held[held] = 1.0
        shift += sp.csr_array(entries, shape=(shift.size, shift.size)) @ is_held
        shift[held] = 0.0
    return shift


def _damped_sweep(
    rows: Rows | ShiftedLaplacian,
    weight: RealArray,
    shift: FloatArray,
    dtype: Any,
    parallel: Parallel,
) -> Sweep:
    """The sweep of a level: damped inverse diagonal, exact for nodes without edges."""
    degree = np.empty(shift.size)
    row_sums(rows.indptr, weight, degree)
    diagonal = degree + shift
    factor = np.zeros_like(diagonal)
    np.divide(_DAMPING, diagonal, out=factor, where=degree > 0)
    np.divide(1.0, shift, out=factor, where=(degree == 0) & (shift > 0))
    return Sweep(
        indptr=rows.indptr,
        indices=rows.indices,
        weight=weight.astype(dtype, copy=False),
        shift=shift.astype(dtype),
        factor=factor.astype(dtype),
        ranges=RowRanges.of(rows.indptr, parallel),
    )


def _sum_children(shift: FloatArray, first_child: IntArray) -> FloatArray:
    """Sums over the children of every node."""
    return np.add.reduceat(shift[: first_child[-1]], first_child[:-1])


def _cycle_dtype(
    operator: ShiftedLaplacian, held: IntArray, shifts: list[FloatArray], beside: FloatArray
) -> "np.dtype[Any]":
    """Float32, unless weights or shifts come near the ends of its range.

    ``beside`` (n_nodes,) is the shift by which held nodes hold the others.
    """
    diagonal = operator.diagonal[operator.diagonal > 0]
    weight = operator.weight
    least = min(weight.min(initial=np.inf), diagonal.min(initial=np.inf))
    most = max(weight.max(initial=0.0), diagonal.max(initial=0.0))
    # a light shift leaves a constant of size 1 / shift, beside which float32 loses the rest
    free = operator.diagonal.copy()
    free[held] = 0.0
    coarsest = shifts[-1] if len(shifts) > 1 else beside
    heaviest = max(weight.max(initial=0.0), free.max(initial=0.0), coarsest.max(initial=0.0))
    pull = np.bincount(operator.component, beside, minlength=operator.component_size.size)
    lightest = float(pull[pull > 0].min(initial=np.inf))
    is_narrow = (
        least > _NARROW_LEAST and most < _NARROW_MOST and heaviest < _MOST_BESIDE_SHIFT * lightest
    )
    return np.dtype(np.float32 if is_narrow else np.float64)


def _pseudo_inverse(last: Sweep) -> FloatArray:
    """Of the last level's matrix, zero on the constants of components without shift."""
    weight = last.weight[last.weight > 0]
    if weight.size and weight.max() < _FAR_APART * weight.min():
        with suppress(np.linalg.LinAlgError):  # a shift may be lost beside the weights
            return _plain_pseudo_inverse(last)
    rows = last.indptr, last.indices, last.weight.astype(np.float64)
    matrix = sp.csr_array((rows[2], rows[1], rows[0]), shape=(last.n_nodes, last.n_nodes))
    graph, shift = Graph.from_adjacency(matrix), last.shift.astype(np.float64)
    exact = Elimination(graph, scale=1.0, shift=shift, zero_mean=False)
    return exact.solve(np.eye(last.n_nodes)).x


def _plain_pseudo_inverse(last: Sweep) -> FloatArray:
    """`_pseudo_inverse` by LAPACK."""
    n_nodes = last.n_nodes
    matrix = np.zeros((n_nodes, n_nodes))
    rows = np.repeat(np.arange(n_nodes), np.diff(last.indptr))
    matrix[rows, last.indices] = -last.weight.astype(np.float64)
    matrix[np.arange(n_nodes), np.arange(n_nodes)] = -matrix.sum(axis=1) + last.shift
    component = np.empty(n_nodes, dtype=np.int32)
    n_components = label_components(
        last.indptr, last.indices, np.empty(n_nodes, last.indices.dtype), component
    )
    has_shift = np.bincount(component, last.shift, minlength=n_components) > 0
    size = np.bincount(component, minlength=n_components)
    same = (component[:, None] == component[None, :]) & ~has_shift[component][None, :]
    constants = same / size[component][:, None]
    # of the projection Q to the null space: (A + t Q)^-1 = A^+ + Q / t
    typical = np.trace(matrix) / n_nodes
    typical = typical if typical > 0 else 1.0
    inverse: FloatArray = np.linalg.inv(matrix + typical * constants) - constants / typical
    return inverse
