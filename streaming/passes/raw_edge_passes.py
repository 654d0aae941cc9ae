"""Raw-edge passes over the files of one snapshot, in the memory of one block per thread.

The raw edges are those of the files that the stream had absorbed when the snapshot was published.
Each file is the file that was absorbed, by its digest, or it is named as missing or changed and
nothing is computed. Files whose ids are dense already and that lie on this machine are read where
they are; all others (ids to look up, copies from an object store) are spooled by the first pass.

Context: sums must not depend on the number of threads. Decision: chunk c belongs to lane
c mod ``n_lanes``, each lane sums its chunks in order, and the lanes are added in order; threads
only decide which lanes work at the same time. Dividing the columns among threads would let every
thread miss the cache on every edge; dividing the rows would let every thread look at every edge.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int32Array, frozen_all
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock, drop_self_loops
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import PART_ROWS, EdgeFile, StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.kernels.edge_passes import (
    LANE_COLUMNS,
    add_edge_differences,
    all_roots,
    join_ends,
)
from peewit.streaming.nodes.index import DenseNodes, Nodes, open_nodes
from peewit.streaming.passes.raw_edge_spool import Spool, SpooledFile
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, CheckpointStore
from peewit.streaming.snapshots.store import SnapshotMeta

MAX_LANES: Final = 4
LANE_BYTES: Final = 1 << 30
"""Lanes take no more than this together; one is always there, 64 bytes per node."""

_CACHE_LINE: Final = 64
_SHOWN_FILES: Final = 3

OnFraction: TypeAlias = Callable[[float], None]
_Load: TypeAlias = Callable[[], EdgeBlock]


class RawEdgesGone(ValueError):
    """Files of the snapshot are missing or hold other content than was absorbed.

    Attributes
    ----------
    files : tuple of (str, str)
        Path and fault of every such file.
    """

    def __init__(self, files: Sequence[tuple[str, str]]) -> None:
        self.files = tuple(files)
        shown = "; ".join(f"{path}: {fault}" for path, fault in files[:_SHOWN_FILES])
        more = len(files) - _SHOWN_FILES
        super().__init__(
            f"raw edges must be those that were ingested, got {len(files)} files that are not: "
            + shown
            + (f"; and {more} more" if more > 0 else "")
        )


class PassStopped(Exception):
    """A pass was asked to stop and has no result."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawComponents:
    """Connected components of the raw graph, and its number of edges.

    Attributes
    ----------
    n_edges : int
        Edges, self-loops not counted, parallel ones each.
    n_components : int
        Connected components; a node without edges is one.
    component : (n_nodes,) int32
        The smallest node of each node's component.
    """

    n_edges: int
    n_components: int
    component: Int32Array


