"""Labels of nodes: put, read, taken back; and their columns."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict

from peewit.service.catalog import GraphRecord
from peewit.service.labels.label_entry import LabelsRefused, UnknownNodesRule, encode_labels
from peewit.service.labels.opinion_table import encode_opinions
from peewit.service.labels.store import BadLabels, LabelColumnNotFound
from peewit.service.operations.answers import answer_of
from peewit.service.operations.bodies import Body, LabelIn
from peewit.service.operations.declaration import Group, Query, Table, operation
from peewit.service.operations.here import Here
from peewit.service.operations.tables import GivenLabels, Quoting, Rows, named
from peewit.service.operations.which import LabelColumn
from peewit.service.tables.column_names import label_columns as table_columns
from peewit.service.tables.uploads import BadUpload, LabelColumns, node_id
from peewit.service.tables.uploads.givers import left_to_rows
from peewit.service.tables.uploads.label_columns import PLAIN_LABELS
from peewit.service.tables.uploads.label_words import LabelWords
from peewit.service.wire.labels import LabelColumn as ColumnOfLabels
from peewit.service.wire.labels import LabelColumnList, LabelOrigin, LabelReceipt
from peewit.service.wire.records import described, record
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.reading_options import Contradictions, NodelessRows


class LabelRowIn(Body):
    """A node and its label in each `label_column`, under its name; null says nothing."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | str | float | None]

    node: int | str


class GivenLabelIn(LabelIn):
    """A node, its label, and where that comes from, unless the query says it for all."""

    origin: LabelOrigin | None = None
    annotator: str | None = None
    key: Any = None  # as exports have it; the key of a label is the caller's


class LabelColumnsIn(Body):
    """Labels to put: of the column without a name, or with `label_column` of named ones."""

    # Described here, read by `json_labels`, which names the row of a fault.

    labels: list[GivenLabelIn] | list[LabelRowIn]


@record
class LabelsOut(LabelReceipt):
    """What became of labels."""

    refused: tuple[str, ...] = described("Always empty: when one is refused, the answer is 422.")


