"""The list of all sentences is the recorded one, and each keeps the rules of how they are said."""

import re
from collections.abc import Iterable, Iterator

import pytest

from tests.goldens.recording import compare
from tests.goldens.sentences import Sentence, page, sentences

MOST_WORDS = 27
READ_A_MINUTE = 240
MINUTES = {
    "service/dashboard/": 30,
    "service/cli/": 30,
    "service/": 120,
    "streaming/": 30,
    "solvers/": 30,
}
"""What a person needs at most to read all below a folder, but for folders named before it."""

PART = re.compile(r"(?<=[.!?;|])\s+|(?<=\w): (?=[a-z])")
WHOLE = re.compile(r"(?<=[.!?|])\s+")
FILLED = re.compile(r"\{[^{}]*\}")
BRITISH = re.compile(r"(?:colo|behavio|neighbo|favo)ur|labelled", re.IGNORECASE)


@pytest.fixture(scope="module")
def said() -> tuple[Sentence, ...]:
    """All sentences; to gather them reads every file."""
    return tuple(sentences())


def parts(said: Iterable[Sentence], ends: re.Pattern[str]) -> Iterator[tuple[Sentence, str]]:
    """Each part of the sentences between ``ends``, without what is filled in."""
    for each in said:
        for part in ends.split(each.text):
            yield each, FILLED.sub("…", part)


def require_none(wrong: Iterable[tuple[Sentence, str]]) -> None:
    """Fail with the sentences that break a rule."""
    shown = [f"{each.file}:{each.line}: {part}" for each, part in wrong]
    assert not shown, "\n".join(shown)


def test_the_list_of_sentences_is_the_recorded_one(said: tuple[Sentence, ...]) -> None:
    compare("sentences.txt", page(said))


def test_a_person_can_read_all_in_sittings(said: tuple[Sentence, ...]) -> None:
    words = dict.fromkeys(MINUTES, 0)
    for file, text in {(each.file, each.text) for each in said}:
        folder = next(each for each in MINUTES if file.startswith(each))
        words[folder] += len(text.split())
    takes = {folder: n_words / READ_A_MINUTE for folder, n_words in words.items()}
    assert all(takes[folder] <= most for folder, most in MINUTES.items()), takes


def test_a_sentence_is_short(said: tuple[Sentence, ...]) -> None:
    require_none(each for each in parts(said, PART) if len(each[1].split()) > MOST_WORDS)


def test_a_sentence_begins_with_what_it_is_about(said: tuple[Sentence, ...]) -> None:
    require_none(each for each in parts(said, PART) if each[1].startswith("Of "))


def test_a_sentence_has_one_semicolon_at_most(said: tuple[Sentence, ...]) -> None:
    require_none(each for each in parts(said, WHOLE) if each[1].count(";") > 1)


def test_what_is_known_is_not_said_to_be_told(said: tuple[Sentence, ...]) -> None:
    require_none(each for each in parts(said, WHOLE) if re.search(r"\btold\b", each[1]))


def test_words_are_spelled_as_in_america(said: tuple[Sentence, ...]) -> None:
    require_none(each for each in parts(said, WHOLE) if BRITISH.search(each[1]))


def test_sentences_are_found_however_they_are_written(said: tuple[Sentence, ...]) -> None:
    of_file = {each.file: {one.text for one in said if one.file == each.file} for each in said}
    assert "Measure how far" in " ".join(of_file["service/cli/graphs/certify.py"])  # a docstring
    thresholds = " ".join(of_file["service/predictions/thresholds.py"])
    assert "may be false alarms, as {n_wrong} of {n_others} left-out labels" in thresholds
    assert "No node has a label." in " ".join(
        of_file["service/dashboard/templates/label_effect.html"]
    )
    assert "No ingest has been noted yet." in of_file["service/dashboard/static/app.js"]
