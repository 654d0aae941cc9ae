"""Suspects: unlabeled nodes most probably of one class, with reasons, labels and a threshold."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

import numpy as np
from fastapi import Depends, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import ChosenFormat, table_response
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.class_colors import class_colors, rarest_class
from peewit.service.dashboard.pages import back_to, form_of, is_piece, page, page_router, piece
from peewit.service.dashboard.routes.common import PAGE_ROWS, Column
from peewit.service.dashboard.routes.label_next import assign_keys, take_answer
from peewit.service.dashboard.routes.prediction_query import EMPTY, JobId, predicting_job
from peewit.service.dashboard.routes.predictions import rows_of
from peewit.service.predictions.false_alarms import CONFIDENCE
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.prediction_files import MAX_SCORE_COLUMNS, PredictionFile
from peewit.service.predictions.reasons import ReasonsNotKept, node_reasons
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suspects import count_suspects, precision_above, suspects
from peewit.service.predictions.thresholds import class_threshold, left_out_evaluation
from peewit.service.tables.uploads import LabelValue, NodeId, node_id
from peewit.service.wire.predictions import LabelReason
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.snapshots.store import SnapshotNotFound

router = page_router()

_MOST: Final = 1000
_MOST_LABELED_SINCE: Final = 1000
"""Most labels put since the solve whose nodes are replaced by the next suspects."""
_CLASSES_SHOWN: Final = 9
_REASONS_SHOWN: Final = 4

_Cost = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, EMPTY, Query()]
_Share = Annotated[Annotated[float, Field(gt=0, lt=1)] | None, EMPTY, Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectQuery:
    """Which suspects are shown, and what a threshold is chosen for."""

    job: Annotated[str | None, Query(max_length=64)] = None
    label_column: Column = ""
    positive: Annotated[str, Query(max_length=1000)] = ""  # the class; the rarest when empty
    k: Annotated[int, Query(ge=1, le=_MOST)] = PAGE_ROWS
    min_precision: Annotated[Annotated[float, Field(gt=0, le=1)] | None, EMPTY, Query()] = None
    cost_fn: _Cost = None
    cost_fp: _Cost = None
    positive_share: _Share = None  # of all nodes

    @property
    def given(self) -> dict[str, Any]:
        """What is asked for, as query parameters."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value not in {None, ""}}

    @property
    def goal(self) -> dict[str, float | None]:
        """What a threshold is chosen for, without the share."""
        return {name: getattr(self, name) for name in ("min_precision", "cost_fn", "cost_fp")}

    def file_of(self, graph: GraphRecord, home: ServedHome) -> PredictionFile:
        """The predictions asked for; raises `PredictionsNotFound`."""
        column = self.label_column or None
        return home.predictions.open(
            predicting_job(graph, home, self.job, None if self.job else column)
        )


