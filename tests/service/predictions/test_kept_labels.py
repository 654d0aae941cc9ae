"""Labels kept beside predictions: what an erased node had in them goes, the rest stays."""

from pathlib import Path

import numpy as np
import pytest

from peewit.service.predictions import kept_labels
from peewit.service.predictions.kept_labels import KeptLabels, erase_labels, write_labels
from peewit.service.predictions.left_out import erase_left_out, write_left_out
from peewit.service.predictions.prediction_files import (
    densities_path,
    labels_path,
    left_out_path,
    shares_path,
    write_array,
)
from peewit.solvers.arrays import Int64Array
from peewit.solvers.labels import Labels

N_NODES = 6
NODES, CLASSES = np.array([1, 3, 4]), np.array([0, 1, 1])
SHARES = np.arange(1, 1 + N_NODES * 3, dtype=np.float32).reshape(N_NODES, 3)
DENSITIES = np.arange(1, 1 + N_NODES * 2, dtype=np.float32).reshape(N_NODES, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "abc-1.arrow"
    write_labels(path, Labels(nodes=NODES, classes=CLASSES, class_names=("x", "y")))
    write_array(shares_path(path), SHARES)
    write_array(densities_path(path), DENSITIES)
    return path


def inodes(path: Path) -> list[int]:
    return [each.stat().st_ino for each in sorted(path.parent.iterdir())]


def without(array: np.ndarray, *rows: int, columns: Int64Array | None = None) -> np.ndarray:
    left = array.copy()
    left[list(rows)] = 0
    left[:, [] if columns is None else columns] = 0
    return left


def test_a_node_without_a_label_leaves_all_of_the_others(path: Path) -> None:
    before = KeptLabels.read(path)
    erase_labels(path, np.array([0, 5, 99]))
    kept = KeptLabels.read(path)
    assert (before.has_lost_nodes, kept.has_lost_nodes) == (False, True)
    assert (kept.nodes.tolist(), kept.classes.tolist()) == (NODES.tolist(), CLASSES.tolist())
    np.testing.assert_array_equal(kept.shares, without(SHARES, 0, 5))
    np.testing.assert_array_equal(kept.densities, without(DENSITIES, 0, 5))


def test_the_label_of_an_erased_node_goes_with_what_it_added_to_others(path: Path) -> None:
    erase_labels(path, np.array([3]))
    kept = KeptLabels.read(path)
    assert (kept.nodes.tolist(), kept.classes.tolist()) == ([1, 4], [0, 1])
    assert kept.places.tolist() == [0, 2]
    np.testing.assert_array_equal(kept.shares, without(SHARES, 3, columns=np.array([1])))
    with np.load(labels_path(path)) as parts:
        assert 3 not in parts["nodes"]
    once = inodes(path)
    erase_labels(path, np.array([3]))
    assert inodes(path) == once, "done again, nothing is written"
    erase_labels(path, np.array([1]))
    kept = KeptLabels.read(path)
    assert (kept.nodes.tolist(), kept.places.tolist()) == ([4], [2])
    np.testing.assert_array_equal(kept.shares, without(SHARES, 1, 3, columns=np.array([0, 1])))


@pytest.mark.parametrize("n_written", [0, 1, 2])
def test_killed_between_two_files_it_ends_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch, n_written: int
) -> None:
    written: list[Path] = []

    def killed(write: object) -> object:
        def write_or_die(target: Path, *arguments: object) -> None:
            if len(written) == n_written:
                raise KeyboardInterrupt
            written.append(target)
            write(target, *arguments)  # type: ignore[operator]

        return write_or_die

    with monkeypatch.context() as patch:
        for name in ("publish_file", "write_arrays"):
            patch.setattr(kept_labels, name, killed(getattr(kept_labels, name)))
        with pytest.raises(KeyboardInterrupt):
            erase_labels(path, np.array([3]))
    half = KeptLabels.read(path)
    assert half.shares is not None
    assert half.places.size == half.nodes.size == 3, "who reads meanwhile finds labels and columns"
    erase_labels(path, np.array([3]))
    kept = KeptLabels.read(path)
    assert kept.nodes.tolist() == [1, 4]
    np.testing.assert_array_equal(kept.shares, without(SHARES, 3, columns=np.array([1])))
    np.testing.assert_array_equal(kept.densities, without(DENSITIES, 3))


def test_labels_left_out_stay_but_those_of_the_erased(tmp_path: Path) -> None:
    path = tmp_path / "abc-1.arrow"
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], np.float32)
    write_left_out(path, NODES, CLASSES, scores, np.array([False, False, True]))
    inode = left_out_path(path).stat().st_ino
    erase_left_out(path, np.array([0, 2]))
    assert left_out_path(path).stat().st_ino == inode, "nothing to write"
    erase_left_out(path, np.array([3]))
    with np.load(left_out_path(path)) as parts:
        assert parts["nodes"].tolist() == [1, 4]
        assert parts["is_dropped"].tolist() == [False, True]
        np.testing.assert_array_equal(parts["scores"], scores[[0, 2]])
