"""Words that mean no label: left out of every table of labels, and counted."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from peewit.solvers.missing_words import (
    ANSWERS_OF_NOTHING,
    DOUBTFUL_WORDS,
    MISSING_WORDS,
    SELDOM_NAMES,
)
from peewit.streaming.edges.bad_table import BadUpload

_SHOWN: Final = 3
_LIKE_NUMBER: Final = re.compile(
    r"[-+]?[$€£¥]?\s?[0-9]{1,3}(([,.'\s_][0-9]{3})+|[0-9]*)([.,][0-9]+)?\s?[%$€£¥]?"
)
"""A number as people write it, with a comma, a currency or a percent sign."""

_PLAIN: Final = re.compile(r"[-+]?[0-9]+([.][0-9]+)?")
_WHOLE: Final = re.compile(r"(?P<sign>-?)0*(?P<digits>[0-9]+)(\.0+)?")

SEVERAL: Final = "several labels"
"""Stands for rows left out as a node has different ones, beside words."""

NODELESS: Final = "no node"
"""Stands for rows left out as they name none."""

REASONS: Final = {SEVERAL: "of nodes with several labels", NODELESS: "without a node"}
"""How rows are told that are left out for no word."""

_NO_CLASS: Final = -1
"""What scikit-learn and others write for an unlabeled row of whole numbers."""

NO_CLASS_TEXTS: Final = frozenset({"-1", "-1.0", "-1.00"})
_ONE_TEXTS: Final = frozenset({"1", "+1", "1.0", "1.00"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelWords:
    """Which words mean no label besides the usual ones, and which of these are labels."""

    no_label: tuple[str, ...] = ()
    keep_word: tuple[str, ...] = ()

    def mean_nothing(self, word: str) -> bool:
        """Whether a word, in any case, means no label."""
        small = _small(word)
        if small in map(_small, self.keep_word):
            return False
        return small in MISSING_WORDS | DOUBTFUL_WORDS or small in map(_small, self.no_label)

    def left_out(self, labels: Sequence[Any], name: str) -> tuple[set[int], dict[str, int]]:
        """Places of values that are no labels, and how many there are of each word.

        -1 means nothing beside whole numbers that are no less. Raises `BadUpload` where labels are
        -1 and 1 alone, which may be two classes. Null is called as the empty text is.
        """
        words = set(filter(_is_text, labels))
        texts = {label for label in words if self.mean_nothing(label)}
        numbers = {label for label in labels if _is_number(label)}
        if texts & NO_CLASS_TEXTS and words - texts <= _ONE_TEXTS and numbers <= {1}:
            self._require_said(name)
        if _NO_CLASS in numbers and self.mean_nothing("-1") and min(numbers) >= _NO_CLASS:
            is_whole = all(label == int(label) for label in numbers if math.isfinite(label))
            if is_whole and numbers <= {-1, 1}:
                self._require_said(name)
            numbers = {-1} if is_whole else set()
        else:
            numbers = set()
        has_nulls = None in labels and self.mean_nothing("")
        if not (texts or numbers or has_nulls or any(map(_is_nan, labels))):
            return set(), {}
        places = {
            place
            for place, label in enumerate(labels)
            if (label in texts if _is_text(label) else _is_nan(label))
            or (_is_number(label) and label in numbers)
            or (has_nulls and label is None)
        }
        found = (labels[place] for place in sorted(places))
        return places, dict(Counter("" if each is None else str(each) for each in found))

    def _require_said(self, name: str) -> None:
        """Raise `BadUpload` unless somebody has said what -1 is beside 1."""
        if not any(_small(each) == "-1" for each in self.no_label):
            raise BadUpload(
                f"{name!r} must not be -1 and 1 alone: where these are two classes, say "
                "keep_word=-1; where -1 means no label, say no_label=-1",
                argument=name,
                value=-1,
            )


USUAL_WORDS: Final = LabelWords()

AS_SAID: Final = LabelWords(keep_word=tuple(MISSING_WORDS | DOUBTFUL_WORDS))
"""Every word is a label: a person has said it of one node."""


def left_out_text(left_out: Mapping[str, int]) -> str:
    """How many rows were left out, by word; empty where none was."""
    if not left_out:
        return ""
    n_rows = sum(left_out.values())
    words = ", ".join(f"{n:,} {REASONS.get(word) or repr(word)}" for word, n in left_out.items())
    word = next((each for each in left_out if each not in REASONS), None)
    rows = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    way = "" if word is None else f" (keep_word={word} takes it for a label)"
    return f"left out {rows}: {words}{way}"


def classes_alike(names: Iterable[object]) -> list[list[str]]:
    """Names of classes that differ in case, blanks or Unicode form alone, each list in order."""
    alike: dict[str, list[str]] = {}
    for name in sorted({name for name in names if isinstance(name, str)}):
        alike.setdefault(bare_class(name), []).append(name)
    return [each for each in alike.values() if len(each) > 1]


def bare_class(name: str) -> str:
    """What is left of a class but for case, blanks and Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def alike_note(names: Iterable[object], new: Iterable[object] = ()) -> str | None:
    """What is to be told of some classes, None for nothing; of ``new`` ones, if there are any.

    Classes differ hardly, or are one number.
    """
    known, only = {name for name in names if isinstance(name, str)}, set(new)
    told = []
    for alike, how in (
        (classes_alike(known), "classes differ only in case, blanks or Unicode form"),
        (_numbers_alike(known), "classes are one number written in several ways"),
    ):
        found = [each for each in alike if not only or not only.isdisjoint(each)]
        if found:
            more = f", and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
            shown = "; ".join(" and ".join(map(ascii, each[:_SHOWN])) for each in found[:_SHOWN])
            told.append(f"{how}: {shown}{more}")
    return "; ".join(told) or None


