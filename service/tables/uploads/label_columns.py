"""Columns of a table of labels, and the names that columns of labels can have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from peewit.service.tables.uploads.givers import LABEL_TIME, TIME
from peewit.service.tables.uploads.label_words import USUAL_WORDS, LabelWords
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.node_kinds import split_column
from peewit.streaming.edges.reading_options import Contradictions, NodelessRows, Quote

MAX_COLUMN_BYTES: Final = 200
"""Most bytes of the name of a column of labels."""

MAX_LABEL_COLUMNS: Final = 100
"""Most columns of labels in one call."""

COLUMN_NAME_RULE: Final = (
    f"must be printable text of 1 to {MAX_COLUMN_BYTES} bytes without white space around it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelColumns:
    """Columns of a table: of nodes, of labels, each for a column of the graph, and of givers.

    Every row has a ``label``; empty cells of ``names``, which stand instead of it, say nothing.
    """

    node: str = "node"
    of_kind: str | None = None  # the nodes; by default as KIND:COLUMN says, else ''
    label: str = "label"
    into: str = ""  # the graph's column for ``label``
    names: tuple[str, ...] = ()  # of the graph's columns, too
    givers: tuple[str, ...] = ()  # of `GIVER_COLUMNS`; read where the table has them
    givers_named: Mapping[str, str] = field(default_factory=dict)  # columns called otherwise
    time: str | None = None  # by which the last is the latest; `TIME` if all rows have it; '' none
    graph_names: Mapping[str, str] = field(default_factory=dict)  # its names of givers and times
    words: LabelWords = USUAL_WORDS  # that mean no label
    quote: Quote | None = None  # of CSV
    missing_ids: NodelessRows = "refuse"  # of nodes
    contradictions: Contradictions = "refuse"  # of rows that give a node different labels

    def __post_init__(self) -> None:
        if self.of_kind is None:
            kind, column = split_column(self.node)
            object.__setattr__(self, "of_kind", kind)
            object.__setattr__(self, "node", column)

    @property
    def of_labels(self) -> tuple[str, ...]:
        """The table's columns of labels."""
        return self.names or (self.label,)

    @property
    def of_graph(self) -> tuple[str, ...]:
        """The graph's column for each of them."""
        return self.names or (self.into,)

    @property
    def arguments(self) -> tuple[str, ...]:
        """What errors call each of them."""
        return self.names or ("label",)

    @property
    def all(self) -> tuple[str, ...]:
        """That of nodes and those of labels."""
        return self.node, *self.of_labels

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that a table must have: those of nodes and labels, and others that are named."""
        return *self.all, *self.givers_named.values(), *filter(None, (self.time,))

    @property
    def beside(self) -> tuple[str, ...]:
        """Those of givers and times, unless nodes or labels are called so."""
        names = *self.giver_of, *self.times
        return tuple(name for name in names if name not in self.all)

    @property
    def giver_of(self) -> dict[str, str]:
        """What each column of givers says, by the column's name; of two, the latter holds."""
        by_column: dict[str, str] = {}
        for giver in self.givers:
            usual = dict.fromkeys((giver, self.graph_names.get(giver, giver)), giver)
            called = self.givers_named.get(giver)
            by_column |= usual if called is None else {called: giver}
        return by_column

    @property
    def times(self) -> tuple[str, ...]:
        """Columns of times, the first of which that a table has is heeded."""
        if self.contradictions != "last" or self.time == "":
            return ()
        usual = dict.fromkeys((self.graph_names.get(LABEL_TIME, TIME), TIME))
        return tuple(usual) if self.time is None else (self.time,)

    def require_names(self) -> None:
        """Refuse invalid ``names``, too many, or the same twice, and times that nobody asks for."""
        if self.time and self.contradictions != "last":
            raise BadUpload(
                f"time_column={self.time!r} is for contradictions='last', by which the latest "
                "label of a node holds; say it, or leave the column out",
                argument="time_column",
                value=self.time,
            )
        for argument, name in {**self.givers_named, "time": self.time}.items():
            if name and self.needed.count(name) > 1:
                raise BadUpload(
                    "columns must be different ones", argument=f"{argument}_column", value=name
                )
        if len(self.names) > MAX_LABEL_COLUMNS:
            raise BadUpload(
                f"label_column must name at most {MAX_LABEL_COLUMNS} columns, "
                f"got {len(self.names)}",
                argument="label_column",
            )
        for place, name in enumerate(self.names):
            if not is_column_name(name):
                raise BadUpload(
                    f"label_column {COLUMN_NAME_RULE}, got {excerpt(name)}",
                    argument="label_column",
                    value=excerpt(name),
                )
            if name == self.node or name in self.names[:place]:
                raise BadUpload(
                    f"label_column must name each column once, and not that of nodes, got {name!r}",
                    argument="label_column",
                    value=name,
                )


PLAIN_LABELS: Final = LabelColumns()
"""The default names."""


def is_column_name(name: str) -> bool:
    """Whether a column of labels can have this name."""
    is_plain = bool(name) and name == name.strip() and name.isprintable()
    return is_plain and len(name.encode()) <= MAX_COLUMN_BYTES
