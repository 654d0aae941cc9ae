"""Column mapping: which columns of a table are the ends, the weight and so on of its edges."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, get_args

import pyarrow as pa

from peewit.solvers.arguments import BadArgument
from peewit.solvers.relations.relation_names import MOST_RELATIONS, check_relation_name
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.change_columns import (
    columns_of_changes,
    is_change_column,
    is_state_column,
    way_of_edges,
)
from peewit.streaming.edges.node_kinds import KIND, named_column, split_column
from peewit.streaming.edges.reading_options import READING_OPTIONS, MissingIds, Quote
from peewit.streaming.edges.relations import KIND_COLUMNS
from peewit.streaming.edges.time_units import TimeUnit

_PAIRS: Final = (
    ("src", "dst"),
    ("source", "target"),
    ("source", "destination"),
    ("from", "to"),
    ("u", "v"),
    ("head", "tail"),
    ("sender", "receiver"),
)
"""Words in the names of columns of ends, in any case, as in ``from_account`` and ``To``."""

END_WORDS: Final = frozenset(itertools.chain(*_PAIRS))

_SENDERS: Final = frozenset({"from", "sender"})
"""Of these words, those that say that an edge goes one way: source and target seldom mean it."""

_KINDS: Final = ("src_kind", "dst_kind")

RELATION_CHOICES: Final = ("relation", "relation_column", "via")
"""What says which relation an edge belongs to; at most one of them is named."""

_VALUES: Final = {"time_unit": TimeUnit, "quote": Quote, "missing_ids": MissingIds}
"""What an option may be."""

COLUMN_NAMES: Final = ("src", "dst", "weight", "op", "time")
"""What the columns are for."""

NO_COLUMN: Final = "\n(no column)"
"""A name that no table has: for the weight where one that is there is left aside on purpose."""

_UNSEEN: Final = re.compile(
    "^[\\s\ufeff\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064]+"
    "|[\\s\ufeff\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064]+$"
)
_BETWEEN_WORDS: Final = re.compile(r"[_\-. ]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeColumns:
    """Names that the columns of an edge table have where it comes from.

    A name ``#k`` is the k-th column, from 1, of text without a header line. Without weights every
    edge weighs 1, without operations (see `operations`) every row adds an edge; a table must have
    times (see `times`) that are named. A row of a table of events is a star: ``src``, the entity,
    is joined with each column of ``via`` by a relation of that column's name; an empty cell there
    is no edge. Where the entity has a kind of nodes, a column without one has that of its name.
    Raises ``BadArgument`` where a name is empty or stands twice, names and positions
    are mixed, or the unit is none.
    """

    src: str = "src"
    dst: str = "dst"
    src_kind: str | None = None  # of the nodes; by default as KIND:COLUMN says, else ''
    dst_kind: str | None = None
    src_kind_column: str | None = None  # of the kind of each row's node, instead of one of all
    dst_kind_column: str | None = None
    weight: str = "weight"
    needs_weight: bool | None = None  # by default where the weight has not its usual name
    op: str | None = None
    needs_op: bool = False
    time: str | None = None
    time_unit: TimeUnit | None = None  # of times that are numbers: seconds where they may be
    time_format: str | None = None  # of times that are text, as strptime has it
    quote: Quote | None = None  # of CSV
    missing_ids: MissingIds = "refuse"  # ids that are words as NULL and NA
    relation: str | None = None  # of all rows; '' says the unnamed one to rows that may delete
    relation_column: str | None = None  # of the name of each row's relation
    via: tuple[str, ...] = ()  # of events, instead of dst: each is KIND:COLUMN or COLUMN
    may_lack_dst: bool = False  # an empty cell of dst is no edge, as one of via

    def __post_init__(self) -> None:
        for end in ("src", "dst"):
            if getattr(self, f"{end}_kind") is None:
                kind, column = split_column(getattr(self, end))
                object.__setattr__(self, end, column)
                object.__setattr__(self, f"{end}_kind", kind)
        object.__setattr__(self, "via", tuple(map(self._named_via, self.via)))
        self._check_kind_columns()
        for (argument, column), kind in zip(self._ends, self.said_kinds, strict=True):
            if any(self.said_kinds) and not kind:
                rule = f"must name the kind of its nodes, too, as KIND:{column}"
                if argument != "via":
                    rule += f", or {argument}_kind_column the column that says it"
                raise BadArgument(self.said(argument), f"{rule}, got {column!r}")
        if self.needs_weight is None:
            object.__setattr__(self, "needs_weight", self.weight != "weight")
        for argument, name in self.by_argument:
            if not name:
                raise BadArgument(self.said(argument), "must name a column, got ''")
            if list(self).count(name) > 1:
                raise BadArgument(
                    self.said(argument), f"must name a column of its own, got {name!r} twice"
                )
        self._check_relations()
        for name, known in _VALUES.items():
            value = getattr(self, name)
            if value is not None and value not in get_args(known):
                one_of = ", ".join(get_args(known))
                raise BadArgument(name, f"must be one of {one_of}, got {value!r}")
        for code in ("%Z", "%f"):
            if code in (self.time_format or ""):
                rule = f"must not have {code}, which is not read; %z reads offsets as +0200"
                raise BadArgument("time_format", f"{rule}, got {self.time_format!r}")
        names = [name for name in self if name not in {"weight", NO_COLUMN}]
        if len({name.startswith("#") for name in names}) > 1:
            raise BadArgument(
                self.said("src"),
                f"must be positions, #1, for all columns or for none, got {', '.join(names)}",
            )

    def _named_via(self, name: str) -> str:
        """A column of events with the kind of its nodes: its own name where that may be one."""
        kind, column = split_column(name)
        if (self.src_kind or self.src_kind_column) and not kind and KIND.fullmatch(column):
            kind = column
        return named_column(kind, column)

    def _check_kind_columns(self) -> None:
        for end, argument in zip(("src", "dst"), KIND_COLUMNS, strict=True):
            column, kind = getattr(self, argument), getattr(self, f"{end}_kind")
            if column and kind:
                rule = f"must be left out where {end} names the kind {kind!r}, got {column!r}"
                raise BadArgument(argument, rule)
        if self.via and self.dst_kind_column:
            rule = "must be left out where via names the kinds of its columns"
            raise BadArgument("dst_kind_column", f"{rule}, got {self.dst_kind_column!r}")

    def _check_relations(self) -> None:
        said = [name for name in RELATION_CHOICES if getattr(self, name)]
        if len(said) > 1:
            one_of = " or ".join(RELATION_CHOICES)
            rule = f"must stand alone, as one of {one_of} says the relations; leave {said[1]} out"
            raise BadArgument(said[0], f"{rule}, got {getattr(self, said[0])!r}")
        if self.via and self.dst != "dst":
            raise BadArgument(
                "dst",
                "must be left out where via joins src, the entity, with each of its columns; name "
                f"it in via, got {self.dst!r}",
            )
        if self.relation is not None and (self.relation or self.op is None):
            check_relation_name(self.relation)
        for name in self.via_columns:
            check_relation_name(name, argument="via")
        if len(self.via) > MOST_RELATIONS:
            rule = f"must name at most {MOST_RELATIONS} columns, got {len(self.via)}"
            raise BadArgument("via", rule)

    @property
    def has_cells(self) -> bool:
        """Whether rows may lack a node at their other ends, and are no edge there."""
        return bool(self.via) or self.may_lack_dst

    @property
    def via_columns(self) -> tuple[str, ...]:
        """Names of the columns of events, and of the relations that they make."""
        return tuple(split_column(each)[1] for each in self.via)

    @property
    def _ends(self) -> list[tuple[str, str]]:
        others = [("via", each) for each in self.via_columns] or [("dst", self.dst)]
        return [("src", self.src), *others]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the columns that hold nodes."""
        return tuple(name for _, name in self._ends)

    def said(self, argument: str) -> str:
        """What the caller calls an argument: ``src`` of events is their entity."""
        return "entity" if argument == "src" and self.via else argument

    @property
    def kinds_by_argument(self) -> dict[str, str]:
        """What each argument says of kinds, as `said_kinds`."""
        arguments = (self.said(argument) for argument, _ in self._ends)
        return dict(zip(arguments, self.said_kinds, strict=True))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the nodes of these columns; '' where the nodes have none."""
        others = [split_column(each)[0] for each in self.via] or [self.dst_kind or ""]
        return self.src_kind or "", *others

    @property
    def kind_columns(self) -> tuple[str | None, ...]:
        """Columns of the kind of each row's nodes, for `nodes`; None where there is none."""
        return self.src_kind_column, self.dst_kind_column, *(None for _ in self.via[1:])

    @property
    def said_kinds(self) -> tuple[str, ...]:
        """Kinds of the nodes of these columns, or what column says them; '' where nothing does."""
        both = zip(self.kinds, self.kind_columns, strict=True)
        return tuple(kind or column or "" for kind, column in both)

    @property
    def by_argument(self) -> list[tuple[str, str]]:
        """What every column is for, and its name."""
        names = *COLUMN_NAMES[2:], "relation_column", *KIND_COLUMNS
        named = [(name, getattr(self, name)) for name in names]
        return [*self._ends, *((argument, name) for argument, name in named if name is not None)]

    @property
    def by_place(self) -> list[tuple[str, str]]:
        """As `by_argument`, with columns of events numbered: via1, via2 and so on."""
        numbers = itertools.count(1)
        return [
            (f"via{next(numbers)}" if argument == "via" else argument, name)
            for argument, name in self.by_argument
        ]

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self.by_argument)

    @property
    def reading(self) -> dict[str, str | bool | tuple[str, ...] | None]:
        """All that decides how a table is read; times and relations only where there are some."""
        seldom = "time", *_KINDS, *KIND_COLUMNS, *READING_OPTIONS, *RELATION_CHOICES, "may_lack_dst"
        usual = {name: getattr(PLAIN, name) for name in seldom}
        said = {
            name: value
            for name, value in asdict(self).items()
            if name not in usual or value != usual[name]
        }
        for end in ("src", "dst"):  # a colon of the name's own says no kind
            if ":" in getattr(self, end):
                said[f"{end}_kind"] = getattr(self, f"{end}_kind")
        return said

    def watched(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are not read, but may ask for deletes by their names."""
        return [name for name in self.beside(names) if is_change_column(name)]

    def beside(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are not read, where deletes would matter that they ask for."""
        if self.op is not None and (self.op == NO_COLUMN or self.op in names):
            return []
        own, counts = set(self), Counter(names)
        return [name for name, count in counts.items() if count == 1 and name not in own]

    def states(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are not read, and may say that a row does not hold any more."""
        return [name for name in self.beside(names) if is_state_column(name)]

    def to_read(self, table: pa.Table | pa.RecordBatch) -> list[str]:
        """Those of the columns that a table has, and those that may ask for deletes.

        These are known by their names or first values.
        """
        names = table.schema.names
        further = columns_of_changes(table, set(self.beside(names)))
        return [name for name in self if name in names] + further

    def way_of_deletes(self, name: str) -> str | None:
        """How deletes in a column that is not read are carried out; None where none can be."""
        if self.op is None:
            return None
        return (
            f"and is not read for operations; say op={name!r} to carry them out, or "
            f"{way_of_edges(name)}"
        )

    def check(self, names: Sequence[str], *, row: int | None = None) -> None:
        """Raise BadEdges unless ``names`` holds every column once; say which ones are meant."""
        # a table of changes may delete alone, and what is deleted needs no time
        may_delete = self.op is not None and self.op in names
        is_needed = {"weight": self.needs_weight, "op": self.needs_op, "time": not may_delete}
        for argument, name in self.by_argument:
            count = names.count(name)
            if count > 1:
                raise BadEdges(
                    f"column {name!r} must stand once, the file has it {count} times; rename one",
                    argument=self.said(argument),
                    row=row,
                )
            alike = [other for other in names if bare_name(other) == bare_name(name)]
            if argument in names and name != NO_COLUMN:
                alike.append(argument)  # the usual name, where the graph has another
            if count == 0 and (is_needed.get(argument, True) or alike):
                held = ", ".join(excerpt(other) for other in names) or "no columns"
                is_end = argument in {"src", "dst"}
                meant = suggestion(names) if is_end and not self.via else ""
                if alike and not is_end:
                    meant = f"; say {argument}={alike[0]!r} where that is meant"
                raise BadEdges(
                    f"column {name!r} is missing; the file has {held}{meant}",
                    argument=self.said(argument),
                    row=row,
                )


def seen_name(name: str) -> str:
    """A name of a column without blanks around it, and without what shows nothing."""
    return _UNSEEN.sub("", name)


def bare_name(name: str) -> str:
    """A name of a column as it is compared where none is equal: as seen, in small letters."""
    return name if name == NO_COLUMN else seen_name(name).casefold()


PLAIN: Final = EdgeColumns()
"""Usual names of the columns."""

CHANGES: Final = EdgeColumns(op="op")
"""The same, where rows may say what they do."""


def suggestion(names: Sequence[str]) -> str:
    """Which columns look like ends, as the end of an error; or how to say it."""
    ends = obvious_ends(names)
    if {"before", "after"} <= set(names) or "payload" in names:
        return (
            "; rows must be flat: the transform ExtractNewRecordState of Debezium makes them so, "
            "and schemas.enable=false leaves their schema out"
        )
    if ends is None:
        return "; say src='COLUMN', dst='COLUMN' with the names of those that hold the ends"
    src, dst = ends
    return f"; where {src} and {dst} are the ends, say src={src!r}, dst={dst!r}"


def obvious_ends(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns that look like ends by their names; None where that is not obvious."""
    words = {name: _words(name) for name in names}
    pairs = [
        (one, other)
        for src, dst in _PAIRS
        for one, of_one in words.items()
        for other, of_other in words.items()
        if src in of_one and [dst if word == src else word for word in of_one] == of_other
    ]
    return pairs[0] if len(pairs) == 1 else None


def shared_word(src: str, dst: str) -> str | None:
    """What columns that look like two ends have both, account of from_account and to_account.

    It is '' where they say no more, as from and to, and None where they do not look so.
    """
    if obvious_ends((src, dst)) is None:
        return None
    return "_".join(word for word in _words(src) if word and word not in END_WORDS)


def is_directed(src: str, dst: str) -> bool:
    """Whether columns are called as those of who sends and who gets, as from_account and to."""
    return obvious_ends((src, dst)) == (src, dst) and not _SENDERS.isdisjoint(_words(src))


def _words(name: str) -> list[str]:
    return _BETWEEN_WORDS.split(name.lower().removesuffix("id"))
