"""The spam set as the paper has it: TF-IDF rows, and their k-NN graph in a Parquet file.

Nothing of size n x n is ever in memory: rows of distances come in blocks, the lists of neighbors
are kept in the cache, and edges are written block by block.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfTransformer

from docs.benchmarks.frame import folder
from docs.benchmarks.neighbor_files import write_edges
from peewit.solvers.arrays import FloatArray, IntArray

N_COLUMNS = 65_536
SIGMA_SQUARED = 3.0
_DROPPED_SHARE = 0.01
_ROWS_AT_A_TIME = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Messages:
    """TF-IDF rows of unit length (CSR), and whether each message is spam (1) or not (0)."""

    features: Any
    classes: IntArray
    n_empty: int


def messages(n_messages: int | None = None) -> Messages:
    """The messages of ``$PEEWIT_DATA/trec07p_part1_counts.npz``, the first of them where told.

    Stop words and the 1 % rarest of the other words that occur are dropped. The 1 % most common
    stay: without them 3,194 messages, all spam, would hold no word.
    Words are hashed, so they are not stemmed, and what shares the column of a stop word goes too.
    Messages without any word left share one of their own, the last column: as rows of zeros they
    would be nearer to most others than messages that have words.
    """
    counts = sp.csr_array(sp.load_npz(folder() / "trec07p_part1_counts.npz"))[:n_messages]
    with np.load(folder() / "trec07p_part1_labels.npz") as stored:
        classes = stored["y"][:n_messages].astype(np.int64)
    frequency = np.bincount(counts.indices, minlength=N_COLUMNS)
    frequency[[zlib.crc32(word.encode()) % N_COLUMNS for word in ENGLISH_STOP_WORDS]] = 0
    by_frequency = np.argsort(frequency, kind="stable")[np.count_nonzero(frequency == 0) :]
    kept = np.sort(by_frequency[round(_DROPPED_SHARE * by_frequency.size) :])
    features = TfidfTransformer().fit_transform(counts[:, kept].astype(np.float64))
    is_empty = np.diff(features.indptr) == 0
    last = sp.csr_array(is_empty[:, None].astype(np.float64))
    return Messages(
        features=sp.csr_array(sp.hstack([features, last])),
        classes=classes,
        n_empty=int(is_empty.sum()),
    )


def nearest(
    features: Any, k: int, cache: Path, *, tell: Callable[[str], None]
) -> tuple[IntArray, FloatArray]:
    """The k nearest other rows of each row of unit length, and their distances; kept in ``cache``.

    Nearest first, int32 and float32, mapped from files.
    """
    n_rows = features.shape[0]
    places = [cache / f"{name}-{n_rows}-{k}.npy" for name in ("neighbors", "distances")]
    if all(place.exists() for place in places):
        return np.load(places[0], mmap_mode="r"), np.load(places[1], mmap_mode="r")
    unfinished = [place.with_suffix(".part") for place in places]
    lists = [
        np.lib.format.open_memmap(place, "w+", dtype=dtype, shape=(n_rows, k))
        for place, dtype in zip(unfinished, (np.int32, np.float32), strict=True)
    ]
    vectors = features.astype(np.float32)
    for start in range(0, n_rows, _ROWS_AT_A_TIME):
        rows = np.arange(start, min(start + _ROWS_AT_A_TIME, n_rows))
        cosines = np.ascontiguousarray(
            (vectors @ np.ascontiguousarray(vectors[rows].toarray().T)).T
        )
        squared = 2.0 - 2.0 * cosines
        squared[np.arange(rows.size), rows] = np.inf
        near = np.argpartition(squared, k - 1, axis=1)[:, :k]
        far = np.take_along_axis(squared, near, axis=1)
        order = np.lexsort((near, far), axis=1)
        lists[0][rows] = np.take_along_axis(near, order, axis=1)
        lists[1][rows] = np.sqrt(np.maximum(np.take_along_axis(far, order, axis=1), 0.0))
        if start // _ROWS_AT_A_TIME % 20 == 0:
            tell(f"neighbors of {rows[-1] + 1:,} of {n_rows:,} messages")
    for values, part, place in zip(lists, unfinished, places, strict=True):
        values.flush()
        part.rename(place)
    return np.load(places[0], mmap_mode="r"), np.load(places[1], mmap_mode="r")


def edge_file(neighbors: IntArray, distances: FloatArray, k: int, cache: Path) -> Path:
    """Parquet file of the union of the lists of ``k`` neighbors; kept in ``cache``.

    The weight is exp(-d / (2 sigma^2)) with sigma^2 = 3 and the distance itself, as printed.
    """
    path = cache / f"spam-{len(neighbors)}-{k}.parquet"
    if not path.exists():
        write_edges(
            path, neighbors, k, lambda place: np.exp(-distances[place, :k] / (2.0 * SIGMA_SQUARED))
        )
    return path
