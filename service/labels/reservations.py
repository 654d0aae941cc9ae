"""Reservations: a node that one annotator looks at is shown to no other for a while.

Context: several people label at once, through several API processes, and two answers to one
question are lost work. Decision: one row for each node that is shown, which ends by the database's
clock or with the label of the node; whoever writes the row first holds the node. Consequence: a
node has one holder at a time, a closed browser blocks nothing for longer, and nobody is kept from
labeling: a reservation limits what is shown to others, not what they may do.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, delete, or_, select

from peewit.service.database.engine import Database, insert_into
from peewit.service.database.tables import reservations
from peewit.service.database.timestamps import now

_NODES_PER_STATEMENT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A node reserved for somebody; ``expires_at`` is by the database's clock, in UTC."""

    node: str
    strategy: str
    expires_at: datetime


class Reservations:
    """Reserved nodes of all graphs, separately for each column of labels."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reserve(
        self,
        graph_id: str,
        nodes: Sequence[str],
        *,
        column: str = "",
        holder: str,
        strategy: str,
        seconds: float,
    ) -> list[Reservation]:
        """Those of some nodes that the holder holds now, in order; others hold the rest.

        Each node is given once. Nodes that they hold already get the full time again. Raises
        ValueError where ``seconds`` is not positive.
        """
        if not seconds > 0:
            raise ValueError(f"seconds must be positive, got {seconds}")
        common = {"graph_id": graph_id, "column_name": column, "holder": holder}
        rows = [
            common | {"node": node, "strategy": strategy, "expires_at": now(seconds)}
            for node in sorted(nodes)  # one locking order, so no deadlock
        ]
        held: dict[str, Reservation] = {}
        with self._database.write() as connection:
            connection.execute(delete(reservations).where(reservations.c.expires_at <= now()))
            for start in range(0, len(rows), _NODES_PER_STATEMENT):
                statement = insert_into(connection, reservations).values(
                    rows[start : start + _NODES_PER_STATEMENT]
                )
                new = statement.excluded
                written = connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=list(reservations.primary_key.columns),
                        set_={
                            "holder": new.holder,
                            "strategy": new.strategy,
                            "expires_at": new.expires_at,
                        },
                        where=or_(
                            reservations.c.expires_at <= now(), reservations.c.holder == holder
                        ),
                    ).returning(reservations.c.node, reservations.c.expires_at)
                )
                held |= {
                    row.node: Reservation(
                        node=row.node, strategy=strategy, expires_at=row.expires_at
                    )
                    for row in written
                }
        return [held[node] for node in nodes if node in held]

    def own(self, graph_id: str, holder: str, *, column: str = "") -> list[Reservation]:
        """What a holder holds, the first to expire first."""
        statement = (
            select(reservations.c.node, reservations.c.strategy, reservations.c.expires_at)
            .where(*_held(graph_id, column), reservations.c.holder == holder)
            .order_by(reservations.c.expires_at, reservations.c.node)
        )
        with self._database.read() as connection:
            return [
                Reservation(node=row.node, strategy=row.strategy, expires_at=row.expires_at)
                for row in connection.execute(statement)
            ]

    def of_others(self, graph_id: str, holder: str, *, column: str = "") -> set[str]:
        """Nodes that others hold now."""
        statement = select(reservations.c.node).where(
            *_held(graph_id, column), reservations.c.holder != holder
        )
        with self._database.read() as connection:
            return set(connection.execute(statement).scalars())

    def give_back(
        self, graph_id: str, nodes: Collection[str], holder: str, *, column: str = ""
    ) -> int:
        """End a holder's reservations of some nodes; how many were still held."""
        wanted, n_given = sorted(nodes), 0
        for start in range(0, len(wanted), _NODES_PER_STATEMENT):
            some = reservations.c.node.in_(wanted[start : start + _NODES_PER_STATEMENT])
            mine = *_of(graph_id, column), reservations.c.holder == holder, some
            with self._database.write() as connection:
                was_held = reservations.c.expires_at > now()
                gone = delete(reservations).where(*mine).returning(was_held)
                n_given += sum(connection.execute(gone).scalars())
        return n_given


def _of(graph_id: str, column: str) -> tuple[ColumnElement[bool], ...]:
    return reservations.c.graph_id == graph_id, reservations.c.column_name == column


def _held(graph_id: str, column: str) -> tuple[ColumnElement[bool], ...]:
    return *_of(graph_id, column), reservations.c.expires_at > now()
