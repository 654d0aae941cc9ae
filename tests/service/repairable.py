"""Edges of few nodes, so many that most are thrown away: a graph that can be repaired."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

SETTINGS: Final[dict[str, Any]] = {
    "node_ids": "dense",
    "epsilon": 0.9,
    "expected_nodes": 40,
    "seed": 1,
    "deletions": "exact",
}


def many_edges(part: int) -> pa.Table:
    """2,000 edges of 40 nodes."""
    src, dst = np.random.default_rng(part).integers(0, 40, (2, 2_000))
    return pa.table({"src": src, "dst": dst})
