"""Present labels: of each node its last label event, unless that takes the label back."""

from sqlalchemy import ColumnElement, Connection, select

from peewit.service.database.tables import label_events

_later = label_events.alias("later").c


def is_present() -> ColumnElement[bool]:
    """Whether an event of ``label_events`` holds now."""
    events = label_events.c
    followed = (
        select(_later.seq)
        .where(
            _later.graph_id == events.graph_id,
            _later.node == events.node,
            _later.seq > events.seq,
        )
        .exists()
    )
    return events.label.is_not(None) & ~followed


def count_to_two(connection: Connection, graph_id: str) -> int:
    """How many different labels a graph has: 0, 1, or 2 where there are two or more.

    Of millions of labels it looks at a few, except where all are equal.
    """
    events = label_events.c
    present = select(events.label).where(events.graph_id == graph_id, is_present())
    last = connection.execute(present.order_by(events.seq.desc()).limit(1)).scalar_one_or_none()
    if last is None:
        return 0
    other = present.where(events.label != last).limit(1)
    return 1 if connection.execute(other).first() is None else 2
