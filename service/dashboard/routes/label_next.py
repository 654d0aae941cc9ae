"""Label next: one node after another, a key for each label, and what the labels change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.class_colors import class_colors
from peewit.service.dashboard.next_node import (
    CHOICES,
    Choice,
    NoNode,
    Question,
    is_worker_alive,
    next_node,
    show_again,
)
from peewit.service.dashboard.pages import back_to, form_of, page, page_router, piece
from peewit.service.dashboard.prediction_summary import Summaries
from peewit.service.dashboard.rounds import Rounds
from peewit.service.dashboard.routes.common import Column, Seen, origin_in
from peewit.service.dashboard.routes.prediction_query import PredictionQuery
from peewit.service.dashboard.routes.predictions import node_values
from peewit.service.graph_settings import AutoSolve
from peewit.service.jobs.auto_solve import least_labels, request_auto_solve
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobStatus
from peewit.service.labels.label_entry import LabeledMeanwhile
from peewit.service.labels.store import LabelEvent
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.questions import QUEUES
from peewit.service.predictions.suggestions import LOCATING
from peewit.service.problems import InvalidArgument
from peewit.service.tables.uploads import LabelValue, NodeId, UploadedLabels, node_id
from peewit.solvers.models.catalogue import DEFAULT_MODEL

router = page_router()

_DIGITS = "0123456789"
_CLASSES_SHOWN = 30
_LABELS_LOOKED_AT = 100

Chosen = Annotated[Choice, Query()]
Skipped = Annotated[str, Query(max_length=100_000, description="A JSON list of nodes.")]


@router.get("/graphs/{graph}/label-next", dependencies=[viewing("label")])
def show_label_next(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    strategy: Chosen = "coverage",
    column: Column = "",
) -> Response:
    """The page of an annotator."""
    home.labels.require_column(graph.id, column)
    request.app.state.rounds.prepare()
    return page(
        request,
        "label_next.html",
        seen="",
        strategy=strategy,
        choices=[each for each in CHOICES if caller.annotator is not None or each not in QUEUES],
        columns=home.labels.columns(graph.id),
        **_effect(request, graph, home, column),
    )


@router.get("/graphs/{graph}/label-next/card", dependencies=[viewing("label")])
def show_card(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    strategy: Chosen = "coverage",
    column: Column = "",
    skipped: Skipped = "[]",
    seen: Seen = "",
) -> Response:
    """The node to label now."""
    return _card(request, graph, home, strategy, _nodes_in(skipped), column, seen=seen)


@router.post("/graphs/{graph}/label-next", dependencies=[viewing("label")])
async def label_one(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Take a label or a second opinion, or take it back, and show the next node."""
    form = await form_of(request)
    strategy: Choice = next((each for each in CHOICES if each == form.get("strategy")), "coverage")
    column, skipped = form.get("label_column", ""), _nodes_in(form.get("skipped", "[]"))

    def take() -> Response:
        done = take_answer(graph, home, caller, form)
        current = home.catalog.get_by_id(graph.id)
        question = None
        if done is None:
            origin = origin_in(form.get("origin", "suggested"))
            question = Question(form.get("node", ""), origin, bool(form.get("second")))
            question = show_again(current, home, question, strategy, caller, column)
        return _card(
            request, current, home, strategy, skipped, column, done=done, question=question
        )

    return await run_in_threadpool(take)


def take_answer(
    graph: GraphRecord, home: ServedHome, caller: Caller, form: Mapping[str, str]
) -> dict[str, Any] | None:
    """What became of the label in a form: put, or a second opinion; None once it is taken back.

    A label that somebody else has given meanwhile is not overwritten: the answer is an opinion.
    """
    column, origin = form.get("label_column", ""), origin_in(form.get("origin", "suggested"))
    name, label = form.get("node", ""), form.get("label", "").strip()
    who, key = caller.annotator, caller.key_name
    node = node_id(name, graph.settings.node_ids)
    home.labels.require_column(graph.id, column)
    events = home.labels.history(graph.id, column=column, node=str(node), limit=1)
    last = events[0] if events and events[0].label is not None else None
    is_second = bool(form.get("second"))
    if form.get("undo"):
        if is_second:
            home.second_opinions.take_back(graph, node, annotator=who, key=key, column=column)
        else:
            _take_back(graph, home, node, label, last, form, caller)
        return None
    value = home.labels.typed(graph.id, label, column=column)
    as_table, before = UploadedLabels(nodes=[node], labels=[value]), None
    is_second = is_second or _is_of_another(last, caller)
    if not is_second:
        try:
            home.labeling.put(
                graph,
                {column: as_table},
                origin=origin,
                annotator=who,
                key=key,
                after_seq=events[0].seq if events else 0,
            )
            before = last if last is not None and last.label != value else None
        except LabeledMeanwhile:
            is_second = True
    if is_second:
        home.second_opinions.answer(graph, as_table, annotator=who, key=key, column=column)
    return {
        "node": name,
        "label": value,
        "origin": origin,
        "before": before,
        "is_second": is_second,
    }


