"""Settings, records and state of a sparsifier, all immutable.

``sparsifier`` turns one state into the next, ``checkpoints`` keeps states on disk.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, get_args

import numpy as np

from peewit.solvers.arrays import (
    AnyArray,
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    UInt32Array,
)
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.kernels.coins import CARD_PROBES
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.runs import Runs

Coins = Literal["independent", "dependent"]
"""How coins are thrown."""

EXPECTED_NODES: Final = 1_000_000
"""Nodes to be ready for where nobody knows how many come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsifierSettings:
    """What decides which edges stay.

    Attributes
    ----------
    epsilon : float or None
        Spectral error asked, in (0, 1). None asks for none: every edge is kept until the records
        pass ``max_edges``.
    seed : int
        Seeds coins and probe signs; equal seeds and streams give equal sparsifiers.
    expected_nodes : int
        Sets the logarithm in the sampling constant until more nodes have arrived.
    max_edges : int or None
        The budget: upper bound on the records a resparsification keeps; wins over ``epsilon``. A
        spanning forest is kept even so. None has no bound, which needs an ``epsilon``.
    n_probes : int
        Random projections of the resistance embedding.
    slack : float or None
        Factor on the constant ``ln(n) / epsilon^2`` of section B.6, at least 1. None is 1 for
        dependent coins and the safe 2 for independent ones.
    ridge : float
        gamma >= 0 of the guarantee ``epsilon (L + gamma I)`` (B2); unit of a weight. The larger,
        the fewer edges and the freer the small eigenvalues.
    coins : {"independent", "dependent"}
        How coins are thrown: for every record by itself, or leaning so that the degrees of nodes
        come out even, which needs far fewer records for the same error (section B.6).
    buffer_edges : int or None
        Most records that the buffer holds before it is resparsified; None lets it grow to a
        multiple of what is kept.
    room : float
        Factor on what the buffer keeps beyond what is to be published, for edges that will leave
        (B24), at least 1.
    """

    epsilon: float | None = None
    seed: int = 0
    expected_nodes: int = EXPECTED_NODES
    max_edges: int | None = None
    n_probes: int = CARD_PROBES
    slack: float | None = None
    ridge: float = 0.0
    coins: Coins = "dependent"
    buffer_edges: int | None = None
    room: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        if self.epsilon is None and self.max_edges is None:
            raise ValueError("epsilon or max_edges must be given, got neither")
        if self.epsilon is not None and not 0.0 < self.epsilon < 1.0:
            raise ValueError(f"epsilon must lie in (0, 1), got {self.epsilon}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must lie in [0, 2^63), got {self.seed}")
        if self.expected_nodes < 2:
            raise ValueError(f"expected_nodes must be at least 2, got {self.expected_nodes}")
        if self.max_edges is not None and self.max_edges < 1:
            raise ValueError(f"max_edges must be at least 1, got {self.max_edges}")
        if not 1 <= self.n_probes <= CARD_PROBES:
            raise ValueError(f"n_probes must lie in [1, {CARD_PROBES}], got {self.n_probes}")
        if self.slack is not None and not self.slack >= 1.0:
            raise ValueError(f"slack must be at least 1, got {self.slack}")
        if self.buffer_edges is not None and self.buffer_edges < 1:
            raise ValueError(f"buffer_edges must be at least 1, got {self.buffer_edges}")
        if not self.room >= 1.0:
            raise ValueError(f"room must be at least 1, got {self.room}")
        if self.coins not in get_args(Coins):
            raise ValueError(f"coins must be one of {get_args(Coins)}, got {self.coins!r}")
        if not 0.0 <= self.ridge < math.inf:
            raise ValueError(f"ridge must be finite and at least 0, got {self.ridge}")

    @property
    def oversampling(self) -> float:
        """The factor that ``slack`` stands for, and ``room``."""
        usual = 1.0 if self.coins == "dependent" else 2.0
        return self.room * (usual if self.slack is None else self.slack)

    def with_room(self, room: float) -> "SparsifierSettings":
        """Settings that keep so many times what is published."""
        most = None if self.max_edges is None else math.ceil(room * self.max_edges)
        return replace(self, room=room, max_edges=most)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Stored edges, one entry each.

    Attributes
    ----------
    u, v : (n_records,) int32
        Endpoints.
    weight : (n_records,) float32
        The weight that arrived, never rescaled.
    keep_probability : (n_records,) float32
        Product of all coins thrown so far, in (0, 1]; never rises.
    key : (n_records,) uint32
        Names the record for its probe signs and its later coins.
    """

    u: Int32Array
    v: Int32Array
    weight: Float32Array
    keep_probability: Float32Array
    key: UInt32Array

    @property
    def n_records(self) -> int:
        """Number of stored edges."""
        return self.u.size

    @property
    def conductance(self) -> FloatArray:
        """(n_records,) float64 weights in the sparsifier, ``weight / keep_probability``."""
        return self.weight.astype(np.float64) / self.keep_probability

    @property
    def columns(self) -> tuple[Int32Array, Int32Array, Float32Array, Float32Array, UInt32Array]:
        """All columns in their order, for the kernels."""
        return self.u, self.v, self.weight, self.keep_probability, self.key

    def part(self, start: int, stop: int) -> "Records":
        """Records ``start .. stop - 1``, sharing memory."""
        return self._map(lambda column: column[start:stop])

    def where(self, is_taken: BoolArray) -> "Records":
        """Records that are marked, in memory of their own."""
        return self._map(lambda column: column[is_taken])

    def copy(self) -> "Records":
        """Return equal records in memory of their own."""
        return self._map(np.copy)

    def _map(self, change: Callable[[AnyArray], AnyArray]) -> "Records":
        """Records whose columns are what ``change`` makes of these."""
        return Records(**{name: change(getattr(self, name)) for name in _NAMES})

    @staticmethod
    def empty() -> "Records":
        """Return no records."""
        return Records.uninitialized(0)

    @staticmethod
    def uninitialized(n_records: int) -> "Records":
        """Return records to be filled by a kernel."""
        return Records(
            u=np.empty(n_records, np.int32),
            v=np.empty(n_records, np.int32),
            weight=np.empty(n_records, np.float32),
            keep_probability=np.empty(n_records, np.float32),
            key=np.empty(n_records, np.uint32),
        )

    @staticmethod
    def concatenate(parts: Sequence["Records"]) -> "Records":
        """Join records, keeping their order."""
        if len(parts) == 1:
            return parts[0]
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _NAMES}
        return Records(**joined)


_NAMES = tuple(item.name for item in fields(Records))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsifierState:
    """Buffer, cards and counters: all that the next coins depend on.

    Attributes
    ----------
    chunks : sequence of Records
        The buffer, in order of arrival.
    cards : NodeCards
        Resistance embedding of the last resparsification.
    surplus : (ARRIVAL_LANES, n_embedded) float32 or None
        What dependent coins have left each node of the cards with, over what was expected, in
        shares by these cards; see `kernels.dependent_rounding`. It outlives resparsifications: what
        each of hundreds would leave adds up. None stands for zeros.
    degree : (n_reached,) float64 or None
        Weight that arrived at each node since the stream began, zero beyond the last one that an
        edge reached, without what was struck since: of that the weight of its records, which is
        right in the mean. None while every edge is kept, whose records tell it; and where coins
        were thrown before degrees were counted, as in graphs of an earlier version: see `degrees`.
    runs : Runs or None
        Which file brought which records; None where nothing can be deleted.
    struck_variance : (n_known,) float32 or None
        Variance that struck records had in the degree of each node (B23); None stands for zeros.
    lost : (n_known,) float32 or None
        Weight of struck records at each node since the cards; None stands for zeros.
    peak : (n_known,) float64 or None
        No less than the most weight that each node had since its edges were last sampled, up to the
        last resolution of the log; None stands for zeros. By it damage is told (B24).
    torn : (2, n_torn) int32 or None
        Ends of struck records without which the sparsifier came apart, while edges were thrown
        away: whether the graph came apart is not known.
    n_nodes, n_blocks, n_edges, n_self_loops : int
        Nodes, blocks, rows and dropped self-loops seen so far; ``n_blocks`` numbers the next block.
    n_resparsifications : int
        Resparsifications so far; numbers the next one.
    n_kept_last : int
        Records the last resparsification kept.
    n_leaning : int
        Arriving coins lean while the buffer holds at most so many records; 0 where none lean.
    constant : float
        Bound on the sampling constant that ``max_edges`` has set; infinite until it binds.
    smallest_constant : float
        Smallest constant that any record was thrown with; infinite while every edge is kept.
    n_failed_embeddings : int
        Embeddings that did not converge; nothing was thrown away then.
    n_deletes, n_removals : int
        Rows that deleted a pair, whether it was there or not; and pairs that deleting and setting
        rows removed, counted once for each block.
    n_struck, n_struck_since_cards : int
        Records that left as their edges were deleted, since the stream and since the cards.
    log_version : int
        Version of the log's dead rows; 0 where none are.
    n_unresolved, n_resolved_files : int
        Pairs and files that were removed since the log was resolved, and the files, the first ones,
        whose deletes are; of graphs with a log.
    n_dead : int
        Edges of the log that are dead, as far as it was resolved.
    n_unmatched : int
        Deleted pairs of which no edge was there, as far as the log was resolved.
    n_repairs, n_rebuilds : int
        How often a part of the edges, and all of them, were sampled anew after deletes.
    n_erased : int
        Nodes that were erased.
    watermark, horizon : int
        Of graphs with a window, see `stream.windows`: the latest time of what is in the graph, in
        microseconds since 1970, and the first bucket that lives; `NEVER` before the first.
    n_expired, n_late : int
        Edges that left the window, and that came when it was past them.
    n_unrepaired : int
        How often edges have left the window since the sparsifier was last looked through.
    """

    chunks: Sequence[Records] = ()
    cards: NodeCards = field(default_factory=NodeCards.empty)
    surplus: Float32Array | None = None
    degree: FloatArray | None = None
    runs: Runs | None = None
    struck_variance: Float32Array | None = None
    lost: Float32Array | None = None
    peak: FloatArray | None = None
    torn: Int32Array | None = None
    n_nodes: int = 0
    n_blocks: int = 0
    n_edges: int = 0
    n_self_loops: int = 0
    n_resparsifications: int = 0
    n_kept_last: int = 0
    n_leaning: int = 0
    constant: float = math.inf
    smallest_constant: float = math.inf
    n_failed_embeddings: int = 0
    n_deletes: int = 0
    n_removals: int = 0
    n_struck: int = 0
    n_struck_since_cards: int = 0
    log_version: int = 0
    n_unresolved: int = 0
    n_resolved_files: int = 0
    n_dead: int = 0
    n_unmatched: int = 0
    n_repairs: int = 0
    n_rebuilds: int = 0
    n_erased: int = 0
    watermark: int = NEVER
    horizon: int = NEVER
    n_expired: int = 0
    n_late: int = 0
    n_unrepaired: int = 0

    @property
    def is_uneven(self) -> bool:
        """Whether edges were thrown each by itself since the last resparsification."""
        return self.cards.n_nodes > 0 and self.degree is not None and self.n_leaning == 0

    @property
    def n_records(self) -> int:
        """Number of records in the buffer."""
        return sum(chunk.n_records for chunk in self.chunks)

    @property
    def records(self) -> Records:
        """The whole buffer."""
        return Records.concatenate(self.chunks) if self.chunks else Records.empty()
