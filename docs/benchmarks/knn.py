"""What do the neighbors of n rows cost, and how many of them are found?

``--mnist`` takes 70,000 digits in 50 principal columns, from the folder that PEEWIT_DATA names. The
peer is scikit-learn's brute force, which holds all rows and lists. Ours read rows from a file and
write edges to one; up to ``--all-pairs`` rows they look at all pairs as well. Recall is by a
thousand rows, memory the most that a process of its own held beyond mapped files and what it held
before. Made rows shrink from column to column, as principal ones do.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from docs.benchmarks.frame import alone, folder, options, show
from docs.benchmarks.peak_memory import anonymous_bytes
from peewit.solvers.features import FeatureRows
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.neighbors.neighbor_lists import NeighborLists
from peewit.streaming.neighbors.knn import KnnPlace, KnnSettings, make_knn
from peewit.streaming.neighbors.neighbor_search import NeighborSearch
from peewit.streaming.nodes.index import DenseNodes

QUIET = Watch()
_LOOK_SECONDS = 0.02


@dataclass(kw_only=True)
class Cost:
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    n_bytes: int = 0
    recall: float = 1.0


def write_rows(path: Path, *, n_rows: int, n_columns: int) -> None:
    """Write rows whose columns have the deviations 1, 1/sqrt(2), 1/sqrt(3), ..."""
    rng = np.random.default_rng(0)
    shape = (n_rows, n_columns)
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, n_rows, 1 << 16):
        block = rows[start : start + (1 << 16)]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
        block /= np.sqrt(np.arange(1, n_columns + 1, dtype=np.float32))


def write_mnist(path: Path, *, n_columns: int) -> None:
    with np.load(folder() / "mnist.npz") as stored:
        images = np.concatenate([each for each in stored.values() if each.ndim > 1])
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    np.save(path, PCA(n_columns, random_state=0).fit_transform(pixels).astype(np.float32))


@contextmanager
def measured() -> Iterator[Cost]:
    cost, before, ended = Cost(), anonymous_bytes(), threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            cost.n_bytes = max(cost.n_bytes, anonymous_bytes() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.seconds = time.perf_counter() - wall
    cost.cpu_seconds = time.process_time() - cpu
    ended.set()
    thread.join()


def by_peewit(rows: Path, n_neighbors: int, method: str) -> Cost:
    """Rows from the file, edges to another."""
    import faiss  # noqa: F401 - loaded before anything is measured, as scikit-learn is

    values = np.load(rows, mmap_mode="r")
    place = KnnPlace(
        output=rows.with_name(f"{method}.parquet"),
        work=rows.with_name(f"{method}-work"),
        node_kind="dense",
    )
    with measured() as cost:
        summary = make_knn(
            FeatureRows(values=values),
            DenseNodes(n_nodes=len(values)),
            KnnSettings(k=n_neighbors, method=method),
            place,
            features_version=1,
            seed=0,
            watch=QUIET,
        )
    cost.recall = summary.recall
    return cost


def by_peer(rows: Path, n_neighbors: int) -> Cost:
    with measured() as cost:
        values = np.load(rows)
        index = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(values)
        distances, neighbors = index.kneighbors()
    search = NeighborSearch(
        rows=FeatureRows(values=values),
        n_neighbors=n_neighbors,
        metric="euclidean",
        n_probes=None,
        seed=0,
    )
    # its distances lose digits to cancellation: nearly as far is as far
    lists = NeighborLists(neighbors=neighbors, distances=distances * (1 - 1e-5))
    cost.recall = search.recall(lists, QUIET)[0]
    return cost


def main() -> None:
    asked = options(
        __doc__,
        quick={"rows": 5_000},
        rows=20_000,
        columns=50,
        neighbors=10,
        mnist=False,
        all_pairs=100_000,
    )
    with tempfile.TemporaryDirectory() as directory:
        rows = Path(directory) / "rows.npy"
        if asked.mnist:
            write_mnist(rows, n_columns=asked.columns)
        else:
            write_rows(rows, n_rows=asked.rows, n_columns=asked.columns)
        shape = np.load(rows, mmap_mode="r").shape
        costs = {}
        if shape[0] <= asked.all_pairs:
            costs["scikit-learn, brute force"] = alone(by_peer, rows, asked.neighbors)
            costs["all pairs"] = alone(by_peewit, rows, asked.neighbors, "exact")
        costs["cells"] = alone(by_peewit, rows, asked.neighbors, "approximate")
    show(
        f"{asked.neighbors} neighbors of {shape[0]:,} rows of {shape[1]}",
        "|s {:.1f}|CPU s {:.1f}|MiB {:.0f}|recall {:.4f}",
        (
            (name, each.seconds, each.cpu_seconds, each.n_bytes / 2**20, each.recall)
            for name, each in costs.items()
        ),
    )


if __name__ == "__main__":
    main()
