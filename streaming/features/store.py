"""Features of one graph's nodes: published versions, aligned with the nodes, memory-mapped.

A version is a directory published whole: the dense ids that have a row, increasing, and the rows in
that order, as ``.npy`` files. Nobody who writes or loads it needs room for all rows. The catalog
says which version is the present one; ingest writes them, one after the other.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from peewit.solvers.arrays import INT32_MAX, AnyArray, BoolArray, Int64Array, frozen, index_dtype
from peewit.solvers.features import FeatureRows
from peewit.solvers.late_modules import LateModule
from peewit.streaming.durable_files import (
    naming,
    publish_directory,
    remove_unfinished,
    reserved_array,
    write_json,
)
from peewit.streaming.features.checked_tables import BadFeatures, order_of
from peewit.streaming.features.encoding import Encoding, cleared
from peewit.streaming.problems import NotFound

sp = LateModule("scipy.sparse")

_NODES = "nodes.npy"
_VALUES = "values.npy"
_INDICES = "indices.npy"
_STARTS = "starts.npy"
_META = "meta.json"
_COPIED_BYTES = 1 << 24


class FeaturesNotFound(NotFound):
    """No version of this number is kept."""

    title = "Features not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesMeta:
    """Description of one version."""

    version: int  # counts from 1 in each graph
    n_rows: int  # nodes that have a row
    n_columns: int
    is_sparse: bool
    n_values: int  # numbers stored
    created_at: float  # seconds since the epoch
    names: tuple[str, ...] | None = None  # of the columns, where a table had them
    encoding: str | None = None  # how they were made from columns of any kind, as JSON


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewRows:
    """Rows to be published.

    ``blocks`` are (n_some, n_columns) float32 arrays, or scipy.sparse.csr_array with at most
    ``n_columns`` columns: all rows in order, read once.
    """

    nodes: Int64Array  # (n_rows,), dense id of each row, in the order of the blocks; distinct
    n_columns: int
    blocks: Iterable[Any]
    lengths: Int64Array | None = None  # (n_rows,), entries of each row; None for dense rows
    names: tuple[str, ...] | None = None  # of the columns
    encoding: str | None = None  # how they were made from columns of any kind, as JSON

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self.lengths is not None


class FeatureStore:
    """Publishes, loads and retires the features of one graph; one process writes.

    ``FeatureStore(GraphPaths(root=...).features).load(version, n_nodes)`` is what a solver calls:
    rows of the nodes of a snapshot of ``n_nodes`` nodes. The directory has one for each version,
    and need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def versions(self) -> list[int]:
        """Numbers of the versions kept, oldest first."""
        if not self._directory.exists():
            return []
        return sorted(
            int(entry.name) for entry in self._directory.iterdir() if entry.name.isdigit()
        )

    def meta(self, version: int) -> FeaturesMeta:
        """Description of one version; raises `FeaturesNotFound`."""
        try:
            text = (self._directory_of(version) / _META).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise self._not_found(version) from None
        stored = json.loads(text)
        names = stored.pop("names", None)
        return FeaturesMeta(**stored, names=None if names is None else tuple(names))

    def load(self, version: int, n_nodes: int) -> FeatureRows:
        """Rows of the nodes below ``n_nodes``, memory-mapped; raises `FeaturesNotFound`.

        ``values`` are float32, a ``numpy.memmap`` or a csr_array over some; ``nodes`` is None where
        every node has a row. Nothing is read before it is used. The rows stay readable while they
        are held, even when the version is retired meanwhile.
        """
        meta = self.meta(version)
        try:
            return _load_rows(self._directory_of(version), meta, n_nodes)
        except FileNotFoundError:  # retired since
            raise self._not_found(version) from None

    def publish(
        self,
        version: int,
        rows: NewRows,
        *,
        onto: int | None = None,
        created_at: float,
        guard: Callable[[], None] = lambda: None,
    ) -> FeaturesMeta:
        """Publish a version; replace an unannounced one of the same number.

        Rows of ``onto`` stay where ``rows`` has none of the same node. ``created_at`` is in seconds
        since the epoch. ``guard`` is called before anything changes; if it raises, nothing changes.

        Rows of another kind or length than those of ``onto`` are refused. What was published before
        stays.
        """
        before = None if onto is None else self.meta(onto)
        order = order_to_join(
            before,
            n_columns=rows.n_columns,
            is_sparse=rows.is_sparse,
            names=rows.names,
            encoding=rows.encoding,
        )
        if order is not None:
            rows = replace(rows, blocks=(block[:, order] for block in rows.blocks))
        if before is not None and before.encoding != rows.encoding:
            rows = _as_encoded(rows, before)
        old = None if onto is None else _Version(self._directory_of(onto))
        self._directory.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self._directory)
        with publish_directory(self._directory_of(version)) as directory:
            owners = np.unique(rows.nodes)
            if old is not None:
                owners = np.union1d(owners, old.array(_NODES))
            with naming(directory / _NODES):
                np.save(directory / _NODES, owners.astype(np.int64, copy=False))
            write = _write_sparse if rows.is_sparse else _write_dense
            n_columns = max(rows.n_columns, before.n_columns if before else 0)
            n_values = write(directory, owners, rows, old, n_columns)
            meta = FeaturesMeta(
                version=version,
                n_rows=int(owners.size),
                n_columns=n_columns,
                is_sparse=rows.is_sparse,
                n_values=n_values,
                created_at=created_at,
                names=(before and before.names) or rows.names,
                encoding=rows.encoding,
            )
            write_json(directory / _META, asdict(meta))
            guard()
            if self._directory_of(version).exists():
                shutil.rmtree(self._directory_of(version))
        return meta

    def publish_without(
        self,
        version: int,
        nodes: Int64Array,
        *,
        words: Collection[str] = (),
        onto: int,
        created_at: float,
        guard: Callable[[], None] = lambda: None,
    ) -> FeaturesMeta | None:
        """Publish a version with the rows of ``onto``, except those of some nodes.

        Where rows were made from columns of any kind, some ``words`` leave them, too, and so do
        those that no row has any more. None where there is nothing to leave out. Raises
        `FeaturesNotFound` where ``onto`` is not kept. After an OSError what was published before
        stays.
        """
        before, old = self.meta(onto), _Version(self._directory_of(onto))
        owners = old.array(_NODES)
        stays = ~np.isin(owners, nodes)

        def blocks(is_erased: BoolArray | None = None) -> Iterator[Any]:
            for some, block in old.sparse_blocks() if before.is_sparse else old.dense_blocks():
                is_other = ~np.isin(some, nodes)
                left = block[is_other] if before.is_sparse else np.asarray(block)[is_other]
                if is_erased is not None:
                    left = cleared(left, is_erased)
                    if before.is_sparse:
                        left.eliminate_zeros()
                yield left

        left, is_erased = before, None
        if before.encoding is not None:
            encoding = Encoding.from_json(before.encoding)
            if stays.all() and not encoding.may_name(words):
                return None  # without a look at the rows
            encoding = encoding.without(words, blocks())
            is_erased = encoding.is_erased
            left = replace(
                before, names=before.names and encoding.names, encoding=encoding.to_json()
            )
        if stays.all() and left == before:
            return None
        lengths = None
        if before.is_sparse:
            parts = [np.diff(block.indptr) for block in blocks(is_erased)]
            lengths = np.concatenate([*parts, np.zeros(0)]).astype(np.int64)
        rows = NewRows(
            nodes=np.asarray(owners[stays], np.int64),
            n_columns=before.n_columns,
            blocks=blocks(is_erased),
            lengths=lengths,
            names=left.names,
            encoding=left.encoding,
        )
        return self.publish(version, rows, created_at=created_at, guard=guard)

    def retire(self, present: int, *, grace_seconds: float, now: float) -> list[int]:
        """Remove versions that were replaced ``grace_seconds`` ago or earlier; return the removed.

        Newer ones than ``present`` stay: ingest may be publishing one.
        """
        removed = self.superseded(present, grace_seconds=grace_seconds, now=now)
        for version in removed:
            shutil.rmtree(self._directory_of(version))
        return removed

    def superseded(self, present: int, *, grace_seconds: float, now: float) -> list[int]:
        """Versions that `retire` would remove."""
        return [
            version
            for version, successor in pairwise(self.versions())
            if successor <= present
            and now - self._directory_of(successor).stat().st_mtime >= grace_seconds
        ]

    def _directory_of(self, version: int) -> Path:
        return self._directory / f"{version:08d}"

    def _not_found(self, version: int) -> FeaturesNotFound:
        versions = self.versions()
        newest = f"the newest is {versions[-1]}" if versions else "none is kept"
        return FeaturesNotFound(f"no features_version {version}, {newest}")


