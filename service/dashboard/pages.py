"""Pages: templates, their filters, headers, and errors shown as pages."""

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson
import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined

from peewit.service.api import errors
from peewit.service.api.refused_keys import KeyMissing
from peewit.service.dashboard.access import ForeignForm, Viewer
from peewit.service.dashboard.help_words import WORDS, page_of
from peewit.service.dashboard.next_step import next_step
from peewit.service.inbox.source_columns import relations_said
from peewit.service.jobs.ingest_steps import length_text
from peewit.service.live_sources.contract import shown_position
from peewit.service.live_sources.node_columns import shown_holding
from peewit.service.problems import InvalidArgument
from peewit.service.wire.solve_lines import how_sure, solve_lines, warning_text

STATIC: Final = Path(__file__).parent / "static"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; form-action 'self'; "
        "base-uri 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page: it loads nothing foreign, and no other site may frame it."""

_log = structlog.get_logger(__name__)

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


class PageRoute(APIRoute):
    """A route that answers with a page even on errors.

    Visitors who are not signed in are redirected to sign in. Requests of htmx get a problem, as by
    the API, which the script on the page shows.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route with errors turned into pages."""
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            try:
                return await handle(request)
            except KeyMissing:
                return _sign_in_first(request)
            except ForeignForm as error:
                return _error_page(request, HTTPStatus.FORBIDDEN, "Foreign form", str(error))
            except Exception as error:
                answer = errors.answer_of(request, error)
                if answer is None:
                    if is_piece(request):
                        raise
                    _log.error("page failed", path=request.url.path, exc_info=error)
                    answer = errors.unhandled(request, error)
                return answer if is_piece(request) else problem_page(request, answer)

        return handle_page


def problem_page(request: Request, answer: Response) -> Response:
    """A problem as a page with a way back."""
    problem = orjson.loads(bytes(answer.body))
    return _error_page(
        request,
        HTTPStatus(answer.status_code),
        problem["title"],
        problem["detail"],
        headers=answer.headers,
    )


def page_router() -> APIRouter:
    """A router for pages, which the API's documentation leaves out."""
    return APIRouter(include_in_schema=False, route_class=PageRoute)


def is_piece(request: Request) -> bool:
    """Whether only a part of a page is requested."""
    return "hx-request" in request.headers


def page(request: Request, template: str, *, code: int = HTTPStatus.OK, **values: Any) -> Response:
    """A page, or a part of one, rendered from a file of ``templates`` with ``values``.

    The viewer of ``request`` decides which buttons there are.
    """
    viewer: Viewer = getattr(request.state, "viewer", Viewer(key=None))
    text = (
        _environment()
        .get_template(template)
        .render(request=request, viewer=viewer, path=request.url.path, **values)
    )
    return HTMLResponse(text, status_code=int(code), headers=HEADERS)


def piece(request: Request, template: str, *, seen: str = "", **values: Any) -> Response:
    """A part of a page that is polled: an empty answer while it is as ``seen`` says.

    ``seen`` comes with the request; the template puts it where htmx sends it back.
    """
    made = page(request, template, seen="", **values)
    digest = blake2b(bytes(made.body), digest_size=8).hexdigest()
    if digest == seen:
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=HEADERS)
    return page(request, template, seen=digest, **values)


def back_to(path: str, **query: str) -> Response:
    """A redirect to a page after a form."""
    separator = "&" if "?" in path else "?"
    url = f"{path}{separator}{urlencode(query)}" if query else path
    return RedirectResponse(url, HTTPStatus.SEE_OTHER, headers=HEADERS)


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form, the last one of each name.

    Raises InvalidArgument where the body is no form.
    """
    content = await request.body()
    try:
        fields = parse_qs(
            content.decode(), keep_blank_values=True, max_num_fields=100, errors="strict"
        )
    except ValueError as error:
        raise InvalidArgument(f"the body must be a form: {error}") from error
    return {name: values[-1] for name, values in fields.items()}


def _sign_in_first(request: Request) -> Response:
    """A redirect to the sign-in page, which leads back to this one."""
    if is_piece(request):  # makes htmx leave the page
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": "/sign-in"})
    if request.method != "GET":
        return back_to("/sign-in")
    query = f"?{request.url.query}" if request.url.query else ""
    return back_to("/sign-in", next=request.url.path + query)


def _error_page(
    request: Request,
    status: HTTPStatus,
    title: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    made = page(
        request,
        "error.html",
        code=status,
        status=int(status),
        title=title,
        detail=detail,
        back=_page_before(request),
    )
    for name in ("Retry-After", "Allow"):
        if headers is not None and name in headers:
            made.headers[name] = headers[name]
    return made


def _page_before(request: Request) -> str | None:
    """The referring page of this server, unless it is the same page."""
    before = urlsplit(request.headers.get("referer", ""))
    here = request.url
    if before.netloc != here.netloc or (request.method == "GET" and before.path == here.path):
        return None
    return f"{before.path}?{before.query}" if before.query else before.path


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("peewit.service.dashboard"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "count": _count,
        "size": _size,
        "figure": _figure,
        "percent": _percent,
        "solve_lines": partial(solve_lines, door="page"),
        "how_sure": partial(how_sure, door="page"),
        "warning_text": partial(warning_text, door="page"),
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "seconds": _seconds,
        "iso": _iso,
        "length_text": length_text,
        "position": shown_position,
        "relations_said": relations_said,
        "holding": shown_holding,
        "stamp": _stamp,
        "segment": lambda value: quote(str(value), safe=""),
        "query": lambda values: urlencode(
            {name: value for name, value in values.items() if value not in (None, "", ())},
            doseq=True,
        ),
        "json": lambda value: orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode(),
    }
    environment.globals |= {
        "static": _static,
        "now": lambda: datetime.now(UTC),
        "words": WORDS,
        "page_of": page_of,
        "next_step": lambda request, graph: next_step(graph, request.app.state.home),
    }
    return environment


@cache
def _static(name: str) -> str:
    """Address of a static file, which changes with its content."""
    digest = blake2b((STATIC / name).read_bytes(), digest_size=6).hexdigest()
    return f"/static/{name}?{digest}"


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _size(n_bytes: float | None) -> str:
    if n_bytes is None:
        return "–"
    for unit in _UNITS[:-1]:
        if abs(n_bytes) < 1024:
            return f"{n_bytes:,.0f} {unit}" if unit == "bytes" else f"{n_bytes:,.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} {_UNITS[-1]}"


def _figure(value: object) -> str:
    """A number with three digits; other values unchanged."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _percent(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 100:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, seconds = divmod(round(value), 60)
    if minutes < 100:
        return f"{minutes}:{seconds:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
