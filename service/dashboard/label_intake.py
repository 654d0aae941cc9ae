"""Label intake: an uploaded file of labels, checked and then put."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from peewit.service.tables.uploads.givers import ANNOTATOR, ORIGIN, Giver
from peewit.service.tables.uploads.label_columns import is_column_name
from peewit.service.tables.uploads.label_words import label_note
from peewit.service.wire.labels import LabelOrigin
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
    givers: Sequence[Giver] = ()  # of the first rows, where columns say them
    says_origins: bool = False  # rows have an origin
    giver_fault: str = ""  # why the columns of givers cannot be used
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
        *(head, graph, home.nodes), into=choice.into, is_data=is_data, quote=choice.quote, last=last
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
        labels = _read(upload, graph, home, choice)[choice.into]
    except (BadTable, TableTooLarge) as error:
        return LabelReport(refusal=str(error))
    if not labels.nodes and labels.left_out:
        return LabelReport(left_out=labels.left_out, refusal="No row of it holds a label.")
    if not labels.nodes:
        head = head_of(upload, home, is_data=choice.is_data, quote=choice.quote)
        return LabelReport(refusal=head.without_rows(upload.name))
    known = home.nodes.knows(graph, node_array(labels.nodes, graph.settings.node_ids))
    unknown = [node for node, is_known in zip(labels.nodes, known, strict=True) if not is_known]
    present = home.labels.class_counts(graph.id, column=choice.into)
    return LabelReport(
        n_labels=len(labels.nodes),
        first_rows=list(zip(labels.nodes, labels.labels, strict=True))[:_FIRST_ROWS],
        class_sizes=dict(Counter(labels.labels).most_common()),
        n_unknown=len(unknown),
        unknown=unknown[:_UNKNOWN_SHOWN],
        givers=(labels.givers or ())[:_FIRST_ROWS],
        says_origins=any(giver.origin for giver in labels.giver_rows),
        giver_fault=_giver_fault(labels),
        left_out=labels.left_out,
        note="; ".join(filter(None, [*labels.told, label_note(labels.labels, present)])) or None,
    )


def _giver_fault(labels: UploadedLabels) -> str:
    """What is wrong with origins and annotators of rows; '' for nothing."""
    try:
        row_givers(labels, origin="imported", annotator=None)
    except BadLabels as error:
        return str(error)
    return ""


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

    Without ``origin`` each row gives its own, as far as it has one. Raises BadUpload,
    TableTooLarge, BadLabels, LabelsRefused and InvalidArgument as ``PUT /v1/graphs/{g}/labels``
    does.
    """
    if origin is not None:
        choice = replace(choice, origin_column="")
    labels = _read(upload, graph, home, choice)
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
    upload: Upload, graph: GraphRecord, home: ServedHome, choice: LabelChoice
) -> dict[str, UploadedLabels]:
    with refusing():
        if choice.node == choice.label:
            raise BadArgument("label", f"must be a column of its own, got {choice.label!r} twice")
        if choice.into and not is_column_name(choice.into):
            raise BadArgument(
                "into", f"must be printable text without blanks at its ends, got {choice.into!r}"
            )
    named = {ORIGIN: choice.origin_column, ANNOTATOR: choice.annotator_column}
    named = {giver: column for giver, column in named.items() if column}
    columns = LabelColumns(
        node=choice.node,
        of_kind=choice.node_kind,
        label=choice.label,
        into=choice.into,
        givers=tuple(named),
        givers_named={giver: column for giver, column in named.items() if column != giver},
        time=choice.time_column if choice.contradictions == "last" else "",
        words=choice.words,
        missing_ids=choice.missing_ids,
        contradictions=choice.contradictions,
        quote=choice.quote,
    )
    with upload.opened() as file:
        return home.labeling.read(
            graph, file, upload.table_format, columns, limits=home.upload_limits
        )
