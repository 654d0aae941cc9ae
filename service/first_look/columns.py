"""What the columns of a table hold, by their names and by their first rows."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal
from unicodedata import combining, normalize

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.first_look.changes import NO_CHANGE, TableChange
from peewit.service.tables.table_heads import table_head
from peewit.service.tables.uploads.raw_features import table_columns
from peewit.streaming.edges.column_mapping import END_WORDS, obvious_ends
from peewit.streaming.edges.table_formats import Format, format_of_file, unpacked

SAMPLE_ROWS: Final = 1_000_000
"""Rows of a table that are looked at."""

Holds = Literal["ids", "numbers", "words", "truth values", "times", "nothing"]

_ID_WORDS: Final = frozenset({"id", "key", "uuid", "guid", "node", "nr", "no", "ref", "hash"})
_THINGS: Final = frozenset(
    (
        *("account", "author", "card", "client", "company", "customer", "device", "domain"),
        *("email", "employee", "host", "ip", "item", "listing"),
        *("member", "merchant", "movie", "order", "page", "paper", "person", "phone", "post"),
        *("product", "session", "shop", "user", "wifi", "msisdn", "iban", "imei", "tx"),
    )
)
"""Things that people number."""
_SIDES: Final = END_WORDS | {
    *("cited", "citing", "payer", "payee", "follower", "followee", "followed", "orig", "dest"),
    *("origin", "seller", "buyer", "owner", "creator", "reporter", "recipient", "friend"),
    *("caller", "called", "callee", "referring", "referred"),
}
"""Words that say on which side of an edge a thing stands, not what it is."""

_NAMED_KINDS: Final = frozenset({"src_kind", "dst_kind"})
_TRUTH: Final = frozenset({"0", "1", "true", "false", "yes", "no", "t", "f", "y", "n"})
_TIME: Final = r"^(\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})([T ]\d\d:\d\d.*)?$"
_WHOLE: Final = r"^-?\d{1,18}$"
_NUMBER: Final = r"^-?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?$"
_PADDED: Final = r"^0\d"
_POINTED: Final = r"^-?\d+\.0+$"
_SEPARATED: Final = "[|;,]"
_NO_NAMES: Final = "#1"
_PLACES_OF_IDS: Final = (_NO_NAMES, "#2")
"""Where a table without names of columns may have ids."""
_WORDS: Final = re.compile(r"[^a-z0-9]+|(?<=[a-z])(?=[0-9])")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_ID: Final = 80
_MOST_WITH_PARTS: Final = 0.3
_LEAST_SHARED: Final = 0.5
_UNIQUE: Final = 0.98
"""Distinct values of a column, relative to its rows, from which a row is about one of them."""
MOST_CLASSES: Final = 30
"""Distinct values of a column up to which they may be classes, and no ids."""
_LEAST_DISTINCT: Final = 0.02
"""Distinct values of ids, relative to how many there are; those of categories repeat more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnLook:
    """One column."""

    name: str
    holds: Holds
    distinct: pa.Array  # its values as text
    counts: Mapping[str, int]  # rows of each value, where there are few
    n_filled: int  # rows that have one
    thing: str = ""  # what its ids name, where its name does not say so

    @property
    def stem(self) -> str:
        """What its name says of the things it names: account of ``from_account_id``, or ''."""
        if self.thing:
            return self.thing
        return "_".join(each for each in words_of(self.name) if each not in _ID_WORDS | _SIDES)

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        return _all(self.distinct, _WHOLE)

    @property
    def are_codes(self) -> bool:
        """Whether its values are digits that some zeros begin, so that they are no quantities."""
        padded = pc.match_substring_regex(self.distinct, _PADDED)
        return self.is_whole and bool(pc.any(padded).as_py())

    @property
    def are_pointed_ids(self) -> bool:
        """Whether it is called as ids are, and holds whole numbers with a point, as 123.0."""
        words = words_of(self.name)
        is_called_so = _names_thing(words) or not _ID_WORDS.isdisjoint(words)
        return self.holds == "numbers" and is_called_so and _all(self.distinct, _POINTED)

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return _all(self.distinct, _NUMBER)

    @property
    def is_unique(self) -> bool:
        """Whether hardly a value stands twice."""
        return len(self.distinct) >= _UNIQUE * self.n_filled > 0

    def share_in(self, other: "ColumnLook") -> float:
        """Share of its values that another column has, too."""
        if not len(self.distinct):
            return 0.0
        return self.n_shared(other) / len(self.distinct)

    def n_shared(self, other: "ColumnLook") -> int:
        """How many of its values another column has, too."""
        return int(pc.sum(pc.is_in(self.distinct, value_set=other.distinct)).as_py() or 0)

    def likeness(self, other: "ColumnLook") -> float:
        """Values that both have, of those that either has."""
        n_shared = self.n_shared(other)
        return n_shared / max(len(self.distinct) + len(other.distinct) - n_shared, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableLook:
    """The first rows of one table."""

    path: Path
    columns: dict[str, ColumnLook]
    n_rows: int  # that were looked at
    is_whole: bool  # whether these are all
    first: str  # name of its first column; #1 where the first line holds data, as places are names
    change: TableChange = NO_CHANGE  # what somebody says of it

    @property
    def stem(self) -> str:
        """The name of the file without its endings, in words."""
        return "_".join(words_of(self.path.name.split(".")[0])) or "table"

    @property
    def ends(self) -> tuple[str, str] | None:
        """Columns that are called as two ends of an edge, or are said to be these."""
        src, dst = self.change.column("src"), self.change.column("dst")
        if src and dst:
            return src, dst
        found = _ends(list(self.columns))
        if found is None or any(self.change.is_of_ids(each) is False for each in found):
            return None
        if src in found or dst in found:
            is_turned = src == found[1] or dst == found[0]
            return (found[1], found[0]) if is_turned else found
        return None if src else found

    @property
    def has_names(self) -> bool:
        """Whether its columns have names, not only places."""
        return self.first != _NO_NAMES

    @property
    def names_kinds(self) -> bool:
        """Whether each row says of what kinds its ends are, in the usual columns."""
        return self.columns.keys() >= _NAMED_KINDS

    @property
    def ids(self) -> list[ColumnLook]:
        """The columns of ids."""
        return [each for each in self.columns.values() if each.holds == "ids"]


def words_of(name: str) -> list[str]:
    """Words of a name: parted by what is no letter, by digits, which are none, and by capitals."""
    bare = "".join(each for each in normalize("NFKD", name) if not combining(each))
    words = [word for word in _WORDS.split(_CAMEL.sub("_", bare).lower()) if not word.isdigit()]
    parted = [(word[:-2], "id") if word[:-2] in _THINGS | _SIDES else (word,) for word in words]
    return [
        part
        for word, parts in zip(words, parted, strict=True)
        for part in (parts if word.endswith("id") else (word,))
        if part
    ]


def look_at(path: Path) -> TableLook:
    """Look at a file; raises ValueError with its name where it cannot be read as a table."""
    try:
        table_format, compression = format_of_file(path.name)
        with unpacked(path, compression) as file:
            head = table_head(file, table_format, max_columns=math.inf)
            first = _NO_NAMES if _are_values(head.names) else head.names[0]
            file.seek(0)
            look = _look(path, file, table_format, first)
            if table_format is Format.CSV and look.has_names and _holds_its_names(look):
                file.seek(0)
                look = _look(path, file, table_format, _NO_NAMES)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return look


def _look(path: Path, file: BinaryIO, table_format: Format, first: str) -> TableLook:
    n_rows, batches, has_names = 0, [], first != _NO_NAMES
    for batch in table_columns(file, table_format, first=first):
        batches.append(batch.slice(0, SAMPLE_ROWS - n_rows))
        n_rows += batch.num_rows
        if n_rows > SAMPLE_ROWS:
            break
    names = [name for name in batches[0].schema.names if _is_named(name)] if batches else []
    values = {
        name: pa.chunked_array([_texts(each.column(name)) for each in batches]) for name in names
    }
    ends = (_ends(names) or ()) if has_names else _unnamed_ids(values)
    looks = {name: _column(name, values[name], is_end=name in ends) for name in names}
    return TableLook(
        path=path,
        columns=looks,
        n_rows=min(n_rows, SAMPLE_ROWS),
        is_whole=n_rows <= SAMPLE_ROWS,
        first=first,
    )


def _are_values(names: Sequence[str]) -> bool:
    """Whether the same number stands twice where names should."""
    numbers = [name for name in names if re.match(_NUMBER, name)]
    return len(set(numbers)) < len(numbers)


def _holds_its_names(look: TableLook) -> bool:
    """Whether what should be a name stands among the values, too, so that it is one of these."""
    known = _ID_WORDS | _THINGS | _SIDES
    called = [name for name in look.columns if not known.isdisjoint(words_of(name))]
    if any(not re.search(r"\d{2}", name) for name in called):  # u1 may be a name, u103 is none
        return False
    return not _count_on(list(look.columns)) and any(
        pc.is_in(pa.scalar(name), value_set=each.distinct).as_py()
        for name, each in look.columns.items()
        if len(each.distinct)
    )


def _count_on(names: Sequence[str]) -> bool:
    """Whether several names are numbers that count on, as pandas calls columns."""
    numbers = [int(name) for name in names if re.match(_WHOLE, name)]
    first = numbers[0] if numbers else 0
    return len(numbers) > 1 and numbers == list(range(first, first + len(numbers)))


def _unnamed_ids(values: Mapping[str, pa.ChunkedArray]) -> list[str]:
    """Columns without names that seem to hold ids: the first, and the second if it has many.

    Where the first has a row for each id, a second that repeats much describes it, as a month does.
    """
    if not (places := [name for name in _PLACES_OF_IDS if name in values]):
        return []
    filled = [values[name].drop_null() for name in places]
    distinct = [pc.unique(each) for each in filled]
    found = places[:1] if len(distinct[0]) else []
    if len(places) < len(_PLACES_OF_IDS) or not len(distinct[1]):
        return found
    is_like_first = (
        pc.mean(pc.is_in(distinct[1], value_set=distinct[0]).cast(pa.int8())).as_py()
        >= _LEAST_SHARED
    )
    is_by_row = len(distinct[0]) >= _UNIQUE * len(filled[0])
    fewest = max(MOST_CLASSES, _LEAST_DISTINCT * len(filled[1]) if is_by_row else 0)
    return places if is_like_first or len(distinct[1]) > fewest else found


def _is_named(name: str) -> bool:
    """Whether a column has a name of its own; one that counts rows often has none."""
    return bool(name.strip()) and not name.lower().startswith("unnamed:")


def _ends(names: Sequence[str]) -> tuple[str, str] | None:
    others = [name for name in names if name not in _NAMED_KINDS]
    return obvious_ends(others if set(names) >= _NAMED_KINDS else names)


def _texts(column: pa.Array) -> pa.Array:
    """Values as text, whole numbers without a point; None for empty ones."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)  # as pandas writes gaps
        whole = pc.equal(pc.floor(column), column)
        if pc.all(whole).as_py() and (pc.max(pc.abs(column)).as_py() or 0) < 2**53:
            column = column.cast(pa.int64())
    texts = column.cast(pa.string())
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _column(name: str, values: pa.ChunkedArray, *, is_end: bool) -> ColumnLook:
    filled = values.drop_null()
    distinct = pc.unique(filled)
    return ColumnLook(
        name=name,
        holds=_holds(name, distinct, len(filled), is_end=is_end),
        distinct=distinct,
        counts=_counts(filled) if len(distinct) <= MOST_CLASSES else {},
        n_filled=len(filled),
    )


def _holds(name: str, distinct: pa.Array, n_filled: int, *, is_end: bool) -> Holds:
    if len(distinct) < 2:
        return "nothing"
    if {each.lower() for each in distinct[:3].to_pylist()} <= _TRUTH and len(distinct) == 2:
        return "truth values"
    if _all(distinct, _TIME):
        return "times"
    words, has_many = words_of(name), len(distinct) > MOST_CLASSES
    may_be_ids = has_many or len(distinct) == n_filled
    is_thing = may_be_ids and _names_thing(words)
    is_called_so = is_end or is_thing or not _ID_WORDS.isdisjoint(words)
    if _all(distinct, _WHOLE):
        return "ids" if is_called_so else "numbers"
    if _all(distinct, _NUMBER):
        return "numbers"
    if is_called_so or (words[-1:] != ["name"] and _are_ids(distinct, n_filled)):
        return "ids"
    return "words"


def _names_thing(words: Sequence[str]) -> bool:
    """Whether words of a name say what is numbered, and nothing else."""
    return bool(words) and (_THINGS | _SIDES).issuperset(words)


def _are_ids(distinct: pa.Array, n_filled: int) -> bool:
    """Whether words are names of things: more of them than of classes, short and without blanks."""
    if len(distinct) <= max(MOST_CLASSES, _LEAST_DISTINCT * n_filled):
        return False
    if pc.max(pc.utf8_length(distinct)).as_py() > _LONGEST_ID:
        return False
    has_parts = pc.match_substring_regex(pc.utf8_trim_whitespace(distinct), f"\\s|{_SEPARATED}")
    return float(pc.mean(has_parts.cast(pa.int8())).as_py()) <= _MOST_WITH_PARTS


def _counts(values: pa.ChunkedArray) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in pc.value_counts(values).to_pylist()}


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())
