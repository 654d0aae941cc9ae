"""Figures of a score against scikit-learn, and thresholds against trying all of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from peewit.solvers.assessment.thresholds import ScoreCurve, ThresholdGoal, choose_threshold

SCORED = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40)


def columns(scored: list[tuple[bool, int]]) -> tuple[np.ndarray, np.ndarray]:
    is_positive, scores = (np.array(each) for each in zip(*scored, strict=True))
    return is_positive, scores.astype(np.float32) / 4


@given(SCORED)
def test_figures_are_those_of_scikit_learn(scored: list[tuple[bool, int]]) -> None:
    is_positive, scores = columns(scored)
    curve = ScoreCurve.of(is_positive, scores)
    if not is_positive.any():
        assert curve.average_precision is None
    else:
        expected = average_precision_score(is_positive, scores)
        assert curve.average_precision == pytest.approx(expected)
    if is_positive.all() or not is_positive.any():
        assert curve.roc_auc is None
    else:
        assert curve.roc_auc == pytest.approx(roc_auc_score(is_positive, scores))


def test_nodes_without_score_rank_last() -> None:
    is_positive = np.array([True, False, True, False])
    curve = ScoreCurve.of(is_positive, np.array([0.9, 0.1, -np.inf, -np.inf]))
    ranked = ScoreCurve.of(is_positive, np.array([0.9, 0.1, -5, -5]))
    assert curve.roc_auc == ranked.roc_auc
    assert curve.average_precision == ranked.average_precision


@given(
    SCORED,
    st.one_of(
        st.fixed_dictionaries({"min_recall": st.floats(0.05, 1.0)}),
        st.fixed_dictionaries({"min_precision": st.floats(0.05, 1.0)}),
        st.fixed_dictionaries({"cost_fn": st.floats(0.1, 20.0), "cost_fp": st.floats(0.1, 20.0)}),
    ),
    st.one_of(st.none(), st.floats(0.05, 0.95)),
)
def test_no_other_threshold_meets_a_goal_better(
    scored: list[tuple[bool, int]], goal: dict[str, Any], share: float | None
) -> None:
    is_positive, scores = columns(scored)
    if is_positive.all() or not is_positive.any():
        return
    pi = float(is_positive.mean()) if share is None else share

    def found(threshold: float) -> tuple[float, float, float]:
        """Recall, precision (0 of nothing) and cost, by counting."""
        is_found = scores >= threshold
        recall = float((is_found & is_positive).sum() / is_positive.sum())
        false_rate = float((is_found & ~is_positive).sum() / (~is_positive).sum())
        hits = pi * recall
        precision = hits / (hits + (1 - pi) * false_rate) if is_found.any() else 0.0
        cost = goal.get("cost_fn", 1) * (pi - hits) + goal.get("cost_fp", 1) * (1 - pi) * false_rate
        return recall, precision, cost

    every = [found(each) for each in [*np.unique(scores), np.inf]]
    curve, asked = ScoreCurve.of(is_positive, scores), ThresholdGoal(positive_share=share, **goal)
    close = 1e-9
    if "min_precision" in goal and not any(each[1] >= goal["min_precision"] for each in every):
        with pytest.raises(ValueError, match="min_precision must be at most"):
            choose_threshold(curve, asked)
        return
    recall, precision, cost = found(choose_threshold(curve, asked))
    if "cost_fn" in goal:
        assert cost <= min(each[2] for each in every) + close
    elif "min_recall" in goal:
        assert recall >= goal["min_recall"] - close
        best = max(each[1] for each in every if each[0] >= goal["min_recall"])
        assert precision >= best - close
    else:
        assert precision >= goal["min_precision"] - close
        assert recall >= max(each[0] for each in every if each[1] >= goal["min_precision"]) - close


def test_nodes_that_no_label_reaches_are_never_found() -> None:
    is_positive = np.array([True, True, False])
    curve = ScoreCurve.of(is_positive, np.array([-np.inf, 0.2, 0.1]))
    assert choose_threshold(curve, ThresholdGoal(cost_fn=1000.0)) > -np.inf
    with pytest.raises(ValueError, match=r"min_recall must be at most 0\.5000"):
        choose_threshold(curve, ThresholdGoal(min_recall=0.9))


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        ({"min_recall": 0.0}, r"min_recall must lie in \(0, 1\], got 0\.0"),
        ({"min_precision": 1.5}, r"min_precision must lie in \(0, 1\], got 1\.5"),
        ({"cost_fn": -1.0}, "cost_fn must be positive and finite, got -1"),
        ({"cost_fp": float("nan")}, "cost_fp must be positive and finite, got nan"),
        ({"cost_fn": 1.0, "positive_share": 1.0}, r"positive_share must lie in \(0, 1\), got 1"),
        ({"min_recall": 0.5, "cost_fp": 1.0}, "min_recall must stand without cost_fn or cost_fp"),
        ({"min_recall": 0.5, "min_precision": 0.5}, "min_recall must stand without min_precision"),
    ],
)
def test_a_goal_that_breaks_its_rule_is_refused(goal: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ThresholdGoal(**goal)


def test_a_choice_needs_a_goal_and_both_sorts_of_nodes() -> None:
    curve = ScoreCurve.of(np.array([True, False]), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="threshold must be chosen for one of min_recall"):
        choose_threshold(curve, ThresholdGoal())
    for is_positive in (True, False):
        one_sort = ScoreCurve.of(np.full(2, is_positive), np.array([1.0, 0.0]))
        with pytest.raises(ValueError, match="positive must be the class of some"):
            choose_threshold(one_sort, ThresholdGoal(min_recall=0.5))


def test_a_threshold_parts_neighboring_floats() -> None:
    rng = np.random.default_rng(0)
    for low in rng.random(200, np.float32):
        scores = np.array([np.nextafter(low, np.float32(2.0)), low])
        curve = ScoreCurve.of(np.array([True, False]), scores)
        threshold = choose_threshold(curve, ThresholdGoal(cost_fp=1.0))
        assert (scores >= threshold).tolist() == [True, False]
