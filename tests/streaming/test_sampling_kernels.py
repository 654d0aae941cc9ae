"""The kernels of the sparsifier against plain Python, compiled and not."""

import math
import os
import subprocess
import sys
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from solvers.arrays import AnyArray
from streaming.cards import NodeCards
from streaming.kernels.sampling import (
    CARD_HEADER,
    CARD_PROBES,
    CARD_WIDTH,
    add_degrees,
    choose_coarse,
    count_survivors,
    degree_variance,
    lower_probabilities,
    pack_cards,
    sample_arrivals,
    score_records,
    stale_leverages,
    take_survivors,
    throw_coins,
)
from streaming.kernels.spanning_forest import N_CLASSES, classify, mark_forest
from streaming.records import Records
from tests.reference.sampling import (
    Card,
    arrival_probability,
    expected_survivors,
    maximum_spanning_forest,
    record_key,
    short_coin,
    shorted_resistance,
    stale_leverage,
    stored_score,
)

N_NODES, N_EDGES, N_PROBES = 12, 400, 5
SEED, STREAM = 2**63 - 5, 14
CONSTANT = 4.0
COLUMNS = ["u", "v", "weight", "keep_probability"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Buffer:
    """Records, some of nodes without a card, some self-loops, with cards in two components."""

    columns: dict[str, AnyArray]
    cards: NodeCards
    cards_by_hand: list[Card]

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def take(self, *names: str) -> list[Any]:
        return [self.columns[name] for name in names]

    def rows(self) -> list[tuple[float, float, tuple[int, int]]]:
        """Weight, keep-probability and ends of every record."""
        u, v, weight, keep = (self.columns[name].tolist() for name in COLUMNS)
        return [(weight[row], keep[row], (u[row], v[row])) for row in range(self.columns["u"].size)]


@pytest.fixture(params=[N_PROBES, 0], ids=["vectors", "bounds"])
def buffer(request: pytest.FixtureRequest) -> Buffer:
    n_probes: int = request.param
    rng = np.random.default_rng(0)
    vectors = rng.normal(0, 0.05, (N_NODES, N_PROBES)).astype(np.float32)[:, :n_probes]
    local = (1 / rng.uniform(20.0, 60.0, N_NODES)).astype(np.float32)
    component = (np.arange(N_NODES) // 8).astype(np.int32)
    scale = float(np.abs(vectors).max()) / 32767.0 if n_probes else 1.0
    width = CARD_WIDTH if n_probes else CARD_HEADER
    cards = NodeCards.restored(np.zeros((N_NODES, width), np.int16), scale, 1.0)
    cards.array.setflags(write=True)
    pack_cards(vectors, local, component, 1.0 / scale, *cards.views)
    by_hand = [
        Card(
            coordinates=[round(float(x) / scale) for x in vectors[node]],
            local_resistance=float(local[node]),
            component=int(component[node]),
        )
        for node in range(N_NODES)
    ]
    columns: dict[str, AnyArray] = {
        "u": rng.integers(0, N_NODES + 2, N_EDGES).astype(np.int32),
        "v": rng.integers(0, N_NODES + 2, N_EDGES).astype(np.int32),
        "weight": rng.uniform(0.1, 3.0, N_EDGES).astype(np.float32),
        "keep_probability": np.where(
            rng.random(N_EDGES) < 0.5, 1.0, rng.uniform(0.2, 1.0, N_EDGES)
        ).astype(np.float32),
        "key": rng.integers(0, 2**32, N_EDGES).astype(np.uint32),
        "on_forest": rng.random(N_EDGES) < 0.1,
    }
    return Buffer(columns=columns, cards=cards, cards_by_hand=by_hand)


def test_a_card_holds_rounded_coordinates_local_resistance_and_component(buffer: Buffer) -> None:
    numbers, floats, integers = buffer.cards.views
    n_coordinates = CARD_PROBES if buffer.cards.has_vectors else 0
    assert numbers.shape == (N_NODES, n_coordinates + CARD_HEADER)
    for node, card in enumerate(buffer.cards_by_hand):
        n_probes = len(card.coordinates)
        assert numbers[node, :n_probes].tolist() == card.coordinates
        assert (numbers[node, n_probes:n_coordinates] == 0).all()
        assert floats[node, -2] == np.float32(card.local_resistance)
        assert integers[node, -1] == card.component


def arrivals(buffer: Buffer, cards: NodeCards, stop: int = N_EDGES) -> Records:
    """What stays of the first edges."""
    kept = Records.uninitialized(stop)
    with np.errstate(over="ignore"):
        n_kept = sample_arrivals(
            *(column[:stop] for column in buffer.take("u", "v", "weight")),
            *cards.views,
            cards.squared_scale,
            CONSTANT,
            np.uint64(SEED),
            np.uint64(STREAM),
            kept.u,
            kept.v,
            kept.weight,
            kept.keep_probability,
            kept.key,
        )
    return kept.part(0, n_kept)


def test_arrivals_follow_the_reference(buffer: Buffer) -> None:
    squared_scale = buffer.cards.squared_scale
    kept = arrivals(buffer, buffer.cards)
    rows, probabilities, names = [], [], []
    for number, (weight, _, ends) in enumerate(buffer.rows()):
        keep = arrival_probability(weight, ends, buffer.cards_by_hand, squared_scale, CONSTANT)
        if ends[0] != ends[1] and short_coin(SEED, STREAM, number) < keep:
            rows.append(number)
            probabilities.append(keep)
            names.append(record_key(SEED, STREAM, number))
    assert 0.1 * N_EDGES < kept.n_records < 0.9 * N_EDGES
    for name in ("u", "v", "weight"):
        assert np.array_equal(getattr(kept, name), buffer[name][rows])
    np.testing.assert_allclose(kept.keep_probability, probabilities, rtol=1e-5)
    assert kept.key.tolist() == names


@pytest.mark.parametrize("n_edges", [0, 1, 63, 64, 65, 130])
def test_batches_of_arrivals_do_not_show(buffer: Buffer, n_edges: int) -> None:
    every, some = arrivals(buffer, buffer.cards), arrivals(buffer, buffer.cards, n_edges)
    names = [record_key(SEED, STREAM, number) for number in range(n_edges)]
    n_kept = int(np.isin(every.key, np.array(names, np.uint32)).sum())
    for column in fields(Records):
        expected = getattr(every, column.name)[:n_kept]
        assert np.array_equal(getattr(some, column.name), expected)


def test_without_cards_every_edge_but_loops_is_kept(buffer: Buffer) -> None:
    kept = arrivals(buffer, NodeCards.empty())
    proper = buffer["u"] != buffer["v"]
    for name in ("u", "v", "weight"):
        assert np.array_equal(getattr(kept, name), buffer[name][proper])
    assert (kept.keep_probability == 1.0).all()


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_survivors_are_taken_with_their_new_probabilities(buffer: Buffer, share: float) -> None:
    survives = np.random.default_rng(1).random(N_EDGES) < share
    lowered = np.where(survives, 0.5 * buffer["keep_probability"], 0.0).astype(np.float32)
    n_survivors = int(survives.sum())
    taken = Records.uninitialized(n_survivors + 1)
    u, v, weight, key = buffer.take("u", "v", "weight", "key")
    into = taken.u, taken.v, taken.weight, taken.keep_probability, taken.key
    take_survivors(u, v, weight, lowered, key, *into)
    taken = taken.part(0, n_survivors)
    for name in ("u", "v", "weight", "key"):
        assert np.array_equal(getattr(taken, name), buffer[name][survives])
    assert np.array_equal(taken.keep_probability, lowered[survives])


def test_stale_leverages_follow_the_reference(buffer: Buffer) -> None:
    leverage = np.empty(N_EDGES, np.float32)
    squared_scale = buffer.cards.squared_scale
    stale_leverages(*buffer.take(*COLUMNS), *buffer.cards.views, squared_scale, CONSTANT, leverage)
    expected = [
        stale_leverage(*row, buffer.cards_by_hand, squared_scale, CONSTANT) for row in buffer.rows()
    ]
    assert {math.isinf(value) for value in expected} == {True, False}
    np.testing.assert_allclose(leverage, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("is_exact", "is_shortable"), [(True, True), (True, False), (False, False)]
)
def test_scores_follow_the_reference(buffer: Buffer, is_exact: bool, is_shortable: bool) -> None:
    score = np.empty(N_EDGES, np.float32)
    squared_scale = buffer.cards.squared_scale
    ends = buffer.take(*COLUMNS)
    score_records(*ends, *buffer.cards.views, squared_scale, is_exact, is_shortable, score)
    expected = [
        stored_score(
            *row,
            buffer.cards_by_hand,
            squared_scale,
            is_exact=is_exact,
            is_shortable=is_shortable,
        )
        for row in buffer.rows()
    ]
    assert {math.isinf(value) for value in expected} == {True, False}
    np.testing.assert_allclose(score, expected, rtol=1e-5)


def cards_by_degree(degree: AnyArray, component: list[int], n_probes: int = 3) -> NodeCards:
    """Cards whose vectors are all zero."""
    width = CARD_WIDTH if n_probes else CARD_HEADER
    cards = NodeCards.restored(np.zeros((degree.size, width), np.int16), 1.0, float(degree.sum()))
    cards.array.setflags(write=True)
    vectors = np.zeros((degree.size, n_probes), np.float32)
    inverse = (1 / degree).astype(np.float32)
    pack_cards(vectors, inverse, np.array(component, np.int32), 1.0, *cards.views)
    return cards


def test_scores_are_never_below_what_the_degrees_prove() -> None:
    # A triangle of unit edges and an edge by itself: 2/3 exactly, and 1/4 for the weight 4.
    u, v = np.array([0, 1, 0, 3], np.int32), np.array([1, 2, 2, 4], np.int32)
    weight, keep = np.array([1, 1, 1, 2], np.float32), np.array([1, 1, 1, 0.5], np.float32)
    degree = np.zeros(5)
    add_degrees(u, v, weight, keep, degree)
    assert degree.tolist() == [2.0, 2.0, 2.0, 4.0, 4.0]
    cards = cards_by_degree(degree, [0, 0, 0, 1, 1])
    score = np.empty(4, np.float32)
    score_records(u, v, weight, keep, *cards.views, 1.0, True, True, score)
    np.testing.assert_allclose(score, [2 / 3, 2 / 3, 2 / 3, 2 / 4], rtol=1e-6)
    assert shorted_resistance(2.0, 2.0, 1.0) == pytest.approx(2 / 3)
    score_records(u, v, weight, keep, *cards.views, 1.0, True, False, score)
    np.testing.assert_allclose(score, [1 / 2, 1 / 2, 1 / 2, 0.0], rtol=1e-6)


@pytest.mark.parametrize("n_probes", [3, 0])
def test_scores_are_never_above_what_the_edge_alone_proves(n_probes: int) -> None:
    # Degrees of 0.5 on the cards, as if most of the graph had come since: 2 + 2 without the cap.
    u, v = np.array([0, 0, 0], np.int32), np.array([1, 1, 1], np.int32)
    weight, keep = np.array([1.0, 3.0, 0.1], np.float32), np.array([1.0, 0.5, 1.0], np.float32)
    cards = cards_by_degree(np.array([0.5, 0.5]), [0, 0], n_probes)
    score = np.empty(3, np.float32)
    score_records(u, v, weight, keep, *cards.views, 1.0, False, False, score)
    np.testing.assert_allclose(score, [1.0, 0.5, 0.4], rtol=1e-6)


@pytest.mark.parametrize("in_place", [False, True])
def test_the_coarse_sample_follows_the_reference(buffer: Buffer, in_place: bool) -> None:
    rng = np.random.default_rng(1)
    leverage = rng.uniform(0.0, 0.4, N_EDGES).astype(np.float32)
    leverage[rng.random(N_EDGES) < 0.1] = np.inf
    expected = []
    for row, (weight, keep, _) in enumerate(buffer.rows()):
        chance = 1.0 if buffer["on_forest"][row] else min(1.0, CONSTANT * float(leverage[row]))
        if short_coin(SEED, STREAM, int(buffer["key"][row])) < chance:
            expected.append((row, weight / keep / chance))
    chosen = np.empty(N_EDGES, np.int32)
    conductance = leverage if in_place else np.empty(N_EDGES, np.float32)
    with np.errstate(over="ignore"):
        n_chosen = choose_coarse(
            *buffer.take("weight", "keep_probability"),
            leverage,
            *buffer.take("key", "on_forest"),
            CONSTANT,
            np.uint64(SEED),
            np.uint64(STREAM),
            chosen,
            conductance,
        )
    assert 0.2 * N_EDGES < n_chosen < 0.9 * N_EDGES
    assert chosen[:n_chosen].tolist() == [row for row, _ in expected]
    np.testing.assert_allclose(conductance[:n_chosen], [value for _, value in expected], rtol=1e-6)


@pytest.mark.parametrize("in_place", [False, True])
def test_probabilities_are_lowered_but_on_the_forest(in_place: bool) -> None:
    before = np.array([1.0, 0.5, 1.0, 0.8], np.float32)
    score = np.array([0.1, 0.1, 0.2, np.inf], np.float32)
    on_forest = np.array([True, False, False, False])
    lowered = score if in_place else np.empty(4, np.float32)
    expected = lower_probabilities(before, score, on_forest, 2.0, lowered)
    np.testing.assert_allclose(lowered, [1.0, 0.2, 0.4, 0.8], rtol=1e-6)
    assert expected == pytest.approx(1.0 + 0.4 + 0.4 + 1.0)


def test_the_histogram_tells_how_many_survive(buffer: Buffer) -> None:
    score = np.random.default_rng(1).lognormal(-2.0, 2.0, N_EDGES).astype(np.float32)
    score[::17] = np.inf
    counts, sums = np.zeros(2000), np.zeros(2000)
    keep, on_forest = buffer.take("keep_probability", "on_forest")
    n_certain = count_survivors(keep, score, on_forest, -20.0, 50.0, counts, sums)
    certain = on_forest | np.isinf(score)
    assert n_certain == certain.sum()
    assert counts.sum() == N_EDGES - n_certain
    ratio = score.astype(np.float64)[~certain] / keep[~certain]
    assert sums.sum() == pytest.approx(ratio.sum())
    place = np.flatnonzero(counts)
    mean = np.log2(sums[place] / counts[place])
    assert (np.abs((mean + 20.0) * 50.0 - (place + 0.5)) <= 0.5 + 1e-6).all()
    for constant in (0.01, 1.0, 30.0):
        estimate = n_certain + np.minimum(counts, constant * sums).sum()
        exact = expected_survivors(keep.tolist(), score.tolist(), on_forest.tolist(), constant)
        assert estimate == pytest.approx(exact, rel=0.01)


def test_ratios_outside_the_histogram_are_counted_at_its_ends() -> None:
    counts, sums = np.zeros(10), np.zeros(10)
    keep, on_forest = np.ones(3, np.float32), np.zeros(3, np.bool_)
    score = np.array([0.0, 1e-30, 1e30], np.float32)
    assert count_survivors(keep, score, on_forest, -5.0, 1.0, counts, sums) == 0
    assert counts.tolist() == [2.0, *[0.0] * 8, 1.0]


def test_coins_follow_the_reference(buffer: Buffer) -> None:
    rng = np.random.default_rng(1)
    key, before = buffer.take("key", "keep_probability")
    after = np.where(rng.random(N_EDGES) < 0.3, before, before * np.float32(0.5))
    lowered = after.copy()
    with np.errstate(over="ignore"):
        n_survivors = throw_coins(before, lowered, key, np.uint64(SEED), np.uint64(STREAM))
    expected = [
        float(after[record]) == float(before[record])
        or short_coin(SEED, STREAM, int(key[record])) * float(before[record]) < float(after[record])
        for record in range(N_EDGES)
    ]
    assert (lowered > 0.0).tolist() == expected
    assert (lowered[expected] == after[expected]).all()
    assert n_survivors == sum(expected)


def test_degrees_and_their_variance_are_those_of_independent_coins() -> None:
    u, v = np.array([0, 0], np.int32), np.array([1, 2], np.int32)
    weight, keep = np.array([1.0, 3.0], np.float32), np.array([0.5, 1.0], np.float32)
    degree, variance = np.zeros(3), np.zeros(3)
    degree_variance(u, v, weight, keep, degree, variance)
    np.testing.assert_allclose(degree, [5.0, 2.0, 3.0])
    np.testing.assert_allclose(variance, [2.0, 2.0, 0.0])
    alone = np.zeros(3)
    add_degrees(u, v, weight, keep, alone)
    assert alone.tolist() == degree.tolist()


def test_classes_are_powers_of_two(buffer: Buffer) -> None:
    weight = np.array([1.0, 1.99, 2.0, 3.0, 0.5, 3e38, 1e-38, 1.0], np.float32)
    keep = np.array([1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1e-3], np.float32)
    classes, counts = np.empty(8, np.uint8), np.zeros(N_CLASSES, np.int64)
    classify(weight, keep, classes, counts)
    expected = np.floor(np.log2(weight.astype(np.float64) / keep)).astype(int) + 127
    assert classes.tolist() == expected.tolist()
    assert counts.sum() == 8
    classes, weight = np.empty(N_EDGES, np.uint8), buffer["weight"]
    classify(weight, buffer["keep_probability"], classes, counts)
    order = np.argsort(weight / buffer["keep_probability"])
    assert (np.diff(classes[order].astype(int)) >= 0).all()
    assert counts.sum() == 8 + N_EDGES


def test_the_forest_takes_heavy_classes_first_and_records_in_order(buffer: Buffer) -> None:
    u, v, weight, keep = buffer.take(*COLUMNS)
    chosen = u != v
    u, v, weight, keep = u[chosen][:60], v[chosen][:60], weight[chosen][:60], keep[chosen][:60]
    classes, counts = np.empty(u.size, np.uint8), np.zeros(N_CLASSES, np.int64)
    classify(weight, keep, classes, counts)
    parent, on_forest = np.arange(N_NODES + 2, dtype=np.int32), np.zeros(u.size, np.bool_)
    n_marked = [
        mark_forest(u, v, classes, number, parent, on_forest)
        for number in np.flatnonzero(counts)[::-1]
    ]
    expected = maximum_spanning_forest(u.tolist(), v.tolist(), (weight / keep).tolist())
    assert on_forest.tolist() == expected
    assert sum(n_marked) == on_forest.sum() == N_NODES + 1


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="runs uncompiled already")
def test_kernels_are_right_without_compilation_too() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    finished = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == 0, finished.stdout
