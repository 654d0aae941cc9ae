"""Node cards: what the resistances of each node follow from, a few bytes, packed for kernels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, Int32Array, frozen
from peewit.streaming.kernels.coins import CARD_HEADER, CARD_PROBES, CARD_WIDTH, pack_cards

if TYPE_CHECKING:
    from peewit.solvers.laplacian.effective_resistance import Embedding

_CACHE_LINE = 64
_LARGEST = 32767.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeCards:
    """Local resistance and component of every node, and its resistance vector where there is one.

    The counted resistance between two nodes of one component is the sum of their local resistances
    and the squared distance between their vectors. With vectors (from an embedding) the local
    resistance is the inverse degree, times the factor it counts with. Without, the sum is an upper
    bound by itself; see `buffer_resistances`. Between two components nothing is known, so edges
    between them stay: in the graph they are not joined, or they are clusters of it.

    Rounding of vectors to 16 bits moves a distance by at most ``n_probes^(1/2) * scale``, and on
    average it adds ``n_probes * scale^2 / 6`` to its square: it errs on the side of keeping.

    Attributes
    ----------
    array : (n_nodes, 32) or (n_nodes, 4) int16
        28 coordinates or none, then local resistance and component; see `kernels.coins`.
    scale : float
        What one unit of a coordinate stands for, in 1 / sqrt(weight).
    """

    array: AnyArray
    scale: float
    total_degree: float  # sum of the graph's weighted degrees

    def __reduce__(self) -> tuple[Any, ...]:
        return NodeCards.restored, (self.array, self.scale, self.total_degree)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self.array.shape[0])

    @property
    def n_components(self) -> int:
        """Number of components between which nothing is known of a resistance."""
        return int(self.array.view(np.int32)[:, -1].max(initial=-1)) + 1

    @property
    def has_vectors(self) -> bool:
        """Whether the cards hold an embedding."""
        return bool(self.array.shape[1] > CARD_HEADER)

    @property
    def is_local(self) -> bool:
        """Whether local resistances tell everything: no vectors, and all edges in one component."""
        component = self.array.view(np.int32)[:, -1][self.local_resistance > 0.0]
        return not self.has_vectors and (component.size == 0 or bool(np.ptp(component) == 0))

    @property
    def squared_scale(self) -> float:
        """Factor that makes a squared distance between coordinates a resistance."""
        return self.scale**2

    @property
    def views(self) -> tuple[AnyArray, Float32Array, Int32Array]:
        """The cards as int16, float32 and int32, for the kernels."""
        return self.array, self.array.view(np.float32), self.array.view(np.int32)

    @property
    def local_resistance(self) -> Float32Array:
        """(n_nodes,) unit 1 / weight."""
        floats = self.array.view(np.float32)
        local: Float32Array = floats[:, floats.shape[1] - 2]
        return local

    @staticmethod
    def empty() -> "NodeCards":
        """Return the cards of no node."""
        return NodeCards(array=_aligned_zeros(0, CARD_HEADER), scale=1.0, total_degree=0.0)

    @staticmethod
    def of_embedding(
        embedding: "Embedding", *, local_resistance: Float32Array, total_degree: float
    ) -> "NodeCards":
        """Cards of an embedding of at most 28 probes, with local resistances of the caller's."""
        if embedding.n_probes > CARD_PROBES:
            raise ValueError(f"a card holds {CARD_PROBES} probes, got {embedding.n_probes}")
        largest = max(
            float(embedding.vectors.max(initial=0.0)), -float(embedding.vectors.min(initial=0.0))
        )
        scale = largest / _LARGEST if largest > 0.0 else 1.0
        vectors, component = embedding.vectors, embedding.component
        return _pack(vectors, local_resistance, component, scale, CARD_WIDTH, total_degree)

    @staticmethod
    def of_bounds(
        resistance: Float32Array, component: Int32Array, *, total_degree: float
    ) -> "NodeCards":
        """Cards without vectors: the sum of two local resistances bounds the one between them."""
        none = np.empty((resistance.size, 0), np.float32)
        return _pack(none, resistance, component, 1.0, CARD_HEADER, total_degree)

    def parted(self, part: Int32Array) -> "NodeCards":
        """Cards that also keep edges between nodes of different ``part``, (n_nodes,)."""
        cards = NodeCards.restored(self.array, self.scale, self.total_degree)
        cards.array.setflags(write=True)
        component = cards.array.view(np.int32)[:, -1]
        _, component[:] = np.unique(
            component.astype(np.int64) << 32 | part[: component.size], return_inverse=True
        )
        cards.array.setflags(write=False)
        return cards

    @staticmethod
    def restored(array: AnyArray, scale: float, total_degree: float) -> "NodeCards":
        """Cards from a stored array, aligned anew."""
        aligned: Any = _aligned_zeros(*array.shape)
        aligned[:] = array
        aligned.setflags(write=False)
        return NodeCards(array=aligned, scale=scale, total_degree=total_degree)


def _pack(
    vectors: Float32Array,
    local: Float32Array,
    component: Int32Array,
    scale: float,
    width: int,
    total_degree: float,
) -> NodeCards:
    cards = NodeCards(
        array=_aligned_zeros(component.size, width), scale=scale, total_degree=total_degree
    )
    pack_cards(frozen(vectors), local, component, 1.0 / scale, *cards.views)
    cards.array.setflags(write=False)
    return cards


def _aligned_zeros(n_nodes: int, width: int) -> AnyArray:
    """New zeros (n_nodes, width) int16; each row of 64 bytes lies in one cache line."""
    n_bytes = n_nodes * width * 2
    memory = np.zeros(n_bytes + _CACHE_LINE, np.uint8)
    first = -memory.ctypes.data % _CACHE_LINE
    cards: AnyArray = memory[first : first + n_bytes].view(np.int16).reshape(n_nodes, width)
    return cards
