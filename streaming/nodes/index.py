"""Node index: external id -> dense id, in order of first appearance.

The truth is a directory of append-only segments (``segments``); the hash table in memory is rebuilt
from them. One process writes, with ``map``, ``publish`` and ``truncate``; readers follow what is
published. ``DenseNodes`` does the same for graphs whose ids are dense already.
"""

import secrets
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import Int32Array, Int64Array, UInt64Array
from peewit.streaming.durable_files import publish_file, remove_unfinished
from peewit.streaming.edges.blocks import (
    MAX_NODES,
    BadEdges,
    EdgeBlock,
    RawBlock,
    check_max_nodes,
    check_node_kind,
    edges_of,
    excerpt,
)
from peewit.streaming.edges.columns import node_ids, values_of
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.kernels.node_table import COLLISION, DONE
from peewit.streaming.nodes.hash_table import HashTable
from peewit.streaming.nodes.hashed_ids import IdColumn, IntegerIds, StringIds
from peewit.streaming.nodes.segments import (
    CorruptSegment,
    MappedIds,
    erase_ids,
    publish_ids,
    read_ids,
    truncate_ids,
)

DEFAULT_MAX_NODES = 100_000_000

_MAP_ROWS = 1 << 15  # rows mapped at once: hashes and ids of a chunk stay in the cache
_REBUILD_ROWS = 1 << 16
_FEW_IDS = 1_000
_MOST_SCANS = 4
"""Lookups of few ids that a reader makes by reading all ids; the next one builds the table."""

_ERASED = "erased.npy"
_ERASED_SEED = 0x657261736564
_ERASED_FINGERPRINT = np.uint64(0x80000001 << 32)


class NodeCollision(RuntimeError):
    """Two different ids have the same 64-bit hash.

    They are never merged. Opening the index again draws another hash seed, which separates them.
    """


