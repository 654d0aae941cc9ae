"""Layout of a graph: a point in the plane for each node, neighbors near and strangers apart.

Context: a map of a graph must show its clusters at any size, with hubs and many components; two
eigenvectors would show the longest dangling branch. Decision: eigenvectors place the nodes of a
small contracted graph; while the graph is expanded again, steps draw neighbors together and push
strangers apart; each component is laid out alone, then they are placed side by side. Consequence: a
step costs a few fetches a node however many edges there are, and the points depend on the graph and
the seed alone.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, IntArray, frozen
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.kernels.hash_signs import mix64
from peewit.solvers.kernels.layout import move_rows, place_in_rings
from peewit.solvers.laplacian.multigrid.hierarchy import Hierarchy, Rows
from peewit.solvers.row_ranges import Parallel, RowRanges

N_STRANGERS: Final = 5
"""Nodes that push each node away in a step; more leave wider gaps between clusters."""

_RATE: Final = 0.5
_START_STEPS: Final = 400
_MOST_STEPS: Final = 200
_LEAST_STEPS: Final = 30
_MOVES: Final = 3e7
"""Steps times nodes of one level, if the number of steps then lies between the two limits."""

_WALK_STEPS: Final = 200
_LEAST_ROOT: Final = 1e-100
_JITTER: Final = 0.1
_GAP: Final = 1.02
_CORE: Final = 0.99
"""Share of a component's nodes that its disc is fitted to; the others lie nearer to the rim."""

_CHILDLESS: Final = frozen(np.zeros(1, np.int64))
_INSIDE: Final = 0.95
PHASE: Final = "drawing"


def layout(
    graph: Graph, *, seed: int, watch: Watch = UNWATCHED, parallel: Parallel = map
) -> Float32Array:
    """(n_nodes, 2) float32 points in [0, 1), neighbors near each other and strangers apart.

    Each component has a disc of its own, with area in proportion to its nodes. The result does not
    depend on ``parallel``. Raises `RunStopped` when ``watch`` is cancelled.

    Notes
    -----
    (A5), (A6) and (A7). Linear in nodes and edges.
    """
    hierarchy = Hierarchy.of_graph(graph)
    levels = _levels(hierarchy)
    schedule = [_n_steps(level.rows.n_nodes) for level in levels]
    schedule[-1] = _START_STEPS
    work = [n * level.rows.n_nodes for n, level in zip(schedule, levels, strict=True)]
    n_done, n_work = 0, sum(work)
    points = _spectral_start(levels[-1], seed)
    for depth in reversed(range(len(levels))):
        if depth < len(levels) - 1:
            points = _taken_apart(levels[depth], levels[depth + 1], points, seed, depth)
        level, n_steps = levels[depth], schedule[depth]
        moves = _Moves.of(level, parallel)
        for step in range(n_steps):
            watch.step(PHASE, n_done + step * level.rows.n_nodes, n_work)
            rate = _RATE * (1.0 - step / n_steps)
            points = moves.step(points, rate, _key(seed, depth, step))
        n_done += work[depth]
    placed = np.empty((graph.n_nodes, 2), np.float32)
    placed[hierarchy.order] = _place_components(points, hierarchy.graph)
    return placed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Level:
    """One graph of the hierarchy, the components of its nodes, and their children one level up."""

    rows: Rows
    component: Int32Array
    first_child: IntArray


def _levels(hierarchy: Hierarchy) -> list[_Level]:
    adjacency = hierarchy.graph.adjacency
    first = Rows(indptr=adjacency.indptr, indices=adjacency.indices, weight=adjacency.data)
    levels = [_Level(rows=first, component=hierarchy.graph.component, first_child=_CHILDLESS)]
    for rows in hierarchy.levels:
        above = levels[-1].component[rows.first_child[:-1]]
        levels.append(_Level(rows=rows, component=above, first_child=rows.first_child))
    return levels


def _n_steps(n_nodes: int) -> int:
    return int(np.clip(_MOVES / max(n_nodes, 1), _LEAST_STEPS, _MOST_STEPS))


