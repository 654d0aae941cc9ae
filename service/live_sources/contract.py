"""Contract of live sources: read from a position, in chunks that each end at the next one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa

from peewit.service.live_sources.node_columns import NodeColumns
from peewit.streaming.edges.blocks import MAX_NODES
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.node_kinds import NodeKind

Position = Mapping[str, Any]
"""How far a source is read: a small JSON object, whose keys are the kind's own.

``id`` may name what it is a position of, and is not shown to people.
"""


def shown_position(position: Position | None) -> str:
    """A position for people, such as ``version 41``."""
    if position is None:
        return "nothing"
    return ", ".join(f"{name} {_shown(value)}" for name, value in position.items() if name != "id")


def _shown(value: object) -> str:
    """A value, or several by name, such as ``0:17 1:4``."""
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(f"{name}:{each}" for name, each in value.items())


class ChangesLost(RuntimeError):
    """What comes after the position is not there any more; says what is, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a source is to be read.

    Attributes
    ----------
    url : str
        Where it is.
    columns : EdgeColumns or NodeColumns
        What its rows hold, and what their columns are called.
    takes_changes : bool
        Whether the graph can take deletes and sets: of edges, if its deletions are on and of a pair
        of nodes it keeps the last edge alone.
    node_kind : {"string", "int64", "dense"}
        What the ids of the graph are.
    max_nodes : int
        Bound of dense ids.
    allows : callable
        Whether a path that the source leads to may be read.
    """

    url: str
    columns: EdgeColumns | NodeColumns
    takes_changes: bool
    node_kind: NodeKind = "string"
    max_nodes: int = MAX_NODES
    allows: Callable[[str], bool] = lambda _path: True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that is not taken, such as a message that cannot be read.

    Attributes
    ----------
    place : str
        Where it stands, as people look for it.
    reason : str
        The rule that it breaks.
    """

    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """What came after a position.

    Attributes
    ----------
    position : Position
        Everything up to here is in this chunk or in those before.
    label : str
        Names it for people, of letters, digits and dashes.
    table : pyarrow.Table, optional
        Rows, which take effect in their order; None where there are none. Columns are called by
        what they are for, as `Access.columns` has it: of edges ``src``, ``dst`` and, where they are
        known, ``weight``, ``op`` and ``time``. Rows of nodes may have `PLACE`, and JSON where a
        column holds values of several types. Whether they fulfil the data contract is for whoever
        takes them to see.
    refused : sequence of Refused
        What was left out of the table.
    """

    position: Position
    label: str
    table: pa.Table | None = None
    refused: Sequence[Refused] = field(default_factory=tuple)


class LiveSource(Protocol):
    """A source that is open; one thread at a time uses it.

    Any method may raise what its store raises: it is told with the source, which is closed, left
    alone for a while and opened again. `ChangesLost` says that waiting does not help.

    Attributes
    ----------
    unit : str
        What `lag` counts, in the plural.
    """

    unit: ClassVar[str]

    @classmethod
    def open(cls, access: Access) -> Self:
        """The source; the first to look whether anything is there may be `read`.

        Raises
        ------
        ValueError
            There can be no such source at this URL.
        """

    @classmethod
    def start(cls, start: str) -> Position:
        """The position that somebody names to begin after.

        Raises
        ------
        ValueError
            It names none.
        """

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """Chunks after a position, None for the very beginning, until there is nothing more now.

        Equal positions give equal rows, as long as nothing is lost; those of several parts that
        only have an order within themselves, as partitions of a topic do, may come in another one.

        Parameters
        ----------
        position : Position, optional
            Of a chunk of this source.
        most_rows : int
            Rows at which a chunk ends.
        should_stop : callable
            Asked between pieces; once true, the iterator ends.
        """

    def lag(self, position: Position | None) -> int:
        """How much came after a position that is not read yet, in `unit`; asked after `read`."""

    def holds(self, ids: pa.Array) -> bool:
        """Whether any of some nodes stands in the source as it is now."""

    def close(self) -> None:
        """Let go of connections."""
