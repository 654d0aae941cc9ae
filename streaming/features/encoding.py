"""Encoding of a table as it comes: columns of numbers, words, truth values and times as features.

What becomes of each column is decided on the first rows and stays: rows that come later, and new
points, are encoded alike, their columns matched by name.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from math import floor, log2, log10
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray
from peewit.solvers.late_modules import LateModule
from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.plain_types import plain_column
from peewit.streaming.edges.reading_options import NodelessRows
from peewit.streaming.features.checked_tables import ENCODING, NODE, BadFeatures, with_names

sp = LateModule("scipy.sparse")

Encoded: TypeAlias = Literal["number", "flag", "time", "category", "hashed", "text"]
"""How a column is read."""

SAMPLE_ROWS: Final = 100_000
"""First rows, on which it is decided what columns hold."""

MOST_CATEGORIES: Final = 40
"""Different words of a column that get a feature each; of more, a hash picks one of `_BUCKETS`."""

_MOST_DENSE: Final = 256
"""Features of a row that are kept with their zeros; of more, only the others."""

_BUCKETS: Final = 64
_TEXT_BUCKETS: Final = 256
_ROWS: Final = 1 << 13  # encoded at once
_UNIQUE: Final = 0.9
"""Share of different words from which a column names rows, and says nothing of others."""

_NEARLY_ALL: Final = 0.95
"""Share of numbers from which on another word is no name of a class."""

_PLAIN_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
PADDED: Final = r"^[+-]?0[0-9]+$"
"""Numbers with zeros before them, which are codes."""

_LIKE_NUMBER: Final = r"^[^\pL]*[0-9][^\pL]*$"

_FARTHEST: Final = 3.0  # numbers are squashed into [-3, 3]
_ALMOST_FARTHEST: Final = 2.9999  # what is squashed to it can be told again
_LEAST_ROUNDED: Final = 1e-300
_DAY: Final = 86_400_000_000  # microseconds
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedColumn:
    """What becomes of one column.

    Numbers and times are (v - center) / scale, squashed into [-3, 3]; ``scale`` is the distance of
    the quartiles. Both are kept to a tenth of that or so: no row shall be read off them. Words get
    a feature each; those that the first rows lack, none. None is a word that was erased.
    """

    name: str
    kind: Encoded
    center: float = 0.0
    scale: float = 1.0
    words: tuple[str | None, ...] = ()
    may_be_missing: bool = False  # as some of the first rows; there is a feature that says so

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        names = {
            "number": [self.name],
            "flag": [self.name],
            "time": [self.name, *(f"{self.name} {each}" for each in _CYCLES)],
            "category": [
                f"{self.name} (erased {place})" if word is None else f"{self.name}={word}"
                for place, word in enumerate(self.words)
            ],
            "hashed": [f"{self.name}#{bucket}" for bucket in range(_BUCKETS)],
            "text": [f"{self.name}~{bucket}" for bucket in range(_TEXT_BUCKETS)],
        }[self.kind]
        return [*names, f"{self.name} missing"] if self.may_be_missing else names

    def encode(self, column: pa.Array, first_row: int) -> Float32Array:
        """(n_rows, n_features) of some rows; BadFeatures for a value of another kind."""
        n_rows = len(column)
        if self.kind in _OF_WORDS:
            words = _as_words(column)
            values = _of_texts(words) if self.kind == "text" else self._of_words(words)
            is_missing = _as_words(column).is_null().to_numpy(zero_copy_only=False)
        else:
            numbers = _as_numbers(column, self.kind, self.name, first_row)
            is_missing = np.isnan(numbers)
            values = self._of_numbers(np.where(is_missing, self.center, numbers))
            values[is_missing] = 0.0
        if self.may_be_missing:
            values = np.column_stack([values, is_missing.reshape(n_rows, 1)])
        return values.astype(np.float32)

    def without(self, words: Collection[str], is_held: BoolArray) -> "EncodedColumn":
        """The column without some words, and without those that no row holds any more."""
        left = tuple(
            word if stays and word not in words else None
            for word, stays in zip(self.words, is_held[: len(self.words)].tolist(), strict=True)
        )
        return replace(self, words=left)

    def decoded(self, encoded: FloatArray) -> list[float | None]:
        """Values of one row's features of this column; see `Encoding.decoded`."""
        values: list[float | None] = encoded.tolist()
        if self.may_be_missing and encoded[-1] and self.kind not in _OF_WORDS:
            return [None] * (len(values) - 1) + [1.0]
        if self.kind in ("number", "time"):
            squashed = float(np.clip(encoded[0], -_ALMOST_FARTHEST, _ALMOST_FARTHEST))
            off = squashed / np.sqrt(1.0 - np.square(squashed / _FARTHEST))
            digits = 7 if self.kind == "time" else 4  # of days since 1970: a quarter of an hour
            values[0] = float(f"{self.center + off * self.scale:.{digits}g}")
        return values

    def _of_numbers(self, numbers: FloatArray) -> FloatArray:
        if self.kind == "flag":
            return numbers[:, None].copy()
        off = (numbers - self.center) / self.scale
        squashed = off / np.sqrt(1.0 + np.square(off / _FARTHEST))
        if self.kind == "number":
            return squashed[:, None]
        phases = [2.0 * np.pi * numbers / period for period in _CYCLE_LENGTHS]
        waves = [wave(phase) for phase in phases for wave in (np.sin, np.cos)]
        return np.column_stack([squashed, *waves])

    def _of_words(self, words: pa.Array) -> FloatArray:
        coded = words.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        if self.kind == "hashed":
            place = [_bucket(word, _BUCKETS) for word in distinct]
        else:
            known = {word: number for number, word in enumerate(self.words)}
            place = [known.get(word, -1) for word in distinct]
        n_features = _BUCKETS if self.kind == "hashed" else len(self.words)
        indices = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        where = np.append(np.array(place, np.int64), -1)[indices]
        one_hot = np.zeros((len(words), n_features))
        rows = np.flatnonzero(where >= 0)
        one_hot[rows, where[rows]] = 1.0
        return one_hot


