"""A new graph: its name, the settings that matter, and the others with their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, get_args

from fastapi import Request, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from peewit.service.api.served_home import HomeHere, ServedHome
from peewit.service.catalog import GraphExists, TooManyGraphs
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.graph_settings import doc_of, setting_of
from peewit.service.operations.graph_settings import GraphCreate, create_graph
from peewit.service.operations.here import Here
from peewit.service.validation_rules import rule_of, with_argument
from peewit.solvers.arguments import BadArgument
from peewit.solvers.hyperparameters import Rule
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.edge_budget import edge_budget
from peewit.streaming.edges.windows import WindowBy, relation_lengths

router = page_router()


_KINDS: Final = {int: "whole", float: "number", str: "choice", bool: "check"}


@dataclass(frozen=True, slots=True)
class Field:
    """A setting as a form field; what is said of it is what its rule and description say."""

    name: str  # as in `GraphCreate`; parts are separated by a dot
    text: str  # what it is called
    kind: str  # "text", "lengths", "whole", "number", "choice" or "check"
    options: tuple[str, ...] = ()  # of a choice
    default: Any = None

    @classmethod
    def of(cls, name: str, text: str) -> "Field":
        """A setting of a graph with a rule."""
        each = setting_of(name)
        rule: Rule = each.metadata["rule"]
        return cls(name, text, _KINDS[rule.kind], rule.words, each.default)

    @property
    def hint(self) -> str:
        """What it does, and its default."""
        default = self.default
        if self.kind == "check":
            default = "On" if default else "Off"
        elif self.kind == "whole" and default is not None:
            default = f"{default:,}"
        return f"{doc_of(self.name)} {'' if default is None else f'{default} by default.'}".rstrip()


_WINDOW = "window."
_EVERY = "snapshot_every."

_BUDGET: Final = Field.of("max_edges", "Most edges to keep")

FOLDED: Final = (
    Field.of("expected_nodes", "Nodes to be ready for"),
    _BUDGET,
    Field.of("epsilon", "Spectral error, epsilon"),
    Field.of("max_nodes", "Most nodes"),
    Field.of("seed", "Seed"),
    Field.of("keep_raw", "Keep the edges that were sent"),
    Field.of("deletions", "Rows may delete edges"),
    Field.of("parallel", "A further edge of a pair"),
    Field(f"{_WINDOW}length", "Edges live for", "text"),
    Field(f"{_WINDOW}relations", "Edges of relations live for", "lengths"),
    Field(f"{_WINDOW}by", "by", "choice", get_args(WindowBy)),
    Field.of(f"{_EVERY}edges", "Snapshot after so many edges"),
    Field.of(f"{_EVERY}seconds", "Snapshot after so many seconds"),
    Field("auto_solve", f"Predict again after every change, by {DEFAULT_MODEL}", "check"),
)
"""The settings that seldom matter."""

_TEXTS: Final = {"name": "Name", "node_ids": "Ids of nodes"} | {
    each.name: each.text for each in FOLDED
}
"""Names of the settings on the page."""


NOT_MADE: Final = (ValidationError, BadArgument, GraphExists, TooManyGraphs)
"""Why a graph is not made."""


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
    except NOT_MADE as error:
        return await run_in_threadpool(_form, request, home, form, why_not_made(error))
    return back_to(f"/graphs/{body.name}/edges")


def why_not_made(error: Exception) -> str:
    """What is wrong with the settings of a graph, by the error that they raised."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return with_argument(".".join(str(part) for part in first["loc"]), rule_of(first))


def _form(
    request: Request, home: ServedHome, values: Mapping[str, str], fault: str | None = None
) -> Response:
    named = next((name for name in _TEXTS if fault and fault.startswith(f"{name} ")), None)
    if fault is not None and named is not None:
        fault = f"{_TEXTS[named]} ({named}){fault.removeprefix(named)}"
    code = HTTPStatus.OK if fault is None else HTTPStatus.UNPROCESSABLE_ENTITY
    own_budget = replace(_BUDGET, default=edge_budget(home.settings.graph_memory_bytes))
    return page(
        request,
        "new_graph.html",
        code=code,
        values=values,
        fault=fault,
        folded=[own_budget if each is _BUDGET else each for each in FOLDED],
        is_sent=bool(values),
        is_open=any(
            values.get(each.name) for each in FOLDED if each.kind not in {"choice", "check"}
        ),
    )


def _given(form: Mapping[str, str]) -> dict[str, Any]:
    """The typed settings of a form; raises BadArgument."""
    fields: dict[str, Any] = {"name": form.get("name", "").strip()}
    if node_ids := form.get("node_ids"):
        fields["node_ids"] = node_ids
    for each in FOLDED:
        text = form.get(each.name, "").strip()
        if each.kind == "check":
            fields[each.name] = bool(text)
        elif text:
            fields[each.name] = _typed(each.name, text, each.kind)
    fields["auto_solve"] = {"model": DEFAULT_MODEL} if fields["auto_solve"] else None
    for part in (_WINDOW, _EVERY):
        values = {name: fields.pop(name) for name in list(fields) if name.startswith(part)}
        of_part = {name.removeprefix(part): value for name, value in values.items()}
        if of_part.keys() - {"by"}:
            fields[part.removesuffix(".")] = of_part
    if "window" in fields and fields.get("deletions") == "off":
        del fields["deletions"]  # the form's default; a window implies exact ones
    return fields


def _typed(name: str, text: str, kind: str) -> Any:
    if kind == "lengths":
        return relation_lengths(text)
    if kind not in {"whole", "number"}:
        return text
    try:
        return int(text.replace(",", "")) if kind == "whole" else float(text)
    except ValueError:
        rule = "a whole number" if kind == "whole" else "a number"
        raise BadArgument(name, f"must be {rule}, got {text!r}") from None
