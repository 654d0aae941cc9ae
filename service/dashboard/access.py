"""Access to pages: who may see one, and do what on it.

The rules are those of the API (`peewit.service.api.auth`), with a session cookie in place of the
key. A page of another site can neither send the cookie along with a form (SameSite) nor have one
accepted: a request that changes something must come from a page of this server.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, Request

from peewit.service.api.auth import Caller, admit
from peewit.service.api.served_home import HomeHere
from peewit.service.api.throttling import digest_of
from peewit.service.dashboard.sessions import COOKIE, Sessions
from peewit.service.key_store import KeyRecord, Scope

_READING = {"GET", "HEAD"}


class ForeignForm(PermissionError):
    """A form came from no page of this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks at a page."""

    key: KeyRecord | None  # None on this machine while there is no key
    said_name: str | None = None  # what they call themselves

    def may(self, scope: Scope) -> bool:
        """Whether they have a scope, so that a button for it works."""
        return self.key is None or self.key.allows(scope)


def viewing(scope: Scope) -> Any:
    """A dependency that admits requests of people with a scope and stores their `Viewer`."""

    async def check(request: Request, home: HomeHere) -> None:
        require_own_form(request)
        sessions: Sessions = request.app.state.sessions
        cookie = request.cookies.get(COOKIE)
        session = None
        if cookie is not None:
            known_as = "session", digest_of(cookie)
            session = await home.recently(known_as, lambda: sessions.session_of(cookie))
        key, said_name = (None, None) if session is None else session
        await admit(request, home, key, scope)
        request.state.caller = Caller(key=key, said_name=said_name, door="page")
        request.state.viewer = Viewer(key=key, said_name=said_name)

    return Depends(check)


def require_own_form(request: Request) -> None:
    """Raise `ForeignForm` unless a changing request comes from a page of this server.

    A request of unknown origin is refused, too.
    """
    if request.method in _READING:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        is_own = site == "same-origin"
    else:  # browsers send the header only over https and to loopback
        origin = request.headers.get("origin", "")
        is_own = urlsplit(origin).netloc == request.headers.get("host")
    if not is_own:
        raise ForeignForm(
            "the form must be sent by a page of this server; programs call /v1, and a proxy in "
            "front has to pass the header Host on"
        )
