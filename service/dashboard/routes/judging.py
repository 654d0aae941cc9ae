"""How far predictions can be trusted: cards of sets and abstention, a page of doubtful labels."""

from typing import Annotated, Final

from fastapi import Query, Request, Response

from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import page, page_router
from peewit.service.dashboard.prediction_summary import Summaries
from peewit.service.dashboard.routes.common import PAGE_ROWS, Column
from peewit.service.dashboard.routes.prediction_query import Asked, JobId, predicting_job
from peewit.service.predictions.doubtful_labels import MAX_DOUBTFUL, doubtful_labels
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.prediction_files import MAX_SCORE_COLUMNS
from peewit.service.predictions.store import PredictionsNotFound

router = page_router()

_MAX_ERROR: Final = 0.05
_CONFIDENCE: Final = 0.9


@router.get("/graphs/{graph}/predictions/sets", dependencies=[viewing("read")])
def show_sets(request: Request, graph: GraphHere, home: HomeHere, query: Asked) -> Response:
    """What sets of labels promise; counted once for each coverage of a file."""
    job = predicting_job(graph, home, query.job)
    file = home.predictions.open(job)
    sets, summaries = query.sets(file), request.app.state.summaries
    return page(
        request,
        "sets.html",
        graph=graph,
        job=job,
        asked=query,
        n_classes=len(file.meta.class_names),
        most_classes=MAX_SCORE_COLUMNS,
        found=None if sets is None else summaries.sets(sets),
    )


@router.get("/graphs/{graph}/predictions/abstention", dependencies=[viewing("read")])
def show_abstention(request: Request, graph: GraphHere, home: HomeHere, query: Asked) -> Response:
    """From which score on few predictions are wrong, and the curve of errors."""
    job = predicting_job(graph, home, query.job)
    file = home.predictions.open(job)
    summaries: Summaries = request.app.state.summaries
    abstention = missing = None
    if file.meta.score == "probability":
        try:
            abstention = summaries.abstention(
                file,
                max_error=query.max_error or _MAX_ERROR,
                confidence=query.confidence or _CONFIDENCE,
            )
        except NotCrossValidated as error:
            missing = str(error)
    return page(
        request,
        "abstention.html",
        graph=graph,
        job=job,
        asked=query,
        meta=file.meta,
        found=abstention,
        missing=missing,
    )


@router.get("/graphs/{graph}/labels/doubtful", dependencies=[viewing("read")])
def show_doubtful(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    job_id: JobId = None,
    column: Column = "",
    k: Annotated[int, Query(ge=1, le=MAX_DOUBTFUL)] = PAGE_ROWS,
) -> Response:
    """Labels that the others contradict, the most improbable first."""
    job = file = doubtful = missing = None
    try:
        job = predicting_job(graph, home, job_id, None if job_id else column)
    except PredictionsNotFound:
        if job_id is not None:
            raise
    else:
        file = home.predictions.open(job)
        column = file.meta.label_column
        if file.meta.score != "value":
            try:
                doubtful = doubtful_labels(file, k=k)
            except NotCrossValidated as error:
                missing = str(error)
    rows = [each for each in doubtful.labels if each.behind > 0.0] if doubtful else []
    names = [str(each.node) for each in rows]
    return page(
        request,
        "doubtful_labels.html",
        graph=graph,
        column=column,
        columns=home.labels.columns(graph.id),
        job_id=job_id,
        job=job,
        file=file,
        found=doubtful,
        missing=missing,
        rows=rows,
        present=home.labels.of_nodes(graph.id, names, column=column),
        k=k,
        more=min(k + PAGE_ROWS, MAX_DOUBTFUL) if doubtful and len(doubtful.labels) == k else None,
    )
