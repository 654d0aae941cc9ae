"""What the id, the log line and the numbers of a request cost: processor time of the middleware.

    python -m docs.benchmarks.request_cost [--requests 20000]

Prints microseconds of processor time per request of an application that answers at once, without
the middleware and with it, its log lines going to a file in memory.
"""

import argparse
import asyncio
import io
import logging
import sys
import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peewit.service.api.request_metrics import RequestMetrics
from peewit.service.api.request_middleware import Observed
from peewit.service.logs import configure_logging
from peewit.service.settings import LogLevel

N_ROUNDS = 5


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An application that has nothing to do."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def _receive() -> Message:
    return {"type": "http.request"}


async def _send(_message: Message) -> None:
    return


def _no_answer(_request: Request, error: BaseException) -> Response:
    raise error


async def _serve(app: ASGIApp, n_requests: int) -> None:
    for _ in range(n_requests):
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/graphs/g",
            "path_params": {"graph": "g"},
            "headers": [(b"host", b"localhost"), (b"x-request-id", b"of-a-benchmark")],
        }
        await app(scope, _receive, _send)


def microseconds(app: ASGIApp, n_requests: int) -> float:
    """Processor time per request, the least of several rounds."""
    taken = []
    for _ in range(N_ROUNDS):
        began = time.process_time()
        asyncio.run(_serve(app, n_requests))
        taken.append(time.process_time() - began)
    return 1e6 * min(taken) / n_requests


def observed(level: LogLevel) -> ASGIApp:
    """The application behind the middleware."""
    configure_logging(level, "json")
    for handler in logging.getLogger().handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(io.StringIO())
    return Observed(answering, metrics=RequestMetrics(CollectorRegistry()), answer=_no_answer)


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    n_requests = parser.parse_args(arguments).requests
    bare = microseconds(answering, n_requests)
    print(f"without the middleware          {bare:8.1f} µs")  # noqa: T201
    for level, name in (("warning", "id and metrics"), ("info", "id, metrics and log line")):
        cost = microseconds(observed(level), n_requests) - bare  # type: ignore[arg-type]
        print(f"{name:<30}  {cost:+8.1f} µs")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
