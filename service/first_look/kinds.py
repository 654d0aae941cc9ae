"""Which columns hold ids, and of what kind: by their names, else by what they share with others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from peewit.service.first_look.columns import MOST_CLASSES, ColumnLook, TableLook

_PAIR: Final = 2
_ALL_SHARED: Final = 0.95
_LEAST_SHARED: Final = 0.5
"""Share of ids found in another column from which both are of one kind."""

NODE: Final = "node"
"""The kind of ids of which nothing says what they name."""


def with_shared_ids(tables: Sequence[TableLook]) -> list[TableLook]:
    """Tables in which numbers are ids where what they share with other columns says so."""
    tables = [_with_codes(table, tables) for table in tables]
    return [_with_ends(_with_pairs(table, tables), tables) for table in tables]


def kinds_of(tables: Sequence[TableLook]) -> dict[ColumnLook, str]:
    """The kind of each column of ids.

    By its name, else by that of its table, else by the ids that it shares with others.
    """
    columns = [(table, column) for table in tables for column in table.ids]
    kinds = {each: each.stem for _, each in columns if each.stem}
    usual = Counter(kinds.values())
    named = {  # but for numbers of rows that join other things
        each: each.stem
        for table, each in columns
        if each.stem and (usual[each.stem] > 1 or not each.is_unique or len(table.ids) == 1)
    }
    largest_first = sorted(columns, key=lambda each: _size(each[1]), reverse=True)
    for table, column in largest_first:
        if not column.stem:
            of_table = [kind for kind in named.values() if table.stem.startswith(kind)]
            is_of_rows = bool(of_table) and column.is_unique
            kind = of_table[0] if is_of_rows else _alike(column, named)
            kinds[column] = kind or NODE
        elif not column.is_whole or column.are_codes:
            # words are seldom equal by chance, as numbers are
            others = [each for each, kind in named.items() if kind != column.stem]
            larger = {each: kinds[each] for each in others if _size(each) > _size(column)}
            kinds[column] = _alike(column, larger) or kinds[column]
    n_columns = Counter(kinds.values())
    alone = {each: kind for each, kind in named.items() if n_columns[kind] == 1}
    ends = [
        (table, column)
        for table, column in columns
        if kinds[column] == NODE and (column.name in (table.ends or ()) or not table.has_names)
    ]
    for table, column in ends:  # what nothing names is what only another table names
        elsewhere = {each: kind for each, kind in alone.items() if each not in table.ids}
        kinds[column] = _within(column, elsewhere) or NODE
    for table, column in ends:
        same = {each: kinds[each] for each in table.ids if kinds[each] != kinds[column] == NODE}
        kinds[column] = _alike(column, same) or kinds[column]
    for table in tables:  # both ends of an edge are of one kind
        pair = [table.columns[name] for name in table.ends or () if not table.names_kinds]
        said = {table.columns[name] for name in table.change.kinds}
        named_ends = [kinds[each] for each in pair if each.stem and each in kinds.keys() - said]
        kinds |= {each: named_ends[0] for each in pair if named_ends and each in kinds}
    return kinds | {
        table.columns[name]: kind for table in tables for name, kind in table.change.kinds.items()
    }


def _with_pairs(table: TableLook, tables: Sequence[TableLook]) -> TableLook:
    """A table of ids beside numbers that are all among such ids holds two columns of ids."""
    if len(table.columns) != _PAIR or len(table.ids) != 1:
        return table
    (own,) = table.ids
    (other,) = (each for each in table.columns.values() if each is not own)
    is_said = other.name in table.change.uses
    if other.holds != "numbers" or len(other.distinct) <= MOST_CLASSES or is_said:
        return table
    alike = [each for every in tables for each in every.ids if each.stem == own.stem]
    if all(other.share_in(each) < _ALL_SHARED for each in alike):
        return table
    promoted = replace(other, holds="ids", thing=own.stem)
    return replace(table, columns={**table.columns, other.name: promoted})


def _with_ends(table: TableLook, tables: Sequence[TableLook]) -> TableLook:
    """A table without ids, of whose numbers two columns have the same values, holds edges."""
    numbers = [
        each
        for each in table.columns.values()
        if each.holds == "numbers" and len(each.distinct) > MOST_CLASSES and each.is_whole
        if each.name not in table.change.uses
    ]
    pairs = [
        pair for pair in combinations(numbers, _PAIR) if pair[0].likeness(pair[1]) >= _LEAST_SHARED
    ]
    if table.ids or len(pairs) != 1:
        return table
    known = [each for every in tables for each in every.ids if each.stem]
    alike = [each.stem for each in known if each.share_in(pairs[0][0]) >= _LEAST_SHARED]
    thing = alike[0] if alike else NODE
    ends = {each.name: replace(each, holds="ids", thing=thing) for each in pairs[0]}
    return replace(table, columns=table.columns | ends)


def _with_codes(table: TableLook, tables: Sequence[TableLook]) -> TableLook:
    """Numbers that zeros begin are ids where another column of such has half of them."""
    codes = [
        each
        for every in tables
        for each in every.columns.values()
        if each.holds in {"ids", "numbers"} and len(each.distinct) > MOST_CLASSES and each.are_codes
    ]
    shared = {
        each.name: replace(each, holds="ids")
        for each in codes
        if each in table.columns.values() and each.holds == "numbers"
        if any(each.share_in(other) >= _LEAST_SHARED for other in codes if other is not each)
    }
    return replace(table, columns=table.columns | shared)


def _size(column: ColumnLook) -> tuple[int, str]:
    return len(column.distinct), column.name


def _alike(column: ColumnLook, kinds: Mapping[ColumnLook, str]) -> str | None:
    """The kind of the column most like it, of those that have half of its ids; None if none has."""
    others = [each for each in kinds if column.share_in(each) >= _LEAST_SHARED]
    best = max(
        others,
        key=lambda each: (round(column.share_in(each), 1), column.likeness(each)),
        default=None,
    )
    return None if best is None else kinds[best]


def _within(column: ColumnLook, kinds: Mapping[ColumnLook, str]) -> str | None:
    """The kind of the column most like it, of those that it has half of; None if there is none."""
    inside = [each for each in kinds if each.share_in(column) >= _LEAST_SHARED]
    best = max(inside, key=column.likeness, default=None)
    return None if best is None else kinds[best]
