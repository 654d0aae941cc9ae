"""How many records an accuracy asks for: formulas, and what they must not depend on."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from peewit.streaming.sparsifier.sample_size import (
    AIM,
    expected_size,
    local_factor,
    sampling_constant,
)
from peewit.streaming.sparsifier.settings_and_state import Coins, SparsifierSettings

Size = Callable[[SparsifierSettings, int], float]

NODES = [2, 100, 10**4, 10**6, 10**9]


def settings_of(
    *,
    epsilon: float = 0.7,
    coins: Coins = "dependent",
    slack: float | None = None,
    max_edges: int | None = None,
    expected_nodes: int = 2,
) -> SparsifierSettings:
    return SparsifierSettings(
        epsilon=epsilon,
        coins=coins,
        slack=slack,
        max_edges=max_edges,
        expected_nodes=expected_nodes,
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("coins", ["independent", "dependent"])
def test_the_constant_is_the_logarithm_over_the_square(epsilon: float, coins: Coins) -> None:
    settings = settings_of(epsilon=epsilon, coins=coins)
    constants = [sampling_constant(settings, n_nodes) * epsilon**2 for n_nodes in NODES]
    assert constants == pytest.approx([math.log(n_nodes) for n_nodes in NODES])
    assert sampling_constant(settings, 0) == sampling_constant(settings, 2)


@pytest.mark.parametrize("size", [sampling_constant, local_factor])
def test_nodes_that_are_expected_count_before_they_come(size: Size) -> None:
    expecting = settings_of(expected_nodes=10**6)
    known = size(settings_of(), 10**6)
    assert size(expecting, 0) == size(expecting, 10**6) == known
    assert size(expecting, 10**8) == size(settings_of(), 10**8) != known


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("n_nodes", NODES)
def test_independent_coins_pay_the_logarithm_for_everything(epsilon: float, n_nodes: int) -> None:
    assert local_factor(settings_of(epsilon=epsilon, coins="independent"), n_nodes) == 1.0


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.7, 0.95])
def test_dependent_coins_pay_no_logarithm_for_what_degrees_tell(epsilon: float) -> None:
    settings = settings_of(epsilon=epsilon)
    factors = [local_factor(settings, n_nodes) for n_nodes in NODES]
    assert factors[0] == 1.0  # few nodes: the logarithm is below what the semicircle asks for
    assert factors[-1] < 0.5
    assert all(0.0 < later <= earlier <= 1.0 for earlier, later in pairwise(factors))
    copies = [
        factor * sampling_constant(settings, n_nodes)
        for factor, n_nodes in zip(factors, NODES, strict=True)
        if factor < 1.0
    ]
    assert len(copies) >= 3
    assert copies == pytest.approx([copies[0]] * len(copies))  # so the factor falls as 1 / ln(n)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.7, 0.95])
def test_what_degrees_tell_is_sampled_well_enough_for_the_semicircle(epsilon: float) -> None:
    """Nodes that keep k edges leave an error of 2 / sqrt(k), which leaves a margin."""
    settings = settings_of(epsilon=epsilon)
    kept = 2.0 * local_factor(settings, 10**9) * sampling_constant(settings, 10**9)
    error = 2.0 / math.sqrt(kept)
    assert error < AIM * epsilon < epsilon
    # what is added for degrees that still stray hardly counts where many edges are kept
    assert error == pytest.approx(AIM * epsilon, rel=0.5 * epsilon**2)


def test_the_expected_size_is_copies_times_nodes() -> None:
    n_nodes = 10**6
    independent, dependent = settings_of(coins="independent"), settings_of()
    nodes_logarithm = n_nodes * math.log(n_nodes)
    assert expected_size(independent, n_nodes) == pytest.approx(2.0 * nodes_logarithm / 0.7**2)
    ratio = expected_size(dependent, n_nodes) / expected_size(independent, n_nodes)
    assert ratio == pytest.approx(local_factor(dependent, n_nodes) / 2.0)
    twice = settings_of(slack=2.0)
    assert expected_size(twice, n_nodes) == pytest.approx(2.0 * expected_size(dependent, n_nodes))
    assert expected_size(dependent, 0) == expected_size(dependent, 1) > 0.0


@pytest.mark.parametrize("coins", ["independent", "dependent"])
def test_a_bound_on_the_records_bounds_their_expected_number(coins: Coins) -> None:
    free = expected_size(settings_of(coins=coins), 1_000)
    below, above = int(0.5 * free), int(2.0 * free)
    assert expected_size(settings_of(coins=coins, max_edges=below), 1_000) == below
    assert expected_size(settings_of(coins=coins, max_edges=above), 1_000) == free
