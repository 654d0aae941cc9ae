"""What a solve says first of itself: how often labels left out are right, and whom that speaks for.

Labels speak for all nodes where they were drawn at random, as their origin says, and nothing in
them contradicts it; else they speak for nodes like themselves.
"""

from dataclasses import asdict
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from peewit.service.tasks.assessment import Answered, Assessment
from peewit.service.tasks.progress import StoppedEarly
from peewit.solvers.arrays import BoolArray
from peewit.solvers.assessment.left_out_accuracy import LEAST_RANDOM, LeftOutAccuracy
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.labels import Labels, can_be_left_out, deal_folds
from peewit.solvers.models.label_sample import biases_of
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

Sample: TypeAlias = Literal["random", "untested", "biased"]
"""Whether the labels are a random sample: as they say and nothing contradicts, unknown, or not."""

_FOLDS: Final = 5


def sample_of(
    solution: Solution, labels: Labels, is_random: BoolArray
) -> tuple[Sample, tuple[str, ...], int]:
    """What the labels are a sample of, in what they contradict it, and how many are random."""
    n_random = int(np.count_nonzero(can_be_left_out(labels) & is_random))
    biases = biases_of(solution.stats)
    if biases:
        return "biased", biases, n_random
    return ("random" if n_random >= LEAST_RANDOM else "untested"), (), n_random


def judged(
    answer: Answered,
    assessment: Assessment,
    is_random: BoolArray,
    *,
    holds_out: bool,
    progress: Progress,
    cancelled: Cancelled,
) -> dict[str, Any] | None:
    """Figures of the labels left out, as JSON values; None of numbers.

    They are those of a cross-validation that was asked for, else those that the model has told of
    itself, else, where a solve more ``holds_out`` a fifth of the labels, those of that fifth.
    """
    labels, stats = answer.labels, answer.solution.stats
    if not isinstance(labels, Labels):
        return None
    found = None
    folds = assessment.figures.get("cross_validation")
    if folds is not None and assessment.is_dropped is None:
        found = float(folds["accuracy"]), int(folds["n_left_out"])
    elif "loo_accuracy" in stats and "unjudged_share" not in stats:
        found = float(stats["loo_accuracy"]), int(stats["loo_labels"])
    elif holds_out:
        found = _held_out(answer, labels, progress, cancelled)
    sample, biases, n_random = sample_of(answer.solution, labels, is_random)
    told: dict[str, Any] = {"sample": sample, "biases": list(biases), "n_random": n_random}
    if found is None or found[1] == 0:
        return {**told, "accuracy": None, "n_left_out": 0}
    accuracy, n_left_out = found
    speaks = n_random if sample == "random" else None
    return told | asdict(LeftOutAccuracy.of(labels, accuracy, n_left_out, n_random=speaks))


def _held_out(
    answer: Answered, labels: Labels, progress: Progress, cancelled: Cancelled
) -> tuple[float, int] | None:
    """Accuracy on a fifth of the labels by the others; None where too few can be left out."""
    may_leave_out = answer.judged.may_leave_out
    n_folds = min(_FOLDS, int(np.count_nonzero(can_be_left_out(labels, may_leave_out))))
    if n_folds < 2:
        return None
    model = answer.model.judged
    fold, _ = deal_folds(labels, n_folds, 0, may_leave_out)
    found = model.solve_without(
        answer.prepared,
        labels,
        fold,
        0,  # not from the answer: a warm solve would change what is prepared for the next one
        progress=progress,
        cancelled=cancelled,
    )
    if found.status is Status.CANCELLED:
        raise StoppedEarly
    held = np.flatnonzero(fold == 0)
    nodes = labels.nodes[held]
    is_right = (found.scores[nodes].argmax(axis=1) == labels.classes[held]) & found.reachable[nodes]
    return float(is_right.mean()), held.size
