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
from peewit.streaming.left_out import NO_ROWS, LeftOut
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.runs import Runs

Coins = Literal["independent", "dependent"]
"""Whether every coin is thrown by itself, or coins lean so that degrees of nodes come out even."""

EXPECTED_NODES: Final = 1_000_000
"""Nodes to be ready for where their number is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsifierSettings:
    """What decides which edges stay.

    Without an ``epsilon`` every edge is kept until the records pass ``max_edges``, which must be
    given then; a spanning forest is kept even beyond it. ``slack`` None is 1 for dependent coins
    and the safe 2 for independent ones, which need far more records for the same error (section
    B.6). The larger the ``ridge``, the fewer edges and the freer the small eigenvalues. Without
    ``buffer_edges`` the buffer grows to a multiple of what is kept.
    """

    epsilon: float | None = None  # spectral error asked, in (0, 1)
    seed: int = 0  # of coins and probe signs; equal seeds and streams give equal sparsifiers
    expected_nodes: int = EXPECTED_NODES  # for the sampling constant, until more have arrived
    max_edges: int | None = None  # most records that a resparsification keeps; wins over epsilon
    n_probes: int = CARD_PROBES  # random projections of the resistance embedding
    slack: float | None = None  # factor on ln(n) / epsilon^2 (section B.6), at least 1
    ridge: float = 0.0  # gamma >= 0 of epsilon (L + gamma I) (B2), unit of a weight
    coins: Coins = "dependent"
    buffer_edges: int | None = None  # most records that the buffer holds before a resparsification
    room: float = 1.0  # factor >= 1 on what the buffer keeps, for edges that will leave (B24)

    def __post_init__(self) -> None:
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
        """What ``slack`` stands for, times ``room``."""
        usual = 1.0 if self.coins == "dependent" else 2.0
        return self.room * (usual if self.slack is None else self.slack)

    def with_room(self, room: float) -> "SparsifierSettings":
        """Settings that keep ``room`` times what is published."""
        most = None if self.max_edges is None else math.ceil(room * self.max_edges)
        return replace(self, room=room, max_edges=most)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Stored edges, one entry each; every column is (n_records,)."""

    u: Int32Array
    v: Int32Array
    weight: Float32Array  # as it arrived, never rescaled
    keep_probability: Float32Array  # product of all coins thrown so far, in (0, 1]; never rises
    key: UInt32Array  # names the record for its probe signs and its later coins

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
    surplus : (ARRIVAL_LANES, n_embedded) float32 or None
        What dependent coins have left each node of the cards with, over what was expected, in
        shares by these cards; see `kernels.dependent_rounding`. It outlives resparsifications, as
        what each of hundreds leaves adds up. None stands for zeros.
    degree : (n_reached,) float64 or None
        Weight that arrived at each node since the stream began, zero beyond the last one reached.
        What was struck is subtracted by the weight of its records, which is right in the mean. None
        while every edge is kept, as the records tell it; see `degrees`.
    struck_variance : (n_known,) float32 or None
        Variance that struck records had in the degree of each node (B23); None stands for zeros.
    lost : (n_known,) float32 or None
        Weight of struck records at each node since the cards; None stands for zeros.
    peak : (n_known,) float64 or None
        Upper bound, as of the last resolution of the log, on the weight of each node since its
        edges were last sampled; damage is told by it (B24). None stands for zeros.
    torn : (2, n_torn) int32 or None
        Ends of struck records whose loss split the sparsifier, while edges were thrown away:
        whether the graph split, too, is not known.
    """

    chunks: Sequence[Records] = ()  # the buffer, in order of arrival
    cards: NodeCards = field(default_factory=NodeCards.empty)  # of the last resparsification
    surplus: Float32Array | None = None
    degree: FloatArray | None = None
    runs: Runs | None = None  # None where nothing can be deleted
    struck_variance: Float32Array | None = None
    lost: Float32Array | None = None
    peak: FloatArray | None = None
    torn: Int32Array | None = None
    n_nodes: int = 0
    n_blocks: int = 0  # numbers the next one
    n_rows_seen: int = 0
    left_out: LeftOut = NO_ROWS  # of these
    n_resparsifications: int = 0  # numbers the next one
    n_kept_last: int = 0  # records that the last resparsification kept
    n_leaning: int = 0  # coins lean while the buffer holds at most so many records; 0 for never
    constant: float = math.inf  # bound that max_edges sets on the sampling constant, once it binds
    smallest_constant: float = math.inf  # that records were thrown with; inf while all are kept
    n_failed_embeddings: int = 0  # that did not converge; nothing was thrown away then
    n_deletes: int = 0  # rows that deleted a pair, whether it was there or not
    n_removals: int = 0  # pairs that rows deleted or replaced, counted once for each block
    n_struck: int = 0  # records that left as their edges were deleted
    n_struck_since_cards: int = 0
    log_version: int = 0  # of the log's dead rows; 0 where none are
    n_unresolved: int = 0  # pairs and files removed since the log was resolved; 1 to try again
    n_resolved_files: int = 0  # the first files, whose deletes are resolved
    n_dead: int = 0  # rows that were counted as edges and do not live, as far as is resolved
    n_unmatched: int = 0  # deleted pairs without an edge, as far as the log was resolved
    n_repairs: int = 0  # how often a part of the edges was sampled anew after deletes
    n_rebuilds: int = 0  # how often all of them were
    n_erased: int = 0  # nodes
    watermark: int = NEVER  # latest time in a graph with a window, microseconds since 1970
    horizon: int = NEVER  # first bucket that lives, see edges.windows
    latest: int = NEVER  # as watermark, of these edges alone
    n_expired: int = 0  # edges that left the window
    n_late: int = 0  # edges that came when the window was past them
    n_unrepaired: int = 0  # how often edges left the window since the last look for repairs

    @property
    def is_uneven(self) -> bool:
        """Whether edges were thrown each by itself since the last resparsification."""
        return self.cards.n_nodes > 0 and self.degree is not None and self.n_leaning == 0

    @property
    def n_live(self) -> int:
        """Edges that live, as far as is resolved."""
        return self.n_rows_seen - self.left_out.total - self.n_dead

    @property
    def n_records(self) -> int:
        """Number of records in the buffer."""
        return sum(chunk.n_records for chunk in self.chunks)

    @property
    def records(self) -> Records:
        """The whole buffer."""
        return Records.concatenate(self.chunks) if self.chunks else Records.empty()
