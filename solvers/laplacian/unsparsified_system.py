"""Systems of a graph too large to store: one pass over its edges per product.

(D8) bounds the error of the sparsifier's own answer.

Block conjugate gradients (O'Leary 1980, with the residuals made orthonormal as Dubrulle 2001 does),
preconditioned by solving on a sparsifier of the graph. Context: a pass costs far more than all
else. Decision: all columns share one search space, and the sparsifier's own answer is the first
direction, not the start, so that the first pass finds the best combination of its columns; no
column needs more passes than alone. Directions are made conjugate by their own products, so the
solves on the sparsifier need few digits (flexible conjugate gradients, Notay 2000). If the
sparsifier keeps few edges per node and is slow alone, the degrees of the full graph tell what it
misses; directions of both are then taken (multipreconditioned conjugate gradients, Bridson and
Greif 2006).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled, Progress, iterate
from peewit.solvers.kernels.laplacian_products import column_dots
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status

Product: TypeAlias = Callable[[FloatArray], FloatArray]
"""The Laplacian of the full graph times a block (n_nodes, k); one pass."""

Settled: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], bool]
"""Whether x (n_nodes, k) with this residual is good enough.

The third is the sparsifier's answer to the residual, to a few digits; None if the residual is the
true one, and the answer is to be final.
"""

LEAST_PASSES: Final = 2
"""One step and one measurement of the residual."""

_INNER_RTOL: Final = 1e-2
_INNER_MAX_ITER: Final = 10_000
_RANK_RTOL: Final = 1e-12
"""Directions with less than this part of the strongest direction's energy are dropped."""
_PATIENCE: Final = 20
"""Passes without an improvement after which the run ends as stagnated."""
_IMPROVEMENT: Final = 0.8
_SLOW: Final = 0.3
"""A pass that leaves more than this part of the residual calls for more directions."""
_N_PROBES: Final = 4
"""Random sign vectors that estimate the degrees of the full graph, within one pass."""
_LEAST_DEGREE: Final = 0.2
"""Estimated degrees are never below this part of the sparsifier's."""


class FullDegrees(NamedTuple):
    """Sums over the edges at every node of a graph."""

    weight: FloatArray  # (n_nodes,)
    n_edges: Int64Array  # (n_nodes,); parallel edges count each


