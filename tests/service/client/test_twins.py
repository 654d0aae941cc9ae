"""The two clients are one: same methods, same arguments, and both work on the real application."""

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import get_args, get_origin

import anyio
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.api.app import create_app
from peewit.service.client import AsyncClient, Client, Job, NodeNotFound
from peewit.service.client.calls.solving import DEFAULT_MODEL
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.service.worker.worker import Worker
from peewit.solvers.models.catalogue import DEFAULT_MODEL as DEFAULT_OF_COMMANDS
from tests.end_to_end.processes import REPOSITORY
from tests.service.api.conftest import Api
from tests.service.client.conftest import edge_table
from tests.service.lasting_children import lasting_child

HEAVY = (
    "alembic",
    "dask",
    "fastapi",
    "numba",
    "scipy",
    "peewit.service.settings",
    "peewit.streaming.edges.blocks",  # `edges.table_formats` names formats, and needs pyarrow alone
    "pydantic",
    "sqlalchemy",
    "starlette",
)
LIGHT = {
    f"peewit.solvers.{name}"
    for name in (
        *("arrays", "estimators", "estimators.edge_tables", "extras"),
        *("interchange", "late_modules", "notebook_html"),
    )
}
"""Of the solvers, what needs numpy alone."""


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(kind, callable)
        if not name.startswith("_") and name != "close"
    }


def test_both_have_the_same_methods_with_the_same_signatures() -> None:
    blocking, awaiting = methods(Client), methods(AsyncClient)
    assert len(blocking) > 40
    assert blocking.keys() == awaiting.keys()
    for name, signature in blocking.items():
        twin = awaiting[name]
        assert twin.parameters == signature.parameters, name
        result = signature.return_annotation
        if get_origin(result) is Iterator:
            result = AsyncIterator[get_args(result)]
        assert twin.return_annotation == result, name
        assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__
        is_iterator = inspect.isgeneratorfunction(getattr(Client, name))
        assert inspect.isasyncgenfunction(getattr(AsyncClient, name)) == is_iterator
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name)) != is_iterator


def test_every_public_call_is_a_method_and_says_what_it_does() -> None:
    named = methods(Client)
    calls = {
        name
        for path in (REPOSITORY / "service/client/calls").glob("*.py")
        if path.stem not in {"__init__", "common", "downloads"}
        for name, call in vars(sys.modules[f"peewit.service.client.calls.{path.stem}"]).items()
        if inspect.isfunction(call) and not name.startswith("_")
        if call.__module__ == f"peewit.service.client.calls.{path.stem}"
    }
    assert named.keys() == calls
    assert all(getattr(Client, name).__doc__ for name in named)


def test_every_word_of_the_paths_of_the_server_stands_in_a_call(solved: Api) -> None:
    source = "".join(
        path.read_text() for path in (REPOSITORY / "service/client/calls").glob("*.py")
    )
    document = solved.call("GET", "/../openapi.json", 200).json()
    words = {
        part
        for path in document["paths"]
        for part in path.replace(":", "/").split("/")
        if part and not part.startswith("{") and part != "v1"
    }
    missing = [word for word in words if f'"{word}"' not in source and f'"/{word}"' not in source]
    assert missing == []


def test_default_model_is_that_of_the_commands() -> None:
    assert DEFAULT_MODEL == DEFAULT_OF_COMMANDS


@pytest.mark.usefixtures("processes")
def test_import_loads_nothing_of_the_server() -> None:
    script = "import sys, peewit.service.client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "httpx" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert {name for name in loaded if name.startswith("peewit.solvers.")} == LIGHT


@pytest.mark.usefixtures("processes")
def test_coroutines_reach_an_application_in_this_process(
    settings: Settings, tmp_path: Path
) -> None:
    app = create_app(settings)
    home = app.state.home

    async def session() -> None:
        transport = httpx.ASGITransport(app=app)
        async with AsyncClient("http://127.0.0.1", transport=transport) as peewit:
            assert await peewit.is_ready()
            graph = await peewit.create_graph("g", seed=1)
            pushed = await peewit.push_edges("g", edge_table())
            assert (pushed.status, pushed.n_rows) == ("pending", 241)
            Ingestor(home.database, settings).ingest_graph(graph.id)
            assert (await peewit.push("g", pushed.id, wait=None)).status == "committed"
            assert [file.n_rows async for file in peewit.files("g")] == [241]
            await peewit.put_labels("g", {"n3": "left", "n33": "right"})
            job = await peewit.submit_solve("g", "stable-hfs")
            Worker(home.database, settings).run_one(job.id, child=lasting_child(settings))
            seen: list[Job] = []
            assert (await peewit.wait(job, progress=seen.append)).result is not None
            assert [each.status for each in seen] == ["succeeded"]
            kinds = [event.kind async for event in peewit.events(job.id)]
            assert (kinds[0], kinds[-1]) == ("queued", "succeeded")
            found = await peewit.predictions("g")
            assert (found.job, found.table.num_rows) == (job.id, 60)
            batches = [batch async for batch in peewit.stream_predictions("g")]
            assert pa.Table.from_batches(batches).equals(found.table)
            target = await peewit.download_predictions("g", tmp_path / "out.parquet")
            assert pq.read_table(target).num_rows == 60
            with pytest.raises(NodeNotFound):
                await peewit.prediction("g", "nobody")
            async for found in peewit.look_up("g", ["n0", "nobody"]):
                assert (found.predictions[0].label, found.unknown) == ("left", ("nobody",))

    try:
        anyio.run(session)
    finally:
        home.database.close()
