"""Label next: one node after another, a key for each label, and what the labels change."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller
from peewit.service.api.schemas.bodies_and_problems import InvalidArgument
from peewit.service.api.stores import GraphHere, Stores, StoresHere
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import form_of, page, page_router, piece
from peewit.service.dashboard.prediction_summary import Summaries
from peewit.service.dashboard.rounds import Rounds
from peewit.service.dashboard.routes.common import Seen, label_of
from peewit.service.dashboard.routes.predictions import node_values
from peewit.service.jobs.job import JobStatus
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import (
    STRATEGIES,
    EmbeddingFailed,
    NoEmbedding,
    NoMargins,
    Strategy,
)
from peewit.service.tables.uploads import LabelValue, UploadedLabels, node_id
from peewit.solvers.models import DEFAULT_MODEL

router = page_router()

_DIGITS = "0123456789"
_CLASSES_SHOWN = 30
_LABELS_LOOKED_AT = 100

Chosen = Annotated[Strategy, Query()]
Skipped = Annotated[str, Query(max_length=100_000, description="A JSON list of nodes.")]


@router.get("/graphs/{graph}/label-next", dependencies=[viewing("label")])
def show_label_next(
    request: Request, graph: GraphHere, stores: StoresHere, strategy: Chosen = "coverage"
) -> Response:
    """The page of an annotator."""
    request.app.state.rounds.prepare()
    return page(
        request,
        "label_next.html",
        graph=graph,
        seen="",
        strategy=strategy,
        strategies=STRATEGIES,
        default_model=DEFAULT_MODEL,
        **_effect(request, graph, stores),
    )


@router.get("/graphs/{graph}/label-next/card", dependencies=[viewing("label")])
def show_card(
    request: Request,
    graph: GraphHere,
    stores: StoresHere,
    strategy: Chosen = "coverage",
    skipped: Skipped = "[]",
) -> Response:
    """The node to label now."""
    return _card(request, graph, stores, strategy, _nodes_in(skipped), done=None)


@router.post("/graphs/{graph}/label-next", dependencies=[viewing("label")])
async def label_one(request: Request, graph: GraphHere, stores: StoresHere) -> Response:
    """Take a label, or take it back, and show the next node."""
    form = await form_of(request)
    strategy: Strategy = next(
        (each for each in STRATEGIES if each == form.get("strategy")), "coverage"
    )
    node, label = form.get("node", ""), form.get("label", "").strip()
    skipped = _nodes_in(form.get("skipped", "[]"))

    def take() -> Response:
        asked = node_id(node, graph.settings.node_ids)
        if form.get("undo"):
            stores.labeling.delete(graph, [asked])
            current = stores.catalog.get_by_id(graph.id)
            return _card(request, current, stores, strategy, skipped, done=None, node=node)
        value = label_of(label, stores.labels, graph.id)
        stores.labeling.put(graph, UploadedLabels(nodes=[asked], labels=[value]))
        current = stores.catalog.get_by_id(graph.id)
        return _card(request, current, stores, strategy, skipped, done=(node, value))

    return await run_in_threadpool(take)


@router.get("/graphs/{graph}/label-next/effect", dependencies=[viewing("label")])
def show_effect(
    request: Request, graph: GraphHere, stores: StoresHere, seen: Seen = ""
) -> Response:
    """What the labels have changed so far: the solve that runs, and the newest predictions."""
    values = {"graph": graph, "default_model": DEFAULT_MODEL, **_effect(request, graph, stores)}
    return piece(request, "label_effect.html", seen=seen, **values)


def _nodes_in(text: str) -> set[str]:
    """Nodes that were skipped, from a JSON list of them."""
    try:
        nodes = json.loads(text)
    except ValueError:
        nodes = None
    if not isinstance(nodes, list) or not all(isinstance(each, str) for each in nodes):
        raise InvalidArgument(f"skipped must be a JSON list of nodes, got {text[:80]!r}")
    return set(nodes)


def _card(
    request: Request,
    graph: GraphRecord,
    stores: Stores,
    strategy: Strategy,
    skipped: set[str],
    *,
    done: tuple[str, LabelValue] | None,
    node: str | None = None,
) -> Response:
    """The next node with all that helps to label it; or why there is none."""
    waiting = reason = None
    if node is None:
        node, waiting, reason = _next_node(request, graph, stores, strategy, skipped)
    shown = node_values(request, graph, stores, node) if node is not None else {}
    file: PredictionFile | None = shown.get("file")
    classes: set[LabelValue] = set(() if file is None else file.meta.class_names)
    classes |= {
        each.label
        for each in stores.labels.page(graph.id, limit=_LABELS_LOOKED_AT)
        if each.label is not None
    }
    values: dict[str, Any] = {"graph": graph, "node": None, **shown}
    return page(
        request,
        "label_card.html",
        strategy=strategy,
        done=done,
        waiting=waiting,
        reason=reason,
        classes=_assign_keys(sorted(classes, key=str)[:_CLASSES_SHOWN]),
        **values,
    )


def _assign_keys(classes: Sequence[LabelValue]) -> list[tuple[LabelValue, str]]:
    """Classes with the keys that give them: digits their own, others their number, up to nine."""
    if all(len(str(each)) == 1 and str(each) in _DIGITS for each in classes):
        return [(each, str(each)) for each in classes]
    keys = [*_DIGITS[1:], *[""] * len(classes)]
    return list(zip(classes, keys, strict=False))


def _next_node(
    request: Request, graph: GraphRecord, stores: Stores, strategy: Strategy, skipped: set[str]
) -> tuple[str | None, str | None, str | None]:
    """A node; or the id of the job that is waited for; or the reason why there is neither."""
    rounds: Rounds = request.app.state.rounds
    try:
        if strategy != "margin":
            caller: Caller = request.state.caller
            job = stores.suggester.request_embedding(graph, owner=caller.name)
            if job is not None:
                return None, job.id, None
        node = rounds.next_node(graph, strategy, skipped)
    except (NoEmbedding, EmbeddingFailed, NoMargins, PredictionsNotFound) as error:
        return None, None, str(error)
    if node is not None:
        return node, None, None
    return None, None, "every node that could be suggested has a label, or was skipped"


def _effect(request: Request, graph: GraphRecord, stores: Stores) -> dict[str, Any]:
    """The newest two predictions of a model, and the solve under way."""
    under_way = [
        job
        for status in (JobStatus.RUNNING, JobStatus.QUEUED)
        for job in stores.jobs.list(graph_id=graph.id, status=status, limit=5).jobs
        if job.kind == "solve"
    ]
    kept = stores.predictions.store.kept(graph.id)
    summaries: Summaries = request.app.state.summaries
    newest = kept[0] if kept else None
    earlier = next((job for job in kept[1:] if newest and job.model == newest.model), None)
    change = summary = None
    if newest is not None:
        file = stores.predictions.open(newest)
        summary = summaries.summary(file)
        if earlier is not None:
            change = summaries.change(stores.predictions.open(earlier), file)
    failed = stores.jobs.newest(graph.id, "solve")
    return {
        "job": under_way[0] if under_way else None,
        "newest": newest,
        "earlier": earlier,
        "change": change,
        "summary": summary,
        "failed": failed if failed is not None and failed.status is JobStatus.FAILED else None,
    }
