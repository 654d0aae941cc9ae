"""Present labels: the last label event of each node, unless that takes the label back."""

from sqlalchemy import ColumnElement, Connection, func, select

from peewit.service.database.tables import label_events

_later = label_events.alias("later").c


def is_present() -> ColumnElement[bool]:
    """The condition that an event of ``label_events`` holds now."""
    events = label_events.c
    followed = (
        select(_later.seq)
        .where(
            _later.graph_id == events.graph_id,
            _later.column_name == events.column_name,
            _later.node == events.node,
            _later.seq > events.seq,
        )
        .exists()
    )
    return events.label.is_not(None) & ~followed


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
    """Different labels of a column of a graph: 0, 1, or 2 for two or more.

    Looks at a few of millions of labels, except where all are equal.
    """
    events = label_events.c
    present = select(events.label).where(
        events.graph_id == graph_id, events.column_name == column, is_present()
    )
    last = connection.execute(present.order_by(events.seq.desc()).limit(1)).scalar_one_or_none()
    if last is None:
        return 0
    other = present.where(events.label != last).limit(1)
    return 1 if connection.execute(other).first() is None else 2