@router.post("/graphs/{graph}/label-next/embedding", dependencies=[viewing("label")])
async def locate_nodes(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Have the nodes located."""
    form = await form_of(request)
    submit = partial(home.suggester.submit_embedding, owner=caller.name)
    await run_in_threadpool(submit, graph)
    query = {"strategy": form.get("strategy", "coverage")}
    if column := form.get("label_column", ""):
        query[LABEL_COLUMN] = column
    return back_to(f"/graphs/{graph.settings.name}/label-next", **query)


@router.post("/graphs/{graph}/label-next/auto-solve", dependencies=[viewing("admin")])
async def switch_auto_solve(request: Request, graph: GraphHere, home: HomeHere) -> Response:
    """Have labels predicted after every label, or no longer; at once where they can be."""
    form = await form_of(request)
    is_on, column = bool(form.get("on")), form.get("label_column", "")

    def switch() -> Response:
        newest = home.predictions.store.latest(graph.id, column=column)
        model = None if newest is None else newest.model
        wanted = AutoSolve(model=model or DEFAULT_MODEL)
        changed = home.catalog.update(
            graph.id,
            lambda settings: replace(
                settings, auto_solve=(settings.auto_solve or wanted) if is_on else None
            ),
            request_solve=request_auto_solve,
        )
        return piece(request, "label_effect.html", **_effect(request, changed, home, column))

    return await run_in_threadpool(switch)


@router.get("/graphs/{graph}/label-next/effect", dependencies=[viewing("label")])
def show_effect(
    request: Request, graph: GraphHere, home: HomeHere, column: Column = "", seen: Seen = ""
) -> Response:
    """What the labels have changed so far: the solve that runs, and the newest predictions."""
    effect = _effect(request, graph, home, column)
    return piece(request, "label_effect.html", seen=seen, **effect)


def _nodes_in(text: str) -> set[str]:
    """The nodes in a JSON list of skipped ones."""
    try:
        nodes = json.loads(text)
    except ValueError:
        nodes = None
    if not isinstance(nodes, list) or not all(isinstance(each, str) for each in nodes):
        raise InvalidArgument(f"skipped must be a JSON list of nodes, got {text[:80]!r}")
    return set(nodes)


def _is_of_another(present: LabelEvent | None, caller: Caller) -> bool:
    """Whether the present label is of another person than the caller."""
    return (
        present is not None
        and None not in {present.annotator, caller.annotator}
        and (present.annotator != caller.annotator)
    )


def _take_back(
    graph: GraphRecord,
    home: ServedHome,
    node: NodeId,
    label: str,
    last: LabelEvent | None,
    form: Mapping[str, str],
    caller: Caller,
) -> None:
    """Give a node back the label that it had before, or none."""
    column, who, key = form.get("label_column", ""), caller.annotator, caller.key_name
    _require_same(last, str(node), label)
    if before := form.get("before", ""):
        value = home.labels.typed(graph.id, before, column=column)
        of_columns = {column: UploadedLabels(nodes=[node], labels=[value])}
        origin = origin_in(form.get("origin_before", "given"))
        home.labeling.put(graph, of_columns, origin=origin, annotator=who, key=key)
    else:
        home.labeling.delete(graph, [node], column=column, annotator=who, key=key)


def _require_same(present: LabelEvent | None, node: str, label: str) -> None:
    """Refuse to undo what somebody else has changed since."""
    if present is None or str(present.label) != label:
        now = "has no label" if present is None else f"is {present.label}"
        raise InvalidArgument(
            f"label must be the present one to be taken back, got {label!r}: {node} {now} by now"
        )


def _card(
    request: Request,
    graph: GraphRecord,
    home: ServedHome,
    strategy: Choice,
    skipped: set[str],
    column: str,
    *,
    done: Mapping[str, Any] | None = None,
    question: Question | None = None,
    seen: str = "",
) -> Response:
    """The next node with all that helps to label it; or why there is none."""
    values: dict[str, Any] = {"graph": graph, "strategy": strategy, "column": column, "done": done}
    if question is None:
        rounds: Rounds = request.app.state.rounds
        caller: Caller = request.state.caller
        try:
            question = next_node(
                graph, home, rounds, strategy, skipped, caller=caller, column=column
            )
        except NoNode as none:
            return piece(request, "no_node.html", seen=seen, **values, **none.values)
    values |= {
        "origin": question.origin,
        "is_second": question.is_second,
        "is_outdated": strategy in LOCATING and home.suggester.is_outdated(graph),
    }
    shown = node_values(request, graph, home, question.node, PredictionQuery(), column=column)
    file: PredictionFile | None = shown["file"]
    classes: set[LabelValue] = set(() if file is None else file.meta.class_names)
    classes |= {
        each.label
        for each in home.labels.page(graph.id, column=column, limit=_LABELS_LOOKED_AT)
        if each.label is not None
    }
    keys = assign_keys(sorted(classes, key=str)[:_CLASSES_SHOWN])
    shown["colors"] = class_colors(file, (each for each, _ in keys))
    return page(request, "label_card.html", classes=keys, **{**values, **shown})


def assign_keys(classes: Sequence[LabelValue]) -> list[tuple[LabelValue, str]]:
    """Classes with their keys: digits their own, others their number, up to nine."""
    if all(len(str(each)) == 1 and str(each) in _DIGITS for each in classes):
        return [(each, str(each)) for each in classes]
    keys = [*_DIGITS[1:], *[""] * len(classes)]
    return list(zip(classes, keys, strict=False))


def _effect(request: Request, graph: GraphRecord, home: ServedHome, column: str) -> dict[str, Any]:
    """Of one label column: two newest predictions of a model, running solve, what is missing."""

    def is_of_column(job: Job) -> bool:
        return str(job.parameters.get(LABEL_COLUMN, "")) == column

    under_way = [
        job
        for status in (JobStatus.RUNNING, JobStatus.QUEUED)
        for job in home.jobs.list(graph_id=graph.id, status=status, limit=5).jobs
        if job.kind == "solve" and is_of_column(job)
    ]
    with_predictions = list(filter(is_of_column, home.predictions.store.kept(graph.id)))
    summaries: Summaries = request.app.state.summaries
    newest = with_predictions[0] if with_predictions else None
    earlier = next(
        (job for job in with_predictions[1:] if newest and job.model == newest.model), None
    )
    file = change = summary = None
    if newest is not None:
        file = home.predictions.open(newest)
        summary = summaries.summary(file)
        if earlier is not None:
            change = summaries.change(home.predictions.open(earlier), file)
    last = home.jobs.newest(graph.id, "solve")
    is_failed = last is not None and last.status is JobStatus.FAILED and is_of_column(last)
    auto = graph.settings.auto_solve
    model = (auto.model if auto else None) or (newest.model if newest else None) or DEFAULT_MODEL
    n_labels = home.labels.count_to_two(graph.id, column=column)
    only = home.labels.page(graph.id, column=column, limit=1) if n_labels == 1 else []
    return {
        "graph": graph,
        "column": column,
        "job": under_way[0] if under_way else None,
        "n_more": len(under_way) - 1,
        "is_worker_alive": is_worker_alive(home, under_way[0]) if under_way else None,
        "newest": newest,
        "earlier": earlier,
        "change": change,
        "summary": summary,
        "colors": class_colors(file),
        "failed": last if is_failed else None,
        "model": model,
        "n_labels": n_labels,
        "only_label": only[0].label if only else None,
        "has_labels": n_labels >= least_labels(auto.parameters if auto else {}),
    }
