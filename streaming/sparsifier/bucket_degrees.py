"""What the edges of each bucket of a window weigh, where no log tells it when they leave (B26)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, frozen
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.kernels.pair_positions import add_live_degrees


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BucketDegrees:
    """Exact degrees by bucket, in the order of time.

    Attributes
    ----------
    buckets : tuple of int
        Numbers of the buckets that have edges, ascending.
    n_edges : tuple of int
        Edges that came in each, self-loops not counted.
    degrees : tuple of (n_reached,) float32
        What they weigh at each node, zero beyond the last one that an edge reached.
    """

    buckets: tuple[int, ...] = ()
    n_edges: tuple[int, ...] = ()
    degrees: tuple[Float32Array, ...] = ()

    def of(self, bucket: int, n_nodes: int) -> FloatArray:
        """(n_nodes,) float64 degrees of the edges of one bucket."""
        degree = np.zeros(n_nodes)
        if bucket in self.buckets:
            known = self.degrees[self.buckets.index(bucket)]
            degree[: known.size] = known
        return degree

    def total(self, n_nodes: int) -> FloatArray:
        """(n_nodes,) float64 degrees of the edges of all buckets."""
        degree = np.zeros(n_nodes)
        for each in self.degrees:
            degree[: each.size] += each
        return frozen(degree)

    def since(self, horizon: int) -> "BucketDegrees":
        """Without the buckets before some."""
        return self._of([each for each in self._rows() if each[0] >= horizon])

    def without(
        self, bucket: int, u: Int32Array, v: Int32Array, conductance: FloatArray
    ) -> "BucketDegrees":
        """Without what some records of a bucket stand for, where it is not known exactly."""
        place = self.buckets.index(bucket)
        left = self.degrees[place].astype(np.float64)
        for ends in (u, v):
            left -= np.bincount(ends, conductance, minlength=left.size)
        degrees = list(self.degrees)
        degrees[place] = frozen(np.maximum(left, 0.0).astype(np.float32))
        return replace(self, degrees=tuple(degrees))

    def with_counts(self, counted: "BucketCounter") -> "BucketDegrees":
        """With the edges of some blocks."""
        rows = {each[0]: each for each in self._rows()}
        for bucket, (n_edges, degree) in counted.found.items():
            _, n_before, before = rows.get(bucket, (bucket, 0, np.zeros(0, np.float32)))
            total = np.zeros(max(before.size, degree.size))
            total[: degree.size] = degree
            total[: before.size] += before
            rows[bucket] = bucket, n_before + n_edges, frozen(total.astype(np.float32))
        return self._of([rows[bucket] for bucket in sorted(rows)])

    @property
    def stored(self) -> dict[str, Any]:
        """What `restored` makes the same of, together with the joined degrees."""
        sizes = [each.size for each in self.degrees]
        return {"buckets": self.buckets, "n_edges": self.n_edges, "sizes": sizes}

    @classmethod
    def restored(cls, stored: dict[str, Any], joined: Float32Array) -> "BucketDegrees":
        """From what was `stored`, and the degrees one after the other."""
        parts = np.split(joined, np.cumsum(stored["sizes"])[:-1]) if stored["sizes"] else []
        return cls(
            buckets=tuple(stored["buckets"]),
            n_edges=tuple(stored["n_edges"]),
            degrees=tuple(frozen(part) for part in parts),
        )

    def _rows(self) -> Iterator[tuple[int, int, Float32Array]]:
        return zip(self.buckets, self.n_edges, self.degrees, strict=True)

    @classmethod
    def _of(cls, rows: Sequence[tuple[int, int, Float32Array]]) -> "BucketDegrees":
        if not rows:
            return cls()
        buckets, n_edges, degrees = zip(*rows, strict=True)
        return cls(buckets=buckets, n_edges=n_edges, degrees=degrees)


class BucketCounter:
    """Counts blocks on their way.

    Attributes
    ----------
    found : dict
        From a bucket to its edges, and what they weigh at each node, (n_reached,) float64.
    """

    def __init__(self) -> None:
        self.found: dict[int, tuple[int, FloatArray]] = {}

    def count(self, block: EdgeBlock) -> EdgeBlock:
        """The block, which is counted now."""
        if block.u.size:
            n_edges, degree = self.found.get(block.bucket, (0, np.zeros(0)))
            n_reached = 1 + int(max(block.u.max(), block.v.max()))
            if n_reached > degree.size:
                degree = np.concatenate([degree, np.zeros(n_reached - degree.size)])
            add_live_degrees(block.u, block.v, block.weight, np.zeros(block.u.size, bool), degree)
            self.found[block.bucket] = n_edges + block.u.size, degree
        return block
