"""What tables are for in a graph: edges, events, features, labels. Guessed, and said to be so."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from peewit.service.first_look.columns import MOST_CLASSES, ColumnLook, TableLook
from peewit.service.first_look.kinds import kinds_of, with_shared_ids
from peewit.service.first_look.likely_labels import (
    MOST_LABELED,
    candidates_of,
    is_likely,
    labels_of,
)
from peewit.service.tables.uploads.label_words import LabelWords
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.column_mapping import is_directed
from peewit.streaming.edges.windows import seconds_of

_WEIGHTS: Final = ("weight", "strength", "similarity", "count", "n")
SIGNS: Final = frozenset({"1", "-1"})
"""Two classes, of which the store takes -1 for none unless it is told."""
_OF_TRIALS: Final = frozenset({"split", "fold", "set"})
_READ: Final = "weight"
"""The column that ingest reads as weights whatever is said."""
_PAIR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Role:
    """What one table is for; it may be for several things."""

    table: TableLook
    ends: tuple[str, str] | None  # columns of the two ends of edges
    is_directed: bool  # whether edges go one way
    relation: str  # that edges are said to belong to
    weight: str | None
    time: str | None  # column of the times of edges, where these expire
    entity: str | None  # column of what events are about
    via: tuple[str, ...]  # columns of what it is joined with
    node: str | None  # column of the nodes of features or labels
    features: tuple[str, ...]
    label: str | None
    left_out: tuple[str, ...]  # columns that serve nothing
    has_untaken: bool  # whether it has features that are not taken

    @property
    def joins(self) -> bool:
        """Whether it joins nodes."""
        return self.ends is not None or bool(self.via)

    @property
    def n_without_end(self) -> int:
        """Most rows that cannot be an edge, as an end or what an event is about is missing."""
        needed = self.ends or ((self.entity,) if self.entity else ())
        return sum(map(self._n_empty, needed))

    @property
    def n_nodeless(self) -> int:
        """Rows of features or labels that name no node."""
        return 0 if self.node is None else self._n_empty(self.node)

    def _n_empty(self, column: str) -> int:
        return self.table.n_rows - self.table.columns[column].n_filled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roles:
    """The roles of all tables, and the kinds of their ids."""

    of_tables: tuple[Role, ...]
    kinds: Mapping[ColumnLook, str]
    classes: Mapping[str, int]  # rows of each label; empty where nothing looks like one
    is_label_guessed: bool  # by the values of its column, as no name says that it holds labels
    candidates: tuple[tuple[TableLook, ColumnLook], ...]  # what may hold labels, by its values
    window: str  # how long edges live; empty for ever

    def kind(self, role: Role, column: str) -> str:
        """The kind of the ids of a column."""
        return self.kinds[role.table.columns[column]]

    @property
    def is_typed(self) -> bool:
        """Whether columns name several kinds of ids; rows of tables may name them themselves."""
        if any(role.table.names_kinds for role in self.of_tables):
            return False
        return len({self.kinds[each] for each in self.used}) > 1

    @property
    def used(self) -> list[ColumnLook]:
        """The columns that name nodes."""
        return [
            role.table.columns[name]
            for role in self.of_tables
            for name in (*(role.ends or ()), role.entity, *role.via, role.node)
            if name
        ]


def roles_of(
    tables: Sequence[TableLook],
    label: str | None = None,
    *,
    within: Path | None = None,
    window: str = "",
) -> Roles:
    """Guess what tables are for; ``label`` names the column of labels, of a table ``within``.

    An empty ``label`` says that there are none. Edges live as long as ``window`` says. Raises
    BadArgument where no table has that column, or it says nothing, and where what is said of a
    table cannot be.
    """
    tables = with_shared_ids(tables)
    paths = {table.path for table in tables if within in (None, table.path)}
    if label:
        tables = [_with_words(each, label) if each.path in paths else each for each in tables]
    if window:
        seconds_of(window, "window")
    kinds = kinds_of(tables)
    candidates = candidates_of(tables)
    labeled, column, is_guessed = None, None, False
    if label != "":
        labeled, column = labels_of([each for each in tables if each.path in paths], label)
    if label is None and column is None:
        likely = [each for each in candidates if is_likely(*each)]
        if len(likely) == 1:
            (labeled, column), is_guessed = likely[0], True
    answers = None
    if labeled is not None and (key := _key(labeled, kinds, None)) is not None:
        answers = kinds[key]
    by_row = any(table.names_kinds for table in tables)  # so columns of nodes have no one kind
    described = [] if by_row else _described(tables, kinds, answers, labeled)
    roles = tuple(
        _role(
            table,
            kinds,
            answers,
            label=column if table is labeled else None,
            is_described=any(table is each for each in described),
            is_windowed=bool(window),
        )
        for table in tables
    )
    return Roles(
        of_tables=roles,
        kinds=kinds,
        classes={} if column is None else _classes(column),
        is_label_guessed=is_guessed,
        candidates=candidates,
        window=window,
    )


def _classes(column: ColumnLook) -> dict[str, int]:
    """Rows of each label, as the store calls them."""
    if set(column.counts) == SIGNS:
        return dict(column.counts)
    counts: dict[str, int] = {}
    for each, n in column.counts.items():
        if not LabelWords().mean_nothing(each):
            name = each.lower() if each.lower() in {"true", "false"} else _whole(each)
            counts[name] = counts.get(name, 0) + n
    return counts


def _whole(text: str) -> str:
    head, point, rest = text.partition(".")
    return head if point and head.lstrip("-").isdecimal() and not rest.strip("0") else text


def _with_words(table: TableLook, label: str) -> TableLook:
    """A table in which a column that is to hold labels holds no ids."""
    column = table.columns.get(label)
    if column is None or column.holds != "ids" or len(column.distinct) > MOST_CLASSES:
        return table
    if label in table.change.uses or label in table.change.kinds:
        rule = f"must not be a column that is to be an id, got {label!r} of {table.path.name}"
        raise BadArgument("label", f"{rule}; choose another, or leave its use as guessed")
    return replace(table, columns=table.columns | {label: replace(column, holds="words")})


def _described(
    tables: Sequence[TableLook],
    kinds: Mapping[ColumnLook, str],
    answers: str | None,
    labeled: TableLook | None,
) -> list[TableLook]:
    """Tables of features: a row for each thing.

    Columns beside the labels of a few are none, as they may come with the label; unless no other
    table describes the same things.
    """
    found: dict[TableLook, ColumnLook] = {}
    for table in tables:
        key = _key(table, kinds, answers)
        if table.ends is None and table.has_names and key is not None and key.is_unique:
            found[table] = key
    if labeled in found:
        own = found[labeled]
        alike = [len(each.distinct) for each in found.values() if kinds[each] == kinds[own]]
        if len(own.distinct) < MOST_LABELED * max(alike):
            del found[labeled]
    return list(found)


def _describes(column: ColumnLook) -> bool:
    return column.holds != "nothing" and column.name.lower() not in _OF_TRIALS


def _key(
    table: TableLook, kinds: Mapping[ColumnLook, str], answers: str | None
) -> ColumnLook | None:
    """The column of ids that rows are about: of the kind that is labeled, else of most tables."""
    usual = Counter(kinds.values())
    return max(
        table.ids,
        key=lambda each: (
            each.name == table.change.column("src"),
            kinds[each] == answers,
            each.is_unique,
            usual[kinds[each]],
        ),
        default=None,
    )


def _role(
    table: TableLook,
    kinds: Mapping[ColumnLook, str],
    answers: str | None,
    *,
    label: ColumnLook | None,
    is_described: bool,
    is_windowed: bool,
) -> Role:
    usual, change = Counter(kinds.values()), table.change
    key = _key(table, kinds, answers)
    ids = [
        each
        for each in table.ids
        if each is key
        or change.is_of_ids(each.name)
        or usual[kinds[each]] > 1
        or len(each.distinct) < each.n_filled
        if "," not in each.name
    ]  # what stands once joins nothing, and lists of columns have commas between
    names = [each.name for each in ids]
    ends = table.ends if table.ends is not None and set(table.ends) <= set(names) else None
    if ends is None and len(ids) == _PAIR:
        are_said = bool(change.relation) or bool(change.is_directed)
        if kinds[ids[0]] == kinds[ids[1]] or are_said:
            ends = names[0], names[1]
            if change.column("src") == names[1]:
                ends = names[1], names[0]
    is_events = ends is None and len(ids) > 1
    of_edges = {change.column("weight"), change.column("time")}
    others = [
        each
        for each in table.columns.values()
        if each.holds != "ids" and each is not label and each.name not in of_edges
    ]
    describing = [each for each in others if is_described and _describes(each)]
    are_names = all(each.holds == "words" and each.is_unique for each in describing)
    features = tuple(
        each.name
        for each in others
        if change.uses.get(each.name) == "feature" or (each in describing and not are_names)
    )
    weight = change.column("weight") or next(
        (each for each in _WEIGHTS if ends and each in table.columns and each not in change.uses),
        None,
    )
    times = [each.name for each in others if each.holds == "times"]
    time = change.column("time") or next(iter(times), None) if is_windowed else None
    has_untaken = (
        not (features or is_described) and key is not None and key.is_unique and bool(others)
    )
    of_kinds = {"relation", "src_kind", "dst_kind"} if table.names_kinds else {"kind"}
    serves = {
        *(ends or names),
        *of_kinds,
        *features,
        weight,
        time,
        *([label.name] if label else []),
    }
    role = Role(
        table=table,
        ends=ends,
        is_directed=ends is not None
        and (is_directed(*ends) if change.is_directed is None else change.is_directed),
        relation=change.relation,
        weight=weight,
        time=time,
        entity=key.name if is_events and key else None,
        via=tuple(each.name for each in ids if is_events and each is not key),
        node=key.name if key is not None and (features or label) else None,
        features=features,
        label=label.name if label else None,
        left_out=tuple(name for name in table.columns if name not in serves),
        has_untaken=has_untaken and ends is None and not is_events,
    )
    _require_role(role, key, is_windowed=is_windowed)
    return role


def _require_role(role: Role, key: ColumnLook | None, *, is_windowed: bool) -> None:
    """Raise BadArgument where what is said of a table cannot be, as its columns stand."""
    table, change, file = role.table, role.table.change, role.table.path.name
    way = "say which column is its src and which its dst"
    if change.column("dst") and role.ends is None:
        raise BadArgument(
            "use", f"must make a column of {file} the src, too, got a dst alone; {way}"
        )
    for argument, said in (("relation", change.relation), ("directed", change.is_directed)):
        if said and role.ends is None:
            rule = f"must be said of a table with two ends, got {file}"
            raise BadArgument(argument, f"{rule}; {way}")
    for use in ("weight", "time"):
        name = change.column(use)
        if name and not role.joins:
            rule = f"must be {use} in a table of edges, got {name} of {file}, which joins nothing"
            raise BadArgument("use", f"{rule}; {way}, or leave the column out")
    if role.weight and not table.columns[role.weight].is_number:
        rule = f"must be weight in a column of numbers, got {role.weight} of {file}"
        raise BadArgument("use", f"{rule}; choose another, or leave it out")
    if role.joins and role.weight != _READ and change.uses.get(_READ):
        rule = f"must be weight for {_READ} of {file}, which ingest reads by its name"
        raise BadArgument("use", f"{rule}; call the column otherwise")
    if is_windowed and role.joins and role.time is None:
        rule = f"must be left out, as no column of {file} is one of times"
        raise BadArgument("window", f"{rule}; say which is its time, or leave the file out")
    wished = [name for name, use in change.uses.items() if use == "feature"]
    if wished and not (table.has_names and role.ends is None and key is not None and key.is_unique):
        reason = "which needs a line of names" if not table.has_names else _no_row_each(role, key)
        rule = f"must not be feature for {wished[0]} of {file}"
        raise BadArgument("use", f"{rule}, {reason}; leave the column out")


def _no_row_each(role: Role, key: ColumnLook | None) -> str:
    if key is None:
        return "as no column is an id"
    return (
        "as each row joins two nodes"
        if role.ends is not None
        else f"as {key.name} stands in several rows"
    )
