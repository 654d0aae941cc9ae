"""Leases: one process at a time does a thing, such as ingesting a graph.

A lease runs out by the database's clock unless it is renewed. Then another may take it; until one
does, the holder may still renew it. Its token grows with every holder, and `confirm` checks it in
the transaction that writes, so a holder who was asleep for too long cannot overwrite the next one.
"""

from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, or_, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from peewit.service.database.engine import Database, insert_into
from peewit.service.database.tables import leases
from peewit.service.database.timestamps import now


class LeaseExpired(RuntimeError):
    """Another process has taken the lease, or it was given back; stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to do what ``name`` says, until another has it."""

    name: str  # such as ingest:<graph id>
    holder: str  # for people to read
    token: int  # greater than that of every earlier holder
    ttl_seconds: float  # since the last renewal; then another may take it


class LeaseStore:
    """Leases by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(
        self, name: str, holder: str, ttl_seconds: float, *, dead: str | None = None
    ) -> Lease | None:
        """The lease, or None while another holder, or the same, has it.

        It is taken before it runs out from ``dead``, a holder that is known to have ended.
        """
        if not ttl_seconds > 0:
            raise ValueError(f"ttl_seconds must be positive, got {ttl_seconds}")
        with self._database.write() as connection:
            values = {"holder": holder, "expires_at": now(ttl_seconds)}
            token = connection.execute(
                insert_into(connection, leases)
                .values(name=name, token=1, **values)
                .on_conflict_do_update(
                    index_elements=[leases.c.name],
                    set_={"token": leases.c.token + 1, **values},
                    where=or_(leases.c.expires_at <= now(), leases.c.holder == dead),
                )
                .returning(leases.c.token)
            ).scalar()
        if token is None:
            return None
        return Lease(name=name, holder=holder, token=token, ttl_seconds=ttl_seconds)

    def renew(self, lease: Lease) -> None:
        """Let the lease run for its full time again; raises `LeaseExpired`."""
        with self._database.write() as connection:
            confirm(connection, lease)

    def release(self, lease: Lease) -> None:
        """Let the next holder have it at once; does nothing if another has it already."""
        with self._database.write() as connection:
            connection.execute(
                update(leases)
                .where(leases.c.name == lease.name, leases.c.token == lease.token)
                .values(token=leases.c.token + 1, expires_at=now())
            )

    def holder(self, name: str) -> str | None:
        """The holder of the lease now, if there is one."""
        statement = select(leases.c.holder).where(
            leases.c.name == name, leases.c.expires_at > now()
        )
        with self._database.read() as connection:
            return connection.execute(statement).scalar()


def confirm(connection: Connection, lease: Lease) -> None:
    """Renew the lease in a transaction and hold it until that ends.

    Raises `LeaseExpired` where another has it: nothing of the transaction may be committed.
    """
    confirmed = connection.execute(_confirming(lease)).scalar()
    if confirmed is None:
        holder = connection.execute(
            select(leases.c.holder).where(leases.c.name == lease.name, leases.c.expires_at > now())
        ).scalar()
        raise LeaseExpired(
            f"the lease {lease.name} of {lease.holder} (token {lease.token}) ran out and was taken "
            f"by {holder or 'another process, which has ended'}; nothing is lost, the same command "
            "goes on from the last checkpoint"
        )


@lru_cache(maxsize=256)  # a lease is renewed again and again
def _confirming(lease: Lease) -> ReturningUpdate[tuple[int]]:
    """The statement that renews a lease, and returns its token where it is still held."""
    return (
        update(leases)
        .where(leases.c.name == lease.name, leases.c.token == lease.token)
        .values(expires_at=now(lease.ttl_seconds))
        .returning(leases.c.token)
    )
