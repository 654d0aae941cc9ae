"""The kernels of the sparsifier against plain Python, compiled and not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import compress
from typing import Any

import numpy as np
import pytest

from peewit.solvers.arrays import AnyArray, BoolArray, Float32Array, FloatArray
from peewit.streaming.kernels.coins import (
    CARD_HEADER,
    CARD_PROBES,
    CARD_WIDTH,
    add_degrees,
    choose_coarse,
    count_survivors,
    degree_variance,
    lower_probabilities,
    pack_cards,
    sample_independent,
    sample_leaning,
    score_records,
    stale_leverages,
    take_arrivals,
    take_survivors,
    throw_coins,
)
from peewit.streaming.kernels.spanning_forest import N_CLASSES, classify, mark_forest
from peewit.streaming.sparsifier.arrivals import copies_by_class
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.settings_and_state import Records
from tests.reference.sampling import (
    Card,
    arriving,
    expected_survivors,
    maximum_spanning_forest,
    record_key,
    short_coin,
    shorted_resistance,
    stale_leverage,
    stored_score,
)
from tests.uncompiled import COMPILED, assert_passes_uncompiled, only_compiled

N_NODES, N_EDGES, N_PROBES = 13, 400, 5
SEED, STREAM = 2**63 - 5, 14
CONSTANT = 4.0
COLUMNS = ["u", "v", "weight", "keep_probability"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Buffer:
    """Records with cards of two components, or of one where no vectors are and that one is all.

    Some are self-loops, some end at a node without edges when the cards were made, or without a
    card.
    """

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


@pytest.fixture(params=["vectors", "bounds", "local"])
def buffer(request: pytest.FixtureRequest) -> Buffer:
    n_probes = N_PROBES if request.param == "vectors" else 0
    rng = np.random.default_rng(0)
    vectors = rng.normal(0, 0.05, (N_NODES, N_PROBES)).astype(np.float32)[:, :n_probes]
    local = (1 / rng.uniform(20.0, 60.0, N_NODES)).astype(np.float32)
    component = (np.arange(N_NODES) // (N_NODES if request.param == "local" else 8)).astype(
        np.int32
    )
    local[-1], component[-1] = 0.0, N_NODES  # this node has no edges
    scale = float(np.abs(vectors).max()) / 32767.0 if n_probes else 1.0
    width = CARD_WIDTH if n_probes else CARD_HEADER
    cards = NodeCards.restored(np.zeros((N_NODES, width), np.int16), scale, 1.0)
    cards.array.setflags(write=True)
    pack_cards(vectors, local, component, 1.0 / scale, *cards.views)
    assert cards.is_local == (request.param == "local")
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


def table_of(cards: NodeCards, surplus: AnyArray | float = 0.0) -> Float32Array:
    """What `sample_arrivals` is to know of every node."""
    table = np.empty((cards.n_nodes, 2), np.float32)
    table[:, 0] = surplus
    table[:, 1] = np.float32(CONSTANT) * cards.local_resistance
    table[table[:, 1] == 0.0, 1] = np.inf
    return table


def sampled(
    columns: Sequence[AnyArray],
    cards: NodeCards,
    table: Float32Array,
    *,
    is_leaning: bool,
    stream: int = STREAM,
    degree: FloatArray | None = None,
) -> Records:
    """What stays of edges with these ends and weights; their weights are added to ``degree``."""
    kept = Records.uninitialized(columns[0].size)
    n_nodes = 1 + max(ends.max(initial=cards.n_nodes - 1) for ends in columns[:2])
    node = np.zeros((n_nodes, 2))
    floats = node.view(np.float32)
    floats[:, 3] = np.inf
    floats[: cards.n_nodes, 2:] = table
    if degree is not None:
        node[:, 0] = degree
    degrees = node[:, 0].copy()
    tables = (node, floats) if is_leaning else (*copies_by_class(floats[:, 3].copy()), degrees)
    with np.errstate(over="ignore"):
        n_kept = (sample_leaning if is_leaning else sample_independent)(
            *columns,
            *tables,
            cards.array,
            cards.views[2],
            cards.squared_scale,
            cards.is_local,
            CONSTANT,
            np.uint64(SEED),
            np.uint64(stream),
            *kept.columns,
        )
    if is_leaning:
        table[:] = floats[: cards.n_nodes, 2:]
    if degree is not None:
        degree[:] = node[:, 0] if is_leaning else degrees
    return kept.part(0, n_kept)


def bounded(cards: Sequence[Card]) -> list[Card]:
    """Cards whose local resistances are those of their classes."""
    local = np.array([card.local_resistance for card in cards], np.float32)
    copies = np.float32(CONSTANT) * local
    copies[copies == 0.0] = np.inf
    classes, bounds = copies_by_class(copies)
    resistances = (bounds[classes] / np.float32(CONSTANT)).tolist()
    return [
        card._replace(local_resistance=resistance)
        for card, resistance in zip(cards, resistances, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("is_leaning", [False, True])
def test_arrivals_follow_the_reference(buffer: Buffer, is_leaning: bool) -> None:
    """In two blocks, where the second one finds what the first has left."""
    start = np.random.default_rng(1).normal(0.0, 0.7, N_NODES).astype(np.float32)
    table = table_of(buffer.cards, start)
    before = table.copy()
    surplus = start.tolist() if is_leaning else None
    for stream, rows in ((STREAM, slice(0, 250)), (STREAM + 2, slice(250, None))):
        columns = [column[rows] for column in buffer.take("u", "v", "weight")]
        kept = sampled(columns, buffer.cards, table, is_leaning=is_leaning, stream=stream)
        expected = arriving(
            [(weight, ends) for weight, _, ends in buffer.rows()[rows]],
            buffer.cards_by_hand if is_leaning else bounded(buffer.cards_by_hand),
            buffer.cards.squared_scale,
            CONSTANT,
            SEED,
            stream,
            surplus,
        )
        chosen = [arrival.row for arrival in expected]
        assert 0.1 < kept.n_records / columns[0].size < 0.9
        for name, column in zip(("u", "v", "weight"), columns, strict=True):
            assert np.array_equal(getattr(kept, name), column[chosen])
        probabilities = [arrival.probability for arrival in expected]
        np.testing.assert_allclose(kept.keep_probability, probabilities, rtol=1e-5)
        assert kept.key.tolist() == [arrival.key for arrival in expected]
    assert np.array_equal(table[:, 1], before[:, 1])
    if surplus is None:
        assert np.array_equal(table, before)
    else:
        assert not np.allclose(surplus[:-1], start[:-1], atol=0.1)
        np.testing.assert_allclose(table[:, 0], surplus, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("is_leaning", [False, True])
@pytest.mark.parametrize("n_edges", [0, 1, 63, 64, 65, 130])
def test_batches_of_arrivals_do_not_show(buffer: Buffer, n_edges: int, is_leaning: bool) -> None:
    columns = buffer.take("u", "v", "weight")
    table = table_of(buffer.cards)
    every = sampled(columns, buffer.cards, table.copy(), is_leaning=is_leaning)
    some = sampled(
        [column[:n_edges] for column in columns], buffer.cards, table, is_leaning=is_leaning
    )
    names = [record_key(SEED, STREAM, number) for number in range(n_edges)]
    n_kept = int(np.isin(every.key, np.array(names, np.uint32)).sum())
    for column in fields(Records):
        expected = getattr(every, column.name)[:n_kept]
        assert np.array_equal(getattr(some, column.name), expected)


@pytest.mark.slow
@pytest.mark.parametrize("is_taken", [False, True])
def test_without_cards_every_edge_but_loops_is_kept(buffer: Buffer, is_taken: bool) -> None:
    """The short way and the long one name records alike, too."""
    cards = NodeCards.empty()
    columns = buffer.take("u", "v", "weight")
    scored = sampled(columns, cards, table_of(cards), is_leaning=False)
    kept = Records.uninitialized(N_EDGES)
    with np.errstate(over="ignore"):
        n_kept = take_arrivals(*columns, np.uint64(SEED), np.uint64(STREAM), *kept.columns)
    kept = kept.part(0, n_kept) if is_taken else scored
    assert np.array_equal(kept.key, scored.key)
    proper = buffer["u"] != buffer["v"]
    for name in ("u", "v", "weight"):
        assert np.array_equal(getattr(kept, name), buffer[name][proper])
    assert (kept.keep_probability == 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("is_leaning", [False, True])
def test_degrees_grow_by_all_that_arrives(buffer: Buffer, is_leaning: bool) -> None:
    columns = buffer.take("u", "v", "weight")
    before = np.random.default_rng(3).random(N_NODES + 2)
    degree = before.copy()
    sampled(columns, buffer.cards, table_of(buffer.cards), is_leaning=is_leaning, degree=degree)
    expected = before.copy()
    for weight, _, (u, v) in buffer.rows():
        if u != v:
            expected[u] += weight
            expected[v] += weight
    assert np.array_equal(degree, expected)


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e30])
def test_the_bound_of_a_class_is_above_its_nodes_and_not_far(spread: float) -> None:
    rng = np.random.default_rng(4)
    copies = (3e-7 * spread ** rng.random(5_000)).astype(np.float32)
    copies[::10] = np.inf
    classes, bounds = copies_by_class(copies)
    bound = bounds[classes]
    assert (bound[::10] == np.inf).all()
    assert (bound > copies)[np.isfinite(copies)].all()
    most = {1.0: 1.0 + 1 / 16, 1e3: 1.0 + 1 / 16, 1e30: 1.0 + 1 / 2}[spread]
    finite = np.isfinite(copies)
    assert (bound[finite] <= 1.0001 * most * copies[finite]).all()
    for nothing in (np.empty(0, np.float32), np.full(3, np.inf, np.float32)):
        assert (copies_by_class(nothing)[0] == 255).all()


def test_a_surplus_is_what_was_kept_over_what_arrived(buffer: Buffer) -> None:
    table = table_of(buffer.cards)
    columns = buffer.take("u", "v", "weight")
    kept = sampled(columns, buffer.cards, table, is_leaning=True)
    n_nodes = N_NODES + 2
    degree, arrived = np.zeros(n_nodes), np.zeros(n_nodes)
    add_degrees(kept.u, kept.v, kept.weight, kept.keep_probability, degree)
    proper = columns[0] != columns[1]
    u, v, weight = (column[proper] for column in columns)
    add_degrees(u, v, weight, np.ones_like(weight), arrived)
    has_edges = np.isfinite(table[:, 1])
    shares = (degree - arrived)[:N_NODES][has_edges] * table[has_edges, 1]
    np.testing.assert_allclose(table[has_edges, 0], shares, atol=1e-4)
    assert (table[~has_edges, 0] == 0.0).all()


@pytest.mark.slow
def test_an_arrival_of_probability_zero_goes_and_moves_nothing() -> None:
    """float32 has no smaller one for edges 10^38 times lighter than others of their nodes."""
    ends = np.array([0, 2], np.int32), np.array([1, 3], np.int32)
    local = np.full(4, 1e-20, np.float32)
    cards = NodeCards.of_bounds(local, np.zeros(4, np.int32), total_degree=1.0)
    table = table_of(cards, 1.0)
    before = table.copy()
    light = [*ends, np.full(2, 1e-30, np.float32)]
    assert sampled(light, cards, table, is_leaning=True).n_records == 0
    assert np.array_equal(table, before)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clique:
    """All edges between some nodes, in random order, as if all the graph had come once before."""

    columns: list[AnyArray]
    cards: NodeCards
    n_nodes: int

    @staticmethod
    def of(n_nodes: int) -> "Clique":
        rng = np.random.default_rng(2)
        u, v = rng.permutation(np.array(np.triu_indices(n_nodes, 1), np.int32), axis=1)
        weight = rng.uniform(0.5, 2.0, u.size).astype(np.float32)
        degree = np.zeros(n_nodes)
        add_degrees(u, v, weight, np.ones_like(weight), degree)
        cards = NodeCards.of_bounds(
            (1.0 / degree).astype(np.float32), np.zeros(n_nodes, np.int32), total_degree=1.0
        )
        return Clique(columns=[u, v, weight], cards=cards, n_nodes=n_nodes)

    def probability(self, *, is_leaning: bool) -> FloatArray:
        u, v, weight = self.columns
        local = self.cards.local_resistance
        if not is_leaning:
            classes, bounds = copies_by_class(np.float32(CONSTANT) * local)
            local = bounds[classes] / np.float32(CONSTANT)
        strength = weight.astype(np.float64) * local[np.array([u, v])].sum(0)
        chance: FloatArray = CONSTANT * strength / (1.0 + strength)
        return chance

    def kept(self, table: Float32Array, stream: int, *, is_leaning: bool) -> BoolArray:
        records = sampled(self.columns, self.cards, table, is_leaning=is_leaning, stream=stream)
        numbers = self.columns[0].astype(np.int64) * self.n_nodes + self.columns[1]
        kept: BoolArray = np.isin(numbers, records.u.astype(np.int64) * self.n_nodes + records.v)
        return kept


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
@pytest.mark.parametrize("is_leaning", [False, True])
def test_every_arrival_keeps_its_probability(is_leaning: bool) -> None:
    clique, n_streams = Clique.of(22), 5_000
    assert clique.cards.is_local
    probability = clique.probability(is_leaning=is_leaning)
    assert probability.max() < 1.0
    kept = np.zeros(probability.size)
    for stream in range(n_streams):
        kept += clique.kept(table_of(clique.cards), stream, is_leaning=is_leaning)
    deviation = np.sqrt(probability * (1 - probability) / n_streams)
    score = (kept / n_streams - probability) / deviation
    assert np.abs(score).max() < 4.5
    assert 0.7 < np.mean(score**2) < 1.3  # a fair coin's spread, neither more nor less


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
@pytest.mark.parametrize("n_blocks", [5, 50, 500])
def test_degrees_stray_by_half_a_share_however_many_blocks_arrive(n_blocks: int) -> None:
    clique = Clique.of(60)
    shares = CONSTANT * clique.cards.local_resistance.astype(np.float64)
    u, v, weight = clique.columns
    stray = {}
    for is_leaning in (True, False):
        table = table_of(clique.cards)
        n_kept = np.zeros(weight.size)
        for stream in range(n_blocks):
            n_kept += clique.kept(table, stream, is_leaning=is_leaning)
        probability = clique.probability(is_leaning=is_leaning)
        surplus = weight * (n_kept / probability - n_blocks)
        stray[is_leaning] = shares * np.bincount(
            np.concatenate([u, v]), np.concatenate([surplus, surplus])
        )
    assert 0.4 < np.std(stray[True]) < 0.6
    # each block brings a node as many edges as its share says, of which independent ones stray
    assert np.std(stray[False]) > 0.7 * np.sqrt(CONSTANT / 4 * n_blocks)


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
    views = *buffer.cards.views, squared_scale
    stale_leverages(*buffer.take(*COLUMNS), *views, CONSTANT, False, leverage)
    expected = [
        stale_leverage(*row, buffer.cards_by_hand, squared_scale, CONSTANT) for row in buffer.rows()
    ]
    assert {math.isinf(value) for value in expected} == {True, False}
    np.testing.assert_allclose(leverage, expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("local_factor", "is_shortable"),
    [(1.0, True), (1.0, False), (0.3, True), (0.3, False), (0.0, False)],
)
def test_scores_follow_the_reference(
    buffer: Buffer, local_factor: float, is_shortable: bool
) -> None:
    proper = buffer["u"] != buffer["v"]
    score = np.empty(proper.sum(), np.float32)
    squared_scale = buffer.cards.squared_scale
    ends = [column[proper] for column in buffer.take(*COLUMNS)]
    score_records(*ends, *buffer.cards.views, squared_scale, local_factor, is_shortable, score)
    expected = [
        stored_score(
            *row,
            buffer.cards_by_hand,
            squared_scale,
            local_factor=local_factor,
            is_shortable=is_shortable,
        )
        for row in compress(buffer.rows(), proper)
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
    score_records(u, v, weight, keep, *cards.views, 1.0, 1.0, True, score)
    np.testing.assert_allclose(score, [2 / 3, 2 / 3, 2 / 3, 2 / 4], rtol=1e-6)
    assert shorted_resistance(2.0, 2.0, 1.0) == pytest.approx(2 / 3)
    score_records(u, v, weight, keep, *cards.views, 1.0, 1.0, False, score)
    np.testing.assert_allclose(score, [1 / 2, 1 / 2, 1 / 2, 0.0], rtol=1e-6)
    # Degrees tell 1/2 of the 2/3 and nothing of the single edge; that part counts a quarter.
    cards = cards_by_degree(4.0 * degree, [0, 0, 0, 1, 1])
    score_records(u, v, weight, keep, *cards.views, 1.0, 0.25, True, score)
    np.testing.assert_allclose(score, [1 / 8 + 1 / 6] * 3 + [2 / 4], rtol=1e-6)


@pytest.mark.parametrize("n_probes", [3, 0])
def test_scores_are_never_above_what_the_edge_alone_proves(n_probes: int) -> None:
    # Degrees of 0.5 on the cards, as if most of the graph had come since: 2 + 2 without the cap.
    u, v = np.array([0, 0, 0], np.int32), np.array([1, 1, 1], np.int32)
    weight, keep = np.array([1.0, 3.0, 0.1], np.float32), np.array([1.0, 0.5, 1.0], np.float32)
    cards = cards_by_degree(np.array([0.5, 0.5]), [0, 0], n_probes)
    score = np.empty(3, np.float32)
    score_records(u, v, weight, keep, *cards.views, 1.0, 0.0, False, score)
    np.testing.assert_allclose(score, [1.0, 0.5, 0.4], rtol=1e-6)


def test_what_degrees_tell_counts_less_where_the_edge_alone_bounds_the_rest() -> None:
    # Conductance 2, degrees of 10, vectors 1 apart: 0.16 by degrees, hence at most 0.34 beyond.
    u, v = np.array([0], np.int32), np.array([1], np.int32)
    weight, keep = np.array([1.0], np.float32), np.array([0.5], np.float32)
    cards = cards_by_degree(4.0 * np.array([10.0, 10.0]), [0, 0])
    cards.array[1, 0] = 1
    score = np.empty(1, np.float32)
    score_records(u, v, weight, keep, *cards.views, 1.0, 0.25, True, score)
    np.testing.assert_allclose(score, [0.16 / 4 + 0.34], rtol=1e-6)


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


@only_compiled
def test_kernels_are_right_without_compilation_too() -> None:
    assert_passes_uncompiled(__file__)