class NodeIndex:
    """External ids of one graph, kind ``string`` or ``int64``; made by ``NodeIndex.open``.

    Memory: 27 to 54 bytes per id for the table, and the ids that no segment holds yet.
    """

    def __init__(self, directory: Path, *, ids: IdColumn, max_nodes: int, writable: bool) -> None:
        self._directory = directory
        self._ids = ids
        self._max_nodes = max_nodes
        self._writable = writable
        self._published: list[MappedIds] = []
        self._table: HashTable | None = None
        self._n_scans = 0

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        kind: NodeKind,
        n_nodes: int | None = None,
        max_nodes: int = DEFAULT_MAX_NODES,
        writable: bool = True,
        hash_seed: int | None = None,
    ) -> "NodeIndex":
        """Index of the ids that ``directory`` holds; a writer makes a missing directory.

        One process may write at a time; a reader builds its table at the first lookup. With
        ``n_nodes`` only the first so many ids count; a writer deletes the others, which are newer
        than the checkpoint. ``map`` refuses to pass ``max_nodes``. ``hash_seed``, 64 bits, starts
        the hashes and is drawn where None; dense ids do not depend on it.

        A segment that is damaged or missing is `CorruptSegment`.
        """
        check_max_nodes(max_nodes)
        seed = secrets.randbits(64) if hash_seed is None else hash_seed
        if kind in TEXT:
            ids: IdColumn = StringIds(seed=seed)
        elif kind == "int64":
            ids = IntegerIds(seed=seed)
        else:
            raise ValueError(f"kind must be string or int64, got {kind!r}; see open_nodes")
        index = cls(directory, ids=ids, max_nodes=max_nodes, writable=writable)
        if writable:
            directory.mkdir(parents=True, exist_ok=True)
            remove_unfinished(directory)
            truncate_ids(directory, ids.arrow_type, n_nodes)
        index._published = read_ids(
            directory, ids.arrow_type, start=0, stop=n_nodes, verify=writable
        )
        if writable:
            index._build_table()
        return index

    @property
    def n_published(self) -> int:
        """Ids that segments hold."""
        return self._published[-1].stop if self._published else 0

    @property
    def n_nodes(self) -> int:
        """Ids known; the next new one becomes dense id ``n_nodes``."""
        return self.n_published + self._ids.n_tail

    @property
    def has_table(self) -> bool:
        """Whether a lookup costs what it looks up, and not all ids."""
        return self._table is not None

    def map(
        self, src: pa.Array, dst: pa.Array, *, first_row: int = 0
    ) -> tuple[Int32Array, Int32Array]:
        """Dense ids of both endpoints of every row; new ids are added in order of appearance.

        That order is src of row 0, dst of row 0, src of row 1 and so on. ``src`` and ``dst``,
        (n_rows,), come from ``columns.read_columns``: without nulls, of the index's kind. Errors
        count rows from ``first_row``. Raises `BadEdges` where there would be more than
        ``max_nodes`` ids, `NodeCollision` where two have the same hash; then nothing was added.
        """
        self._check_writable()
        for ids in (src, dst):
            if not isinstance(ids, pa.Array) or ids.type not in self._ids.mapped_types:
                raise TypeError(
                    f"map takes arrays of {self._ids.arrow_type} as read_columns returns them, "
                    f"got {type(ids).__name__} of {excerpt(ids.type)}"
                )
        if len(src) != len(dst):
            raise ValueError(f"src and dst must be equally long, got {len(src)} and {len(dst)}")
        numbers = self._numbers(src, dst, first_row=first_row)
        return np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])

    def _numbers(
        self, *columns: pa.Array, first_row: int, rows: Int64Array | None = None
    ) -> Int32Array:
        """(n_rows, n_columns) dense ids of one column or two, as `map`; ``rows`` has their rows."""
        table, step = self._build_table(), len(columns)
        n_before = self.n_nodes
        numbers: Int32Array = np.empty((len(columns[0]), step), dtype=np.int32)
        for start in range(0, len(numbers), _MAP_ROWS):
            some = [ids.slice(start, _MAP_ROWS) for ids in columns]
            hashes: UInt64Array = np.empty(step * len(some[0]), dtype=np.uint64)
            fingerprints = np.empty_like(hashes)
            for side, ids in enumerate(some):
                self._ids.hash(ids, hashes, fingerprints, begin=side, step=step)
            mapped = table.map(hashes, fingerprints, max_nodes=self._max_nodes)
            self._ids.append(some[0], some[-1], mapped.added * (2 // step))
            if mapped.status != DONE:
                self._forget(n_before)
                place, side = divmod(mapped.n_mapped, step)
                value = excerpt(some[side][place].as_py())
                row = start + place if rows is None else int(rows[start + place])
                self._refuse(mapped.status, row=first_row + row, value=value)
            numbers[start : start + len(some[0])] = mapped.ids.reshape(-1, step)
        return numbers

    def add(self, nodes: pa.Array, *, first_row: int = 0) -> Int32Array:
        """Dense ids of one column; see ``map``, at the cost of two columns."""
        return self.map(nodes, nodes, first_row=first_row)[0]

    def map_block(self, block: RawBlock, *, known: Int32Array | None = None) -> EdgeBlock:
        """Edges of a block between dense ids; see ``map``.

        The memory of a block that is owned may be overwritten: use it once. ``known``, (n_rows,),
        is filled with the dense ids of ``src``.
        """
        if block.u is None:
            u, v = self.map(block.src, block.dst, first_row=block.first_row)
        else:
            u, v = block.u.copy(), block.u.copy()
            rows: Int64Array = np.flatnonzero(np.array(block.dst.is_valid()))
            ids = block.dst.drop_null()
            v[rows] = self._numbers(ids, first_row=block.first_row, rows=rows)[:, 0]
        if known is not None:
            known[:] = u
        return edges_of(
            u,
            v,
            block.weight,
            has_zero_weights=block.has_zero_weights,
            n_empty=block.n_empty,
            time=block.time,
        )

    def lookup(self, ids: pa.Array | pa.ChunkedArray) -> Int32Array:
        """Dense ids, -1 where an id is unknown or null; adds nothing.

        The first few lookups of few ids scan all ids instead of building a table, which takes
        longer, as does loading numba. Raises TypeError where ``ids`` are not of the index's kind.
        """
        ids.validate(full=True)
        kind: NodeKind = "string" if isinstance(self._ids, StringIds) else "int64"
        keys = node_ids(ids, node_kind=kind, name="node")
        unknown = keys.is_null().to_numpy(zero_copy_only=False)
        if kind == "int64":
            keys = pc.fill_null(keys, 0)
            if keys.type == pa.uint64():
                unknown |= keys.to_numpy() > np.iinfo(np.int64).max
            keys = pc.cast(keys, pa.int64(), safe=False)
        if self._table is None and len(keys) <= _FEW_IDS and self._n_scans < _MOST_SCANS:
            nodes = self._scan(keys)
        else:
            nodes = self._build_table().find(*self._hashes(keys))
        nodes[unknown] = -1
        return nodes

    def _scan(self, keys: pa.Array | pa.ChunkedArray) -> Int32Array:
        """Dense ids of a reader's, -1 for others, without a table."""
        if self._n_scans == 0:
            self._verify()
        self._n_scans += 1
        wanted = pc.unique(keys.cast(self._ids.arrow_type))
        numbers = pc.index_in(keys.cast(self._ids.arrow_type), value_set=wanted).to_numpy()
        nodes: Int32Array = np.full(len(wanted), -1, np.int32)
        for chunk in self._published:
            places = pc.index_in(chunk.ids, value_set=wanted, skip_nulls=True)
            rows = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
            nodes[places.take(pa.array(rows)).to_numpy()] = chunk.start + rows
        dense: Int32Array = nodes[numbers]
        return dense

    def external_ids(self, start: int = 0, stop: int | None = None) -> pa.ChunkedArray:
        """External ids of the dense ids ``start .. stop - 1`` (None: to the end).

        Memory-mapped; ids that are not published yet are copied. Null where a node was erased.
        """
        stop = self.n_nodes if stop is None else stop
        if not 0 <= start <= stop <= self.n_nodes:
            raise ValueError(f"start <= stop must lie in [0, {self.n_nodes}], got {start}, {stop}")
        chunks = [
            chunk.ids.slice(
                max(start - chunk.start, 0), min(stop, chunk.stop) - max(start, chunk.start)
            )
            for chunk in self._published
            if chunk.start < stop and start < chunk.stop
        ]
        first = max(start - self.n_published, 0)
        if stop > self.n_published + first:
            tail = self._ids.tail().slice(first, stop - self.n_published - first)
            chunks.append(pa.concat_arrays([tail, tail.slice(0, 0)]))  # a copy: the tail changes
        return pa.chunked_array(chunks, type=self._ids.arrow_type)

    def publish(self) -> int:
        """Write the ids that no segment holds yet as one segment, whole; return ``n_nodes``."""
        self._check_writable()
        if self._ids.n_tail:
            tail = self._ids.tail()
            publish_ids(self._directory, tail, start=self.n_published, published=self._published)
            self._published = self._read(0, self.n_nodes, verify=False)
            self._ids.truncate(0)
        return self.n_published

    def truncate(self, n_nodes: int) -> None:
        """Remove the ids from dense id ``n_nodes`` on, in memory and on disk."""
        self._check_writable()
        if not 0 <= n_nodes <= self.n_nodes:
            raise ValueError(f"n_nodes must lie in [0, {self.n_nodes}], got {n_nodes}")
        self._forget(n_nodes)

    def erase(self, nodes: Int32Array) -> None:
        """Remove the external ids of some published nodes, on disk and in memory.

        Their dense ids are not given again; an external id that comes again is a new node. Readers
        that opened the index before still know them.
        """
        self._check_writable()
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < self.n_published:
            raise ValueError(f"nodes must be published, below {self.n_published}")
        erase_ids(self._directory, self._ids.arrow_type, nodes)
        self._published = self._read(0, self.n_published, verify=False)
        table = HashTable()
        self._insert(table, self._published)
        if self._ids.n_tail:
            tail = MappedIds(start=self.n_published, stop=self.n_nodes, ids=self._ids.tail())
            self._insert(table, [tail])
        self._table = table

    def refresh(self, n_nodes: int) -> None:
        """Follow the writer to ``n_nodes`` ids, which must be committed (never taken back).

        Raises ValueError where fewer are published.
        """
        if self._writable:
            raise ValueError("refresh is for readers; this index is the writer's")
        start = self.n_published
        if n_nodes <= start:
            return
        is_used = self._table is not None or self._n_scans > 0
        added = self._read(start, n_nodes, verify=is_used)
        if self._table is not None:
            self._insert(self._table, added)
        self._published = [*self._published, *added]

    def _read(self, start: int, stop: int, *, verify: bool) -> list[MappedIds]:
        return read_ids(
            self._directory, self._ids.arrow_type, start=start, stop=stop, verify=verify
        )

    def _build_table(self) -> HashTable:
        if self._table is None:
            if self._n_scans == 0:
                self._verify()
            table = HashTable()
            self._insert(table, self._published)
            self._table = table
        return self._table

    def _verify(self) -> None:
        """Read again, with checksums, what a reader has mapped without."""
        if not self._writable:
            self._published = self._read(0, self.n_published, verify=True)

    def _insert(self, table: HashTable, chunks: list[MappedIds]) -> None:
        table.reserve(sum(chunk.stop - chunk.start for chunk in chunks))
        for chunk in chunks:
            for start in range(0, len(chunk.ids), _REBUILD_ROWS):
                ids = chunk.ids.slice(start, _REBUILD_ROWS)
                hashes = self._hashes(ids, first=chunk.start + start)
                mapped = table.map(*hashes, max_nodes=MAX_NODES)
                if mapped.status == COLLISION:
                    self._refuse(COLLISION, row=0, value=excerpt(ids[mapped.n_mapped].as_py()))
                if len(mapped.added) < len(ids):
                    raise CorruptSegment(f"an id stands twice in the segments of {self._directory}")

    def _hashes(self, ids: pa.Array, *, first: int = 0) -> tuple[UInt64Array, UInt64Array]:
        """Hashes of ids, the first of them that of dense id ``first``.

        Erased nodes keep their place in the table under a hash of their dense id, with a
        fingerprint that no id has.
        """
        hashes: UInt64Array = np.empty(len(ids), dtype=np.uint64)
        fingerprints: UInt64Array = np.empty(len(ids), dtype=np.uint64)
        if not ids.null_count:
            self._ids.hash(ids, hashes, fingerprints)
            return hashes, fingerprints
        is_erased = ids.is_null().to_numpy(zero_copy_only=False)
        blank = 0 if self._ids.arrow_type == pa.int64() else ""
        self._ids.hash(pc.fill_null(ids, blank), hashes, fingerprints)
        places = np.flatnonzero(is_erased)
        numbers: Int64Array = places + first
        marks: UInt64Array = np.empty(places.size, dtype=np.uint64)
        IntegerIds(seed=_ERASED_SEED).hash(pa.array(numbers), marks, np.empty_like(marks))
        hashes[places], fingerprints[places] = marks, _ERASED_FINGERPRINT
        return hashes, fingerprints

    def _forget(self, n_nodes: int) -> None:
        table, first = self._build_table(), n_nodes
        for chunk in self.external_ids(n_nodes).chunks:
            for start in range(0, len(chunk), _REBUILD_ROWS):
                hashes, _ = self._hashes(chunk.slice(start, _REBUILD_ROWS), first=first + start)
                table.remove(hashes)
            first += len(chunk)
        if n_nodes < self.n_published:
            self._ids.truncate(0)
            truncate_ids(self._directory, self._ids.arrow_type, n_nodes)
            self._published = self._read(0, n_nodes, verify=False)
        else:
            self._ids.truncate(n_nodes - self.n_published)

    def _refuse(self, status: int, *, row: int, value: str) -> NoReturn:
        if status == COLLISION:
            raise NodeCollision(
                f"the hash of id {value} is that of another id; nothing was merged, "
                "start again: another hash seed is drawn"
            )
        raise BadEdges(
            f"a graph holds at most max_nodes = {self._max_nodes} nodes, the next one",
            row=row,
            value=value,
        )

    def _check_writable(self) -> None:
        if not self._writable:
            raise ValueError("this index was opened for reading; open it with writable=True")


class DenseNodes:
    """Nodes of a graph whose ids are dense: ids in [0, max_nodes) stand for themselves.

    Has the methods of ``NodeIndex``; ``n_nodes``, one more than the largest id seen, is kept in the
    checkpoint. The directory, if any, keeps ``erased``, the (n_erased,) erased numbers, increasing.
    These are never used again: their edges come back as self-loops, which are dropped and counted.
    """

    def __init__(
        self, *, n_nodes: int = 0, max_nodes: int = DEFAULT_MAX_NODES, directory: Path | None = None
    ) -> None:
        self._max_nodes = check_max_nodes(max_nodes)
        self._erased_path = None if directory is None else directory / _ERASED
        self.erased: Int64Array = np.empty(0, np.int64)
        if self._erased_path is not None and self._erased_path.exists():
            self.erased = np.load(self._erased_path, allow_pickle=False)
        self.n_nodes = 0
        self.refresh(n_nodes)

    @property
    def n_published(self) -> int:
        """Equal to ``n_nodes``."""
        return self.n_nodes

    def map(
        self, src: pa.Array, dst: pa.Array, *, first_row: int = 0
    ) -> tuple[Int32Array, Int32Array]:
        """Return the ids as int32, copied only where they are wider; see ``NodeIndex.map``."""
        greatest = -1
        for ids in (src.to_numpy(), dst.to_numpy()):
            if len(ids):
                greatest = max(greatest, int(ids.max()))
                if ids.min() < 0 or greatest >= self._max_nodes:
                    row = int(np.argmax((ids < 0) | (ids >= self._max_nodes)))
                    raise BadEdges(
                        f"a dense id must lie in [0, {self._max_nodes - 1}]",
                        row=first_row + row,
                        value=str(ids[row]),
                    )
        self.n_nodes = max(self.n_nodes, greatest + 1)
        return self._without_erased(
            src.to_numpy().astype(np.int32, copy=False), dst.to_numpy().astype(np.int32, copy=False)
        )

    def _without_erased(self, u: Int32Array, v: Int32Array) -> tuple[Int32Array, Int32Array]:
        """The ends of edges, both the same where one was erased."""
        if not self.erased.size:
            return u, v
        is_erased = np.isin(u, self.erased) | np.isin(v, self.erased)
        return u, np.where(is_erased, u, v)

    def erase(self, nodes: Int32Array) -> None:
        """Never use some numbers again."""
        if self._erased_path is None:
            raise ValueError("numbers are erased where a directory keeps them")
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < self.n_nodes:
            raise ValueError(f"nodes must be known, below {self.n_nodes}")
        erased = np.union1d(self.erased, nodes.astype(np.int64))

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.save(file, erased)

        self._erased_path.parent.mkdir(parents=True, exist_ok=True)
        publish_file(self._erased_path, write)
        self.erased = erased

    def add(self, nodes: pa.Array, *, first_row: int = 0) -> Int32Array:
        """Return the ids of one column as int32; see ``NodeIndex.add``."""
        return self.map(nodes, nodes, first_row=first_row)[0]

    def map_block(self, block: RawBlock) -> EdgeBlock:
        """Return the edges of a block; see ``NodeIndex.map_block``."""
        if block.greatest_id is None or block.greatest_id >= self._max_nodes:
            u, v = self.map(block.src, block.dst, first_row=block.first_row)
        else:
            self.n_nodes = max(self.n_nodes, block.greatest_id + 1)
            view = values_of if block.is_owned else pa.Array.to_numpy
            u, v = self._without_erased(view(block.src), view(block.dst))
        n_self_loops = None if self.erased.size else block.n_self_loops
        return edges_of(
            u,
            v,
            block.weight,
            n_self_loops=n_self_loops,
            has_zero_weights=block.has_zero_weights,
            n_empty=block.n_empty,
            time=block.time,
        )

    @property
    def has_table(self) -> bool:
        """Whether a lookup costs what it looks up; it always does."""
        return True

    def lookup(self, ids: pa.Array | pa.ChunkedArray) -> Int32Array:
        """Return the ids below ``n_nodes`` as int32, -1 for others and nulls."""
        ids.validate(full=True)
        keys = node_ids(ids, node_kind="dense", name="node")
        known = ~keys.is_null().to_numpy(zero_copy_only=False)
        values = pc.fill_null(keys, 0).to_numpy()
        known &= (values >= 0) & (values < self.n_nodes)
        known &= ~np.isin(values, self.erased)
        return np.where(known, values, -1).astype(np.int32)

    def external_ids(self, start: int = 0, stop: int | None = None) -> pa.ChunkedArray:
        """``start .. stop - 1`` (None: to the end) as int64, null where they were erased."""
        stop = self.n_nodes if stop is None else stop
        if not 0 <= start <= stop <= self.n_nodes:
            raise ValueError(f"start <= stop must lie in [0, {self.n_nodes}], got {start}, {stop}")
        numbers: Int64Array = np.arange(start, stop, dtype=np.int64)
        is_erased = np.isin(numbers, self.erased) if self.erased.size else None
        return pa.chunked_array([pa.array(numbers, mask=is_erased)])

    def publish(self) -> int:
        """Return ``n_nodes``."""
        return self.n_nodes

    def truncate(self, n_nodes: int) -> None:
        """Forget the ids from ``n_nodes`` on."""
        if not 0 <= n_nodes <= self.n_nodes:
            raise ValueError(f"n_nodes must lie in [0, {self.n_nodes}], got {n_nodes}")
        self.n_nodes = n_nodes

    def refresh(self, n_nodes: int) -> None:
        """Follow the writer to ``n_nodes`` ids."""
        if not 0 <= n_nodes <= self._max_nodes:
            raise ValueError(f"n_nodes must lie in [0, {self._max_nodes}], got {n_nodes}")
        self.n_nodes = max(self.n_nodes, n_nodes)


Nodes: TypeAlias = NodeIndex | DenseNodes
"""Index of a graph's nodes, whatever the kind of their ids."""


def open_nodes(
    directory: Path,
    *,
    kind: NodeKind,
    n_nodes: int | None = None,
    max_nodes: int = DEFAULT_MAX_NODES,
    writable: bool = True,
) -> Nodes:
    """Node index of the given kind; see ``NodeIndex.open``.

    ``dense`` keeps only erased numbers in ``directory``, so that ``n_nodes`` None means none seen
    yet.
    """
    if check_node_kind(kind) == "dense":
        return DenseNodes(n_nodes=n_nodes or 0, max_nodes=max_nodes, directory=directory)
    return NodeIndex.open(
        directory, kind=kind, n_nodes=n_nodes, max_nodes=max_nodes, writable=writable
    )
