"""Variances of a snapshot's conductances over the coins that were thrown, beside its edges.

A record that was kept with probability p has the conductance w / p, whose variance is estimated by
(w / p)^2 (1 - p); those of parallel records add up (B26). They are stored divided by the square of
the conductance, so that the unit of weights does not matter.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray, FloatArray
from peewit.solvers.edge_merging import EdgeChunk, merged_ranges
from peewit.streaming.durable_files import reserved_array

VARIANCES: Final = "variances.npy"
"""(edges_kept,) float32, of snapshots for which coins were thrown."""

_NOTHING: Final = 1e-37
_TELLING: Final = 1e-30
"""Least variances merged, and stored, divided by the square of the largest conductance."""


def write_variances(
    directory: Path, chunks: Iterable[EdgeChunk], conductance: pa.ChunkedArray, *, n_nodes: int
) -> None:
    """Write variances in the order of the edges that the records make.

    ``chunks`` are iterated several times, the same each time; ``conductance``, (edges_kept,)
    float64, is that of the merged edges.
    """
    variances = _Variances.of(chunks)
    room, first = reserved_array(directory / VARIANCES, (len(conductance),), np.float32), 0
    for edges in merged_ranges(variances, n_nodes=n_nodes):
        rows = slice(first, first + edges.weight.size)
        squared = np.square(conductance[rows].to_numpy() / variances.unit)
        is_some = edges.weight > _TELLING
        np.divide(edges.weight, squared, out=room[rows], where=is_some, casting="unsafe")
        first = rows.stop


@dataclass(frozen=True, slots=True)
class _Variance:
    """The variances of some records in place of their conductances: an EdgeChunk."""

    u: AnyArray
    v: AnyArray
    weight: AnyArray
    keep_probability: AnyArray


@dataclass(frozen=True, slots=True)
class _Variances:
    """The variances of all records, anew each time, in units of the largest conductance squared.

    They are float32 as records are, so that the same compiled code merges them.
    """

    chunks: Iterable[EdgeChunk]
    unit: float

    @classmethod
    def of(cls, chunks: Iterable[EdgeChunk]) -> Self:
        """Variances of records; reads all of them."""
        largest = (_conductance(chunk)[0].max(initial=0.0) for chunk in chunks)
        return cls(chunks, max(largest, default=0.0) or 1.0)

    def __iter__(self) -> Iterator[_Variance]:
        for chunk in self.chunks:
            conductance, probability = _conductance(chunk)
            variance = np.square(conductance / self.unit) * (1.0 - probability)
            # merging takes positive numbers alone
            weight = np.maximum(variance, _NOTHING).astype(np.float32)
            yield _Variance(chunk.u, chunk.v, weight, (probability > 0.0).astype(np.float32))


def _conductance(chunk: EdgeChunk) -> tuple[FloatArray, FloatArray]:
    """(n_records,) float64 conductances and probabilities, 0 of records that are gone."""
    weight = np.asarray(chunk.weight, np.float64)
    if chunk.keep_probability is None:
        return weight, np.ones_like(weight)
    probability = np.asarray(chunk.keep_probability, np.float64)
    conductance = np.zeros_like(weight)
    np.divide(weight, probability, out=conductance, where=probability > 0.0)
    return conductance, probability
