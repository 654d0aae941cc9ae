"""Notes on the edges of a graph, to be known before its labels are trusted."""

from shlex import quote

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.leaving.wishes import Wanted
from peewit.service.wire.graphs import edges_text
from peewit.streaming.edges.node_kinds import TEXT
from peewit.streaming.edges.reading_options import DOUBTFUL_WORDS
from peewit.streaming.snapshots.store import SnapshotMeta


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
    """That some new nodes are called as if they stood for a missing value; empty where none is."""
    if graph.settings.node_ids in TEXT:
        words = pa.array(sorted(DOUBTFUL_WORDS), ids.type)
        of_kinds = ids
        if graph.settings.node_ids == "typed":
            of_kinds = pc.replace_substring_regex(ids, pattern="^[^:]*:", replacement="")
        doubtful = ids.filter(pc.is_in(pc.utf8_lower(of_kinds), value_set=words))
    else:
        doubtful = ids.filter(pc.equal(ids, -1))
    names = [str(each) for each in doubtful.to_pylist()]
    if not names:
        return ""
    name = graph.settings.name
    return (
        f"{', '.join(map(repr, names))} became a node; where it stands for a missing value, "
        f"`peewit erase {name} --node={quote(names[0])}` takes it out with its edges"
    )


def fault_text(repair_fault: str) -> str:
    """That edges could not be read again, why, and what to do."""
    return (
        f"edges could not be read again, so that those of before are kept: {repair_fault}; bring "
        "the files back and ingest, or, if they are lost, lower max_edges to what is kept"
    )
