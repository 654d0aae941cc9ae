"""Options of a client: server, key, retries and timeouts."""

import os
import re
import ssl
import sys
from abc import abstractmethod
from importlib.metadata import version
from typing import Any, Final, Generic, TypeVar

import httpx

from peewit.service.client.call_steps import Request, Retries

DEFAULT_URL: Final = "http://127.0.0.1:8000"
USER_AGENT: Final = f"peewit-python/{version('peewit')}"

_LOOPBACK: Final = re.compile(r"localhost|127(\.\d+){3}|::1")

Transport = TypeVar("Transport", httpx.BaseTransport, httpx.AsyncBaseTransport)


class Connected(Generic[Transport]):
    """Base of both clients.

    Keeps connections open between calls: make one client, use it for long, close it or leave its
    ``with``. It starts no thread, and holds nothing of a graph.

    Parameters
    ----------
    url : str, optional
        Address of the server, with ``/v1`` or without; ``PEEWIT_URL`` when left out, else this
        machine.
    api_key : str, optional
        ``<prefix>.<secret>`` of `peewit key create`; ``PEEWIT_API_KEY`` when left out.
    timeout_seconds : float
        Longest time to connect, and between two pieces of an answer; waits come on top.
    retries : Retries
        How often calls that may be repeated are repeated.
    verify : bool or ssl.SSLContext
        False trusts any certificate; a context says which to trust, and may hold the client's own.
    transport : httpx transport, optional
        What carries requests instead of the network: a proxy, or an application in this process.

    Raises
    ------
    ValueError
        ``url`` is no HTTP address, or ``timeout_seconds`` is not positive.

    Notes
    -----
    The two variables are read here and not in `peewit.service.settings`: a client runs in other
    people's programs, and must not load what a server needs to know its settings.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        retries: Retries = Retries(),  # noqa: B008 (frozen)
        verify: bool | ssl.SSLContext = True,
        transport: Transport | None = None,
    ) -> None:
        self.url = (url or os.environ.get("PEEWIT_URL") or DEFAULT_URL).rstrip("/")
        self.url = self.url.removesuffix("/v1").rstrip("/")
        self.retries = retries
        self.timeout_seconds = timeout_seconds
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, got {self.url!r}")
        if not timeout_seconds > 0:
            raise ValueError(f"timeout_seconds must be positive, got {timeout_seconds}")
        key = api_key or os.environ.get("PEEWIT_API_KEY")
        headers = {"User-Agent": USER_AGENT}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        is_secure = self.url.startswith("https://")  # otherwise nobody needs the certificates
        is_here = _LOOPBACK.fullmatch(httpx.URL(self.url).host) is not None
        if is_here and is_secure and verify is True:
            verify = httpx.create_ssl_context()  # with the certificates that the environment names
        self._open(
            base_url=self.url,
            headers=headers,
            verify=verify if is_secure else False,
            transport=transport,
            trust_env=not is_here,  # no proxy leads to this machine
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @abstractmethod
    def _open(self, **options: Any) -> None:
        """Make the httpx client."""

    def _arguments(self, request: Request) -> dict[str, Any]:
        """A request as both kinds of httpx client want it, but for a body that is no JSON."""
        body = {} if request.body is None else request.body.headers
        headers = {**request.headers, **body, **_present_trace()}
        return {
            "method": request.method,
            "url": request.path,
            "params": {name: each for name, each in request.params.items() if each is not None},
            "headers": {name: each for name, each in headers.items() if each is not None},
            "json": request.json,
            "timeout": httpx.Timeout(
                self.timeout_seconds, read=self.timeout_seconds + request.wait_seconds
            ),
        }


def _present_trace() -> dict[str, str]:
    """Headers that name the caller's present span, as its propagators write it, if there is one.

    Who has one has loaded OpenTelemetry; nobody else pays for it.
    """
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import propagate  # noqa: PLC0415 - of callers who have it

        propagate.inject(headers)
    return headers
