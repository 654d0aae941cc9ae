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
    room: float = 1.0,
) -> SparsifierSettings:
    return SparsifierSettings(
        epsilon=epsilon,
        coins=coins,
        slack=slack,
        max_edges=max_edges,
        expected_nodes=expected_nodes,
        room=room,
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


@pytest.mark.parametrize("coins", ["independent", "dependent"])
@pytest.mark.parametrize("slack", [None, 1.5])
def test_room_is_a_factor_on_what_is_kept(coins: Coins, slack: float | None) -> None:
    settings = settings_of(coins=coins, slack=slack, expected_nodes=10**4)
    roomy = settings.with_room(3.0)
    assert roomy == settings_of(coins=coins, slack=slack, expected_nodes=10**4, room=3.0)
    assert roomy.oversampling == 3.0 * settings.oversampling
    assert expected_size(roomy, 10**4) == pytest.approx(3.0 * expected_size(settings, 10**4))
    assert sampling_constant(roomy, 10**4) == sampling_constant(settings, 10**4)


def test_room_is_a_factor_on_a_bound_that_is_set() -> None:
    bound = settings_of(max_edges=1_001, expected_nodes=10**4).with_room(2.5)
    assert bound.max_edges == math.ceil(2.5 * 1_001)
    assert expected_size(bound, 10**4) == bound.max_edges
    assert settings_of().with_room(2.5).max_edges is None
    for room in (0.99, math.nan):
        with pytest.raises(ValueError, match="room must be at least 1"):
            settings_of().with_room(room)
