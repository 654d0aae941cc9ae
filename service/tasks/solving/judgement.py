"""Judgement of a solve: accuracy of labels left out, and whether it holds for all nodes.

It holds for all nodes if the labels' origin says that they were drawn at random and no test
contradicts this; otherwise for nodes like the labeled ones. With enough random labels only these
are judged by.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from peewit.service.tasks.progress import StoppedEarly
from peewit.service.tasks.solving.assessment import tell_calibration
from peewit.service.tasks.solving.state import Answered, Assessment, Solving
from peewit.service.tasks.solving.thinning import corrected_too, is_residual_small
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.assessment.left_out_accuracy import (
    LEAST_RANDOM,
    LeftOutAccuracy,
    accuracy_interval,
    macro_f1,
)
from peewit.solvers.decision import decided
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, can_be_left_out, deal_folds
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.left_out.label_sample import (
    Bias,
    LabelSample,
    biases_of,
    unlike_degrees,
    without_blame,
)
from peewit.solvers.solution import LeftOut, Solution
from peewit.solvers.status import Status

Sample: TypeAlias = Literal["random", "untested", "biased"]
"""Random: the labels say so and no test contradicts. Untested: unknown. Biased: contradicted."""

Correct: TypeAlias = Callable[[Solution, Labels], Solution]
"""Corrects a solve with these labels by passes over all edges."""

_FOLDS: Final = 5
_MOST_NODES: Final = 20_000
"""Nodes whose classes are compared with those of labels."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """Labels left out, and the solution whose nodes they are compared with."""

    rows: LeftOut
    answer: Solution

    def of(self, is_taken: BoolArray) -> "_Seen":
        """Only the labels that are taken, by their places among all."""
        some, rows = is_taken[self.rows.places], self.rows
        rows = LeftOut(
            places=rows.places[some], scores=rows.scores[some], reachable=rows.reachable[some]
        )
        return replace(self, rows=rows)

    def is_right(self, labels: Labels) -> BoolArray:
        """(n_used,) whether each is predicted correctly; False where no label reaches."""
        is_found = self.classes == labels.classes[self.rows.places]
        return np.asarray(is_found & self.rows.reachable)

    @property
    def classes(self) -> Int64Array:
        """(n_used,) class that each is predicted to be of."""
        return decided(self.rows.scores, self.answer.decision)


def add_judgement(solving: Solving) -> None:
    """Add the judgement, and what it says of how much thinning decided."""
    answer, assessment, thinning = solving.first, solving.assessment, solving.thinning
    reads_all, is_auto = solving.reads_all, isinstance(answer.model, Auto)
    solution = solving.answer.solution
    if reads_all and solving.options.cross_validate:
        assessment.warnings.append(
            "labels were left out of solves on the edges that are kept, so accuracy and "
            "probabilities may be better than these figures"
        )
    if reads_all and solving.answer.labels is answer.labels:
        answer = solving.answer
    solving.judgement = judgement = judgement_of(
        answer,
        assessment,
        solving.is_random,
        is_thinned=solving.is_thinned,
        holds_out=not solving.task.is_automatic,
        correct=partial(corrected_too, solving) if reads_all and not is_auto else None,
        is_residual_small=not reads_all or is_auto or is_residual_small(solution),
        watch=solving.watch,
    )
    if thinning is None:
        return
    if judgement is not None and not reads_all:
        if thinning.is_much and judgement["are_all_random"] and not judgement["biases"]:
            solution = replace(solution, warnings=without_blame(solution.warnings))
        least = least_right(judgement, is_tested="sample_p_value" in solution.stats)
        if least is not None:
            solving.thinning = thinning = thinning.where_right(least)
    solving.take(replace(solution, stats={**solution.stats, "thinning_share": thinning.share}))


def judgement_of(
    answer: Answered,
    assessment: Assessment,
    is_random: BoolArray,
    *,
    is_thinned: bool = False,
    holds_out: bool,
    correct: Correct | None = None,
    is_residual_small: bool = True,
    watch: Watch,
) -> dict[str, Any] | None:
    """Judgement of labels left out, as JSON values; None where labels are numbers.

    The labels are those of a cross-validation that was asked for, else those that the model left
    out itself, else, where ``holds_out``, some that one more solve leaves out, else the accuracy is
    the model's own figure. From 50 random labels on only these are left out and counted.

    Keys: ``sample`` is a `Sample`; ``biases`` are the tests that contradict randomness;
    ``n_random`` counts random labels; ``only_random`` is whether only these were used;
    ``are_all_random`` whether there are no others; ``is_measured`` whether accuracy was looked at.

    With ``is_thinned`` (thinning decides much) predicted shares are no evidence against labels said
    to be random, as they swing from fold to fold. ``correct`` corrects the solve that held labels
    out, where the answer was corrected by passes over all edges; if these were too few (not
    ``is_residual_small``), held-out labels say little of the answer and no interval is given.
    Calibration goes to the ``assessment`` where the model left labels out for it.
    """
    labels, stats = answer.labels, answer.solution.stats
    if not isinstance(labels, Labels):
        return None
    is_random = can_be_left_out(labels) & is_random
    n_random = int(np.count_nonzero(is_random))
    judgement: dict[str, Any] = {"n_random": n_random, "is_measured": True, "only_random": False}
    judgement["are_all_random"] = n_random == int(np.count_nonzero(can_be_left_out(labels)))
    tells_itself = "loo_accuracy" in stats and "unjudged_share" not in stats
    if answer.leave_out_plan.n_suggested:  # the model has counted suggested labels, too
        tells_itself = False
    if correct is not None:  # what was left out before was predicted by what is left of the edges
        tells_itself, seen = False, None
    else:
        seen = _left_out_before(answer, assessment)
        if seen is not None:
            some = seen.of(answer.leave_out_plan.may_leave_out)
            seen = some if some.rows.places.size else None
    if seen is None and holds_out and (not tells_itself or n_random >= 2 * LEAST_RANDOM):
        seen = _held_out(answer, labels, is_random, correct, watch)
    biases = biases_of(stats)
    sample: Sample = "biased" if biases else "untested"
    if seen is not None:
        of_random = seen.of(is_random)
        if of_random.rows.places.size >= LEAST_RANDOM:
            seen, judgement["only_random"] = of_random, True
            looked = judgement["are_all_random"] and "sample_p_value" in stats
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
        judgement["is_measured"] = holds_out
    if (
        is_thinned
        and biases == ("shares",)
        and (judgement["only_random"] or judgement["are_all_random"])
    ):
        sample, biases = "untested", ()
    if not is_residual_small and sample == "random":
        sample = "untested"
    judgement |= {"sample": sample, "biases": list(biases)}
    if n_left_out == 0:
        return {**judgement, "accuracy": None, "n_left_out": 0}
    left_out = LeftOutAccuracy.of(
        labels,
        accuracy,
        n_left_out,
        is_random=sample == "random",
        classes=None if seen is None else labels.classes[seen.rows.places],
    )
    told = judgement | asdict(left_out)
    if seen is not None and seen.answer.decision is not None:
        of_class = labels.classes[seen.rows.places]
        told["macro_f1"] = macro_f1(of_class, seen.classes, labels.n_classes)
    return told


def least_right(judgement: Mapping[str, Any], *, is_tested: bool) -> float | None:
    """Lower bound on the share of nodes that are right, by a judgement; None if it is unknown.

    Labels not known to be random need enough left out, and tests that contradict nothing.
    """
    if judgement["biases"] or judgement["n_left_out"] < LEAST_RANDOM:
        return None
    if judgement["sample"] == "random":
        return cast(float, judgement["low"])
    return (
        accuracy_interval(judgement["accuracy"], judgement["n_left_out"])[0] if is_tested else None
    )


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
    answer: Answered, labels: Labels, is_random: BoolArray, correct: Correct | None, watch: Watch
) -> _Seen | None:
    """A fold of the labels, by a solve with the others; None where too few can be left out.

    The fold is a fifth, or of random labels at least as many as speak for all nodes.
    """
    may_leave_out = answer.leave_out_plan.may_leave_out
    n_random = int(np.count_nonzero(is_random & may_leave_out))
    if n_random >= 2 * LEAST_RANDOM:
        may_leave_out = may_leave_out & is_random
        n_folds = min(_FOLDS, n_random // LEAST_RANDOM)
    else:
        n_folds = min(_FOLDS, int(np.count_nonzero(can_be_left_out(labels, may_leave_out))))
    if n_folds < 2:
        return None
    fold, _ = deal_folds(labels, n_folds, 0, may_leave_out)
    others = answer.model.for_validation.solve_without(
        answer.prepared,
        labels,
        fold,
        0,  # not from the answer: a warm solve would change what is prepared for the next one
        progress=watch.progress,
        cancelled=watch.cancelled,
    )
    if others.status is Status.CANCELLED:
        raise StoppedEarly
    if correct is not None:
        others = correct(others, labels.subset(np.flatnonzero(fold != 0)))
    places = np.flatnonzero(fold == 0)
    nodes = labels.nodes[places]
    rows = LeftOut(
        places=places, scores=others.scores[nodes], reachable=np.asarray(others.reachable[nodes])
    )
    return _Seen(rows=rows, answer=others)


def _biases(answer: Answered, labels: Labels, seen: _Seen) -> tuple[Bias, ...]:
    """Tests of labels left out that contradict a random sample: classes and degrees (K16)."""
    degree, rows = answer.snapshot.graph.degree, seen.rows
    others = np.flatnonzero(labels.others(seen.answer.reachable))
    others = others[:: -(-others.size // _MOST_NODES) or 1]
    sample = LabelSample.of(
        _one_hot(seen.answer.classes(others), labels.n_classes),
        _one_hot(seen.classes[rows.reachable], labels.n_classes),
        labels.class_prior(),
    )
    degrees = unlike_degrees(degree, labels, labels.nodes[rows.places])
    return replace(sample, degrees=degrees).biases


def _one_hot(classes: Int64Array, n_classes: int) -> FloatArray:
    one_hot: FloatArray = np.zeros((classes.size, n_classes))
    one_hot[np.arange(classes.size), classes] = 1.0
    return one_hot
