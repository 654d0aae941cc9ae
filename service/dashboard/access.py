"""Access to pages: who may see one, and do what on it.

The rules are those of the API (`peewit.service.api.auth`), with the cookie of a session in place of
the key. A page of another site can neither send the cookie along with a form (SameSite) nor have
one taken: what changes anything must come from a page of this server.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, Request

from peewit.service.api.auth import ScopeMissing, address_of, require_local
from peewit.service.api.keys import KeyRecord, Scope
from peewit.service.api.rate_limit import RateLimits
from peewit.service.api.stores import StoresHere
from peewit.service.dashboard.sessions import COOKIE, Sessions

_READING = {"GET", "HEAD"}


class ForeignForm(PermissionError):
    """A form was sent that no page of this server has shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks at a page.

    Attributes
    ----------
    key : KeyRecord, optional
        What they have signed in with; None on this machine while there is no key.
    """

    key: KeyRecord | None

    def may(self, scope: Scope) -> bool:
        """Whether a button for this does anything."""
        return self.key is None or self.key.allows(scope)


def viewing(scope: Scope) -> Any:
    """A dependency that lets a request pass for people who may do this, and remembers them."""

    async def check(request: Request, stores: StoresHere) -> None:
        require_own_form(request)
        rates: RateLimits = request.app.state.rates
        sessions: Sessions = request.app.state.sessions
        cookie = request.cookies.get(COOKIE)
        key = None
        if cookie is not None:
            digest = sha256(cookie.encode("utf-8", "surrogatepass")).digest()
            key = await stores.recently(("session", digest), lambda: sessions.key_of(cookie))
        if key is None:
            has_key = await stores.recently("any key", stores.keys.any_active)
            require_local(request, has_key=has_key)
            rates.admit(f"address {address_of(request)}")
        else:
            rates.admit(f"key {key.prefix}")
            request.state.key_prefix = key.prefix
            if not key.allows(scope):
                raise ScopeMissing(key.prefix, scope)
        request.state.viewer = Viewer(key=key)

    return Depends(check)


def require_own_form(request: Request) -> None:
    """Refuse what changes something unless a page of this server has sent it.

    Raises
    ------
    ForeignForm
        The browser names another site, or nothing tells.
    """
    if request.method in _READING:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        is_own = site == "same-origin"
    else:  # browsers send it over https and to loopback only
        origin = request.headers.get("origin", "")
        is_own = urlsplit(origin).netloc == request.headers.get("host")
    if not is_own:
        raise ForeignForm(
            "the form must be sent by a page of this server; programs call /v1, and a proxy in "
            "front has to pass the header Host on"
        )
