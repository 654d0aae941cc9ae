"""Kinds of the nodes that a typed graph has, and of what kinds ids seem to be."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.streaming.edges.node_ids import earliest_kinds

_LOOKED_AT: Final = 1 << 12
"""Ids at either end of a part of the index that are looked at: a kind comes with some file."""

_MOST_TRIED: Final = 32


def kinds_here(nodes: KnownNodes, graph: GraphRecord) -> list[str]:
    """Kinds of a typed graph's nodes, also of those that wait, the earliest first.

    Of a large graph a rare kind may be missed.
    """
    kinds: dict[str, None] = {}
    for ids in nodes.all_ids(graph):
        for part in (ids.slice(0, _LOOKED_AT), ids.slice(max(_LOOKED_AT, len(ids) - _LOOKED_AT))):
            kinds |= dict.fromkeys(earliest_kinds(part))
    return list(kinds)


def likely_kind(
    nodes: KnownNodes, graph: GraphRecord, kinds: Sequence[str], ids: Sequence[str]
) -> str:
    """The kind that most of some ids are known nodes of, the first of several; '' where none is."""
    n_known: Mapping[str, int] = {
        kind: int(nodes.knows(graph, _in_kind(kind, ids)).sum()) for kind in kinds[:_MOST_TRIED]
    }
    best = max(n_known, key=lambda kind: n_known[kind], default="")
    return best if n_known.get(best) else ""


def new_kinds_note(nodes: KnownNodes, graph: GraphRecord, ends: Iterable[pa.Array]) -> str:
    """Which kinds of some rows' ends a typed graph lacks, and what these join; '' where it has all.

    ``ends`` begin with the two of one edge.
    """
    listed = [each.drop_null() for each in ends]
    named = dict.fromkeys(kind for each in listed for kind in earliest_kinds(each))
    has = kinds_here(nodes, graph)
    new = [kind for kind in named if kind not in has]
    for ids in nodes.all_ids(graph) if new and has else ():
        new = [kind for kind in new if not _holds(ids, kind)]
    if not (new and has):
        return ""
    words = " and ".join(map(repr, new))
    note = f"kind{'s' if len(new) > 1 else ''} {words} {'are' if len(new) > 1 else 'is'} new"
    note += f": the graph has {', '.join(has)}"
    if len(new) < len(named) or not all(map(len, listed[:2])):
        return note
    one, other = (each[0].as_py() for each in listed[:2])
    return f"{note}; edges between {one} and {other} join nothing that is there"


def _in_kind(kind: str, ids: Sequence[str]) -> pa.Array:
    return pa.array([f"{kind}:{each}" for each in ids], pa.large_string())


def _holds(ids: pa.Array, kind: str) -> bool:
    return bool(pc.any(pc.starts_with(ids, f"{kind}:")).as_py())
