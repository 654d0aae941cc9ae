"""Snapshots: the sparsifier as people use it, numbered, with its provenance, published whole.

A snapshot is a directory with the merged edges and a small JSON page that says what the graph was
made of and how accurate it is meant to be. The edges are a sorted Arrow file of small batches, so
that nobody who writes, reads or loads them needs room for all. Weights stay float64, at four bytes
of 16 more than float32: they are sums of parallel edges that people download.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray, Float32Array, Int32Array
from peewit.solvers.edge_merging import EdgeChunk
from peewit.solvers.graph import Graph
from peewit.streaming.durable_files import (
    naming,
    publish_directory,
    publish_file,
    publish_json,
    remove_unfinished,
    write_json,
)
from peewit.streaming.problems import NotFound
from peewit.streaming.snapshots.edge_files import (
    EDGES,
    StoredEdges,
    WeighedRecords,
    map_table,
    measured,
    weights_of_pairs,
    without_nodes,
    write_graph,
)
from peewit.streaming.snapshots.provenance import RelationMeta, SnapshotMeta, weighed_meta
from peewit.streaming.snapshots.variances import VARIANCES

_ORDER = "order.npy"
WALKS = "walks"
"""Prefix of the directories that `peewit.streaming.snapshots.walk_rows` makes."""
_POINTS = "points"
_RELATION = "relation"
_WEIGHED = "weighed"
_MOST_WEIGHED = 8
"""Most weighed sums that are kept of a snapshot."""


class SnapshotNotFound(NotFound):
    """No snapshot of that number is kept."""

    title = "Snapshot not found"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """A sparsifier with its provenance."""

    meta: SnapshotMeta
    graph: Graph


class SnapshotStore:
    """Publishes, lists, loads and retires the snapshots of one graph.

    With ``weights``, of relations by name, edges, graphs and provenance are those of the weighed
    sum of the relations; one that is not named weighs 1.
    """

    def __init__(self, directory: Path, *, weights: Mapping[str, float] | None = None) -> None:
        self._directory = directory
        self._weights = {name: weight for name, weight in (weights or {}).items() if weight != 1.0}

    def weighed(self, weights: Mapping[str, float]) -> "SnapshotStore":
        """The same snapshots, with these weights of relations."""
        return SnapshotStore(self._directory, weights=weights)

    def numbers(self) -> list[int]:
        """Numbers of the snapshots kept, oldest first."""
        if not self._directory.exists():
            return []
        return sorted(
            int(entry.name) for entry in self._directory.iterdir() if entry.name.isdigit()
        )

    def latest(self) -> int | None:
        """Return the number of the newest snapshot, None before the first."""
        numbers = self.numbers()
        return numbers[-1] if numbers else None

    def newest(self) -> SnapshotMeta | None:
        """Provenance of the newest snapshot, None before the first."""
        latest = self.latest()
        return None if latest is None else self.meta(latest)

    def relation_names(self) -> tuple[str, ...]:
        """Names of the newest snapshot's relations; none where no edge names one."""
        newest = self.newest()
        return () if newest is None else tuple(each.name for each in newest.relations)

    def meta(self, number: int) -> SnapshotMeta:
        """Provenance of one snapshot; raises `SnapshotNotFound`."""
        try:
            text = (self.directory(number) / "meta.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise self._not_found(number) from None
        return weighed_meta(SnapshotMeta.read(text), self._weights)

    def relations(self, number: int) -> tuple[RelationMeta, ...]:
        """Provenance of each relation of a snapshot; one without a name where none is named."""
        meta = self.meta(number)
        if meta.relations:
            return meta.relations
        unnamed = RelationMeta(
            name="",
            edges_seen=meta.edges_seen,
            edges_kept=meta.edges_kept,
            n_records=meta.n_records,
            left_out=meta.left_out,
            n_nodes=0,
            volume=0.0,
            epsilon_expected=meta.epsilon_expected,
            sampling_constant=meta.sampling_constant,
            n_live=meta.n_live,
            log_version=meta.log_version,
            n_expired=meta.n_expired,
            n_late=meta.n_late,
            watermark=meta.watermark,
            horizon=meta.horizon,
        )
        return (measured(self.directory(number) / EDGES, unnamed, meta.n_nodes),)

    def edges(self, number: int) -> pa.Table:
        """Edges of one snapshot, memory-mapped: int32 ``u < v`` and float64 ``weight``."""
        path = self._made(number) / EDGES
        try:
            return map_table(path)
        except FileNotFoundError:
            raise self._not_found(number) from None

    def edges_of_relations(self, number: int) -> dict[str, pa.Table]:
        """Edges of each relation of one snapshot, as `edges`; none where no edge names one."""
        meta = self.meta(number)
        if not meta.relations:
            return {}
        try:
            return {name: map_table(own / EDGES) for name, own in self._relations(meta).items()}
        except FileNotFoundError:
            raise self._not_found(number) from None

    def load(self, number: int) -> Snapshot:
        """Load one snapshot as a graph with its provenance.

        A large adjacency matrix lies in unnamed files beside the snapshots: memory of the process
        that the system can take back.
        """
        meta = self.meta(number)
        path = self._made(number) / EDGES
        if not path.exists():
            raise self._not_found(number)
        graph = Graph.from_sorted_edges(
            StoredEdges(path), n_nodes=meta.n_nodes, scratch=self._directory
        )
        order = self._made(number) / _ORDER
        try:
            graph.keep_near(np.load(order, allow_pickle=False))
        except FileNotFoundError:
            pass  # no solve has found one yet
        except (EOFError, TypeError, ValueError):
            order.unlink(missing_ok=True)  # damaged; the next solve finds it anew
        return Snapshot(meta=meta, graph=graph)

    def keep_order(self, snapshot: Snapshot) -> None:
        """Keep the order that a solve has found for a snapshot, if it has, beside it.

        Raises `SnapshotNotFound` where it was retired meanwhile, and OSError.
        """
        order = snapshot.graph.known_order
        path = self.companion(snapshot.meta.number, _ORDER)
        if order is not None and not path.exists():
            publish_file(path, partial(_save, order.astype(np.int32)))

    def points(self, meta: SnapshotMeta, *, of_all_edges: bool) -> Float32Array | None:
        """What was kept of the nodes by `keep_points`; None if it is not there, or is damaged."""
        path = self._points_path(meta, of_all_edges=of_all_edges)
        try:
            rows: Float32Array = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (EOFError, TypeError, ValueError):
            path.unlink(missing_ok=True)  # it is made anew
            return None
        return rows if len(rows) == meta.n_nodes else None

    def lacks_points(self, meta: SnapshotMeta, *, of_all_edges: bool) -> bool:
        """Whether `keep_points` has kept nothing; raises `SnapshotNotFound`."""
        return not self._points_path(meta, of_all_edges=of_all_edges).exists()

    def keep_points(self, meta: SnapshotMeta, rows: Float32Array, *, of_all_edges: bool) -> None:
        """Keep rows of numbers of all nodes, which took long to make, as long as the snapshot.

        ``meta`` is that of the snapshot as it was loaded: where nodes were erased since, nothing is
        kept. Raises `SnapshotNotFound` where it was retired meanwhile, and OSError.
        """
        path = self._points_path(meta, of_all_edges=of_all_edges)
        publish_file(path, partial(_save, rows))
        if self.meta(meta.number).n_erased != meta.n_erased:
            path.unlink(missing_ok=True)

    def _points_path(self, meta: SnapshotMeta, *, of_all_edges: bool) -> Path:
        """Another one once nodes were erased: what was made before tells of them."""
        made_of = "all" if of_all_edges else "kept"
        return self.companion(meta.number, f"{_POINTS}-{made_of}-{meta.n_erased}.npy")

    def load_relations(self, number: int) -> dict[str, Graph]:
        """Load each relation of a snapshot as a graph of its own, by name."""
        meta = self.meta(number)
        return {
            name: Graph.from_sorted_edges(
                StoredEdges(directory / EDGES), n_nodes=meta.n_nodes, scratch=self._directory
            )
            for name, directory in self._relations(meta).items()
        }

    def counts(self, number: int) -> list[tuple[str, int, int]]:
        """Of all edges and of each relation: words, edges that are there, and that must be."""
        meta = self.meta(number)
        counts = [("", self.edges(number).num_rows, meta.edges_kept)]
        own = self._relations(meta).values()
        for each, directory in zip(meta.relations, own, strict=False):
            n_rows = map_table(directory / EDGES).num_rows
            counts.append((f" of the relation {each.name!r}", n_rows, each.edges_kept))
        return counts

    def relations_of_pairs(
        self, number: int, pairs: Sequence[tuple[int, int]]
    ) -> list[tuple[str, ...]]:
        """Names of the relations that join each pair of nodes, by the weight they have there.

        Those of weight 0 do not count. Of a graph that names none, nothing.
        """
        return [tuple(each) for each in self.weights_of_pairs(number, pairs)]

    def weights_of_pairs(
        self, number: int, pairs: Sequence[tuple[int, int]]
    ) -> list[dict[str, float]]:
        """Weight of each pair of nodes in the relations that `relations_of_pairs` names."""
        meta = self.meta(number)
        found: list[dict[str, float]] = [{} for _ in pairs]
        for name, directory in self._relations(meta).items() if meta.relations else ():
            factor = self._weights.get(name, 1.0)
            weights = weights_of_pairs(directory / EDGES, pairs) if factor else {}
            for place, weight in weights.items():
                found[place][name] = factor * weight
        return [dict(sorted(each.items(), key=lambda of: (-of[1], of[0]))) for each in found]

    def _relations(self, meta: SnapshotMeta) -> dict[str, Path]:
        """Directory with the edges of each relation, by name."""
        directory = self.directory(meta.number)
        names = [each.name for each in meta.relations] or [""]
        if len(names) == 1:
            return {names[0]: directory}
        return {name: directory / f"{_RELATION}-{place}" for place, name in enumerate(names)}

    def _made(self, number: int) -> Path:
        """Directory with the edges, weighed as asked; these are written where they are not yet."""
        directory = self.directory(number)
        if not self._weights or not directory.exists():
            return directory
        meta = self.meta(number)
        relations = self._relations(meta)
        used = {name: self._weights.get(name, 1.0) for name in relations}
        used = {name: weight for name, weight in used.items() if weight}
        if list(used.values()) == [1.0]:  # a relation by itself
            (name,) = used
            return relations[name]
        weights = json.dumps(self._weights, sort_keys=True).encode()
        weighed = directory / f"{_WEIGHED}-{hashlib.sha256(weights).hexdigest()[:16]}"
        if not weighed.exists():
            chunks = WeighedRecords([(relations[name], weight) for name, weight in used.items()])
            # erasures remove what no longer tells how far weights may be off
            tells_variances = all((relations[name] / VARIANCES).exists() for name in used)
            is_whole = meta.is_whole or not tells_variances
            try:
                with publish_directory(weighed) as unfinished:
                    write_graph(unfinished, chunks, n_nodes=meta.n_nodes, is_whole=is_whole)
            except OSError:
                if not weighed.exists():  # else another process has made it
                    raise
            made = sorted(directory.glob(f"{_WEIGHED}-*"), key=lambda path: path.stat().st_mtime)
            for older in made[:-_MOST_WEIGHED]:
                shutil.rmtree(older, ignore_errors=True)
        return weighed

    def publish_records(
        self,
        meta: SnapshotMeta,
        chunks: Iterable[EdgeChunk],
        *,
        relations: Sequence[Iterable[EdgeChunk]] = (),
        guard: Callable[[], None] = lambda: None,
        on_flushed: Callable[[], None] = lambda: None,
    ) -> SnapshotMeta:
        """Merge edge records and publish them as the snapshot ``meta.number``, which must be new.

        Returns ``meta`` with ``edges_kept``, which is counted here. Of ``chunks``, iterated several
        times and the same each time, parallel records sum and those with a ``keep_probability`` of
        0 are left out. ``relations`` are the chunks of each of ``meta.relations``, where there are
        several. ``guard`` is called when all is written and nothing yet changed; if it
        raises, nothing changes. ``on_flushed`` is called whenever some of it has reached the disk.

        Memory: 18 bytes for each of the `peewit.solvers.edge_merging.MAX_RECORDS` records merged at
        a time, whatever their number. Raises as `peewit.solvers.edge_merging.merged_ranges`; after
        an OSError, which names the file, what was published before stays.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self._directory)
        with publish_directory(self.directory(meta.number), on_flushed=on_flushed) as directory:
            is_whole = meta.is_whole
            n_edges = write_graph(
                directory, chunks, n_nodes=meta.n_nodes, is_whole=is_whole, on_flushed=on_flushed
            )
            described = []
            for place, each in enumerate(meta.relations):
                own = directory
                if len(meta.relations) > 1:
                    own = directory / f"{_RELATION}-{place}"
                    own.mkdir()
                    write_graph(
                        own,
                        relations[place],
                        n_nodes=meta.n_nodes,
                        is_whole=is_whole,
                        on_flushed=on_flushed,
                    )
                described.append(measured(own / EDGES, each, meta.n_nodes))
            meta = replace(meta, edges_kept=n_edges, relations=tuple(described))
            write_json(directory / "meta.json", asdict(meta))
            guard()
        return meta

    def erase(self, number: int, nodes: Int32Array) -> None:
        """Take the edges of some nodes out of a snapshot; done again, nothing changes.

        Where the snapshot is in use it stays mapped as it was. Raises `SnapshotNotFound`; after an
        OSError the snapshot is as before.
        """
        meta = self.meta(number)
        is_erased = np.zeros(meta.n_nodes, bool)
        is_erased[nodes[nodes < meta.n_nodes]] = True
        own = [self.directory(number)]
        if len(meta.relations) > 1:
            own += self._relations(meta).values()
        for directory in own:
            (directory / VARIANCES).unlink(missing_ok=True)
        n_edges, *_ = [without_nodes(each / EDGES, is_erased) for each in own]
        if meta.relations:
            relations = [
                measured(directory / EDGES, each, meta.n_nodes)
                for each, directory in zip(meta.relations, own[-len(meta.relations) :], strict=True)
            ]
            meta = replace(meta, relations=tuple(relations))
        meta = replace(meta, edges_kept=n_edges, n_erased=max(meta.n_erased, nodes.size))
        publish_json(self.directory(number) / "meta.json", asdict(meta))
        for directory in own:
            for made_of in (WALKS, _WEIGHED):
                for made in directory.glob(f"*{made_of}-*"):  # unfinished ones, too
                    shutil.rmtree(made, ignore_errors=True)
            for points in directory.glob(f"*{_POINTS}-*"):
                points.unlink(missing_ok=True)

    def companion(self, number: int, name: str) -> Path:
        """Path of a further file that stays as long as the snapshot does.

        Raises `SnapshotNotFound`.
        """
        if not self.directory(number).exists():
            raise self._not_found(number)
        return self._made(number) / name

    def retire(self, *, keep_last: int, keep: Collection[int] = ()) -> list[int]:
        """Remove all but the last ``keep_last`` and those in ``keep``; return the removed."""
        numbers = self.numbers()
        removed = [
            number for number in numbers[: max(len(numbers) - keep_last, 0)] if number not in keep
        ]
        for number in removed:
            shutil.rmtree(self.directory(number))
        return removed

    def directory(self, number: int) -> Path:
        """Directory of the snapshot of this number, if there is one."""
        return self._directory / f"{number:08d}"

    def _not_found(self, number: int) -> SnapshotNotFound:
        if self.directory(number).exists():
            return SnapshotNotFound(
                f"snapshot {number} lacks a file; it is being removed, or damaged"
            )
        newest = self.latest()
        remedy = "none is kept" if newest is None else f"the newest is {newest}"
        return SnapshotNotFound(f"no snapshot {number}, {remedy}")

    def list(self) -> list[SnapshotMeta]:
        """Provenance of the snapshots kept, oldest first."""
        return [self.meta(number) for number in self.numbers()]


def _save(array: AnyArray, path: Path) -> None:
    """Write an array to a file of any name."""
    with naming(path), path.open("wb") as file:
        np.save(file, array)
