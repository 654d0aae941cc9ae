"""Leave-one-out choice of the graph penalty, in closed form from the kernel between labeled nodes.

On a component the soft models are kernel ridge regression with the pseudo-inverse of L as kernel
(D9). So the kernel between labeled nodes, one solve with L per labeled node, gives the prediction
of every label by all others (D10) for any penalty, without another solve.

Decision: the logarithms of the penalties are averaged, weighted by the likelihood of the left-out
labels, as few labels leave many penalties equally good.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, IntArray
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.models.contract.laplacian_kernel import LabeledKernel
from peewit.solvers.models.left_out.label_groups import node_hash
from peewit.solvers.status import Status

MAX_KERNEL_NODES = 200
"""Most labels used for the choice; of more, a stratified sample of this size."""

PENALTY_GRID = 10.0 ** np.arange(-3.0, 3.5, 0.5)
"""Penalties tried: kappa of (C1) as a multiple of the mean kernel diagonal, which is rounded to
`UNITS_PER_DECADE` values a decade: one more label seldom changes kappa, and the last answer is then
nearly the next one."""

UNITS_PER_DECADE = 8

_N_NUMBER_GROUPS = 10
_INVERSE_TEMPERATURES = 2.0 ** np.arange(-3.0, 6.0, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PenaltyChoice:
    """The penalty that predicts left-out labels best.

    Labels are left out one at a time: those that leave another label of their class and another one
    in their component. ``accuracy`` and ``rmse`` are nan for labels of the other kind, or if none
    could be left out.
    """

    graph_penalty: float  # for the given number of labels
    accuracy: float  # share of the left-out labels it predicts
    rmse: float  # root of the mean squared miss on left-out numbers
    n_used: int  # labels that were left out
    status: Status  # of the solves for the kernel; if not converged, no choice was made

    def figures(self) -> dict[str, float | int | str]:
        """Stats of the left-out labels; empty if there were none."""
        if self.n_used == 0:
            return {}
        of_classes = np.isnan(self.rmse)
        figure = {"loo_accuracy": self.accuracy} if of_classes else {"loo_rmse": self.rmse}
        return {**figure, "loo_labels": self.n_used}


def choose_penalty(
    kernel: LabeledKernel, labels: Targets, *, zero_mean: bool, watch: Watch = UNWATCHED
) -> PenaltyChoice:
    """The graph penalty that predicts each of ``labels`` best from the others.

    Of more than 200 labels a stratified sample is used, and kappa carried over. ``zero_mean`` is
    True for Stable-HFS, False for soft HFS.

    Notes
    -----
    One solve with L per labeled node that ``kernel`` does not know, then 13 inversions of a matrix
    over labeled nodes. Multiplying all edge weights by a constant divides the choice by it.
    """
    sample = stratified_sample(labels, MAX_KERNEL_NODES)
    nodes, targets = labels.nodes[sample], labels.targets()[sample]
    classes = labels.classes[sample] if isinstance(labels, Labels) else None
    component = kernel.solver.graph.component[nodes]
    entries, status = kernel.between(nodes, watch.progress, watch.cancelled)
    unit = _unit(entries, kernel.solver.graph.degree) if status is Status.CONVERGED else 1.0
    usable = _has_peers(component)
    if classes is not None:
        usable &= _has_peers(classes)
    penalty, accuracy, rmse = unit, float("nan"), float("nan")
    if status is Status.CONVERGED and usable.any():
        # kappa = graph_penalty * n_labeled: one is missing
        fitted = (len(sample) - 1) / len(sample)
        scores = []
        for kappa in unit * PENALTY_GRID:
            predicted = left_out_targets(
                entries, component, targets, kappa * fitted, zero_mean=zero_mean
            )
            removed = _mean_of_others(targets) if zero_mean and classes is not None else 0.0
            scores.append((predicted - removed)[usable])
        if classes is None:
            best = _best_of_numbers(scores, targets[usable])
            rmse = float(np.sqrt(np.square(scores[best] - targets[usable]).mean()))
        else:
            best = _best_of(scores, classes[usable])
            accuracy = float((scores[best].argmax(axis=1) == classes[usable]).mean())
        penalty = float(unit * PENALTY_GRID[best])
    return PenaltyChoice(
        graph_penalty=penalty / labels.n_labeled,
        accuracy=accuracy,
        rmse=rmse,
        n_used=int(usable.sum()) if status is Status.CONVERGED else 0,
        status=status,
    )


def _unit(entries: FloatArray, degree: FloatArray) -> float:
    """The mean diagonal, times the mean degree rounded to `UNITS_PER_DECADE` values a decade."""
    mean_diagonal, mean_degree = float(np.diag(entries).mean()), float(degree.mean())
    if not (mean_diagonal > 0 and mean_degree > 0):
        return 1.0
    place = round(UNITS_PER_DECADE * float(np.log10(mean_diagonal) + np.log10(mean_degree)))
    return float(10.0 ** (place / UNITS_PER_DECADE) / mean_degree)


def stratified_sample(labels: Targets, size: int) -> Int64Array:
    """Positions, increasing, of at most ``size`` labels, in equal shares of every class.

    Numbers are dealt into ten classes by size. Within a class a hash of the node decides, so that
    one more label changes few of the choices.
    """
    n_labeled = labels.n_labeled
    if n_labeled <= size:
        return np.arange(n_labeled)
    if isinstance(labels, Labels):
        groups = labels.classes
    else:
        rank = np.empty(n_labeled, np.int64)
        rank[np.argsort(labels.targets()[:, 0], kind="stable")] = np.arange(n_labeled)
        groups = rank * _N_NUMBER_GROUPS // n_labeled
    order = np.lexsort((node_hash(labels.nodes), groups))
    counts = np.bincount(groups)
    starts = np.cumsum(counts) - counts
    place = np.arange(n_labeled) - starts[groups[order]]
    share = (place + 0.5) / counts[groups[order]]
    chosen: Int64Array = order[np.argsort(share, kind="stable")[:size]]
    return np.sort(chosen)


def left_out_targets(
    kernel: FloatArray, component: IntArray, targets: FloatArray, penalty: float, *, zero_mean: bool
) -> FloatArray:
    """What the model fitted to the other labels predicts for each target, exactly.

    Parameters
    ----------
    kernel : (n_labeled, n_labeled)
        Pseudo-inverse of L between the labeled nodes.
    component : (n_labeled,)
        Component of each labeled node.
    targets : (n_labeled, n_classes)
        One-hot.
    penalty : float
        kappa of (C1) for the fits: graph_penalty * (n_labeled - 1).
    zero_mean : bool
        True for Stable-HFS, where f sums to zero over a component, False for soft HFS.

    Returns
    -------
    (n_labeled, n_classes) float64
        f plus the mean target of the component's other labels; the overall mean of the other labels
        where the component holds no other.
    """
    predicted = _mean_of_others(targets)
    for number in np.unique(component):
        rows = np.flatnonzero(component == number)
        if rows.size > 1:
            block = kernel[np.ix_(rows, rows)]
            predicted[rows] = _left_out_block(block, targets[rows], penalty, zero_mean=zero_mean)
    return predicted


def _left_out_block(
    kernel: FloatArray, targets: FloatArray, penalty: float, *, zero_mean: bool
) -> FloatArray:
    """`left_out_targets` of one component.

    With A = (K + kappa I)^-1 a fit to fixed targets t misses a left-out t_i by (A t)_i / A_ii
    (D10). Stable-HFS fits t = y - (mean of the others), which depends on i but enters linearly.
    Soft HFS has a free constant: A becomes the inverse of K + kappa I bordered by ones.
    """
    inverse = np.linalg.inv(kernel + penalty * np.eye(len(kernel)))
    row_sums = inverse.sum(axis=1, keepdims=True)
    if zero_mean:
        missed = inverse @ targets - row_sums * _mean_of_others(targets)
    else:
        inverse = inverse - row_sums * row_sums.T / row_sums.sum()
        missed = inverse @ targets
    predicted: FloatArray = targets - missed / np.diag(inverse)[:, None]  # (D10)
    return predicted


def _mean_of_others(targets: FloatArray) -> FloatArray:
    means: FloatArray = (targets.sum(axis=0) - targets) / (len(targets) - 1)
    return means


def _has_peers(groups: IntArray) -> BoolArray:
    """Whether another entry has the same group number."""
    _, place, count = np.unique(groups, return_inverse=True, return_counts=True)
    return count[place] > 1


def _best_of(scores: list[FloatArray], classes: IntArray) -> int:
    """Place in the grid of the mean penalty, by the log losses of classes."""
    return _weighted_place([_log_losses(one, classes).sum() for one in scores])


def _best_of_numbers(predicted: list[FloatArray], targets: FloatArray) -> int:
    """As `_best_of` for numbers: squared loss, as normal misses of the variance that fits best.

    Misses below 1e-9 of the targets' spread are rounding and decide nothing.
    """
    least = np.square(1e-9 * np.ptp(targets))
    means = np.array([np.square(one - targets).mean() for one in predicted])
    if least == 0:
        return _weighted_place(list(np.zeros(len(predicted))))
    return _weighted_place(list(targets.size / 2 * np.log(np.maximum(means, least))))


def _weighted_place(losses: list[float]) -> int:
    """Mean place in the grid, weighted by likelihood."""
    likelihood = np.exp(min(losses) - np.array(losses))
    return round(float(np.average(np.arange(len(losses)), weights=likelihood)))


def _log_losses(scores: FloatArray, classes: IntArray) -> FloatArray:
    """Log loss of each row's softmax, at the temperature that makes their mean lowest."""
    centered = scores - scores.mean(axis=1, keepdims=True)
    size = np.abs(centered).mean()
    if size == 0:
        return np.full(classes.size, np.log(scores.shape[1]))
    candidates = []
    for sharpness in _INVERSE_TEMPERATURES / size:
        logits = sharpness * centered
        top = logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
        candidates.append(total - logits[np.arange(classes.size), classes])
    return min(candidates, key=np.mean)