_OF_WORDS: Final = ("category", "hashed", "text")
_CYCLES: Final = ("sine of day", "cosine of day", "sine of week", "cosine of week")
_CYCLE_LENGTHS: Final = (1.0, 7.0)  # days


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnWishes:
    """What somebody says of columns of features; all others are decided by what they hold."""

    texts: Sequence[str] = ()  # whose words become features
    without: Sequence[str] = ()  # that become none, as a label must
    missing_ids: NodelessRows = "refuse"  # in the column of nodes

    def require_among(self, names: Sequence[str]) -> None:
        """Raise BadFeatures for a column that the table lacks."""
        for argument, wanted in (("text", self.texts), ("without", self.without)):
            if absent := next((name for name in wanted if name not in names), None):
                held = ", ".join(map(repr, names))
                raise BadFeatures(
                    f"{argument} must name columns of the table, which has {held}, got {absent!r}",
                    argument=argument,
                )
        if both := next((name for name in self.texts if name in self.without), None):
            raise BadFeatures(f"text must be no column of without, got {both!r}", argument="text")


NO_WISHES: Final = ColumnWishes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What becomes of the columns of a table; those that no column names are left out."""

    columns: tuple[EncodedColumn, ...]
    left_out: tuple[str, ...] = ()  # columns that hold one value, or another in nearly every row
    doubts: tuple[str, ...] = ()  # what words may have been meant for
    unwanted: tuple[str, ...] = ()  # columns that somebody wished away

    @classmethod
    def of(cls, sample: pa.Table, wishes: ColumnWishes = NO_WISHES) -> "Encoding":
        """The encoding that fits the first rows of a table; its node column is not among them.

        Raises BadFeatures where no column is left, and for wishes of columns that are not there.
        """
        wishes.require_among(sample.column_names)
        columns, left_out, doubts = [], [], []
        for name in sample.column_names:
            if name in wishes.without:
                continue
            if name in wishes.texts:
                columns.append(_fitted_text(name, plain_column(sample.column(name))))
                continue
            column = _fitted(name, plain_column(sample.column(name)))
            if column is None or column.kind in _OF_WORDS:
                doubts += _doubts(name, plain_column(sample.column(name)))
            if column is None:
                left_out.append(name)
            else:
                columns.append(column)
        if not columns:
            raise BadFeatures(
                "a table of features must have a column that differs between rows and is no name "
                f"of each; it has {', '.join(map(repr, sample.column_names)) or 'none'}"
            )
        return cls(
            columns=tuple(columns),
            left_out=tuple(left_out),
            doubts=tuple(doubts),
            unwanted=tuple(dict.fromkeys(wishes.without)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of texts."""
        return tuple(each.name for each in self.columns if each.kind == "text")

    def encode(self, batch: pa.RecordBatch, first_row: int) -> Float32Array:
        """(n_rows, n_features) of some rows.

        Raises BadFeatures for a column that is missing, and for a value that is of another kind
        than those of the first rows.
        """
        missing = [each.name for each in self.columns if each.name not in batch.schema.names]
        if missing:
            raise BadFeatures(
                f"columns must be those that features were made from; {missing[0]!r} is missing",
                argument=missing[0],
            )
        return np.concatenate(
            [
                each.encode(plain_column(batch.column(each.name)), first_row)
                for each in self.columns
            ],
            axis=1,
        )

    def decoded(self, row: FloatArray) -> list[float | None]:
        """Values of one encoded row, by feature: numbers and times as they came, others as is.

        None for a number that is missing. Times are in days since 1970.
        """
        values: list[float | None] = []
        for column in self.columns:
            own = row[len(values) : len(values) + len(column.features)]
            values += column.decoded(own)
        return values

    def may_name(self, words: Collection[str]) -> bool:
        """Whether some words are among those of columns, or doubts may quote them."""
        known = (word for each in self.columns for word in each.words)
        return bool(self.doubts) or any(word in words for word in known if word is not None)

    def without(self, words: Collection[str], left: Iterable[Any]) -> "Encoding":
        """The encoding after rows were erased; its features keep their places.

        It lacks some words, and those that no row of the blocks ``left`` has. Doubts quote rows,
        and go.
        """
        is_held: BoolArray = np.zeros(len(self.names), np.bool_)
        for block in left:
            _note_held(is_held, block)
        return self._without(words, is_held)

    def _without(self, words: Collection[str], is_held: BoolArray) -> "Encoding":
        start, columns = 0, []
        for each in self.columns:
            stop = start + len(each.features)
            columns.append(each.without(words, is_held[start:stop]))
            start = stop
        return replace(self, columns=tuple(columns), doubts=())

    @property
    def is_erased(self) -> BoolArray:
        """(n_features,): whether the word of each was erased."""
        return np.array(
            [
                place < len(each.words) and each.words[place] is None
                for each in self.columns
                for place in range(len(each.features))
            ],
            np.bool_,
        )

    def agrees_with(self, other: "Encoding") -> bool:
        """Whether features of both are the same, but for words that were erased in one."""
        return len(self.names) == len(other.names) and (
            self._without((), ~other.is_erased) == other._without((), ~self.is_erased)
        )

    def note(self) -> str:
        """How many columns became how many features, and which were left out."""
        counts = {
            kind: sum(each.kind == kind for each in self.columns)
            for kind in dict.fromkeys(each.kind for each in self.columns)
        }
        of_kinds = ", ".join(f"{count} of {_PLURALS[kind]}" for kind, count in counts.items())
        columns = "1 column" if len(self.columns) == 1 else f"{len(self.columns):,} columns"
        text = f"{columns} became {len(self.names):,} features: {of_kinds}"
        if self.left_out:
            more = len(self.left_out) - _SHOWN
            named = ", ".join(map(repr, self.left_out[:_SHOWN]))
            text += (
                "; left out, as they hold one value, or another in nearly every row: "
                f"{named}{f' and {more} more' if more > 0 else ''}. Name those that are "
                "texts as such to have their words"
            )
        if self.unwanted:
            text += f"; without {', '.join(map(repr, self.unwanted))}"
        if self.doubts:
            more = len(self.doubts) - _SHOWN
            shown = "; ".join([*self.doubts[:_SHOWN], *([f"{more} more do"] if more > 0 else [])])
            text += f"; {shown}"
        return text

    def to_json(self) -> str:
        """As `from_json` reads it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Encoding":
        """The encoding that `to_json` wrote."""
        stored = json.loads(text)
        columns = tuple(
            EncodedColumn(**each | {"words": tuple(each["words"])}) for each in stored["columns"]
        )
        return cls(
            columns=columns,
            left_out=tuple(stored["left_out"]),
            **{name: tuple(stored.get(name, ())) for name in ("doubts", "unwanted")},  # new ones
        )


def _note_held(is_held: BoolArray, block: Any) -> None:
    """Note which columns of some rows, dense or sparse, have a value other than 0."""
    if sp.issparse(block):
        is_held[block.indices[block.data != 0.0]] = True
    else:
        is_held |= np.any(block, axis=0)


def cleared(values: Any, is_erased: BoolArray) -> Any:
    """Rows with 0 in some columns; sparse ones keep their entries."""
    if not sp.issparse(values):
        return np.where(is_erased, np.float32(0.0), values)
    data = np.where(is_erased[values.indices], np.float32(0.0), values.data)
    return sp.csr_array((data, values.indices, values.indptr), shape=values.shape)


_PLURALS: Final[dict[str, str]] = {
    "number": "numbers",
    "flag": "truth values",
    "time": "times",
    "category": "words",
    "hashed": "many words, hashed",
    "text": "texts",
}


def _fitted(name: str, column: pa.ChunkedArray) -> EncodedColumn | None:
    """What becomes of a column; None where it says nothing of its nodes."""
    kind = _kind_of(column)
    if kind in ("category", "hashed"):
        return _fitted_words(name, _as_words(column.combine_chunks()))
    numbers = _as_numbers(column.combine_chunks(), kind, name, 0)
    present = numbers[~np.isnan(numbers)]
    may_be_missing = present.size < numbers.size
    if not present.size or (present.min() == present.max() and not may_be_missing):
        return None
    if kind == "flag":
        return EncodedColumn(name=name, kind=kind, may_be_missing=may_be_missing)
    center, scale = _center_and_scale(present)
    return EncodedColumn(
        name=name, kind=kind, center=center, scale=scale, may_be_missing=may_be_missing
    )


def _center_and_scale(present: FloatArray) -> tuple[float, float]:
    """Median and distance of the quartiles, so rounded that neither is the value of a row.

    A scale that rests on the extremes is a power of two.
    """
    low, center, high = np.quantile(present, (0.25, 0.5, 0.75)).tolist()
    scale = high - low or float(present.max() - present.min()) / 2.0 or 1.0
    if not _LEAST_ROUNDED < scale < 1.0 / _LEAST_ROUNDED:
        return center, scale
    if high == low:
        scale = 2.0 ** round(log2(scale))
    digits = 1 - floor(log10(scale))
    return round(center, digits), round(scale, digits)


def _fitted_text(name: str, column: pa.ChunkedArray) -> EncodedColumn:
    has_gaps = _as_words(column.combine_chunks()).null_count > 0
    return EncodedColumn(name=name, kind="text", may_be_missing=has_gaps)


def _of_texts(texts: pa.Array) -> FloatArray:
    """(n_rows, `_TEXT_BUCKETS`) words and pairs of words that follow each other, of length 1.

    A hash picks the feature of each; a row has the roots of its counts before it is scaled.
    """
    words = pc.split_pattern_regex(pc.utf8_lower(pc.fill_null(texts, "")), r"[^\pL\pN]+")
    row, word = pc.list_parent_indices(words).to_numpy(), words.flatten()
    is_word = pc.not_equal(word, "")
    row, word = row[is_word.to_numpy(zero_copy_only=False)], word.filter(is_word)
    follows = row[1:] == row[:-1]
    pair = pc.binary_join_element_wise(word[:-1], word[1:], " ").filter(pa.array(follows))
    coded = pa.concat_arrays([word, pair]).dictionary_encode()
    bucket = np.array(
        [_bucket(each, _TEXT_BUCKETS) for each in coded.dictionary.to_pylist()], np.int64
    )
    counts = np.zeros((len(texts), _TEXT_BUCKETS))
    rows = np.append(row, row[1:][follows])
    np.add.at(counts, (rows, bucket[coded.indices.to_numpy()]), 1.0)
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(counts / np.maximum(total, 1.0)))


def _doubts(name: str, column: pa.ChunkedArray) -> list[str]:
    """That words look like numbers or dates, where most do; none where they are no text.

    Raises BadFeatures where nearly all are numbers.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return []
    words = _as_words(column.combine_chunks())
    n_present = len(words) - words.null_count
    if (is_padded := _is_padded(words)).any():
        code = words[int(is_padded.argmax())].as_py()
        return [f"{name!r} holds numbers with zeros before them, as {code!r}, and is read as words"]
    is_number, is_alike = (
        pc.fill_null(pc.match_substring_regex(words, pattern), True).to_numpy(zero_copy_only=False)
        for pattern in (_PLAIN_NUMBER, _LIKE_NUMBER)
    )
    n_others = int(np.count_nonzero(~is_number))
    if 0 < n_others <= (1.0 - _NEARLY_ALL) * n_present:
        row = int(is_number.argmin())
        raise BadFeatures(
            f"column {name!r} must hold numbers in every row, as all but {n_others:,} of "
            f"{n_present:,} do; leave such cells empty. If these are words, write a letter "
            "before each value",
            argument=name,
            row=row,
            value=repr(words[row].as_py()),
        )
    n_others = int(np.count_nonzero(~is_alike))
    if 2 * n_others >= n_present or is_number.all():
        return []
    like = next(filter(None, words.filter(pa.array(is_alike & ~is_number)).to_pylist()), None)
    said = f"{name!r} holds words that look like numbers or dates" + (f", as {like!r}" * bool(like))
    row = int(is_alike.argmin())
    return [f"{said}, but for {words[row].as_py()!r} in row {row}" if n_others else said]


