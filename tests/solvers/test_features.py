from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows, WiderRows, checked_rows


@pytest.fixture
def values(rng_seed: int = 3) -> np.ndarray:
    return np.random.default_rng(rng_seed).standard_normal((50, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_keep_their_precision_and_are_not_copied(values: np.ndarray, dtype) -> None:
    given = values.astype(dtype)
    rows = FeatureRows.of(given, 50)
    assert rows.values is given
    assert (rows.n_rows, rows.n_columns, rows.is_sparse, rows.nodes) == (50, 4, False, None)


def test_integers_and_booleans_become_float64(values: np.ndarray) -> None:
    for given in (values > 0, (10 * values).astype(np.int16)):
        rows = FeatureRows.of(given, 50)
        assert rows.values.dtype == np.float64
        np.testing.assert_array_equal(rows.values, given)


@pytest.mark.parametrize("n_bytes", [1, 100, 1 << 25])
@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_are_all_rows_in_order(values: np.ndarray, sparse: bool, n_bytes: int) -> None:
    values[np.abs(values) < 0.5] = 0.0
    rows = FeatureRows.of(sp.csr_array(values) if sparse else values, 50)
    found = np.zeros_like(values)
    end = 0
    for place, block in rows.blocks(n_bytes):
        assert place.start == end
        end = place.stop
        found[place] = block.toarray() if sparse else block
    assert end == 50
    np.testing.assert_array_equal(found, values)


def test_a_mapped_file_stays_on_the_disk(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "values.npy", values)
    rows = FeatureRows.of(np.load(tmp_path / "values.npy", mmap_mode="r"), 50)
    assert isinstance(rows.values, np.memmap)


def test_rows_of_some_nodes_name_them(values: np.ndarray) -> None:
    nodes = np.arange(0, 100, 2)
    rows = FeatureRows.of(FeatureRows(values=values, nodes=nodes), 100)
    np.testing.assert_array_equal(rows.nodes, nodes)
    whole = FeatureRows.of(FeatureRows(values=values, nodes=np.arange(50)), 50)
    assert whole.nodes is None


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (np.arange(49), ValueError, r"one row for each of the 49 nodes named"),
        (np.arange(50)[::-1], ValueError, "nodes of features must be increasing"),
        (np.zeros(50, np.int64), ValueError, "nodes of features must be increasing"),
        (np.arange(50) + 51, ValueError, r"must lie in \[0, 100\), got 51 to 100"),
        (np.arange(50) - 1, ValueError, r"must lie in \[0, 100\), got -1 to 48"),
        (np.arange(50) / 2, TypeError, "nodes of features must be integers"),
    ],
)
def test_nodes_that_do_not_fit_are_refused(values: np.ndarray, nodes, error, message) -> None:
    with pytest.raises(error, match=message):
        FeatureRows.of(FeatureRows(values=values, nodes=nodes), 100)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_row_that_is_not_finite_is_named(values: np.ndarray, sparse: bool) -> None:
    values[17, 2] = np.inf
    with pytest.raises(ValueError, match="features must be finite, got inf in row 17"):
        FeatureRows.of(sp.csr_array(values) if sparse else values, 50)


@pytest.mark.parametrize("sparse", [False, True])
def test_further_columns_stand_beside_rows_however_they_are_read(
    values: np.ndarray, sparse: bool
) -> None:
    more = np.random.default_rng(1).normal(size=(len(values), 2)).astype(np.float32)
    rows = FeatureRows.of(sp.csr_array(values) if sparse else values, len(values))
    wider = checked_rows(WiderRows(rows=rows, more=more), len(values))
    whole = np.hstack([values, more])

    def dense(block) -> np.ndarray:
        return block.toarray() if sparse else block

    assert (wider.n_rows, wider.n_columns, wider.is_sparse) == (*whole.shape, sparse)
    np.testing.assert_allclose(dense(wider.whole()), whole)
    blocks = list(wider.blocks(n_bytes=3 * wider.row_bytes))
    assert len(blocks) > 1
    np.testing.assert_allclose(np.concatenate([dense(block) for _, block in blocks]), whole)
    places = np.array([0, 2, len(values) - 1])
    np.testing.assert_allclose(dense(wider.take(places)), whole[places])
