"""Columns of features that the card of a node shows: kept in a cookie of the browser."""

import re
from typing import Final

from fastapi import Request, Response

from peewit.service.api.served_home import GraphHere
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, page_router

router = page_router()

_COOKIE: Final = "card_columns"
_KEY: Final = re.compile(r"[0-9a-f]{8}")
_SECONDS: Final = 365 * 86_400


def chosen_columns(request: Request) -> set[str] | None:
    """Keys of the columns that were chosen for the graph of the page; None before that."""
    kept = request.cookies.get(_COOKIE)
    return None if kept is None else set(_KEY.findall(kept))


@router.post("/graphs/{graph}/card-columns", dependencies=[viewing("read")])
async def choose_columns(request: Request, graph: GraphHere) -> Response:
    """Show these columns of every node of the graph from now on."""
    form = await form_of(request)
    root = f"/graphs/{graph.settings.name}"
    answer = back_to(f"{root}/{form.get('back', '')}")
    answer.set_cookie(
        _COOKIE,
        "-".join(["", *(name for name in form if _KEY.fullmatch(name))]),
        max_age=_SECONDS,
        path=root,
        httponly=True,
        samesite="lax",
    )
    return answer
