"""Labels: how many of each, search, add, change, take back, a file of them, and their history."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere
from peewit.service.api.stores import GraphHere, Stores, StoresHere
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, page, page_router, piece
from peewit.service.dashboard.routes.common import PAGE_ROWS, Column, Seen, label_of
from peewit.service.tables.uploads import UploadedLabels, node_id

router = page_router()

_HISTORY_ROWS = 20

Prefix = Annotated[str, Query(alias="node", max_length=1000)]
Before = Annotated[int | None, Query(ge=1)]


@router.get("/graphs/{graph}/labels", dependencies=[viewing("read")])
def show_labels(
    request: Request,
    graph: GraphHere,
    stores: StoresHere,
    prefix: Prefix = "",
    label: Annotated[str, Query(max_length=1000)] = "",
    annotator: Annotated[str, Query(max_length=1000)] = "",
    column: Column = "",
    before: Before = None,
    history_before: Before = None,
    put: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """The labels of a graph, of one column."""
    asked = label_of(label, stores.labels, graph.id, column) if label else None
    rows = stores.labels.page(
        graph.id,
        column=column,
        prefix=prefix,
        label=asked,
        annotator=annotator,
        before_seq=before,
        limit=PAGE_ROWS + 1,
    )
    events = stores.labels.history(
        graph.id,
        column=column,
        prefix=prefix,
        annotator=annotator,
        before_seq=history_before,
        limit=_HISTORY_ROWS + 1,
    )
    return page(
        request,
        "labels.html",
        graph=graph,
        column=column,
        n_put=put,
        max_bytes=stores.settings.max_body_bytes,
        columns=stores.labels.columns(graph.id),
        prefix=prefix,
        label=label,
        annotator=annotator,
        rows=rows[:PAGE_ROWS],
        next_before=rows[PAGE_ROWS - 1].seq if len(rows) > PAGE_ROWS else None,
        events=events[:_HISTORY_ROWS],
        next_history=events[_HISTORY_ROWS - 1].seq if len(events) > _HISTORY_ROWS else None,
    )


@router.get("/graphs/{graph}/labels/counts", dependencies=[viewing("read")])
def show_counts(
    request: Request, graph: GraphHere, stores: StoresHere, column: Column = "", seen: Seen = ""
) -> Response:
    """Nodes of each label; asked for by itself, since millions take a while to count."""
    counts = stores.labels.class_counts(graph.id, column=column)
    return piece(request, "label_counts.html", seen=seen, graph=graph, column=column, counts=counts)


@router.post("/graphs/{graph}/labels", dependencies=[viewing("label")])
async def put_one(
    request: Request, graph: GraphHere, stores: StoresHere, caller: CallerHere
) -> Response:
    """Give one node a label, or another one."""
    form = await form_of(request)
    await run_in_threadpool(_put, graph, stores, caller, form)
    return back_to(f"/graphs/{graph.settings.name}/{form.get('back') or 'labels'}")


@router.post("/graphs/{graph}/labels/remove", dependencies=[viewing("label")])
async def remove_one(
    request: Request, graph: GraphHere, stores: StoresHere, caller: CallerHere
) -> Response:
    """Take the label of one node back."""
    form = await form_of(request)
    node = node_id(form.get("node", ""), graph.settings.node_ids)
    delete = partial(
        stores.labeling.delete,
        graph,
        [node],
        column=form.get("label_column", ""),
        annotator=caller.annotator,
    )
    await run_in_threadpool(delete)
    return back_to(f"/graphs/{graph.settings.name}/{form.get('back') or 'labels'}")


def _put(graph: GraphRecord, stores: Stores, caller: Caller, form: Mapping[str, str]) -> None:
    column = form.get("label_column", "")
    if column:
        stores.labels.require_column(graph.id, column)
    given = UploadedLabels(
        nodes=[node_id(form.get("node", ""), graph.settings.node_ids)],
        labels=[label_of(form.get("label", "").strip(), stores.labels, graph.id, column)],
    )
    stores.labeling.put(graph, {column: given}, annotator=caller.annotator)
