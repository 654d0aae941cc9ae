"""The API as clients meet it: a real server on a real socket, with the real home behind it.

Ingest and worker run in the test's process, when the test says so.
"""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pyarrow.parquet
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.routing import BaseRoute

from peewit.service.api.app import create_app
from peewit.service.api.port import server_options
from peewit.service.api.served_home import ServedHome
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.service.worker.worker import Worker
from peewit.streaming.edges.table_formats import Format
from tests.fresh_databases import fresh
from tests.service.lasting_children import lasting_child
from tests.service.solvable import two_communities

ARROW, PARQUET = Format.ARROW.media_type, Format.PARQUET.media_type
CSV, NDJSON = Format.CSV.media_type, Format.NDJSON.media_type


@dataclass(frozen=True, kw_only=True)
class Api:
    """A server, a client of it, and the processes that would run beside it."""

    client: httpx.Client
    home: ServedHome

    def call(self, method: str, path: str, expected: int, **options: Any) -> httpx.Response:
        """The answer to a request under /v1, which must have the expected code."""
        if "json" in options:  # in ASCII, so that half of a surrogate pair can be sent
            options["content"] = json.dumps(options.pop("json"))
            options["headers"] = {"Content-Type": "application/json", **options.get("headers", {})}
        response = self.client.request(method, f"/v1{path}", **options)
        assert response.status_code == expected, response.text
        return response

    def problem(self, method: str, path: str, expected: int, **options: Any) -> Any:
        """The problem that a request leads to."""
        response = self.call(method, path, expected, **options)
        assert response.headers["content-type"] == "application/problem+json"
        body = response.json()
        assert body["status"] == expected
        assert {"type", "title", "detail"} <= body.keys()
        return body

    def create_graph(self, name: str = "g", **settings: Any) -> Any:
        """Create a graph over HTTP."""
        return self.call("POST", "/graphs", 201, json={"name": name, **settings}).json()

    def push(self, content: bytes, media_type: str, name: str = "g", **headers: str) -> Any:
        """Push edges, which must be taken."""
        response = self.call(
            "POST",
            f"/graphs/{name}/edges",
            202,
            content=content,
            headers={"Content-Type": media_type, **headers},
        )
        return response.json()

    def put_labels(self, labels: dict[Any, str | float], name: str = "g") -> Any:
        """Put labels as JSON, which must be taken."""
        body = {"labels": [{"node": node, "label": label} for node, label in labels.items()]}
        return self.call("PUT", f"/graphs/{name}/labels", 200, json=body).json()

    def ingest(self, name: str = "g") -> None:
        """What the daemon does."""
        graph_id = self.home.catalog.get(name).id
        Ingestor(self.home.database, self.home.settings).ingest_graph(graph_id)

    def run_job(self, job_id: str) -> None:
        """What the worker does."""
        settings = self.home.settings
        Worker(self.home.database, settings).run_one(job_id, child=lasting_child(settings))

    def run(self, **body: Any) -> Any:
        """A job of the graph g once it has ended."""
        job = self.call("POST", "/graphs/g/jobs", 202, json=body).json()["id"]
        self.run_job(job)
        return self.call("GET", f"/jobs/{job}", 200).json()

    def solve(self, model: str, **parameters: Any) -> Any:
        """A solve of the graph g once it has ended."""
        return self.run(kind="solve", model=model, parameters=parameters)

    def edges(self) -> list[str]:
        """Edges of the newest snapshot of the graph g, as lines of CSV."""
        number = self.call("GET", "/graphs/g", 200).json()["snapshot"]
        text = self.call("GET", f"/graphs/g/snapshots/{number}/edges?format=csv", 200).text
        return sorted(text.splitlines()[1:])


_routes: Final[dict[Callable[[Settings], FastAPI], list[BaseRoute]]] = {}
"""Routes of each kind of application, which FastAPI builds at the first request, in .2 s.

They hold functions of modules and find home, limits and keys in the application of the request;
all but that of the OpenAPI document, which holds its application.
"""


@contextmanager
def serving(
    settings: Settings, *, create: Callable[[Settings], FastAPI] = create_app, **client_options: Any
) -> Iterator[Api]:
    """A server in a thread of this process, and a client of it."""
    fresh(settings.database)
    app = create(settings)
    own = list(app.router.routes)
    app.router.routes[:] = [
        mine if getattr(mine, "path", None) == app.openapi_url else shared
        for mine, shared in zip(own, _routes.setdefault(create, own), strict=True)
    ]
    config = uvicorn.Config(app, **server_options(settings))
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            # without TLS, so that no certificates are read
            with httpx.Client(base_url=url, timeout=60, verify=False, **client_options) as client:
                yield Api(client=client, home=app.state.home)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of an empty home."""
    return Settings(
        home=tmp_path / "home", database_url=None, admin_key_file=None, source_roots=(tmp_path,)
    )


@pytest.fixture
def api(settings: Settings) -> Iterator[Api]:
    """A server on an empty home, without keys."""
    with serving(settings) as api:
        yield api


@pytest.fixture
def api_on_any_database(tmp_path: Path, database_url: str) -> Iterator[Api]:
    """The same on SQLite and on PostgreSQL."""
    with serving(Settings(home=tmp_path / "home", database_url=database_url)) as api:
        yield api


@pytest.fixture(scope="session")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with a graph of the nodes a, b, c; for requests that must change nothing."""
    home = tmp_path_factory.mktemp("refusing")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        api.create_graph("g")
        api.push(b"src,dst\na,b\nb,c\n", CSV)
        api.ingest()
        before = api.call("GET", "/graphs", 200).json()
        yield api
        assert api.call("GET", "/graphs", 200).json() == before


@pytest.fixture(scope="session")
def solved(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with a graph of 60 nodes, pushed, labeled and solved; tests only look at it."""
    home = tmp_path_factory.mktemp("solved")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        bring_communities(api)
        api.solve("stable-hfs")
        yield api


def bring_communities(api: Api, **settings: object) -> None:
    """A graph g of two communities, pushed and ingested, with a label in each."""
    api.create_graph("g", seed=1, **settings)
    api.push(community_edges(PARQUET), PARQUET)
    api.ingest()
    api.put_labels({"n3": "left", "n33": "right"})


def community_edges(media_type: str) -> bytes:
    """Two connected halves n0..n29 and n30..n59, joined by one edge."""
    u, v = two_communities()
    table = pa.table({"src": [f"n{each}" for each in u], "dst": [f"n{each}" for each in v]})
    return _WRITERS[media_type](table)


def as_arrow(table: pa.Table) -> bytes:
    """The table as an Arrow IPC stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """The table as a Parquet file."""
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink)
    return sink.getvalue()


_WRITERS: dict[str, Callable[[pa.Table], bytes]] = {ARROW: as_arrow, PARQUET: as_parquet}
