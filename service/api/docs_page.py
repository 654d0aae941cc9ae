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
const mend = () => {
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  const level = (number) => (one) => { one.role = "heading"; one.ariaLevel = number; };
  each(".opblock-tag:not([role]), .models h4:not([role])", level("2"));
  each(".opblock h4:not([role])", level("3"));
  each(".opblock-summary-control a[href]", (one) => one.removeAttribute("href"));
  each("pre.microlight:not([tabindex])", (one) => { one.tabIndex = 0; });
};
new MutationObserver(mend).observe(document, { childList: true, subtree: true });
</script>
<style>
html:not(.dark-mode) .swagger-ui {
  & .info .title small { background: #5f6672; }
  & .info .title small.version-stamp { background: #4a6602; }
  & a.link, & .info .link .url, & .info a { color: #2462a8; }
  & .btn.authorize { color: #1a6b46; border-color: #1a6b46; }
  & .json-schema-2020-12-expand-deep-button { color: #505050; }
  & .opblock-get .opblock-summary-method { background: #1f6fb2; }
  & .opblock-post .opblock-summary-method { background: #1a6b46; }
  & .opblock-put .opblock-summary-method { background: #8f5400; }
  & .opblock-patch .opblock-summary-method { background: #12695d; }
  & .opblock-delete .opblock-summary-method { background: #c31f1f; }
}
</style>
</head>"""
"""Swagger UI as everybody can use it: dark where the system is, headings in order, no link within a
button, keys for what scrolls, and colors that can be read.
"""

_REPLACED: Final = (
    ("</head>", _FOLLOWS_SYSTEM),
    ("<html>", '<html lang="en">'),
    ('<div id="swagger-ui">\n    </div>', '<main id="swagger-ui"></main>'),
)


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
    text = bytes(made.body).decode()
    for before, after in _REPLACED:
        text = text.replace(before, after, 1)
    return HTMLResponse(text)
