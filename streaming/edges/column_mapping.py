"""Column mapping: which columns of a table are the ends and the weight of its edges."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.blocks import BadEdges, excerpt

_PAIRS: Final = (
    ("src", "dst"),
    ("source", "target"),
    ("source", "destination"),
    ("from", "to"),
    ("u", "v"),
    ("head", "tail"),
    ("sender", "receiver"),
)
"""Names that columns of ends often have, in any case and with ``_id``, ``id`` or ``_node``."""

_ENDINGS: Final = ("", "_id", "id", "_node", "node", "nodeid")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeColumns:
    """Names that the columns of an edge table have where it comes from.

    A name ``#k`` is the k-th column, from 1, of text without a header line.

    Attributes
    ----------
    src, dst : str
        The two ends of an edge.
    weight : str
        Its weight. A table may lack it under its usual name, and then every weight is 1.

    Raises
    ------
    ValueError
        A name is empty or stands twice, or names and positions are mixed.
    """

    src: str = "src"
    dst: str = "dst"
    weight: str = "weight"

    def __post_init__(self) -> None:
        names = asdict(self)
        for argument, name in names.items():
            if not name:
                raise BadArgument(argument, "must name a column, got ''")
            if list(names.values()).count(name) > 1:
                raise BadArgument(argument, f"must name a column of its own, got {name!r} twice")
        given = [name for name in self if name != "weight"]
        if len({name.startswith("#") for name in given}) > 1:
            raise BadArgument(
                "src", f"must be positions, #1, for all columns or for none, got {', '.join(given)}"
            )

    def __iter__(self) -> Iterator[str]:
        return iter((self.src, self.dst, self.weight))

    @property
    def is_weight_named(self) -> bool:
        """Whether somebody said which column is the weight, so that it has to be there."""
        return self.weight != "weight"

    def of(self, names: Sequence[str]) -> list[str]:
        """Those of the columns that a table has."""
        return [name for name in self if name in names]

    def check(self, names: Sequence[str], *, row: int | None = None) -> None:
        """Raise BadEdges unless ``names`` holds every column once; say which ones are meant."""
        for argument, name in asdict(self).items():
            count = names.count(name)
            if count > 1:
                raise BadEdges(
                    f"column {name!r} must stand once, the file has it {count} times",
                    argument=argument,
                    row=row,
                )
            if count == 0 and (argument != "weight" or self.is_weight_named):
                held = ", ".join(excerpt(each) for each in names) or "no columns"
                raise BadEdges(
                    f"column {name!r} is missing; the file has {held}{suggestion(names)}",
                    argument=argument,
                    row=row,
                )


PLAIN: Final = EdgeColumns()
"""The names that columns have when nobody says otherwise."""

COLUMN_NAMES: Final = tuple(each.name for each in fields(EdgeColumns))


def suggestion(names: Sequence[str]) -> str:
    """Which columns look like ends, as the end of an error; empty where that is not obvious."""
    lowered: dict[str, list[str]] = {}
    for name in names:
        lowered.setdefault(name.lower(), []).append(name)
    found = [
        (*lowered[src + ending], *lowered[dst + ending])
        for src, dst in _PAIRS
        for ending in _ENDINGS
        if src + ending in lowered and dst + ending in lowered
    ]
    if len(found) != 1 or len(found[0]) != 2:
        return ""
    src, dst = found[0]
    return f"; where {src} and {dst} are the ends, say --src {src} --dst {dst}"
