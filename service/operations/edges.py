"""Edges by push."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, BinaryIO, Final

import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.table_notes import pushed_notes
from peewit.service.inbox.edge_deletes import deletes_of_pairs, write_deletes
from peewit.service.inbox.inbox_records import BacklogFull, PushNotFound, PushRecord
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.inbox.typed_graphs import typed_graph
from peewit.service.jobs.job import IdempotencyConflict
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Path, Query, Table, operation
from peewit.service.operations.here import Here
from peewit.service.operations.sources_and_files import file_of
from peewit.service.operations.submissions import IdempotencyKey
from peewit.service.operations.tables import EdgeColumnNames, TableUpload, named
from peewit.service.tables.column_names import edge_columns
from peewit.service.tables.uploads import BadUpload, UploadLimits
from peewit.service.wire.sources_and_pushes import Push
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns
from peewit.streaming.edges.table_formats import Format

_REFUSALS: Final = (IdempotencyConflict, BadEdges, BacklogFull)

Ends = Annotated[list[str], Query("One end of each pair, in order.", min_length=1, max_length=100)]


@operation(
    "GET /pushes/{push_id}",
    "read",
    "ingest",
    raises=(PushNotFound,),
    client="push",
    refused=BadEdges,
)
def get_push(here: Here, graph: GraphRecord, push_id: Annotated[str, Path()]) -> Push:
    """One push and the file it was gathered into; `wait` can wait until it is pending no more.

    A key that must not read sees its own. A push without Idempotency-Key is forgotten ten minutes
    after it went in, others after a month.
    """
    return _push_answer(
        here, graph, here.home.manifest.push_log.get(graph.id, push_id, owner=here.only)
    )


@operation(
    "POST /edges",
    "ingest",
    raises=_REFUSALS,
    location="/graphs/{graph}/pushes/{answer.id}",
    follow=get_push,
    refused=BadEdges,
    room="pushes",
)
def push_edges(
    here: Here,
    graph: GraphRecord,
    edges: Annotated[
        TableUpload,
        Table("Columns `src`, `dst`, perhaps `weight` and `op`, or as the query names them."),
    ],
    columns: EdgeColumnNames,
    max_bad_rows: Annotated[
        int,
        Query(
            "Most rows that may be left out because they break a rule; the answer says how many.",
            ge=0,
            le=MAX_BAD_ROWS,
        ),
    ] = 0,
    idempotency_key: IdempotencyKey = None,
) -> Push:
    """Push a block of edges, or of changes.

    It is checked whole, then written to disk and flushed: from the answer on it cannot be lost. 202
    while it waits, 200 once it is in the graph, for which `wait` can wait. Pushes that wait are
    gathered into one file. The header `Idempotent-Replayed` says that the push came before with its
    Idempotency-Key, and counts once.
    """
    named_columns = edge_columns(graph.settings.columns_of_edges, named(**vars(columns)))
    return _pushed(
        here,
        typed_graph(here.home.database, graph, named_columns.kinds_by_argument),
        edges.file,
        edges.table_format,
        digest=edges.digest,
        columns=named_columns,
        idempotency_key=idempotency_key,
        max_bad_rows=max_bad_rows,
        limits=edges.limits,
    )


@operation(
    "DELETE /edges",
    "ingest",
    raises=(*_REFUSALS, BadUpload),
    location="/graphs/{graph}/pushes/{answer.id}",
    follow=get_push,
    refused=BadEdges,
    room="pushes",
    is_call_written=True,
)
def delete_edges(
    here: Here,
    graph: GraphRecord,
    src: Ends,
    dst: Ends,
    relation: Annotated[
        str | None,
        Query("Kind of the edges to delete, '' for those without a name; needed where some have."),
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> Push:
    """Delete all edges between some pairs of nodes.

    The first `src` and the first `dst` are one pair, and so on; either end may come first. Edges
    that come later stay, also those of files that still wait. A pair without edges is passed over.
    The answer is that of a push; more pairs go into a push with a column `op`, as clients in Python
    send them.
    """
    content = io.BytesIO()
    kind = graph.settings.node_ids
    write_deletes([deletes_of_pairs(src, dst, kind)], content, kind)
    return _pushed(
        here,
        graph,
        content,
        Format.ARROW,
        digest=sha256(content.getvalue()).hexdigest(),
        columns=replace(CHANGES, missing_ids="keep", relation=relation),
        idempotency_key=idempotency_key,
    )


def _pushed(
    here: Here,
    graph: GraphRecord,
    file: BinaryIO,
    table_format: Format,
    *,
    digest: str,
    columns: EdgeColumns,
    idempotency_key: str | None,
    max_bad_rows: int = 0,
    limits: UploadLimits | None = None,
) -> Push:
    notes: list[str] = []

    def look(rows: pa.Table, names: Sequence[str], ended: Mapping[str, int]) -> None:
        known, snapshots = here.home.nodes, here.home.snapshots(graph)
        notes.extend(pushed_notes(graph, known, snapshots, columns, rows, names, ended))

    push = here.home.pushes.add(
        graph,
        file,
        table_format,
        body_digest=digest,
        columns=columns,
        idempotency_key=idempotency_key,
        owner=here.owner,
        max_bad_rows=max_bad_rows,
        limits=limits,
        look=look,
    )
    here.require_own(push.owner)
    if push.is_repeated:
        here.headers["Idempotent-Replayed"] = "true"
    return _push_answer(here, graph, push, notes)


def _push_answer(
    here: Here, graph: GraphRecord, push: PushRecord, notes: Sequence[str] = ()
) -> Push:
    waiting = None
    if push.status == "pending":
        waiting = here.home.manifest.wishes.of(graph.id).arrivals_fault
    note = "; ".join(filter(None, [*notes, waiting])) or None
    file = None if push.file is None else file_of(push.file)
    return answer_of(Push, push, file=file, note=note)
