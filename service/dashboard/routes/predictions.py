"""Predictions: sizes of the classes, how sure, some rows, and everything about one node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import numpy as np
import pyarrow as pa
from fastapi import Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool

from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import ChosenFormat, table_response
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.class_colors import class_colors
from peewit.service.dashboard.neighborhoods import Neighborhood, neighborhood
from peewit.service.dashboard.node_features import node_features
from peewit.service.dashboard.node_media import Item, Items
from peewit.service.dashboard.pages import back_to, page, page_router, piece
from peewit.service.dashboard.prediction_summary import Summaries
from peewit.service.dashboard.routes.common import PAGE_ROWS, Seen, node_of
from peewit.service.dashboard.routes.node_card import chosen_columns
from peewit.service.dashboard.routes.prediction_query import (
    Asked,
    Chance,
    JobId,
    PredictionQuery,
    predicting_job,
)
from peewit.service.dashboard.svg_geometry import SmallGraph
from peewit.service.operations.predictions import provenance_headers
from peewit.service.operations.tables import Rows
from peewit.service.predictions.filtered_rows import ordered_rows, rows, sorted_page, with_kinds
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.prediction_files import P_VALUE_PREFIX, Prediction, PredictionFile
from peewit.service.predictions.reader import NodeNotFound
from peewit.service.predictions.reasons import ReasonsNotKept, node_reasons
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import LabelValue, node_array, node_id
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

router = page_router()

_CLASSES_LISTED = 200
_REASONS_SHOWN = 5
_PIECE_BYTES = 1 << 20
_MOST_MEASURED = 5_000_000
"""Most nodes of a download that is written first to know its length."""
_ITEM_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=60",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor:
    """A neighbor as the page of a node shows it."""

    node: str | int
    weight: float
    relations: Mapping[str, float]  # its weight in each that has a name
    prediction: Prediction | None
    label: LabelValue | None
    has_picture: bool


@router.get("/graphs/{graph}/predictions", dependencies=[viewing("read")])
def show_predictions(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    query: Asked,
    first: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """The latest predictions, or those of one job."""
    try:
        file = home.predictions.open(predicting_job(graph, home, query.job))
    except PredictionsNotFound:
        if query.job is not None:
            raise
        return page(request, "no_predictions.html", graph=graph)
    wanted = query.wanted(file)
    if query.sort:
        with refusing():
            page_rows, following = sorted_page(
                file,
                wanted,
                query.sort,
                is_reversed=bool(query.reverse),
                first=first,
                limit=PAGE_ROWS,
            )
    else:
        page_rows, following = rows(file, wanted, first=first, limit=PAGE_ROWS)
    sets = query.sets(file)
    predictions: list[Any] = file.lookup(page_rows)
    if sets is not None:
        predictions = [sets.of_node(each) for each in predictions]
    names = [str(each["node"]) for each in predictions]
    labels = home.labels.of_nodes(graph.id, names, column=file.meta.label_column)
    return page(
        request,
        "predictions.html",
        graph=graph,
        file=file,
        asked=query,
        sets=sets,
        predictions=predictions,
        labels=labels,
        following=following,
        kept=home.predictions.store.kept(graph.id),
        classes=file.meta.class_names[:_CLASSES_LISTED],
        colors=class_colors(file),
        formats=list(Format),
    )


@router.get("/graphs/{graph}/predictions/summary", dependencies=[viewing("read")])
def show_summary(
    request: Request, graph: GraphHere, home: HomeHere, job_id: JobId = None, seen: Seen = ""
) -> Response:
    """Sizes of the classes and the histogram of margins; counted once for each file."""
    job = predicting_job(graph, home, job_id)
    file = home.predictions.open(job)
    summaries: Summaries = request.app.state.summaries
    return piece(
        request,
        "prediction_summary.html",
        seen=seen,
        graph=graph,
        file=file,
        job=job,
        job_id=job_id,
        summary=summaries.summary(file),
        colors=class_colors(file),
        truth=((job.result or {}).get("stats") or {}).get("calibration"),
        is_calibrated=file.meta.calibration is not None or CATALOGUE[file.meta.model].is_calibrated,
        judged=(job.result or {}).get("judged"),
    )


@router.get("/graphs/{graph}/predictions/download", dependencies=[viewing("read")])
async def download(
    graph: GraphHere, home: HomeHere, table_format: ChosenFormat, query: Asked
) -> Response:
    """The rows of the page, in its order.

    It is written to the disk first unless it is huge, so that browsers know how far they are.
    """
    answer, n_nodes = await run_in_threadpool(_table, graph, home, table_format, query)
    disposition = answer.headers["Content-Disposition"]
    answer.headers["Content-Disposition"] = disposition.replace("inline", "attachment", 1)
    if n_nodes <= _MOST_MEASURED and isinstance(answer, StreamingResponse):
        await _measure(answer, home.settings.home)
    return answer


def _table(
    graph: GraphRecord, home: ServedHome, table_format: Format, query: PredictionQuery
) -> tuple[Response, int]:
    """The answer to a download, and the number of nodes."""
    file = home.predictions.open(predicting_job(graph, home, query.job))
    with refusing():
        batches = ordered_rows(
            file, query.wanted(file), sort=query.sort or None, is_reversed=bool(query.reverse)
        )
    rows = rows_of(graph, file, batches, query.sets(file))
    return table_response(rows, table_format, None), file.n_nodes


async def _measure(answer: StreamingResponse, home: Path) -> None:
    """Give an answer its length, by writing it to an unnamed file."""
    spool: IO[bytes] = await run_in_threadpool(
        lambda: TemporaryFile(dir=home)  # noqa: SIM115 - closed once it is sent
    )
    try:
        async for piece in answer.body_iterator:
            content = piece.encode() if isinstance(piece, str) else piece
            await run_in_threadpool(spool.write, content)
    except BaseException:
        spool.close()
        raise
    answer.headers["Content-Length"] = str(spool.tell())
    spool.seek(0)

    def pieces() -> Iterator[bytes]:
        with spool:
            while piece := spool.read(_PIECE_BYTES):
                yield piece

    answer.body_iterator = iterate_in_threadpool(pieces())


@router.get("/graphs/{graph}/node", dependencies=[viewing("read")])
def show_node(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    node: Annotated[str, Query(alias="id", max_length=2000)] = "",
    job_id: JobId = None,
    coverage: Chance = None,
) -> Response:
    """All that is known of one node."""
    if not node:
        return back_to(f"/graphs/{graph.settings.name}/predictions")
    query = PredictionQuery(job=job_id, coverage=coverage)
    shown = str(node_of(node, graph, home, name="id"))
    return page(request, "node.html", **node_values(request, graph, home, shown, query))


@router.get("/graphs/{graph}/node/reasons", dependencies=[viewing("read")])
def show_reasons(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    node: Annotated[str, Query(alias="id", max_length=2000)],
    job_id: JobId = None,
) -> Response:
    """The labels that speak for the prediction of one node."""
    its_id = node_id(node, graph.settings.node_ids, name="id")
    file = home.predictions.open(predicting_job(graph, home, job_id))
    paths = home.paths(graph)
    reasons, refusal = None, None
    try:
        with refusing():
            reasons = node_reasons(home.predictions, paths, graph, file, its_id, k=_REASONS_SHOWN)
    except (ReasonsNotKept, SnapshotNotFound) as error:
        refusal = str(error)
    return piece(
        request, "reasons.html", graph=graph, job_id=job_id, found=reasons, refusal=refusal
    )


@router.get("/graphs/{graph}/item", dependencies=[viewing("read")])
def get_item(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    node: Annotated[str, Query(alias="id", max_length=2000)],
) -> Response:
    """The picture or text of a node, which can do nothing: no script of it runs."""
    is_erased = node in home.manifest.hidden.of(graph).names
    item = None if is_erased else _item(request, graph, node)
    if item is None:
        raise NodeNotFound(f"there is no picture or text of {node!r}")
    return FileResponse(item.path, media_type=item.media_type, headers=_ITEM_HEADERS)


def node_values(
    request: Request,
    graph: GraphRecord,
    home: ServedHome,
    node: str,
    query: PredictionQuery,
    *,
    column: str | None = None,
) -> dict[str, Any]:
    """Template values of a node: id, prediction, label, neighbors.

    The label is of ``column``, else of the column of the shown predictions. Raises `BadUpload` or
    `NodeNotFound` for an id that is none of this graph.
    """
    its_id = node_id(node, graph.settings.node_ids, name="id")
    dense = int(home.nodes.lookup(graph, node_array([its_id], graph.settings.node_ids))[0])
    if dense < 0:
        raise NodeNotFound(f"graph {graph.settings.name} has no node {its_id!r}")
    try:
        job = predicting_job(graph, home, query.job, column)
        file: PredictionFile | None = home.predictions.open(job)
    except PredictionsNotFound:
        file = None
    around = _around(graph, home, dense, file)
    if column is None:
        column = "" if file is None else file.meta.label_column
    neighbors = [] if around is None else _neighbors(request, graph, home, around, file, column)
    sets = None if file is None else query.sets(file)
    prediction: Mapping[str, Any] | None = None
    if file is not None and dense < file.n_nodes:
        (prediction,) = file.of_nodes(np.array([dense]))
        if sets is not None and prediction is not None:
            prediction = sets.of_node(prediction)
    return {
        "graph": graph,
        "node": str(its_id),
        "item": _item(request, graph, str(its_id)),
        "features": node_features(home.paths(graph), graph, dense, chosen_columns(request)),
        "file": file,
        "job_id": query.job,
        "sets": sets,
        "prediction": prediction,
        "scores": _scores(prediction),
        "column": column,
        "label": home.labels.of_nodes(graph.id, [str(its_id)], column=column).get(str(its_id)),
        "events": home.labels.history(graph.id, column=column, node=str(its_id), limit=10),
        "around": around,
        "neighbors": neighbors,
        "drawing": None if around is None else SmallGraph.of(around),
        "colors": class_colors(file),
    }


def rows_of(
    graph: GraphRecord,
    file: PredictionFile,
    batches: Iterator[pa.RecordBatch],
    sets: LabelSets | None,
    what: str = "predictions",
) -> Rows:
    """A table for people of some rows of a file, with sets in place of p-values."""
    schema = file.schema
    if sets is not None:
        batches, schema = sets.with_sets(batches), sets.schema
    names = [name for name in schema.names if not name.startswith(P_VALUE_PREFIX)]
    schema = pa.schema([schema.field(name) for name in names], schema.metadata)
    schema, shown = with_kinds(file, schema, (batch.select(names) for batch in batches))
    return Rows(
        name=f"{graph.settings.name}-{what}",
        open=lambda chosen: (
            encode(schema, shown, chosen, safe_csv=True),
            provenance_headers(file.meta),
        ),
    )


def _scores(prediction: Mapping[str, Any] | None) -> list[tuple[str, float]]:
    """Classes and their scores, best first."""
    scores = None if prediction is None else prediction["scores"]
    pairs = [(name, float(score)) for name, score in (scores or {}).items()]
    return sorted(pairs, key=lambda each: -each[1])


def _around(
    graph: GraphRecord, home: ServedHome, dense: int, file: PredictionFile | None
) -> Neighborhood | None:
    """The neighborhood in the snapshot of the predictions, else in the newest."""
    snapshots = SnapshotStore(home.paths(graph).snapshots)
    numbers = [] if file is None else [file.meta.snapshot]
    if graph.progress.snapshot is not None:
        numbers.append(graph.progress.snapshot)
    erased = home.nodes.erased(graph, graph.progress.n_nodes)
    for number in numbers:
        try:
            return neighborhood(snapshots, number, dense, without=erased)
        except SnapshotNotFound:
            continue
    return None


def _item(request: Request, graph: GraphRecord, node: str) -> Item | None:
    items: Items = request.app.state.items
    return items.find(graph.settings.name, node)


def _neighbors(
    request: Request,
    graph: GraphRecord,
    home: ServedHome,
    around: Neighborhood,
    file: PredictionFile | None,
    column: str,
) -> Sequence[Neighbor]:
    if around.neighbors.size == 0:
        return []
    ids = home.nodes.external_ids(graph, int(around.neighbors.max()) + 1)
    names: list[str | int] = ids.take(pa.array(around.neighbors)).to_pylist()
    labels = home.labels.of_nodes(graph.id, [str(name) for name in names], column=column)
    nothing: list[Prediction | None] = [None] * len(names)
    predictions = nothing if file is None else file.of_nodes(around.neighbors)
    return [
        Neighbor(
            node=name,
            weight=weight,
            relations=relations,
            prediction=prediction,
            label=labels.get(str(name)),
            has_picture=(item := _item(request, graph, str(name))) is not None and item.is_picture,
        )
        for name, weight, relations, prediction in zip(
            names, around.weights.tolist(), around.relations, predictions, strict=True
        )
    ]
