"""Page that shows the API, from files of this server, dark if the system is."""

from typing import Final

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse

_FILES: Final = "/static-offline-docs"
"""Where `fastapi_offline` serves Swagger UI."""

_FOLLOWS_SYSTEM: Final = """<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();
</script>
</head>"""
"""Swagger UI has dark colors under a class; its own button for it is not in the bundle."""


def add_docs_page(app: FastAPI) -> None:
    """Show the OpenAPI document of an application at ``/docs``."""
    app.get("/docs", include_in_schema=False)(_show_docs)


# of the request, not closed over: FastAPI keeps what it knows of an endpoint for ever
async def _show_docs(request: Request) -> HTMLResponse:
    app: FastAPI = request.app
    made = get_swagger_ui_html(
        openapi_url=str(app.openapi_url),
        title=f"{app.title} API",
        swagger_js_url=f"{_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{_FILES}/favicon.png",
    )
    return HTMLResponse(bytes(made.body).decode().replace("</head>", _FOLLOWS_SYSTEM, 1))
