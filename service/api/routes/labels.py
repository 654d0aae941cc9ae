"""Labels of nodes: put, read, take back."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    JsonUpload,
    TableOrJsonBody,
    TableUpload,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import (
    ONE_GRAPH,
    AnnotatorName,
    ColumnOfLabels,
    NamedColumn,
    NamedColumns,
    NodeColumn,
    given_by,
    named,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.labels import LabelColumnsIn, LabelsOut
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import ChosenFormat, FormatNotOffered, table_answer, table_response
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.labels.label_entry import LabelsRefused, UnknownNodes, encode_labels
from peewit.service.labels.store import BadLabels, LabelColumnNotFound, LabelReceipt
from peewit.service.operations.answers import answer_of
from peewit.service.problems import InvalidArgument
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.uploads import (
    BadUpload,
    LabelColumns,
    TableTooLarge,
    UploadedLabels,
    json_labels,
    node_id,
)
from peewit.service.tables.uploads.givers import left_to_rows
from peewit.service.tables.uploads.label_columns import PLAIN_LABELS
from peewit.service.wire.labels import LabelOrigin

_FEW_BYTES: Final = 1 << 16
"""JSON of so many bytes waits for no table; a table may come to millions of rows however short."""

router = resource("labels", f"{ONE_GRAPH}/labels")


@router.put(
    "",
    dependencies=[requires("label")],
    openapi_extra=body_schema(
        "Columns `node` and `label`, or `node` and those of `label_column`; beside them `origin` "
        "and `annotator` of each row, where the query does not say these for all.",
        json=LabelColumnsIn,
    ),
    responses=problems(
        GraphNotFound,
        BodyTooLarge,
        BodyTypeUnknown,
        BadUpload,
        TableTooLarge,
        BadLabels,
        LabelsRefused,
        InvalidArgument,
    ),
)
async def put_labels(
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    body: TableOrJsonBody,
    unknown: Annotated[
        UnknownNodes,
        Query(description="Nodes that the graph does not know: refuse all, or keep their labels."),
    ] = "refuse",
    node: NodeColumn = None,
    label: ColumnOfLabels = None,
    label_column: NamedColumns = None,
    origin: Annotated[
        LabelOrigin | None,
        Query(
            description="Where the labels come from: nodes were chosen by somebody (given, as of "
            "a JSON body by default), drawn at random, suggested by predictions or the graph, or "
            "came in a file (imported, as of a table by default). When left out, each row's "
            "`origin` counts, where it has one."
        ),
    ] = None,
    annotator: AnnotatorName = None,
) -> LabelsOut:
    """Put labels; the latest of a node holds, and all are durable before the answer.

    With `label_column` those of one or several columns, all of them or none. Labels of nodes that
    were suggested are not judged by: say their `origin`. Who has given them is `annotator`, or else
    the row's `annotator`, or else the key.
    """
    with refusing():
        who = given_by(caller, annotator)
    givers = left_to_rows(origin=origin, annotator=annotator)
    if origin is None:
        origin = "given" if isinstance(body, JsonUpload) else "imported"
    if label is not None and label_column:
        raise InvalidArgument(
            f"label must be left out beside label_column, got {label!r}", argument="label"
        )

    def put() -> LabelReceipt:
        columns = label_columns(
            graph.settings.columns,
            named(node=node, label=label),
            names=tuple(label_column or ()),
            givers=givers,
        )
        rows = uploaded_labels(graph, home, body, columns)
        return home.labeling.put(graph, rows, unknown=unknown, origin=origin, annotator=who)

    if isinstance(body, JsonUpload) and len(body.content) <= _FEW_BYTES:
        return _told(await run_in_threadpool(put))
    async with home.label_tables, home.decoding.held(body.decoding_bytes):
        return _told(await run_in_threadpool(put))


@router.get(
    "",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    responses=table_answer(
        "Columns `node` and `label`, or that of `label_column`, ready to be put again, "
        "`origin`, where each label comes from, and `annotator`, who has given it."
    )
    | problems(GraphNotFound, LabelColumnNotFound, FormatNotOffered),
)
def get_labels(
    graph: GraphHere,
    home: HomeHere,
    table_format: ChosenFormat,
    label_column: NamedColumn = None,
) -> StreamingResponse:
    """The present label of every labeled node."""
    current = home.labels.current(graph.id, column=label_column or "")
    columns = PLAIN_LABELS if label_column is None else LabelColumns(label=label_column)
    return table_response(
        encode_labels(current, graph.settings.node_ids, table_format, columns),
        table_format,
        name=f"{graph.settings.name}-labels",
        headers={"Peewit-Labels-Seq": str(current.labels_seq)},
    )


@router.delete(
    "",
    dependencies=[requires("label")],
    responses=problems(GraphNotFound, LabelColumnNotFound, BadUpload, BadLabels),
)
def delete_labels(
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    node: Annotated[list[str], Query(min_length=1, description="May be given several times.")],
    label_column: NamedColumn = None,
) -> LabelsOut:
    """Take labels back; `accepted` counts the nodes that had one."""
    nodes = [node_id(each, graph.settings.node_ids) for each in node]
    receipt = home.labeling.delete(
        graph, nodes, column=label_column or "", annotator=caller.annotator
    )
    return _told(receipt)


def uploaded_labels(
    graph: GraphRecord, home: ServedHome, body: TableUpload | JsonUpload, columns: LabelColumns
) -> dict[str, UploadedLabels]:
    """The labels of a body, whose JSON has the usual names; raises as `read_labels`."""
    if isinstance(body, JsonUpload):
        name = "<label_column>" if columns.names else "label"
        rows = body.rows("labels", f'{{"node": ..., "{name}": ...}}')
        usual = replace(columns, node=PLAIN_LABELS.node, label=PLAIN_LABELS.label)
        return json_labels(rows, graph.settings.node_ids, usual)
    return home.labeling.read(
        graph, body.file, body.table_format, columns, limits=home.upload_limits
    )


def _told(receipt: LabelReceipt) -> LabelsOut:
    return answer_of(LabelsOut, receipt)
