"""Connection of the tools: to a server at an address, or to the home of this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from threading import Event
from typing import Final

import anyio.to_thread
import httpx
import structlog
from anyio.abc import TaskGroup

from peewit.service.api.app import create_app
from peewit.service.api.served_home import ServedHome
from peewit.service.client import AsyncClient
from peewit.service.settings import Settings
from peewit.service.worker.run_one_job import run_until_finished
from peewit.service.worker.warm_child import WarmChild

_log = structlog.get_logger(__name__)

_HERE: Final = "http://127.0.0.1"
"""Host of in-process requests; without keys the API admits loopback only."""


class Connection:
    """A client of a server that runs its jobs itself.

    It sends the key of ``PEEWIT_API_KEY``, if there is one.
    """

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    def see_to(self, job_id: str) -> None:
        """Have a job run; a server does so by itself."""


class _Home(Connection):
    """A client of the API in this process, which runs jobs itself while no worker is alive."""

    def __init__(
        self,
        client: AsyncClient,
        stores: ServedHome,
        tasks: TaskGroup,
        child: WarmChild,
        stop: Event,
    ) -> None:
        super().__init__(client)
        self._stores = stores
        self._tasks = tasks
        self._child = child
        self._stop = stop
        self._seen_to: set[str] = set()
        # threads of its own: those of requests must not wait for jobs
        self._limiter = anyio.CapacityLimiter(1)

    def see_to(self, job_id: str) -> None:
        """Begin to run a job in the child of this process, one by one, unless a worker takes it.

        The child stays: the next job of the graph finds it in memory.
        """
        if job_id not in self._seen_to:
            self._seen_to.add(job_id)
            self._tasks.start_soon(self._run, job_id)

    async def _run(self, job_id: str) -> None:
        stores = self._stores
        run = partial(
            run_until_finished,
            stores.database,
            stores.settings,
            job_id,
            child=self._child,
            should_stop=self._stop.is_set,
        )
        try:
            await anyio.to_thread.run_sync(run, limiter=self._limiter)
        except Exception:  # noqa: BLE001 - of one job; tools go on, show_job tells how it stands
            self._seen_to.discard(job_id)
            _log.exception("job could not be run here", job=job_id)


@asynccontextmanager
async def connected(url: str | None, settings: Settings) -> AsyncIterator[Connection]:
    """A connection to the server at an address, or to the home of the settings.

    A job of the home that still runs at the end goes back to the queue.
    """
    if url is not None:
        async with AsyncClient(url) as client:
            yield Connection(client)
        return
    app = create_app(settings)
    stores: ServedHome = app.state.home
    child, stop = WarmChild("one-job", settings), Event()
    transport = httpx.ASGITransport(app=app)
    try:
        async with (
            AsyncClient(_HERE, transport=transport) as client,
            anyio.create_task_group() as tasks,
        ):
            try:
                yield _Home(client, stores, tasks, child, stop)
            finally:
                stop.set()
    finally:
        child.stop()
        stores.close()
