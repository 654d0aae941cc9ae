"""What blocks of edges are worth, row by row."""

import math
import struct
from collections.abc import Sequence

Edge = tuple[int, int, float]


def is_float32_weight(weight: float) -> bool:
    """Whether a weight is finite and > 0 once it is a 32-bit float."""
    try:
        [narrow] = struct.unpack("f", struct.pack("f", weight))
    except OverflowError:
        return False
    return math.isfinite(narrow) and narrow > 0


def without_self_loops(edges: Sequence[Edge]) -> list[Edge]:
    """Edges between two nodes, the last ones in the places of self-loops."""
    kept = list(edges)
    row = 0
    while row < len(kept):
        u, v, _ = kept[row]
        if u != v:
            row += 1
        else:
            last = kept.pop()
            if row < len(kept):
                kept[row] = last
    return kept
