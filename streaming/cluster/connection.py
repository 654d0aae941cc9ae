"""Connection to a dask scheduler: tasks that survive their workers, and waits that can be ended.

Tasks are pure functions, so one that died with its worker is computed again, anywhere, with the
same result. What they need goes to them through dask, never through a directory of ours; only the
files must be visible to workers under the same path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import dask

from peewit.solvers.extras import how_to_install

try:
    from distributed import Client, Future, wait
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker
except ModuleNotFoundError as error:  # whoever imports this module was given a scheduler
    raise ValueError(f"scheduler needs dask.distributed; {how_to_install('cluster')}") from error

from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.edges.blocks import excerpt

CONNECT_SECONDS = 10.0
"""A scheduler that does not answer within this time is reported."""

NO_WORKER_SECONDS = 60.0
"""A cluster without any worker for this time is reported."""

RETRIES = 2
"""How often a task that raised is tried again; one whose worker died is counted by dask."""

_POLL_SECONDS = 0.2
_LOOK_SECONDS = 1.0
_T = TypeVar("_T")


class Connection:
    """Connection to a dask scheduler, closed at the end of its ``with`` block.

    ``scheduler`` is an address such as ``tcp://host:8786``. Workers need this package and must see
    the files under the same paths as this process. Raises ``ClusterError`` where nothing answers.
    """

    def __init__(self, scheduler: str) -> None:
        self._address = scheduler
        try:
            self._client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"scheduler must be the address of a dask scheduler that answers, got {scheduler}: "
                f"{excerpt(error)}"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; tasks that nobody waits for are dropped."""
        self._client.close(timeout=CONNECT_SECONDS)

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Future of a task; futures among its arguments are tasks that it waits for.

        ``options`` are those of ``distributed.Client.submit``.
        """
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self._client.submit(function, *arguments, pure=False, retries=RETRIES, **options)

    def keep(self, value: Any) -> Future[Any]:
        """Future of a value that many tasks need, sent once to each worker that needs it.

        The scheduler keeps it until the future is gone, unlike scattered data, which die with a
        worker.
        """
        return self.submit(_resendable, value)

    def result(self, future: Future[Any], look: Callable[[], None]) -> Any:
        """Result of a task, calling ``look`` several times a second while it is waited for.

        What ``look`` raises ends the wait.
        """
        looked = with_workers = time.monotonic()
        while not self._is_done(future):
            look()
            if time.monotonic() - looked < _LOOK_SECONDS:
                continue
            looked = time.monotonic()
            if self.threads():
                with_workers = looked
            elif looked - with_workers > NO_WORKER_SECONDS:
                raise ClusterError(
                    f"the dask scheduler {self._address} has had no worker for "
                    f"{NO_WORKER_SECONDS:.0f} s; start one with `dask worker {self._address}`"
                )
        return future.result()

    def threads(self) -> dict[str, int]:
        """Threads of each worker, by its address."""
        if self._client.status != "running":
            self._raise_lost(None)
        try:
            return dict(self._client.nthreads())
        except OSError as error:  # CommClosedError among them
            self._raise_lost(error)

    @contextmanager
    def translate_faults(self) -> Iterator[None]:
        """Faults of the cluster in the ``with`` block, as ClusterError.

        A file that is not there is the cluster's fault only where this process sees it.
        """
        try:
            yield
        except (CancelledError, CommClosedError) as error:
            self._raise_lost(error)
        except KilledWorker as error:
            raise ClusterError(
                f"dask workers at {self._address} died of the same task again and again, for want "
                f"of memory perhaps: {excerpt(error)}"
            ) from error
        except FileNotFoundError as error:
            path = error.filename
            if path is not None and Path(path).exists():
                raise ClusterError(
                    f"dask workers must see {path}, which this process sees; share "
                    "its directory with them under the same path"
                ) from error
            raise

    def _is_done(self, future: Future[Any]) -> bool:
        """Whether a task has ended, after waiting a moment for it."""
        with suppress(TimeoutError), self._client.as_current():
            wait([future], timeout=_POLL_SECONDS)
        return bool(future.done())

    def _raise_lost(self, error: BaseException | None) -> NoReturn:
        raise ClusterError(
            f"the dask scheduler {self._address} is lost; nothing of the work in hand is kept, and "
            "the same call goes on from the last checkpoint, or the last whole pass"
        ) from error


def _resendable(value: _T) -> _T:
    """Argument of other tasks that the scheduler can make again."""
    return value
