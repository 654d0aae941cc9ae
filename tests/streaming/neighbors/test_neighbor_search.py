from pathlib import Path

import faiss
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from peewit.solvers.features import FeatureRows
from peewit.solvers.iteration_loop import ProgressReport, RunStopped, Watch
from peewit.solvers.neighbors.neighbor_lists import NeighborLists, neighbor_lists
from peewit.streaming.neighbors.neighbor_search import NeighborSearch

QUIET = Watch(progress=None, cancelled=None)
POINTS = make_blobs(3000, n_features=6, centers=20, random_state=0)[0].astype(np.float32)
TIES = np.random.default_rng(0).integers(0, 3, (200, 3)).astype(np.float32)


def search(values, **options) -> NeighborSearch:
    given = {"n_neighbors": 5, "metric": "euclidean", "n_probes": None, "seed": 1, **options}
    return NeighborSearch(rows=FeatureRows(values=values), **given)


def in_memory(values, k: int = 5, metric: str = "euclidean") -> NeighborLists:
    blocks = list(neighbor_lists(values, k, metric=metric))
    return NeighborLists(
        neighbors=np.concatenate([block[1] for block in blocks]),
        distances=np.concatenate([block[2] for block in blocks]),
    )


def assert_same(found: NeighborLists, expected: NeighborLists) -> None:
    np.testing.assert_array_equal(found.neighbors, expected.neighbors)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12)


@pytest.mark.parametrize("shard_bytes", [1 << 28, 1300, 400])
@pytest.mark.parametrize("values", [TIES, sp.csr_array(TIES)], ids=["dense", "sparse"])
def test_shards_of_any_size_give_the_lists_of_all_rows(
    values, shard_bytes: int, tmp_path: Path
) -> None:
    found = search(values, shard_bytes=shard_bytes).lists(tmp_path, {}, QUIET)
    assert_same(found, in_memory(TIES))


def test_cosine_goes_through_shards(tmp_path: Path) -> None:
    found = search(POINTS, metric="cosine", shard_bytes=20_000).lists(tmp_path, {}, QUIET)
    assert_same(found, in_memory(POINTS, metric="cosine"))


@pytest.mark.parametrize("shard_bytes", [1 << 28, 20_000])
def test_all_cells_looked_at_find_every_neighbor(shard_bytes: int, tmp_path: Path) -> None:
    found = search(POINTS, n_probes=10_000, shard_bytes=shard_bytes).lists(tmp_path, {}, QUIET)
    assert_same(found, in_memory(POINTS))


def test_rows_in_a_file_are_searched_as_those_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", POINTS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = search(mapped, shard_bytes=20_000).lists(tmp_path, {}, QUIET)
    assert_same(found, in_memory(POINTS))


def test_cells_find_the_same_with_one_thread_and_with_two(tmp_path: Path) -> None:
    found = []
    n_threads = faiss.omp_get_max_threads()
    for threads in (1, 2, 2):
        faiss.omp_set_num_threads(threads)
        directory = tmp_path / str(len(found))
        directory.mkdir()
        found.append(search(POINTS, n_probes=2).lists(directory, {}, QUIET))
    faiss.omp_set_num_threads(n_threads)
    for other in found[1:]:
        np.testing.assert_array_equal(other.neighbors, found[0].neighbors)


def test_recall_is_the_share_of_neighbors_found(tmp_path: Path) -> None:
    cells = search(POINTS, n_probes=2)
    lists = cells.lists(tmp_path, {}, QUIET)
    recall, n_rows = cells.recall(lists, QUIET)
    true = in_memory(POINTS).neighbors
    shared = [len(set(a) & set(b)) for a, b in zip(true, lists.neighbors, strict=True)]
    assert n_rows == 1000
    assert 0.3 < recall < 1
    assert recall == pytest.approx(np.mean(shared) / 5, abs=0.03)
    assert cells.recall(in_memory(POINTS), QUIET) == (1.0, 1000)


def stopping_after(n_steps: int, phases: list[str]) -> Watch:
    def note(report: ProgressReport) -> None:
        phases.append(report.phase)

    return Watch(progress=note, cancelled=lambda: len(phases) >= n_steps)


@pytest.mark.slow
@pytest.mark.parametrize("n_probes", [None, 3])
def test_a_search_that_was_stopped_goes_on_where_it_saved(
    n_probes: int | None, tmp_path: Path
) -> None:
    options = {"n_probes": n_probes, "shard_bytes": 5_000, "save_seconds": 0.0}
    (tmp_path / "whole").mkdir()
    expected = search(POINTS, **options).lists(tmp_path / "whole", {"k": 5}, QUIET)
    (tmp_path / "again").mkdir()
    n_tries = 0
    while True:
        n_tries += 1
        phases: list[str] = []
        try:
            found = search(POINTS, **options).lists(
                tmp_path / "again", {"k": 5}, stopping_after(4, phases)
            )
            break
        except RunStopped:
            assert phases.count("searching") > 0
    assert n_tries >= 2
    assert_same(found, expected)


def test_what_was_found_for_another_question_is_not_used(tmp_path: Path) -> None:
    search(TIES[::-1].copy()).lists(tmp_path, {"features_version": 1}, QUIET)
    found = search(TIES).lists(tmp_path, {"features_version": 2}, QUIET)
    assert_same(found, in_memory(TIES))
    phases: list[str] = []
    again = search(TIES).lists(tmp_path, {"features_version": 2}, stopping_after(99, phases))
    assert phases == []
    assert_same(again, found)


def test_sparse_rows_have_no_cells(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="dense rows only"):
        search(sp.csr_array(TIES), n_probes=2).lists(tmp_path, {}, QUIET)
