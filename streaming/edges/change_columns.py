"""Columns by which tables say that a row is a delete, where nobody reads operations.

Names of change feeds (Debezium, Delta, Flink, SQL Server, Snowflake, AWS DMS and others) are known
in any case and with whatever stands between their words. A column of another name is one by its
values: it has few, and these are operations, or some say ``delete`` beyond doubt.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import BoolArray
from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.operations import (
    DELETE,
    FLAGS,
    OPERATION_NUMBERS,
    operations_named,
    words_of,
)
from peewit.streaming.edges.plain_types import is_text, plain_column, plain_type, text_bytes

LOOKED_AT: Final = 100
"""First rows of a column that tell whether it is looked at whole."""

_ROWS_OF_STATES: Final = 10_000
"""First rows by which columns are told that say that rows do not hold any more."""

_MOST_WORDS: Final = 16
"""Most different values of the first rows of a column that is looked at whole."""

_MOST_OF_ALL: Final = 64
"""Most different values of all rows of a column that may hold operations."""

_MOST_COLUMNS: Final = 64
"""Columns whose words are known over several tables; further ones are judged by each alone."""

_NAMES: Final = frozenset(
    {
        *("op", "optype", "operation", "operationtype", "cdcop", "cdcoperation", "changetype"),
        *("rowkind", "metadataaction", "action", "eventtype", "eventname"),
    }
)
_SIGNS: Final = frozenset({"sign", "diff", "mzdiff"})
"""Columns that add with 1 and take away with -1."""

_FLAG: Final = re.compile(rf"(?<!un)({'|'.join(FLAGS)})$")
_DATE: Final = re.compile(
    r"(deleted|deletion|removed|removal)(at|on|date|time|timestamp|ts)$|^date(deleted|removed)$"
)
_BETWEEN_WORDS: Final = re.compile(r"[\s_$.:-]+")

_WORD: Final = re.compile(r"[+-]?[^\W\d](\w|-){0,31}")
_WORDS: Final = {
    *OPERATION_NUMBERS,
    *("inserted", "ins", "create", "created", "add", "added", "read", "snapshot"),
    *("update", "updated", "upd", "upsert", "modify", "modified", "replace", "merge"),
    *("bootstrap-start", "bootstrap-insert", "bootstrap-complete"),
} - {"1", "-1"}
_DELETES: Final = {word for word, number in OPERATION_NUMBERS.items() if number == DELETE} - {"-1"}
_CLEAR: Final = {"delete", "tombstone", "update_preimage", "update_before"}
"""Deletes whatever stands beside them; ``deleted`` and ``removed`` may be states."""

_NO_ASCII: Final = 128
_BLANK: Final = ord(" ")

_DELETES_BEGIN: Final = np.zeros((_NO_ASCII, 2 + max(map(len, _DELETES))), np.bool_)
for _word in _DELETES:
    _DELETES_BEGIN[[ord(_word[0]), ord(_word[0].upper())], len(_word)] = True
"""By first byte and length whether text may be a delete; longer text has the last place."""

_HAS_LENGTH: Final[BoolArray] = np.asarray(_DELETES_BEGIN.any(axis=0))

_REQUESTS: Final = {"get", "post", "put", "patch", "head", "execute", "view", "keep"}
"""Words beside which ``delete`` is a request, a right or a vote."""

_CHANGES: Final = {
    *("insert", "inserted", "ins", "update", "updated", "upd", "upsert"),
    *("update_postimage", "update_after", "+i", "+u"),
}
"""Operations that are hardly anything else."""

_OTHER_LETTERS: Final = frozenset("iu")
"""Letters beside which d means a delete; c and d may be grades."""

_STATES: Final = frozenset({"status", "state", "recordstatus", "rowstatus"})
_TAKEN_OUT: Final = ("deleted", "removed")
"""States in which a row does not hold any more, under any name of a column."""

_GONE: Final = (*_TAKEN_OUT, "cancelled", "canceled", "closed", "inactive", "disabled")
_ACTIVE: Final = frozenset({"active", "isactive", "iscurrent", "currentflag", "enabled"})
_ENDED: Final = re.compile(
    r"(is|was)?(expired|cancell?ed|archived|voided|revoked|inactive|disabled|obsolete)(flag)?"
)
_YES: Final = ("true", "t", "yes", "y", "1")
_NOT: Final = ("false", "f", "no", "n", "0")
_END: Final = re.compile(r"(validto|validuntil|effectiveto|enddate)$")
_IS_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NO_DATE: Final = (*MISSING_WORDS, *_NOT, "", "\\n", "none", "infinity")


def plain_name(name: str) -> str:
    """A column's name in small letters, without what stands between its words."""
    return _BETWEEN_WORDS.sub("", name).casefold()


