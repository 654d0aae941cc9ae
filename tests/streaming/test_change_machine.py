"""Any order of inserts, deletes, sets, retractions, new versions and kills, against a dictionary.

The graph is small enough that every edge would be kept, so records are thinned by a low bound on
their number: then what lives must be told by the log, and the sparsifier must be a part of it.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from peewit.solvers.graph import Graph
from peewit.streaming.edges.change_rules import ParallelEdges
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns
from peewit.streaming.edges.operations import DELETE, INSERT, SET
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.windows import Window
from peewit.streaming.events import IngestEvent
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import live_blocks
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import living
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from tests.streaming.test_changes import Crash, Row, table_of

N_NODES = 24

_nodes = st.integers(0, N_NODES - 1)
_rows = st.lists(
    st.tuples(_nodes, _nodes, st.integers(1, 8), st.sampled_from([INSERT] * 6 + [DELETE, SET])),
    min_size=1,
    max_size=60,
)


Edge: TypeAlias = tuple[frozenset[str], float, int, str]
"""Ends, weight, the bucket of a window, 0 in graphs without one, and the relation."""


class Changes(RuleBasedStateMachine):
    """A stream with a log beside lists of the edges that each file left alive."""

    columns: EdgeColumns = CHANGES
    window: Window | None = None
    buffer_edges = 120
    relations: tuple[str, ...] = ("",)

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="peewit-machine-"))
        self.paths = GraphPaths(root=self.root / "graph")
        self.n_files = 0
        self.alive: dict[str, list[Edge]] = {}
        self.removes: dict[str, bool] = {}

    @initialize(parallel=st.sampled_from(["sum", "replace"]), max_edges=st.integers(40, 70))
    def begin(self, parallel: ParallelEdges, max_edges: int) -> None:
        self.parallel = parallel
        self.settings = StreamSettings(
            node_kind="string",
            sparsifier=SparsifierSettings(
                epsilon=0.9,
                expected_nodes=N_NODES,
                max_edges=max_edges,
                buffer_edges=self.buffer_edges,
            ),
            deletions="exact",
            parallel_edges=parallel,
            window=self.window,
            checkpoint_seconds=0.0,
            max_part_rows=16,
            group_blocks=2,
        )
        self.stream = Stream(self.paths, self.settings)

    @rule(rows=_rows, n_events=st.integers(0, 4))
    def ingest_some(self, rows: list[tuple[int, int, int, int]], n_events: int) -> None:
        self.ingest(rows, n_events)

    def ingest(self, rows: list[tuple[int, int, int, int]], n_events: int) -> None:
        path = self.root / f"{self.n_files}.parquet"
        rows = self._unlike_others(rows)
        self._write(path, rows)
        self._take(path, n_events)
        self._play(path, rows)

    @rule(seed=st.integers(0, 5), n_events=st.integers(0, 9))
    def ingest_many(self, seed: int, n_events: int) -> None:
        """So many edges that most are thrown away."""
        ends = np.random.default_rng(seed).integers(0, N_NODES, (2, 300))
        self.ingest([(int(u), int(v), 1, INSERT) for u, v in ends.T], n_events)

    @precondition(lambda self: self.n_files)
    @rule(node=_nodes, n_events=st.integers(0, 4))
    def delete_a_node(self, node: int, n_events: int) -> None:
        """All edges of a node but those to one other."""
        others = (other for other in range(N_NODES) if other not in {node, (node + 1) % N_NODES})
        self.ingest([(node, other, 1, DELETE) for other in others], n_events)

    @precondition(lambda self: self._retractable)
    @rule(rows=_rows, data=st.data(), n_events=st.integers(0, 4))
    def replace(
        self, rows: list[tuple[int, int, int, int]], data: st.DataObject, n_events: int
    ) -> None:
        path = Path(data.draw(st.sampled_from(self._retractable)))
        rows = self._unlike_others(rows)
        self._write(path, rows)
        self._take(path, n_events)
        del self.alive[str(path)]
        self._play(path, rows)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.alive)))
        self.stream.retract(path, inserts_only=True)
        del self.alive[path]

    @rule()
    def reopen(self) -> None:
        self.stream = Stream(self.paths, self.settings)

    @invariant()
    def logs_hold_what_lives(self) -> None:
        names = self._names()
        found: Counter[Edge] = Counter()
        for number, (relation, state) in enumerate(self.stream.states.items()):
            log = ChangeLog(self.paths.relation_log(number))
            digests = living(self.stream.files, state.horizon, relation)
            n_before = found.total()
            for _, block in live_blocks(log, digests, log.dead(state.log_version)):
                for near, far, weight in zip(block.u, block.v, block.weight, strict=True):
                    pair = frozenset((names[near], names[far]))
                    found[pair, float(weight), block.bucket, relation] += 1
            assert state.n_live == found.total() - n_before
        assert found == Counter(edge for edges in self.alive.values() for edge in edges)

    @invariant()
    def sparsifiers_are_parts_of_it(self) -> None:
        for relation, state in self.stream.states.items():
            alive = {edge for each in self.alive.values() for edge in each if edge[3] == relation}
            self._require_part(relation, state, alive)

    def _require_part(self, relation: str, state: SparsifierState, alive: set[Edge]) -> None:
        names, records = self._names(), state.records
        assert state.runs is not None
        buckets = np.repeat(state.runs.buckets, state.runs.counts).tolist()
        for near, far, weight, bucket in zip(
            records.u, records.v, records.weight, buckets, strict=True
        ):
            pair = frozenset((names[near], names[far]))
            assert (pair, float(weight), bucket, relation) in alive
        assert state.runs.n_records == state.n_records
        assert set(state.runs.keys) <= {file.digest for file in self.stream.files}
        assert state.torn is None
        number = {name: place for place, name in enumerate(names)}
        ends = np.array([[number[end] for end in pair] for pair, *_ in alive], int).reshape(-1, 2)
        graph = Graph.from_edges(ends[:, 0], ends[:, 1], np.ones(len(ends)), n_nodes=len(names))
        kept = Graph.from_edges(records.u, records.v, records.weight, n_nodes=len(names))
        assert kept.n_components == graph.n_components

    @invariant()
    def newest_snapshot_is_of_now(self) -> None:
        snapshots = SnapshotStore(self.paths.snapshots)
        newest = snapshots.latest()
        if newest is not None:
            assert snapshots.meta(newest).n_live == sum(map(len, self.alive.values()))

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @property
    def _retractable(self) -> list[str]:
        return sorted(path for path in self.alive if not self.removes[path])

    def _unlike_others(
        self, rows: list[tuple[int, int, int, int]]
    ) -> list[tuple[int, int, int, int]]:
        """Rows that make another content than all files before."""
        self.n_files += 1
        return [*rows, (0, 1, self.n_files, INSERT)]

    def _names(self) -> list[str]:
        nodes = self.stream._work.nodes
        return [str(each) for each in nodes.external_ids().to_pylist()]

    def _write(self, path: Path, rows: list[tuple[int, int, int, int]]) -> None:
        table = table_of(list(named(rows)), "string")
        if len(self.relations) > 1:
            table = table.append_column("kind", pa.array(map(self.relation, rows), pa.string()))
        pq.write_table(self.timed(table, rows), path, row_group_size=16)

    def timed(self, table: pa.Table, rows: list[tuple[int, int, int, int]]) -> pa.Table:
        """A table of rows, with what a window needs to know of them."""
        return table

    def _take(self, path: Path, n_events: int) -> None:
        """Ingest a file in a process that dies at an event, and then in one that does not."""
        (file,) = EdgeFiles(path, columns=self.columns).list()
        wanted = replace(file, replaces=True)
        n_left = n_events

        def die(_event: IngestEvent) -> None:
            nonlocal n_left
            n_left -= 1
            if n_left < 0:
                raise Crash

        with suppress(Crash):
            Stream(self.paths, self.settings, on_event=die).ingest([wanted])
        self.stream = Stream(self.paths, self.settings)
        self.stream.ingest([wanted])

    def _play(self, path: Path, rows: list[tuple[int, int, int, int]]) -> None:
        edges: list[Edge] = []
        before, removes = self.alive, False
        for (src, dst, weight, op), bucket, relation in zip(
            named(rows), self.buckets(rows), map(self.relation, rows), strict=True
        ):
            pair = frozenset((src, dst))

            def stays(edge: Edge, of: tuple[frozenset[str], str] = (pair, relation)) -> bool:
                return (edge[0], edge[3]) != of

            if op != INSERT or self.parallel == "replace":
                edges = list(filter(stays, edges))
                before = {key: list(filter(stays, each)) for key, each in before.items()}
                removes = True
            if op != DELETE and len(pair) == 2:
                edges.append((pair, weight, bucket, relation))
        self.alive = before | {str(path): edges}
        self.removes[str(path)] = removes

    def relation(self, row: tuple[int, int, int, int]) -> str:
        """Relation of a row."""
        return self.relations[(row[0] * row[1] + row[2]) % len(self.relations)]

    def buckets(self, rows: list[tuple[int, int, int, int]]) -> list[int]:
        """Buckets of some rows."""
        return [0] * len(rows)


def named(rows: Iterable[tuple[int, int, int, int]]) -> Iterable[Row]:
    for src, dst, weight, op in rows:
        yield f"n{src}", f"n{dst}", weight / 4, op


class Relations(Changes):
    """The same where rows belong to relations, each with a log and a sparsifier of its own."""

    columns = EdgeColumns(op="op", relation_column="kind")
    relations = ("login", "card", "message")
    buffer_edges = 200


TestChanges = pytest.mark.slow(Changes.TestCase)
TestChanges.settings = settings(
    derandomize=True,
    max_examples=10,
    stateful_step_count=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # what fails takes long to shrink
    suppress_health_check=list(HealthCheck),
)

TestRelations = pytest.mark.slow(Relations.TestCase)
TestRelations.settings = settings(TestChanges.settings, max_examples=8)
