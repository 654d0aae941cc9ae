"""Sparsifiers made of copies, for comparison: Kelner-Levin as printed, and a ridge merge tree.

An edge is born as many *copies* with probability 1; a resparsification lowers the probability to
``min(p, share * weight * resistance)`` and throws one coin per copy, ``Binomial(q, p'/p)``.
Kelner-Levin (section B.3) has N copies and the share ``1 / (alpha (n-1))``; the merge tree of (B11)
has as many copies as epsilon asks for one edge, and the share alpha. The stream's own, one coin per
edge, is in ``sparsifier`` and needs fewer edges (section B.6). Pure functions: no files, no clock.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, Int64Array, UInt64Array
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.effective_resistance import edge_resistance, resistance_embedding
from peewit.solvers.status import Status
from peewit.streaming.edges.blocks import EdgeBlock

EMBEDDING_RTOL = 1e-2
"""Relative error of the embedding allowed in every direction."""

_SHARD_SHIFT = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class KelnerLevinSettings:
    """Kelner-Levin as printed (section B.3).

    Without ``n_copies``, N is the printed ``alpha^2 n ln^2(n) / epsilon^2``. Without ``has_alpha``
    it lacks alpha^2, which is what the sizes reported for it agree with.
    """

    epsilon: float  # spectral error asked, in (0, 1)
    n_nodes: int  # n, at least 2
    n_copies: int | None = None  # N
    has_alpha: bool = True
    seed: int = 0  # of the coins and the probe signs
    n_probes: int = 64  # random projections of the resistance embedding

    def __post_init__(self) -> None:
        _check(self.epsilon, self.n_nodes, self.seed, self.n_probes)
        if self.n_copies is not None and self.n_copies < 1:
            raise ValueError(f"n_copies must be at least 1, got {self.n_copies}")

    @property
    def alpha(self) -> float:
        """Accuracy allowed to the resistances, ``1 / (1 - epsilon)``."""
        return 1.0 / (1.0 - self.epsilon)

    @property
    def birth_copies(self) -> int:
        """N, the copies of an arriving edge and the edges of a block."""
        if self.n_copies is not None:
            return self.n_copies
        factor = self.alpha**2 if self.has_alpha else 1.0
        return math.ceil(factor * self.n_nodes * math.log(self.n_nodes) ** 2 / self.epsilon**2)

    @property
    def share(self) -> float:
        """``1 / (alpha (n-1))`` (B10)."""
        return 1.0 / (self.alpha * (self.n_nodes - 1))

    @property
    def ridge(self) -> float:
        """Zero: this form has none."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeSettings:
    """The ridge form of the merge tree (section B.4)."""

    epsilon: float  # spectral error asked, in (0, 1), of the Laplacian plus ridge (B2)
    n_nodes: int  # at least 2
    ridge: float = 0.0  # gamma, unit weight; smaller eigenvalues are allowed more error
    copies_per_edge: int | None = None  # qbar; None takes ln(n) / epsilon^2 (B10')
    alpha: float = 1.4  # oversampling for the error of estimated resistances, at least 1
    seed: int = 0  # of the coins and the probe signs
    n_probes: int = 64  # random projections of the resistance embedding

    def __post_init__(self) -> None:
        _check(self.epsilon, self.n_nodes, self.seed, self.n_probes)
        if not 0.0 <= self.ridge < math.inf:
            raise ValueError(f"ridge must be finite and >= 0, got {self.ridge}")
        if self.copies_per_edge is not None and self.copies_per_edge < 1:
            raise ValueError(f"copies_per_edge must be at least 1, got {self.copies_per_edge}")
        if not 1.0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be finite and at least 1, got {self.alpha}")

    @property
    def birth_copies(self) -> int:
        """qbar, the copies of an arriving edge."""
        if self.copies_per_edge is not None:
            return self.copies_per_edge
        return math.ceil(math.log(self.n_nodes) / self.epsilon**2)

    @property
    def share(self) -> float:
        """Alpha itself (B11)."""
        return self.alpha


CopiesSettings: TypeAlias = KelnerLevinSettings | RidgeSettings
"""Settings of both forms."""


