"""Raw-edge passes over the files of one snapshot, in the memory of a few blocks per thread.

The raw edges are those of the files that the stream had absorbed when the snapshot was published.
Each file is the file that was absorbed, by its digest, or it is named as missing or changed and
nothing is computed. Files whose ids are dense already and that lie on this machine are read where
they are; all others (ids to look up, copies from an object store) are spooled by the first pass.

Passes are folds over spans of the files (`edge_folds`), run by threads of this process or by the
workers of a dask scheduler, with the same bits. Files are checked and spooled by this process
alone, which has the node index; workers must see files and spool under the same paths.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias, TypeVar

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.streaming.cluster.ordered_folds import Fold, FoldExecutor, ThreadExecutor
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock, drop_self_loops
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import PART_ROWS, EdgeFile, StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.kernels.edge_passes import LANE_COLUMNS
from peewit.streaming.nodes.index import DenseNodes, Nodes, open_nodes
from peewit.streaming.passes.edge_folds import (
    Components,
    Degrees,
    LaplacianProduct,
    RawComponents,
    Span,
    cut_spans,
    n_lanes,
)
from peewit.streaming.passes.raw_edge_spool import Spool, SpooledFile
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, CheckpointStore
from peewit.streaming.snapshots.store import SnapshotMeta

_SHOWN_FILES: Final = 3

OnFraction: TypeAlias = Callable[[float], None]
_SharedT = TypeVar("_SharedT")
_PartialT = TypeVar("_PartialT")


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
    executor : FoldExecutor or None
        Computes the passes; None does it in ``n_threads`` threads, as far as their memory allows.
        Results do not depend on it either.
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
        executor: FoldExecutor | None = None,
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
        self._executor = executor or ThreadExecutor(min(n_threads, n_lanes(n_nodes)))
        self._chunk_rows = chunk_rows
        self._spans: list[Span] = []
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
        sizes = [file.n_rows for file in self._files]
        self._spans = cut_spans(list(zip(self._opened, sizes, strict=True)), self._n_nodes)

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
        found = self._fold(Components(n_nodes=self._n_nodes), None, on_fraction, cancelled)
        if found.n_edges != self.n_edges:
            raise RawEdgesGone(
                [("all files", f"{self.n_edges} edges were absorbed, got {found.n_edges}")]
            )
        return found

    def laplacian_product(
        self,
        block: FloatArray,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """The Laplacian of the raw graph times ``block``, in one pass.

        Differences are summed edge by edge, so that constant vectors give exactly zero. Memory:
        `edge_folds.product_bytes`.

        Parameters
        ----------
        block : (n_nodes, k) float64
            Vectors.
        on_fraction : callable
            Told the part of the pass that is done, in [0, 1]; in any thread, one at a time.
        cancelled : callable
            Asked between chunks; several times a second where others compute.

        Returns
        -------
        (n_nodes, k) float64
            The same bits whatever the threads and the executor.

        Raises
        ------
        ValueError
            ``block`` has another shape.
        RawEdgesGone, PassStopped, OSError
            As `open`.
        ClusterError
            Of an executor that is a cluster.
        """
        if block.ndim != 2 or block.shape[0] != self._n_nodes:
            raise ValueError(f"block must have shape ({self._n_nodes}, k), got {block.shape}")
        product = np.empty_like(block, order="C")
        fold = LaplacianProduct(n_nodes=self._n_nodes)
        found = self._fold(fold, block, on_fraction, cancelled)
        for group, sums in enumerate(found):
            product[:, group * LANE_COLUMNS : (group + 1) * LANE_COLUMNS] = sums
        return product

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
        return self._fold(Degrees(n_nodes=self._n_nodes), None, on_fraction, cancelled)

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
        with closing(self._read(staged)) as reading, self._pool() as pool:
            for load in islice(reading, 1):
                yield load()  # alone: the first lookup builds the index's table
            while loads := list(islice(reading, self._n_threads)):
                if cancelled():
                    raise PassStopped
                yield from pool.map(lambda load: load(), loads)
        if not staged.is_unchanged():
            raise BadEdges("its content changed while it was read")

    def _fold(
        self,
        fold: Fold[Span, _SharedT, _PartialT],
        shared: _SharedT,
        on_fraction: OnFraction,
        cancelled: Callable[[], bool],
    ) -> _PartialT:
        """One pass: the fold of all spans."""
        self._require_unchanged()
        n_rows = max(sum(span.n_rows for span in self._spans), 1)
        n_done = 0
        counting = Lock()

        def advance(n_more: int) -> None:
            nonlocal n_done
            if cancelled():
                raise PassStopped
            with counting:
                n_done += n_more
                if n_more:
                    on_fraction(n_done / n_rows)

        with self._content_faults():
            found = self._executor.fold(fold, self._spans, shared, advance)
        self._require_unchanged()
        return found

    def _read(self, staged: StagedFile) -> Generator[Callable[[], EdgeBlock], None, None]:
        """How to turn every part of a file into edges between dense ids; reads ahead."""
        reading = read_parts(
            [(staged, part) for part in staged.parts],
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


@contextmanager
def snapshot_edges(
    paths: GraphPaths,
    meta: SnapshotMeta,
    *,
    spool: Path,
    staging: Path,
    n_threads: int,
    scheduler: str | None = None,
) -> Iterator[RawEdges]:
    """The raw edges of exactly the files that a snapshot was made of, not opened yet.

    With ``scheduler``, the address of a dask scheduler, its workers compute the passes; there is no
    going back to threads where it fails.

    Raises
    ------
    ClusterError
        The scheduler does not answer.
    ValueError
        ``scheduler`` needs a package that is missing; or edges were deleted before the snapshot,
        which the files still hold.
    """
    if meta.n_deletes or meta.n_removals:  # rows that delete are no edges, whatever they found
        raise ValueError(
            f"snapshot {meta.number} must be of a graph without deletions for passes over its raw "
            f"edges, which still hold what was deleted; {meta.n_removals:,} pairs were"
        )
    with ExitStack() as connections:
        executor: FoldExecutor | None = None
        if scheduler is not None:
            from peewit.streaming.cluster.dask_folds import DaskExecutor  # noqa: PLC0415 - slow; only clusters need it

            executor = connections.enter_context(DaskExecutor(scheduler))
        yield RawEdges(
            CheckpointStore(paths.checkpoints).first_files(meta.n_files),
            nodes=open_nodes(
                paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, writable=False
            ),
            node_kind=meta.node_kind,
            n_nodes=meta.n_nodes,
            spool=Spool(spool),
            staging=staging,
            n_threads=n_threads,
            executor=executor,
        )


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
