"""Snapshots: the sparsifier as people use it, numbered, with its provenance, published whole.

A snapshot is a directory with the merged edges and a small JSON page that says what the graph was
made of and how accurate it is meant to be. The edges are a sorted Arrow file of small batches, so
that nobody who writes, reads or loads them needs room for all. Weights stay float64, at four bytes
of 16 more than float32: they are sums of parallel edges that people download.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray, BoolArray, Int32Array
from peewit.solvers.edge_merging import EdgeChunk, merged_ranges
from peewit.solvers.graph import Graph
from peewit.streaming.durable_files import (
    fsync_file,
    naming,
    publish_directory,
    publish_file,
    publish_json,
    remove_unfinished,
    write_json,
)
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.left_out import LeftOut
from peewit.streaming.problems import NotFound
from peewit.streaming.snapshots.variances import VARIANCES, write_variances
from peewit.streaming.sparsifier.degrees import Damage

_BATCH_ROWS = 1 << 18
_FLUSHED_BATCHES = 16  # 64 MiB
_LEAST_SHARE = 0.8
"""A budget that binds leaves at least this share of itself; coins make it uneven."""
_EDGES = "edges.arrow"
_ORDER = "order.npy"
WALKS = "walks"
"""Prefix of the directories that `peewit.streaming.snapshots.walk_rows` makes."""
_RELATION = "relation"
_WEIGHED = "weighed"
_MOST_WEIGHED = 8
"""Most weighed sums that are kept of a snapshot."""
_SCHEMA = pa.schema([("u", pa.int32()), ("v", pa.int32()), ("weight", pa.float64())])


class SnapshotNotFound(NotFound):
    """No snapshot of that number is kept."""

    title = "Snapshot not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRepair:
    """When edges were last sampled anew: those of damaged nodes ("part"), or all."""

    kind: Literal["part", "all"]
    n_edges: int  # sampled anew
    seconds: float  # with the reading of the log
    snapshot: int  # number of the first one after it


def failed_thinnings_text(n_failed: int) -> str:
    """Warning that a graph may grow past its bound; empty where no thinning has failed."""
    if not n_failed:
        return ""
    return (
        f"resistances did not converge in {n_failed:,} thinnings, which threw nothing away: the "
        "graph may grow past its bound; weights over very many decades do this, so cap or scale "
        "them before they are ingested"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMeta:
    """Provenance of one relation of a snapshot; what has the same name is as in `SnapshotMeta`."""

    name: str
    edges_seen: int
    edges_kept: int
    n_records: int
    left_out: LeftOut
    n_nodes: int  # with an edge
    volume: float  # twice the weight of its edges, as kept
    epsilon_expected: float
    sampling_constant: float | None
    n_live: int | None = None
    log_version: int = 0

    @property
    def n_edges(self) -> int:
        """Edges that live, where a log tells, or else that came; parallel ones count each."""
        return self.edges_seen - self.left_out.total if self.n_live is None else self.n_live


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMeta:
    """Provenance of one snapshot.

    ``n_nodes`` are the first entries of the node index. ``epsilon_asked`` is None where edges are
    kept while they are within ``max_edges``; ``epsilon_expected`` follows from what was kept
    ((B10'), (B19)). ``watermark`` and ``horizon``, in graphs with a window, are the latest time of
    the edges and the time since which edges live, in seconds since 1970. ``n_split`` counts
    components beyond those before, where nothing tells whether the graph has them.
    """

    number: int  # counts from 1 in each graph
    node_kind: NodeKind
    n_nodes: int
    edges_seen: int  # rows of all committed files, those without an edge included
    edges_kept: int  # parallel records summed
    n_records: int  # behind those edges
    left_out: LeftOut  # of these rows
    epsilon_asked: float | None
    epsilon_expected: float
    sampling_constant: float | None  # least of any record; None while every edge is kept
    max_edges_bound: bool  # whether max_edges won over epsilon, or threw edges away
    n_resparsifications: int  # of the buffer
    n_failed_embeddings: int  # resparsifications refused for want of convergence
    n_blocks: int  # absorbed, as n_files: the position in the stream
    n_files: int
    seed: int  # of coins and probes
    created_at: float  # seconds since the epoch
    n_deletes: int = 0  # rows that deleted a pair of nodes
    n_removals: int = 0  # pairs that were deleted or set
    n_struck: int = 0  # records that left as their edges were deleted
    n_split: int = 0
    n_live: int | None = None  # not deleted, not expired, no self-loops; None without a log
    n_unmatched: int = 0  # deleted pairs without an edge, by the log; again if deleted again
    log_version: int = 0  # of the log's dead rows
    n_repairs: int = 0  # of a part of the edges, after deletes
    n_rebuilds: int = 0  # of all edges, after deletes
    damage: Damage | None = None  # of nodes since their edges were sampled; None without a log
    last_repair: LastRepair | None = None
    log_bytes: int | None = None  # before it was compacted; None without a log
    n_expired: int = 0  # edges that left the window
    n_late: int = 0  # edges that came when the window was past them
    watermark: float | None = None
    horizon: float | None = None
    n_erased: int = 0  # nodes, before it was published or since
    n_removed_files: int = 0  # how often a file was retracted or replaced before
    files_digest: str | None = None  # `digest_of_files`; None in snapshots that do not say
    max_edges: int | None = None  # budget that it was made for
    relations: tuple[RelationMeta, ...] = ()  # of a graph that names some, in order

    @classmethod
    def read(cls, text: str) -> Self:
        """The provenance on a page, as `asdict` gave it."""
        values = json.loads(text)
        values["left_out"] = LeftOut(**values["left_out"])
        parts: dict[str, type[Damage | LastRepair]] = {"damage": Damage, "last_repair": LastRepair}
        for name, kind in parts.items():
            if values.get(name) is not None:
                values[name] = kind(**values[name])
        values["relations"] = tuple(
            RelationMeta(left_out=LeftOut(**each.pop("left_out")), **each)
            for each in values.get("relations", ())
        )
        return cls(**values)

    @property
    def log_versions(self) -> dict[str, int]:
        """Version of the log of each relation, by name."""
        return {each.name: each.log_version for each in self.relations} or {"": self.log_version}

    @property
    def has_log(self) -> bool:
        """Whether a log tells which edges live."""
        return self.n_live is not None

    @property
    def n_edges(self) -> int:
        """Edges that live, where a log tells, or else that came; parallel ones count each."""
        return self.edges_seen - self.left_out.total if self.n_live is None else self.n_live

    @property
    def n_merged(self) -> int | None:
        """Edges that were added to one of their pair; None where edges left uncounted."""
        is_counted = self.is_whole and (self.has_log or not self.n_erased)
        return self.n_edges - self.edges_kept if is_counted else None

    @property
    def n_deleted(self) -> int | None:
        """Edges that were deleted; None where no log tells."""
        if self.n_live is None:
            return None
        passed = self.n_expired + self.n_late
        return self.edges_seen - self.left_out.total - self.n_live - passed

    @property
    def n_gone(self) -> int:
        """Edges that were deleted, or left the window, as far as a log tells."""
        return 0 if self.n_deleted is None else self.n_deleted + self.n_expired

    @property
    def is_whole(self) -> bool:
        """Whether it holds every edge, none thrown away by a coin."""
        return self.sampling_constant is None

    def differs_from(self, *, epsilon: float | None, max_edges: int | None) -> bool:
        """Whether this epsilon or budget may make another snapshot of the same edges."""
        if (epsilon, max_edges) == (self.epsilon_asked, self.max_edges):
            return False
        fits = max_edges is None or self.edges_kept <= max_edges
        return epsilon != self.epsilon_asked or not (self.is_whole and fits)

    @property
    def _is_short(self) -> bool:
        """Whether far fewer edges are kept than its budget allows."""
        return self.max_edges is not None and self.n_records < _LEAST_SHARE * self.max_edges

    @property
    def note(self) -> str:
        """Warning where the expected spectral error is not the one asked, or is not known."""
        notes = []
        epsilon, expected = self.epsilon_asked, self.epsilon_expected
        if epsilon is None:
            if not self.is_whole:
                n_all = (
                    self.edges_seen - self.left_out.total if self.n_live is None else self.n_live
                )
                bound = "as many as max_edges allows"
                if self.max_edges is not None and self.edges_kept > self.max_edges:
                    bound = f"more than max_edges={self.max_edges:,}"
                    if self.edges_kept < self.n_nodes:
                        bound += ", as a spanning forest always stays"
                way_to_more = "with memory to spare raise max_edges, which reads them again"
                if self._is_short:
                    bound = (
                        f"fewer than max_edges={self.max_edges:,} allows: the others were thrown "
                        "away when it was lower, or before edges left, and were not read again"
                    )
                    way_to_more = "`peewit repair --rebuild` reads them again"
                notes.append(
                    f"{self.edges_kept:,} of {n_all:,} edges are kept, {bound}; each solve says "
                    "about how many predictions hang on that; keep the input files: "
                    f"{way_to_more}"
                )
        elif expected > epsilon and self.max_edges_bound:
            notes.append(
                f"edges were thrown away for max_edges: epsilon {epsilon:g} asked, {expected:.2f} "
                "expected; raise max_edges if it is set, or else have `peewit repair --rebuild` "
                "read all edges again"
                if self.max_edges is None
                else f"max_edges raised the spectral error: epsilon {epsilon:g} asked, "
                f"{expected:.2f} expected; raise max_edges for the epsilon asked"
            )
        elif expected > epsilon and self.n_struck:
            notes.append(
                f"epsilon {epsilon:g} asked, {expected:.2f} expected: edges were deleted, and what "
                "is left was sampled when they were there"
            )
        elif expected > epsilon:
            notes.append(
                f"epsilon {epsilon:g} asked, {expected:.2f} expected: some node keeps few edges; "
                "lower epsilon for a tighter graph"
            )
        if failed := failed_thinnings_text(self.n_failed_embeddings):
            notes.append(failed)
        if self.n_split:
            notes.append(
                f"deleted edges left {self.n_split:,} more components, and nothing tells whether "
                "the graph has them, too: edges that would join them may have been thrown away"
            )
        return "; ".join(notes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """A sparsifier with its provenance."""

    meta: SnapshotMeta
    graph: Graph


_Edges = tuple[AnyArray, AnyArray, AnyArray]


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
        )
        return (_measured(self.directory(number) / _EDGES, unnamed, meta.n_nodes),)

    def edges(self, number: int) -> pa.Table:
        """Edges of one snapshot, memory-mapped: int32 ``u < v`` and float64 ``weight``."""
        path = self._made(number) / _EDGES
        try:
            return _map_table(path)
        except FileNotFoundError:
            raise self._not_found(number) from None

    def load(self, number: int) -> Snapshot:
        """Load one snapshot as a graph with its provenance.

        A large adjacency matrix lies in unnamed files beside the snapshots: memory of the process
        that the system can take back.
        """
        meta = self.meta(number)
        path = self._made(number) / _EDGES
        if not path.exists():
            raise self._not_found(number)
        graph = Graph.from_sorted_edges(
            _StoredEdges(path), n_nodes=meta.n_nodes, scratch=self._directory
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

    def load_relations(self, number: int) -> dict[str, Graph]:
        """Load each relation of a snapshot as a graph of its own, by name."""
        meta = self.meta(number)
        return {
            name: Graph.from_sorted_edges(
                _StoredEdges(directory / _EDGES), n_nodes=meta.n_nodes, scratch=self._directory
            )
            for name, directory in self._relations(meta).items()
        }

    def counts(self, number: int) -> list[tuple[str, int, int]]:
        """Of all edges and of each relation: words, edges that are there, and that must be."""
        meta = self.meta(number)
        counts = [("", self.edges(number).num_rows, meta.edges_kept)]
        own = self._relations(meta).values()
        for each, directory in zip(meta.relations, own, strict=False):
            n_rows = _map_table(directory / _EDGES).num_rows
            counts.append((f" of the relation {each.name!r}", n_rows, each.edges_kept))
        return counts

    def relations_of_pairs(
        self, number: int, pairs: Sequence[tuple[int, int]]
    ) -> list[tuple[str, ...]]:
        """Names of the relations that join each pair of nodes, by the weight they have there.

        Those of weight 0 do not count. Of a graph that names none, nothing.
        """
        meta = self.meta(number)
        found: list[list[tuple[float, str]]] = [[] for _ in pairs]
        for name, directory in self._relations(meta).items() if meta.relations else ():
            factor = self._weights.get(name, 1.0)
            weights = _weights_of_pairs(directory / _EDGES, pairs) if factor else {}
            for place, weight in weights.items():
                found[place].append((-factor * weight, name))
        return [tuple(name for _, name in sorted(each)) for each in found]

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
            chunks = _WeighedRecords([(relations[name], weight) for name, weight in used.items()])
            # erasures remove what no longer tells how far weights may be off
            tells_variances = all((relations[name] / VARIANCES).exists() for name in used)
            is_whole = meta.is_whole or not tells_variances
            try:
                with publish_directory(weighed) as unfinished:
                    _write_graph(unfinished, chunks, n_nodes=meta.n_nodes, is_whole=is_whole)
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
            n_edges = _write_graph(
                directory, chunks, n_nodes=meta.n_nodes, is_whole=is_whole, on_flushed=on_flushed
            )
            described = []
            for place, each in enumerate(meta.relations):
                own = directory
                if len(meta.relations) > 1:
                    own = directory / f"{_RELATION}-{place}"
                    own.mkdir()
                    _write_graph(
                        own,
                        relations[place],
                        n_nodes=meta.n_nodes,
                        is_whole=is_whole,
                        on_flushed=on_flushed,
                    )
                described.append(_measured(own / _EDGES, each, meta.n_nodes))
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
        n_edges, *_ = [_without_nodes(each / _EDGES, is_erased) for each in own]
        if meta.relations:
            relations = [
                _measured(directory / _EDGES, each, meta.n_nodes)
                for each, directory in zip(meta.relations, own[-len(meta.relations) :], strict=True)
            ]
            meta = replace(meta, relations=tuple(relations))
        meta = replace(meta, edges_kept=n_edges, n_erased=max(meta.n_erased, nodes.size))
        publish_json(self.directory(number) / "meta.json", asdict(meta))
        for directory in own:
            for made_of in (WALKS, _WEIGHED):
                for made in directory.glob(f"*{made_of}-*"):  # unfinished ones, too
                    shutil.rmtree(made, ignore_errors=True)

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


@dataclass(frozen=True, slots=True)
class _StoredEdges:
    """The batches of a file of edges, read anew each time; never more than one in memory."""

    path: Path

    def __iter__(self) -> Iterator[_Edges]:
        with pa.OSFile(str(self.path), "rb") as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                u, v, weight = (column.to_numpy() for column in batch.columns)
                yield u, v, weight


def weighed_meta(meta: SnapshotMeta, weights: Mapping[str, float]) -> SnapshotMeta:
    """Provenance of the weighed sum of relations: of those alone that have a weight."""
    if not weights:
        return meta
    used = [each for each in meta.relations if weights.get(each.name, 1.0) > 0.0]
    constants = [each.sampling_constant for each in used if each.sampling_constant is not None]
    return replace(
        meta,
        epsilon_expected=max((each.epsilon_expected for each in used), default=0.0),
        sampling_constant=min(constants, default=None),
    )


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Some edges of a relation as records: an EdgeChunk.

    ``weight / keep_probability`` is the conductance, of which ``1 - keep_probability`` is the
    relative variance.
    """

    u: AnyArray
    v: AnyArray
    weight: AnyArray
    keep_probability: AnyArray


@dataclass(frozen=True, slots=True)
class _WeighedRecords:
    """Edges of relations, each in a directory and with a weight, read anew each time."""

    relations: Sequence[tuple[Path, float]]

    def __iter__(self) -> Iterator[_Weighed]:
        for directory, factor in self.relations:
            variances = None
            if (path := directory / VARIANCES).exists():
                variances = np.load(path, mmap_mode="r", allow_pickle=False)
            first = 0
            for u, v, weight in _StoredEdges(directory / _EDGES):
                probability = np.ones(u.size)
                if variances is not None:
                    probability -= variances[first : first + u.size]
                first += u.size
                yield _Weighed(u, v, factor * weight * probability, probability)


def _weights_of_pairs(path: Path, pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Weights of those pairs that a sorted file of edges has, by their places; batch by batch."""
    wanted = sorted((*sorted(pair), place) for place, pair in enumerate(pairs))
    found: dict[int, float] = {}
    for batch in _map_table(path).to_batches():
        u, v, weight = (column.to_numpy() for column in batch.columns)
        for near, far, place in wanted:
            if u.size and u[0] <= near <= u[-1]:
                first, last = np.searchsorted(u, [near, near + 1])
                at = first + int(np.searchsorted(v[first:last], far))
                if at < last and v[at] == far:
                    found[place] = float(weight[at])
    return found


def _write_graph(
    directory: Path,
    chunks: Iterable[EdgeChunk],
    *,
    n_nodes: int,
    is_whole: bool,
    on_flushed: Callable[[], None] = lambda: None,
) -> int:
    """Write merged edges, and their variances where coins were thrown; returns their number."""
    slices = (
        part
        for merged in merged_ranges(chunks, n_nodes=n_nodes)
        for part in _edge_slices(merged.u, merged.v, merged.weight)
    )
    n_edges = _write_edges(directory / _EDGES, slices, on_flushed)
    if not is_whole:
        weight = _map_table(directory / _EDGES)["weight"]
        write_variances(directory, chunks, weight, n_nodes=n_nodes)
    return n_edges


def _measured(path: Path, relation: RelationMeta, n_nodes: int) -> RelationMeta:
    """Provenance of a relation with the numbers of its edges and nodes, and its volume."""
    is_reached, n_edges, weights = np.zeros(n_nodes, bool), 0, 0.0
    for u, v, weight in _StoredEdges(path):
        is_reached[u] = is_reached[v] = True
        n_edges += u.size
        weights += float(weight.sum())
    n_reached = int(np.count_nonzero(is_reached))
    return replace(relation, edges_kept=n_edges, n_nodes=n_reached, volume=2.0 * weights)


def _without_nodes(path: Path, is_erased: BoolArray) -> int:
    """Take the edges of nodes out of a file; returns how many are left."""

    def edges() -> Iterator[_Edges]:
        for u, v, weight in _StoredEdges(path):
            stays = ~(is_erased[u] | is_erased[v])
            yield u[stays], v[stays], weight[stays]

    n_before = sum(u.size for u, _, _ in _StoredEdges(path))
    n_edges = sum(u.size for u, _, _ in edges())
    if n_edges < n_before:

        def write(written: Path) -> None:
            _write_edges(written, edges(), lambda: None)

        publish_file(path, write)
    return n_edges


def _map_table(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _save(array: AnyArray, path: Path) -> None:
    """Write an array to a file of any name."""
    with naming(path), path.open("wb") as file:
        np.save(file, array)


def _edge_slices(u: AnyArray, v: AnyArray, weight: AnyArray) -> Iterator[_Edges]:
    """The edges in slices of the length of a batch."""
    for start in range(0, u.size, _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        yield u[rows], v[rows], weight[rows]


def _write_edges(path: Path, slices: Iterable[_Edges], on_flushed: Callable[[], None]) -> int:
    """Write edges as one batch for each slice, flushed now and then; returns their number."""
    n_edges = 0
    with (
        naming(path),
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        for number, (u, v, weight) in enumerate(slices, start=1):
            columns = [u.astype(np.int32, copy=False), v.astype(np.int32, copy=False), weight]
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
            n_edges += u.size
            if number % _FLUSHED_BATCHES == 0:
                fsync_file(path)
                on_flushed()
    return n_edges
