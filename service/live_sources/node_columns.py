"""Columns of rows about one node: its label, or its features."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import pyarrow as pa

from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.change_columns import is_change_column, require_no_deletes
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

    def of(self, names: Sequence[str]) -> list[str]:
        """Those of the columns that a table has, and those that may ask for deletes."""
        return [name for name in self if name in names] + self.watched(names)

    def watched(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are not read, but may ask for deletes by their names."""
        others = () if self.op in names else names
        return [name for name in others if is_change_column(name) and name not in list(self)]

    def require_no_deletes(self, column: pa.Array | pa.ChunkedArray, name: str) -> None:
        """Raise `BadEdges` with the first row that asks for a delete, in a watched column."""
        way = f"which is not read; say op={name!r} of the source, or take the column out"
        require_no_deletes(column, name, 0, way=way)

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
