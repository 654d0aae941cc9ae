"""The API with the dashboard beside it, as `peewit serve` and `peewit api` serve it."""

from types import SimpleNamespace
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from peewit.service.api import errors
from peewit.service.api.app import create_app as create_api
from peewit.service.dashboard.node_media import Items
from peewit.service.dashboard.pages import STATIC, is_piece, problem_page
from peewit.service.dashboard.prediction_summary import Summaries
from peewit.service.dashboard.rounds import Rounds
from peewit.service.dashboard.routes import (
    agreement,
    edge_files,
    feature_files,
    graphs,
    jobs,
    judging,
    label_files,
    label_next,
    labels,
    maps,
    models,
    new_graph,
    node_card,
    predictions,
    sign_in,
    start,
    suspects,
)
from peewit.service.dashboard.sessions import Sessions
from peewit.service.dashboard.uploads import Uploads
from peewit.service.settings import Settings

_NO_PAGES: Final = ("/v1/", "/static/", "/static-offline-docs/", "/healthz", "/readyz", "/metrics")
"""Paths with these prefixes are requested by programs."""

BEHIND_SIGN_IN: Final = (
    new_graph,
    start,
    graphs,
    maps,
    edge_files,
    feature_files,
    labels,
    label_files,
    agreement,
    jobs,
    models,
    predictions,
    node_card,
    judging,
    label_next,
    suspects,
)
"""Modules whose routes need a session once there are keys."""

_ASSETS: Final = SimpleNamespace(path="/static/{path}")
"""Stand-in for a route, which a mounted application lacks."""


class _Assets(StaticFiles):
    """Static files whose address changes with their content, so that browsers may cache them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, cacheable for a year where the address names its content."""
        scope["route"] = _ASSETS  # its name in logs and metrics
        answer = await super().get_response(path, scope)
        is_exact = bool(Request(scope).url.query)
        cache_control = "public, max-age=31536000, immutable" if is_exact else "no-cache"
        answer.headers["Cache-Control"] = cache_control
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API and the dashboard of one home, ready to be served.

    Parameters and errors are those of `peewit.service.api.app.create_app`.
    """
    app = create_api(settings)
    home = app.state.home
    app.state.sessions = Sessions(home.settings.home, home.keys)
    app.state.summaries = Summaries()
    app.state.rounds = Rounds(home.suggester, home.labels)
    app.state.items = Items(home.settings.items_directory)
    app.state.uploads = Uploads(home.settings)
    app.state.uploads.sweep()
    for each in (sign_in, *BEHIND_SIGN_IN):
        app.include_router(each.router)
    app.add_exception_handler(HTTPException, _no_page)
    app.mount("/static", _Assets(directory=STATIC), name="static")
    return app


async def _no_page(request: Request, error: Exception) -> Response:
    """The answer where no route matches: a page for browsers, else a problem."""
    answer = errors.answer_of(request, error)
    if answer is None:
        raise error
    wants_page = "text/html" in request.headers.get("accept", "")
    if not wants_page or is_piece(request) or request.url.path.startswith(_NO_PAGES):
        return answer
    return await run_in_threadpool(problem_page, request, answer)
