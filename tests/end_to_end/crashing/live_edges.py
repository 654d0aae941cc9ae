"""Edges that live: as the log has them, and as a dictionary has them that reads the files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from peewit.solvers.arrays import Int32Array, Int64Array
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import live_blocks
from peewit.streaming.snapshots.checkpoints import CheckpointStore, living
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
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
    meta, n_live = newest_meta(history), 0
    kept = SnapshotStore(history.paths.snapshots).load_relations(meta.number)
    states = CheckpointStore(history.paths.checkpoints).clean().states
    if list(states) != list(meta.log_versions):
        yield f"the snapshot has the relations {list(meta.log_versions)}, ingest {list(states)}"
    for relation, state in states.items():
        table = _live_edges_of(history, relation)
        u, v, weight = (table[name].to_numpy() for name in ("u", "v", "weight"))
        n_live += u.size
        if state.n_live != u.size:
            yield f"{u.size} edges of {relation!r} live, {state.n_live} are counted"
        if state.degree is not None:
            degree = np.bincount(
                np.concatenate([u, v]),
                np.tile(weight.astype(float), 2),
                minlength=state.degree.size,
            )
            error = np.abs(degree - state.degree).max()
            if error > 1e-6 * degree.max():
                yield f"degrees in {relation!r} differ from those of live edges by up to {error:g}"
        of_live = _components(u, v, meta.n_nodes)
        near, far, _ = kept[relation].edges()
        of_kept = _components(near, far, meta.n_nodes)
        if not np.array_equal(of_live, of_kept):
            sizes = [np.unique(each).size for each in (of_live, of_kept)]
            yield f"{relation!r} has {sizes[0]} components, the snapshot {sizes[1]}, or others"
    if meta.n_live != n_live:
        yield f"{n_live} edges live, the snapshot tells {meta.n_live}"


def _components(u: Int32Array, v: Int32Array, n_nodes: int) -> Int64Array:
    """(n_nodes,) the first node of the component of each."""
    graph = coo_array((np.ones(u.size, np.int8), (u, v)), shape=(n_nodes, n_nodes))
    _, of_node = connected_components(graph, directed=False)
    _, first, inverse = np.unique(of_node, return_index=True, return_inverse=True)
    found: Int64Array = first[inverse]
    return found


def live_edges(history: History) -> pa.Table:
    """Edges of the logs that live: relation after relation, in the order of the stream."""
    relations = newest_meta(history).log_versions
    return pa.concat_tables(_live_edges_of(history, relation) for relation in relations)


def _live_edges_of(history: History, relation: str) -> pa.Table:
    """Edges of one relation that live, in the order of the stream."""
    versions = newest_meta(history).log_versions
    log = ChangeLog(history.paths.relation_log(list(versions).index(relation)))
    digests = living(history.absorbed, NEVER, relation)
    blocks = [block for _, block in live_blocks(log, digests, log.dead(versions[relation]))]
    types = {"u": np.int32, "v": np.int32, "weight": np.float32}
    return pa.table(
        {
            name: np.concatenate([np.empty(0, kind), *(getattr(each, name) for each in blocks)])
            for name, kind in types.items()
        }
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
    live: dict[tuple[str, str | None, str | None], list[float]] = defaultdict(list)
    for table in rows_of(record, history):
        weights = table["weight"].to_pylist()
        operations = table["op"].to_pylist() if "op" in table.column_names else [None] * len(table)
        ends = zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True)
        relations = table["relation"].to_pylist() if "relation" in table.column_names else []
        relations = relations or [""] * len(table)
        for (u, v), weight, operation, relation in zip(
            ends, weights, operations, relations, strict=True
        ):
            pair = (relation, *_pair(u, v))
            if operation in {"delete", "set"}:
                live.pop(pair, None)
            if operation != "delete" and u != v:
                live[pair].append(weight)
    return Counter((u, v, weight) for (_, u, v), weights in live.items() for weight in weights)


def _pair(u: str | None, v: str | None) -> tuple[str | None, str | None]:
    first, second = sorted([u, v], key=lambda name: (name is None, name or ""))
    return first, second