class OtherComponents(ValueError):
    """The full graph joins components of the sparsifier, which therefore cannot stand for it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FullSystem:
    """(scale * L_G + diag(shift)) x = rhs for a graph G of which only a sparsifier is stored.

    Attributes
    ----------
    sparsifier : Graph
        Has the nodes and components of G.
    scale : float
        Finite, > 0.
    shift : (n_nodes,) float64
        Finite, >= 0. On components without any x has zero mean, as in `LaplacianSolver`.
    zero_mean : bool
        Whether x is to have zero mean on every component (D4).
    rhs : (n_nodes, k) float64
        Right-hand sides.
    known : (n_nodes, k) float64 or None
        Known part of the answer; the rest is solved for, and residuals are measured against what
        ``known`` leaves of ``rhs``. None for nothing.
    held : (n_nodes,) bool or None
        Nodes that keep the values in ``known``; their equations do not count (D1).
    start : (n_nodes, d) float64
        First search directions of the unknown part, above all the sparsifier's answer.
    rtol : float
        Relative residual of every column to reach, in (0, 1).
    parallel : callable
        Runs the parts of the sparsifier's products; results do not depend on it.
    """

    sparsifier: Graph
    scale: float
    shift: FloatArray
    zero_mean: bool
    rhs: FloatArray
    start: FloatArray
    rtol: float
    known: FloatArray | None = None
    held: BoolArray | None = None
    parallel: Parallel = map

    @property
    def free(self) -> BoolArray | None:
        """(n_nodes,) nodes whose values are solved for; None for all."""
        return None if self.held is None else ~self.held

    def on_sparsifier(self) -> tuple[Graph, FloatArray]:
        """Graph and shift of the same equations on the sparsifier, of the `free` nodes."""
        free = self.free
        if free is None:
            return self.sparsifier, self.shift
        rows = self.sparsifier.adjacency[free]
        inner = rows[:, free]
        to_held = np.asarray(rows.sum(axis=1) - inner.sum(axis=1)).ravel()
        shift = self.shift[free] + self.scale * np.maximum(to_held, 0.0)
        return Graph.from_adjacency(inner), shift

    def spread(self, rows: FloatArray) -> FloatArray:
        """Rows of the `free` nodes as rows of all, with zeros elsewhere."""
        free = self.free
        if free is None:
            return rows
        block = np.zeros((free.size, *rows.shape[1:]))
        block[free] = rows
        return block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FullSolution:
    """Solutions on the full graph, and how they were reached.

    ``residual`` (k,) is relative, 0 for a zero right-hand side; the last pass measures the true
    one, unless the run was cancelled or has ``looks=False``.
    """

    x: FloatArray  # (n_nodes, k)
    status: Status  # converged only if every column's true residual is within ``rtol``
    residual: FloatArray
    remainder: FloatArray  # (n_nodes, k) the residual itself
    n_passes: int  # products with the full graph's Laplacian
    n_inner: int  # steps of all solves on the sparsifier


def solve_full(
    system: FullSystem,
    product: Product,
    *,
    max_passes: int,
    looks: bool = True,
    settled: Settled | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> FullSolution:
    """Solve a system of the full graph.

    Exceptions of ``product`` reach the caller; raises `OtherComponents` if the full graph has an
    edge between two components of the sparsifier.

    Parameters
    ----------
    system : FullSystem
        The equations, and the sparsifier that preconditions them.
    product : callable
        With the full graph's Laplacian.
    max_passes : int
        Most products, at least 2.
    looks : bool
        Whether the last pass measures the residual. Else it is a step like the others, and the
        reported residual is that of the recurrence, which is accurate for few steps.
    settled : callable or None
        Ends the run instead of ``rtol``: asked before each pass, and once more of the residual that
        a pass measured after it said so.
    progress, cancelled
        As in `peewit.solvers.iteration_loop.iterate`; a step is a pass.
    """
    if not 0 < system.rtol < 1:
        raise ValueError(f"rtol must lie in (0, 1), got {system.rtol}")
    if max_passes < LEAST_PASSES:
        raise ValueError(f"max_passes must be at least {LEAST_PASSES}, got {max_passes}")
    method = _FullCG(
        system=system,
        product=product,
        operator=ShiftedLaplacian.of_graph(
            system.sparsifier,
            scale=1.0,
            shift=system.shift,
            zero_mean=system.zero_mean,
            dtype=np.float64,
        ),
        inner=_Inner(system, cancelled),
        max_passes=max_passes,
        looks=looks,
        settled=settled,
    )
    outcome = iterate(
        method,
        max_iter=max_passes,
        phase="passes over the full graph",
        progress=progress,
        cancelled=cancelled,
    )
    state = outcome.state
    if outcome.status is Status.MAX_ITER and not looks:
        method.last_half_step(state)
    return FullSolution(
        x=state.unknown + method.known,
        status=outcome.status,
        residual=state.relative,
        remainder=state.residual,
        n_passes=state.n_passes,
        n_inner=method.inner.n_iter,
    )


class _Inner:
    """Solves with the matrix of the sparsifier, to a few digits."""

    def __init__(self, system: FullSystem, cancelled: Cancelled | None) -> None:
        self.n_iter = 0
        self._cancelled = cancelled
        self._system = system
        graph, shift = system.on_sparsifier()
        self._solver = LaplacianSolver(
            graph,
            scale=system.scale,
            shift=shift,
            zero_mean=system.zero_mean,
            rtol=_INNER_RTOL,
            max_iter=_INNER_MAX_ITER,
            parallel=system.parallel,
        )

    def solve(self, block: FloatArray) -> FloatArray | None:
        """The sparsifier's answer to ``block``; None once the run is cancelled."""
        free = self._system.free
        rows = block if free is None else block[free]
        solution = self._solver.solve(rows, project=True, cancelled=self._cancelled)
        self.n_iter += solution.n_iter
        if solution.status is Status.CANCELLED:
            return None
        return self._system.spread(solution.x.astype(np.float64, copy=False))