def is_change_column(name: str) -> bool:
    """Whether a column is called as those that say that a row is a delete."""
    plain = plain_name(name)
    is_named = plain in _NAMES or plain in _SIGNS
    return is_named or bool(_FLAG.search(plain) or _DATE.search(plain))


def is_sign(name: str) -> bool:
    """Whether a column is called as those of signs, which elsewhere describe."""
    return plain_name(name) in _SIGNS


def names_operations(name: str) -> bool:
    """Whether a column is called as those whose every cell says what its row does."""
    plain = plain_name(name)
    return is_change_column(name) and not is_sign(name) and not _DATE.search(plain)


def is_state_column(name: str) -> bool:
    """Whether a column is called as those that say whether what a row says still holds."""
    plain = plain_name(name)
    is_named = plain in _STATES or plain in _ACTIVE
    return is_named or bool(_END.search(plain) or _ENDED.fullmatch(plain))


def may_be_changes(column: pa.Array | pa.ChunkedArray, name: str) -> bool:
    """Whether a column is to be looked at whole, by its name or its first rows.

    These are words, and few of them differ.
    """
    if is_change_column(name):
        return True
    if is_state_column(name) or not is_text(column.type):
        return False
    some = column.slice(0, LOOKED_AT)
    try:
        some.validate(full=True)
    except pa.ArrowInvalid:  # nobody reads it
        return False
    return _are_words(_different(words_of(some)), _MOST_WORDS)


def columns_of_changes(table: pa.Table | pa.RecordBatch, beside: Collection[str]) -> list[str]:
    """Columns of some first rows that are to be looked at whole, of those that nobody reads."""
    return [
        name
        for name, column in zip(table.schema.names, table.columns, strict=True)
        if name in beside and may_be_changes(column, name)
    ]


def holds_operations(column: pa.Array | pa.ChunkedArray, name: str) -> bool:
    """Whether a column is one of changes by its name, or holds nothing but operations."""
    if is_change_column(name):
        return True
    return may_be_changes(column, name) and _different(words_of(_distinct(column))) <= _WORDS


