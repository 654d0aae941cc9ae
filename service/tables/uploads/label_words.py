"""Words that mean no label: left out of every table of labels, and counted."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.reading_options import DOUBTFUL_WORDS, MISSING_WORDS

SEVERAL: Final = "several labels"
"""Stands for rows left out as a node has different ones, beside words."""

_NO_CLASS: Final = -1
"""What scikit-learn and others write for an unlabeled row of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelWords:
    """Which words mean no label besides the usual ones, and which of these are labels."""

    no_label: tuple[str, ...] = ()
    keep_word: tuple[str, ...] = ()

    def mean_nothing(self, word: str) -> bool:
        """Whether a word, in any case, means no label."""
        small = word.lower()
        if small in {each.lower() for each in self.keep_word}:
            return False
        usual = MISSING_WORDS | DOUBTFUL_WORDS
        return small in usual or small in {each.lower() for each in self.no_label}

    def left_out(self, labels: Sequence[Any], name: str) -> tuple[set[int], dict[str, int]]:
        """Places of values that are no labels, and how many there are of each word.

        -1 means nothing beside whole numbers that are no less. Raises `BadUpload` where labels are
        -1 and 1 alone, which may be two classes.
        """
        texts = {label for label in set(filter(_is_text, labels)) if self.mean_nothing(label)}
        numbers = {label for label in labels if _is_number(label)}
        if _NO_CLASS in numbers and self.mean_nothing("-1") and min(numbers) >= _NO_CLASS:
            is_whole = all(label == int(label) for label in numbers if math.isfinite(label))
            if is_whole and numbers <= {-1, 1} and "-1" not in self.no_label:
                raise BadUpload(
                    f"{name!r} must not be -1 and 1 alone: where these are two classes, say "
                    "keep_word=-1; where -1 means no label, say no_label=-1",
                    argument=name,
                    value=-1,
                )
            numbers = {-1} if is_whole else set()
        else:
            numbers = set()
        if not texts and not numbers and not any(map(_is_nan, labels)):
            return set(), {}
        places = {
            place
            for place, label in enumerate(labels)
            if (label in texts if _is_text(label) else _is_nan(label))
            or (_is_number(label) and label in numbers)
        }
        return places, dict(Counter(str(labels[place]) for place in sorted(places)))


USUAL_WORDS: Final = LabelWords()

AS_SAID: Final = LabelWords(keep_word=tuple(MISSING_WORDS | DOUBTFUL_WORDS))
"""Every word is a label: a person has said it of one node."""


def left_out_text(left_out: Mapping[str, int]) -> str:
    """How many rows were left out, by word; empty where none was."""
    if not left_out:
        return ""
    n_rows = sum(left_out.values())
    words = ", ".join(f"{n:,} {word!r}" for word, n in left_out.items())
    word = next((each for each in left_out if each != SEVERAL), None)
    rows = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    way = "" if word is None else f" (keep_word={word} takes it for a label)"
    return f"left out {rows}: {words}{way}"


def _is_text(label: object) -> bool:
    return isinstance(label, str)


def _is_number(label: object) -> bool:
    is_number = isinstance(label, int | float) and not isinstance(label, bool)
    return is_number and not _is_nan(label)


def _is_nan(label: object) -> bool:
    return isinstance(label, float) and math.isnan(label)
