"""Signing in and out."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request, Response

from peewit.service.api.auth import verified
from peewit.service.api.refused_keys import KeyRefused
from peewit.service.api.served_home import HomeHere
from peewit.service.dashboard.access import require_own_form
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.dashboard.sessions import COOKIE, MAX_AGE_SECONDS, Sessions
from peewit.service.labels.annotators import annotator_name
from peewit.solvers.arguments import BadArgument

router = page_router()


@router.get("/sign-in")
async def show_sign_in(
    request: Request, home: HomeHere, where: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """The page that asks for a key."""
    has_key = await home.recently("keys needed", home.keys.are_needed)
    return page(request, "sign_in.html", has_key=has_key, where=where, said_name="", refused={})


@router.post("/sign-in")
async def sign_in(request: Request, home: HomeHere) -> Response:
    """Take a key, and give a cookie for it; the key itself is not kept."""
    require_own_form(request)
    form = await form_of(request)
    where = form.get("next", "/")
    said, said_name = form.get("name", "").strip(), None
    try:
        key = await verified(request, home, form.get("key", "").strip())
        if said:
            said_name = annotator_name(said, argument="name")
    except (KeyRefused, BadArgument) as error:
        is_key = isinstance(error, KeyRefused)
        return page(
            request,
            "sign_in.html",
            code=HTTPStatus.UNAUTHORIZED if is_key else HTTPStatus.UNPROCESSABLE_ENTITY,
            has_key=True,
            where=where,
            said_name=said,
            refused={"key" if is_key else "name": str(error)},
        )
    sessions: Sessions = request.app.state.sessions
    # only a path of this server: browsers read "//host" and "/\\host" as other hosts
    is_path = where.startswith("/") and where[1:2] not in {"/", "\\"}
    answer = back_to(where if is_path else "/")
    answer.set_cookie(
        COOKIE,
        sessions.issue(key, said_name),
        max_age=MAX_AGE_SECONDS,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Forget the cookie."""
    require_own_form(request)
    answer = back_to("/sign-in")
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return answer
