"""Walk rows of a snapshot: its rows in files, so that walks from one node need no whole graph.

Context: a snapshot has each edge once, under its smaller end. Decision: rows are made at the first
request for reasons, beside the snapshot, and removed with it. Consequence: that request loads the
graph, and the rows take about as much disk as the snapshot.
"""

import shutil
from pathlib import Path
from threading import Lock

import numpy as np

from peewit.solvers.laplacian.walks.walk_rows import WalkRows, looped_degrees, probabilities
from peewit.streaming.durable_files import publish_directory, reserved_array
from peewit.streaming.snapshots.store import WALKS, SnapshotNotFound, SnapshotStore

_writing = Lock()


def walk_rows(snapshots: SnapshotStore, number: int) -> WalkRows:
    """Rows of a snapshot, memory-mapped.

    Raises `SnapshotNotFound`, and OSError where the disk is full or fails.
    """
    while True:
        directory = _directory(snapshots, number)
        try:
            return _opened(directory)
        except FileNotFoundError:  # not made yet, or nodes were erased since
            with _writing:
                if not directory.exists():
                    _write(snapshots, number, directory)
        if directory != _directory(snapshots, number):  # nodes were erased meanwhile
            shutil.rmtree(directory, ignore_errors=True)


def _opened(directory: Path) -> WalkRows:
    parts = {
        name: np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in WalkRows.__dataclass_fields__
    }
    return WalkRows(**parts)


def _directory(snapshots: SnapshotStore, number: int) -> Path:
    return snapshots.companion(number, f"{WALKS}-{snapshots.meta(number).n_erased}")


def _write(snapshots: SnapshotStore, number: int, directory: Path) -> None:
    graph = snapshots.load(number).graph
    adjacency = graph.adjacency
    try:
        with publish_directory(directory) as unfinished:
            degree = looped_degrees(graph.degree, np.diff(adjacency.indptr))
            for name, values in (("indptr", adjacency.indptr), ("degree", degree)):
                np.save(unfinished / f"{name}.npy", values)
            shape = adjacency.indices.shape
            indices = reserved_array(unfinished / "indices.npy", shape, np.int32)
            going = reserved_array(unfinished / "probability.npy", shape, np.float32)
            for entries, part in probabilities(graph):
                indices[entries], going[entries] = adjacency.indices[entries], part
    except OSError:
        if not directory.exists():  # else another process has made it
            raise
    finally:
        _require_snapshot(snapshots, number)


def _require_snapshot(snapshots: SnapshotStore, number: int) -> None:
    """Remove what was written into a snapshot that was retired meanwhile."""
    try:
        snapshots.meta(number)
    except SnapshotNotFound:
        shutil.rmtree(snapshots.directory(number), ignore_errors=True)
        raise