Asked = Annotated[SuspectQuery, Depends()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A neighbor that a suspect shares with labeled nodes of the class."""

    node: NodeId
    labeled: tuple[NodeId, ...]


@router.get("/graphs/{graph}/suspects", dependencies=[viewing("read")])
def show_suspects(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    query: Asked,
    done: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """The most probable nodes of a class, and how many of them are likely to be of it."""
    try:
        file = query.file_of(graph, home)
    except PredictionsNotFound:
        if query.job is not None:
            raise
        return page(request, "no_predictions.html", graph=graph)
    column = file.meta.label_column
    values: dict[str, Any] = {
        "graph": graph,
        "file": file,
        "asked": query,
        "job": home.jobs.get(file.meta.job_id),
        "column": column,
        "columns": home.labels.columns(graph.id),
        "positive": "",
        "most_classes": MAX_SCORE_COLUMNS,
    }
    if file.meta.score == "value" or len(file.meta.class_names) > MAX_SCORE_COLUMNS:
        return page(request, "suspects.html", **values)
    positive = query.positive or rarest_class(file)
    with refusing():
        numbers, n_since = _numbers(graph, home, file, positive, query.k)
    rows = file.lookup(numbers)
    scores = [float((each["scores"] or {})[positive]) for each in rows]
    put = home.labels.of_nodes(graph.id, [done], column=column).get(done) if done else None
    return page(
        request,
        "suspects.html",
        **values
        | _judged(file, query, positive, scores[-1] if scores else None)
        | {
            "positive": positive,
            "rows": rows,
            "n_since": n_since,
            "keys": _keys(file, positive),
            "colors": class_colors(file),
            "confidence": CONFIDENCE,
            "formats": list(Format),
            "most": _MOST,
            "done": None
            if put is None
            else {"node": done, "label": put, "before": None, "is_second": False},
        },
    )


@router.get("/graphs/{graph}/suspects/download", dependencies=[viewing("read")])
def download(
    graph: GraphHere, home: HomeHere, table_format: ChosenFormat, query: Asked
) -> Response:
    """The suspects of the page, in its order."""
    file = query.file_of(graph, home)
    with refusing():
        numbers, _ = _numbers(graph, home, file, query.positive or rarest_class(file), query.k)
    batches = iter(file.take(numbers).to_batches())
    answer = table_response(rows_of(graph, file, batches, None, "suspects"), table_format, None)
    disposition = answer.headers["Content-Disposition"]
    answer.headers["Content-Disposition"] = disposition.replace("inline", "attachment", 1)
    return answer


@router.get("/graphs/{graph}/suspects/reasons", dependencies=[viewing("read")])
def show_reasons(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    node: Annotated[str, Query(alias="id", max_length=2000)],
    positive: Annotated[str, Query(max_length=1000)],
    job_id: JobId = None,
) -> Response:
    """The labels that speak for a class at one node, in a line, and what it shares with them."""
    its_id = node_id(node, graph.settings.node_ids, name="id")
    file = home.predictions.open(predicting_job(graph, home, job_id))
    reasons, refusal = None, None
    try:
        with refusing():
            reasons = node_reasons(
                home.predictions,
                home.paths(graph),
                graph,
                file,
                its_id,
                k=_REASONS_SHOWN,
                label=positive,
            )
    except (ReasonsNotKept, SnapshotNotFound) as error:
        refusal = str(error)
    return piece(
        request,
        "suspect_reasons.html",
        graph=graph,
        job_id=job_id,
        positive=positive,
        found=reasons,
        shared=[] if reasons is None else shared_neighbors(reasons.labels),
        refusal=refusal,
    )


@router.post("/graphs/{graph}/suspects", dependencies=[viewing("label")])
async def label_suspect(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Take the label of a suspect, or take it back, and show what became of it."""
    form = await form_of(request)

    def take() -> Response:
        done = take_answer(graph, home, caller, form)
        if not is_piece(request):
            mine = {} if done is None or done["is_second"] else {"done": done["node"]}
            return back_to(f"/graphs/{graph.settings.name}/{form.get('back', 'suspects')}", **mine)
        positive, job = form.get("positive", ""), form.get("job")
        file = None if done else home.predictions.open(predicting_job(graph, home, job))
        return page(
            request,
            "suspect_label.html",
            graph=graph,
            node=form.get("node", ""),
            positive=positive,
            job_id=job,
            column=form.get("label_column", ""),
            back=form.get("back", "suspects"),
            keys=() if file is None else _keys(file, positive),
            colors=class_colors(file),
            done=done,
            is_row=True,
        )

    return await run_in_threadpool(take)


def shared_neighbors(labels: Sequence[LabelReason]) -> list[Shared]:
    """The neighbors that lie between a node and labeled ones, the most shared first."""
    between: dict[NodeId, list[NodeId]] = defaultdict(list)
    for each in labels:
        if each.way is not None and len(each.way) == 3:
            between[each.way[1]].append(each.node)
    shared = [Shared(node=node, labeled=tuple(labeled)) for node, labeled in between.items()]
    return sorted(shared, key=lambda each: -len(each.labeled))


def _numbers(
    graph: GraphRecord, home: ServedHome, file: PredictionFile, positive: str, k: int
) -> tuple[Int64Array, int]:
    """Dense ids of the first ``k`` suspects without a label by now, and how many have got one."""
    n_events = min(max(graph.labels_seq - file.meta.labels_seq, 0), _MOST_LABELED_SINCE)
    numbers = suspects(file, positive, k + n_events)
    if n_events == 0 or numbers.size == 0:
        return numbers[:k], 0
    names = [str(each["node"]) for each in file.lookup(numbers)]
    labeled = home.labels.of_nodes(graph.id, names, column=file.meta.label_column)
    is_free = np.array([name not in labeled for name in names])
    first = np.flatnonzero(is_free)[:k]
    n_since = int(np.count_nonzero(~is_free[: first[-1]])) if first.size else len(labeled)
    return numbers[first], n_since


def _judged(
    file: PredictionFile, query: SuspectQuery, positive: str, last_score: float | None
) -> dict[str, Any]:
    """Template values told by left-out labels: precision of the suspects, and a threshold."""
    values: dict[str, Any] = dict.fromkeys(
        ("precision", "warning", "chosen", "n_chosen", "refusal", "missing")
    )
    try:
        if last_score is not None:
            share = query.positive_share
            values["precision"] = precision_above(file, positive, last_score, positive_share=share)
            of_k = class_threshold(file, positive, threshold=last_score, positive_share=share)
            values["warning"] = left_out_evaluation(file, of_k).warning
        if any(each is not None for each in query.goal.values()):
            chosen = class_threshold(
                file, positive, **query.goal, positive_share=query.positive_share
            )
            values["chosen"] = left_out_evaluation(file, chosen)
            values["n_chosen"] = count_suspects(file, positive, chosen.threshold)
    except NotCrossValidated as error:
        values["missing"] = str(error)
    except BadArgument as error:
        values["refusal"] = str(error)
    return values


def _keys(file: PredictionFile, positive: str) -> list[tuple[LabelValue, str]]:
    """Some classes, the positive one among them, with the key of each."""
    classes = sorted(file.meta.class_names, key=lambda each: (str(each) != positive, str(each)))
    return assign_keys(sorted(classes[:_CLASSES_SHOWN], key=str))
