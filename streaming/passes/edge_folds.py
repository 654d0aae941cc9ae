"""Folds over raw edges: the product with their Laplacian, degrees, arcs, components; their spans.

A span is a run of consecutive chunks of opened files. Where it ends depends on the files and the
number of nodes alone, and so does its result: spans are the units that threads and dask workers
compute.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count, groupby
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int32Array, UInt64Array, frozen_all
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.streaming.cluster.ordered_folds import MAX_ITEMS, Advance
from peewit.streaming.cluster.sparsified_shares import SHARE_ROWS
from peewit.streaming.durable_files import naming
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.kernels.arc_counts import count_arcs
from peewit.streaming.kernels.edge_passes import (
    LANE_COLUMNS,
    add_edge_differences,
    all_roots,
    join_ends,
)
from peewit.streaming.log.logged_files import LiveFile
from peewit.streaming.nodes.index import DenseNodes
from peewit.streaming.passes.raw_edge_spool import SpooledFile

MAX_LANES: Final = 4
LANE_BYTES: Final = 1 << 30
"""Bound on the bytes of all lanes together, 64 bytes per node each; one lane is always there."""

SPAN_EDGES: Final = 8
"""Edges of a span per node, so that its work is ten times that of its sums."""

_CACHE_LINE: Final = 64

OpenedFile: TypeAlias = StagedFile | SpooledFile | LiveFile
"""A file of edges in dense ids, in place, spooled, or of the log."""

Sums: TypeAlias = tuple[FloatArray, ...]
"""Sums of a product, four columns each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows that are read at once."""

    file: OpenedFile
    number: int  # of the block of a spooled file, or of the part of a staged one
    n_rows: int  # approximate for a spooled file
    position: int  # among the chunks of all files
    part: Part | None = None  # of a staged file
    factor: float = 1.0  # of the weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive chunks, and the sum of their rows."""

    chunks: tuple[Chunk, ...]
    n_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplacianProduct:
    """Fold of the Laplacian of the raw graph times a block of vectors, (A1) edge by edge."""

    n_nodes: int

    def partial(self, item: Span, shared: FloatArray, advance: Advance) -> Sums:
        """Product of (n_nodes, k) ``shared`` with the edges of a span, in their order."""
        lanes = _lanes_of(shared)
        for edges in _blocks(item, self.n_nodes, advance):
            u, v, weight = frozen_all(edges.u, edges.v, edges.weight)
            for lane in lanes:
                add_edge_differences(u, v, weight, lane)
        sums = []
        for first in range(0, shared.shape[1], LANE_COLUMNS):
            n_columns = min(LANE_COLUMNS, shared.shape[1] - first)
            sums.append(lanes.pop(0)[:, LANE_COLUMNS : LANE_COLUMNS + n_columns].copy())
        return tuple(sums)

    def merge(self, a: Sums, b: Sums) -> Sums:
        """Sums of both."""
        return tuple(of_a + of_b for of_a, of_b in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """Fold of the weights and numbers of edges at every node."""

    n_nodes: int

    def partial(self, item: Span, shared: None, advance: Advance) -> FullDegrees:  # noqa: ARG002 - a fold's
        """Degrees by the edges of a span."""
        weight, n_edges = np.zeros(self.n_nodes), np.zeros(self.n_nodes, np.int64)
        for edges in _blocks(item, self.n_nodes, advance):
            for ends in (edges.u, edges.v):
                np.add.at(weight, ends, edges.weight)
                np.add.at(n_edges, ends, 1)
        return FullDegrees(weight=weight, n_edges=n_edges)

    def merge(self, a: FullDegrees, b: FullDegrees) -> FullDegrees:
        """Degrees by the edges of both."""
        return FullDegrees(weight=a.weight + b.weight, n_edges=a.n_edges + b.n_edges)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArcSums:
    """What every node sends and receives: (n_nodes, 2) each, in this order."""

    weight: FloatArray
    partners: UInt64Array  # a bit for each 64th of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Arcs:
    """Fold of the edges from and to every node."""

    n_nodes: int

    def partial(self, item: Span, shared: None, advance: Advance) -> ArcSums:  # noqa: ARG002 - a fold's
        """Sums by the edges of a span."""
        shape = (self.n_nodes, 2)
        sums = ArcSums(weight=np.zeros(shape), partners=np.zeros(shape, np.uint64))
        for edges in _blocks(item, self.n_nodes, advance):
            u, v, weight = frozen_all(edges.u, edges.v, edges.weight)
            count_arcs(u, v, weight, sums.weight, sums.partners)
        return sums

    def merge(self, a: ArcSums, b: ArcSums) -> ArcSums:
        """Sums by the edges of both."""
        return ArcSums(weight=a.weight + b.weight, partners=a.partners | b.partners)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawComponents:
    """Connected components of the raw graph; a node without edges is one."""

    n_edges: int  # without self-loops, each parallel edge counted
    n_components: int
    component: Int32Array  # (n_nodes,), the smallest node of each node's component


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Fold of the connected components."""

    n_nodes: int

    def partial(self, item: Span, shared: None, advance: Advance) -> RawComponents:  # noqa: ARG002 - a fold's
        """Components by the edges of a span."""
        parent = np.arange(self.n_nodes, dtype=np.int32)
        n_joins = n_edges = 0
        for edges in _blocks(item, self.n_nodes, advance):
            u, v = frozen_all(edges.u, edges.v)
            n_joins += join_ends(u, v, parent)
            n_edges += len(edges.u)
        root = np.empty_like(parent)
        all_roots(parent, root)
        return RawComponents(n_edges=n_edges, n_components=self.n_nodes - n_joins, component=root)

    def merge(self, a: RawComponents, b: RawComponents) -> RawComponents:
        """Components by the edges of both: every node of b is joined to its smallest."""
        component, n_joins = joined(a.component, b.component)
        return RawComponents(
            n_edges=a.n_edges + b.n_edges,
            n_components=a.n_components - n_joins,
            component=component,
        )


def joined(a: Int32Array, b: Int32Array) -> tuple[Int32Array, int]:
    """Smallest node of each node's component by the edges of both, and the number of new joins.

    ``a`` and ``b``, (n_nodes,) each, name the smallest nodes by the edges of either.
    """
    parent, root = a.copy(), np.empty_like(a)
    nodes, smallest = frozen_all(np.arange(a.size, dtype=np.int32), b)
    n_joins = join_ends(nodes, smallest, parent)
    all_roots(parent, root)
    return root, n_joins


def cut_spans(
    files: Sequence[tuple[OpenedFile, int]],
    n_nodes: int,
    weights: Mapping[str, float] | None = None,
    *,
    only: str | None = None,
) -> list[Span]:
    """Spans of opened files, each given with its number of rows; at least one, even without chunks.

    ``weights`` multiply those of the edges of relations, by name; of 0 they are not read, as those
    of other relations than ``only`` one.

    A span ends at the end of a row group, if there is one within ``SHARE_ROWS`` rows: slices of a
    row group are cheap only for whoever has read the slices before them.
    """
    n_rows = sum(rows for _, rows in files)
    least = max(-(-n_rows // MAX_ITEMS), SPAN_EDGES * n_nodes, 1)
    spans: list[Span] = []
    taken: list[Chunk] = []
    n_taken = 0
    for relation, chunk in _chunks(files, weights or {}):
        if chunk.factor == 0.0 or only not in {None, relation}:
            continue
        begins_group = chunk.part is None or chunk.part.skipped_rows == 0
        if n_taken >= least and (begins_group or n_taken >= max(SHARE_ROWS, least)):
            spans.append(Span(chunks=tuple(taken), n_rows=n_taken))
            taken, n_taken = [], 0
        taken.append(chunk)
        n_taken += chunk.n_rows
    return [*spans, Span(chunks=tuple(taken), n_rows=n_taken)]


def n_lanes(n_nodes: int) -> int:
    """Spans that one process adds up at a time; depends on the number of nodes alone."""
    return max(1, min(MAX_LANES, LANE_BYTES // (_CACHE_LINE * max(n_nodes, 1))))


def product_bytes(n_nodes: int, n_columns: int) -> int:
    """Memory of a product with so many columns in threads, beside the product itself.

    Four columns take a cache line of each lane and half of one for each of three sums that merge;
    each lane takes half a line more while its sums are copied.
    """
    half = _CACHE_LINE // 2
    n_groups, lanes = -(-n_columns // LANE_COLUMNS), n_lanes(n_nodes)
    return n_nodes * half * (n_groups * (2 * lanes + 3) + lanes) if n_columns else 0


def _chunks(
    files: Sequence[tuple[OpenedFile, int]], weights: Mapping[str, float]
) -> Iterator[tuple[str, Chunk]]:
    """Chunks of all files, each with its relation."""
    position = count()
    for file, n_rows in files:
        if isinstance(file, StagedFile):
            bare = file.without_parts()
            for part in file.parts:
                yield (
                    part.relation,
                    Chunk(
                        file=bare,
                        number=part.number,
                        n_rows=part.n_rows,
                        position=next(position),
                        part=part,
                        factor=weights.get(part.relation, 1.0),
                    ),
                )
        else:
            for number in range(file.n_batches):
                first, end = (n_rows * index // file.n_batches for index in (number, number + 1))
                of_file = file.only(number) if isinstance(file, LiveFile) else file
                yield (
                    file.relation,
                    Chunk(
                        file=of_file,
                        number=number,
                        n_rows=end - first,
                        position=next(position),
                        factor=weights.get(file.relation, 1.0),
                    ),
                )


def _blocks(span: Span, n_nodes: int, advance: Advance) -> Iterator[EdgeBlock]:
    """The edges of every chunk of a span, in order; raises BadEdges or OSError."""
    for file, chunks in groupby(span.chunks, lambda chunk: chunk.file):
        in_file = list(chunks)
        reading = (
            _read_staged(file, in_file, n_nodes)
            if isinstance(file, StagedFile)
            else _read_blocks(file, in_file)
        )
        with closing(reading) as blocks:
            for chunk, edges in zip(in_file, blocks, strict=True):
                yield edges if chunk.factor == 1.0 else _times(edges, chunk.factor)
                advance(chunk.n_rows)


def _times(edges: EdgeBlock, factor: float) -> EdgeBlock:
    """The edges with their weights times a factor."""
    return replace(edges, weight=(edges.weight * factor).astype(np.float32))


def _read_blocks(
    file: SpooledFile | LiveFile, chunks: Sequence[Chunk]
) -> Generator[EdgeBlock, None, None]:
    with naming(file.path):
        yield from (file.block(chunk.number) for chunk in chunks)


def _read_staged(
    file: StagedFile, chunks: Sequence[Chunk], n_nodes: int
) -> Generator[EdgeBlock, None, None]:
    """Edges of parts, which another thread reads ahead."""
    path = Path(file.local_path)
    n_bytes = path.stat().st_size
    if n_bytes != file.stamp[0]:  # inode and device are others on another machine
        raise BadEdges(f"{path} must have {file.stamp[0]} bytes, as it was ingested, got {n_bytes}")
    nodes = DenseNodes(max_nodes=max(n_nodes, 1))
    reading = read_parts(
        [(file, chunk.part) for chunk in chunks if chunk.part is not None],
        node_kind="dense",
        max_nodes=max(n_nodes, 1),
        n_threads=1,
    )
    with naming(path), closing(reading) as raw_blocks:
        yield from map(nodes.map_block, raw_blocks)


def _lanes_of(block: FloatArray) -> list[FloatArray]:
    """Accumulators of one lane, one for every four columns of ``block``, on cache lines."""
    lanes = []
    for first in range(0, block.shape[1], LANE_COLUMNS):
        columns = block[:, first : first + LANE_COLUMNS]
        lane = _aligned_zeros(block.shape[0])
        lane[:, : columns.shape[1]] = columns
        lanes.append(lane)
    return lanes


def _aligned_zeros(n_nodes: int) -> FloatArray:
    """(n_nodes, 8) zeros that begin at a cache line."""
    per_line = _CACHE_LINE // 8
    room = np.zeros(n_nodes * per_line + per_line)
    skipped = -room.ctypes.data % _CACHE_LINE // 8
    return room[skipped : skipped + n_nodes * per_line].reshape(n_nodes, per_line)