def _numbers_alike(names: Iterable[str]) -> list[list[str]]:
    """Classes that are the same whole number, as 1, 1.0 and 01, each list in order."""
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        if match := _WHOLE.fullmatch(name):
            alike.setdefault(f"{match['sign']}{match['digits']}", []).append(name)
    return [each for each in alike.values() if len(each) > 1]


def label_note(labels: Sequence[object], present: Iterable[object]) -> str | None:
    """What is odd of the classes of some labels, among themselves and beside ``present`` ones."""
    new = set(labels)
    known = new.union(present)
    notes = alike_note(known, new), _seldom_note(labels, known), _numbers_note(new)
    return "; ".join(filter(None, notes)) or None


def _numbers_note(labels: Iterable[object]) -> str | None:
    """That classes are numbers with a comma, a currency or such, where most classes are numbers."""
    names = sorted({label for label in labels if isinstance(label, str)})
    alike = [name for name in names if _LIKE_NUMBER.fullmatch(name)]
    if 2 * len(alike) <= len(names):
        return None
    odd = next((name for name in alike if not _PLAIN.fullmatch(name)), None)
    if odd is None:
        return None
    return (
        f"labels such as {odd!r} make words of the others, which are numbers; if numbers are "
        "meant, write them with a decimal point, and nothing between thousands"
    )


def _seldom_note(labels: Iterable[object], known: Container[object]) -> str | None:
    """That classes of some labels are called as nothing is, and how many labels they have."""
    counts = Counter(label for label in labels if isinstance(label, str))
    if "+" in known:  # - is its other half
        return None
    names = SELDOM_NAMES | ANSWERS_OF_NOTHING
    found = {word: n for word, n in counts.items() if _small(word) in names}
    if not found:
        return None
    words = ", ".join(f"{n:,} {word!r}" for word, n in found.items())
    return (
        f"labels are called as nothing is: {words} (no_label={next(iter(found))} leaves such rows "
        "out where they mean no label)"
    )


def as_whole(labels: Sequence[str], classes: Collection[object]) -> Sequence[str]:
    """Text labels with 1.0 as 1, where they and the classes of their column are whole numbers."""
    if not all(isinstance(name, str) and name.removeprefix("-").isdecimal() for name in classes):
        return labels
    if not classes or not all(map(_WHOLE.fullmatch, labels)):
        return labels
    return [label.partition(".")[0] for label in labels]


def _small(word: str) -> str:
    """A word as it is compared: in small letters, -1.0 as -1."""
    return "-1" if word in NO_CLASS_TEXTS else word.lower()


def _is_text(label: object) -> bool:
    return isinstance(label, str)


def _is_number(label: object) -> bool:
    is_number = isinstance(label, int | float) and not isinstance(label, bool)
    return is_number and not _is_nan(label)


def _is_nan(label: object) -> bool:
    return isinstance(label, float) and math.isnan(label)
