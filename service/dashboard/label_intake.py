"""Label intake: an uploaded file of labels, checked and then put."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.column_choices import LabelChoice, at_their_places
from peewit.service.dashboard.uploads import Upload
from peewit.service.labels.row_givers import row_givers
from peewit.service.labels.store import BadLabels, LabelReceipt
from peewit.service.tables.table_heads import TableHead, table_head
from peewit.service.tables.uploads import (
    LabelColumns,
    LabelValue,
    NodeId,
    TableTooLarge,
    UploadedLabels,
    decoding_bytes,
    node_array,
)
from peewit.service.tables.uploads.givers import GIVER_COLUMNS
from peewit.service.tables.uploads.label_columns import is_column_name
from peewit.service.tables.uploads.label_words import label_note
from peewit.service.wire.labels import LabelOrigin, origin_named
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.table_formats import Format

_FIRST_ROWS: Final = 5
_UNKNOWN_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReport:
    """What a file of labels holds."""

    n_labels: int = 0  # rows
    first_rows: Sequence[tuple[NodeId, LabelValue]] = ()
    class_sizes: Mapping[LabelValue, int] | None = None  # most frequent first
    n_unknown: int = 0  # nodes that the graph does not know
    unknown: Sequence[NodeId] = ()  # the first of these
    says_givers: bool = False  # rows have origin or annotator
    giver_fault: str = ""  # why these cannot be used
    left_out: Mapping[str, int] | None = None  # rows by the word that means no label
    note: str | None = None  # what may have gone wrong
    refusal: str | None = None  # why the file would not be taken


def proposal(
    upload: Upload,
    graph: GraphRecord,
    home: ServedHome,
    choice: LabelChoice,
    *,
    last: Mapping[str, str],
) -> tuple[TableHead, LabelChoice]:
    """Head of a file, and the choice of columns, proposed where none is made."""
    head = head_of(upload, home, is_data=choice.is_data, quote=choice.quote)
    if set(choice.named.values()) - {*head.names, ""}:  # see the same of edges
        other = head_of(upload, home, is_data=not choice.is_data, quote=choice.quote)
        choice = at_their_places(choice, head, other)
    if choice.node or choice.label:
        return head, choice
    is_data = choice.is_data or not head.has_names
    return head, LabelChoice.proposed(
        *(head, graph, home.nodes),
        into=choice.into,
        is_data=is_data,
        quote=choice.quote,
        last=last,
    )


def head_of(upload: Upload, home: ServedHome, *, is_data: bool, quote: Quote | None) -> TableHead:
    """Column names and first rows of a file."""
    limits = home.upload_limits
    with upload.opened() as file:
        if upload.table_format in {Format.ARROW, Format.PARQUET}:
            decoding_bytes(file, upload.table_format, upload.n_bytes, limits)
            file.seek(0)
        return table_head(file, upload.table_format, has_names=not is_data, quote=quote)


def look(upload: Upload, graph: GraphRecord, home: ServedHome, choice: LabelChoice) -> LabelReport:
    """What would be put of a file; reads all of it."""
    try:
        labels = _read(upload, graph, home, choice, givers=GIVER_COLUMNS)[choice.into]
    except (BadTable, TableTooLarge) as error:
        return LabelReport(refusal=str(error))
    if not labels.nodes and labels.left_out:
        return LabelReport(left_out=labels.left_out, refusal="No row of it holds a label.")
    if not labels.nodes:
        head = head_of(upload, home, is_data=choice.is_data, quote=choice.quote)
        return LabelReport(refusal=head.without_rows(upload.name))
    known = home.nodes.knows(graph, node_array(labels.nodes, graph.settings.node_ids))
    unknown = [node for node, is_known in zip(labels.nodes, known, strict=True) if not is_known]
    says_givers, giver_fault = _what_rows_say(labels)
    present = home.labels.class_counts(graph.id, column=choice.into)
    return LabelReport(
        n_labels=len(labels.nodes),
        first_rows=list(zip(labels.nodes, labels.labels, strict=True))[:_FIRST_ROWS],
        class_sizes=dict(Counter(labels.labels).most_common()),
        n_unknown=len(unknown),
        unknown=unknown[:_UNKNOWN_SHOWN],
        says_givers=says_givers,
        giver_fault=giver_fault,
        left_out=labels.left_out,
        note=label_note(labels.labels, present),
    )


def _what_rows_say(labels: UploadedLabels) -> tuple[bool, str]:
    """Whether rows say where labels come from, and what is wrong with it.

    Where something is wrong and no cell is an origin, the columns mean something else.
    """
    try:
        row_givers(labels, origin="imported", annotator=None)
    except BadLabels as error:
        means_it = any(origin_named(giver.origin) for giver in labels.giver_rows)
        return False, str(error) if means_it else ""
    return any(any(giver) for giver in labels.giver_rows), ""


def take(
    upload: Upload,
    graph: GraphRecord,
    home: ServedHome,
    choice: LabelChoice,
    *,
    origin: LabelOrigin | None,
    annotator: str | None,
    key: str | None,
) -> LabelReceipt:
    """Put the labels of a file, which is removed, as given by ``annotator`` with a key.

    Without ``origin`` each row gives its origin and annotator, as far as it has them. Raises
    BadUpload, TableTooLarge, BadLabels, LabelsRefused and InvalidArgument as ``PUT
    /v1/graphs/{g}/labels`` does.
    """
    givers = GIVER_COLUMNS if origin is None else ()
    labels = _read(upload, graph, home, choice, givers=givers)
    receipt = home.labeling.put(
        graph,
        labels,
        unknown=choice.unknown,
        origin=origin or "imported",
        annotator=annotator,
        key=key,
    )
    upload.remove()
    return receipt


def _read(
    upload: Upload,
    graph: GraphRecord,
    home: ServedHome,
    choice: LabelChoice,
    *,
    givers: tuple[str, ...],
) -> dict[str, UploadedLabels]:
    with refusing():
        if choice.node == choice.label:
            raise BadArgument("label", f"must be a column of its own, got {choice.label!r} twice")
        if choice.into and not is_column_name(choice.into):
            raise BadArgument(
                "into", f"must be printable text without blanks at its ends, got {choice.into!r}"
            )
    columns = LabelColumns(
        node=choice.node,
        of_kind=choice.node_kind,
        label=choice.label,
        into=choice.into,
        givers=givers,
        words=choice.words,
        contradictions=choice.contradictions,
        quote=choice.quote,
    )
    with upload.opened() as file:
        return home.labeling.read(
            graph, file, upload.table_format, columns, limits=home.upload_limits
        )
