"""Raw-edge passes over the files of one snapshot, in the memory of a few blocks per thread.

The raw edges are those of the files that the stream had absorbed when the snapshot was published.
Each file must still have the digest that was absorbed; else it is named as missing or changed and
nothing is computed. Files on this machine with dense ids are read in place; all others (ids to look
up, copies from an object store) are spooled by the first pass. This process alone, which has the
node index, checks and spools; dask workers must see files and spool under the same paths. A graph
with exact deletes has a log, which is read instead.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from peewit.streaming.cluster.ordered_folds import FoldExecutor
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock, edges_of
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import (
    PART_ROWS,
    EdgeFile,
    FileUnreadable,
    Part,
    StagedFile,
    is_again,
)
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.logged_files import LiveFile, LogFileMissing
from peewit.streaming.nodes.index import DenseNodes, Nodes, open_nodes
from peewit.streaming.passes.edge_folds import OpenedFile
from peewit.streaming.passes.edge_passes import (
    EdgePasses,
    OnFraction,
    PassStopped,
    RawEdgesGone,
    raise_if_any,
)
from peewit.streaming.passes.log_folds import by_batches
from peewit.streaming.passes.raw_edge_spool import Spool, SpooledFile
from peewit.streaming.problems import Conflict
from peewit.streaming.snapshots.checkpoints import (
    AbsorbedFile,
    CheckpointStore,
    FilesMovedOn,
    living,
)
from peewit.streaming.snapshots.provenance import RelationMeta, SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore


class RawEdgesMovedOn(Conflict, ValueError):
    """Files of the snapshot were retracted or replaced since, or its edges were deleted by rows.

    ``newest`` is the newest snapshot whose raw edges can be passed over; None where there is none.
    """

    title = "Raw edges moved on"

    def __init__(self, reason: str, *, snapshot: int, newest: int | None) -> None:
        instead = "no snapshot is" if newest is None else f"the newest such snapshot is {newest}"
        super().__init__(f"snapshot {snapshot} must be {reason}; {instead}")
        self.snapshot = snapshot
        self.newest = newest


class RawEdges(EdgePasses):
    """Raw edges of one snapshot, read anew for every pass.

    ``files`` come from `CheckpointStore.first_files`; ``nodes`` are open for reading and searched
    only where ids are not dense. ``spool`` keeps dense ids for later passes, ``staging`` copies of
    remote files while they are spooled. At most ``chunk_rows`` rows are read at once; sums depend
    on it in their last bits. Other arguments are as of `EdgePasses`.
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
        relations: Sequence[RelationMeta] = (),
        weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(n_nodes=n_nodes, n_threads=n_threads, executor=executor, weights=weights)
        self._relations = tuple(relations)
        self._files = tuple(files)
        self._nodes = DenseNodes(max_nodes=max(n_nodes, 1)) if node_kind == "dense" else nodes
        self._node_kind: NodeKind = node_kind
        self._spool = spool
        self._staging = staging
        self._chunk_rows = chunk_rows

    @property
    def n_edges(self) -> int:
        """Edges, as counted when they were absorbed."""
        if self._weights:
            return _n_weighed(self._relations, self._weights)
        return sum(file.n_rows - file.left_out.total for file in self._files)

    def open(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Check every file and spool those that need it; raises as `EdgePasses.open`.

        Names are checked first, so that missing files are reported at once; digests follow. A newer
        version of a file is no fault while its content is the same.
        """
        spooled = {file.edges_key: self._find(file) for file in self._files}
        missing = [file for file in self._files if spooled[file.edges_key] is None]
        raise_if_any([(file.path, "it is missing") for file in missing if _is_missing(file)])
        faults: list[tuple[str, str]] = []
        files: list[tuple[OpenedFile, int]] = []
        n_rows, n_done = sum(file.n_rows for file in missing), 0
        for file in self._files:
            if cancelled():
                raise PassStopped
            opened: Sequence[OpenedFile] | None = spooled[file.edges_key]
            if opened is None:
                try:
                    opened = self._check(file, cancelled)
                except (BadEdges, FileNotFoundError) as error:
                    faults.append((file.path, _fault(error)))
                    continue
                n_done += file.n_rows
                on_fraction(n_done / n_rows if n_rows else 1.0)
            files += [(each, file.n_rows // len(opened)) for each in opened]
        raise_if_any(faults)
        self._cut(files)

    def _find(self, file: AbsorbedFile) -> list[SpooledFile] | None:
        """The spooled edges of a file, of each relation; None unless all are there."""
        of_relations = [self._spool.find(file.edges_key, each) for each in file.relations]
        found = [each for each in of_relations if each is not None]
        return found if len(found) == len(of_relations) else None

    def _check(
        self, file: AbsorbedFile, cancelled: Callable[[], bool]
    ) -> Sequence[StagedFile | SpooledFile]:
        """The file to read in later passes; raises BadEdges unless it is what was absorbed."""
        with stage(
            present_file(file), self._staging, node_kind=self._node_kind, part_rows=self._chunk_rows
        ) as staged:
            if file.digest not in staged.digests:
                raise BadEdges("its content has changed since it was ingested")
            if self._node_kind == "dense" and not staged.is_copy:
                return [staged]
            return [
                self._spool.write(
                    file.edges_key, self._blocks_of(staged, relation, cancelled), relation
                )
                for relation in file.relations
            ]

    def _blocks_of(
        self, staged: StagedFile, relation: str, cancelled: Callable[[], bool]
    ) -> Iterator[EdgeBlock]:
        parts = [part for part in staged.parts if part.relation == relation]
        with closing(self._read(staged, parts)) as reading, self._pool() as pool:
            for load in islice(reading, 1):
                yield load()  # alone: the first lookup builds the index's table
            while loads := list(islice(reading, self._n_threads)):
                if cancelled():
                    raise PassStopped
                yield from pool.map(lambda load: load(), loads)
        if not staged.is_unchanged():
            raise BadEdges("its content changed while it was read")

    def _read(
        self, staged: StagedFile, parts: Sequence[Part]
    ) -> Generator[Callable[[], EdgeBlock], None, None]:
        """How to turn some parts of a file into edges between dense ids; reads ahead."""
        reading = read_parts(
            [(staged, part) for part in parts],
            node_kind=self._node_kind,
            max_nodes=self._n_nodes,
            n_threads=self._n_threads,
        )
        with closing(reading) as raw_blocks:
            for raw in raw_blocks:
                yield partial(self._edges_of, raw)

    def _edges_of(self, raw: RawBlock) -> EdgeBlock:
        """The edges of a block between dense ids."""
        if isinstance(self._nodes, DenseNodes):
            return self._nodes.map_block(raw)
        u, v = self._nodes.lookup(raw.src), self._nodes.lookup(raw.dst)
        if len(u) and min(u.min(), v.min()) < 0:
            raise BadEdges("it holds a node that the snapshot does not know")
        return edges_of(
            u, v, raw.weight, has_zero_weights=raw.has_zero_weights, n_empty=raw.n_empty
        )

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._n_threads, thread_name_prefix="raw-edges")


class LoggedEdges(EdgePasses):
    """Living edges of one snapshot, from the logs of a graph whose deletes are exact.

    ``logs`` has one for each relation, ``files`` are those of the snapshot, in order.
    """

    def __init__(
        self,
        logs: Mapping[str, ChangeLog],
        files: Sequence[AbsorbedFile],
        meta: SnapshotMeta,
        *,
        n_threads: int,
        executor: FoldExecutor | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(
            n_nodes=meta.n_nodes, n_threads=n_threads, executor=executor, weights=weights
        )
        self._logs = logs
        self._files = tuple(files)
        self._meta = meta

    @property
    def n_edges(self) -> int:
        """Edges that lived when the snapshot was published."""
        if self._weights:
            return _n_weighed(self._meta.relations, self._weights)
        return self._meta.n_live or 0

    def open(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open the log as it stood when the snapshot was published; see `EdgePasses.open`."""
        if cancelled():
            raise PassStopped
        with self._content_faults():
            files = [file for relation in self._logs for file in self._live_files(relation)]
        self._cut(by_batches(files, self._meta.n_edges))
        on_fraction(1.0)

    def _live_files(self, relation: str) -> Iterator[LiveFile]:
        log = self._logs[relation]
        dead = log.dead(self._meta.log_versions[relation])
        for digest in living(self._files, dead.horizon, relation):
            yield replace(dead.without(log.file(digest, dead)), relation=relation)

    @contextmanager
    def _content_faults(self) -> Iterator[None]:
        """Raise RawEdgesGone for what a log leads to that has lost edges of the snapshot."""
        try:
            with super()._content_faults():
                yield
        except LogFileMissing as error:
            fault = "the log has moved on since the snapshot; take a newer one"
            raise RawEdgesGone([(str(error.path), fault)]) from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldEdges:
    """The files of a snapshot and its logs, whatever becomes of the graph's own."""

    files: tuple[AbsorbedFile, ...]
    logs: Mapping[str, ChangeLog]


def hold_edges(paths: GraphPaths, meta: SnapshotMeta, directory: Path) -> HeldEdges:
    """Hold what passes over the edges of a snapshot read, by second names in ``directory``.

    Files outside the graph's directory are theirs who brought them. Raises as `snapshot_files`, and
    OSError or `LogFileMissing` where the log cannot be held.
    """
    files = snapshot_files(paths, meta)
    logs = {}
    for number, (relation, log) in enumerate(_logs(paths, meta).items() if meta.has_log else ()):
        version = meta.log_versions[relation]
        digests = living(files, log.dead(version).horizon, relation)
        logs[relation] = log.linked(directory / str(number), digests, version)
    return HeldEdges(files=files, logs=logs)


def spool_directory(paths: GraphPaths, own: Path, *, keep_raw: bool) -> Path:
    """Where the edges of a snapshot are spooled: a directory of the graph, or ``own``."""
    return paths.root / "spool" if keep_raw else own


def require_files(files: Sequence[AbsorbedFile]) -> None:
    """Raise RawEdgesGone or FileUnreadable where files are not there, by a look at their names."""
    raise_if_any([(file.path, "it is missing") for file in files if _is_missing(file)])


def snapshot_files(paths: GraphPaths, meta: SnapshotMeta) -> tuple[AbsorbedFile, ...]:
    """The files that a snapshot was made of, in order.

    Raises `RawEdgesMovedOn` where some were retracted or replaced since, and ValueError where the
    state of the graph was lost and fewer files are known.
    """
    try:
        return CheckpointStore(paths.checkpoints).first_files(meta.n_files, meta.files_digest)
    except FilesMovedOn as error:
        raise _moved_on(paths, meta, error) from None


def require_raw_edges(paths: GraphPaths, meta: SnapshotMeta) -> None:
    """Raise as `snapshot_files`, also where the log of the snapshot is no longer kept."""
    try:
        _require_known(paths, meta)
    except FilesMovedOn as error:
        raise _moved_on(paths, meta, error) from None


def _require_known(paths: GraphPaths, meta: SnapshotMeta) -> None:
    files = CheckpointStore(paths.checkpoints).first_files(meta.n_files, meta.files_digest)
    if not meta.has_log:
        return
    for relation, log in _logs(paths, meta).items():
        version = meta.log_versions[relation]
        has_version = log.keeps(version)
        horizon = log.dead(version).horizon if has_version else NEVER
        if not (has_version and log.keeps(version, living(files, horizon, relation))):
            raise FilesMovedOn("of a moment that the log still knows; edges were deleted since")


def _logs(paths: GraphPaths, meta: SnapshotMeta) -> dict[str, ChangeLog]:
    """The log of each relation of a snapshot."""
    return {
        relation: ChangeLog(paths.relation_log(number))
        for number, relation in enumerate(meta.log_versions)
    }


def _moved_on(paths: GraphPaths, meta: SnapshotMeta, error: FilesMovedOn) -> RawEdgesMovedOn:
    """The error, with the newest snapshot whose raw edges are known."""
    snapshots = SnapshotStore(paths.snapshots)
    newest = None
    for number in reversed(snapshots.numbers()):
        with suppress(ValueError, SnapshotNotFound):
            _require_known(paths, snapshots.meta(number))
            newest = number
            break
    return RawEdgesMovedOn(str(error), snapshot=meta.number, newest=newest)


@contextmanager
def snapshot_edges(
    paths: GraphPaths,
    meta: SnapshotMeta,
    *,
    spool: Path,
    staging: Path,
    n_threads: int,
    scheduler: str | None = None,
    weights: Mapping[str, float] | None = None,
    held: HeldEdges | None = None,
) -> Iterator[EdgePasses]:
    """The raw edges of exactly the files that a snapshot was made of, not opened yet.

    ``held`` are those that `hold_edges` holds of the same snapshot; None reads the graph's own.
    ``weights`` multiply those of the edges of relations, by name. Where deletions are on these are
    the living ones of the log. With ``scheduler``, the address of a dask scheduler, its workers
    compute the passes, with no going back to threads where it fails. Raises as `snapshot_files`,
    ClusterError where the scheduler does not answer, and ValueError where a package for it is
    missing.
    """
    files = snapshot_files(paths, meta) if held is None else held.files
    if meta.n_erased and not meta.has_log:  # a log has lost them
        raise ValueError(
            f"snapshot {meta.number} must be of a graph without erased nodes for passes over its "
            f"raw edges, which files may still hold; {meta.n_erased:,} were erased"
        )
    with ExitStack() as connections:
        executor: FoldExecutor | None = None
        if scheduler is not None:
            from peewit.streaming.cluster.dask_folds import DaskExecutor  # noqa: PLC0415 - slow; only clusters need it

            executor = connections.enter_context(DaskExecutor(scheduler))
        if meta.has_log:
            logs = _logs(paths, meta) if held is None else held.logs
            yield LoggedEdges(
                logs, files, meta, n_threads=n_threads, executor=executor, weights=weights
            )
            return
        yield RawEdges(
            files,
            nodes=open_nodes(
                paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, writable=False
            ),
            node_kind=meta.node_kind,
            n_nodes=meta.n_nodes,
            spool=Spool(spool),
            staging=staging,
            n_threads=n_threads,
            executor=executor,
            relations=meta.relations,
            weights=weights,
        )


def _n_weighed(relations: Sequence[RelationMeta], weights: Mapping[str, float]) -> int:
    """Number of edges in the relations that have a weight."""
    return sum(each.n_edges for each in relations if weights.get(each.name, 1.0) > 0.0)


def present_file(file: AbsorbedFile) -> EdgeFile:
    """The file as it stands now; raises FileNotFoundError where it is gone, or FileUnreadable."""
    source = EdgeFiles(file.path, columns=file.columns, max_bad_rows=file.max_bad_rows)
    try:
        files = source.list()
    except FileNotFoundError:
        raise
    except Exception as error:  # file systems raise what they like
        listed = EdgeFile(path=file.path, size=0, version=file.version)
        raise FileUnreadable(listed, error) from error
    if len(files) != 1 or files[0].path != file.path:
        raise FileNotFoundError(file.path)
    return replace(files[0], again=is_again(file.digest))


def _is_missing(file: AbsorbedFile) -> bool:
    try:
        present_file(file)
    except FileNotFoundError:
        return True
    return False


def _fault(error: BadEdges | FileNotFoundError) -> str:
    return "it is missing" if isinstance(error, FileNotFoundError) else str(error)
