"""FastAPI application: home, routes, errors and documentation put together."""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from pydantic.json_schema import models_json_schema

from peewit.service.api import errors
from peewit.service.api.bodies import BodyCap
from peewit.service.api.docs_page import add_docs_page
from peewit.service.api.draining import Stopping
from peewit.service.api.long_poll import Arrivals
from peewit.service.api.operation_routes import routes_of
from peewit.service.api.request_metrics import RequestMetrics
from peewit.service.api.request_middleware import HttpRules, Observed
from peewit.service.api.routes import jobs, maps, server
from peewit.service.api.schemas.bodies_and_problems import Problem
from peewit.service.api.served_home import ServedHome
from peewit.service.api.streams import StreamEnds, Streams
from peewit.service.api.throttling import RateLimits
from peewit.service.database.engine import open_database
from peewit.service.metrics.process_tree_metrics import process_tree_collector
from peewit.service.operations.declaration import Table
from peewit.service.operations.table import TABLE
from peewit.service.problems import InvalidArgument
from peewit.service.settings import Settings, metrics_directory, prepare_environment

_TAGS: Final = [
    {"name": "graphs", "description": "Graphs and their settings."},
    {"name": "edges", "description": "Edges by push."},
    {"name": "features", "description": "Numbers that describe nodes."},
    {"name": "sources", "description": "Files that ingest reads, and what became of them."},
    {"name": "labels", "description": "The labels that people give."},
    {"name": "jobs", "description": "Work that outlives the request."},
    {"name": "predictions", "description": "What came out."},
    {"name": "suggestions", "description": "Which nodes to label next."},
    {"name": "maps", "description": "Where nodes lie in the plane, and what is predicted there."},
    {"name": "snapshots", "description": "The sparsifier itself."},
    {"name": "erasures", "description": "Nodes that are to be forgotten."},
    {"name": "windows", "description": "Edges that leave by their time, by hand."},
    {"name": "repairs", "description": "Edges that are sampled anew after deletes, by hand."},
    {"name": "operations", "description": "Whether it runs, what runs, which models there are."},
]

_SCHEMAS: Final = "#/components/schemas/"
_PUBLISHED_NAMES: Final = {
    name: f"{name}Out"
    for name in (
        "Backlog",
        "Certificate",
        "Erasure",
        "Estimate",
        "FeatureSet",
        "Features",
        "File",
        "Graph",
        "Job",
        "Lookup",
        "Model",
        "Prediction",
        "Push",
        "Retry",
        "Settings",
        "Snapshot",
        "Source",
        "Suggestion",
        "Suggestions",
        "Version",
    )
} | {"LookUpPredictionsIn": "LookupIn"}
"""Names of schemas where they differ from those of the records."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API of one home, ready to be served; also the factory for uvicorn.

    Opens the database, created or migrated if need be, and makes the admin key of
    ``settings.admin_key_file`` valid. The database is closed when the server shuts down. Settings
    are those of the environment by default. Raises ValueError, OSError or SQLAlchemyError if a
    setting is wrong, or home or database cannot be opened.
    """
    settings = settings or Settings()
    prepare_environment(settings)
    settings.home.mkdir(parents=True, exist_ok=True)
    home = ServedHome(open_database(settings.database), settings)
    if settings.admin_key_file is not None:
        home.keys.ensure_admin_key(settings.admin_key_file.read_text())
    stopping = Stopping()
    streams = Streams(
        home.keys, of_caller=settings.max_streams_per_key, in_all=settings.max_streams
    )
    # the process that all of the API's are below, or are
    first_process = os.getpid() if metrics_directory() is None else os.getppid()
    home.metrics.register(process_tree_collector(first_process))
    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        title="Peewit",
        summary="Label a few nodes of a large graph; get every other node's label.",
        version=version("peewit"),
        openapi_tags=_TAGS,
        generate_unique_id_function=lambda route: route.name,  # of methods of generated clients
        lifespan=_lifespan(home, stopping, streams),
        # its own spans would tell addresses, which name nodes; ours are of `Observed`
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.home = home
    app.state.rates = RateLimits(settings.rate_limit)
    app.state.stopping = stopping
    app.state.streams = streams
    app.add_middleware(
        BodyCap, max_bytes=settings.max_body_bytes, stall_seconds=settings.body_seconds
    )
    app.add_middleware(StreamEnds, streams=streams, refuse=errors.known_error)
    app.add_middleware(Arrivals)
    app.add_middleware(HttpRules, refuse=errors.known_error)
    app.add_middleware(  # the last one is the outermost
        Observed, metrics=RequestMetrics(home.metrics), answer=errors.unhandled
    )
    errors.install(app)
    add_docs_page(app)
    for router in (*_routers(), jobs.router, maps.router, server.router):
        app.include_router(router)
    app.openapi = _openapi_of(app)  # type: ignore[method-assign]  # FastAPI's way to extend it
    return app


@cache
def _routers() -> tuple[APIRouter, ...]:
    """The routes of all operations, which hold nothing of an application."""
    return tuple(routes_of(tag, operations) for tag, operations in TABLE.items())


def _lifespan(home: ServedHome, stopping: Stopping, streams: Streams) -> Any:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with stopping.on_signal(home.settings.drain_seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(streams.end_revoked)
                yield
                tasks.cancel_scope.cancel()
        home.close()

    return lifespan


def _openapi_of(app: FastAPI) -> Any:
    """Function that makes the OpenAPI document, with the schemas that routes refer to by name."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                summary=app.summary,
                version=app.version,
                tags=app.openapi_tags,
                routes=app.routes,
            )
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(_referred_schemas())
            # the statuses of a job are one schema, which a parameter of a route names too
            schemas["Job"]["properties"]["status"] = {"$ref": f"{_SCHEMAS}JobStatus"}
            for path in document["paths"].values():
                for operation in path.values():
                    if operation.keys() & {"parameters", "requestBody"}:
                        for status, said in errors.problems(InvalidArgument).items():
                            operation["responses"].setdefault(str(status), said)
            app.openapi_schema = _published(document)
        return app.openapi_schema

    return openapi


def _published(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the names of schemas that generated clients know."""
    schemas = document["components"]["schemas"]
    document["components"]["schemas"] = {
        _PUBLISHED_NAMES.get(name, name): schema for name, schema in schemas.items()
    }
    text = re.sub(
        f'"{_SCHEMAS}(\\w+)"',
        lambda match: f'"{_SCHEMAS}{_PUBLISHED_NAMES.get(match[1], match[1])}"',
        json.dumps(document),
    )
    published: dict[str, Any] = json.loads(text)
    return published


def _referred_schemas() -> dict[str, Any]:
    """Schemas that FastAPI does not see: of errors, and of bodies that a route reads itself."""
    tables = [each for of_tag in TABLE.values() for one in of_tag for each in one.of(Table)]
    bodies = [each.mark.json for each in tables if each.mark.json is not None]
    _, definitions = models_json_schema(
        [(Problem, "serialization"), *((each, "validation") for each in bodies)],
        ref_template=f"{_SCHEMAS}{{model}}",
    )
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas
