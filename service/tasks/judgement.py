"""What a solve says first of itself: how often labels left out are right, and whom that speaks for.

Labels speak for all nodes where they were drawn at random, as their origin says, and nothing in
them contradicts it; else they speak for nodes like themselves. Where enough of them were, these
alone are asked, whatever the others are.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from peewit.service.tasks.assessment import Answered, Assessment, tell_calibration
from peewit.service.tasks.progress import StoppedEarly
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.assessment.left_out_accuracy import (
    LEAST_RANDOM,
    LeftOutAccuracy,
    accuracy_interval,
)
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.labels import Labels, can_be_left_out, deal_folds
from peewit.solvers.models.left_out.label_sample import Bias, LabelSample, biases_of, unlike_degrees
from peewit.solvers.solution import LeftOut, Solution
from peewit.solvers.status import Status

Sample: TypeAlias = Literal["random", "untested", "biased"]
"""Whether the labels are a random sample: as they say and nothing contradicts, unknown, or not."""

Correct: TypeAlias = Callable[[Solution, Labels], Solution]
"""Passes over all edges for a solve with these labels."""

_FOLDS: Final = 5
_MOST_NODES: Final = 20_000
"""Nodes whose classes are compared with those of labels."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """Labels left out, and the answer whose nodes they are compared with."""

    rows: LeftOut
    answer: Solution

    def of(self, is_taken: BoolArray) -> "_Seen":
        """Those of some labels, by their places among all."""
        some, rows = is_taken[self.rows.places], self.rows
        rows = LeftOut(
            places=rows.places[some], scores=rows.scores[some], reachable=rows.reachable[some]
        )
        return replace(self, rows=rows)

    def is_right(self, labels: Labels) -> BoolArray:
        """(n_used,) which are predicted as they are; what no label reaches is not."""
        is_found = self.rows.scores.argmax(axis=1) == labels.classes[self.rows.places]
        return np.asarray(is_found & self.rows.reachable)


def judged(
    answer: Answered,
    assessment: Assessment,
    is_random: BoolArray,
    *,
    is_thinned: bool = False,
    holds_out: bool,
    correct: Correct | None = None,
    is_settled: bool = True,
    progress: Progress,
    cancelled: Cancelled,
) -> dict[str, Any] | None:
    """Figures of the labels left out, as JSON values; None of numbers.

    They are those of a cross-validation that was asked for, else those that the model keeps of
    itself, else, where a solve more ``holds_out`` some of the labels, those of these, else the
    figure that the model tells. From 50 random labels on only these are left out and counted.

    ``sample`` is a `Sample`, ``biases`` name what contradicts it, ``n_random`` counts the labels
    drawn at random, ``only_random`` tells whether these alone were asked, ``are_all_random``
    whether there are no others, and ``is_measured`` whether a solve looked at all. Where what is
    left of a thinned graph (``is_thinned``) decides much, predicted shares do not blame labels that
    are said to be random: there they swing from fold to fold. How true probabilities are goes to
    the ``assessment`` where the model itself has left labels out for them. Where the answer was
    corrected by passes over all edges, what is held out is, too, by ``correct``; where these were
    too few (not ``is_settled``), one that was held out says little of the answer, and no interval
    is told.
    """
    labels, stats = answer.labels, answer.solution.stats
    if not isinstance(labels, Labels):
        return None
    is_random = can_be_left_out(labels) & is_random
    n_random = int(np.count_nonzero(is_random))
    told: dict[str, Any] = {"n_random": n_random, "is_measured": True, "only_random": False}
    told["are_all_random"] = n_random == int(np.count_nonzero(can_be_left_out(labels)))
    tells_itself = "loo_accuracy" in stats and "unjudged_share" not in stats
    if answer.judged.n_suggested:  # the model has counted suggested labels, too
        tells_itself = False
    if correct is not None:  # what was left out before was predicted by what is left of the edges
        tells_itself, seen = False, None
    else:
        seen = _left_out_before(answer, assessment)
        if seen is not None:
            some = seen.of(answer.judged.may_leave_out)
            seen = some if some.rows.places.size else None
    if seen is None and holds_out and (not tells_itself or n_random >= 2 * LEAST_RANDOM):
        seen = _held_out(answer, labels, is_random, correct, progress, cancelled)
    biases = biases_of(stats)
    sample: Sample = "biased" if biases else "untested"
    if seen is not None:
        of_random = seen.of(is_random)
        if of_random.rows.places.size >= LEAST_RANDOM:
            seen, told["only_random"] = of_random, True
            looked = told["are_all_random"] and "sample_p_value" in stats
            biases = biases if looked else _biases(answer, labels, seen)
            sample = "biased" if biases else "random"
        accuracy, n_left_out = float(seen.is_right(labels).mean()), seen.rows.places.size
        is_own = seen.answer is answer.solution and "calibration" not in assessment.figures
        if is_own and answer.model.is_calibrated:
            classes = labels.classes[seen.rows.places]
            tell_calibration(assessment, seen.rows.scores, classes, is_calibrated=True)
    elif tells_itself:
        accuracy, n_left_out = float(stats["loo_accuracy"]), int(stats["loo_labels"])
    else:
        accuracy, n_left_out = 0.0, 0
        told["is_measured"] = holds_out
    if is_thinned and biases == ("shares",) and (told["only_random"] or told["are_all_random"]):
        sample, biases = "untested", ()
    if not is_settled and sample == "random":
        sample = "untested"
    told |= {"sample": sample, "biases": list(biases)}
    if n_left_out == 0:
        return {**told, "accuracy": None, "n_left_out": 0}
    found = LeftOutAccuracy.of(
        labels,
        accuracy,
        n_left_out,
        is_random=sample == "random",
        classes=None if seen is None else labels.classes[seen.rows.places],
    )
    return told | asdict(found)


def least_right(told: Mapping[str, Any], *, is_tested: bool) -> float | None:
    """Least share of the nodes that is right, by what `judged` told; None where nobody knows.

    Of labels that nobody says are random enough must be left out, and tests contradict nothing.
    """
    if told["biases"] or told["n_left_out"] < LEAST_RANDOM:
        return None
    if told["sample"] == "random":
        return cast(float, told["low"])
    return accuracy_interval(told["accuracy"], told["n_left_out"])[0] if is_tested else None


def _left_out_before(answer: Answered, assessment: Assessment) -> _Seen | None:
    """Labels that a cross-validation or the model has left out already."""
    scores, rows = assessment.left_out_scores, answer.solution.left_out
    if scores is not None and assessment.is_dropped is None:
        places = np.flatnonzero(~np.isnan(scores).any(axis=1))
        some = scores[places].astype(np.float64)
        rows = LeftOut(
            places=places, scores=some, reachable=np.asarray(np.isfinite(some).all(axis=1))
        )
    return (
        None if rows is None or not rows.places.size else _Seen(rows=rows, answer=answer.solution)
    )


def _held_out(
    answer: Answered,
    labels: Labels,
    is_random: BoolArray,
    correct: Correct | None,
    progress: Progress,
    cancelled: Cancelled,
) -> _Seen | None:
    """A part of the labels, by a solve with the others; None where too few can be left out.

    A fifth, but of random labels at least as many as speak for all nodes.
    """
    may_leave_out = answer.judged.may_leave_out
    n_random = int(np.count_nonzero(is_random & may_leave_out))
    if n_random >= 2 * LEAST_RANDOM:
        may_leave_out = may_leave_out & is_random
        n_folds = min(_FOLDS, n_random // LEAST_RANDOM)
    else:
        n_folds = min(_FOLDS, int(np.count_nonzero(can_be_left_out(labels, may_leave_out))))
    if n_folds < 2:
        return None
    fold, _ = deal_folds(labels, n_folds, 0, may_leave_out)
    found = answer.model.judged.solve_without(
        answer.prepared,
        labels,
        fold,
        0,  # not from the answer: a warm solve would change what is prepared for the next one
        progress=progress,
        cancelled=cancelled,
    )
    if found.status is Status.CANCELLED:
        raise StoppedEarly
    if correct is not None:
        found = correct(found, labels.subset(np.flatnonzero(fold != 0)))
    places = np.flatnonzero(fold == 0)
    nodes = labels.nodes[places]
    rows = LeftOut(
        places=places, scores=found.scores[nodes], reachable=np.asarray(found.reachable[nodes])
    )
    return _Seen(rows=rows, answer=found)


def _biases(answer: Answered, labels: Labels, seen: _Seen) -> tuple[Bias, ...]:
    """In what labels left out contradict a random sample: predicted classes, and degrees (K16)."""
    degree, rows = answer.snapshot.graph.degree, seen.rows
    is_other = seen.answer.reachable.copy()
    is_other[labels.nodes] = False
    others = np.flatnonzero(is_other)
    others = others[:: -(-others.size // _MOST_NODES) or 1]
    sample = LabelSample.of(
        _winners(seen.answer.scores[others]),
        _winners(rows.scores[rows.reachable]),
        labels.class_prior(),
    )
    degrees = unlike_degrees(degree, labels.nodes, labels.nodes[rows.places])
    return replace(sample, degrees=degrees).biases


def _winners(scores: FloatArray) -> FloatArray:
    """One in the column of the largest score, else zeros."""
    winners: Int64Array = scores.argmax(axis=1)
    found: FloatArray = np.zeros(scores.shape)
    found[np.arange(len(scores)), winners] = 1.0
    return found