@dataclass(frozen=True, kw_only=True)
class LabelReading(Group):
    """What the columns of a table of labels are called, and how it is read."""

    node: Annotated[
        str | None, Query("Column of the node; the graph's otherwise.", metavar="COLUMN")
    ] = None
    label: Annotated[str | None, Query("Column of the label.", metavar="COLUMN")] = None
    no_label: Annotated[
        list[str] | None,
        Query(
            "A further word that means no label, besides NA, ?, unknown and their like; rows that "
            "have one are left out and counted.",
            metavar="WORD",
        ),
    ] = None
    keep_word: Annotated[
        list[str] | None, Query("Take such a word for a label.", metavar="WORD")
    ] = None
    missing_ids: Annotated[
        NodelessRows,
        Query("Rows that name no node: refuse the table, or leave them out and count them."),
    ] = "refuse"
    contradictions: Annotated[
        Contradictions,
        Query(
            "What to do where a table gives a node different labels: refuse the table, let "
            "the last row hold, leave the node out, or take the rows for opinions of "
            "several people, named by `annotator`."
        ),
    ] = "refuse"
    quote: Quoting = None

    def columns(self, graph: GraphRecord, **others: Any) -> LabelColumns:
        """Columns of a table: those named, else the graph's, else the usual ones."""
        return table_columns(
            graph.settings.columns,
            named(node=self.node, label=self.label),
            words=LabelWords(
                no_label=tuple(self.no_label or ()), keep_word=tuple(self.keep_word or ())
            ),
            missing_ids=self.missing_ids,
            contradictions=self.contradictions,
            quote=self.quote,
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class ColumnsOfRows(Group):
    """What the columns are called that say more of each label."""

    time_column: Annotated[
        str | None,
        Query(
            "Column of the time of each label; the latest label of a node holds. By "
            "default that of the graph, else `time` where all rows have one. '' means none.",
            metavar="COLUMN",
        ),
    ] = None
    origin_column: Annotated[
        str | None,
        Query(
            "Column of where each label comes from; the graph's otherwise, else `origin`, and '' "
            "for none.",
            metavar="COLUMN",
        ),
    ] = None
    annotator_column: Annotated[
        str | None,
        Query(
            "Column of who has given each label; the graph's otherwise, else `annotator`, and '' "
            "for none.",
            metavar="COLUMN",
        ),
    ] = None

    def reading(self, *, origin: str | None, annotator: str | None) -> dict[str, Any]:
        """What of it `LabelColumns` take, where the query says one value for all rows, or none."""
        givers = left_to_rows(origin=origin, annotator=annotator)
        called = named(origin=self.origin_column, annotator=self.annotator_column)
        for giver in called.keys() - set(givers):
            rule = f"must be left out beside {giver}, which is said for all rows"
            raise BadArgument(f"{giver}_column", f"{rule}, got {called[giver]!r}")
        return {
            "givers": tuple(giver for giver in givers if called.get(giver) != ""),
            "givers_named": {giver: column for giver, column in called.items() if column},
            "time": self.time_column,
        }


Origin = Annotated[
    LabelOrigin | None,
    Query(
        "Where the labels come from: nodes were chosen by somebody (given, as of a JSON "
        "body by default), drawn at random, or suggested by predictions or the graph. "
        "Labels of a file are imported by default. When left out, each row's `origin` "
        "counts, where it has one."
    ),
]
Annotator = Annotated[
    str | None,
    Query(
        "Who has given the labels, where a tool brings those of others; the name of the key "
        "otherwise."
    ),
]


@operation("PUT /labels", "label", raises=(BadLabels, LabelsRefused), gate="label_tables")
def put_labels(
    here: Here,
    graph: GraphRecord,
    labels: Annotated[
        GivenLabels,
        Table(
            "Columns `node` and `label`, or `node` and those of `label_column`; beside them "
            "`origin` and `annotator` of each row, where the query does not say these for all.",
            json=LabelColumnsIn,
        ),
    ],
    reading: LabelReading,
    of_rows: ColumnsOfRows,
    unknown: Annotated[
        UnknownNodesRule,
        Query("Nodes that the graph does not know: refuse all, or keep their labels."),
    ] = "refuse",
    label_columns: Annotated[
        list[str] | None,
        Query(
            "Named columns of labels, each a column of the table; may be given several times. "
            "Cells without a value say nothing.",
            name="label_column",
        ),
    ] = None,
    origin: Origin = None,
    annotator: Annotator = None,
) -> LabelsOut:
    """Put labels; the latest call holds, and all are durable before the answer.

    With `label_column` those of one or several columns, all of them or none. Predictions are not
    evaluated by labels of suggested nodes: give their `origin`. Who has given them is `annotator`,
    or else the row's `annotator`, or else the key.
    """
    if reading.label is not None and label_columns:
        raise BadArgument("label", f"must be left out beside label_column, got {reading.label!r}")
    if reading.contradictions == "opinions" and annotator is not None:
        raise BadArgument(
            "annotator", f"must be left out where rows are opinions of several, got {annotator!r}"
        )
    columns = reading.columns(
        graph,
        names=tuple(label_columns or ()),
        **of_rows.reading(origin=origin, annotator=annotator),
    )
    receipt = here.home.labeling.put(
        graph,
        labels.labels(here, graph, columns),
        unknown=unknown,
        origin=origin or ("imported" if labels.is_table else "given"),
        annotator=here.given_by(annotator),
        key=here.key,
    )
    return answer_of(LabelsOut, receipt)


@operation(
    "GET /labels",
    "read",
    raises=(LabelColumnNotFound,),
    client="labels",
    rows=(
        "Columns `node` and `label`, or that of `label_column`, ready to be put again. "
        "Also `origin`, where each label comes from, `annotator`, who has given it, and "
        "`key`, the name of the key that signed so."
    ),
)
def get_labels(here: Here, graph: GraphRecord, label_column: LabelColumn = None) -> Rows:
    """The present label of every labeled node."""
    current = here.home.labels.current(graph.id, column=label_column or "")
    columns = PLAIN_LABELS if label_column is None else LabelColumns(label=label_column)
    return Rows(
        name=f"{graph.settings.name}-labels",
        open=lambda chosen: (
            encode_labels(current, graph.settings.node_ids, chosen, columns),
            {"Peewit-Labels-Seq": str(current.labels_seq)},
        ),
    )


@operation(
    "DELETE /labels",
    "label",
    raises=(LabelColumnNotFound, BadUpload, BadLabels),
    is_call_written=True,
)
def delete_labels(
    here: Here,
    graph: GraphRecord,
    nodes: Annotated[
        list[str], Query("May be given several times.", name="node", flag="NODE...", min_length=1)
    ],
    label_column: LabelColumn = None,
) -> LabelsOut:
    """Take labels back; `accepted` counts the nodes that had one."""
    ids = [node_id(each, graph.settings.node_ids) for each in nodes]
    receipt = here.home.labeling.delete(
        graph, ids, column=label_column or "", annotator=here.annotator, key=here.key
    )
    return answer_of(LabelsOut, receipt)


@operation("GET /labels:columns", "read", client="label_columns", items="label_columns")
def list_label_columns(here: Here, graph: GraphRecord) -> LabelColumnList:
    """The columns in which labels were given, with how many nodes have one."""
    columns = here.home.labels.described_columns(graph.id)
    return LabelColumnList(label_columns=[answer_of(ColumnOfLabels, each) for each in columns])


@operation(
    "GET /opinions",
    "read",
    client="opinions",
    rows="Columns `node`, `annotator`, `key`, `label` (as JSON), `at` and `withdrawn_at`, of nodes "
    "that several people have labeled.",
)
def get_opinions(
    here: Here,
    graph: GraphRecord,
    withdrawn: Annotated[bool, Query("Also those that count no longer.")] = False,
    label_column: LabelColumn = None,
) -> Rows:
    """What each person has said of nodes that several people have labeled."""
    opinions = here.home.opinions.all(graph.id, column=label_column or "", withdrawn=withdrawn)
    return Rows(
        name=f"{graph.settings.name}-opinions",
        open=lambda chosen: (encode_opinions(opinions, graph.settings.node_ids, chosen), {}),
    )
