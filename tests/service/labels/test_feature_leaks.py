"""Columns of features that give the label away."""

import numpy as np
import pytest

from peewit.service.labels.feature_leaks import gives_away

CLASSES = np.arange(12) % 2


@pytest.mark.parametrize(
    ("values", "is_leak"),
    [
        (CLASSES, True),  # the label itself
        (3.0 - 7.0 * CLASSES, True),
        (np.ones(12), False),  # the same of both
        (np.where(np.arange(12) == 5, 0, CLASSES), False),  # once otherwise
        (np.arange(12), False),  # one of each row
    ],
)
def test_a_column_gives_the_label_away_by_one_value_in_each_class(
    values: np.ndarray, is_leak: bool
) -> None:
    assert gives_away(values[:, None], CLASSES) == is_leak


def test_three_classes_need_three_values() -> None:
    of_three = np.arange(12) % 3
    one_hot = of_three[:, None] == np.arange(3)
    assert gives_away(one_hot, of_three)
    assert not gives_away(one_hot[:, :1], of_three)


def test_few_rows_and_classes_of_one_row_say_nothing() -> None:
    assert not gives_away(CLASSES[:9, None], CLASSES[:9])
    rare = np.arange(12) == 3
    assert not gives_away(rare[:, None], rare)