def order_to_join(
    before: FeaturesMeta | None,
    *,
    n_columns: int,
    is_sparse: bool,
    names: tuple[str, ...] | None,
    encoding: str | None,
) -> Int64Array | None:
    """Places of a version's columns among those of rows to be added; None where they are the same.

    Columns without names go by place. Raises BadFeatures where such rows cannot be added.
    """
    if before is None:
        return None
    if not _agree(encoding, before.encoding):
        raise BadFeatures(
            "rows that are added must have the columns that the features there were made from, and "
            "the same of them; replace the whole set to change that"
        )
    kinds = {True: "sparse", False: "dense"}
    if before.is_sparse != is_sparse:
        raise BadFeatures(
            f"rows that are added must be {kinds[before.is_sparse]} as those there are, got "
            f"{kinds[is_sparse]} ones; replace the whole set to change that"
        )
    if encoding is None and names is not None and before.names is not None:
        return None if names == before.names else order_of(names, before.names)
    if not is_sparse and before.n_columns != n_columns:
        raise BadFeatures(
            f"column 'features' must hold {before.n_columns} numbers in every row as the set it is "
            f"added to, got {n_columns}; replace the whole set to change that",
            argument="features",
        )
    return None


def _agree(one: str | None, other: str | None) -> bool:
    """Whether rows were made alike, but for words that were erased."""
    if one is None or other is None or one == other:
        return one == other
    return Encoding.from_json(one).agrees_with(Encoding.from_json(other))