def _is_padded(words: pa.Array) -> BoolArray:
    """(n_rows,) where zeros stand before a number, which is a code then, as 01234."""
    is_padded = pc.match_substring_regex(words, pattern=PADDED).fill_null(False)
    return np.asarray(is_padded.to_numpy(zero_copy_only=False))


def _fitted_words(name: str, words: pa.Array) -> EncodedColumn | None:
    counts = pc.value_counts(words.drop_null())
    distinct = sorted(counts.field("values").to_pylist())
    n_present, may_be_missing = len(words) - words.null_count, words.null_count > 0
    if not distinct or (len(distinct) == 1 and not may_be_missing):
        return None
    if len(distinct) > MOST_CATEGORIES:
        if len(distinct) > _UNIQUE * n_present:
            return None
        return EncodedColumn(name=name, kind="hashed", may_be_missing=may_be_missing)
    return EncodedColumn(
        name=name, kind="category", words=tuple(distinct), may_be_missing=may_be_missing
    )


def _kind_of(column: pa.ChunkedArray) -> Encoded:
    """By its type; of text, numbers or times where all values that are there are such."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return "time"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise BadFeatures(f"columns of features must hold numbers, text or times, got type {kind}")
    present = _as_words(column.combine_chunks()).drop_null()
    if len(present) and not _is_padded(present).any():
        lower = pc.utf8_lower(present)
        if pc.all(pc.is_in(lower, value_set=pa.array(list(_TRUTH), lower.type))).as_py():
            return "flag"
        for wanted in ("number", "time"):
            try:
                _parsed(present, wanted)
            except pa.ArrowInvalid:
                continue
            return "number" if wanted == "number" else "time"
    return "category"


_TRUTH: Final = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}


def _as_words(column: pa.Array) -> pa.Array:
    """Text without blanks around it; null for an empty one, or a word for a missing value."""
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    text = pc.utf8_trim_whitespace(text)
    missing = pa.array(["", *sorted(MISSING_WORDS)], text.type)
    return pc.if_else(pc.is_in(pc.utf8_lower(text), value_set=missing), None, text)


def _parsed(words: pa.Array, kind: str) -> pa.Array:
    """Text as numbers or as times; raises ArrowInvalid."""
    if kind == "number":
        return words.cast(pa.float64())
    return words.cast(pa.timestamp("us"))


def _as_numbers(column: pa.Array, kind: str, name: str, first_row: int) -> FloatArray:
    """(n_rows,) numbers, truth values or days since 1970; nan where a value is missing."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        words = _as_words(column)
        if kind == "flag":
            places = pc.index_in(pc.utf8_lower(words), value_set=pa.array(list(_TRUTH)))
            _require_all(words, places.is_valid(), name, first_row, "truth values")
            column = pa.array(list(_TRUTH.values())).take(places)
        else:
            try:
                column = _parsed(words, kind)
            except pa.ArrowInvalid:
                fits = pa.array([_is_parsed(words, row, kind) for row in range(len(words))])
                _require_all(words, fits, name, first_row, f"{kind}s")
                raise
    if pa.types.is_temporal(column.type):
        column = pc.divide(
            column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()), float(_DAY)
        )
    numbers: FloatArray = column.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    is_infinite: BoolArray = np.isinf(numbers)
    if is_infinite.any():
        row = int(is_infinite.argmax())
        raise BadFeatures(
            f"column {name!r} must hold finite numbers", argument=name, row=first_row + row
        )
    return numbers


