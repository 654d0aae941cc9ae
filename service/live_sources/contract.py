"""Contract of live sources: read from a position, in chunks that each end at the next one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, Self

import pyarrow as pa

from peewit.service.live_sources.node_columns import NodeColumns
from peewit.streaming.edges.blocks import MAX_NODES
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.node_kinds import NodeKind

Position = Mapping[str, Any]
"""How far a source is read: a small JSON object with keys of the kind's own.

``id`` may identify what it is a position of, and is not shown to people; nor is `UNREAD`.
"""

UNREAD: Final = "unread"
"""Key of what columns that nobody reads held up to a position, as of `UnreadColumns`."""


def shown_position(position: Position | None) -> str:
    """A position as text for people, such as ``version 41``."""
    if position is None:
        return "nothing"
    shown = {name: value for name, value in position.items() if name not in {"id", UNREAD}}
    return ", ".join(f"{name} {_text(value)}" for name, value in shown.items())


def _text(value: object) -> str:
    """A value as text, or several by name, such as ``0:17 1:4``."""
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(f"{name}:{part}" for name, part in value.items())


class ChangesLost(RuntimeError):
    """What comes after the position is gone; the text says what is left and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a source shall be read.

    A graph takes changes of edges if its deletions are on and it keeps only the last edge of a
    pair.
    """

    url: str
    columns: EdgeColumns | NodeColumns  # what rows hold, and the names of their columns
    takes_changes: bool  # whether the graph accepts deletes and sets
    node_kind: NodeKind = "string"
    max_nodes: int = MAX_NODES  # bound of dense ids
    allows: Callable[[str], bool] = lambda _path: True  # whether a path may be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that is not taken, such as an unreadable message."""

    place: str  # where it is, for people
    reason: str  # the rule that it breaks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """What came after a position.

    Rows of ``table`` take effect in order; it is None without rows. Its columns are named by
    argument of `Access.columns`: of edges ``src``, ``dst`` and, where known, ``weight``, ``op`` and
    ``time``; of events ``via1``, ``via2`` and so on for ``dst``. Rows of nodes may have `PLACE`,
    and JSON where a column holds values of several types.
    Whoever takes the rows checks them by the data contract.
    """

    position: Position  # all up to here is in this chunk or earlier ones
    label: str  # for people: letters, digits and dashes
    table: pa.Table | None = None
    refused: Sequence[Refused] = field(default_factory=tuple)  # what was left out of ``table``


class LiveSource(Protocol):
    """A source that is open; used by one thread at a time.

    Any method may raise what its store raises: the error is shown with the source, which is closed
    and opened again after a while. `ChangesLost` says that waiting does not help.
    """

    unit: ClassVar[str]  # what `lag` counts, in the plural

    @classmethod
    def open(cls, access: Access) -> Self:
        """The source; only `read` checks that something is there.

        Raises ValueError for a URL that such a source cannot have.
        """

    @classmethod
    def start(cls, start: str) -> Position:
        """The position to begin after, as a person names it; raises ValueError for none."""

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """Chunks after a position, None for the very beginning, until there is nothing more now.

        Equal positions give equal rows, as long as nothing is lost; parts that are ordered only
        within themselves, as partitions of a topic, may come in another order. A chunk ends at
        ``most_rows`` rows. The iterator ends once ``should_stop``, asked between pieces, is true.
        """

    def lag(self, position: Position | None) -> int:
        """Unread amount after a position, in `unit`; called after `read`."""

    def holds(self, ids: pa.Array) -> bool:
        """Whether any of some nodes is in the source as it is now."""

    def close(self) -> None:
        """Release connections."""
