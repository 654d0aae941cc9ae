"""Tiles of maps against slow twins: cells and lists of nodes, filters, and what is not shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions.colored_maps import ColoredMap
from peewit.service.predictions.map_colors import HIDDEN, colors_of
from peewit.service.predictions.map_tiles import CELLS_PER_SIDE, TilePlace, tile_bytes
from peewit.service.predictions.prediction_files import (
    PredictionFile,
    PredictionMeta,
    write_predictions,
)
from peewit.streaming.passes.node_map import TILE_POINTS, in_order
from tests.service.map_tiles import decoded

META = PredictionMeta(
    graph_id="0",
    job_id="ab",
    attempt=1,
    model="hfs",
    parameters={},
    snapshot=1,
    labels_seq=1,
    features_version=0,
    epsilon_asked=0.5,
    epsilon_expected=0.5,
    solver_status="converged",
    score="probability",
    class_names=("left", "right", "top"),
)
ERASED = np.array([3, 77, 4000])


def predicted(directory: Path, n_nodes: int, **changes: Any) -> PredictionFile:
    meta = replace(META, **changes)
    rng = np.random.default_rng(1)
    scores = rng.dirichlet(np.ones(3), n_nodes) if meta.class_names else rng.random((n_nodes, 1))
    path = write_predictions(
        directory,
        meta,
        nodes=pa.array([f"n{node}" for node in range(n_nodes)]),
        scores=scores * (5.0 if meta.score == "class score" else 1.0),
        reachable=np.arange(n_nodes) % 10 > 0,
    )
    return PredictionFile(path)


def colored(directory: Path, n_nodes: int) -> tuple[ColoredMap, np.ndarray]:
    """A map of random points, with a label on every fifth of its places."""
    points = np.random.default_rng(0).random((n_nodes, 2), np.float32)
    found = in_order(points, snapshot=1, n_edges=0, n_components=1, made_at=0.0)
    file = predicted(directory, n_nodes)
    colors = colors_of(found, file, ERASED)
    labeled = np.arange(0, n_nodes, 5)
    return ColoredMap(
        map=found,
        file=file,
        colors=colors,
        class_names=colors.class_names,
        labeled=labeled,
        label_color=np.zeros(labeled.size, np.int16),
        is_contradicted=labeled % 100 == 0,
        labels_seq=1,
        tag="t",
        names=[batch.column("node") for batch in file.batches()],
    ), points


def test_a_tile_of_few_nodes_lists_them_as_they_are(tmp_path: Path) -> None:
    shown, points = colored(tmp_path, 5000)
    place = TilePlace(zoom=1, column=1, line=0)
    tile = decoded(tile_bytes(shown, place))
    inside = (points[:, 0] >= 0.5) & (points[:, 1] < 0.5)
    inside[ERASED] = False
    assert (tile.n_nodes, tile.side) == (inside.sum(), 0)
    assert set(tile.names) == {f"n{node}" for node in np.flatnonzero(inside)}
    assert shown.file is not None
    label = shown.file.table()["label"].to_pylist()
    score = shown.file.table()[shown.file.score_column].to_numpy()
    margin = shown.file.table()["margin"].to_numpy()
    place_of = {node: row for row, node in enumerate(shown.map.node.tolist())}
    for row, name in enumerate(tile.names):
        node = int(name[1:])
        assert abs(tile.x[row] / 65536 / 2 + 0.5 - points[node, 0]) < 2**-16
        assert abs(tile.y[row] / 65536 / 2 - points[node, 1]) < 2**-16
        assert tile.score[row] == score[node]
        is_labeled = place_of[node] % 5 == 0
        assert tile.is_labeled[row] == is_labeled
        names = [*META.class_names, None]
        assert names[tile.color[row]] == ("left" if is_labeled else label[node])
        expected = 0 if label[node] is None else 255 * (1 - margin[node])
        assert abs(tile.doubt[row] - expected) <= 1


@pytest.mark.parametrize("min_doubt", [0.0, 0.3])
def test_a_tile_of_many_nodes_has_the_cells_of_a_dense_count(
    tmp_path: Path, min_doubt: float
) -> None:
    shown, points = colored(tmp_path, 20_000)
    tile = decoded(tile_bytes(shown, TilePlace(zoom=0, column=0, line=0, min_doubt=min_doubt)))
    assert tile.side == CELLS_PER_SIDE
    color, doubt = np.empty(20_000, int), np.empty(20_000, int)
    color[shown.map.node], doubt[shown.map.node] = shown.colors.color, shown.colors.doubt
    is_in = (color > HIDDEN) & (doubt >= np.ceil(255 * min_doubt))
    assert tile.n_nodes == is_in.sum() > TILE_POINTS
    overall = np.bincount(color[color > HIDDEN] % 4, minlength=4) / color.size
    cell = np.floor(points.astype(np.float64) * CELLS_PER_SIDE).astype(int)
    cell = cell[:, 1] * CELLS_PER_SIDE + cell[:, 0]
    for place in range(CELLS_PER_SIDE**2):
        here = np.flatnonzero(is_in & (cell == place))
        assert tile.count[place] == here.size
        if here.size:
            sizes = np.bincount(color[here] % 4, minlength=4)  # -1 is the last
            assert sizes[tile.winner[place] % 4] == sizes.max()
            assert tile.share[place] == 255 * sizes.max() // here.size
            expected = here.size * overall
            excess = (sizes - expected) / np.sqrt(expected)
            assert excess[tile.standout[place] % 4] == pytest.approx(excess.max())
            of_standout = sizes[tile.standout[place] % 4]
            assert tile.standout_share[place] == 255 * of_standout // here.size
    listed = np.array([int(name[1:]) for name in tile.names])
    assert is_in[listed].all()
    most = np.sort(doubt[is_in & (color >= 0)])[::-1][:20]
    assert np.array_equal(np.sort(doubt[listed[~tile.is_labeled]])[::-1][:1], most[:1])
    assert 20 <= listed.size <= 2 * 512 + 20
    asked = shown.labeled[shown.is_contradicted]
    asked = shown.map.node[asked][is_in[shown.map.node[asked]]]
    assert set(asked) == set(listed[tile.is_contradicted]), "each is worth a look"


def test_nodes_that_were_erased_are_in_no_tile(tmp_path: Path) -> None:
    shown, _ = colored(tmp_path, 5000)
    whole = [
        name
        for x in range(2)
        for y in range(2)
        for name in decoded(tile_bytes(shown, TilePlace(zoom=1, column=x, line=y))).names
    ]
    assert sorted(whole) == sorted({f"n{node}" for node in range(5000)} - {"n3", "n77", "n4000"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"zoom": 18}, r"z must lie in \[0, 17\], got 18"),
        ({"zoom": 1, "column": 2}, r"x must lie in \[0, 2\) at zoom 1, got 2"),
        ({"line": -1}, r"y must lie in \[0, 1\) at zoom 0, got -1"),
        ({"min_doubt": 1.5}, r"min_doubt must lie in \[0, 1\], got 1.5"),
    ],
)
def test_a_place_off_the_map_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TilePlace(**{"zoom": 0, "column": 0, "line": 0} | arguments)


def test_numbers_are_told_by_ranges_and_class_scores_by_sure_margins(tmp_path: Path) -> None:
    found = in_order(
        np.zeros((200, 2), np.float32), snapshot=1, n_edges=0, n_components=1, made_at=0.0
    )
    nobody = np.zeros(0, np.int64)
    numbers = predicted(tmp_path / "a", 100, score="value", class_names=())
    colors = colors_of(found, numbers, nobody)
    assert colors.kind == "numbers"
    values = np.array(numbers.table()["label"].to_pylist(), float)
    assert len(colors.class_names) == 5
    edges = np.linspace(np.nanmin(values), np.nanmax(values), 6)
    inner = ~np.isnan(values) & (values < edges[-1])
    assert np.array_equal(
        colors.color[:100][inner], np.searchsorted(edges, values[inner], side="right") - 1
    )
    assert (colors.color[100:] == -1).all()  # newer than the predictions
    assert not colors.doubt.any()
    scores = predicted(tmp_path / "b", 200, score="class score")
    margin = scores.table()["margin"].to_numpy()
    doubt = colors_of(found, scores, nobody).doubt
    reached = np.arange(200) % 10 > 0
    sure = np.quantile(margin[reached], 0.95)
    assert np.abs(doubt[reached] - 255 * (1 - np.minimum(margin[reached] / sure, 1))).max() <= 1