@dataclass(slots=True, eq=False)
class _State:
    """State of a run.

    ``unknown`` and ``residual`` are (n_nodes, k). ``directions`` and ``products``, (n_nodes, s),
    hold the last P and M P with P^T M P = I. ``norms`` and ``relative`` are (k,). ``diagonal``,
    (n_nodes,), estimates that of M. ``length`` is about that of a step along the sparsifier's
    answer to a residual; None before the first.
    """

    unknown: FloatArray
    residual: FloatArray
    directions: FloatArray
    products: FloatArray
    norms: FloatArray
    relative: FloatArray
    diagonal: FloatArray | None = None
    n_passes: int = 0
    is_true: bool = False
    best: float = np.inf
    last_improvement: int = 0
    recent: tuple[float, ...] = ()
    length: float | None = None

    @property
    def worst(self) -> float:
        return float(self.relative.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _FullCG:
    """Conjugate gradients for `peewit.solvers.iteration_loop.iterate`; a step is one pass."""

    system: FullSystem
    product: Product
    operator: ShiftedLaplacian
    inner: _Inner
    max_passes: int
    looks: bool
    settled: Settled | None = None

    def init(self) -> _State:
        """A state without any product of the full graph."""
        residual = np.array(self.system.rhs, dtype=np.float64, order="C")
        n_nodes, n_columns = residual.shape
        none = np.zeros((n_nodes, 0))
        return _State(
            unknown=np.zeros_like(residual),
            residual=residual,
            directions=none,
            products=none,
            norms=np.ones(n_columns),
            relative=np.ones(n_columns),
        )

    def step(self, state: _State) -> _State:
        """The first pass, a step of conjugate gradients, or a measurement of the true residual."""
        if state.n_passes == 0:
            return self._begin(state)
        if self._is_done(state) or (self.looks and state.n_passes + 1 == self.max_passes):
            return self._look(state)
        basis = _orthonormal(state.residual[:, state.relative > self._least])
        raw = self.inner.solve(basis)
        if raw is None:
            return state
        if self.settled is not None and not state.is_true:
            answer = raw @ (basis.T @ state.residual)
            if self.settled(state.unknown + self.known, state.residual, answer):
                return self._look(state)
        if state.diagonal is not None:
            raw = np.concatenate([raw, basis / state.diagonal[:, None]], axis=1)
        directions = raw - state.directions @ (state.products.T @ raw)
        self._project(directions)
        directions = _orthonormal(directions)
        n_probes = _N_PROBES if state.diagonal is None and _is_slow(state) else 0
        probes = _signs(len(basis), n_probes)
        product = self.product(np.concatenate([directions, probes], axis=1))
        state.n_passes += 1
        n_directions = directions.shape[1]
        products = self._complete(directions, product[:, :n_directions])
        self._project(products)
        if n_probes:
            state.diagonal = self._diagonal(probes, product[:, n_directions:])
        own = self._complete(directions, self.system.sparsifier.laplacian_product(directions))
        energy = float(column_dots(directions, products).sum())
        state.length = float(column_dots(directions, own).sum()) / energy if energy > 0 else None
        self._advance(state, directions, products)
        return state

    def last_half_step(self, state: _State) -> None:
        """Add the sparsifier's answer to the last residual, without another pass.

        Its length (D12) is that of the step before.
        """
        if state.length is None:
            return
        correction = self.inner.solve(state.residual)
        if correction is not None:
            self._project(correction)
            state.unknown += state.length * correction

    def terminate(self, state: _State) -> Status | None:
        """Converged or stagnated; only after a pass that measured the true residual."""
        if not state.is_true:
            return None
        if self.settled is not None:
            if self.settled(state.unknown + self.known, state.residual, None):
                return Status.CONVERGED
        elif state.worst <= self.system.rtol:
            return Status.CONVERGED
        return Status.STAGNATED if self._is_stuck(state) else None

    def fraction(self, state: _State) -> float:
        """Share of the requested digits that the slowest column has."""
        worst = state.worst
        if worst <= self.system.rtol:
            return 1.0
        return float(np.log(worst) / np.log(self.system.rtol)) if worst < 1 else 0.0

    def _project(self, block: FloatArray) -> None:
        """Project ``block`` to the space of the unknown part: zero sums, or zeros at held nodes."""
        if self.system.held is None:
            self.operator.project(block)
        else:
            block[self.system.held] = 0.0

    def _begin(self, state: _State) -> _State:
        """Multiply ``known``, the first directions and marks of components in one pass."""
        start = np.array(self.system.start, dtype=np.float64, order="C")
        self._project(start)
        directions = _orthonormal(start)
        n_known = 0 if self.system.known is None else self.system.known.shape[1]
        marks = _marks(self.system.sparsifier)
        blocks = [directions, marks]
        if self.system.known is not None:
            blocks.insert(0, self.system.known)
        product = self.product(np.concatenate(blocks, axis=1))
        if product[:, -1].any():
            raise OtherComponents(
                "the sparsifier must have the components of the full graph, got an edge of the "
                "full graph between two of them"
            )
        state.n_passes = 1
        if self.system.known is not None:
            state.residual -= self._complete(self.system.known, product[:, :n_known])
        self._project(state.residual)
        state.norms = np.sqrt(column_dots(state.residual, state.residual))
        products = self._complete(directions, product[:, n_known:-1])
        self._project(products)
        self._advance(state, directions, products)
        return state

    @property
    def known(self) -> FloatArray | float:
        """The known part of the answer."""
        return 0.0 if self.system.known is None else self.system.known

    @property
    def _least(self) -> float:
        """Relative residual of columns that need no more steps."""
        return self.system.rtol if self.settled is None else 0.0

    def _look(self, state: _State) -> _State:
        """Replace the residual by the true one, and drop the directions."""
        whole = state.unknown + self.known
        residual = self.system.rhs - self._complete(whole, self.product(whole))
        self._project(residual)
        state.n_passes += 1
        state.is_true = True
        state.residual = residual
        state.directions = state.products = np.zeros((len(residual), 0))
        self._measure(state)
        return state

    def _advance(self, state: _State, directions: FloatArray, products: FloatArray) -> None:
        """Minimize the energy of every column's error over all directions."""
        energies = directions.T @ products
        turn = _inverse_root((energies + energies.T) / 2)
        state.directions, state.products = directions @ turn, products @ turn
        lengths = state.directions.T @ state.residual
        state.unknown += state.directions @ lengths
        state.residual -= state.products @ lengths
        state.is_true = False
        self._measure(state)

    def _measure(self, state: _State) -> None:
        size = np.sqrt(column_dots(state.residual, state.residual))
        state.relative = np.divide(
            size, state.norms, out=np.zeros_like(size), where=state.norms > 0
        )
        state.recent = (*state.recent[-2:], state.worst)
        if state.worst < _IMPROVEMENT * state.best:
            state.best, state.last_improvement = state.worst, state.n_passes

    def _diagonal(self, probes: FloatArray, product: FloatArray) -> FloatArray:
        """The diagonal of M: (L_G s)_i s_i is a degree plus noise that vanishes as it grows."""
        degree = np.mean(probes * product, axis=1)
        least = _LEAST_DEGREE * self.system.sparsifier.degree
        diagonal = self.system.scale * np.maximum(degree, least) + self.system.shift
        return np.where(diagonal > 0, diagonal, 1.0)

    def _complete(self, block: FloatArray, product: FloatArray) -> FloatArray:
        """M X from X and L_G X."""
        return self.system.scale * product + self.system.shift[:, None] * block

    def _is_done(self, state: _State) -> bool:
        is_small = self.settled is None and state.worst <= self.system.rtol
        return is_small or self._is_stuck(state)

    def _is_stuck(self, state: _State) -> bool:
        return state.n_passes - state.last_improvement > _PATIENCE


def _marks(graph: Graph) -> FloatArray:
    """(n_nodes, 1) one number per component; L_G of it is zero if G joins none of them."""
    drawn: FloatArray = np.random.default_rng(0).permutation(graph.n_components).astype(np.float64)
    return drawn[graph.component][:, None]


def _is_slow(state: _State) -> bool:
    """Whether the last two passes left more of the residual than they should."""
    return len(state.recent) > 2 and state.worst > _SLOW**2 * state.recent[-3]


def _signs(n_nodes: int, n_columns: int) -> FloatArray:
    """Random signs, the same in every call."""
    rng = np.random.default_rng(0)
    return rng.choice([-1.0, 1.0], (n_nodes, n_columns))


def _orthonormal(block: FloatArray) -> FloatArray:
    """An orthonormal basis of the columns of ``block``, without dependent ones."""
    return block @ _inverse_root(block.T @ block)


def _inverse_root(gram: FloatArray) -> FloatArray:
    """T of full column rank with T^T ``gram`` T = I, without weak directions."""
    used = np.flatnonzero(np.diag(gram) > 0)
    sizes = np.sqrt(np.diag(gram)[used])
    values, vectors = np.linalg.eigh(gram[np.ix_(used, used)] / np.outer(sizes, sizes))
    is_kept = values > _RANK_RTOL * values.max(initial=0.0)
    turn = np.zeros((len(gram), np.count_nonzero(is_kept)))
    turn[used] = vectors[:, is_kept] / np.sqrt(values[is_kept]) / sizes[:, None]
    return turn
