"""Authentication: bearer keys with scopes; before there is a key, only this machine may call.

A route names the scope that it needs: ``dependencies=[requires("label")]``.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from peewit.service.api.port import is_loopback
from peewit.service.api.refused_keys import KeyMissing, KeyRefused, ScopeMissing
from peewit.service.api.served_home import HomeHere, ServedHome
from peewit.service.api.streams import is_wait, streams_of
from peewit.service.api.throttling import RateLimits, TooManyRequests, digest_of, network_of
from peewit.service.jobs.job import IdempotencyConflict
from peewit.service.key_store import KeyRecord, Scope
from peewit.service.labels.annotators import annotator_name, holder_of
from peewit.solvers.arguments import BadArgument

_bearer: Final = HTTPBearer(
    auto_error=False,
    scheme_name="key",
    description="`<prefix>.<secret>` of `peewit key create`, for some of the scopes read, label, "
    "ingest, erase and admin (all of them). Until there is a key, calls from this machine need "
    "none.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of an admitted request."""

    key: KeyRecord | None  # None on this machine while there is no key
    said_name: str | None = None  # name they give; several people may share a key
    door: Literal["api", "page"] = "api"

    @property
    def annotator(self) -> str | None:
        """Who gave the labels of this call: the name that the caller gives, else the key's.

        A key has its prefix for a name where nobody could be called as it is.
        """
        if self.said_name or self.key is None:
            return self.said_name
        try:
            return annotator_name(self.key.name)
        except BadArgument:
            return self.key.prefix

    @property
    def key_name(self) -> str | None:
        """What people call the key, which is kept beside whatever name they give."""
        return None if self.key is None else self.key.name

    @property
    def holder(self) -> str:
        """Holder of reservations: the door, the key and, if several people share it, the person.

        A page gives back what it does not show, so it does not hold what programs reserve by its
        key.
        """
        return holder_of(self.door, self.name, self.said_name)

    @property
    def name(self) -> str | None:
        """Owner of what the caller makes: the prefix of the key."""
        return None if self.key is None else self.key.prefix

    @property
    def only(self) -> str | None:
        """The only owner whose jobs, pushes and feature sets they see; None if they see all."""
        return None if self.key is None or self.key.allows("read") else self.key.prefix

    def require(self, scope: Scope) -> None:
        """Raise `ScopeMissing` if the key lacks a scope that a part of the call needs."""
        if self.key is not None and not self.key.allows(scope):
            raise ScopeMissing(self.key.prefix, scope)

    def require_own(self, owner: str | None) -> None:
        """Raise `IdempotencyConflict` for an Idempotency-Key of an owner they do not see."""
        if self.only is not None and owner != self.only:
            raise IdempotencyConflict(
                "the Idempotency-Key must not be one that another caller has used; use a new one"
            )


async def _caller_here(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerHere = Annotated[Caller, Depends(_caller_here)]
"""The caller, in a route that `requires` a scope."""


def requires(*scopes: Scope, streams: bool = False) -> Any:
    """A dependency that admits a request only with a key of one of these scopes.

    The first scope is named to a key that has none of them. With ``streams`` the answer is counted
    as a stream, since it may take long; calls that wait always are.
    """

    async def check(request: Request, credentials: Credentials, home: HomeHere) -> None:
        key = None
        if credentials is not None:
            key = await verified(request, home, credentials.credentials)
        await admit(request, home, key, *scopes)
        if streams or is_wait(request):
            streams_of(request).open(request, _caller(request, key), key)

    return Depends(check)


async def admit(request: Request, home: ServedHome, key: KeyRecord | None, *scopes: Scope) -> None:
    """Count a request and let it pass if its key has one of the scopes, or if it is local.

    Only requests without a key may be local. Raises `KeyMissing`, `ScopeMissing` or
    `TooManyRequests`.
    """
    rates: RateLimits = request.app.state.rates
    request.state.caller = Caller(key=key)
    if key is None:
        rates.admit(_caller(request, key))
        is_needed = await home.recently("keys needed", home.keys.are_needed)
        try:
            _require_local(request, is_needed=is_needed)
        except KeyMissing:
            rates.note_missing_key(_address_of(request))
            raise
        return
    rates.admit(_caller(request, key))
    request.state.key_prefix = key.prefix
    if not any(map(key.allows, scopes)):
        raise ScopeMissing(key.prefix, scopes[0])


async def is_reader(request: Request, credentials: Credentials, home: HomeHere) -> bool:
    """Whether a request to an open path may be told what only readers may know."""
    try:
        if credentials is not None:
            return (await verified(request, home, credentials.credentials)).allows("read")
        is_needed = await home.recently("keys needed", home.keys.are_needed)
        _require_local(request, is_needed=is_needed)
    except (KeyMissing, KeyRefused, TooManyRequests):
        return False
    return True


IsReader = Annotated[bool, Depends(is_reader)]


async def verified(request: Request, home: ServedHome, presented: str) -> KeyRecord:
    """Verify a key; raises `KeyRefused`, or `TooManyRequests` after too many wrong ones."""
    rates: RateLimits = request.app.state.rates
    address = _address_of(request)
    rates.before_key(address, presented)
    known_as = "key", digest_of(presented)
    key = await home.recently(known_as, lambda: home.keys.verify(presented))
    if key is None:
        rates.note_wrong_key(address)
        raise KeyRefused("the key must be valid, got one that is unknown, wrong or revoked")
    rates.note_right_key(presented)
    return key


def _caller(request: Request, key: KeyRecord | None) -> str:
    """Key or address whose calls and streams are counted together."""
    return f"address {network_of(_address_of(request))}" if key is None else f"key {key.prefix}"


def _address_of(request: Request) -> str:
    return "unknown" if request.client is None else request.client.host


def _require_local(request: Request, *, is_needed: bool) -> None:
    """Admit a request without a key from this machine only, and only while no key was ever made."""
    if is_needed:
        raise KeyMissing(
            "the header Authorization must be there, as `Bearer "
            "<prefix>.<secret>`; `peewit key create NAME` makes a key"
        )
    if request.client is None or not is_loopback(request.client.host):
        raise KeyMissing(
            "without any key only this machine may call; make one with `peewit key create NAME`"
        )
    if not _is_addressed_as_local(request):
        raise KeyMissing(
            "without any key the server must be called by a loopback name, and not from the pages "
            "of another site; make a key with `peewit key create NAME`"
        )


def _is_addressed_as_local(request: Request) -> bool:
    """False for a web page that calls a server on its reader's machine."""
    host = request.url.hostname
    if host is None or not is_loopback(host):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
