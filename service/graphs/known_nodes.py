"""Known nodes of a graph: those of its node index, and those of pushes and features that wait.

A reader's side of `peewit.streaming.nodes.index`: indexes are opened for reading, kept, and
followed up to the last committed file. Any number of threads may ask.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.leaving.erasures import NOTHING, Hidden
from peewit.service.inbox.manifest import Manifest
from peewit.service.tables.formats import json_integer
from peewit.solvers.arrays import BoolArray, Int32Array, Int64Array, frozen
from peewit.streaming.features.feature_files import set_owners
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import Nodes, open_nodes
from peewit.streaming.snapshots.checkpoints import CheckpointStore

MAX_OPEN: Final = 16
"""Indexes kept open at once; one with a table takes 27 to 54 bytes per node."""

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class _Set:
    path: Path


_Block = Path | bytes | _Set | None
"""Edges in a file or an Arrow stream, a set of features, or a block that is gone."""


class KnownNodes:
    """Node lookup in the graphs of one home directory.

    External ids are large_string arrays for node kind ``string``, else int64.
    """

    def __init__(self, graphs_directory: Path, manifest: Manifest) -> None:
        self._graphs_directory = graphs_directory
        self._manifest = manifest
        # With `erasures_seq`, as an erasure changes what an index holds.
        self._indexes: OrderedDict[str, tuple[int, _Index]] = OrderedDict()
        self._lock = Lock()

    def lookup(self, graph: GraphRecord, nodes: pa.Array) -> Int32Array:
        """Dense ids of external ones, -1 where no committed file has the node."""
        return self._without_hidden(graph, nodes, self._index(graph).lookup(nodes))

    def committed(self, graph: GraphRecord, nodes: pa.Array) -> Int32Array:
        """The same with hidden nodes, which no reader may know."""
        return self._index(graph).lookup(nodes)

    def cached_ids(self, graph: GraphRecord, nodes: pa.Array) -> Int32Array | None:
        """Dense ids if memory has all of them; None if a file or a lock must be waited for."""
        known = self._indexes.get(graph.id)
        if known is None or known[0] != graph.erasures_seq or self._hidden(graph) is not NOTHING:
            return None
        return known[1].cached_ids(nodes)

    def external_ids(self, graph: GraphRecord, n_nodes: int) -> pa.ChunkedArray:
        """External ids of the first ``n_nodes`` dense ones, which are committed.

        Memory-mapped; null where a node was erased.
        """
        ids = self._index(graph).external_ids(n_nodes)
        hidden = self._hidden(graph).dense
        if not hidden.size:
            return ids
        is_hidden = np.zeros(n_nodes, bool)
        is_hidden[hidden[hidden < n_nodes]] = True
        return pc.if_else(pa.array(is_hidden), pa.scalar(None, ids.type), ids)

    def names(self, graph: GraphRecord, nodes: Int64Array) -> list[Any]:
        """External ids of some dense ones as values for JSON; None where a node was erased."""
        if not nodes.size:
            return []
        ids = self.external_ids(graph, int(nodes.max()) + 1).take(pa.array(nodes)).to_pylist()
        return [json_integer(each) if isinstance(each, int) else each for each in ids]

    def all_ids(self, graph: GraphRecord) -> Iterator[pa.Array]:
        """External ids of all nodes, and of waiting pushes and features; some twice."""
        n_nodes = self._index(graph).n_nodes()
        if n_nodes:
            yield from self.external_ids(graph, n_nodes).chunks
        for block in self._waiting_blocks(graph.id):
            with suppress(FileNotFoundError):  # in the graph by now
                yield from _ids(block)

    def erased(self, graph: GraphRecord, n_nodes: int) -> Int64Array:
        """Dense ids, increasing, of the erased among the first ``n_nodes``: they have no name."""
        if not graph.erasures_seq or not n_nodes:
            return frozen(np.empty(0, np.int64))
        ids = self.external_ids(graph, n_nodes)
        if not ids.null_count:
            return frozen(np.empty(0, np.int64))
        return frozen(np.flatnonzero(ids.is_null().to_numpy()))

    def knows(self, graph: GraphRecord, nodes: pa.Array) -> BoolArray:
        """Whether each node is in the index, or in a push or a set of features that waits."""
        # Pushes come first: what has left them meanwhile is in the index by now.
        waiting = self._waiting_blocks(graph.id)
        known: BoolArray = self.lookup(graph, nodes) >= 0
        for block in () if known.all() else waiting:
            missing = np.flatnonzero(~known)
            is_waiting = _in_block(block, nodes.take(pa.array(missing)))
            if is_waiting is None:  # committed and removed meanwhile, or taken apart
                is_waiting = self.knows(graph, nodes.take(pa.array(missing)))
            known[missing] = is_waiting
            if known.all():
                break
        if graph.erasures_seq:
            known &= ~_are_named(nodes, self._hidden(graph).names)
            if graph.settings.node_ids == "dense":  # such a number is never used again
                n_nodes = self._index(graph).n_nodes()
                known &= ~np.isin(nodes.to_numpy(), self.erased(graph, n_nodes))
        return known

    def _hidden(self, graph: GraphRecord) -> Hidden:
        return self._manifest.hidden.of(graph)

    def _without_hidden(self, graph: GraphRecord, nodes: pa.Array, dense: Int32Array) -> Int32Array:
        """Dense ids without those that no reader may know."""
        hidden = self._hidden(graph)
        if hidden is NOTHING:
            return dense
        is_hidden = np.isin(dense, hidden.dense) | _are_named(nodes, hidden.names)
        return np.where(is_hidden, np.int32(-1), dense)

    def _waiting_blocks(self, graph_id: str) -> "Iterator[_Block]":
        """Blocks that wait; each is read when it is asked for.

        Single pushes are listed first: one that is gathered meanwhile is then among the files.
        """
        log = self._manifest.push_log
        waiting = log.ungathered(graph_id)
        pending = self._manifest.pending(graph_id)
        gathered = [Path(file.path) for file in pending if file.push_id is not None]
        paths = {push.id: Path(push.path) for push in waiting if push.path}
        contents = log.contents([push.id for push in waiting if not push.path])
        features = [
            _Set(Path(record.path)) for record in self._manifest.feature_log.waiting(graph_id)
        ]
        return chain(gathered, paths.values(), (content for _, content in contents), features)

    def _index(self, graph: GraphRecord) -> "_Index":
        with self._lock:
            known = self._indexes.get(graph.id)
            if known is None or known[0] != graph.erasures_seq:
                index = _Index(graph, GraphPaths(root=self._graphs_directory / graph.id))
                self._indexes[graph.id] = graph.erasures_seq, index
                while len(self._indexes) > MAX_OPEN:
                    self._indexes.popitem(last=False)
            self._indexes.move_to_end(graph.id)
            return self._indexes[graph.id][1]


class _Index:
    """One graph's index, without ids that ingest has published but not committed."""

    def __init__(self, graph: GraphRecord, paths: GraphPaths) -> None:
        self._kind = graph.settings.node_ids
        self._max_nodes = graph.settings.max_nodes
        self._paths = paths
        self._nodes: Nodes | None = None
        self._lock = Lock()

    def lookup(self, nodes: pa.Array) -> Int32Array:
        with self._lock:
            if self._nodes is not None:
                dense = self._nodes.lookup(nodes)
                if (dense >= 0).all():  # a committed node keeps its id: no need to look for news
                    return dense
            index = self._refresh()
            if index is None:
                return np.full(len(nodes), -1, np.int32)
            return index.lookup(nodes)

    def cached_ids(self, nodes: pa.Array) -> Int32Array | None:
        known = self._nodes
        if known is None or not known.has_table or not self._lock.acquire(blocking=False):
            return None
        try:
            dense = known.lookup(nodes)
        finally:
            self._lock.release()
        return dense if (dense >= 0).all() else None

    def external_ids(self, n_nodes: int) -> pa.ChunkedArray:
        with self._lock:
            index = self._refresh()
            if index is None:
                raise ValueError(f"n_nodes must be 0 in a graph without nodes, got {n_nodes}")
            return index.external_ids(0, n_nodes)

    def n_nodes(self) -> int:
        with self._lock:
            index = self._refresh()
            return 0 if index is None else index.n_nodes

    def _refresh(self) -> Nodes | None:
        """The index at the last committed file; None before the first."""
        n_nodes = _n_committed(self._paths.checkpoints)
        if n_nodes == 0:
            return None
        if self._nodes is None:
            self._nodes = open_nodes(
                self._paths.nodes,
                kind=self._kind,
                n_nodes=n_nodes,
                max_nodes=self._max_nodes,
                writable=False,
            )
        self._nodes.refresh(n_nodes)
        return self._nodes