def _key(seed: int, depth: int, step: int) -> np.uint64:
    """A key for one step; words that differ in one bit give unrelated keys."""
    word = np.uint64(seed & ((1 << 64) - 1)) ^ np.uint64((depth + 1) << 32 | step)
    return np.uint64(mix64(np.uint64(word)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Moves:
    """Steps of (A6) on one level."""

    rows: Rows
    cumulative: Float32Array
    component: Int32Array
    members: IntArray
    first_member: IntArray
    ranges: RowRanges

    @classmethod
    def of(cls, level: _Level, parallel: Parallel) -> "_Moves":
        """The steps of a level: neighbors drawn in proportion to weight, strangers by component."""
        rows = level.rows
        sums = np.concatenate([[0.0], np.cumsum(rows.weight, dtype=np.float64)])
        before = np.repeat(sums[rows.indptr[:-1]], np.diff(rows.indptr))
        greatest = np.repeat(np.diff(sums[rows.indptr]), np.diff(rows.indptr))
        sizes = np.bincount(level.component)
        return cls(
            rows=rows,
            cumulative=((sums[1:] - before) / np.where(greatest > 0, greatest, 1)).astype(
                np.float32
            ),
            component=level.component,
            members=np.argsort(level.component, kind="stable").astype(np.int32),
            first_member=np.concatenate([[0], np.cumsum(sizes)]),
            ranges=RowRanges.of(np.arange(rows.n_nodes + 1), parallel),
        )

    def step(self, points: Float32Array, rate: float, key: np.uint64) -> Float32Array:
        """The points after one step."""
        out = np.empty_like(points)

        def move(start: int, stop: int) -> None:
            move_rows(
                self.rows.indptr,
                self.rows.indices,
                self.cumulative,
                self.component,
                self.members,
                self.first_member,
                points,
                out,
                np.float32(rate),
                N_STRANGERS,
                key,
                start,
                stop,
            )

        self.ranges.run(move, work=64.0 * len(points))
        return out


def _spectral_start(level: _Level, seed: int) -> Float32Array:
    """About two eigenvectors of the lazy walk: random values after many of its steps (A5)."""
    rows = level.rows
    n_nodes = rows.n_nodes
    walk = sp.csr_array((rows.weight, rows.indices, rows.indptr), shape=(n_nodes, n_nodes))
    degree = np.asarray(walk.sum(axis=1), np.float64)
    inverse = np.divide(0.5, degree, out=np.zeros(n_nodes), where=degree > 0)
    component = level.component
    n_components = int(component.max(initial=-1)) + 1
    volume = np.bincount(component, degree, n_components)
    volume[volume == 0] = 1.0
    rng = np.random.default_rng(seed)
    block = rng.standard_normal((n_nodes, 2))

    def orthogonal(block: FloatArray) -> FloatArray:
        """Columns with mean 0 and variance 1 in each component, orthogonal under degrees."""
        for column in range(2):
            values = block[:, column]
            for other in (None, *range(column)):
                along = np.ones(n_nodes) if other is None else block[:, other]
                share = np.bincount(component, degree * along * values, n_components) / volume
                values = values - share[component] * along
            size = np.bincount(component, degree * values * values, n_components) / volume
            root = np.sqrt(size)
            scale = np.divide(1.0, root, out=np.zeros_like(root), where=root > _LEAST_ROOT)
            block[:, column] = values * scale[component]
        return block

    block = orthogonal(block)
    for step in range(1, _WALK_STEPS + 1):
        block = 0.5 * block + inverse[:, None] * (walk @ block)
        if step % 10 == 0:
            block = orthogonal(block)
    block = np.clip(block, -3.0, 3.0)
    block += _JITTER * rng.standard_normal(block.shape)  # else nodes in one place stay there
    return np.ascontiguousarray(block, np.float32)


def _taken_apart(
    level: _Level, contracted: _Level, points: Float32Array, seed: int, depth: int
) -> Float32Array:
    """Children near their parent; a component without a parent starts anywhere."""
    first_child = contracted.first_child
    rng = np.random.default_rng((seed, depth))
    fine = rng.standard_normal((level.rows.n_nodes, 2), np.float32) * np.float32(_JITTER)
    fine[: first_child[-1]] += np.repeat(points, np.diff(first_child), axis=0)
    return fine


def _place_components(points: Float32Array, graph: Graph) -> Float32Array:
    """The points with each component in its own disc, in the unit square (A7)."""
    component, size = graph.component, graph.component_sizes()
    order = np.argsort(-size, kind="stable")
    radius = np.sqrt(size[order].astype(np.float64))
    centers = np.empty((size.size, 2))
    place_in_rings(_GAP * radius, centers)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    placed = _in_discs(points, component, size, radius[rank]) + centers[rank][component]
    if not placed.size:
        return placed.astype(np.float32)
    low, high = placed.min(axis=0), placed.max(axis=0)
    span = max(float((high - low).max()), 1e-9) * 1.04
    unit = (0.5 + (placed - (low + high) / 2) / span).astype(np.float32)
    below_one = np.nextafter(np.float32(1), np.float32(0))
    inside: Float32Array = np.clip(unit, np.float32(0), below_one)
    return inside


def _in_discs(
    points: Float32Array, component: Int32Array, size: IntArray, radius: FloatArray
) -> FloatArray:
    """The points of each component around the origin, within its radius."""
    n_components = size.size
    members = np.argsort(component, kind="stable")
    first = np.concatenate([[0], np.cumsum(size)[:-1]])
    centered = points.astype(np.float64)
    for column in range(2):
        mean = np.bincount(component, centered[:, column], n_components) / np.maximum(size, 1)
        centered[:, column] -= mean[component]
    length = np.hypot(centered[:, 0], centered[:, 1])
    by_length = members[np.lexsort((length[members], component[members]))]
    core = length[by_length[first + ((size - 1) * _CORE).astype(np.int64)]]
    relative = length / np.where(core > 0, core, 1.0)[component]
    beyond = np.maximum(relative - 1.0, 0.0)
    wanted = np.where(
        relative <= 1.0, _INSIDE * relative, _INSIDE + (1 - _INSIDE) * beyond / (1 + beyond)
    )
    factor = np.divide(wanted, length, out=np.zeros_like(length), where=length > 0)
    scaled: FloatArray = centered * (factor * radius[component])[:, None]
    return scaled
