"""Suggestions of nodes to label next."""

from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.predictions import JobId, Model
from peewit.service.api.routes.query_parameters import (
    ONE_GRAPH,
    AnnotatorName,
    NamedColumn,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.catalog import GraphNotFound
from peewit.service.inbox.pushes import RETRY_SECONDS
from peewit.service.jobs.job import JobStatus, UnknownJob
from peewit.service.labels.annotators import annotator_name
from peewit.service.operations.answers import answer_of
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import (
    LOCATING,
    MAX_SAMPLE,
    EmbeddingFailed,
    NoEmbedding,
    NoMargins,
    Strategy,
)
from peewit.service.predictions.suggestions import Suggestions as SuggestionsRecord
from peewit.service.wire.jobs import Job
from peewit.service.wire.predictions import Suggestions

router = resource("suggestions", ONE_GRAPH)

_ANSWERS: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK: {"model": Suggestions, "description": "Nodes to label."},
    HTTPStatus.ACCEPTED: {
        "model": Job,
        "description": "The job that finds where the nodes lie; ask again once it has ended.",
    },
}


@router.get(
    "/suggestions",
    dependencies=[requires("label")],
    response_model=None,
    responses=_ANSWERS
    | problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, NoEmbedding, EmbeddingFailed, NoMargins
    ),
)
async def get_suggestions(
    request: Request,
    response: Response,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    strategy: Annotated[
        Strategy,
        Query(
            description="Least margins; most variance taken from all nodes; nodes that differ; or "
            "a random sample."
        ),
    ] = "margin",
    k: Annotated[
        int, Query(ge=1, le=MAX_SAMPLE, description="Most nodes; 200 but by random.")
    ] = 20,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    reserve: Annotated[
        bool,
        Query(
            description="Suggest them to no other caller for PEEWIT_RESERVE_SECONDS; what the "
            "caller has reserved comes again, first. At most 200."
        ),
    ] = False,
    annotator: AnnotatorName = None,
    wait: WaitSeconds = 0,
) -> Suggestions | Job:
    """Nodes whose label would help most; never one that has a label.

    `margin` needs predictions. `variance` and `coverage` need to know where the nodes lie: the
    first call asks for a job of kind embed and answers 202 with it, unless `wait` suffices. They
    do without predictions, and so tell where to begin. `random` gives the first nodes of a random
    order that never changes: labels of all of them are a random sample, by which to judge.
    Put the labels with the `origin` of the answer. With `reserve` no two callers are given the same
    node; it is given back when it has a label, by `DELETE .../reservations`, or after a while.
    """
    suggester = home.suggester
    if strategy in LOCATING:
        request_embedding = partial(suggester.request_embedding, graph, owner=caller.name)
        job = await run_in_threadpool(request_embedding)
        if job is not None and wait:
            look = partial(home.jobs.get, job.id)
            job = await wait_until(request, look, lambda each: each.status.is_final, seconds=wait)
            if job.status.is_final and job.status is not JobStatus.CANCELLED:
                # an embedding, or the reason why there is none
                job = await run_in_threadpool(request_embedding)
        if job is not None:
            response.status_code = HTTPStatus.ACCEPTED
            response.headers["Location"] = f"/v1/jobs/{job.id}"
            response.headers["Retry-After"] = str(RETRY_SECONDS)
            return answer_of(Job, job)
    async with home.suggestions:
        with refusing():
            if not reserve:
                suggest = partial(suggester.suggest, graph, strategy, k)
                asked = {"model": model, "job_id": job_id, "column": label_column}
                return _suggestions_of(await run_in_threadpool(partial(suggest, **asked)), None)
            if annotator is not None:
                annotator = annotator_name(annotator)
            found, reserved = await run_in_threadpool(
                partial(
                    home.questions.suggest,
                    suggester,
                    graph,
                    strategy,
                    k,
                    holder=caller.holder_for(annotator),
                    model=model,
                    job_id=job_id,
                    column=label_column,
                )
            )
    return _suggestions_of(found, reserved.until)


def _suggestions_of(found: SuggestionsRecord, until: datetime | None) -> Suggestions:
    """What people see of suggestions."""
    meta = None if found.file is None else found.file.meta
    return answer_of(
        Suggestions,
        found,
        reserved_until=until,
        job=None if meta is None else meta.job_id,
        model=None if meta is None else meta.model,
        snapshot=None if meta is None else meta.snapshot,
        predicted_labels_seq=None if meta is None else meta.labels_seq,
        suggestions=[
            {"node": node, "prediction": prediction}
            for node, prediction in zip(found.nodes, found.predictions, strict=True)
        ],
    )
