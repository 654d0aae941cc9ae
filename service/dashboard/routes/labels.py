"""Labels: how many of each, search, add, change, take back, a file of them, and their history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, page, page_router, piece
from peewit.service.dashboard.routes.common import PAGE_ROWS, Column, Seen, node_of, origin_in
from peewit.service.labels.label_entry import LabelsRefused
from peewit.service.labels.store import LabelEvent
from peewit.service.problems import InvalidArgument
from peewit.service.tables.uploads import UploadedLabels, node_id
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.bad_table import BadTable

router = page_router()

_HISTORY_ROWS = 20

Prefix = Annotated[str, Query(alias="node", max_length=1000)]
Before = Annotated[int | None, Query(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSearch:
    """Which labels, and which part of their history, the page lists; empty values match any."""

    prefix: Prefix = ""  # start of the node
    label: Annotated[str, Query(max_length=1000)] = ""
    annotator: Annotated[str, Query(max_length=1000)] = ""
    column: Column = ""
    before: Before = None  # labels given before this event
    history_before: Before = None


@router.get("/graphs/{graph}/labels", dependencies=[viewing("read")])
def show_labels(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    search: Annotated[LabelSearch, Depends()],
    put: Annotated[int | None, Query(ge=0)] = None,
    left_out: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """The labels of a graph, of one column."""
    return _page(request, graph, home, search, n_put=put, n_left_out=left_out)


def _page(
    request: Request,
    graph: GraphRecord,
    home: ServedHome,
    search: LabelSearch,
    *,
    n_put: int | None = None,
    n_left_out: int = 0,
    typed: Mapping[str, str] = MappingProxyType({}),
    fault: str | None = None,
    is_unknown: bool = False,
) -> Response:
    """The page; after a refused form with what was typed and why it was refused."""
    column, labels = search.column, home.labels
    label = labels.typed(graph.id, search.label, column=column) if search.label else None

    def found(prefix: str) -> Sequence[LabelEvent]:
        return labels.page(
            graph.id,
            column=column,
            prefix=prefix,
            label=label,
            annotator=search.annotator,
            before_seq=search.before,
            limit=PAGE_ROWS + 1,
        )

    prefix, rows = search.prefix, found(search.prefix)
    if not rows and prefix != prefix.strip():
        prefix = prefix.strip()
        rows = found(prefix)
    events = labels.history(
        graph.id,
        column=column,
        prefix=prefix,
        annotator=search.annotator,
        before_seq=search.history_before,
        limit=_HISTORY_ROWS + 1,
    )
    return page(
        request,
        "labels.html",
        code=HTTPStatus.OK if fault is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        graph=graph,
        column=column,
        n_put=n_put,
        n_left_out=n_left_out,
        typed=typed,
        fault=fault,
        is_unknown=is_unknown,
        max_bytes=home.settings.max_body_bytes,
        columns=labels.columns(graph.id),
        prefix=prefix,
        label=search.label,
        annotator=search.annotator,
        rows=rows[:PAGE_ROWS],
        next_before=rows[PAGE_ROWS - 1].seq if len(rows) > PAGE_ROWS else None,
        events=events[:_HISTORY_ROWS],
        next_history=events[_HISTORY_ROWS - 1].seq if len(events) > _HISTORY_ROWS else None,
    )


@router.get("/graphs/{graph}/labels/counts", dependencies=[viewing("read")])
def show_counts(
    request: Request, graph: GraphHere, home: HomeHere, column: Column = "", seen: Seen = ""
) -> Response:
    """Nodes of each label; asked for by itself, since millions take a while to count."""
    counts = home.labels.class_counts(graph.id, column=column)
    return piece(request, "label_counts.html", seen=seen, graph=graph, column=column, counts=counts)


@router.post("/graphs/{graph}/labels", dependencies=[viewing("label")])
async def put_one(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Give one node a label, or another one; what is wrong is said beside the form of the page.

    It is the same form for a button of another page, which the mended label leads back to.
    """
    form = await form_of(request)

    def put() -> Response:
        try:
            _put(graph, home, caller, form)
        except (BadArgument, BadTable, InvalidArgument) as error:
            if not request.state.viewer.may("read"):  # the form is on the page of all labels
                raise
            is_unknown = isinstance(error, LabelsRefused)
            fault = _unknown_node(form.get("node", ""), graph, home) if is_unknown else str(error)
            search = LabelSearch(column=form.get("label_column", ""))
            return _page(
                request, graph, home, search, typed=form, fault=fault, is_unknown=is_unknown
            )
        return back_to(f"/graphs/{graph.settings.name}/{form.get('back') or 'labels'}")

    return await run_in_threadpool(put)


@router.post("/graphs/{graph}/labels/remove", dependencies=[viewing("label")])
async def remove_one(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Take the label of one node back."""
    form = await form_of(request)
    node = node_id(form.get("node", ""), graph.settings.node_ids)
    delete = partial(
        home.labeling.delete,
        graph,
        [node],
        column=form.get("label_column", ""),
        annotator=caller.annotator,
        key=caller.key_name,
    )
    await run_in_threadpool(delete)
    return back_to(f"/graphs/{graph.settings.name}/{form.get('back') or 'labels'}")


def _put(graph: GraphRecord, home: ServedHome, caller: Caller, form: Mapping[str, str]) -> None:
    column = form.get("label_column", "")
    if column:
        home.labels.require_column(graph.id, column)
    as_table = UploadedLabels(
        nodes=[node_of(form.get("node", ""), graph, home)],
        labels=[home.labels.typed(graph.id, form.get("label", "").strip(), column=column)],
    )
    home.labeling.put(
        graph,
        {column: as_table},
        unknown="keep" if form.get("unknown") == "keep" else "refuse",
        origin=origin_in(form.get("origin", "given")),
        annotator=caller.annotator,
        key=caller.key_name,
    )


def _unknown_node(text: str, graph: GraphRecord, home: ServedHome) -> str:
    """What to do in this form about a node that the graph does not know."""
    node = node_of(text, graph, home)
    return (
        f"The graph does not know the node {node!r}. Mend its name, or bring its edges first; or "
        "keep the label until the node comes, below."
    )