def _as_encoded(rows: NewRows, before: FeaturesMeta) -> NewRows:
    """Rows whose encoding knows words that were erased in the one before, without these."""
    if before.encoding is None:
        return rows
    is_erased = Encoding.from_json(before.encoding).is_erased
    blocks = (cleared(block, is_erased) for block in rows.blocks)
    return replace(rows, blocks=blocks, encoding=before.encoding)


def repeated_row(nodes: Int64Array) -> int | None:
    """The first row whose node has come before; None where all are distinct."""
    if (np.diff(nodes) > 0).all():
        return None
    order = np.argsort(nodes, kind="stable")
    again = np.flatnonzero(nodes[order][1:] == nodes[order][:-1]) + 1
    return int(order[again].min()) if again.size else None


@dataclass(frozen=True, slots=True)
class _Version:
    """The arrays of a version; blocks of them are mapped only while they are in use."""

    directory: Path

    def array(self, name: str) -> AnyArray:
        array: AnyArray = np.load(self.directory / name, mmap_mode="r")
        return array

    def dense_blocks(self) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Nodes and rows, some at a time."""
        values = self.array(_VALUES)
        step = max(1, _COPIED_BYTES // (values.shape[1] * values.itemsize))
        for first in range(0, values.shape[0], step):
            rows = slice(first, first + step)
            yield self.array(_NODES)[rows], self.array(_VALUES)[rows]

    def sparse_blocks(self) -> Iterator[tuple[AnyArray, Any]]:
        """Nodes and rows as scipy.sparse.csr_array, some at a time."""
        starts = self.array(_STARTS)
        n_rows = starts.size - 1
        step = max(1, _COPIED_BYTES * n_rows // (12 * max(int(starts[-1]), 1)))
        for first in range(0, n_rows, step):
            stop = min(first + step, n_rows)
            entries = slice(int(starts[first]), int(starts[stop]))
            block = sp.csr_array(
                (
                    self.array(_VALUES)[entries],
                    self.array(_INDICES)[entries],
                    starts[first : stop + 1] - starts[first],
                ),
                shape=(stop - first, INT32_MAX),
            )
            yield self.array(_NODES)[first:stop], block


def _load_rows(directory: Path, meta: FeaturesMeta, n_nodes: int) -> FeatureRows:
    version = _Version(directory)
    nodes = version.array(_NODES)
    n_rows = int(np.searchsorted(nodes, n_nodes))
    owners = None if n_rows == n_nodes else frozen(nodes[:n_rows])
    if not meta.is_sparse:
        return FeatureRows(values=version.array(_VALUES)[:n_rows], nodes=owners)
    starts = version.array(_STARTS)
    n_values = int(starts[n_rows])
    values = sp.csr_array(
        (
            version.array(_VALUES)[:n_values],
            version.array(_INDICES)[:n_values],
            starts[: n_rows + 1],
        ),
        shape=(n_rows, meta.n_columns),
    )
    values.has_canonical_format = True  # as written; to look would read all
    return FeatureRows(values=values, nodes=owners)


def _write_dense(
    directory: Path, owners: Int64Array, rows: NewRows, old: "_Version | None", n_columns: int
) -> int:
    """Fill the aligned array; returns how many numbers it holds."""
    path = directory / _VALUES
    reserved_array(path, (owners.size, n_columns), np.float32)
    for nodes, block in () if old is None else old.dense_blocks():
        _place(path, np.searchsorted(owners, nodes), block)
    first = 0
    for block in rows.blocks:
        _place(path, np.searchsorted(owners, rows.nodes[first : first + len(block)]), block)
        first += len(block)
    _require_all(rows, first)
    return int(owners.size) * n_columns


def _write_sparse(
    directory: Path, owners: Int64Array, rows: NewRows, old: "_Version | None", _n_columns: int
) -> int:
    """Fill the aligned arrays of a CSR matrix; returns how many numbers they hold."""
    lengths: Int64Array = np.zeros(owners.size, dtype=np.int64)
    if old is not None:
        lengths[np.searchsorted(owners, old.array(_NODES))] = np.diff(old.array(_STARTS))
    if rows.lengths is not None:
        lengths[np.searchsorted(owners, rows.nodes)] = rows.lengths
    starts: Int64Array = np.zeros(owners.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    n_values = int(starts[-1])
    kind = index_dtype(n_values, owners.size)
    with naming(directory / _STARTS):
        np.save(directory / _STARTS, starts.astype(kind))
    paths = directory / _INDICES, directory / _VALUES
    for path, dtype in zip(paths, (kind, np.float32), strict=True):
        reserved_array(path, (n_values,), dtype)

    def place(nodes: AnyArray, block_starts: AnyArray, *columns: AnyArray) -> None:
        targets = starts[np.searchsorted(owners, nodes)]
        counts = np.diff(block_starts)
        entries = np.repeat(targets - block_starts[:-1], counts) + np.arange(counts.sum())
        for path, column in zip(paths, columns, strict=True):
            _place(path, entries, column)

    gone = np.append(np.sort(rows.nodes), np.iinfo(np.int64).max)
    for nodes, block in () if old is None else old.sparse_blocks():
        stays = gone[np.searchsorted(gone, nodes)] != nodes
        nodes, block = nodes[stays], block[stays]  # noqa: PLW2901 - what is overwritten is left out
        place(nodes, block.indptr.astype(np.int64), block.indices, block.data)
    first = 0
    for block in rows.blocks:
        nodes = rows.nodes[first : first + block.shape[0]]
        place(nodes, block.indptr.astype(np.int64), block.indices, block.data)
        first += block.shape[0]
    _require_all(rows, first)
    return n_values


def _place(path: Path, places: AnyArray, values: AnyArray) -> None:
    """Write some entries of an ``.npy`` file; no longer mapped when this returns."""
    if not places.size:
        return
    target = np.load(path, mmap_mode="r+")
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == places.size and (np.diff(places) == 1).all():
        target[first : last + 1] = values
    else:
        target[places] = values


def _require_all(rows: NewRows, n_written: int) -> None:
    if n_written != rows.nodes.size:
        raise ValueError(f"blocks must hold {rows.nodes.size} rows, got {n_written}")
