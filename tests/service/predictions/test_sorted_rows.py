"""Rows in the order of a column, by selection and by a sort, against Python's own."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions import prediction_files
from peewit.service.predictions.prediction_files import PredictionFile, write_predictions
from peewit.service.predictions.sorted_rows import sorted_rows
from tests.service.predictions.test_prediction_files import META

N_NODES = 23


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PredictionFile:
    """Some batches of nodes with equal values among them, and some that no label reaches."""
    monkeypatch.setattr(prediction_files, "ROWS_PER_BATCH", 5)
    rng = np.random.default_rng(0)
    path = write_predictions(
        tmp_path,
        META,
        nodes=pa.array([f"n{number}" for number in rng.permutation(N_NODES)], pa.large_string()),
        scores=rng.integers(0, 4, (N_NODES, 3)) / 4,
        reachable=rng.random(N_NODES) < 0.8,
        proven=rng.random(N_NODES) < 0.5,
    )
    return PredictionFile(path)


@pytest.mark.parametrize("n_rows", [None, 1, 4, 11, 2 * N_NODES])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("column", ["node", "label", "score", "margin", "score:dog", "proven"])
def test_rows_come_in_the_order_of_the_column(
    file: PredictionFile, column: str, is_reversed: bool, n_rows: int | None
) -> None:
    rows = file.table().to_pylist()
    counts = [row for row in rows if column == "node" or row["reachable"]]
    if column == "proven":
        counts.sort(key=lambda row: row["margin"])
    is_falling = (column in {"score", "score:dog"}) != is_reversed
    expected = sorted(counts, key=lambda row: row[column], reverse=is_falling)
    if is_falling:  # Python keeps equal ones in order then, too
        assert expected == sorted(counts, key=lambda row: row[column], reverse=True)
    expected += [row for row in rows if not (column == "node" or row["reachable"])]
    found = pa.Table.from_batches(
        sorted_rows(file, column, n_rows=n_rows, is_reversed=is_reversed), file.schema
    )
    assert found.to_pylist() == expected[:n_rows]


def test_a_column_that_is_none_is_refused(file: PredictionFile) -> None:
    with pytest.raises(ValueError, match=r"sort must be one of node, label, .*, got 'size'"):
        sorted_rows(file, "size")
