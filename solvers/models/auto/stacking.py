"""Stacking: arms weighted by how well they predict labels left out.

Decision: the weights have a prior that is a mixture. Context: five labels a class fit nothing, and
one set of prior weights is wrong by tens of points on some kind of graph, as is the majority; with
many labels all of that is a matter of a fit. Consequence: each component of the prior, a `Belief`,
is one way in which the arms may be right, or none of them. The evidence of its fit is the
probability of the left-out labels with the weights integrated out (K9), and predictions are
averaged by it. One of the beliefs is that the arms say nothing and the class shares answer, so the
mean log loss on left-out labels is never more than -log(mass) / n_labels above theirs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, log_ndtr, log_softmax, softmax

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.models.auto.stacked_arm import StackedArm
from peewit.solvers.models.left_out.label_coverage import LabelCoverage
from peewit.solvers.row_ranges import row_blocks

CONCENTRATIONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 1e4)
"""Pseudo-labels of each class that are tried (K10); the last one makes all classes equal."""

_VARIANCE = 0.5
_VARIANCE_UNNAMED = 0.1
_VARIANCE_OF_SCALE = 1.0 / 0.6

_NEGLIGIBLE = 1e-3
_RANKING = 1e-3
"""Weight of arms that only rank nodes: what float32 still tells apart."""

_FITTED = 1e-9
_NEAR_ZERO = 1e-4
_SUFFICIENT = 1e-4
_MOST_STEPS, _MOST_HALVINGS = 200, 60
_LEAST_ORDERING = 20
_LEAST_LOG_RATIO = 0.1
"""Least log ratio of the commonest and the rarest class share for which order is kept: with nearer
ones nodes are a toss-up, which contradicted arms decide worse than nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """One component of the prior: which arms may be right, and how (K8), (K9)."""

    weights: Mapping[str, float]  # prior means; 0 for others; none: class shares answer unfitted
    mass: float  # prior probability, relative to the others'
    uses_shares: bool = False  # arms are likelihoods, with the class shares as prior
    variance: float = _VARIANCE  # prior, of class intercepts; less for arms that are balanced
    ignores: tuple[str, ...] = ()  # arms of weight 0, which only other beliefs use


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharePrior:
    """Class shares estimated from the labels, as logarithms (K10)."""

    of_all: FloatArray  # (n_classes,)
    left_out: FloatArray  # (n_labeled, n_classes), without each label

    @classmethod
    def of(cls, classes: Int64Array, n_classes: int) -> "SharePrior":
        """The posterior mean under symmetric Dirichlet priors, averaged by their evidence (K10).

        So classes with equally many labels get equal shares also without one label, unlike plain
        counts.
        """
        counts = np.bincount(classes, minlength=n_classes).astype(np.float64)
        prior = np.array(CONCENTRATIONS)[:, None]
        evidence = (
            gammaln(n_classes * prior[:, 0])
            - gammaln(n_classes * prior[:, 0] + counts.sum())
            + (gammaln(counts + prior) - gammaln(prior)).sum(axis=1)
        )
        weights = softmax(evidence)
        others = np.tile(counts, (classes.size, 1))
        others[np.arange(classes.size), classes] -= 1.0

        def shares(known: FloatArray) -> FloatArray:
            n_known = known.sum(axis=-1, keepdims=True)
            whole = sum(
                weight * (known + concentration) / (n_known + n_classes * concentration)
                for weight, concentration in zip(weights, CONCENTRATIONS, strict=True)
            )
            logs: FloatArray = np.log(whole)
            return logs

        return cls(of_all=shares(counts), left_out=shares(others))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """A belief after the left-out labels.

    Weights are posterior modes; the mean where that is 0, the belief names the arm, and the classes
    have uneven shares (K8).
    """

    name: str
    uses_shares: bool
    weights: Mapping[str, float]  # of the arms
    intercept: FloatArray  # (n_classes,) gain of each class everywhere (K7)
    slope: FloatArray  # (n_classes,) gain with the degree (K7)
    log_evidence: float  # with the prior mass of the belief (K9)
    left_out: FloatArray  # (n_used, n_classes) probabilities of the left-out labels
    order_weights: Mapping[str, float]  # of the arms, those of the prior where none counts
    order_left_out: FloatArray  # (n_used, n_classes) probabilities by these

    @property
    def says_something(self) -> bool:
        """Whether an arm counts."""
        return any(weight > _FITTED for weight in self.weights.values())

    def logits(
        self,
        weights: Mapping[str, float],
        arms: Mapping[str, StackedArm],
        shares: FloatArray,
        covariate: FloatArray,
        rows: slice | Int64Array,
    ) -> FloatArray:
        """(n_rows, n_classes) logits of some nodes (K7) with these weights of the arms."""
        logits = np.tile(self.intercept, (covariate[rows].size, 1))
        if self.uses_shares:
            logits += shares
        for name, own in weights.items():
            if own > 0:
                logits += own * arms[name].scale * arms[name].values[rows]
        if self.slope.any():
            logits += covariate[rows, None] * self.slope
        return logits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stack:
    """Fits, and how much each counts."""

    fits: tuple[Fit, ...]
    posterior: FloatArray  # (n_fits,) probabilities of the fits, given the left-out labels
    shares: SharePrior

    @property
    def left_out(self) -> FloatArray:
        """(n_used, n_classes) probabilities of the labels left out."""
        mixed: FloatArray = sum(
            weight * fit.left_out for weight, fit in zip(self.posterior, self.fits, strict=True)
        )
        ranking = self._ranking
        if ranking is None or self._tells_apart:
            return mixed
        return _ranked(mixed, ranking.order_left_out)

    @property
    def _ranking(self) -> Fit | None:
        """The belief in arms that counts most.

        The class shares alone, even if nearly certain, would rank no node before another.
        """
        pairs = zip(self.posterior, self.fits, strict=True)
        able = [pair for pair in pairs if pair[1].weights]
        return max(able, key=lambda pair: pair[0])[1] if able else None

    @property
    def _tells_apart(self) -> bool:
        """Whether an arm counts so much that float32 tells nodes apart."""
        pairs = zip(self.posterior, self.fits, strict=True)
        return any(share > _RANKING and fit.says_something for share, fit in pairs)

    @property
    def is_ranked(self) -> bool:
        """Whether a little of an arm that hardly counts ranks the rows."""
        return self._ranking is not None and not self._tells_apart

    @property
    def belief_weights(self) -> dict[str, float]:
        """How much each belief counts."""
        counted: dict[str, float] = {}
        for share, fit in zip(self.posterior, self.fits, strict=True):
            counted[fit.name] = counted.get(fit.name, 0.0) + float(share)
        return counted

    def counted(self) -> Iterator[tuple[float, Fit]]:
        """Fits that probabilities are made of, with their weights."""
        ranking = self._ranking
        for weight, fit in zip(self.posterior, self.fits, strict=True):
            if weight > _NEGLIGIBLE or fit is ranking:
                yield float(weight), fit

    def probabilities(
        self, arms: Mapping[str, StackedArm], covariate: FloatArray, rows: slice | Int64Array
    ) -> FloatArray:
        """(n_rows, n_classes) probabilities of some nodes (K7); ``covariate`` is of all nodes."""
        shares, ranking = self.shares.of_all, self._ranking
        mixed = np.zeros((covariate[rows].size, shares.size))
        for weight, fit in self.counted():
            logits = fit.logits(fit.weights, arms, shares, covariate, rows)
            mixed += weight * softmax(logits, axis=1)  # (K7), weighted by evidence (K9)
        mixed /= mixed.sum(axis=1, keepdims=True)
        if ranking is None or not self.is_ranked:
            return mixed
        logits = ranking.logits(ranking.order_weights, arms, shares, covariate, rows)
        return _ranked(mixed, softmax(logits, axis=1))


