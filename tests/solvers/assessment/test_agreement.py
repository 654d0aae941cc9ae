"""Agreement: against published worked examples, and against definitions counted pair by pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arrays import Int64Array
from peewit.solvers.assessment.agreement import (
    MOST_CLASSES,
    NO_ANSWER,
    alpha_agreement,
    pair_agreement,
    wilson_interval,
)
from tests.reference import agreement as naive

ANSWERS = st.lists(
    st.lists(st.sampled_from([NO_ANSWER, 0, 1, 2, 7]), min_size=3, max_size=3), max_size=12
)


def of_table(table: list[list[int]]) -> tuple[Int64Array, Int64Array]:
    """The answers behind a table of counts, the first person's in rows."""
    counts = np.array(table)
    first, second = np.indices(counts.shape)
    return np.repeat(first.ravel(), counts.ravel()), np.repeat(second.ravel(), counts.ravel())


def coded(*people: str) -> Int64Array:
    """(n_nodes, n_people) of letters, a point where there is no answer."""
    rows = zip(*people, strict=True)
    return np.array([[NO_ANSWER if each == "." else ord(each) for each in row] for row in rows])


def test_kappa_of_cohens_own_example() -> None:
    """Cohen 1960, table 1: 200 patients, three diagnoses."""
    found = pair_agreement(*of_table([[88, 14, 18], [10, 40, 10], [2, 6, 12]]))
    assert found.n_nodes == 200
    assert found.observed.value == pytest.approx(0.70)
    assert found.kappa.value == pytest.approx(0.492, abs=5e-4)
    # its standard error there is .055, so that 95 % are .108 to both sides
    assert found.kappa.low == pytest.approx(0.492 - 0.10, abs=0.02)
    assert found.kappa.high == pytest.approx(0.492 + 0.10, abs=0.02)


def test_alpha_of_krippendorffs_own_examples() -> None:
    """Krippendorff 2011, Computing Krippendorff's alpha-reliability, B and C, nominal."""
    two = coded("aabbdcccedda", "babbbccceddd")
    assert alpha_agreement(two)[1].value == pytest.approx(0.692, abs=5e-4)
    four = coded("123321412...", "1233224125..", ".33323422513", "12332441251.")
    n_nodes, found = alpha_agreement(four)
    assert n_nodes == 11
    assert found.value == pytest.approx(0.743, abs=5e-4)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.743 < found.high <= 1


@pytest.mark.parametrize(
    ("n_hits", "n", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)]
)
def test_intervals_of_shares_are_newcombes(n_hits: int, n: int, low: float, high: float) -> None:
    """Newcombe 1998, Two-sided confidence intervals for the single proportion, method 3."""
    assert wilson_interval(n_hits, n, confidence=0.95) == pytest.approx((low, high), abs=5e-5)


def test_where_all_answers_are_one_class_there_is_no_kappa() -> None:
    same = np.zeros(30, np.int64)
    found = pair_agreement(same, same)
    assert (found.observed.value, found.kappa.value, found.kappa.low) == (1.0, None, None)
    assert found.observed.low is not None
    assert found.observed.low < 0.9  # thirty that agree do not say that all would
    assert alpha_agreement(np.stack([same, same], axis=1))[1].value is None


def test_intervals_hold_the_figure_of_all_about_as_often_as_they_say() -> None:
    """Of 200 draws of 80 nodes, by people who are right four times of five."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 200_000)
    people = np.where(rng.random((2, truth.size)) < 0.8, truth, rng.integers(0, 3, truth.size))
    kappa = pair_agreement(people[0][:100_000], people[1][:100_000]).kappa.value
    assert kappa is not None
    n_held = 0
    for first in range(100_000, 116_000, 80):
        found = pair_agreement(*people[:, first : first + 80]).kappa
        assert found.low is not None
        assert found.high is not None
        n_held += found.low <= kappa <= found.high
    assert 0.88 * 200 <= n_held <= 0.99 * 200


def test_people_who_guess_agree_by_chance_alone() -> None:
    rng = np.random.default_rng(1)
    answers = rng.choice(3, size=(20_000, 4), p=[0.7, 0.2, 0.1])
    assert alpha_agreement(answers)[1].value == pytest.approx(0, abs=0.02)
    assert pair_agreement(answers[:, 0], answers[:, 1]).kappa.value == pytest.approx(0, abs=0.02)


def test_what_breaks_a_rule_is_named() -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=r"confidence must lie in \(0, 1\), got 1.0"):
        pair_agreement(one, one, confidence=1.0)
    with pytest.raises(ValueError, match="second must have 1 answers, got 2"):
        pair_agreement(one, np.zeros(2, np.int64))
    assert alpha_agreement(np.full((3, 2), NO_ANSWER))[0] == 0


@given(ANSWERS)
def test_figures_are_those_of_the_definitions(rows: list[list[int]]) -> None:
    answers = np.array(rows, np.int64).reshape(-1, 3)
    named = [[None if each == NO_ANSWER else each for each in row] for row in rows]
    pairable = [row for row in named if sum(each is not None for each in row) >= 2]
    n_nodes, found = alpha_agreement(answers)
    assert n_nodes == len(pairable)
    expected = naive.alpha(pairable) if pairable else None
    assert found.value == (None if expected is None else pytest.approx(float(expected)))
    both = [row for row in named if None not in row[:2]]
    pair = pair_agreement(answers[:, 0], answers[:, 1])
    assert (pair.n_nodes, pair.n_agreed) == (len(both), sum(a == b for a, b, _ in both))
    kappa = naive.kappa(*zip(*[row[:2] for row in both], strict=True)) if both else None
    assert pair.kappa.value == (None if kappa is None else pytest.approx(float(kappa)))


def test_more_classes_than_tables_hold_have_no_kappa_and_no_alpha() -> None:
    answers = np.arange(MOST_CLASSES + 1)
    pair = pair_agreement(answers, answers)
    assert (pair.observed.value, pair.kappa.value) == (1.0, None)
    n_nodes, alpha = alpha_agreement(np.stack([answers, answers], axis=1))
    assert (n_nodes, alpha.value) == (MOST_CLASSES + 1, None)
    assert pair_agreement(answers[1:], answers[1:]).kappa.value == 1.0
