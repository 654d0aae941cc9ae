"""A reader of tiles, written from their description alone."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """What a tile says."""

    n_nodes: int
    side: int
    count: np.ndarray
    winner: np.ndarray
    share: np.ndarray
    standout: np.ndarray
    standout_share: np.ndarray
    names: list[str]
    x: np.ndarray
    y: np.ndarray
    color: np.ndarray
    score: np.ndarray
    doubt: np.ndarray
    is_labeled: np.ndarray
    is_contradicted: np.ndarray


def decoded(content: bytes) -> Tile:
    """A tile from its bytes, of which none may be left."""
    version, n_nodes, side, n, n_name_bytes, *zeros = np.frombuffer(content, "<u4", 8).tolist()
    assert (version, zeros) == (2, [0, 0, 0])
    at = 32

    def take(kind: str, length: int) -> np.ndarray:
        nonlocal at
        found = np.frombuffer(content, kind, length, at)
        at += found.nbytes
        return found

    count, score, ends = take("<u4", side**2), take("<f4", n), take("<u4", n)
    x, y, color = take("<u2", n), take("<u2", n), take("<i2", n)
    winner, standout = take("<i2", side**2), take("<i2", side**2)
    share, standout_share = take("u1", side**2), take("u1", side**2)
    doubt, labeled = take("u1", n), take("u1", n)
    assert len(content) == at + n_name_bytes
    starts = [0, *ends.tolist()]
    return Tile(
        n_nodes=n_nodes,
        side=side,
        count=count,
        winner=winner,
        share=share,
        standout=standout,
        standout_share=standout_share,
        names=[content[at + first : at + last].decode() for first, last in pairwise(starts)],
        x=x,
        y=y,
        color=color,
        score=score,
        doubt=doubt,
        is_labeled=labeled > 0,
        is_contradicted=labeled == 2,
    )
