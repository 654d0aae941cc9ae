"""Present labels: the last label event of each node, unless that takes the label back."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, func, select

from peewit.service.database.tables import label_events

_NODES_PER_QUERY: Final = 10_000  # SQLite takes 32,766 parameters


def is_present() -> ColumnElement[bool]:
    """The condition that an event of ``label_events`` holds now."""
    return ~label_events.c.is_superseded & label_events.c.label.is_not(None)


def labels_now(
    connection: Connection, graph_id: str, column: str, nodes: Sequence[str]
) -> Iterator[Row[Any]]:
    """The events that hold now, of those of some nodes that have a label.

    Removals are left out here: for that condition SQLite would read the index by label.
    """
    events = label_events.c
    last = select(label_events).where(
        events.graph_id == graph_id, events.column_name == column, ~events.is_superseded
    )
    for start in range(0, len(nodes), _NODES_PER_QUERY):
        some = events.node.in_(nodes[start : start + _NODES_PER_QUERY])
        yield from (row for row in connection.execute(last.where(some)) if row.label is not None)


def column_names(connection: Connection, graph_id: str) -> list[str]:
    """The columns with labels, also those taken back since; '' is the unnamed one.

    One index look-up for each, however many labels there are.
    """
    events, names = label_events.c, list[str]()
    least = select(func.min(events.column_name)).where(events.graph_id == graph_id)
    name = connection.execute(least).scalar()
    while name is not None:
        names.append(name)
        name = connection.execute(least.where(events.column_name > name)).scalar()
    return names


def count_to_two(connection: Connection, graph_id: str, column: str = "") -> int:
    """Different labels of a column of a graph: 0, 1, or 2 for two or more; two index look-ups."""
    events = label_events.c
    of_column = events.graph_id == graph_id, events.column_name == column, is_present()
    least, most = (
        connection.execute(select(end(events.label)).where(*of_column)).scalar()
        for end in (func.min, func.max)
    )
    return 0 if least is None else 1 if least == most else 2
