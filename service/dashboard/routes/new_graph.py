"""A new graph: its name, the settings that matter, and the others with their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, get_args

from fastapi import Request, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from peewit.service.api.served_home import HomeHere, ServedHome
from peewit.service.catalog import GraphExists, TooManyGraphs
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.operations.graph_settings import GraphCreate, create_graph
from peewit.service.operations.here import Here
from peewit.service.validation_rules import rule_of, with_argument
from peewit.solvers.arguments import BadArgument
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.edge_budget import edge_budget
from peewit.streaming.edges.change_rules import Deletions, Parallel
from peewit.streaming.edges.windows import WindowBy

router = page_router()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A setting as a form field."""

    name: str  # as in `GraphCreate`; parts are separated by a dot
    text: str  # what it is called
    hint: str  # what it does
    kind: Literal["text", "whole", "number", "choice", "check"]
    options: tuple[str, ...] = ()  # of a choice

    @property
    def default(self) -> Any:
        """Default of the setting."""
        field = GraphCreate.model_fields.get(self.name)
        return None if field is None else field.default


_WINDOW = "window."
_EVERY = "snapshot_every."

FOLDED: Final = (
    Field(
        name="epsilon",
        text="Spectral error, epsilon",
        hint="How far a cut through the kept edges may be off one through all, above 0 and below "
        "1, instead of all edges that fit; none by default.",
        kind="number",
    ),
    Field(
        name="max_nodes",
        text="Most nodes",
        hint="Files that bring more are refused.",
        kind="whole",
    ),
    Field(
        name="seed",
        text="Seed",
        hint="Of all random choices; drawn by default.",
        kind="whole",
    ),
    Field(
        name="keep_raw",
        text="Keep the edges that were sent",
        hint="They are read again for certificates and exact answers.",
        kind="check",
    ),
    Field(
        name="deletions",
        text="Rows may delete edges",
        hint="Exact ones keep a log of all edges, and a window has them; chosen once.",
        kind="choice",
        options=get_args(Deletions),
    ),
    Field(
        name="parallel",
        text="A further edge of a pair",
        hint="Adds its weight, or takes the place of the others, which needs deletions.",
        kind="choice",
        options=get_args(Parallel),
    ),
    Field(
        name=f"{_WINDOW}length",
        text="Edges live for",
        hint="30d, 12h, 90m, or seconds; by default for ever. Chosen once.",
        kind="text",
    ),
    Field(
        name=f"{_WINDOW}by",
        text="by",
        hint="A column of times, or when their file arrived.",
        kind="choice",
        options=get_args(WindowBy),
    ),
    Field(
        name=f"{_EVERY}edges",
        text="Snapshot after so many edges",
        hint="By default at the end of each run of files.",
        kind="whole",
    ),
    Field(
        name=f"{_EVERY}seconds",
        text="Snapshot after so many seconds",
        hint="By default at the end of each run of files.",
        kind="number",
    ),
    Field(
        name="auto_solve",
        text="Predict again after every change",
        hint=f"By the model {DEFAULT_MODEL}, whenever labels or edges have changed.",
        kind="check",
    ),
)
"""The settings that seldom matter."""

_KINDS: Final[Mapping[str, str]] = {"max_edges": "whole", "expected_nodes": "whole"} | {
    each.name: each.kind for each in FOLDED
}


_TEXTS: Final[Mapping[str, str]] = {
    "name": "Name",
    "node_ids": "Ids of nodes",
    "expected_nodes": "Nodes to be ready for",
    "max_edges": "Most edges to keep",
} | {each.name: each.text for each in FOLDED}
"""Names of the settings on the page."""


@router.get("/new-graph", dependencies=[viewing("admin")])
def show_form(request: Request, home: HomeHere) -> Response:
    """The form."""
    return _form(request, home, {})


@router.post("/new-graph", dependencies=[viewing("admin")])
async def create(request: Request, home: HomeHere) -> Response:
    """Make the graph, and go where its edges come from; or say what is wrong beside the form."""
    form = await form_of(request)
    try:
        body = GraphCreate(**_given(form))
        await run_in_threadpool(create_graph, Here(home=home), body=body)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        fault = with_argument(name, rule_of(first))
        return await run_in_threadpool(_form, request, home, form, fault)
    except (BadArgument, GraphExists, TooManyGraphs) as error:
        return await run_in_threadpool(_form, request, home, form, str(error))
    return back_to(f"/graphs/{body.name}/edges")


def _form(
    request: Request, home: ServedHome, values: Mapping[str, str], fault: str | None = None
) -> Response:
    named = next((name for name in _TEXTS if fault and fault.startswith(f"{name} ")), None)
    if fault is not None and named is not None:
        fault = f"{_TEXTS[named]} ({named}){fault.removeprefix(named)}"
    code = HTTPStatus.OK if fault is None else HTTPStatus.UNPROCESSABLE_ENTITY
    defaults = {name: field.default for name, field in GraphCreate.model_fields.items()}
    return page(
        request,
        "new_graph.html",
        code=code,
        values=values,
        fault=fault,
        folded=FOLDED,
        defaults=defaults,
        budget=edge_budget(home.settings.graph_memory_bytes),
        is_sent=bool(values),
        is_open=any(
            values.get(each.name) for each in FOLDED if each.kind not in {"choice", "check"}
        ),
    )


def _given(form: Mapping[str, str]) -> dict[str, Any]:
    """The typed settings of a form; raises BadArgument."""
    given: dict[str, Any] = {"name": form.get("name", "").strip()}
    if node_ids := form.get("node_ids"):
        given["node_ids"] = node_ids
    for name, kind in _KINDS.items():
        text = form.get(name, "").strip()
        if kind == "check":
            given[name] = bool(text)
        elif text:
            given[name] = _number(name, text, kind)
    given["auto_solve"] = {"model": DEFAULT_MODEL} if given["auto_solve"] else None
    for part in (_WINDOW, _EVERY):
        values = {name: given.pop(name) for name in list(given) if name.startswith(part)}
        of_part = {name.removeprefix(part): value for name, value in values.items()}
        if of_part.keys() - {"by"}:
            given[part.removesuffix(".")] = of_part
    if "window" in given and given.get("deletions") == "off":
        del given["deletions"]  # the form's default; a window implies exact ones
    return given


def _number(name: str, text: str, kind: str) -> Any:
    if kind not in {"whole", "number"}:
        return text
    try:
        return int(text.replace(",", "")) if kind == "whole" else float(text)
    except ValueError:
        rule = "a whole number" if kind == "whole" else "a number"
        raise BadArgument(name, f"must be {rule}, got {text!r}") from None
