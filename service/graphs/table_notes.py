"""What is to be known of a table before its edges are trusted, by its first rows."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.kinds_here import new_kinds_note
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.graphs.notes import doubtful_ids_note
from peewit.service.inbox.edge_deletes import lacking_note
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.source_columns import source_columns
from peewit.service.live_sources.contract import UNREAD
from peewit.service.tables.column_names import column_list
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.blocks import RawBlock
from peewit.streaming.edges.change_columns import UnreadColumns
from peewit.streaming.edges.column_mapping import EdgeColumns, is_directed
from peewit.streaming.edges.conversion import first_rows
from peewit.streaming.edges.node_ids import id_type
from peewit.streaming.edges.oddities import (
    ended_notes,
    odd_columns,
    odd_first_row,
    shared_ids,
    shared_text,
)
from peewit.streaming.edges.operations import DELETE, OPERATIONS
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.features.feature_files import set_owners
from peewit.streaming.snapshots.store import SnapshotStore

Door = Literal["command", "page"]
"""In whose words it is told what to do."""

_KINDS_SAID: Final[dict[Door, str | None]] = {"command": None, "page": "at both ends"}

_AS_WEIGHT: Final[dict[Door, str]] = {"command": "say --weight {}", "page": "choose {} as Weight"}

LOOKED_AT: Final = 20
"""Files of one call that are looked at."""

_ROWS: Final = 10_000
"""Looked at of each file: what overlaps does so in the first rows, mostly."""


def columns_before(graph: GraphRecord, sources: Collection[SourceRecord]) -> set[str]:
    """Names of the columns of nodes that tables of a graph had so far."""
    named = [graph.settings.columns, *(each.columns or {} for each in sources)]
    ends = {each[end] for each in named for end in ("src", "dst", "entity") if end in each}
    return ends.union(*(column_list(each.get("via")) for each in named))


def local_file(path: str, columns: EdgeColumns) -> EdgeFile:
    """A file that may be looked at, whatever its version."""
    return EdgeFile(path=path, size=0, version="", columns=columns)


def new_ids_note(graph: GraphRecord, nodes: KnownNodes, *ends: pa.Array) -> str:
    """What is odd about the ids of some rows that are no nodes yet; empty where nothing is."""
    kind = id_type(graph.settings.node_ids)
    some = pa.chunked_array([each.slice(0, _ROWS).cast(kind) for each in ends], kind)
    ids = pa.chunked_array([pc.unique(some)])
    if not doubtful_ids_note(graph, ids):
        return ""
    is_new = nodes.lookup(graph, ids.combine_chunks()) < 0
    return doubtful_ids_note(graph, ids.filter(pa.array(is_new)))


def pushed_notes(
    graph: GraphRecord,
    nodes: KnownNodes,
    snapshots: SnapshotStore,
    columns: EdgeColumns,
    rows: pa.Table,
    names: Sequence[str],
    ended: Mapping[str, int],
) -> list[str]:
    """What is odd about the first rows of a push, once they are checked, and its columns' names.

    ``ended`` is `change_columns.rows_ended` of these rows.
    """
    notes = odd_columns(names, columns) + ended_notes(ended)
    if "op" in rows.schema.names:  # nodes that are not known make none
        deletes = pc.equal(rows["op"], OPERATIONS[DELETE])
        if "relation" in rows.schema.names:
            named = pc.unique(rows["relation"].filter(deletes)).to_pylist()
            notes.append(lacking_note(snapshots.relation_names(), named))
        rows = rows.filter(pc.invert(deletes))
    src, dst = (rows[name].combine_chunks().drop_null() for name in ("src", "dst"))
    notes.append(odd_first_row(src, dst) or "")
    if not columns.via:
        notes.append(shared_ids(columns, src, dst) or "")
    notes.append(new_ids_note(graph, nodes, src, dst))
    return notes


def owners_note(graph: GraphRecord, nodes: KnownNodes, path: Path) -> str:
    """What is odd about the first ids of a set of features that are no nodes yet."""
    ids = next((ids for ids, _ in set_owners(path)), None)
    return "" if ids is None else new_ids_note(graph, nodes, ids)


def table_note(
    graph: GraphRecord,
    nodes: KnownNodes,
    file: EdgeFile,
    before: Collection[str],
    *,
    tells_ids: bool = True,
    door: Door = "command",
) -> str | None:
    """What a file's first rows tell, None where that is nothing.

    A column of changes is passed over, or ids are nodes under the name of another column already.
    ``before`` are the names of columns of earlier tables. Odd ids are told unless they are
    elsewhere.
    """
    if not Path(file.path).is_file():
        return None
    try:
        first = first_rows(
            file,
            n_rows=_ROWS,
            node_kind=graph.settings.node_ids,
            max_nodes=graph.settings.max_nodes,
        )
    except (BadTable, OSError):  # told where the file is read
        return None
    if first is None:
        return None
    as_weight = _AS_WEIGHT[door]
    notes = odd_columns(first.names, file.columns, first.passed_over, as_weight=as_weight)
    notes += ended_notes(first.ended)
    notes += filter(
        None,
        [
            odd_first_row(first.block.src, first.block.dst),
            _direction_note(graph, file.columns, door),
        ],
    )
    if graph.settings.node_ids != "typed":
        block = first.block
        ends = block.src, *(block.cells or (block.dst,))
        shared = shared_ids(file.columns, *ends, how=_KINDS_SAID[door])
        notes += filter(None, [shared or _known_ids(graph, nodes, file, block, before, door)])
    else:
        ends = first.block.src, *(first.block.cells or (first.block.dst,))
        notes += filter(None, [new_kinds_note(nodes, graph, ends)])
    if tells_ids:
        notes += filter(None, [new_ids_note(graph, nodes, first.block.src, first.block.dst)])
    return "; ".join(notes) or None


def source_note(graph: GraphRecord, source: SourceRecord, *, door: Door | None) -> str | None:
    """What columns of a live source that nobody reads tell, as those of files do.

    In the words of the API where there is no ``door``.
    """
    unread = UnreadColumns((source.position or {}).get(UNREAD))
    if not unread.names:
        return None
    columns = source_columns(graph.settings, source.holds, source.columns)
    beside = columns.beside(unread.names)
    ended = {name: n_rows for name, n_rows in unread.ended.items() if name in beside}
    if not isinstance(columns, EdgeColumns):
        return "; ".join(ended_notes(ended, "a label")) or None
    values = {name: words for name, words in unread.operations.items() if name in beside}
    as_weight = "say weight={!r}" if door is None else _AS_WEIGHT[door]
    notes = odd_columns(unread.names, columns, values, as_weight=as_weight) + ended_notes(ended)
    return "; ".join(notes) or None


def _direction_note(graph: GraphRecord, columns: EdgeColumns, door: Door) -> str | None:
    """What becomes of directions, where columns are called as those of who sends and who gets."""
    relation = columns.relation
    if columns.via or relation in graph.settings.directed or not is_directed(*columns.nodes):
        return None
    way_out = f"say{'' if relation else ' --relation NAME'} --directed"
    if door == "page":
        way_out = f"{'' if relation else 'name the kind of edges and '}tick Directed"
    return (
        f"labels pass along edges from {columns.src!r} to {columns.dst!r} both ways alike; "
        f"{way_out} to have solves count what a node sends and receives"
    )


def _known_ids(
    graph: GraphRecord,
    nodes: KnownNodes,
    file: EdgeFile,
    block: RawBlock,
    before: Collection[str],
    door: Door,
) -> str | None:
    """That ids are nodes under another column's name already."""
    columns = file.columns.nodes
    ids_of = block.src, *(block.cells or (block.dst,))
    for name, ids in zip(columns, map(pa.Array.drop_null, ids_of), strict=True):
        others = sorted(set(before) - {name})
        if others and name not in before and graph.progress.n_nodes:
            present = ids.filter(nodes.lookup(graph, ids) >= 0)
            if len(present):
                where = f"in the graph already, which has {', '.join(map(repr, others))}"
                how = _KINDS_SAID[door]
                return shared_text(present[0].as_py(), file.columns, name, where, how=how)
    return None
