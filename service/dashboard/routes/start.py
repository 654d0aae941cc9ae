"""Start with your files: tables are sent, said to hold something, and taken as one graph."""

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from shlex import join
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import orjson
from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api import errors
from peewit.service.api.auth import Caller, CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard import edge_intake, feature_intake, label_intake
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.next_step import next_step
from peewit.service.dashboard.pages import HEADERS, back_to, form_of, is_piece, page, page_router
from peewit.service.dashboard.pages import piece as polled
from peewit.service.dashboard.routes.common import Seen
from peewit.service.dashboard.routes.new_graph import NOT_MADE, why_not_made
from peewit.service.dashboard.routes.sent_files import (
    address_of,
    all_received,
    decoding_of,
    sent_to,
    uploads_of,
)
from peewit.service.dashboard.start_intake import (
    MOST_FILES,
    NO_LABELS,
    ONE_WAY,
    USE_WORDS,
    SentTable,
    StartChoice,
    StartChosen,
    Understood,
    edge_choice,
    feature_choice,
    holds_of,
    joined,
    label_choice,
    understood,
)
from peewit.service.dashboard.uploads import Holds, Upload
from peewit.service.first_look.columns import look_at
from peewit.service.first_look.commands import Step, positive, script, steps
from peewit.service.operations.graph_settings import GraphCreate, create_graph
from peewit.service.operations.here import Here
from peewit.service.problems import InvalidArgument
from peewit.service.tasks.kind_list import KINDS
from peewit.solvers.models.catalogue import DEFAULT_MODEL

router = page_router()

_HOLDS: Final[Holds] = "start"
_TABLES: Final = "/start/tables"
_CLASSES_COMPARED: Final = 2

GraphName = Annotated[str, Query(max_length=63)]


@router.get("/start", dependencies=[viewing("admin")])
def show_start(request: Request, home: HomeHere) -> Response:
    """Where files are dropped."""
    return page(request, "start.html", max_bytes=home.settings.max_body_bytes, most=MOST_FILES)


@router.post("/start/files", dependencies=[viewing("admin")])
async def send_files(
    request: Request, choice: StartChosen, name: Annotated[str, Query(max_length=1000)] = ""
) -> Response:
    """Keep files beside those that were sent before."""
    left = MOST_FILES - len(choice.file)
    if left < 1:
        rule = f"file must be one of at most {MOST_FILES}; join tables, or leave some out"
        raise InvalidArgument(rule, argument="file")
    sent = await all_received(request, None, _HOLDS, name, most=left)
    given = choice.given | {"file": [*choice.file, *(each.id for each in sent)]}
    return sent_to(request, f"{_TABLES}?{urlencode(given, doseq=True)}")


@router.get(_TABLES, dependencies=[viewing("admin")])
async def show_tables(request: Request, home: HomeHere, choice: StartChosen) -> Response:
    """What the tables hold, and what will be done with them."""
    return await _tables(request, home, choice)


@router.get("/start/script", dependencies=[viewing("admin")])
async def download_script(
    request: Request, home: HomeHere, choice: StartChosen, name: GraphName = "mine"
) -> Response:
    """The same as commands of a terminal, which read the files where it is run."""
    found = await _understood(request, home, choice)
    text = script(name, found.roles, "peewit", found.paths)
    named = {"Content-Disposition": 'attachment; filename="commands.sh"'}
    return Response(text, media_type="text/x-shellscript", headers=HEADERS | named)


@router.post("/start/run", dependencies=[viewing("admin")])
async def run(
    request: Request, home: HomeHere, caller: CallerHere, choice: StartChosen
) -> Response:
    """Make the graph and take every table; a job predicts once all of them are read."""
    name = (await form_of(request)).get("name", "").strip()
    found = await _understood(request, home, choice)
    first, *others = steps(found.roles)
    if found.fault or not found.joins:
        return await _tables(request, home, choice, name=name)
    try:
        body = GraphCreate(name=name, seed=0, **_settings(first))
        await run_in_threadpool(create_graph, Here(home=home), body=body)
    except NOT_MADE as error:
        return await _tables(request, home, choice, name=name, fault=why_not_made(error))
    taken = [
        await _taken(request, home, caller, name, each, found) for each in others if each.roles
    ]
    graph = await run_in_threadpool(home.catalog.get, name)
    classes = found.roles.classes
    puts_labels = any(each.words == ("labels", "put") for each in others)  # as the last table
    if puts_labels and len(classes) >= _CLASSES_COMPARED and not taken[-1]["fault"]:
        spec = KINDS["solve"].spec(graph.id, model=DEFAULT_MODEL, parameters={}, owner=caller.name)
        await run_in_threadpool(home.jobs.submit, replace(spec, after_ingest=True))
    outcome = {
        "taken": taken,
        "positive": positive(found.roles) if len(classes) == _CLASSES_COMPARED else "",
    }
    await run_in_threadpool(uploads_of(request).remember, graph.id, _HOLDS, outcome)
    for each in found.tables:
        await run_in_threadpool(each.upload.remove)
    return back_to(f"/graphs/{name}/start")


@router.post("/start/remove", dependencies=[viewing("admin")])
def remove_files(request: Request, choice: StartChosen) -> Response:
    """Give the files up."""
    for upload in _uploads(request, choice):
        upload.remove()
    return back_to("/start")


