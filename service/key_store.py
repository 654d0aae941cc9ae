"""Bearer keys: who may call the API, and for what.

A key reads ``<prefix>.<secret>``. The prefix finds the row, the secret is stored as its SHA-256
only: it is random and long, so that nothing slower is needed against guessing.
"""

import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, get_args

from sqlalchemy import ColumnElement, Connection, Row, delete, or_, select, update

from peewit.service.database.engine import Database, insert_into
from peewit.service.database.tables import keys
from peewit.service.database.timestamps import now

Scope = Literal["read", "label", "ingest", "erase", "admin"]
"""What a key allows: look at everything; write labels and solve; bring edges; all of it."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_KEY: Final = re.compile(r"(?P<prefix>[A-Za-z0-9_-]{1,64})\.(?P<secret>[!-~]{32,512})")
_NO_HASH: Final = "0" * 64
_USE_NOTED_EVERY_SECONDS: Final = 60.0


class KeyNotFound(LookupError):
    """No key has this prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key without its secret.

    The times are of the database's clock, in UTC; that of the last use to the minute.
    """

    prefix: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None

    def allows(self, scope: Scope) -> bool:
        """True when the key may be used for this; an admin key may for all."""
        return scope in self.scopes or "admin" in self.scopes


class KeysInUse(ValueError):
    """There are keys that callers use."""


class KeyStore:
    """Keys by prefix."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, scopes: Collection[Scope]) -> str:
        """A new key in plain text, which cannot be shown again.

        The name need not be unique. There is at least one scope.
        """
        if not name.strip():
            raise ValueError("name must say what the key is for, got an empty string")
        prefix, secret = f"lw_{secrets.token_hex(6)}", secrets.token_urlsafe(32)
        row = _new_row(prefix, name, secret, scopes)
        with self._database.write() as connection:
            connection.execute(keys.insert().values(**row))
        return f"{prefix}.{secret}"

    def verify(self, key: str) -> KeyRecord | None:
        """Record of the key, or None when it is unknown, wrong or revoked.

        Takes the same time whether the prefix or the secret is wrong.
        """
        match = _KEY.fullmatch(key)
        prefix, secret = match.group("prefix", "secret") if match else ("", key)
        row = self._row(prefix)
        stored = _NO_HASH if row is None else row.secret_sha256
        is_right = hmac.compare_digest(stored, _hash(secret))
        return self._used(row) if row is not None and is_right else None

    def active(self, prefix: str) -> KeyRecord | None:
        """The key of a prefix unless it is unknown or revoked; counts as a use of it.

        For callers who have seen the secret before.
        """
        row = self._row(prefix)
        return None if row is None else self._used(row)

    def valid(self, prefixes: Collection[str]) -> dict[str, datetime]:
        """When each of the keys was made, without those that are unknown or revoked."""
        chosen = select(keys.c.prefix, keys.c.created_at).where(
            keys.c.prefix.in_(prefixes), keys.c.revoked_at.is_(None)
        )
        with self._database.read() as connection:
            return {row.prefix: row.created_at for row in connection.execute(chosen)}

    def revoke(self, prefix: str) -> None:
        """Refuse the key from now on; raises `KeyNotFound`."""
        with self._database.write() as connection:
            _require(connection, prefix)
            connection.execute(
                update(keys)
                .where(keys.c.prefix == prefix, keys.c.revoked_at.is_(None))
                .values(revoked_at=now())
            )

    def list(self) -> Sequence[KeyRecord]:
        """All keys, the revoked ones too, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(keys).order_by(keys.c.created_at, keys.c.prefix))
            return [_record(row) for row in rows]

    def are_needed(self) -> bool:
        """Whether nobody may call without a key: once one was made, even if all are revoked."""
        with self._database.read() as connection:
            return connection.execute(select(keys.c.prefix).limit(1)).first() is not None

    def open_again(self) -> None:
        """Forget the revoked keys, so that this machine may call without one; none may be valid."""
        with self._database.write() as connection:
            valid = select(keys.c.prefix).where(keys.c.revoked_at.is_(None))
            prefixes = sorted(connection.execute(valid).scalars())
            if prefixes:
                raise KeysInUse(f"no key may be valid, got {', '.join(prefixes)}; revoke it first")
            connection.execute(delete(keys))

    def ensure_admin_key(self, text: str) -> KeyRecord:
        """The admin key of this text, made valid unless it is so already.

        A known prefix with a new secret replaces the old secret: the file is the truth.

        A key that was revoked is refused.
        """
        match = _KEY.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                "the admin key must read <prefix>.<secret> with a secret of 32 to 512 characters, "
                f"got a text of {len(text.strip())}; make one with "
                '`echo "admin.$(openssl rand -hex 32)"`'
            )
        row = _new_row(match["prefix"], "admin key file", match["secret"], ["admin"])
        with self._database.write() as connection:
            connection.execute(
                insert_into(connection, keys)
                .values(**row)
                .on_conflict_do_update(
                    index_elements=[keys.c.prefix],
                    set_=row | {"created_at": now(), "revoked_at": None, "last_used_at": None},
                    where=keys.c.secret_sha256 != row["secret_sha256"],
                )
            )
            stored = _require(connection, match["prefix"])
        if stored.revoked_at is not None:
            raise ValueError(
                f"the admin key must be valid, got {stored.prefix}, which was revoked; "
                "write a new secret into the file"
            )
        return _record(stored)

    def _row(self, prefix: str) -> Row[Any] | None:
        chosen = select(keys, _use_is_due().label("use_is_due")).where(keys.c.prefix == prefix)
        with self._database.read() as connection:
            return connection.execute(chosen).one_or_none()

    def _used(self, row: Row[Any]) -> KeyRecord | None:
        """The record of a key whose use is noted; None of one that was revoked."""
        if row.revoked_at is not None:
            return None
        if row.use_is_due:
            noted = update(keys).where(keys.c.prefix == row.prefix, _use_is_due())
            with self._database.write() as connection:
                connection.execute(noted.values(last_used_at=now()))
        return _record(row)


def _use_is_due() -> ColumnElement[bool]:
    """True when the time of use is to be written: once a minute, or reading would be writing."""
    last = keys.c.last_used_at
    return or_(last.is_(None), last <= now(-_USE_NOTED_EVERY_SECONDS))


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _new_row(prefix: str, name: str, secret: str, scopes: Collection[Scope]) -> dict[str, Any]:
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise ValueError(
            f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(unknown) or 'none'}"
        )
    return {
        "prefix": prefix,
        "name": name,
        "secret_sha256": _hash(secret),
        "scopes": [scope for scope in SCOPES if scope in scopes],
    }


def _require(connection: Connection, prefix: str) -> Row[Any]:
    row = connection.execute(
        select(keys).where(keys.c.prefix == prefix).with_for_update()
    ).one_or_none()
    if row is None:
        raise KeyNotFound(f"no key {prefix!r}; `peewit key list` shows those there are")
    return row


def _record(row: Row[Any]) -> KeyRecord:
    values = {each.name: getattr(row, each.name) for each in fields(KeyRecord)}
    return KeyRecord(**values | {"scopes": tuple(row.scopes)})
