"""Edges that live: as the log has them, and as a dictionary has them that reads the files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from peewit.solvers.arrays import Int32Array, Int64Array
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import live_blocks
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotMeta, SnapshotStore
from tests.end_to_end.crashing.checks import History
from tests.end_to_end.crashing.load import read_edges
from tests.end_to_end.crashing.record import EdgeBatch, Record

Edges: TypeAlias = Counter[tuple[str | None, str | None, float]]
"""How often each edge lives: its ends by name, the smaller one first, and its weight."""


def check_live_edges(record: Record, history: History) -> Iterator[str]:
    """The log, its counts, degrees and components are those of a dictionary of the live files."""
    live, twin = named_edges(history), _twin(record, history)
    doubtful = {
        (node, batch.weight)
        for batch in record.edge_batches
        for node, is_erased in batch.erased.items()
        if is_erased is None
    }
    for edges in (live, twin):
        for u, v, weight in list(edges):
            if (u, weight) in doubtful or (v, weight) in doubtful:
                del edges[u, v, weight]
    if more := live - twin:
        yield f"{more.total()} edges live that should not: {_few(more)}"
    if fewer := twin - live:
        yield f"{fewer.total()} edges should live: {_few(fewer)}"
    yield from _check_log(history)


def _few(edges: Edges) -> str:
    return ", ".join(f"{u} {v} of batch {(w - 1) * 65_536:g}" for u, v, w in list(edges)[:5])


def _check_log(history: History) -> Iterator[str]:
    """Counts, degrees and components that ingest has are those of the edges of its log."""
    table, meta = live_edges(history), newest_meta(history)
    u, v, weight = (table[name].to_numpy() for name in ("u", "v", "weight"))
    state = CheckpointStore(history.paths.checkpoints).clean().state
    counted = state.n_live
    if {counted, meta.n_live} != {u.size}:
        yield f"{u.size} edges live, {counted} are counted, the snapshot tells {meta.n_live}"
    if state.degree is not None:
        degree = np.bincount(
            np.concatenate([u, v]), np.tile(weight.astype(float), 2), minlength=state.degree.size
        )
        error = np.abs(degree - state.degree).max()
        if error > 1e-6 * degree.max():
            yield f"degrees differ from those of the live edges by up to {error:g}"
    kept = SnapshotStore(history.paths.snapshots).edges(meta.number)
    of_live = _components(u, v, meta.n_nodes)
    of_kept = _components(kept["u"].to_numpy(), kept["v"].to_numpy(), meta.n_nodes)
    if not np.array_equal(of_live, of_kept):
        n_live, n_kept = np.unique(of_live).size, np.unique(of_kept).size
        yield f"the live edges have {n_live} components, the snapshot {n_kept}, or others"


def _components(u: Int32Array, v: Int32Array, n_nodes: int) -> Int64Array:
    """(n_nodes,) the first node of the component of each."""
    graph = coo_array((np.ones(u.size, np.int8), (u, v)), shape=(n_nodes, n_nodes))
    _, of_node = connected_components(graph, directed=False)
    _, first, inverse = np.unique(of_node, return_index=True, return_inverse=True)
    found: Int64Array = first[inverse]
    return found


def live_edges(history: History) -> pa.Table:
    """Edges of the log that live, in the order of the stream."""
    log, meta = ChangeLog(history.paths.log), newest_meta(history)
    digests = [file.digest for file in history.absorbed]
    blocks = [block for _, block in live_blocks(log, digests, log.dead(meta.log_version))]
    names = ("u", "v", "weight")
    return pa.table(
        {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
    )


def named_edges(history: History) -> Edges:
    """The same without their order, by the names of their ends; None of erased ones."""
    table, names = live_edges(history), history.names
    rows = zip(*(table[name].to_pylist() for name in ("u", "v", "weight")), strict=True)
    return Counter((*_pair(names[u], names[v]), weight) for u, v, weight in rows)


def newest_meta(history: History) -> SnapshotMeta:
    """Of the newest snapshot."""
    snapshots = SnapshotStore(history.paths.snapshots)
    return snapshots.meta(snapshots.numbers()[-1])


def rows_of(record: Record, history: History) -> Iterator[pa.Table]:
    """The rows of each live file in turn, without those that were erased."""
    batches = {batch.weight: batch for batch in record.edge_batches if batch.is_forgettable}
    for file in history.absorbed:
        table = read_edges(file.path)
        columns = (table[name].to_pylist() for name in ("src", "dst", "weight"))
        is_left = [_is_left(batches, *row) for row in zip(*columns, strict=True)]
        yield table if all(is_left) else table.filter(pa.array(is_left))


def _is_left(batches: dict[float, EdgeBatch], u: str, v: str, weight: float) -> bool:
    batch = batches.get(weight)
    return batch is None or batch.keeps(u, v) is not False


def _twin(record: Record, history: History) -> Edges:
    """Edges that live after the live files, one row at a time."""
    live: dict[tuple[str | None, str | None], list[float]] = defaultdict(list)
    for table in rows_of(record, history):
        weights = table["weight"].to_pylist()
        operations = table["op"].to_pylist() if "op" in table.column_names else [None] * len(table)
        ends = zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True)
        for (u, v), weight, operation in zip(ends, weights, operations, strict=True):
            pair = _pair(u, v)
            if operation in {"delete", "set"}:
                live.pop(pair, None)
            if operation != "delete" and u != v:
                live[pair].append(weight)
    return Counter((*pair, weight) for pair, weights in live.items() for weight in weights)


def _pair(u: str | None, v: str | None) -> tuple[str | None, str | None]:
    first, second = sorted([u, v], key=lambda name: (name is None, name or ""))
    return first, second
