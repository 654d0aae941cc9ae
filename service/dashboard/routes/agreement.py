"""Agreement of the people who label, and the nodes about which they disagree."""

from typing import Annotated

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.dashboard.routes.common import PAGE_ROWS, Column
from peewit.service.predictions.agreement_report import Drawn, agreement_of
from peewit.service.tables.uploads import node_id

router = page_router()


@router.get("/graphs/{graph}/labels/agreement", dependencies=[viewing("read")])
def show_agreement(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    drawn: Annotated[Drawn, Query()] = "random",
    column: Column = "",
) -> Response:
    """How far people agree, and what is to be decided."""
    home.labels.require_column(graph.id, column)
    return page(
        request,
        "agreement.html",
        graph=graph,
        column=column,
        columns=home.labels.columns(graph.id),
        drawn=drawn,
        found=agreement_of(home.questions, graph, column=column, drawn=drawn),
        rows=home.opinions.disagreements(graph.id, column=column)[:PAGE_ROWS],
    )


@router.post("/graphs/{graph}/labels/decide", dependencies=[viewing("label")])
async def decide(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Put the label that is to stand of a node."""
    form = await form_of(request)
    column = form.get("label_column", "")

    def put() -> None:
        home.second_opinions.decide(
            graph,
            node_id(form.get("node", ""), graph.settings.node_ids),
            home.labels.typed(graph.id, form.get("label", ""), column=column),
            annotator=caller.annotator,
            key=caller.key_name,
            column=column,
        )

    await run_in_threadpool(put)
    query = {"drawn": form.get("drawn", "random")} | ({"label_column": column} if column else {})
    return back_to(f"/graphs/{graph.settings.name}/labels/agreement", **query)
