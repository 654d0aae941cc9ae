"""Quotes of CSV: text is watched on its way to the reader, which would swallow lines in silence.

A field that begins with a quote must end with one, before a separator or the end of a line. Text
that does not quote breaks this sooner or later, or a quoted field holds lines that look like rows.
"""

import io
import re
from typing import BinaryIO, Final

import numpy as np

from peewit.solvers.arrays import BoolArray, Int64Array, UInt8Array
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.reading_options import Quote

MAX_FIELD_BYTES: Final = 1 << 24
"""Most bytes of a quoted field that is still open."""

_BLANKS: Final = re.compile(rb"[ \t]+")
_QUOTE, _NEW_LINE, _RETURN = b'"\n\r'
_COMMENT: Final = re.compile(rb"\n[ \t]*[#%]")


class CheckedText(io.RawIOBase):
    """A file from its beginning on, ``head`` of which was read already; raises `BadUpload`.

    With ``quote`` given, quoted lines may look like rows. Runs of blanks are one where they are
    what separates. Comments may stand before line ``comments_until``, None where there are none, as
    then a name may begin with their mark.
    """

    def __init__(
        self,
        head: bytes,
        rest: BinaryIO,
        *,
        separator: str,
        n_columns: int,
        quote: Quote | None,
        comments_until: int | None,
    ) -> None:
        self._head = head
        self._rest = rest
        self._watch: _Watch | None = None
        if quote != "none":
            self._watch = _Watch(separator, n_columns, is_said=quote is not None)
        self._comments_until = comments_until
        self._line, self._last = 0, b"\n"  # lines so far, and the last byte
        self._joins_blanks = separator == " " and b'"' not in head
        self._blank = b"\n"  # what is held back of the piece before, or its last byte

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, at most ``size``."""
        size = -1 if size is None else size
        while True:
            taken = self._head if size < 0 else self._head[:size]
            self._head = self._head[len(taken) :]
            if size < 0:
                taken += self._rest.read()
            elif len(taken) < size:
                taken += self._rest.read(size - len(taken))
            if self._watch is not None and size != 0:
                self._watch.look(taken)
            if self._comments_until is not None:
                self._look_for_comments(taken, self._comments_until)
            if not (self._joins_blanks and taken):
                return taken
            taken = self._with_single_blanks(taken)
            if taken:
                return taken

    def _look_for_comments(self, piece: bytes, until: int) -> None:
        """Refuse a comment among rows, which would be one of them."""
        text = self._last + piece
        for match in _COMMENT.finditer(text):
            line = 1 + self._line + text.count(b"\n", 1, match.start() + 1)
            if line >= until:
                raise BadUpload(
                    "comments must stand above the rows, where some do; take out those between "
                    f"files that were joined, the first is in line {line}",
                    value=excerpt(
                        text[match.start() + 1 : match.start() + 81].decode(errors="replace")
                    ),
                )
        self._line += piece.count(b"\n")
        self._last = piece[-1:] or self._last

    def _with_single_blanks(self, piece: bytes) -> bytes:
        joined = _BLANKS.sub(b" ", self._blank + piece)
        joined = joined.replace(b" \n", b"\n").replace(b"\n ", b"\n")
        # the last byte is held back where it is a blank, and known where it ends a line
        drop = len(self._blank) if self._blank != b" " else 0
        self._blank = b" " if joined.endswith(b" ") else b"\n" if joined.endswith(b"\n") else b""
        return joined[drop:].removesuffix(b" ")


class _Watch:
    """Looks at the quotes of bytes that pass."""

    def __init__(self, separator: str, n_columns: int, *, is_said: bool) -> None:
        self._separator = separator.encode()
        self._n_columns = n_columns
        self._is_said = is_said
        self._ends = np.zeros(256, bool)
        self._ends[[*self._separator, _NEW_LINE, _RETURN]] = True
        self._tail = b"\n\n"  # bytes of which the last is not judged yet
        self._is_inside = False
        self._has_just_closed = False  # the byte before is a closing quote
        self._n_open = 0  # bytes since the quote that is open
        self._line = -1  # lines before the tail's last byte; the tail begins with one
        self._open_line = 0

    def look(self, piece: bytes) -> None:
        """Judge all bytes so far but the last; all of them where the piece is empty, at the end."""
        text = self._tail + (piece or b"\n")
        if self._is_inside or b'"' in text:
            self._judge(text)
        self._line += text.count(b"\n", 1, len(text) - 1)
        self._tail = text[-2:]
        if not piece and self._is_inside:
            raise self._fault(self._open_line, "its quote never closes")

    def _judge(self, text: bytes) -> None:
        codes = np.frombuffer(text, np.uint8)
        quotes = 1 + np.flatnonzero(codes[1:-1] == _QUOTE)
        was_inside = self._is_inside
        places = quotes
        is_opening = (np.arange(quotes.size) + was_inside) % 2 == 0
        before, behind = codes[quotes - 1], codes[quotes + 1]
        doubled = before == _QUOTE
        if doubled[:1].any():  # of the one before them, which was judged
            doubled[0] = self._has_just_closed
        is_plain = np.where(
            is_opening, self._ends[before] | doubled, self._ends[behind] | (behind == _QUOTE)
        )
        if not is_plain.all():
            places, is_opening = self._one_by_one(text, codes, quotes)
        if places.size:
            self._is_inside = bool(is_opening[-1])
            self._has_just_closed = not self._is_inside and int(places[-1]) == len(text) - 2
        else:
            self._has_just_closed = False
        self._look_for_rows(text, codes, places, is_opening, was_inside=was_inside)
        if not self._is_inside:
            self._n_open = 0
            return
        if places.size:
            self._open_line = self._line_at(text, int(places[-1]))
            self._n_open = len(text) - int(places[-1])
        else:
            self._n_open += len(text) - 2
        if self._n_open > MAX_FIELD_BYTES:
            raise self._fault(self._open_line, f"more than {MAX_FIELD_BYTES} bytes are quoted")

    def _one_by_one(
        self, text: bytes, codes: UInt8Array, quotes: Int64Array
    ) -> tuple[Int64Array, BoolArray]:
        """Quotes that open or close a field, and which open, where some stand within plain text."""
        is_inside, closed_at = self._is_inside, 0 if self._has_just_closed else -1
        places, openings = [], []
        for place in quotes.tolist():
            if is_inside:
                if not (self._ends[codes[place + 1]] or codes[place + 1] == _QUOTE):
                    line = self._line_at(text, place)
                    raise self._fault(line, "text stands behind the quote that closes it")
                closed_at = place
            elif not (self._ends[codes[place - 1]] or closed_at == place - 1):
                self._require_no_blanks_before(text, place)
                continue  # a plain character: no quote begins the field
            is_inside = not is_inside
            places.append(place)
            openings.append(is_inside)
        return np.array(places, np.int64), np.array(openings, bool)

    def _require_no_blanks_before(self, text: bytes, place: int) -> None:
        """Refuse ``a, "b"``, whose quotes would be part of the name."""
        before = text[:place].rstrip(b" ")
        if len(before) < place and before.endswith((self._separator, b"\n")):
            raise self._fault(self._line_at(text, place), "a blank stands before the quote")

    def _look_for_rows(
        self,
        text: bytes,
        codes: UInt8Array,
        places: Int64Array,
        is_opening: BoolArray,
        *,
        was_inside: bool,
    ) -> None:
        """Refuse a quoted field all of whose lines, seen without quotes, have a row's fields."""
        if self._is_said or self._n_columns < 2:
            return
        lines = np.flatnonzero(codes == _NEW_LINE)
        if not ((np.searchsorted(places, lines) + was_inside) % 2).any():
            return  # no field holds a line's end
        starts, ends = places[is_opening], places[~is_opening]
        if was_inside:
            starts = np.concatenate([[1], starts])
        if starts.size > ends.size:
            ends = np.concatenate([ends, [len(text) - 1]])
        n_lines = np.searchsorted(lines, ends) - np.searchsorted(lines, starts)
        for start, end in zip(starts[n_lines > 0], ends[n_lines > 0], strict=True):
            first = text.rfind(b"\n", 0, int(start)) + 1
            last = text.find(b"\n", int(end))
            held = text[first : last if last >= 0 else text.rfind(b"\n")].splitlines()
            if first <= 1 and was_inside:
                held = held[1:]  # its beginning was judged before
            if len(held) > 1 and {line.count(self._separator) for line in held} == {
                self._n_columns - 1
            }:
                raise self._fault(self._line_at(text, int(start)), "quoted lines look like rows")

    def _line_at(self, text: bytes, place: int) -> int:
        """Number of the line of a byte of the text in hand, from 1."""
        return 1 + self._line + text.count(b"\n", 1, place)

    def _fault(self, line: int, what: str) -> BadUpload:
        rule = (
            "a field that begins with a double quote must end with one, before a separator "
            f"or the end of its line. In line {line} {what}; "
        )
        rule += (
            "quote the field whole, or take the quote out"
            if self._is_said
            else "say quote='none' where quotes are plain text"
        )
        return BadUpload(excerpt(rule, 400), argument="quote")