def _is_parsed(words: pa.Array, row: int, kind: str) -> bool:
    try:
        _parsed(words.slice(row, 1), kind)
    except pa.ArrowInvalid:
        return False
    return True


def _require_all(words: pa.Array, fits: pa.Array, name: str, first_row: int, what: str) -> None:
    """Raise BadFeatures with the first value that is there and is of another kind."""
    is_bad = pc.and_(words.is_valid(), pc.invert(fits)).to_numpy(zero_copy_only=False)
    if is_bad.any():
        row = int(is_bad.argmax())
        raise BadFeatures(
            f"column {name!r} must hold {what}, as the first {SAMPLE_ROWS:,} rows of the set do",
            argument=name,
            row=first_row + row,
            value=repr(words[row].as_py()),
        )


def _bucket(word: str, n_buckets: int) -> int:
    """The feature of a word among many, the same on every machine."""
    digest = blake2b(word.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % n_buckets


def encoded_batch(
    batch: pa.RecordBatch, encoding: Encoding, node: str | None, first_row: int
) -> Iterator[pa.RecordBatch]:
    """Rows as lists of features, some at a time, that say how they were encoded."""
    metadata = {ENCODING: encoding.to_json()}
    names = encoding.names
    for start in range(0, batch.num_rows, _ROWS):
        some = batch.slice(start, _ROWS)
        values = encoding.encode(some, first_row + start)
        if len(names) <= _MOST_DENSE:
            lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), len(names))
            table = with_names(lists, names)
        else:
            rows = sp.csr_array(values)
            starts = pa.array(rows.indptr.astype(np.int32))
            indices = pa.ListArray.from_arrays(starts, pa.array(rows.indices.astype(np.int32)))
            numbers = pa.ListArray.from_arrays(starts, pa.array(rows.data))
            table = pa.record_batch({"indices": indices, "values": numbers})
        if node is not None:
            table = table.append_column(NODE, some.column(node))
        yield table.replace_schema_metadata(metadata)
