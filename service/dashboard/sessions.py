"""Sessions of people who have signed in: a signed cookie that names a key, never the key itself.

Context: a browser keeps what it is given for hours, on disks and in backups of others. Decision:
the cookie holds the prefix of the key and the time, signed with a secret of the home. Consequence:
a stolen cookie ends with the day or with the key, no table of sessions is needed, and every API
process of the home takes it.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from itsdangerous import BadSignature, TimestampSigner

from peewit.service.api.key_store import KeyRecord, KeyStore

COOKIE: Final = "peewit_session"
MAX_AGE_SECONDS: Final = 12 * 3600
"""Who has signed in stays so for a working day."""

_FILE: Final = "session-secret"
_SALT: Final = "peewit dashboard session"
_SECRET_BYTES: Final = 32


class Sessions:
    """Makes and reads the cookies of one home.

    Parameters
    ----------
    home : Path
        ``Settings.home``; its file ``session-secret`` is made when it is not there.
    keys : KeyStore
        Knows the keys.

    Raises
    ------
    OSError
        The file can be neither read nor made.
    ValueError
        It is too short to be the secret: another program has written to it.
    """

    def __init__(self, home: Path, keys: KeyStore) -> None:
        self._signer = TimestampSigner(_secret_of(home / _FILE), salt=_SALT)
        self._keys = keys

    def issue(self, key: KeyRecord) -> str:
        """The cookie of somebody who has shown this key."""
        return self._signer.sign(_name_of(key)).decode()

    def key_of(self, cookie: str) -> KeyRecord | None:
        """The key behind a cookie; None where it is forged, too old, or its key is gone."""
        try:
            named = self._signer.unsign(cookie, max_age=MAX_AGE_SECONDS).decode()
        except (BadSignature, UnicodeError):
            return None
        key = self._keys.active(named.partition(" ")[0])
        return key if key is not None and _name_of(key) == named else None


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