def _check(epsilon: float, n_nodes: int, seed: int, n_probes: int) -> None:
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon must lie in (0, 1), got {epsilon}")
    if n_nodes < 2:
        raise ValueError(f"n_nodes must be at least 2, got {n_nodes}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must lie in [0, 2^63), got {seed}")
    if n_probes < 1:
        raise ValueError(f"n_probes must be at least 1, got {n_probes}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopiesState:
    """Stored edges and the counters the next coins depend on; every column is (n_records,).

    ``weight`` is the a that arrived, never rescaled; ``probability`` the p of every copy, which
    never rises; ``copies`` q, at least 1; ``key`` names the record for its probe signs.
    """

    birth_copies: int  # of each edge: N or qbar
    n_nodes: int
    u: Int32Array = field(default_factory=lambda: np.empty(0, np.int32))
    v: Int32Array = field(default_factory=lambda: np.empty(0, np.int32))
    weight: Float32Array = field(default_factory=lambda: np.empty(0, np.float32))
    probability: FloatArray = field(default_factory=lambda: np.empty(0, np.float64))
    copies: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    key: UInt64Array = field(default_factory=lambda: np.empty(0, np.uint64))
    n_edges: int = 0  # that have arrived in this shard
    n_rounds: int = 0  # resparsifications so far; numbers the next coins
    shard: int = 0  # sets states apart that will be merged, in [0, 2^24)
    n_failed_embeddings: int = 0  # that did not converge; nothing was thrown away then

    @property
    def n_records(self) -> int:
        """Number of stored edges."""
        return self.u.size

    @property
    def conductance(self) -> FloatArray:
        """(n_records,) weights in the sparsifier, ``q a / (N p)`` (B9)."""
        weight = self.weight.astype(np.float64)
        return self.copies * weight / (self.birth_copies * self.probability)


def empty(settings: CopiesSettings, *, shard: int = 0) -> CopiesState:
    """State before the first edge."""
    if not 0 <= shard < 2**24:
        raise ValueError(f"shard must lie in [0, 2^24), got {shard}")
    return CopiesState(birth_copies=settings.birth_copies, n_nodes=settings.n_nodes, shard=shard)


def sparsify(state: CopiesState, settings: CopiesSettings, block: EdgeBlock) -> CopiesState:
    """State after a block: its edges with all copies, then one resparsification (Fig. 2).

    ``Binomial(N, p')`` of an arriving edge is the step of a stored one whose p is 1 and q is N.
    """
    return resparsify(_with_block(state, block), settings)


def merge(first: CopiesState, second: CopiesState, settings: CopiesSettings) -> CopiesState:
    """State of two disjoint sets of edges, resparsified; their shards must differ (section B.4)."""
    if first.shard == second.shard:
        raise ValueError(f"states to merge must differ in shard, both are {first.shard}")
    if (first.birth_copies, first.n_nodes) != (second.birth_copies, second.n_nodes):
        raise ValueError(
            "states to merge must agree in copies and nodes, got "
            f"{(first.birth_copies, first.n_nodes)} and {(second.birth_copies, second.n_nodes)}"
        )
    return resparsify(
        replace(
            _append(first, second),
            n_edges=first.n_edges + second.n_edges,
            n_rounds=max(first.n_rounds, second.n_rounds),
            shard=min(first.shard, second.shard),
            n_failed_embeddings=first.n_failed_embeddings + second.n_failed_embeddings,
        ),
        settings,
    )


def resparsify(state: CopiesState, settings: CopiesSettings) -> CopiesState:
    """State with lowered probabilities and fewer copies (B10) or (B11).

    When the embedding does not converge everything stays and ``n_failed_embeddings`` counts it.
    """
    if not state.n_records:
        return state
    conductance = state.conductance
    embedding = resistance_embedding(
        state.u,
        state.v,
        conductance,
        state.key,
        n_nodes=state.n_nodes,
        n_probes=settings.n_probes,
        seed=settings.seed,
        ridge=settings.ridge,
        rtol=EMBEDDING_RTOL,
    )
    if embedding.status is not Status.CONVERGED:
        return replace(state, n_failed_embeddings=state.n_failed_embeddings + 1)
    # what the graph leaves of an edge's resistance is at most what the edge has by itself
    estimate = edge_resistance(embedding, state.u, state.v).astype(np.float64)
    resistance = np.minimum(estimate, 1.0 / conductance)
    target = settings.share * state.weight.astype(np.float64) * resistance
    probability = np.minimum(state.probability, np.maximum(target, np.finfo(np.float64).tiny))
    rng = np.random.default_rng([settings.seed, state.shard, state.n_rounds])
    copies = rng.binomial(state.copies, probability / state.probability)
    stays = copies > 0
    return replace(
        state,
        u=state.u[stays],
        v=state.v[stays],
        weight=state.weight[stays],
        probability=probability[stays],
        copies=copies[stays],
        key=state.key[stays],
        n_rounds=state.n_rounds + 1,
    )


def kelner_levin(blocks: Iterable[EdgeBlock], settings: KelnerLevinSettings) -> CopiesState:
    """Sparsifier of a stream, cut anew into blocks of N edges (Fig. 1).

    How ``blocks`` are cut does not matter. Raises ValueError for a node at or above ``n_nodes``.
    """
    state = empty(settings)
    for block in _recut(blocks, settings.birth_copies):
        state = sparsify(state, settings, block)
    return state


def merge_tree(blocks: Iterable[EdgeBlock], settings: CopiesSettings) -> CopiesState:
    """Sparsifier of a stream by a balanced tree of merges, one leaf per block (section B.4)."""
    level: list[CopiesState] = []
    for shard, block in enumerate(blocks):
        level.append(sparsify(empty(settings, shard=shard), settings, block))
    while len(level) > 1:
        unpaired = level[len(level) // 2 * 2 :]
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [merge(first, second, settings) for first, second in pairs] + unpaired
    return level[0] if level else empty(settings)


def copies_graph(state: CopiesState) -> Graph:
    """Sparsifier as a graph, parallel records summed (B9)."""
    return Graph.from_edges(state.u, state.v, state.conductance, n_nodes=state.n_nodes)


def _with_block(state: CopiesState, block: EdgeBlock) -> CopiesState:
    """State with all copies of a block's edges, no coin thrown yet."""
    n_new = block.u.size
    number = np.arange(state.n_edges, state.n_edges + n_new, dtype=np.uint64)
    arrived = CopiesState(
        birth_copies=state.birth_copies,
        n_nodes=state.n_nodes,
        u=block.u,
        v=block.v,
        weight=block.weight,
        probability=np.ones(n_new),
        copies=np.full(n_new, state.birth_copies, np.int64),
        key=np.uint64(state.shard << _SHARD_SHIFT) + number,
    )
    return replace(_append(state, arrived), n_edges=state.n_edges + n_new)


def _append(state: CopiesState, other: CopiesState) -> CopiesState:
    """``state`` with the records of ``other`` behind its own."""
    return replace(
        state,
        u=np.concatenate([state.u, other.u]),
        v=np.concatenate([state.v, other.v]),
        weight=np.concatenate([state.weight, other.weight]),
        probability=np.concatenate([state.probability, other.probability]),
        copies=np.concatenate([state.copies, other.copies]),
        key=np.concatenate([state.key, other.key]),
    )


def _recut(blocks: Iterable[EdgeBlock], n_edges: int) -> Iterator[EdgeBlock]:
    """The same edges in blocks of ``n_edges``, the last one shorter."""
    gathered: list[EdgeBlock] = []
    missing = n_edges
    for block in blocks:
        start = 0
        while block.u.size - start >= missing:
            yield _concatenate([*gathered, _part(block, start, start + missing)])
            start, gathered, missing = start + missing, [], n_edges
        if start < block.u.size:
            gathered.append(_part(block, start, block.u.size))
            missing -= block.u.size - start
    if gathered:
        yield _concatenate(gathered)


def _part(block: EdgeBlock, start: int, stop: int) -> EdgeBlock:
    rows = slice(start, stop)
    return _block(block.u[rows], block.v[rows], block.weight[rows])


def _concatenate(parts: Sequence[EdgeBlock]) -> EdgeBlock:
    if len(parts) == 1:
        return parts[0]
    return _block(
        np.concatenate([part.u for part in parts]),
        np.concatenate([part.v for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def _block(u: Int32Array, v: Int32Array, weight: Float32Array) -> EdgeBlock:
    return EdgeBlock(u=u, v=v, weight=weight, n_rows=u.size)