def _distinct(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The different values of each chunk of a column; all where its type is not compared."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = plain_type(column.type)
    with suppress(pa.ArrowNotImplementedError):
        chunks = [
            (chunk if pa.types.is_dictionary(chunk.type) else plain_column(chunk)).unique()
            for chunk in chunks
        ]
    return pa.chunked_array([plain_column(chunk) for chunk in chunks], kind)


def _different(text: pa.Array | None) -> set[str]:
    if text is None:
        return set()
    different = set(pc.unique(text).to_pylist()) - {None, *MISSING_WORDS}
    return {word for word in different if any(map(str.isalnum, word))}


def _are_words(different: set[str], most: int) -> bool:
    """Whether these are few, and none is prose or a number."""
    return len(different) <= most and all(map(_WORD.fullmatch, different))


class UnreadColumns:
    """What columns that nobody reads held, over tables that come one after the other.

    A row is judged by what stands in others, too, and what `kept` said goes on. Of a column that
    holds more, or other text, than operations no words are known.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        kept = kept or {}
        self._words = {
            name: None if words is None else set(words)
            for name, words in kept.get("words", {}).items()
        }
        self._ended = Counter(kept.get("ended", {}))
        self._n_rows = kept.get("rows", 0)

    @property
    def kept(self) -> dict[str, Any]:
        """All of this as JSON; empty where there are no such columns."""
        if not self._words:
            return {}
        words = {
            name: None if words is None else sorted(words) for name, words in self._words.items()
        }
        return {"words": words, "ended": dict(self._ended), "rows": self._n_rows}

    @property
    def names(self) -> list[str]:
        """Columns that there were, those that are read, too."""
        return list(self._words)

    def look(self, columns: Mapping[str, pa.Array | pa.ChunkedArray], names: Sequence[str]) -> None:
        """Keep what the columns of a table held that nobody reads, of all ``names`` that it has."""
        if not (columns or self._words):
            return
        for name in sorted(names):
            if name not in self._words and len(self._words) < _MOST_COLUMNS:
                self._words[name] = set() if name in columns else None
        for name, column in columns.items():
            known = self._words.get(name)
            if known is not None:
                known |= _different(words_of(_distinct(column)))
                is_judged = (
                    len(known) <= _MOST_OF_ALL
                    if is_change_column(name)
                    else _are_words(known, _MOST_OF_ALL)
                )
                if not is_judged:
                    self._words[name] = None
        left = _ROWS_OF_STATES - self._n_rows
        first = {name: column.slice(0, left) for name, column in columns.items()}
        if left > 0 and first:
            self._ended.update(rows_ended(first))
            self._n_rows += max(map(len, first.values()))

    def of(self, name: str) -> Collection[str] | None:
        """Words of a column so far; None where it holds no operations."""
        return self._words.get(name, ())

    @property
    def operations(self) -> dict[str, list[str]]:
        """Words of each column of operations."""
        return {
            name: sorted(words)
            for name, words in self._words.items()
            if words and (is_change_column(name) or words <= _WORDS)
        }

    def forget(self, ids: Collection[str]) -> None:
        """Forget words and columns that are called as nodes, without the kinds of these."""
        words = {word for each in ids for word in (each.lower(), each.partition(":")[2].lower())}
        self._words = {
            name: known and known - words
            for name, known in self._words.items()
            if name.lower() not in words
        }
        self._ended = Counter({name: n for name, n in self._ended.items() if name in self._words})

    @property
    def ended(self) -> dict[str, int]:
        """As `rows_ended`, of the first rows of all tables."""
        return {
            name: n_rows
            for name, n_rows in self._ended.items()
            if is_state_column(name) or self._words.get(name)
        }


def require_no_deletes(
    column: pa.Array | pa.ChunkedArray,
    name: str,
    first_row: int,
    *,
    way: str | None = None,
    known: Collection[str] | None = (),
) -> None:
    """Raise `BadEdges` with the first row that asks for a delete, where nobody reads operations.

    The ``way`` out is by default that of edges. ``known`` are words of the column elsewhere, None
    where it holds no operations.
    """
    if not is_change_column(name) and not _may_hold_deletes(column):
        return
    is_delete = _deletes(_distinct(column), name, known)
    if is_delete is None or not pc.any(is_delete).as_py():
        return
    is_delete = _deletes(column, name, known)
    n_deletes = pc.sum(is_delete).as_py()
    row = pc.index(is_delete, value=True).as_py()
    if way is None and _DATE.search(plain_name(name)):
        way = f"which nobody carries out; take such rows out, or {way_of_edges(name)}"
    elif way is None:
        way = (
            "which this graph does not carry out; read it into a graph with deletions='exact' and "
            f"say op={name!r}, or {way_of_edges(name)}"
        )
    # what a column means by its values alone is no fault of single rows, to be left out
    how_many = f"{n_deletes} of the {len(column)} rows looked at"
    if not is_change_column(name):
        how_many += f", the first is row {first_row + row} from 0"
    raise BadEdges(
        f"column {name!r} asks for deletes ({how_many}), {way}",
        argument="op",
        row=first_row + row if is_change_column(name) else None,
        value=repr(excerpt(column[row].as_py())),
    )


def way_of_edges(name: str) -> str:
    """How each row counts as an edge whatever a column says."""
    of_signs = ""
    if plain_name(name) == "sign":
        of_signs = ", whatever its sign, where -1 is one of a signed network, as distrust"
    return f"say op='' to take every row for an edge{of_signs}"


def _may_hold_deletes(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a cell has the length and first letter of a delete: most have not, and this is quick.

    Of text of ASCII without blanks; all other columns may.
    """
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if chunk.type not in (pa.string(), pa.large_string()):
            return True
        if not len(chunk):
            continue
        ends, content = text_bytes(chunk)
        if content.size and (content.max() >= _NO_ASCII or content.min() <= _BLANK):
            return True
        lengths = np.minimum(np.diff(ends), _DELETES_BEGIN.shape[1] - 1)
        rows = np.flatnonzero(_HAS_LENGTH[lengths])
        if _DELETES_BEGIN[content[ends[rows]], lengths[rows]].any():
            return True
    return False


def _deletes(
    column: pa.Array | pa.ChunkedArray, name: str, known: Collection[str] | None
) -> pa.Array | None:
    """Rows that ask for a delete, by the rule for a column of this name; None for no row."""
    plain, text = plain_name(name), words_of(column)
    if text is None:  # moments say when
        is_moment = pa.types.is_temporal(plain_type(column.type))
        has_moments = bool(_DATE.search(plain) or _FLAG.search(plain))
        return column.is_valid() if is_moment and has_moments else None
    if _DATE.search(plain):
        is_said = pc.invert(pc.is_in(text, value_set=pa.array(_NO_DATE)))
        return pc.and_(is_said, text.is_valid())
    different = _different(text)
    if is_sign(name):
        is_cancelled = pc.is_in(text, value_set=pa.array(["-1", "-1.0"]))
        return is_cancelled if different <= {"1", "-1", "1.0", "-1.0"} else None
    if is_change_column(name):
        if _FLAG.search(plain) and any(map(str.isdecimal, different - {"0", "1"})):
            return None  # it counts what was deleted
        words = [word for word, number in operations_named(name).items() if number == DELETE]
        is_delete = pc.is_in(text, value_set=pa.array(words))
        if _FLAG.search(plain):
            is_date = pc.match_substring_regex(text, _IS_DATE).fill_null(False)
            is_delete = pc.or_(is_delete, is_date)
        return is_delete
    deletes = set() if known is None else different & _meant(different.union(known))
    return pc.is_in(text, value_set=pa.array(sorted(deletes))) if deletes else None


def _meant(different: set[str]) -> set[str]:
    """Those of the values of a column of any name that mean a delete.

    Where all are operations, words of more letters do, and single ones beside I or U. Where most
    are and some insert or update, words do; elsewhere those that mean nothing else there.
    """
    if not _are_words(different, _MOST_OF_ALL):
        return set()
    deletes, operations = different & _DELETES, different & _WORDS
    has_letters = bool(_OTHER_LETTERS & different)
    if different == operations:
        return deletes if has_letters else {word for word in deletes if len(word) > 1}
    if _CHANGES & different and 2 * len(operations) > len(different):
        return {word for word in deletes if len(word) > 1}
    return deletes & _CLEAR - ({"delete"} if _REQUESTS & different else set())


def rows_ended(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> dict[str, int]:
    """How many first rows do not hold any more, by each column of states or ends that says so.

    A column of another name is of states where few words differ.
    """
    n_rows = {
        name: _n_ended(each.slice(0, _ROWS_OF_STATES), name) for name, each in columns.items()
    }
    return {name: number for name, number in n_rows.items() if number}


def _n_ended(column: pa.Array | pa.ChunkedArray, name: str) -> int:
    plain, text = plain_name(name), words_of(column)
    today = datetime.now(UTC).date()
    is_ended: pa.Array
    if _END.search(plain):
        if pa.types.is_temporal(plain_type(column.type)):
            try:
                text = column.cast(pa.timestamp("us"), safe=False).cast(pa.string())
            except pa.ArrowException:
                return 0
        if text is None:
            return 0
        is_date = pc.match_substring_regex(text, _IS_DATE)
        is_ended = pc.and_(is_date, pc.less(text, today.isoformat()))
    elif text is None:
        return 0
    elif _ENDED.fullmatch(plain):
        if any(map(str.isdecimal, _different(text) - {"0", "1"})):
            return 0  # it counts
        is_ended = pc.is_in(text, value_set=pa.array(_YES))
    elif is_state_column(name):
        is_ended = pc.is_in(text, value_set=pa.array(_GONE if plain in _STATES else _NOT))
    elif not is_change_column(name) and may_be_changes(column, name):
        is_ended = pc.is_in(text, value_set=pa.array(_TAKEN_OUT))
    else:
        return 0
    return pc.sum(is_ended).as_py() or 0
