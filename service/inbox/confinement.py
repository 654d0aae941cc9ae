"""Confinement of sources added over HTTP to the places that they may read.

Whoever holds a key for `ingest` names places on a machine that is not theirs, so an allow list says
which: local directories, protocols of object stores, hosts of the web. Sources that the machine's
owner adds by command line are not bound by it. The API checks when a source is added. Ingest checks
again, by its own settings, when it lists and when it reads, since links change and processes may
differ.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import fsspec.config

from peewit.service.live_sources.stores import store_of
from peewit.service.redaction import shown_url
from peewit.service.settings import OBJECT_STORES, Settings
from peewit.streaming.problems import Unprocessable

_WEB: Final = ("http", "https")
_HOSTED: Final = (*_WEB, "kafka")
"""Protocols whose addresses name hosts to connect to; kafka may name several, by commas."""
_CATALOG: Final = "iceberg"
_LOCAL: Final = "file://"
_NETWORK_LOCATION: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9a-fA-F:]+\](:[0-9]+)?")


class SourceRefused(Unprocessable):
    """A source added over HTTP names a place that it may not read."""

    title = "Source refused"
    argument: ClassVar[str] = "url"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """The places that are open to sources added over HTTP."""

    roots: tuple[Path, ...]  # local files must lie below one of them, links followed
    home: Path  # the service's own directory, open to nobody
    schemes: frozenset[str]  # protocols of remote places, such as s3
    hosts: frozenset[str]  # name or name:port, for http, https and kafka

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The rules that an installation's settings make."""
        return cls(
            roots=settings.source_roots,
            home=settings.home,
            schemes=frozenset(settings.source_schemes),
            hosts=frozenset(settings.source_hosts),
        )

    def place_of(self, url: str) -> str:
        """The open place that a path or URL lies in, for `is_within`; nothing need be there.

        A directory, a host with its protocol, or a protocol. Raises `SourceRefused`, which names
        the setting to change.
        """
        if "::" in url:
            raise SourceRefused(
                f"url must be one place, not a chain of them with '::', got {shown_url(url)!r}"
            )
        scheme, mark, rest = url.partition("://")
        if not mark or scheme == "file":
            return self._local_place(url.removeprefix(_LOCAL), url)
        if scheme in _HOSTED:
            names = _hosts(rest).split(",") if scheme == "kafka" else [_hosts(rest)]
            return f"{scheme}://{','.join(self._host(name, url) for name in names)}"
        if scheme not in self.schemes:
            raise SourceRefused(
                "url must be a local path or start with one of PEEWIT_SOURCE_SCHEMES "
                f"({', '.join(sorted(self.schemes))}), got {shown_url(url)!r}"
            )
        return f"{scheme}://"

    def _local_place(self, path: str, url: str) -> str:
        if not Path(path).is_absolute() or ".." in Path(path).parts or "\0" in path:
            raise SourceRefused(f"url must be an absolute path without '..', got {url!r}")
        for root in self.roots:
            place = str(root.resolve())
            if is_within(path, place, home=self.home):
                return place
        raise SourceRefused(
            "url must lie below a directory of PEEWIT_SOURCE_ROOTS and not in PEEWIT_HOME, "
            f"got {url!r}"
        )

    def _host(self, host: str, url: str) -> str:
        if not _NETWORK_LOCATION.fullmatch(host) or host not in self.hosts:
            raise SourceRefused(
                "url must name a host of PEEWIT_SOURCE_HOSTS, with the port as there and no "
                f"user, got {shown_url(url)!r}"
            )
        return host


def is_within(url: str, place: str, *, home: Path) -> bool:
    """Whether a path or URL still lies in the place that let its source in.

    ``url`` is of the source or of a file listed there, ``place`` from `SourceRules.place_of`; no
    source may read in ``home``.
    """
    scheme, mark, rest = url.partition("://")
    is_local = not mark or scheme == "file"
    if place.startswith("/"):
        resolved = _resolve(Path(url.removeprefix(_LOCAL)))
        return (
            is_local
            and resolved.is_relative_to(place)
            and not resolved.is_relative_to(home.resolve())
        )
    if place.partition("://")[0] in _HOSTED:
        return f"{scheme}://{_hosts(rest)}" == place
    name = place.partition("://")[0]
    # A store lists its own under the name it prefers; tables of a catalog lie in any open store.
    allowed = OBJECT_STORES if name == _CATALOG else (name,)
    return not is_local and store_of(scheme) in map(store_of, allowed)


def _hosts(rest: str) -> str:
    return re.split("[/?#]", rest, maxsplit=1)[0].lower()


def is_own(url: str, home: Path) -> bool:
    """Whether a path lies in ``Settings.home``, as pushes and snapshots do."""
    scheme, mark, _ = url.partition("://")
    is_local = "::" not in url and (not mark or scheme == "file")
    return is_local and _resolve(Path(url.removeprefix(_LOCAL))).is_relative_to(home.resolve())


def require_within(url: str, place: str, *, home: Path) -> None:
    """Raise `SourceRefused` unless `is_within`."""
    if not is_within(url, place, home=home):
        raise SourceRefused(
            f"a source added over HTTP must stay in {place} and outside PEEWIT_HOME, got "
            f"{shown_url(url)!r}; the owner of the machine may add it by `peewit source add`"
        )


def _resolve(path: Path) -> Path:
    """Where a path leads, links followed; what a wildcard stands for is checked once listed."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name too long, a NUL
        return Path("/")


def confine_redirects(hosts: Collection[str]) -> None:
    """From now on no redirect takes this process to a host that nobody has named.

    It may lead to the redirecting host and to ``hosts``. This binds the owner's sources too, since
    files are read by path, whoever added the source.
    """

    async def client(**options: Any) -> Any:
        # Brings aiohttp, which only sources over http need, and yarl, which aiohttp reads URLs by.
        from fsspec.implementations import http  # noqa: PLC0415

        async def refuse(_session: object, _context: object, redirect: Any) -> None:
            headers = redirect.response.headers
            target = redirect.url.join(
                http.yarl.URL(headers.get("Location") or headers.get("URI") or "")
            )
            if target.authority.lower() not in {redirect.url.authority.lower(), *hosts}:
                raise PermissionError(
                    "a redirect must stay on its host or lead to one of PEEWIT_SOURCE_HOSTS, got "
                    f"{shown_url(str(target))!r}"
                )

        tracing = http.aiohttp.TraceConfig()
        tracing.on_request_redirect.append(refuse)
        return http.aiohttp.ClientSession(trace_configs=[tracing], **options)

    for scheme in _WEB:
        fsspec.config.conf.setdefault(scheme, {})["get_client"] = client
