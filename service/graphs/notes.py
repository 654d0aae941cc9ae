"""Notes on the edges of a graph, to be known before its labels are trusted."""

from collections.abc import Sequence
from shlex import quote
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.leaving.wishes import Wanted
from peewit.service.wire.graphs import edges_text
from peewit.streaming.edges.node_ids import kinds_of, nodes_of_kinds
from peewit.streaming.edges.node_kinds import TEXT
from peewit.streaming.edges.oddities import doubtful_ids, odd_ids
from peewit.streaming.snapshots.provenance import SnapshotMeta

_SHOWN: Final = 5


def kept_text(graph: GraphRecord, newest: SnapshotMeta | None) -> str:
    """How many edges of a graph are kept, by its newest snapshot, in words."""
    progress, settings = graph.progress, graph.settings
    return edges_text(
        n_nodes=progress.n_nodes,
        n_edges=progress.edges_seen - progress.left_out.total,
        n_kept=progress.edges_kept,
        n_live=None if newest is None else newest.n_live,
        expected=progress.epsilon_expected,
        asked=settings.epsilon,
        max_edges=settings.max_edges,
        n_relations=0 if newest is None else len(newest.relations),
    )


def graph_note(newest: SnapshotMeta | None, wanted: Wanted) -> str:
    """The note of the newest snapshot, and why edges that it lacks were not read or wait.

    Empty where there is nothing to know.
    """
    sentences = [] if newest is None or not newest.note else [newest.note]
    if wanted.repair_fault is not None:
        sentences.append(fault_text(wanted.repair_fault))
    if wanted.arrivals_fault is not None:
        sentences.append(wanted.arrivals_fault)
    return "; ".join(sentences)


def doubtful_ids_note(graph: GraphRecord, ids: pa.ChunkedArray) -> str:
    """What is odd about the ids of some new nodes: words for nothing, .0, what nobody sees.

    Empty where nothing is.
    """
    if graph.settings.node_ids not in TEXT:
        return _missing_note(graph, ["-1"] if pc.any(pc.equal(ids, -1)).as_py() else [])
    own = ids
    if graph.settings.node_ids == "typed":
        own = pc.replace_substring_regex(ids, pattern="^[^:]*:", replacement="")
    return "; ".join(filter(None, [_missing_note(graph, doubtful_ids(ids, own)), *odd_ids(own)]))


def answers_note(graph: GraphRecord, nodes: KnownNodes) -> str:
    """That no node is of a kind that answers are to be about; empty where there is no such kind.

    Kinds of a graph without nodes are not known.
    """
    chunks = [*nodes.all_ids(graph)] if graph.settings.answers else []
    if not any(map(len, chunks)):
        return ""
    ids = pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks])
    lacking = [kind for kind in graph.settings.answers if not nodes_of_kinds(ids, [kind]).any()]
    if not lacking:
        return ""
    return (
        f"no node is of kind {', '.join(lacking)} yet; the graph has {', '.join(kinds_of(ids))}, "
        "and a solve needs one that it has"
    )


def _missing_note(graph: GraphRecord, names: Sequence[str]) -> str:
    if not names:
        return ""
    name = graph.settings.name
    more = f" and {len(names) - _SHOWN:,} others" if len(names) > _SHOWN else ""
    return (
        f"{', '.join(map(repr, names[:_SHOWN]))}{more} became a node; where it stands for a "
        f"missing value, `peewit erase {name} --node={quote(names[0])}` takes it out with its edges"
    )


def fault_text(repair_fault: str) -> str:
    """That edges could not be read again, why, and what to do."""
    return (
        f"edges could not be read again, so the graph keeps those it had: {repair_fault}; "
        "bring the files back and ingest. If they are lost, lower max_edges to what is kept"
    )
