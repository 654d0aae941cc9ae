"""Stacks of arms, class shares and label samples beside their slow or exact twins."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import check_grad, minimize

from peewit.solvers.models.auto import stacking
from peewit.solvers.models.auto.auto import BELIEFS
from peewit.solvers.models.auto.stacked_arm import StackedArm
from peewit.solvers.models.auto.stacking import (
    Belief,
    Fit,
    SharePrior,
    Stack,
    _mode,
    _Problem,
    fitted_stack,
)
from peewit.solvers.models.left_out.label_sample import LabelSample, reweighed

N_LABELS = 60
ONE_OR_SHARES = {
    "one": Belief(weights={"one": 1.0}, mass=0.5),
    "shares": Belief(weights={}, mass=0.5),
}


def said(classes: np.ndarray, n_classes: int, strength: float, *, seed: int) -> np.ndarray:
    """What an arm says: noise, and the class by so much."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((classes.size, n_classes))
    values[np.arange(classes.size), classes] += strength
    return values - values.mean(axis=1, keepdims=True)


def problem(n_arms: int = 2, n_classes: int = 3) -> _Problem:
    rng = np.random.default_rng(3)
    classes = rng.integers(0, n_classes, N_LABELS)
    size = n_arms + 2 * n_classes
    root = rng.standard_normal((size, size))
    return _Problem(
        arm_values=np.stack([said(classes, n_classes, 1.0, seed=arm) for arm in range(n_arms)]),
        offset=rng.standard_normal((N_LABELS, n_classes)),
        classes=classes,
        covariates=np.stack([np.ones(N_LABELS), rng.standard_normal(N_LABELS)]),
        mean=rng.standard_normal(size),
        precision=root @ root.T,
    )


def test_the_gradient_is_that_of_the_loss() -> None:
    own = problem()
    at = np.random.default_rng(4).standard_normal(own.mean.size)
    wrong = check_grad(lambda x: own.loss(x)[0], lambda x: own.loss(x)[1], at)
    assert wrong < 1e-4 * np.abs(own.loss(at)[1]).max()


def test_the_curvature_is_the_derivative_of_the_gradient() -> None:
    own = problem()
    at = np.random.default_rng(5).standard_normal(own.mean.size)
    logits = own.logits(at)
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    curvature = own.curvature(exponents / exponents.sum(axis=1, keepdims=True)) + own.precision
    step = 1e-5
    for place in range(at.size):
        away = np.zeros(at.size)
        away[place] = step
        slope = (own.loss(at + away)[1] - own.loss(at - away)[1]) / (2 * step)
        np.testing.assert_allclose(curvature[place], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_mode_is_the_one_that_another_solver_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_arms, n_classes = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    classes = rng.integers(0, n_classes, N_LABELS)
    strengths = rng.uniform(-2.0, 3.0, n_arms)  # some arms are contradicted, their weights are 0
    size = n_arms + 2 * n_classes
    root = rng.standard_normal((size, size))
    own = _Problem(
        arm_values=np.stack(
            [said(classes, n_classes, strengths[a], seed=a) for a in range(n_arms)]
        ),
        offset=rng.standard_normal((N_LABELS, n_classes)),
        classes=classes,
        covariates=np.stack([np.ones(N_LABELS), rng.standard_normal(N_LABELS)]),
        mean=np.concatenate([rng.uniform(0.0, 2.0, n_arms), np.zeros(2 * n_classes)]),
        precision=root @ root.T + np.eye(size),
    )
    bounds = [(0.0, None)] * n_arms + [(None, None)] * (size - n_arms)
    other = minimize(
        lambda x: own.loss(x)[:2],
        own.mean,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000},
    )
    parameters, loss = _mode(own)
    assert (parameters[:n_arms] >= 0.0).all()
    assert loss <= other.fun + 1e-9 * abs(other.fun)
    np.testing.assert_allclose(parameters, other.x, atol=1e-4)


