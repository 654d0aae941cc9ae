"""Dask clusters of real processes: to use, to kill workers of, to kill the scheduler of."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, LocalCluster


@contextmanager
def cluster_of(n_workers: int) -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        memory_limit=None,
    ) as cluster:
        yield cluster


def kill_one_that_works(cluster: LocalCluster, killed: list[int]) -> None:
    """Wait until a worker has a task, then SIGKILL its process and add its number to ``killed``."""
    nannies = list(cluster.workers.values())
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        give_up = time.monotonic() + 120
        while not killed and time.monotonic() < give_up:
            busy = {address for address, tasks in client.processing().items() if tasks}
            for nanny in nannies:
                if nanny.worker_address in busy and not killed:
                    os.kill(nanny.pid, signal.SIGKILL)
                    killed.append(nanny.pid)


@contextmanager
def scheduler_process() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler that can be killed, with one worker; both end with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},  # tasks of tests
    }
    programs = Path(sys.executable).parent
    scheduler = subprocess.Popen(
        [
            *(programs / "dask", "scheduler", "--no-dashboard"),
            *("--host", "127.0.0.1", "--port", str(port)),
        ],
        **quiet,  # type: ignore[call-overload]
    )
    worker = subprocess.Popen(
        [programs / "dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"],
        **quiet,  # type: ignore[call-overload]
    )
    try:
        yield scheduler, address
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait(timeout=30)