@router.get("/graphs/{graph}/start", dependencies=[viewing("read")])
def show_outcome(request: Request, graph: GraphHere, home: HomeHere, seen: Seen = "") -> Response:
    """What was taken of the files that a graph started with, and how far its predictions are."""
    values: dict[str, Any] = {"graph": graph, **_progress(request, graph, home)}
    if is_piece(request):
        return polled(request, "graph_start_live.html", seen=seen, **values)
    return page(request, "graph_start.html", seen="", **values)


def _progress(request: Request, graph: GraphRecord, home: ServedHome) -> dict[str, Any]:
    outcome = uploads_of(request).remembered(graph.id, _HOLDS)
    return {
        "taken": outcome.get("taken", []),
        "positive": outcome.get("positive", ""),
        "step": next_step(graph, home),
        "reads_features": bool(home.features.status(graph).n_pending),
    }


def _settings(step: Step) -> dict[str, Any]:
    node_ids, window = step.options.get("node-ids"), step.options.get("window")
    made: dict[str, Any] = {} if node_ids is None else {"node_ids": node_ids}
    return made if window is None else made | {"window": {"length": window}}


async def _tables(
    request: Request, home: ServedHome, choice: StartChoice, *, name: str = "mine", fault: str = ""
) -> Response:
    """The page of what the tables hold; after a refusal with what was typed and why."""
    found = await _understood(request, home, choice)
    to_do = steps(found.roles) if found.joins and not found.fault else []
    return await run_in_threadpool(
        page,
        request,
        "start_tables.html",
        code=HTTPStatus.UNPROCESSABLE_ENTITY if fault else HTTPStatus.OK,
        found=found,
        steps=to_do,
        commands=[join(["peewit", *each.arguments(name, found.paths)]) for each in to_do],
        choice=choice,
        no_labels=NO_LABELS,
        one_way=ONE_WAY,
        uses=USE_WORDS,
        name=name,
        fault=fault,
        max_bytes=home.settings.max_body_bytes,
    )


async def _understood(request: Request, home: ServedHome, choice: StartChoice) -> Understood:
    uploads = await run_in_threadpool(_uploads, request, choice)
    if not uploads:
        raise InvalidArgument("file must name one that was sent; choose files", argument="file")
    tables = [await _looked_at(home, each, choice) for each in uploads]
    return await run_in_threadpool(understood, tables, choice)


async def _looked_at(home: ServedHome, upload: Upload, choice: StartChoice) -> SentTable:
    if upload.id in choice.skip:
        return SentTable(upload=upload, look=None)
    try:
        async with home.decoding.held(await decoding_of(upload, home)):
            look = await run_in_threadpool(look_at, upload.path)
    except ValueError as error:
        return SentTable(upload=upload, look=None, fault=str(error))
    return SentTable(upload=upload, look=look)


def _uploads(request: Request, choice: StartChoice) -> list[Upload]:
    """The files, which only who sent them finds."""
    get = partial(uploads_of(request).get, None, _HOLDS, owner=request.state.caller.name)
    return [get(each) for each in dict.fromkeys(choice.file)]


async def _taken(
    request: Request, home: ServedHome, caller: Caller, name: str, step: Step, found: Understood
) -> dict[str, str]:
    """What became of a file: where it was refused, the reason, and the page where it waits."""
    graph = await run_in_threadpool(home.catalog.get, name)
    holds, uploads = holds_of(step), uploads_of(request)
    sent = [found.uploads[role.table.path] for role in step.roles]
    n_bytes = max([await decoding_of(each, home) for each in sent])
    address = f"/graphs/{name}/{holds}"
    try:
        async with home.decoding.held(n_bytes):
            if len(sent) > 1:
                join = partial(joined, uploads, graph, home, step, owner=caller.name)
                own, graph = await run_in_threadpool(join)
            else:
                copied = partial(uploads.copied, sent[0], holds, graph.id, owner=caller.name)
                own = await run_in_threadpool(copied)
            choice, take = _of_step(step, own, graph, home, caller)
            query = urlencode(choice.given, doseq=True)
            address = f"{address_of(graph, holds, own)}?{query}"
            await run_in_threadpool(take)
    except Exception as error:
        answer = errors.answer_of(request, error)
        if answer is None:
            raise
        fault = orjson.loads(bytes(answer.body))["detail"]
        return {"title": step.title, "fault": fault, "address": address}
    return {"title": step.title, "fault": "", "address": ""}


def _of_step(
    step: Step, upload: Upload, graph: GraphRecord, home: ServedHome, caller: Caller
) -> tuple[Any, partial[Any]]:
    """The columns of a file, and what takes it."""
    match holds_of(step):
        case "edges":
            edges = edge_choice(step)
            take = partial(edge_intake.take, upload, graph, home, edges, owner=caller.name)
            return edges, take
        case "features":
            features = feature_choice(step)
            return features, partial(
                feature_intake.take, upload, graph, home, features, owner=caller.name
            )
    labels = label_choice(step)
    who = {"annotator": caller.annotator, "key": caller.key_name}
    return labels, partial(label_intake.take, upload, graph, home, labels, origin="imported", **who)
