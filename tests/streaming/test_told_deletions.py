"""What snapshots tell of deletes: damage against sums by hand, repairs, and the size of the log."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.degrees import Damage, present_damage
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from tests.streaming.graphs import EdgeList, two_communities

N_NODES = 300


class Place:
    """A graph of two communities, of which edges go file by file."""

    def __init__(self, directory: Path, deletions: Deletions) -> None:
        self.edges: EdgeList = two_communities(N_NODES, 0.9, 60, 0)
        self.lives = np.ones(self.edges.n_edges, bool)
        self.folder, self.paths = directory / "edges", GraphPaths(root=directory / "graph")
        self.folder.mkdir()
        self.settings = StreamSettings(
            node_kind="dense",
            sparsifier=SparsifierSettings(
                epsilon=0.9, seed=1, expected_nodes=N_NODES, buffer_edges=8_000
            ),
            deletions=deletions,
            max_part_rows=1 << 10,
            group_blocks=1,
        )
        self.events: list[IngestEvent] = []
        self._write(self.lives, "insert")

    def _write(self, is_taken: BoolArray, op: str) -> None:
        columns = (each[is_taken] for each in (self.edges.u, self.edges.v, self.edges.weight))
        u, v, weight = columns
        table = pa.table({"src": u, "dst": v, "weight": weight, "op": [op] * u.size})
        number = len(list(self.folder.iterdir()))
        pq.write_table(table, self.folder / f"{number}.parquet", row_group_size=2_000)
        stream = Stream(self.paths, self.settings, on_event=self.events.append)
        stream.ingest(EdgeFiles(self.folder, columns=CHANGES).list())

    def delete(self, rule: Callable[[EdgeList, np.random.Generator], BoolArray]) -> None:
        is_gone = rule(self.edges, np.random.default_rng(len(self.events))) & self.lives
        pairs = self.edges.u.astype(np.int64) * N_NODES + self.edges.v
        is_gone = np.isin(pairs, pairs[is_gone]) & self.lives
        self.lives &= ~is_gone
        self._write(is_gone, "delete")

    @property
    def degree(self) -> FloatArray:
        total = np.zeros(N_NODES)
        for ends in (self.edges.u, self.edges.v):
            np.add.at(total, ends[self.lives], self.edges.weight[self.lives])
        return total

    @property
    def meta(self) -> SnapshotMeta:
        newest = SnapshotStore(self.paths.snapshots).newest()
        assert newest is not None
        return newest


def of_five_nodes(edges: EdgeList, rng: np.random.Generator) -> BoolArray:
    touches = (edges.u < 5) | (edges.v < 5)
    return touches & (rng.random(edges.n_edges) < 0.8)


def of_a_seventh(edges: EdgeList, rng: np.random.Generator) -> BoolArray:
    return (edges.u < 150) & (edges.v < 150) & (rng.random(edges.n_edges) < 1 / 7)


def of_a_few(edges: EdgeList, rng: np.random.Generator) -> BoolArray:
    return rng.random(edges.n_edges) < 1e-3


def of_a_half(edges: EdgeList, rng: np.random.Generator) -> BoolArray:
    return rng.random(edges.n_edges) < 0.5


@pytest.mark.slow
def test_snapshots_tell_damage_repairs_and_the_log(tmp_path: Path) -> None:
    place = Place(tmp_path, "exact")
    assert (place.meta.damage, place.meta.last_repair) == (Damage(), None)
    Stream(place.paths, place.settings).repair(everything=True)  # which leaves room
    place.delete(of_five_nodes)
    part = place.meta
    assert part.last_repair is not None
    assert (part.last_repair.kind, part.last_repair.snapshot) == ("part", part.number)
    touches = (place.edges.u < 5) | (place.edges.v < 5)
    assert part.last_repair.n_edges == np.count_nonzero(touches & place.lives)
    assert part.damage is not None
    assert part.damage.largest < 0.3  # those that had lost more are as new
    place.delete(of_a_half)
    whole = place.meta
    assert whole.last_repair is not None
    assert (whole.last_repair.kind, whole.last_repair.n_edges) == ("all", whole.n_live)
    assert whole.damage == Damage()
    before = place.degree
    place.delete(of_a_seventh)
    last, left = place.meta, place.degree
    lost = 1 - left / before
    assert last.damage is not None
    assert last.damage.n_nodes == np.count_nonzero(lost > 0.01) > 100
    assert last.damage.largest == pytest.approx(lost.max())
    assert last.damage.weight_share == pytest.approx(left[lost > 0.01].sum() / left.sum())
    assert last.last_repair == whole.last_repair  # nothing was sampled anew since
    assert (last.n_live, last.n_deleted) == (place.lives.sum(), (~place.lives).sum())
    for meta in (part, whole, last):
        assert SnapshotMeta.read(json.dumps(asdict(meta))) == meta
    told = [event for event in place.events if isinstance(event, Repaired)]
    assert [event.repair.kind for event in told] == ["part", "all", "none"]
    assert last.log_bytes >= sum(path.stat().st_size for path in place.paths.log.iterdir())


def test_nodes_without_edges_and_those_sampled_anew_are_not_damaged() -> None:
    degree = np.array([0.0, 5.0, 4.0, 9.95, 12.0, 3.0])
    peak = np.array([7.0, 0.0, 5.0, 10.0, 10.0])
    found = present_damage(SparsifierState(n_nodes=6, degree=degree, peak=peak))
    assert found.n_nodes == 1
    assert found.largest == pytest.approx(0.2)
    assert found.weight_share == pytest.approx(4.0 / degree.sum())


def test_where_no_log_tells_nothing_is_told(tmp_path: Path) -> None:
    meta = Place(tmp_path, "off").meta
    assert (meta.damage, meta.last_repair, meta.log_bytes, meta.n_deleted) == (None,) * 4


def test_a_repair_that_is_asked_for_samples_what_is_due_or_everything(tmp_path: Path) -> None:
    place = Place(tmp_path, "exact")
    place.delete(of_a_few)
    before = place.meta
    assert before.last_repair is None
    stream = Stream(place.paths, place.settings)
    stream.repair()
    assert place.meta == before  # nothing was due
    stream.repair(everything=True)
    after = place.meta
    assert after.last_repair is not None
    assert (after.last_repair.kind, after.last_repair.n_edges) == ("all", before.n_live)
    assert (after.number, after.n_rebuilds) == (before.number + 1, before.n_rebuilds + 1)
    assert (after.n_live, after.edges_seen) == (before.n_live, before.edges_seen)
    assert after.damage == Damage()
    edges = SnapshotStore(place.paths.snapshots).edges(after.number)
    lives = {
        frozenset(pair)
        for pair in zip(
            place.edges.u[place.lives].tolist(), place.edges.v[place.lives].tolist(), strict=True
        )
    }
    ends = (edges[name].to_pylist() for name in ("u", "v"))
    assert {frozenset(pair) for pair in zip(*ends, strict=True)} <= lives
    again = Stream(place.paths, place.settings)
    again.repair()
    assert again.summary().snapshot == after.number


def test_graphs_without_a_log_stay_as_they_are(tmp_path: Path) -> None:
    place = Place(tmp_path, "off")
    before = place.meta
    Stream(place.paths, place.settings).repair()
    assert place.meta == before


def test_graphs_without_a_log_are_read_again_from_their_files(tmp_path: Path) -> None:
    place = Place(tmp_path, "off")
    before = place.meta
    assert not before.is_whole
    Stream(place.paths, place.settings).repair(everything=True)
    assert (before.n_rebuilds, place.meta.n_rebuilds) == (0, 1)
    assert place.meta.edges_seen == before.edges_seen
    assert place.meta.last_repair is not None
    assert place.meta.last_repair.kind == "all"