@pytest.mark.parametrize("seed", [*range(12), 202, 468, 1089])
def test_no_mode_of_strong_arms_is_worse_than_where_it_began_or_than_another_solver_s(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Steps that are cut off at weights of 0 may lead upwards."""
    rng = np.random.default_rng(seed)
    n_classes, n_labels = int(rng.integers(2, 7)), int(rng.choice([6, 20, 60, 200]))
    classes = np.r_[0, 1, rng.integers(0, n_classes, n_labels - 2)]
    base, arms = rng.standard_normal((n_labels, n_classes)), {}
    for name in ("walks", "poisson", "density", "harmonic", "features"):
        told = 0.7 * (rng.standard_normal(base.shape) + base)
        told[np.arange(n_labels), classes] += rng.normal(0.5, 2.0)
        told *= 10 ** rng.uniform(-0.5, 1.5)
        told -= told.mean(axis=1, keepdims=True)
        arms[name] = StackedArm(values=told, left_out=told)
    problems = []

    def noted(own: _Problem) -> tuple[np.ndarray, float]:
        problems.append(own)
        return _mode(own)

    monkeypatch.setattr(stacking, "_mode", noted)
    shares = SharePrior.of(classes, n_classes)
    fitted_stack(
        arms, classes, shares, BELIEFS, np.arange(n_labels), base[:, 0], covariate_mass=0.2
    )
    assert len(problems) == 10
    for own in problems:
        parameters, loss = _mode(own)
        assert loss == own.loss(parameters)[0] <= own.loss(own.mean)[0]
        bounds = [(0.0, None)] * own.n_arms + [(None, None)] * (own.mean.size - own.n_arms)
        options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
        start = 0.5 * (parameters + own.mean)
        other = minimize(
            lambda x, own=own: own.loss(x)[:2],
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=options,
        )
        assert loss <= other.fun + 1e-6 * (1.0 + abs(other.fun))


def test_the_evidence_of_one_weight_is_near_its_integral() -> None:
    classes = np.random.default_rng(0).integers(0, 2, N_LABELS)
    values = said(classes, 2, 1.5, seed=1)
    arms = {"one": StackedArm(values=values, left_out=values)}
    shares = SharePrior.of(classes, 2)
    tight = {"one": Belief(weights={"one": 1.0}, mass=1.0, variance=1e-8)}
    stack = fitted_stack(
        arms, classes, shares, tight, np.arange(N_LABELS), None, covariate_mass=0.0
    )
    variance = 0.5 + 1.0 / 0.6

    def joint(weight: float) -> float:
        logits = weight * values
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        told = logs[np.arange(N_LABELS), classes].sum()
        prior = np.exp(-((weight - 1.0) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        return float(np.exp(told + 30.0) * prior)

    exact = np.log(quad(joint, 0.0, 8.0)[0]) - 30.0
    assert stack.fits[0].log_evidence == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("strength", [-0.5, -1.0])
def test_an_arm_that_labels_contradict_has_the_mean_weight(strength: float) -> None:
    classes = np.repeat([0, 1], [20, 10])
    values = said(classes, 2, strength, seed=1)
    arms = {"one": StackedArm(values=values, left_out=values)}
    shares = SharePrior.of(classes, 2)
    tight = {"one": Belief(weights={"one": 1.0}, mass=1.0, variance=1e-8)}
    used = np.arange(classes.size)
    stack = fitted_stack(arms, classes, shares, tight, used, None, covariate_mass=0.0)
    variance = 0.5 + 1.0 / 0.6

    def joint(weight: float) -> float:
        logits = weight * values
        told = logits[used, classes] - np.log(np.exp(logits).sum(axis=1))
        return float(np.exp(told.sum() - (weight - 1.0) ** 2 / (2 * variance)))

    mean = quad(lambda weight: weight * joint(weight), 0.0, 4.0)[0] / quad(joint, 0.0, 4.0)[0]
    assert stack.fits[0].weights["one"] == pytest.approx(mean, rel=0.1)
    order = stack.probabilities(arms, np.zeros(classes.size), slice(None))[:, 1].argsort()
    assert order.tolist() == values[:, 1].argsort().tolist()


def test_an_arm_that_even_labels_contradict_decides_nothing() -> None:
    classes = np.repeat([0, 1], 20)
    values = said(classes, 2, -1.0, seed=1)
    arms = {"one": StackedArm(values=values, left_out=values)}
    shares, beliefs = SharePrior.of(classes, 2), {"one": Belief(weights={"one": 1.0}, mass=1.0)}
    used = np.arange(classes.size)
    stack = fitted_stack(arms, classes, shares, beliefs, used, None, covariate_mass=0.0)
    assert stack.fits[0].weights["one"] == 0.0


def test_shares_that_are_nearly_certain_leave_nodes_in_order() -> None:
    values = said(np.repeat([0, 1], 10), 2, 1.0, seed=2)
    arms = {"one": StackedArm(values=values, left_out=values)}
    fits = [
        Fit(
            name=name,
            uses_shares=True,
            weights=weights,
            intercept=np.zeros(2),
            slope=np.zeros(2),
            log_evidence=0.0,
            left_out=np.full((20, 2), 0.5),
            order_weights=weights,
            order_left_out=np.full((20, 2), 0.5),
        )
        for name, weights in (("one", {"one": 1.0}), ("shares", {}))
    ]
    shares = SharePrior.of(np.repeat([0, 1], [18, 2]), 2)
    stack = Stack(fits=tuple(fits), posterior=np.array([1e-5, 1 - 1e-5]), shares=shares)
    found = stack.probabilities(arms, np.zeros(20), slice(None))
    assert found[:, 1].argsort().tolist() == values[:, 1].argsort().tolist()
    np.testing.assert_allclose(found, np.tile(np.exp(shares.of_all), (20, 1)), atol=2e-3)


def test_arms_that_are_all_contradicted_rank_nodes_and_choose_no_class() -> None:
    classes = np.repeat([0, 1], 40)
    values = said(classes, 2, -1.0, seed=1)
    arms = {"one": StackedArm(values=values, left_out=values)}
    shares = SharePrior.of(classes, 2)
    used = np.arange(classes.size)
    stack = fitted_stack(arms, classes, shares, ONE_OR_SHARES, used, None, covariate_mass=0.0)
    assert stack.fits[0].weights["one"] == 0.0
    found = stack.probabilities(arms, np.zeros(classes.size), slice(None))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.unique(found.argmax(axis=1)).size == 1  # that of an intercept near 0
    ranked = found[:, 1].astype(np.float32)
    assert np.unique(ranked).size > 0.9 * classes.size
    assert (np.diff(ranked[values[:, 1].argsort()]) >= 0.0).all()
    assert np.unique(stack.left_out[:, 1]).size == classes.size
    np.testing.assert_allclose(found, 0.5, atol=3e-3)


def test_the_stack_is_hardly_worse_than_the_shares_where_arms_say_nothing() -> None:
    rng = np.random.default_rng(6)
    for seed in range(20):
        classes = (rng.random(40) < 0.1).astype(np.int64)
        noise = said(classes, 2, 0.0, seed=seed)
        arms = {name: StackedArm(values=noise, left_out=noise) for name in ("one", "two")}
        shares = SharePrior.of(classes, 2)
        used = np.arange(classes.size)
        stack = fitted_stack(arms, classes, shares, ONE_OR_SHARES, used, None, covariate_mass=0.0)
        own = np.exp(shares.left_out)
        own /= own.sum(axis=1, keepdims=True)
        worst = -np.log(own[used, classes]).mean() + np.log(2.0) / classes.size
        assert -np.log(stack.left_out[used, classes]).mean() <= worst + 1e-9


def test_the_arm_that_is_right_takes_the_belief() -> None:
    classes = np.random.default_rng(7).integers(0, 3, N_LABELS)
    right, wrong = said(classes, 3, 3.0, seed=8), said(classes, 3, 0.0, seed=9)
    arms = {
        "right": StackedArm(values=right, left_out=right),
        "wrong": StackedArm(values=wrong, left_out=wrong),
    }
    beliefs = {name: Belief(weights={name: 1.0}, mass=0.5) for name in arms}
    shares = SharePrior.of(classes, 3)
    used = np.arange(N_LABELS)
    stack = fitted_stack(arms, classes, shares, beliefs, used, None, covariate_mass=0.0)
    assert stack.posterior[0] > 0.9
    weights = stack.fits[0].weights
    assert weights["right"] > 5 * weights["wrong"]
    found = stack.probabilities(arms, np.zeros(N_LABELS), slice(None))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found.argmax(axis=1) == classes).mean() > 0.9


def test_a_belief_is_what_it_is_without_the_arms_that_it_ignores() -> None:
    classes = np.random.default_rng(7).integers(0, 3, N_LABELS)
    arms = {}
    for seed, name in enumerate(("first", "second", "third")):
        told = said(classes, 3, 1.0, seed=seed)
        arms[name] = StackedArm(values=told, left_out=told)
    shares, used = SharePrior.of(classes, 3), np.arange(N_LABELS)

    def fitted(names: list[str], ignores: tuple[str, ...]) -> Stack:
        beliefs = {"first": Belief(weights={"first": 1.0}, mass=0.5, ignores=ignores)}
        some = {name: arms[name] for name in names}
        return fitted_stack(some, classes, shares, beliefs, used, None, covariate_mass=0.0)

    without = fitted(["first", "second"], ()).fits[0]
    ignoring = fitted(["first", "second", "third"], ("third",)).fits[0]
    assert ignoring.weights == without.weights
    assert ignoring.log_evidence == without.log_evidence
    assert fitted(["first", "second", "third"], ()).fits[0].weights["third"] > 0.1


def test_arms_count_as_large_as_they_are_without_a_fold() -> None:
    """Weights fit what is left out; values of another size would be read by other weights."""
    classes = np.random.default_rng(0).integers(0, 2, N_LABELS)
    told = said(classes, 2, 1.5, seed=1)
    arm = StackedArm(values=np.float32(told / 3.0), left_out=told)
    assert arm.with_scale_of(np.zeros(0, np.int64), np.zeros(0, np.int64)) is arm
    everywhere = np.arange(N_LABELS)
    scaled = arm.with_scale_of(everywhere, everywhere)
    assert scaled.scale == pytest.approx(3.0, rel=1e-6)
    shares, beliefs = SharePrior.of(classes, 2), {"one": Belief(weights={"one": 1.0}, mass=1.0)}
    stack = fitted_stack(
        {"one": scaled}, classes, shares, beliefs, everywhere, None, covariate_mass=0.0
    )
    found = stack.probabilities({"one": scaled}, np.zeros(N_LABELS), slice(None))
    np.testing.assert_allclose(found, stack.left_out, rtol=1e-5)


def test_even_labels_have_even_shares_also_without_one() -> None:
    shares = SharePrior.of(np.repeat([0, 1, 2], 5), 3)
    np.testing.assert_allclose(np.exp(shares.of_all), 1 / 3, rtol=1e-6)
    assert np.ptp(np.exp(shares.left_out)) < 0.05


def test_many_uneven_labels_have_their_own_shares() -> None:
    shares = SharePrior.of(np.repeat([0, 1], [900, 100]), 2)
    np.testing.assert_allclose(np.exp(shares.of_all), [0.9, 0.1], atol=2e-3)


def drawn(n_nodes: int, share: float, sharpness: float, *, seed: int) -> tuple[np.ndarray, ...]:
    """Classes, and calibrated probabilities of them by a number that tells them apart."""
    rng = np.random.default_rng(seed)
    classes = (rng.random(n_nodes) < share).astype(np.int64)
    told = sharpness * (rng.standard_normal(n_nodes) + sharpness * (classes - 0.5))
    return classes, told


@pytest.mark.parametrize("is_random", [True, False])
def test_a_sample_that_is_not_random_is_found_and_its_shares_are_mended(is_random: bool) -> None:
    alarms = 0
    for seed in range(10):
        classes, told = drawn(5_000, 0.1, 2.0, seed=seed)
        rng = np.random.default_rng(100 + seed)
        chance = np.ones(classes.size) if is_random else np.where(classes == 1, 9.0, 1.0)
        labeled = rng.choice(classes.size, 200, replace=False, p=chance / chance.sum())
        own = classes[labeled].mean()
        second = 1.0 / (1.0 + (1.0 - own) / own * np.exp(-told))
        nodes = np.stack([1.0 - second, second], axis=1)
        sample = LabelSample.of(nodes, nodes[labeled], np.array([1.0 - own, own]))
        alarms += sample.is_estimated
        if sample.is_estimated:
            assert abs(sample.shares[1] - 0.1) < 0.5 * abs(own - 0.1)
            mended = reweighed(nodes, sample.shares / np.array([1.0 - own, own]))
            right = (mended.argmax(axis=1) == classes).mean()
            assert right > (nodes.argmax(axis=1) == classes).mean()
    assert alarms <= 1 if is_random else alarms == 10


def test_a_class_that_chance_gave_all_repeats_is_no_evidence_of_a_sample() -> None:
    """Ten random labels of ten classes, of which only one class could be left out."""
    nodes = np.full((1_000, 10), 0.01)
    nodes[np.arange(1_000), np.arange(1_000) % 10] = 0.91
    left_out = nodes[np.full(5, 6)]
    found = LabelSample.of(nodes, left_out, np.full(10, 0.1))
    assert found.p_value == 1.0
    assert not found.is_estimated
