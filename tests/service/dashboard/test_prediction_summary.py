"""What files of predictions come to, against counting row by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.dashboard.prediction_summary import Summaries
from peewit.service.predictions import prediction_files
from peewit.service.predictions.filtered_rows import RowFilter, rows
from peewit.service.predictions.prediction_files import (
    PredictionFile,
    PredictionMeta,
    write_predictions,
)

META: dict[str, Any] = {
    "graph_id": "g",
    "attempt": 1,
    "model": "hfs",
    "parameters": {},
    "snapshot": 1,
    "labels_seq": 1,
    "features_version": 0,
    "epsilon_asked": 0.7,
    "epsilon_expected": 0.5,
    "solver_status": "converged",
}


def file_of(
    directory: Path,
    job_id: str,
    scores: np.ndarray,
    reachable: np.ndarray,
    names: tuple[str | int, ...],
) -> PredictionFile:
    kind = "class score" if names else "value"
    meta = PredictionMeta(**META, job_id=job_id, score=kind, class_names=names)  # type: ignore[arg-type]
    nodes = pa.array([f"n{each}" for each in range(len(scores))])
    return PredictionFile(
        write_predictions(directory, meta, nodes=nodes, scores=scores, reachable=reachable)
    )


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_files, "ROWS_PER_BATCH", 70)


@pytest.mark.parametrize("names", [("a", "b", "c"), (3, 1, 2), (-4, 2**62, 0)])
def test_classes_margins_and_changes_are_counted(
    tmp_path: Path, names: tuple[str | int, ...]
) -> None:
    rng = np.random.default_rng(0)
    scores, reachable = rng.random((300, 3)), rng.random(300) < 0.8
    file = file_of(tmp_path, "a1", scores, reachable, names)
    summaries = Summaries()
    found = summaries.summary(file)
    table = file.table()
    labels = table.column("label").to_pylist()
    assert (found.n_nodes, found.n_unreachable) == (300, int((~reachable).sum()))
    assert found.class_sizes == {name: labels.count(name) for name in names}
    assert list(found.class_sizes.values()) == sorted(found.class_sizes.values(), reverse=True)
    margin = table.column("margin").to_numpy()[reachable]
    assert sum(found.bins) == len(margin)
    assert np.abs(np.histogram(margin, bins=found.edges)[0] - np.array(found.bins)).max() <= 1
    assert found.mean is None
    assert summaries.summary(file) is found
    other = scores.copy()
    other[:40] = rng.random((40, 3))
    later = np.vstack([other, rng.random((10, 3))])
    changed = file_of(tmp_path, "b1", later, np.r_[reachable, np.ones(10, bool)], names)
    told = summaries.change(file, changed)
    after = changed.table().column("label").to_pylist()
    expected = sum(left != right for left, right in zip(labels, after, strict=False))
    assert (told.n_compared, told.n_changed) == (300, expected)
    assert 0 < expected < 40


def test_rows_come_page_by_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scores, reachable = rng.random((500, 3)), rng.random(500) < 0.9
    file = file_of(tmp_path, "a1", scores, reachable, ("a", "b", "c"))
    table = file.table().to_pylist()
    for wanted, rule in (
        (RowFilter(), lambda _row: True),
        (RowFilter(label="b"), lambda row: row["label"] == "b"),
        (RowFilter(label="nobody"), lambda _row: False),
        (RowFilter(margin_below=0.1), lambda row: row["margin"] < np.float32(0.1)),
        (
            RowFilter(label="a", margin_below=0.3),
            lambda row: row["label"] == "a" and row["margin"] < np.float32(0.3),
        ),
        (
            RowFilter(score_from=0.8),
            lambda row: row["reachable"] and row["score"] >= np.float32(0.8),
        ),
        (RowFilter(score_from=-1e256), lambda row: row["reachable"]),
        (RowFilter(score_from=1e256), lambda _row: False),
        (RowFilter(margin_below=1e256), lambda _row: True),
    ):
        expected = [number for number, row in enumerate(table) if rule(row)]
        seen: list[int] = []
        first: int | None = 0
        while first is not None:
            page, first = rows(file, wanted, first=first, limit=13)
            assert len(page) <= 13
            seen += page.tolist()
        assert seen == expected
        found = pa.Table.from_batches(wanted.rows_of(file.shown()), file.schema)
        assert found["node"].to_pylist() == [table[number]["node"] for number in expected]


def test_numbers_have_a_mean_and_a_histogram(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(5, 2, (200, 1))
    reachable = np.ones(200, bool)
    reachable[:20] = False
    found = Summaries().summary(file_of(tmp_path, "a1", values, reachable, ()))
    assert found.class_sizes == {}
    assert found.mean == pytest.approx(values[reachable].mean())
    assert sum(found.bins) == 180
    assert (found.edges[0], found.edges[-1]) == pytest.approx(
        (values[reachable].min(), values[reachable].max())
    )


def test_nothing_reachable_is_no_fault(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a1", np.zeros((5, 2)), np.zeros(5, bool), ("a", "b"))
    found = Summaries().summary(file)
    assert (found.n_unreachable, found.class_sizes, sum(found.bins)) == (5, {}, 0)
