"""Which column holds the labels: by its name, else by its values."""

from collections.abc import Sequence
from typing import Final

from peewit.service.first_look.columns import MOST_CLASSES, ColumnLook, TableLook, words_of
from peewit.solvers.arguments import BadArgument

_LABEL_WORDS: Final = (
    *("label", "labels", "class", "target", "y", "fraud", "spam", "bot", "churn", "churned"),
    *("verdict", "decision", "outcome", "default", "chargeback", "readmitted", "subject", "topic"),
    *("category", "status", "specialty", "type"),
)
"""What columns of labels are called, the surest first."""

MOST_LABELED: Final = 0.5
"""Share of rows with a value up to which a column may be the labels of a few."""
_RARE: Final = 0.1
"""Share of the rows up to which one of two words is what people look for."""
_PAIR: Final = 2


def labels_of(
    tables: Sequence[TableLook], wanted: str | None
) -> tuple[TableLook, ColumnLook] | tuple[None, None]:
    """The column that looks most like labels, with its table; the one that is wanted, if one is."""
    found: list[tuple[tuple[int, int, int], TableLook, ColumnLook]] = []
    for table in tables:
        others = [each for each in table.columns.values() if each.holds != "ids"]
        for place, column in enumerate(others):
            is_alone = len(table.columns) == 2 and len(table.ids) == 1
            rank = _rank(column, is_alone=is_alone) if wanted is None else 0
            is_of_nodes = len(table.ids) == 1 or any(each.is_unique for each in table.ids)
            if wanted is None and column.name in table.change.uses:
                continue
            if wanted in (None, column.name) and rank is not None and is_of_nodes:
                found.append(((rank, len(table.columns), place), table, column))
    if not found:
        if wanted is not None:
            raise BadArgument("label", f"{_rule_of_labels(tables, wanted)}, got {wanted!r}")
        return None, None
    _, table, column = min(found, key=lambda each: each[0])
    if not 2 <= len(column.distinct) <= MOST_CLASSES:
        rule = f"must name a column of 2 to {MOST_CLASSES} different labels"
        raise BadArgument("label", f"{rule}, got {wanted!r} with {len(column.distinct):,}")
    return table, column


def candidates_of(tables: Sequence[TableLook]) -> tuple[tuple[TableLook, ColumnLook], ...]:
    """Columns that may hold labels of nodes: few values, in a table with a row for each node."""
    return tuple(
        (table, column)
        for table in tables
        if table.ends is None and any(each.is_unique for each in table.ids)
        for column in table.columns.values()
        if len(column.counts) >= _PAIR and column.holds in {"truth values", "words", "numbers"}
        if column.name not in table.change.uses
    )


def is_likely(table: TableLook, column: ColumnLook) -> bool:
    """Whether a column of any name looks like labels: yes or no, a rare word, or many gaps."""
    if column.holds != "words":
        return column.holds == "truth values"
    is_rare = min(column.counts.values()) <= _RARE * column.n_filled
    has_gaps = column.n_filled <= MOST_LABELED * table.n_rows
    return has_gaps or (len(column.counts) == _PAIR and is_rare)


def _rule_of_labels(tables: Sequence[TableLook], wanted: str) -> str:
    if any(wanted in table.columns for table in tables):
        return "must name a column of a table with one row for each node, and a column of its id"
    names = dict.fromkeys(name for table in tables for name in table.columns)
    return f"must be one of the columns {', '.join(names)}"


def _rank(column: ColumnLook, *, is_alone: bool) -> int | None:
    """How surely a column holds labels, 0 the surest; None where it does not look so."""
    if len(column.counts) < 2 or column.holds == "times":
        return None
    words = words_of(column.name)
    ranks = [_LABEL_WORDS.index(word) for word in words if word in _LABEL_WORDS]
    if ranks:
        return 2 * min(ranks) + (len(words) > 1)
    may_be = is_alone or words[:1] == ["is"]
    return 2 * len(_LABEL_WORDS) if may_be else None