def _ranked(probabilities: FloatArray, order: FloatArray) -> FloatArray:
    """Probabilities mixed with a little of others, which rank rows and change no winner."""
    rows, winner = np.arange(len(probabilities)), probabilities.argmax(axis=1)
    ranked: FloatArray = (1.0 - 2.0 * _RANKING) * probabilities + _RANKING * order
    ranked[rows, winner] += _RANKING
    return ranked


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratifiedStack:
    """A stack for nodes near labels, and one for the others, where labels are spread (K12).

    Both are the same where no node is near.
    """

    far: Stack
    near: Stack
    coverage: LabelCoverage

    @property
    def left_out(self) -> FloatArray:
        """(n_used, n_classes) probabilities of the labels left out."""
        if not self.coverage.is_spread:
            return self.far.left_out
        is_near = self.coverage.is_left_near
        probabilities = np.empty((is_near.size, self.far.shares.of_all.size))
        probabilities[~is_near], probabilities[is_near] = self.far.left_out, self.near.left_out
        return probabilities

    @property
    def belief_weights(self) -> dict[str, float]:
        """How much each belief counts, averaged over the nodes."""
        share = self.coverage.near_share
        near = self.near.belief_weights
        return {
            name: share * near[name] + (1.0 - share) * weight
            for name, weight in self.far.belief_weights.items()
        }

    def left_out_of(
        self, arms: Mapping[str, StackedArm], places: Int64Array, covariate: FloatArray
    ) -> FloatArray:
        """(n_places, n_classes) of nodes predicted without a fold, where none is near."""
        left_out_arms = {
            name: StackedArm(values=arm.left_out, left_out=arm.left_out)
            for name, arm in arms.items()
        }
        return self.far.probabilities(left_out_arms, covariate, places)

    def probabilities(self, arms: Mapping[str, StackedArm], covariate: FloatArray) -> FloatArray:
        """(n_nodes, n_classes) probabilities of all nodes; ``covariate`` as in `fitted_stack`."""
        probabilities = np.empty((covariate.size, self.far.shares.of_all.size))
        for rows in row_blocks(covariate.size):
            probabilities[rows] = self.far.probabilities(arms, covariate, rows)
            near = rows.start + np.flatnonzero(self.coverage.is_near[rows])
            if near.size:
                probabilities[near] = self.near.probabilities(arms, covariate, near)
        return probabilities


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Problem:
    """Minus log posterior of a belief's weights, and its derivatives (K7), (K8).

    ``arm_values`` is (n_arms, n_used, n_classes), ``covariates`` (n_covariates, n_used) with a
    first row of ones. Parameters are the weights of the arms, then a row of classes for each
    covariate.
    """

    arm_values: FloatArray
    offset: FloatArray
    classes: Int64Array
    covariates: FloatArray
    mean: FloatArray
    precision: FloatArray

    @property
    def n_arms(self) -> int:
        return len(self.arm_values)

    def logits(self, parameters: FloatArray) -> FloatArray:
        weights, rows = self._parts(parameters)
        total: FloatArray = np.tensordot(weights, self.arm_values, 1) + self.offset
        return total + self.covariates.T @ rows  # (K7)

    def loss(self, parameters: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Minus log posterior up to a constant, its gradient, and the labels' probabilities."""
        logits = self.logits(parameters)
        rows = np.arange(self.classes.size)
        logs = log_softmax(logits, axis=1)
        probabilities = np.exp(logs)
        left = probabilities.copy()
        left[rows, self.classes] -= 1.0
        away = parameters - self.mean
        pull = self.precision @ away
        value = 0.5 * float(away @ pull) - float(logs[rows, self.classes].sum())
        gradient = np.concatenate(
            [np.tensordot(self.arm_values, left, 2), (self.covariates @ left).ravel()]
        )
        return value, gradient + pull, probabilities

    def curvature(self, probabilities: FloatArray) -> FloatArray:
        """Second derivatives of the loss without its prior."""
        n_arms, n_classes = self.n_arms, probabilities.shape[1]
        mean = np.einsum("alk,lk->al", self.arm_values, probabilities)
        away = (self.arm_values - mean[:, :, None]) * probabilities
        n_rows = len(self.covariates)
        size = n_arms + n_rows * n_classes
        whole = np.zeros((size, size))
        flat = away.reshape(n_arms, -1), self.arm_values.reshape(n_arms, -1)
        whole[:n_arms, :n_arms] = flat[0] @ flat[1].T
        for first in range(n_rows):
            at = slice(n_arms + first * n_classes, n_arms + (first + 1) * n_classes)
            crossed = np.einsum("alk,l->ak", away, self.covariates[first])
            whole[:n_arms, at], whole[at, :n_arms] = crossed, crossed.T
            for second in range(n_rows):
                to = slice(n_arms + second * n_classes, n_arms + (second + 1) * n_classes)
                both = self.covariates[first] * self.covariates[second]
                weighed = probabilities * both[:, None]
                whole[at, to] = np.diag(weighed.sum(axis=0)) - weighed.T @ probabilities
        return whole

    def _parts(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights = parameters[: self.n_arms]
        return weights, parameters[self.n_arms :].reshape(len(self.covariates), -1)


def fitted_stack(
    arms: Mapping[str, StackedArm],
    classes: Int64Array,
    shares: SharePrior,
    beliefs: Mapping[str, Belief],
    used: Int64Array,
    covariate: FloatArray | None,
    *,
    covariate_mass: float,
) -> Stack:
    """Weights of the arms for each belief, and the probability of each belief (K7).

    Parameters
    ----------
    classes : (n_labeled,) int64
        Class of each label.
    beliefs : mapping of str to Belief
        Those that name a missing arm are left out.
    used : (n_used,) int64
        Labels to learn from: those that could be left out.
    covariate : (n_labeled,) float64 or None
        A standardized number of each node that classes may depend on by itself; None for too few
        labels to tell.
    covariate_mass : float
        Prior probability that they do.

    Notes
    -----
    Weights are >= 0 and have a normal prior of mean s w0 and variance 1/2, of arms that the belief
    does not name 1/10, where s has mean 1 and variance 1.7; intercepts and slopes of classes have
    mean 0 and the belief's variance. The evidence is Laplace's approximation at the mode, over the
    parameters that are not 0 (K8), (K9).
    """
    arm_values = {name: arm.left_out[used] for name, arm in arms.items()}
    left_out = shares.left_out[used]
    known = classes[used]
    n_classes = shares.of_all.size
    is_uneven = np.ptp(shares.of_all) > _LEAST_LOG_RATIO
    keeps_order = bool(is_uneven) and used.size >= _LEAST_ORDERING
    fits = []
    for name, belief in beliefs.items():
        if not set(belief.weights) <= set(arms):
            continue
        names = [arm for arm in arms if arm not in belief.ignores]
        offset = left_out if belief.uses_shares else np.zeros_like(left_out)
        if not belief.weights:
            fits.append(_shares_alone(name, belief, left_out, known))
            continue
        columns = [np.ones(known.size)]
        variants = [(columns, 1.0)]
        if covariate is not None:
            columns_too = [*columns, covariate[used]]
            variants = [(columns, 1.0 - covariate_mass), (columns_too, covariate_mass)]
        for covariates, mass in variants:
            mean, precision = _prior(belief, names, len(covariates) * n_classes)
            problem = _Problem(
                arm_values=np.stack([arm_values[arm] for arm in names]),
                offset=offset,
                classes=known,
                covariates=np.stack(covariates),
                mean=mean,
                precision=precision,
            )
            fits.append(_fit(name, belief, names, problem, mass, keeps_order=keeps_order))
    evidence = np.array([fit.log_evidence for fit in fits])
    return Stack(fits=tuple(fits), posterior=softmax(evidence), shares=shares)


def _shares_alone(name: str, belief: Belief, left_out: FloatArray, classes: Int64Array) -> Fit:
    """The fit of the belief that the class shares answer."""
    probabilities = softmax(left_out, axis=1)
    log_likelihood = np.log(probabilities[np.arange(classes.size), classes]).sum()
    zero = np.zeros(left_out.shape[1])
    return Fit(
        name=name,
        uses_shares=True,
        weights={},
        intercept=zero,
        slope=zero,
        log_evidence=float(np.log(belief.mass) + log_likelihood),
        left_out=probabilities,
        order_weights={},
        order_left_out=probabilities,
    )


def _prior(belief: Belief, names: list[str], n_free: int) -> tuple[FloatArray, FloatArray]:
    """Mean and precision of the parameters (K8)."""
    first = np.array([belief.weights.get(name, 0.0) for name in names])
    named = np.where(first > 0, _VARIANCE, _VARIANCE_UNNAMED)
    variance = np.diag(named) + np.outer(first, first) * _VARIANCE_OF_SCALE
    precision = np.zeros((first.size + n_free,) * 2)
    precision[: first.size, : first.size] = np.linalg.inv(variance)
    place = np.arange(first.size, first.size + n_free)
    precision[place, place] = 1.0 / belief.variance
    return np.concatenate([first, np.zeros(n_free)]), precision


def _mean_above_zero(slope: FloatArray, curvature: FloatArray) -> FloatArray:
    """Mean of the density proportional to exp(-slope x - curvature x^2 / 2) on x > 0 (K8)."""
    at = slope / np.sqrt(curvature)
    ratio = np.exp(-0.5 * np.square(at) - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-at))
    return np.asarray((ratio - at) / np.sqrt(curvature))


def _mode(problem: _Problem) -> tuple[FloatArray, float]:
    """Parameters of the least loss with weights >= 0, and the loss.

    By Newton's method with projected steps: a weight near 0 that the loss pushes down is stepped by
    its own curvature alone, so that the projection spoils no other's step. A step that the
    projection turns upwards is halved, and no point is taken that raises the loss.

    References
    ----------
    Bertsekas, Projected Newton methods, SIAM J. Control and Optimization 20 (1982).
    """
    is_weight = np.arange(problem.mean.size) < problem.n_arms
    parameters = problem.mean
    loss, gradient, probabilities = problem.loss(parameters)
    for _ in range(_MOST_STEPS):
        is_held = is_weight & (parameters <= _NEAR_ZERO) & (gradient > 0)
        curvature = problem.curvature(probabilities) + problem.precision
        apart = np.where(is_held | is_held[:, None], np.diag(curvature.diagonal()), curvature)
        step = np.linalg.solve(apart, gradient)
        is_last = True
        for _ in range(_MOST_HALVINGS):
            tried = parameters - step
            tried[is_weight] = tried[is_weight].clip(min=0.0)
            promised = float(gradient @ (parameters - tried))
            candidate_loss = problem.loss(tried)
            is_last = abs(promised) <= _FITTED * (1.0 + abs(loss))
            if is_last or (promised > 0 and loss - candidate_loss[0] >= _SUFFICIENT * promised):
                break
            step *= 0.5
        else:
            return parameters, loss
        if candidate_loss[0] <= loss:
            parameters, (loss, gradient, probabilities) = tried, candidate_loss
        if is_last:
            break
    return parameters, loss


def _fit(
    name: str,
    belief: Belief,
    names: list[str],
    problem: _Problem,
    mass: float,
    *,
    keeps_order: bool,
) -> Fit:
    """The mode of one belief and its evidence (K9); named weights at 0 get their mean (K8)."""
    n_arms, n_classes = problem.n_arms, problem.offset.shape[1]
    parameters, loss = problem.mean, 0.0
    log_evidence = float(np.log(belief.mass * mass))
    if problem.classes.size:
        parameters, loss = _mode(problem)
    probabilities = softmax(problem.logits(parameters), axis=1)
    order, order_left_out = parameters, probabilities
    if problem.classes.size:
        is_free = np.ones(parameters.size, bool)
        is_free[:n_arms] = parameters[:n_arms] > _FITTED
        curvature = problem.curvature(probabilities) + problem.precision
        prior = problem.precision[np.ix_(is_free, is_free)]
        volume = np.linalg.slogdet(curvature[np.ix_(is_free, is_free)])[1]
        log_evidence -= loss + 0.5 * float(volume - np.linalg.slogdet(prior)[1])  # (K9)
        at_zero = np.flatnonzero((problem.mean > 0) & ~is_free)
        if keeps_order and at_zero.size:
            parameters = parameters.copy()
            slopes, own = problem.loss(parameters)[1][at_zero], np.diag(curvature)[at_zero]
            parameters[at_zero] = _mean_above_zero(slopes, own)
            probabilities = softmax(problem.logits(parameters), axis=1)
        order, order_left_out = parameters, probabilities
        if not is_free[:n_arms].any():
            order = np.concatenate([problem.mean[:n_arms], parameters[n_arms:]])
            order_left_out = softmax(problem.logits(order), axis=1)
    rows = parameters[n_arms:].reshape(-1, n_classes)
    return Fit(
        name=name,
        uses_shares=belief.uses_shares,
        weights=dict(zip(names, parameters[:n_arms].tolist(), strict=True)),
        order_weights=dict(zip(names, order[:n_arms].tolist(), strict=True)),
        order_left_out=order_left_out,
        intercept=rows[0],
        slope=rows[1] if len(rows) > 1 else np.zeros(n_classes),
        log_evidence=log_evidence,
        left_out=probabilities,
    )
