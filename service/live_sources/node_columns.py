"""Columns of rows about one node: its label, or its features."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import pyarrow as pa

from peewit.service.tables.uploads.feature_deletes import asks_for_deletes
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.change_columns import columns_of_changes, is_state_column
from peewit.streaming.edges.node_kinds import split_column

Holds = Literal["edges", "labels", "features"]
"""What the rows of a source are."""

HOLDS: Final[tuple[Holds, ...]] = get_args(Holds)

PLACE: Final = "place"
"""Column of a chunk with the place of each row, for people."""

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "labels": ("node", "label", "op"),
    "features": ("node", "features", "indices", "values", "op"),
}
KEEP_WORD: Final = "keep_word"
"""Option of a source of labels: words, with commas between, that are labels and not nothing."""

_FIXED: Final = ("features", "indices", "values")


def shown_holding(holds: Holds, label_column: str | None) -> str:
    """What the rows of a source are, for people, such as ``labels of risk``."""
    return holds if label_column is None else f"{holds} of {label_column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumns:
    """Names of the columns of a source of labels or features.

    A null label removes it. Features are ``features``, or ``indices`` and ``values``. Without the
    ``op`` column (`peewit.streaming.edges.operations`) every row sets; ``needs_op`` requires it.
    Raises ValueError for a name that is empty or stands twice.
    """

    holds: Literal["labels", "features"]
    node: str = "node"
    of_kind: str | None = None  # the nodes; by default as KIND:COLUMN says, else ''
    label: str = "label"
    op: str = "op"
    needs_op: bool = False

    def __post_init__(self) -> None:
        if self.of_kind is None:
            kind, column = split_column(self.node)
            object.__setattr__(self, "of_kind", kind)
            object.__setattr__(self, "node", column)
        names = list(self)
        for argument, name in self.by_argument:
            if not name:
                raise BadArgument(argument, "must name a column, got ''")
            if names.count(name) > 1:
                raise BadArgument(argument, f"must name a column of its own, got {name!r} twice")

    @classmethod
    def of_names(
        cls,
        holds: Literal["labels", "features"],
        graph: Mapping[str, str],
        names: Mapping[str, str],
    ) -> "NodeColumns":
        """Names of the columns: those given, else the graph's of nodes and labels.

        Raises ValueError where a column is named that such rows do not have.
        """
        mine = [name for name in _NAMES[holds] if name not in _FIXED]
        options = [KEEP_WORD] if holds == "labels" else []
        for name in names:
            if name not in (*mine, *options):
                known = ", ".join((*mine, *options))
                raise BadArgument("columns", f"must name {known} alone, got {name!r}")
        names = {name: each for name, each in names.items() if name != KEEP_WORD}
        usual = {name: graph[name] for name in ("node", "label") if name in graph}
        return cls(holds=holds, needs_op="op" in names, **{**usual, **names})

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the columns that hold nodes."""
        return (self.node,)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the nodes of each; '' where they have none."""
        return (self.of_kind or "",)

    @property
    def by_argument(self) -> list[tuple[str, str]]:
        """Every column as its argument and its name."""
        own = {"node": self.node, "label": self.label, "op": self.op}
        return [(argument, own.get(argument, argument)) for argument in _NAMES[self.holds]]

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self.by_argument)

    def beside(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are not read, and may ask for deletes.

        Beside features, whose columns may hold anything, by their names alone.
        """
        if self.op in names:
            return []
        own, counts, is_any = set(self), Counter(names), self.holds == "labels"
        return [
            name
            for name, count in counts.items()
            if count == 1 and name not in own and (is_any or asks_for_deletes(name))
        ]

    def states(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are not read, and may say that a row does not hold any more."""
        return [name for name in self.beside(names) if is_state_column(name)]

    def to_read(self, table: pa.Table) -> list[str]:
        """Those of the columns that a table has, and those that may ask for deletes."""
        names = table.schema.names
        further = columns_of_changes(table, set(self.beside(names)))
        return [name for name in self if name in names] + further

    def way_of_deletes(self, name: str) -> str:
        """How deletes in a column that is not read are carried out."""
        return f"which is not read; say op={name!r} of the source, or take the column out"

    def check(self, names: Sequence[str]) -> None:
        """Raise `BadUpload` unless ``names`` has every required column, and none twice."""
        needed = {"node", "label"} | ({"op"} if self.needs_op else set())
        for argument, name in self.by_argument:
            if names.count(name) > 1:
                raise BadUpload(f"column {name!r} must stand once", argument=argument)
            if argument in needed and name not in names:
                raise self._missing(argument, repr(name), names)
        if self.holds == "features" and not self.are_features(names):
            raise self._missing("features", "'features', or 'indices' and 'values',", names)

    def are_features(self, names: Sequence[str]) -> bool:
        """Whether some of the columns hold features."""
        return "features" in names or {"indices", "values"} <= set(names)

    def _missing(self, argument: str, what: str, names: Sequence[str]) -> BadUpload:
        held = ", ".join(map(excerpt, names)) or "no columns"
        return BadUpload(f"column {what} is missing; there is {held}", argument=argument)
