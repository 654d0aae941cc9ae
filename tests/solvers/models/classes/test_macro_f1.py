"""The rule for macro-F1 beside all assignments, and what a decision rule promises."""

import numpy as np
import pytest

from peewit.solvers.decision import DecisionRule, decided
from peewit.solvers.models.classes.macro_f1 import expected_f1, macro_f1_rule
from tests.reference.macro_f1 import best_macro_f1, expected_macro_f1


def rows_of(n_nodes: int, n_classes: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.linspace(0.3, 1.5, n_classes), n_nodes)


@pytest.mark.parametrize("seed", range(40))
def test_the_rule_is_near_the_best_of_all_assignments(seed: int) -> None:
    rows = rows_of(6, 2 + seed % 2, seed)
    found = expected_macro_f1(rows, decided(rows, macro_f1_rule(rows)))
    assert expected_macro_f1(rows, rows.argmax(axis=1)) <= found + 1e-12
    assert best_macro_f1(rows) - 0.15 <= found <= best_macro_f1(rows) + 1e-12


def test_the_rule_is_mostly_the_best_of_all_assignments() -> None:
    n_best = 0
    for seed in range(60):
        rows = rows_of(6, 3, seed)
        found = expected_macro_f1(rows, decided(rows, macro_f1_rule(rows)))
        n_best += found > best_macro_f1(rows) - 1e-9
    assert n_best >= 30


@pytest.mark.parametrize("seed", range(5))
def test_of_many_nodes_no_single_one_would_do_better_elsewhere(seed: int) -> None:
    """The step is the derivative of the expected macro-F1, so its end is a fixed point."""
    rows = rows_of(400, 3, seed)
    rule = macro_f1_rule(rows)
    said = decided(rows, rule)
    best = expected_macro_f1(rows, said)
    for node in range(0, 400, 7):
        for other in range(3):
            moved = said.copy()
            moved[node] = other
            assert expected_macro_f1(rows, moved) <= best + 2e-5


def test_expected_measures_are_counted_as_node_by_node() -> None:
    rows = rows_of(50, 4, 1)
    assert expected_f1(rows, None)[0].mean() == pytest.approx(
        expected_macro_f1(rows, rows.argmax(axis=1))
    )


def test_a_rare_class_that_is_never_the_most_probable_is_found() -> None:
    rare = np.r_[np.full(20, 0.4), np.full(980, 0.01)]
    rows = np.column_stack([1.0 - rare, rare])
    assert (rows.argmax(axis=1) == 0).all()
    assert decided(rows, macro_f1_rule(rows))[:20].tolist() == [1] * 20


def test_renumbering_classes_renumbers_the_rule() -> None:
    rows, order = rows_of(300, 4, 2), np.array([2, 0, 3, 1])
    said = decided(rows, macro_f1_rule(rows))
    other = decided(rows[:, order], macro_f1_rule(rows[:, order]))
    np.testing.assert_array_equal(order[other], said)


def test_a_margin_is_what_must_move_for_another_class_to_win() -> None:
    rows = rows_of(200, 3, 3)
    rule = macro_f1_rule(rows)
    said = decided(rows, rule)
    for node, margin in enumerate(rule.margin(rows, said)):
        wins = []
        for share in (0.999, 1.001):
            moved = np.repeat(rows[node][None], 3, axis=0)
            moved[:, said[node]] -= share * margin / 2.0
            moved[np.arange(3), np.arange(3)] += share * margin / 2.0
            wins.append((decided(moved, rule) != said[node]).any())
        assert wins == ([False, True] if margin < 1.0 else [False, False])


def test_equal_weights_and_cuts_are_the_largest_score_and_its_margin() -> None:
    rows = rows_of(100, 3, 4)
    rule = DecisionRule(weight=np.ones(3), cut=np.full(3, 0.2))
    best = np.sort(rows, axis=1)
    np.testing.assert_array_equal(decided(rows, rule), decided(rows, None))
    np.testing.assert_allclose(rule.margin(rows, decided(rows, rule)), best[:, 2] - best[:, 1])


def test_a_rule_that_is_stored_is_restored() -> None:
    rows = rows_of(100, 3, 5)
    rule = macro_f1_rule(rows)
    restored = DecisionRule.restored(rule.stored)
    np.testing.assert_array_equal(decided(rows, rule), decided(rows, restored))
    assert DecisionRule.restored(None) is None