def _are_named(nodes: pa.Array, names: Collection[str]) -> BoolArray:
    if not names:
        return np.zeros(len(nodes), bool)
    listed = pa.array(names, pa.large_string())
    is_in = pc.is_in(nodes.cast(pa.large_string()), value_set=listed)
    return np.asarray(is_in.to_numpy(zero_copy_only=False), bool)


def _n_committed(checkpoints: Path) -> int:
    """Nodes of committed files; asks again when the checkpoint is replaced while it is read."""
    if not checkpoints.exists():
        return 0
    store = CheckpointStore(checkpoints)
    for _ in range(_ATTEMPTS - 1):
        try:
            return store.n_clean_nodes()
        except FileNotFoundError:
            continue
    return store.n_clean_nodes()


def _in_block(block: _Block, nodes: pa.Array) -> BoolArray | None:
    """Whether a waiting block has each node; None when the block is gone."""
    is_there = np.zeros(len(nodes), dtype=bool)
    try:
        for ids in _ids(block):
            in_column = pc.is_in(nodes, value_set=ids.cast(nodes.type))
            is_there |= in_column.to_numpy(zero_copy_only=False)
            if is_there.all():
                break
    except FileNotFoundError:
        return None
    return is_there


def _ids(block: _Block) -> Iterator[pa.Array]:
    """All ids of a block, some at a time; raises FileNotFoundError when it is gone."""
    match block:
        case None:
            raise FileNotFoundError
        case _Set():
            yield from (ids for ids, _ in set_owners(block.path))
        case bytes():
            for batch in pa.ipc.open_stream(block):
                yield from (batch.column("src"), batch.column("dst"))
        case path:
            with pa.parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=["src", "dst"]):
                    yield from batch.columns
