"""What tools speak to: a server at an address, or the home of this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Final

import anyio.to_thread
import httpx
from anyio.abc import TaskGroup

from peewit.service.api.app import create_app
from peewit.service.api.stores import Stores
from peewit.service.client import AsyncClient
from peewit.service.settings import Settings
from peewit.service.worker.run_one_job import run_until_finished

_HERE: Final = "http://127.0.0.1"
"""Host of requests that no network sees; the API lets only loopback in while there is no key."""


class Connection:
    """A client of a server that runs its jobs itself.

    Attributes
    ----------
    client : AsyncClient
        Sends the key of ``PEEWIT_API_KEY``, if there is one.
    """

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    def see_to(self, job_id: str) -> None:
        """Have a job run; a server does so by itself."""


class _Home(Connection):
    """A client of the API in this process, which runs jobs itself while no worker is alive."""

    def __init__(self, client: AsyncClient, stores: Stores, tasks: TaskGroup, stop: Event) -> None:
        super().__init__(client)
        self._stores = stores
        self._tasks = tasks
        self._stop = stop

    def see_to(self, job_id: str) -> None:
        """Begin to run a job in a child of this process, unless a worker takes it."""
        self._tasks.start_soon(anyio.to_thread.run_sync, self._run, job_id)

    def _run(self, job_id: str) -> None:
        stores, settings = self._stores, self._stores.settings
        run_until_finished(stores.database, settings, job_id, should_stop=self._stop.is_set)


@asynccontextmanager
async def connected(url: str | None, settings: Settings) -> AsyncIterator[Connection]:
    """A connection to the server at an address, or without one to the home of the settings.

    A job of the home that still runs at the end goes back to the queue.
    """
    if url is not None:
        async with AsyncClient(url) as client:
            yield Connection(client)
        return
    app = create_app(settings)
    stores: Stores = app.state.stores
    stop = Event()
    transport = httpx.ASGITransport(app=app)
    try:
        async with (
            AsyncClient(_HERE, transport=transport) as client,
            anyio.create_task_group() as tasks,
        ):
            try:
                yield _Home(client, stores, tasks, stop)
            finally:
                stop.set()
    finally:
        stores.close()
