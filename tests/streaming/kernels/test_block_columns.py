"""The passes over columns against plain Python, compiled and not."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arrays import AnyArray, frozen
from peewit.streaming.kernels.block_columns import (
    GREATEST_WEIGHT,
    fill_self_loops,
    narrow_ids,
    survey_edges,
)
from tests.reference.columns import Edge, is_float32_weight, without_self_loops
from tests.uncompiled import assert_passes_uncompiled, only_compiled

INT32 = st.integers(-(2**31), 2**31 - 1)
FLOAT32 = st.floats(width=32)
EDGES = st.lists(st.tuples(INT32 | st.integers(0, 3), INT32 | st.integers(0, 3), FLOAT32))


def columns(edges: list[Edge]) -> tuple[AnyArray, AnyArray, AnyArray]:
    u, v, weight = zip(*edges, strict=True) if edges else ((), (), ())
    return (
        np.array(u, dtype=np.int32),
        np.array(v, dtype=np.int32),
        np.array(weight, dtype=np.float32),
    )


def survey(edges: list[Edge]) -> tuple[int, int, int]:
    bits = [frozen(column.view(np.uint32)) for column in columns(edges)]
    with np.errstate(over="ignore"):
        greatest_id, greatest_weight, n_self_loops = survey_edges(*bits)
    return int(greatest_id), int(greatest_weight), int(n_self_loops)


@given(edges=EDGES)
def test_a_survey_finds_what_looking_at_every_row_finds(edges: list[Edge]) -> None:
    greatest_id, greatest_weight, n_self_loops = survey(edges)
    ids = [number for u, v, _ in edges for number in (u, v)]
    if min(ids, default=0) < 0:
        assert greatest_id >= 2**31
    else:
        assert greatest_id == max(ids, default=0)
    are_weights = all(is_float32_weight(weight) for _, _, weight in edges)
    assert (greatest_weight <= GREATEST_WEIGHT) == are_weights
    assert n_self_loops == len(edges) - len(without_self_loops(edges))


def test_every_class_of_floats_is_told_apart() -> None:
    smallest, largest = (struct.unpack("f", struct.pack("I", bits))[0] for bits in (1, 0x7F7FFFFF))
    for good in (smallest, 1e-38, 1.0, largest):
        assert survey([(0, 1, good)])[1] <= GREATEST_WEIGHT
    for bad in (0.0, -0.0, -smallest, -1.0, -largest, math.inf, -math.inf, math.nan, -math.nan):
        assert survey([(0, 1, 1.0), (0, 1, bad), (0, 1, 1.0)])[1] > GREATEST_WEIGHT


@given(ids=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**31 - 1)))
def test_wide_ids_are_narrowed_where_they_fit(ids: list[int]) -> None:
    narrow = np.empty(len(ids), dtype=np.int32)
    greatest = int(narrow_ids(frozen(np.array(ids, dtype=np.int64).view(np.uint64)), narrow))
    assert greatest == max((number % 2**64 for number in ids), default=0)
    if greatest < 2**31:
        assert narrow.tolist() == ids


def filled(edges: list[Edge], *, is_constant: bool) -> list[Edge]:
    u, v, weight = columns(edges)
    n_self_loops = sum(first == second for first, second, _ in edges)
    fill_self_loops(u, v, None if is_constant else weight, n_self_loops)
    kept = (column[: len(edges) - n_self_loops].tolist() for column in (u, v, weight))
    return list(zip(*kept, strict=True))


@given(edges=EDGES, is_constant=st.booleans())
def test_the_last_edges_take_the_places_of_self_loops(edges: list[Edge], is_constant: bool) -> None:
    edges = [(u, v, 1.0 if is_constant else weight) for u, v, weight in edges]
    found = filled(edges, is_constant=is_constant)
    assert repr(found) == repr(without_self_loops(edges))  # repr: a NaN equals itself
    assert sorted(map(repr, found)) == sorted(repr(edge) for edge in edges if edge[0] != edge[1])


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999, 1.0])
def test_self_loops_anywhere_in_a_long_block_are_replaced(share: float) -> None:
    rng = np.random.default_rng(4)
    edges = [
        (row, row if is_loop else row + 1, float(row))
        for row, is_loop in enumerate(rng.random(5_000) < share)
    ]
    assert filled(edges, is_constant=False) == without_self_loops(edges)


@only_compiled
def test_kernels_are_right_without_compilation_too() -> None:
    assert_passes_uncompiled(__file__)
