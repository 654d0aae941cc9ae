"""Maps: places to codes and back, tiles as slices, a file that is replaced whole."""

from pathlib import Path

import numpy as np
import pytest

from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.kernels.map_cells import BITS, codes_of, most_doubtful, places_of
from peewit.streaming.passes.node_map import (
    LAST_ZOOM,
    TILE_POINTS,
    MapStore,
    NodeMap,
    in_order,
    map_of,
    snapshot_layout,
)
from peewit.streaming.snapshots.store import SnapshotStore
from tests.service.solvable import publish_snapshot, two_communities


def some_map(n_nodes: int, spread: float = 1.0) -> tuple[NodeMap, np.ndarray]:
    points = (np.random.default_rng(0).random((n_nodes, 2)) * spread).astype(np.float32)
    return in_order(points, snapshot=1, n_edges=0, n_components=1, made_at=0.0), points


def test_codes_take_bits_by_turns_and_back() -> None:
    points = np.random.default_rng(0).random((300, 2), np.float32)
    code = np.empty(300, np.uint64)
    codes_of(points, code)
    column, line = np.empty(300, np.uint32), np.empty(300, np.uint32)
    places_of(code, column, line)
    assert np.array_equal(column, (points[:, 0].astype(np.float64) * 2**BITS).astype(np.uint32))
    for value, x, y in zip(code.tolist(), column.tolist(), line.tolist(), strict=True):
        text = f"{value:048b}"
        assert (text[1::2], text[::2]) == (f"{x:024b}", f"{y:024b}")


@pytest.mark.parametrize("zoom", [0, 1, 5])
def test_a_tile_is_the_nodes_of_its_square(zoom: int) -> None:
    found, points = some_map(3000)
    side = 2**zoom
    square = np.floor(points.astype(np.float64) * side).astype(int)
    seen = 0
    for column in range(side):
        for line in range(side):
            nodes = found.node[found.tile(zoom, column, line)]
            expected = np.flatnonzero((square == (column, line)).all(axis=1))
            assert np.array_equal(np.sort(nodes), expected)
            seen += nodes.size
    assert seen == 3000


@pytest.mark.parametrize(
    ("n_nodes", "spread", "zoom"),
    [(TILE_POINTS, 1.0, 0), (TILE_POINTS + 1, 1.0, 1), (TILE_POINTS + 1, 0.2, 3)],
)
def test_the_last_zoom_is_the_first_without_full_tiles(
    n_nodes: int, spread: float, zoom: int
) -> None:
    found, points = some_map(n_nodes, spread)
    assert found.meta.max_zoom == zoom
    square = np.floor(points * 2**zoom).astype(int)
    assert np.unique(square, axis=0, return_counts=True)[1].max() <= TILE_POINTS


def test_nodes_in_one_place_end_the_zoom() -> None:
    assert some_map(TILE_POINTS + 1, 0.0)[0].meta.max_zoom == LAST_ZOOM


def test_the_most_doubtful_are_those_of_a_sort() -> None:
    rng = np.random.default_rng(0)
    color, doubt = rng.integers(-2, 3, 500).astype(np.int16), rng.integers(0, 40, 500)
    for k, least in ((20, 0), (20, 39), (1000, 5)):
        chosen = np.zeros(k, np.int64)
        n_chosen = most_doubtful(color, doubt.astype(np.uint8), least, chosen)
        allowed = [row for row in range(500) if color[row] >= 0 and doubt[row] >= least]
        best = sorted(allowed, key=lambda row: (-doubt[row], row))[:k]
        assert chosen[:n_chosen].tolist() == sorted(best)


def test_what_is_stored_is_read_and_replaced_whole(tmp_path: Path) -> None:
    paths = GraphPaths(root=tmp_path)
    store = MapStore(paths)
    assert (store.open(), store.version()) == (None, None)
    publish_snapshot(tmp_path, 1, *two_communities())
    snapshot = SnapshotStore(paths.snapshots).load(1)
    made = map_of(snapshot_layout(snapshot), snapshot, made_at=5.0)
    store.publish(made)
    first, version = store.open(), store.version()
    assert first is not None
    assert first.meta == made.meta
    assert (first.meta.snapshot, first.meta.n_nodes, first.meta.made_at) == (1, 60, 5.0)
    assert np.array_equal(first.code, made.code)
    assert np.array_equal(first.node, made.node)
    store.publish(some_map(10)[0])
    assert store.version() != version
    assert np.array_equal(first.code, made.code)  # an open one stays readable
    again = store.open()
    assert again is not None
    assert again.meta.n_nodes == 10
    assert [path.name for path in paths.map.iterdir()] == ["map.arrow"]