class RawEdges:
    """Raw edges of one snapshot, read anew for every pass.

    Parameters
    ----------
    files : sequence of AbsorbedFile
        From `CheckpointStore.first_files`.
    nodes : Nodes
        The graph's index, open for reading; looked up only where the ids are not dense.
    node_kind : {"string", "int64", "dense"}
        Kind of the ids.
    n_nodes : int
        Nodes of the snapshot.
    spool : Spool
        Keeps dense ids for later passes.
    staging : Path
        Receives copies of remote files while they are spooled.
    n_threads : int
        Threads that read and multiply; results do not depend on it.
    chunk_rows : int
        Most rows that are read at once; sums depend on it in their last bits.

    Raises
    ------
    ValueError
        ``n_threads`` < 1.
    """

    def __init__(
        self,
        files: Sequence[AbsorbedFile],
        *,
        nodes: Nodes,
        node_kind: NodeKind,
        n_nodes: int,
        spool: Spool,
        staging: Path,
        n_threads: int,
        chunk_rows: int = PART_ROWS,
    ) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self._files = tuple(files)
        self._nodes = DenseNodes(max_nodes=max(n_nodes, 1)) if node_kind == "dense" else nodes
        self._node_kind: NodeKind = node_kind
        self._n_nodes = n_nodes
        self._spool = spool
        self._staging = staging
        self._n_threads = n_threads
        self._chunk_rows = chunk_rows
        self._opened: list[StagedFile | SpooledFile] = []

    @property
    def n_edges(self) -> int:
        """Edges of all files, as they were counted when they were absorbed."""
        return sum(file.n_rows - file.n_self_loops for file in self._files)

    def open(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Check every file and spool those that need it; to be called before the other methods.

        A look at the names comes first, so that what is gone is told at once; digests follow. A
        newer version of a file is no fault while its content is the same.

        Raises
        ------
        RawEdgesGone
            Files are missing or changed, with the list of them.
        PassStopped
            ``cancelled()`` was true.
        OSError
            A file cannot be read, which is no fault of its content.
        """
        spooled = {file.digest: self._spool.find(file.digest) for file in self._files}
        missing = [file for file in self._files if spooled[file.digest] is None]
        _raise_if_any([(file.path, "it is missing") for file in missing if _is_missing(file)])
        faults: list[tuple[str, str]] = []
        self._opened.clear()
        n_rows, n_done = sum(file.n_rows for file in missing), 0
        for file in self._files:
            if cancelled():
                raise PassStopped
            opened: StagedFile | SpooledFile | None = spooled[file.digest]
            if opened is None:
                try:
                    opened = self._check(file, cancelled)
                except (BadEdges, FileNotFoundError) as error:
                    faults.append((file.path, _fault(error)))
                    continue
                n_done += file.n_rows
                on_fraction(n_done / n_rows if n_rows else 1.0)
            self._opened.append(opened)
        _raise_if_any(faults)

    def components(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> RawComponents:
        """Connected components of the raw graph, in one pass.

        Raises
        ------
        RawEdgesGone, PassStopped, OSError
            As `open`; also when there are more or fewer edges than were absorbed.
        """
        parent = np.arange(self._n_nodes, dtype=np.int32)
        n_joins = n_edges = 0
        for blocks in self._rounds(lambda _lane, _block: None, on_fraction, cancelled):
            for block in blocks:
                u, v = frozen_all(block.u, block.v)
                n_joins += join_ends(u, v, parent)
                n_edges += len(block.u)
        if n_edges != self.n_edges:
            raise RawEdgesGone(
                [("all files", f"{self.n_edges} edges were absorbed, got {n_edges}")]
            )
        root = np.empty_like(parent)
        all_roots(parent, root)
        return RawComponents(n_edges=n_edges, n_components=self._n_nodes - n_joins, component=root)

    def laplacian_product(
        self,
        block: FloatArray,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """The Laplacian of the raw graph times ``block``, in one pass.

        Differences are summed edge by edge, so that constant vectors give exactly zero. Memory: 64
        bytes per node, lane and four columns.

        Parameters
        ----------
        block : (n_nodes, k) float64
            Vectors.
        on_fraction : callable
            Told the part of the pass that is done, in [0, 1].
        cancelled : callable
            Asked between chunks.

        Returns
        -------
        (n_nodes, k) float64
            The same bits whatever ``n_threads``.

        Raises
        ------
        ValueError
            ``block`` has another shape.
        RawEdgesGone, PassStopped, OSError
            As `open`.
        """
        if block.ndim != 2 or block.shape[0] != self._n_nodes:
            raise ValueError(f"block must have shape ({self._n_nodes}, k), got {block.shape}")
        lanes = [_lanes_of(block) for _ in range(n_lanes(self._n_nodes))]

        def add(lane: int, edges: EdgeBlock) -> None:
            u, v, weight = frozen_all(edges.u, edges.v, edges.weight)
            for columns in lanes[lane]:
                add_edge_differences(u, v, weight, columns)

        for _ in self._rounds(add, on_fraction, cancelled):
            pass
        return _add_sums(lanes, np.zeros_like(block, order="C"))

    def degrees(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> FullDegrees:
        """Weights and numbers of the edges at every node, in one pass.

        Raises
        ------
        RawEdgesGone, PassStopped, OSError
            As `open`.
        """
        weights = [np.zeros(self._n_nodes) for _ in range(n_lanes(self._n_nodes))]
        counts = [np.zeros(self._n_nodes, np.int64) for _ in weights]

        def add(lane: int, edges: EdgeBlock) -> None:
            for ends in (edges.u, edges.v):
                np.add.at(weights[lane], ends, edges.weight)
                np.add.at(counts[lane], ends, 1)

        for _ in self._rounds(add, on_fraction, cancelled):
            pass
        return FullDegrees(weight=np.sum(weights, axis=0), n_edges=np.sum(counts, axis=0))

    def _check(self, file: AbsorbedFile, cancelled: Callable[[], bool]) -> StagedFile | SpooledFile:
        """The file to read in later passes; raises BadEdges unless it is what was absorbed."""
        with stage(
            _stat(file), self._staging, node_kind=self._node_kind, part_rows=self._chunk_rows
        ) as staged:
            if staged.digest != file.digest:
                raise BadEdges("its content has changed since it was ingested")
            if self._node_kind == "dense" and not staged.is_copy:
                return staged
            return self._spool.write(file.digest, self._blocks_of(staged, cancelled))

    def _blocks_of(self, staged: StagedFile, cancelled: Callable[[], bool]) -> Iterator[EdgeBlock]:
        with closing(self._read([staged])) as reading, self._pool() as pool:
            for load in islice(reading, 1):
                yield load()  # alone: the first lookup builds the index's table
            while loads := list(islice(reading, self._n_threads)):
                if cancelled():
                    raise PassStopped
                yield from pool.map(lambda load: load(), loads)
        if not staged.is_unchanged():
            raise BadEdges("its content changed while it was read")

    def _rounds(
        self,
        work: Callable[[int, EdgeBlock], None],
        on_fraction: OnFraction,
        cancelled: Callable[[], bool],
    ) -> Iterator[list[EdgeBlock]]:
        """Each chunk to the work of its lane, a round of all lanes at a time; yields the rounds."""
        self._require_unchanged()
        n_done = 0

        def task(lane: int, load: _Load) -> EdgeBlock:
            block = load()
            work(lane, block)
            return block

        with self._pool() as pool, self._content_faults(), closing(self._chunks()) as chunks:
            while loads := list(islice(chunks, n_lanes(self._n_nodes))):
                if cancelled():
                    raise PassStopped
                blocks = list(pool.map(task, range(len(loads)), loads))
                del loads
                n_done += sum(len(block.u) for block in blocks)
                yield blocks
                on_fraction(min(n_done / max(self.n_edges, 1), 1.0))
        self._require_unchanged()

    def _chunks(self) -> Generator[_Load, None, None]:
        """How to load every chunk of the pass, in order; files that lie together are read ahead."""
        for is_staged, group in groupby(self._opened, lambda file: isinstance(file, StagedFile)):
            files = list(group)
            if is_staged:
                yield from self._read([file for file in files if isinstance(file, StagedFile)])
            for file in files:
                if isinstance(file, SpooledFile):
                    yield from (partial(file.block, number) for number in range(file.n_batches))

    def _read(self, staged: Sequence[StagedFile]) -> Generator[_Load, None, None]:
        """How to turn every part of some files into edges between dense ids; reads ahead."""
        reading = read_parts(
            [(file, part) for file in staged for part in file.parts],
            node_kind=self._node_kind,
            max_nodes=self._n_nodes,
            n_threads=self._n_threads,
        )
        with closing(reading) as raw_blocks:
            for raw in raw_blocks:
                yield partial(self._edges_of, raw)

    def _edges_of(self, raw: RawBlock) -> EdgeBlock:
        """The edges of a block between dense ids, without self-loops."""
        if isinstance(self._nodes, DenseNodes):
            return self._nodes.map_block(raw)
        u, v = self._nodes.lookup(raw.src), self._nodes.lookup(raw.dst)
        if len(u) and min(u.min(), v.min()) < 0:
            raise BadEdges("it holds a node that the snapshot does not know")
        return drop_self_loops(u, v, raw.weight)

    @contextmanager
    def _content_faults(self) -> Iterator[None]:
        """What a file that changes during a pass leads to, as RawEdgesGone."""
        try:
            yield
        except (BadEdges, FileNotFoundError) as error:
            self._require_unchanged()
            raise RawEdgesGone([("a file", str(error))]) from error

    def _require_unchanged(self) -> None:
        """Raise RawEdgesGone where a file that is read in place is no longer what it was."""
        _raise_if_any(
            [
                (file.file.path, "it is missing, or has changed since it was checked")
                for file in self._opened
                if isinstance(file, StagedFile) and not file.is_unchanged()
            ]
        )

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._n_threads, thread_name_prefix="raw-edges")


def spool_directory(paths: GraphPaths) -> Path:
    """Directory of a graph's spooled raw edges."""
    return paths.root / "spool"


def snapshot_edges(
    paths: GraphPaths, meta: SnapshotMeta, *, spool: Path, staging: Path, n_threads: int
) -> RawEdges:
    """The raw edges of exactly the files that a snapshot was made of, not opened yet."""
    return RawEdges(
        CheckpointStore(paths.checkpoints).first_files(meta.n_files),
        nodes=open_nodes(paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, writable=False),
        node_kind=meta.node_kind,
        n_nodes=meta.n_nodes,
        spool=Spool(spool),
        staging=staging,
        n_threads=n_threads,
    )


def n_lanes(n_nodes: int) -> int:
    """Accumulators of a pass over a graph of so many nodes; the number of nodes alone decides."""
    return max(1, min(MAX_LANES, LANE_BYTES // (_CACHE_LINE * max(n_nodes, 1))))


def product_bytes(n_nodes: int, n_columns: int) -> int:
    """Memory of the accumulators of a product with so many columns."""
    return n_lanes(n_nodes) * -(-n_columns // LANE_COLUMNS) * _CACHE_LINE * n_nodes


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


def _add_sums(lanes: Sequence[Sequence[FloatArray]], product: FloatArray) -> FloatArray:
    """Add the sums of all lanes to ``product``, in order."""
    for lane in lanes:
        for group, sums in enumerate(lane):
            columns = product[:, group * LANE_COLUMNS : (group + 1) * LANE_COLUMNS]
            columns += sums[:, LANE_COLUMNS : LANE_COLUMNS + columns.shape[1]]
    return product


def _stat(file: AbsorbedFile) -> EdgeFile:
    """The file as it stands now; raises FileNotFoundError where it is gone."""
    source = EdgeFiles(file.path, columns=file.columns, max_bad_rows=file.max_bad_rows)
    found = source.list()
    if len(found) != 1 or found[0].path != file.path:
        raise FileNotFoundError(file.path)
    return found[0]


def _is_missing(file: AbsorbedFile) -> bool:
    try:
        _stat(file)
    except FileNotFoundError:
        return True
    return False


def _fault(error: BadEdges | FileNotFoundError) -> str:
    return "it is missing" if isinstance(error, FileNotFoundError) else str(error)


def _raise_if_any(faults: Sequence[tuple[str, str]]) -> None:
    if faults:
        raise RawEdgesGone(faults)
