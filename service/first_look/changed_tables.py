"""Tables as somebody says that they are, checked as far as a table alone tells."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from peewit.service.first_look.changes import OF_IDS, TableChange, Use
from peewit.service.first_look.columns import ColumnLook, TableLook
from peewit.solvers.arguments import BadArgument
from peewit.solvers.relations.relation_names import check_relation_name
from peewit.streaming.edges.node_kinds import KIND

_SINGLE: Final[tuple[Use, ...]] = ("src", "dst", "weight", "time")


def as_changed(table: TableLook, change: TableChange) -> TableLook:
    """The table as it is said to be; raises BadArgument where it cannot be so."""
    _require_columns(table, change)
    _require_kinds(table, change)
    file = table.path.name
    for use in _SINGLE:
        names = [name for name, each in change.uses.items() if each == use]
        if len(names) > 1:
            rule = f"must make one column of {file} the {use}"
            raise BadArgument("use", f"{rule}, got {' and '.join(names)}; choose one of them")
    if change.relation:
        check_relation_name(change.relation)
    is_of_edges = change.relation or change.is_directed is not None
    if table.names_kinds and (change.kinds or is_of_edges or set(change.uses.values()) & {*OF_IDS}):
        rule = f"must leave {file} as it is, whose rows name the kinds of their ends"
        raise BadArgument("use", f"{rule}; to choose columns, call src_kind and dst_kind otherwise")
    return replace(table, columns=dict(_columns(table, change)), change=change)


def _require_columns(table: TableLook, change: TableChange) -> None:
    for argument, names in (("use", change.uses), ("kind", change.kinds)):
        for name in names:
            if name not in table.columns:
                rule = f"must name one of the columns {', '.join(table.columns)}"
                raise BadArgument(argument, f"{rule} of {table.path.name}, got {name!r}")


def _require_kinds(table: TableLook, change: TableChange) -> None:
    for name, kind in change.kinds.items():
        of = f"of {name} in {table.path.name}"
        if not KIND.fullmatch(kind):
            rule = "must be letters, digits, _ and -, and begin with a letter or _"
            raise BadArgument("kind", f"{of} {rule}, got {kind!r}")
        if not change.is_of_ids(name):
            rule = f"{of} must be left out, as the column is to be {change.uses[name]}"
            raise BadArgument("kind", f"{rule}, got {kind!r}; make the column an id")


def _columns(table: TableLook, change: TableChange) -> Iterator[tuple[str, ColumnLook]]:
    for name, column in table.columns.items():
        is_of_ids = change.is_of_ids(name)
        if is_of_ids:
            yield name, replace(column, holds="ids", thing=change.kinds.get(name, column.thing))
        elif change.uses.get(name) == "out":
            yield name, replace(column, holds="nothing")
        elif is_of_ids is False and column.holds == "ids":
            yield name, replace(column, holds="numbers" if column.is_number else "words")
        else:
            yield name, column
