"""Sessions of signed-in people: a signed cookie that names a key, never the key itself.

Context: a browser keeps cookies for hours, on disks and in backups of others. Decision: the cookie
holds the prefix of the key and the time, signed with a secret of the home. Consequence: a stolen
cookie ends with the day or with the key, no table of sessions is needed, and every API process of
the home accepts it.

Context: several people share a key, and labels should say who gave them. Decision: whoever signs in
may state a name, which is kept in the cookie. Consequence: labels bear it in place of the key's
name; it is a statement of somebody who has the key, and no proof.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from itsdangerous import BadSignature, TimestampSigner

from peewit.service.key_store import KeyRecord, KeyStore

COOKIE: Final = "peewit_session"
MAX_AGE_SECONDS: Final = 12 * 3600
"""A session lasts a working day."""

_FILE: Final = "session-secret"
_SALT: Final = "peewit dashboard session"
_SECRET_BYTES: Final = 32


class Session(NamedTuple):
    """Somebody who is signed in: their key, and what they call themselves."""

    key: KeyRecord
    said_name: str | None


class Sessions:
    """Makes and reads the cookies of one home.

    The file ``session-secret`` of the home is made when it is missing. Raises OSError where it can
    be neither read nor made, and ValueError where it is too short to be the secret, as another
    program wrote to it.
    """

    def __init__(self, home: Path, keys: KeyStore) -> None:
        self._signer = TimestampSigner(_secret_of(home / _FILE), salt=_SALT)
        self._keys = keys

    def issue(self, key: KeyRecord, said_name: str | None = None) -> str:
        """The cookie for somebody who has this key and states this name."""
        named = _name_of(key) if said_name is None else f"{_name_of(key)} {quote(said_name)}"
        return self._signer.sign(named).decode()

    def session_of(self, cookie: str) -> Session | None:
        """The session of a cookie; None where it is forged or too old, or its key is gone."""
        try:
            named = self._signer.unsign(cookie, max_age=MAX_AGE_SECONDS).decode()
        except (BadSignature, UnicodeError):
            return None
        prefix, _, rest = named.partition(" ")
        made_at, _, said_name = rest.partition(" ")
        key = self._keys.active(prefix)
        if key is None or _name_of(key) != f"{prefix} {made_at}":
            return None
        return Session(key=key, said_name=unquote(said_name) or None)


def _name_of(key: KeyRecord) -> str:
    """A key with the time it was made: an admin key whose secret is replaced is another one."""
    return f"{key.prefix} {key.created_at.isoformat()}"


def _secret_of(path: Path) -> bytes:
    """The secret in a file; of several processes that make it at once, one wins."""
    if not path.exists():
        _make_secret(path)
    secret = path.read_bytes()
    if len(secret) < _SECRET_BYTES:
        raise ValueError(
            f"{path} must hold {_SECRET_BYTES} bytes, got {len(secret)}; delete it, and whoever "
            "has signed in does so again"
        )
    return secret


def _make_secret(path: Path) -> None:
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
