"""Health of a server, and its metrics."""

import httpx

from peewit.service.client.call_steps import Call, Request, answered, once
from peewit.service.client.errors import ServerUnavailable


def is_alive() -> Call[bool]:
    """Whether a server answers; asked once, since that is the question."""
    return (yield from _is_well("/healthz"))


def is_ready() -> Call[bool]:
    """Whether its database answers and its directory takes files; asked once."""
    return (yield from _is_well("/readyz"))


def metrics() -> Call[str]:
    """Numbers for Prometheus, as text."""
    request = Request(method="GET", path="/metrics", is_repeatable=True)
    return (yield from answered(request)).content.decode()


def _is_well(path: str) -> Call[bool]:
    try:
        yield from once(Request(method="GET", path=path))
    except (ServerUnavailable, httpx.TransportError):
        return False
    return True
