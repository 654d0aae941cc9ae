"""Node cards: what the sparsifier remembers of an embedding, one cache line for each node."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.arrays import AnyArray, Float32Array, Int32Array
from solvers.laplacian.resistance import Embedding
from streaming.kernels.sampling import CARD_PROBES, CARD_WIDTH, DEGREE, pack_cards

_CACHE_LINE = 64
_LARGEST = 32767.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeCards:
    """Resistance vectors in 16 bits a coordinate, with degrees and components beside them.

    Rounding moves a distance by at most ``n_probes^(1/2) * scale``, and on average it adds
    ``n_probes * scale^2 / 6`` to its square: what errs on the side of keeping.

    Attributes
    ----------
    array : (n_nodes, 32) int16
        28 coordinates, inverse degree and component of each node; see `kernels.sampling`.
    scale : float
        What one unit of a coordinate stands for, in 1 / sqrt(weight).
    """

    array: AnyArray
    scale: float

    @property
    def n_nodes(self) -> int:
        """Nodes of the embedding."""
        return int(self.array.shape[0])

    @property
    def squared_scale(self) -> float:
        """What a squared distance between coordinates is to be multiplied by."""
        return self.scale**2

    @property
    def views(self) -> tuple[AnyArray, Float32Array, Int32Array]:
        """The cards as int16, float32 and int32, for the kernels."""
        return self.array, self.array.view(np.float32), self.array.view(np.int32)

    @property
    def total_degree(self) -> float:
        """Sum of the weighted degrees; isolated nodes have none."""
        inverse = self.views[1][:, DEGREE].astype(np.float64)
        return float(np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0).sum())

    @staticmethod
    def empty() -> "NodeCards":
        """Return the cards of no node."""
        return NodeCards(array=_aligned(0), scale=1.0)

    @staticmethod
    def of_embedding(embedding: Embedding, *, inverse_degree: Float32Array) -> "NodeCards":
        """Cards of an embedding of at most 28 probes, with degrees of the caller's."""
        if embedding.n_probes > CARD_PROBES:
            raise ValueError(f"a card holds {CARD_PROBES} probes, got {embedding.n_probes}")
        largest = max(
            float(embedding.vectors.max(initial=0.0)), -float(embedding.vectors.min(initial=0.0))
        )
        scale = largest / _LARGEST if largest > 0.0 else 1.0
        cards = NodeCards(array=_aligned(embedding.n_nodes), scale=scale)
        pack_cards(
            embedding.vectors,
            inverse_degree,
            embedding.component,
            1.0 / scale,
            *cards.views,
        )
        cards.array.setflags(write=False)
        return cards

    @staticmethod
    def restored(array: AnyArray, scale: float) -> "NodeCards":
        """Cards from a stored array, aligned anew."""
        aligned: Any = _aligned(array.shape[0])
        aligned[:] = array
        aligned.setflags(write=False)
        return NodeCards(array=aligned, scale=scale)


def _aligned(n_nodes: int) -> AnyArray:
    """New zeros (n_nodes, 32) int16, each row in one cache line."""
    n_bytes = n_nodes * CARD_WIDTH * 2
    memory = np.zeros(n_bytes + _CACHE_LINE, np.uint8)
    first = -memory.ctypes.data % _CACHE_LINE
    cards: AnyArray = memory[first : first + n_bytes].view(np.int16).reshape(n_nodes, CARD_WIDTH)
    return cards
