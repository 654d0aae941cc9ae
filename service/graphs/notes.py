"""Notes on the edges of a graph, to be known before its labels are trusted."""

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
from peewit.streaming.edges.reading_options import DOUBTFUL_WORDS
from peewit.streaming.snapshots.provenance import SnapshotMeta

_UNSEEN: Final = r"^[\s\p{Z}\p{Cf}]+|[\s\p{Z}\p{Cf}]+$"
"""White space and characters that show nothing, as a byte order mark, at either end."""


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
        return _missing_note(graph, ids.filter(pc.equal(ids, -1)))
    words, own = pa.array(sorted(DOUBTFUL_WORDS), ids.type), ids
    if graph.settings.node_ids == "typed":
        own = pc.replace_substring_regex(ids, pattern="^[^:]*:", replacement="")
    notes = [
        _missing_note(graph, ids.filter(pc.is_in(pc.utf8_lower(own), value_set=words))),
        _number_note(own),
        _unseen_note(own),
    ]
    return "; ".join(filter(None, notes))


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


def _missing_note(graph: GraphRecord, doubtful: pa.ChunkedArray) -> str:
    names = [str(each) for each in doubtful.to_pylist()]
    if not names:
        return ""
    name = graph.settings.name
    return (
        f"{', '.join(map(repr, names))} became a node; where it stands for a missing value, "
        f"`peewit erase {name} --node={quote(names[0])}` takes it out with its edges"
    )


def _number_note(ids: pa.ChunkedArray) -> str:
    """That numbers are written as others are not: with .0, or with zeros before them."""
    notes = []
    floats = ids.filter(pc.ends_with(ids, ".0"))  # few: a pattern for all takes long
    floats = floats.filter(pc.match_substring_regex(floats, r"^-?[0-9]+\.0$"))
    if len(floats):
        whole = floats[0].as_py().partition(".")[0]
        notes.append(
            f"{_new_ids(len(floats))} written as {floats[0].as_py()}, as columns with gaps are: "
            f"{whole} is another node"
        )
    padded = ids.filter(pc.starts_with(ids, "0"))
    padded = padded.filter(pc.match_substring_regex(padded, "^0+[0-9]+$"))
    if len(padded):
        bare = pc.replace_substring_regex(padded, "^0+([0-9])", r"\1")
        twins = ids.filter(pc.is_in(ids, value_set=bare.combine_chunks()))
        if len(twins):
            notes.append(
                f"{_new_ids(len(twins))} written with zeros before them, too, the first "
                f"{twins[0].as_py()!r}: these are two nodes"
            )
    return "; ".join(notes)


def _new_ids(number: int) -> str:
    return "1 new id is" if number == 1 else f"{number:,} new ids are"


def _unseen_note(ids: pa.ChunkedArray) -> str:
    """That ids begin or end with what nobody sees, or are composed as others are not."""
    is_plain = pc.and_(pc.string_is_ascii(ids), pc.equal(ids, pc.ascii_trim_whitespace(ids)))
    odd = ids.filter(pc.invert(is_plain))
    bare = pc.replace_substring_regex(pc.utf8_normalize(odd, "NFC"), _UNSEEN, "")
    unseen = odd.filter(pc.not_equal(odd, bare))
    if not len(unseen):
        return ""
    return (
        f"{_new_ids(len(unseen))} written with blanks or invisible characters around, or with "
        f"accents as characters of their own, the first {unseen[0].as_py()!a}: without these it "
        "is another node"
    )


def fault_text(repair_fault: str) -> str:
    """That edges could not be read again, why, and what to do."""
    return (
        f"edges could not be read again, so that those of before are kept: {repair_fault}; bring "
        "the files back and ingest, or, if they are lost, lower max_edges to what is kept"
    )
