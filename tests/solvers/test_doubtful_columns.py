"""Columns that count the rows, seen block by block, and columns that are called as labels are."""

import numpy as np
import pytest

from peewit.solvers.doubtful_columns import DoubtfulColumns, UnlikeScales


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("n_first", [0, 1, 4])
def test_a_column_that_counts_is_found_over_blocks(start: int, n_first: int) -> None:
    rows = np.random.default_rng(0).random((9, 3))
    rows[:, 1] = np.arange(start, start + 9)
    columns = DoubtfulColumns()
    columns.look(rows[:n_first])
    columns.look(rows[n_first:])
    assert (columns.note() or "").startswith("column 1 counts the rows")
    rows[8, 1] += 1
    other = DoubtfulColumns()
    other.look(rows)
    assert other.note() is None


def test_columns_are_named_and_the_first_of_many_told() -> None:
    columns = DoubtfulColumns(["Index", "a", "LABEL", "y", "class", "kind"])
    note = columns.note(["Kind"]) or ""
    assert note.startswith(
        "column 'Index' counts the rows, column 'LABEL' is called as labels are, column 'y' "
    )
    assert "and 2 more do" in note
    assert DoubtfulColumns(["a", "b"]).note() is None
    encoded = DoubtfulColumns(["class=a", "class=b", "x"])
    assert encoded.note() is None
    note = encoded.note((), {"class=a": "class", "class=b": "class"})
    assert (
        note
        == "column 'class' is called as labels are; leave out of features what describes no node"
    )


def test_a_column_that_outweighs_another_is_told() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4)) * [1.0, 5_000.0, 2.0, 0.0] + [0.0, 1e6, 0.0, 7.0]
    scales = UnlikeScales(["rate", "fare", "age", "same"])
    for block in np.array_split(rows.astype(np.float32), 3):
        scales.look(block)
    told = scales.note()
    assert told is not None
    assert "'fare' spreads" in told
    assert "times as far as 'rate'" in told
    alike = UnlikeScales(["rate", "age"])
    alike.look(rows[:, [0, 2]])
    assert alike.note() is None
    assert UnlikeScales(["none"]).note() is None
