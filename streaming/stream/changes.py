"""Changes: what a block of inserts and deletes does to the graph before it, and what it adds.

A delete applies to rows before it in the stream, never to later ones. Within a block the last
delete of a pair therefore wins over the rows before it; all deletes of the block apply to the graph
before the block.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import Int32Array, Int64Array, frozen
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock, edges_of
from peewit.streaming.edges.operations import DELETE, INSERT, SET
from peewit.streaming.kernels.pair_set import pair_numbers
from peewit.streaming.nodes.index import Nodes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """What one block changes.

    ``u`` and ``v``, (n_pairs,) each, are the pairs of which all edges before the block are deleted:
    known nodes, no self-loops. ``added`` holds the edges that no row of the block deletes, while
    its row count includes those that one does.
    """

    u: Int32Array
    v: Int32Array
    added: EdgeBlock
    n_deletes: int  # rows, those of unknown nodes included; rows that set are none
    n_unknown: int  # different deleted pairs that are surely without an edge: of unknown nodes
    n_undone: int  # edges of the block that later rows of it delete

    @classmethod
    def of(cls, raw: RawBlock, nodes: Nodes, *, replaces: bool) -> "Changes":
        """Resolve a block; nodes of inserted edges are added to ``nodes``, others are not.

        ``replaces``: whether a row that inserts sets the weight of its pair.
        """
        op = np.zeros(raw.n_rows, np.uint8) if raw.op is None else raw.op
        if replaces:
            op = np.where(op == INSERT, np.uint8(SET), op)
        is_added = op != DELETE
        n_known = nodes.n_nodes
        adding = np.flatnonzero(is_added)
        u, v = np.empty(raw.n_rows, np.int32), np.empty(raw.n_rows, np.int32)
        ends = (column.filter(pa.array(is_added)) for column in (raw.src, raw.dst))
        try:
            u[adding], v[adding] = nodes.map(*ends)
        except BadEdges as error:
            if error.row is not None:  # among those that add
                error.row = raw.first_row + int(adding[error.row])
            raise
        deleting = np.flatnonzero(~is_added)
        for ends_of_rows, column in ((u, raw.src), (v, raw.dst)):
            ends_of_rows[deleting] = nodes.lookup(column.take(pa.array(deleting)))
        unknown = deleting[np.minimum(u, v)[deleting] < 0]
        removing = np.flatnonzero((op != INSERT) & (u != v) & (np.minimum(u, v) >= 0))
        pair, last = _last_rows(pair_numbers(u[removing], v[removing]), removing)
        place = np.searchsorted(pair, own := pair_numbers(u[adding], v[adding]))
        place[place == pair.size] = 0
        is_gone = np.zeros(adding.size, bool)
        if pair.size:
            is_gone = (pair[place] == own) & (adding < last[place])
        rows = adding[~is_gone]
        # of new nodes there is no edge before the block
        is_old = (pair & 0xFFFFFFFF < n_known) & (pair >> 32 < n_known)
        is_lone = ~is_old & (op[last] == DELETE)
        n_unknown = n_pairs(*(each.take(pa.array(unknown)) for each in (raw.src, raw.dst)))
        n_unknown += int(np.count_nonzero(~np.isin(pair[is_lone], own[is_gone])))
        pair = pair[~is_lone]
        return cls(
            u=frozen((pair >> 32).astype(np.int32)),
            v=frozen((pair & 0xFFFFFFFF).astype(np.int32)),
            added=replace(
                edges_of(
                    u[rows],
                    v[rows],
                    raw.weight[rows],
                    has_zero_weights=raw.has_zero_weights,
                    n_empty=raw.n_empty,
                    time=None if raw.time is None else raw.time[rows],
                ),
                n_rows=adding.size,
            ),
            n_deletes=deleting.size,
            n_unknown=n_unknown,
            n_undone=int(np.count_nonzero(is_gone & (own >> 32 != own & 0xFFFFFFFF))),
        )


def n_pairs(src: pa.Array, dst: pa.Array) -> int:
    """Number of different pairs, whichever end comes first."""
    kind = pa.int64() if pa.types.is_integer(src.type) else pa.large_string()
    src, dst = src.cast(kind), dst.cast(kind)
    ends = pc.min_element_wise(src, dst), pc.max_element_wise(src, dst)
    count: int = pa.table(ends, ["a", "b"]).group_by(["a", "b"]).aggregate([]).num_rows
    return count


def _last_rows(pairs: Int64Array, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Different pairs in order, and the last of the ascending rows of each."""
    pair, first = np.unique(pairs[::-1], return_index=True)
    return pair, rows[::-1][first]
