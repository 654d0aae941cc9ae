"""Sets of features: taken in, brought into the graph by ingest, refused, replayed."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy.exc import OperationalError

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseExpired, LeaseStore
from peewit.service.graph_settings import AutoSolve, GraphSettings
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.feature_log import FeatureSetNotFound, FeatureSetRecord
from peewit.service.inbox.feature_sets import FeatureSets
from peewit.service.inbox.inbox_records import BacklogFull
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.needed_files import remove_unneeded
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from peewit.solvers.features import FeatureRows
from peewit.streaming.features.checked_tables import BadFeatures, FeatureBlock, read_features
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Interrupted
from peewit.streaming.snapshots.store import SnapshotStore
from tests.service.ingest.test_ingestor import write_edges
from tests.service.lost_answers import commits_unanswered

MAX_NODES = 200


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def graph(database: Database) -> GraphRecord:
    return Catalog(database).create(
        GraphSettings(name="g", epsilon=0.9, expected_nodes=40, seed=3, max_nodes=MAX_NODES)
    )


class Home:
    """The stores of one home, and what people do with them."""

    def __init__(self, database: Database, settings: Settings, graph: GraphRecord) -> None:
        self.database, self.settings = database, settings
        self.graph_id = graph.id
        self.paths = GraphPaths(root=settings.graphs_directory / graph.id)
        self.log = Manifest(database).feature_log
        self.sets = FeatureSets(
            self.log, settings.graphs_directory, max_backlog_bytes=settings.max_backlog_bytes
        )
        self.store = FeatureStore(self.paths.features)
        self.snapshots = SnapshotStore(self.paths.snapshots)

    @property
    def graph(self) -> GraphRecord:
        return Catalog(self.database).get_by_id(self.graph_id)

    def give(self, rows: dict[str, Any], mode: Any = "replace") -> FeatureSetRecord:
        return self.sets.add(self.graph, [block(rows)], mode=mode)

    def ingest(self, **options: Any) -> None:
        Ingestor(self.database, self.settings).ingest_graph(self.graph_id, **options)

    def ended(self, given: FeatureSetRecord) -> FeatureSetRecord:
        return self.log.get(self.graph_id, given.id)

    def rows(self) -> dict[str, Any]:
        """External id and row of each node that has one."""
        graph = self.graph
        n_nodes = graph.progress.n_nodes
        rows = FeatureRows.of(self.store.load(graph.features_version, n_nodes), n_nodes)
        known = KnownNodes(self.settings.graphs_directory, Manifest(self.database))
        names = known.external_ids(graph, n_nodes).to_pylist()
        owners = range(n_nodes) if rows.nodes is None else rows.nodes.tolist()
        values = rows.values.toarray() if rows.is_sparse else rows.values
        return {names[node]: values[row].tolist() for row, node in enumerate(owners)}


@pytest.fixture
def home(database: Database, settings: Settings, graph: GraphRecord) -> Home:
    return Home(database, settings, graph)


def block(rows: dict[str, Any]) -> FeatureBlock:
    nodes, values = list(rows), list(rows.values())
    if isinstance(values[0], dict):
        table = pa.table(
            {
                "node": nodes,
                "indices": [list(row) for row in values],
                "values": [list(row.values()) for row in values],
            }
        )
    else:
        table = pa.table({"node": nodes, "features": values})
    return read_features(table, node_kind="string", max_nodes=MAX_NODES)


@pytest.mark.slow
def test_features_create_nodes_and_a_snapshot_without_edges(home: Home) -> None:
    given = home.give({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert (given.status, home.graph.features_version) == ("pending", 0)
    home.ingest()
    ended = home.ended(given)
    assert (ended.status, ended.features_version, ended.n_new_nodes) == ("committed", 1, 2)
    graph = home.graph
    assert (graph.features_version, graph.progress.n_nodes) == (1, 2)
    assert graph.progress.snapshot == 1
    assert home.snapshots.load(1).graph.n_nodes == 2
    assert home.rows() == {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    assert list(home.paths.feature_sets.iterdir()) == []


def test_sets_replace_and_add_in_the_order_in_which_they_came(home: Home) -> None:
    home.give({"a": [1.0], "b": [2.0]})
    home.give({"b": [3.0], "c": [4.0]}, "add")
    home.ingest()
    assert home.rows() == {"a": [1.0], "b": [3.0], "c": [4.0]}
    home.give({"c": {5: 1.0}, "d": {0: 2.0, 3: 1.0}})
    home.give({"d": {}, "a": {7: 5.0}}, "add")
    home.ingest()
    assert home.graph.features_version == 4
    rows = home.rows()
    assert rows["d"] == [0.0] * 8
    assert rows["a"] == [0.0] * 7 + [5.0]
    assert rows["c"][5] == 1.0
    assert "b" not in rows
    status = home.sets.status(home.graph)
    assert (status.n_missing, status.n_pending, status.refused) == (1, 0, None)


def test_nodes_that_come_with_features_after_edges_are_in_a_new_snapshot(
    home: Home, tmp_path: Path
) -> None:
    write_edges(tmp_path / "edges.parquet")
    Manifest(home.database).sources.add(home.graph_id, str(tmp_path / "edges.parquet"))
    home.ingest()
    before = home.graph.progress
    home.give({"n1": [1.0], "alone": [2.0]})
    home.ingest()
    progress = home.graph.progress
    assert progress.n_nodes == before.n_nodes + 1
    assert (before.snapshot, progress.snapshot) == (1, 2)
    newest = home.snapshots.load(2)
    assert newest.graph.n_nodes == progress.n_nodes
    assert newest.meta.edges_seen == before.edges_seen
    assert home.rows() == {"n1": [1.0], "alone": [2.0]}
    given = home.give({"n1": [1.0], "alone": [3.0]})
    home.ingest()
    assert home.graph.progress.snapshot == 2, "no new node, no new snapshot"
    assert home.ended(given).n_new_nodes == 0


@pytest.mark.parametrize(
    ("rows", "mode", "message"),
    [
        ({"a": [1.0], "x": [1.0]}, "add", "must hold 2 numbers in every row as the set"),
        ({"a": {0: 1.0}}, "add", "must be dense as those there are, got sparse ones"),
        (
            {f"n{number}": [1.0] for number in range(MAX_NODES)},
            "replace",
            "at most max_nodes = 200 nodes, the next one, got n198 in row 198",
        ),
    ],
)
def test_a_refused_set_changes_nothing_and_holds_up_nothing(
    home: Home, rows: dict[str, Any], mode: Any, message: str
) -> None:
    home.give({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    refused = home.give(rows, mode)
    last = home.give({"b": [5.0, 6.0]}, "add")
    home.ingest()
    ended = home.ended(refused)
    assert ended.status == "refused"
    assert message in ended.fault
    assert home.ended(last).status == "committed"
    assert home.rows() == {"a": [1.0, 2.0], "b": [5.0, 6.0]}
    assert home.graph.progress.n_nodes == 2
    assert list(home.paths.feature_sets.iterdir()) == []


def test_a_node_that_stands_twice_is_named_with_its_second_row(home: Home) -> None:
    twice = [block({"a": [1.0], "b": [2.0]}), replace(block({"c": [0.0], "b": [3.0]}), first_row=2)]
    given = home.sets.add(home.graph, twice, mode="replace")
    home.ingest()
    ended = home.ended(given)
    assert (ended.status, ended.row, ended.value) == ("refused", 3, "b")
    assert ended.reason == "features must have one row of each node; leave the second out"
    status = home.sets.status(home.graph)
    assert status.refused == ended
    assert (home.graph.progress.n_nodes, home.graph.features_version) == (0, 0)


def test_rows_that_cannot_be_added_are_refused_at_the_door(home: Home) -> None:
    home.give({"a": [1.0, 2.0]})
    home.ingest()
    with pytest.raises(BadFeatures, match="must hold 2 numbers"):
        home.give({"a": [1.0]}, "add")
    assert list(home.paths.feature_sets.iterdir()) == []
    assert home.log.waiting(home.graph_id) == []


def test_a_set_whose_file_is_gone_is_refused(home: Home) -> None:
    given = home.give({"a": [1.0]})
    Path(given.path).unlink()
    home.ingest()
    assert home.ended(given).fault == "the file of the set is gone"


def test_a_set_whose_file_is_damaged_is_refused(home: Home) -> None:
    given = home.give({"a": [1.0], "b": [2.0]})
    content = Path(given.path).read_bytes()
    Path(given.path).write_bytes(content[: len(content) // 2])
    home.ingest()
    assert home.ended(given).fault.startswith("the file of the set is damaged")
    assert home.graph.progress.n_nodes == 0


def test_a_set_whose_commit_was_not_answered_keeps_its_file(database: Database, home: Home) -> None:
    with commits_unanswered(database), pytest.raises(OperationalError):
        home.give({"a": [1.0]})
    home.ingest()
    assert list(home.rows()) == ["a"]


def test_sets_beyond_the_room_wait_for_ingest(
    database: Database, settings: Settings, graph: GraphRecord
) -> None:
    home = Home(database, settings.model_copy(update={"max_backlog_bytes": 10}), graph)
    home.give({"a": [1.0]})
    with pytest.raises(BacklogFull, match="must have at most 10 bytes"):
        home.give({"a": [2.0]})
    with pytest.raises(BacklogFull, match="less than 10 bytes"):
        home.sets.require_room(home.graph_id)
    assert len(list(home.paths.feature_sets.iterdir())) == 1


def test_the_daemon_takes_sets_in_and_cleans_up_behind_them(home: Home) -> None:
    given = home.give({"a": [1.0]})
    left = home.paths.feature_sets / "left.parquet"
    pq.write_table(pa.table({"node": ["x"], "features": [[1.0]]}), left)
    daemon = IngestDaemon(home.database, home.settings)
    try:
        daemon.serve_once(lambda: False)
    finally:
        daemon.close()
    assert home.ended(given).status == "committed"
    sweep = partial(remove_unneeded, home.database, home.graph_id, home.paths.root)
    sweep(older_than_seconds=600.0)
    assert left.exists()
    waiting = home.give({"b": [1.0]})
    sweep(older_than_seconds=-60.0)
    assert [str(path) for path in home.paths.feature_sets.iterdir()] == [waiting.path]


def test_ended_sets_are_forgotten_but_for_the_last(home: Home) -> None:
    first, second = home.give({"a": [1.0]}), home.give({"a": [2.0]})
    home.ingest()
    third = home.give({"a": [3.0]})
    home.log.forget(home.graph_id, older_than_seconds=-60.0)
    with pytest.raises(FeatureSetNotFound):
        home.ended(first)
    assert [home.ended(each).status for each in (second, third)] == ["committed", "pending"]


def test_nodes_of_sets_that_wait_are_known(home: Home) -> None:
    known = KnownNodes(home.settings.graphs_directory, Manifest(home.database))
    asked = pa.array(["a", "b", "c"], pa.large_string())
    home.give({"a": [1.0]})
    home.give({"b": {3: 1.0}})
    assert known.knows(home.graph, asked).tolist() == [True, True, False]
    assert known.lookup(home.graph, asked).tolist() == [-1, -1, -1]
    home.ingest()
    assert known.knows(home.graph, asked).tolist() == [True, True, False]


def test_new_features_lead_to_a_new_solve(home: Home) -> None:
    auto = AutoSolve(model="stable-hfs")
    Catalog(home.database).update(home.graph_id, lambda each: replace(each, auto_solve=auto))
    home.give({"a": [1.0], "b": [2.0]})
    home.ingest()
    labels = LabelStore(home.database)
    labels.put(home.graph_id, ["a", "b"], ["left", "right"])
    queue = JobQueue(home.database)
    assert queue.list(graph_id=home.graph_id).jobs == []
    home.give({"a": [3.0]}, "add")
    home.ingest()
    assert len(queue.list(graph_id=home.graph_id).jobs) == 1


def test_versions_that_gave_way_stay_for_jobs_that_read_them(home: Home) -> None:
    for value in (1.0, 2.0, 3.0):
        home.give({"a": [value]})
        home.ingest()
    assert home.store.versions() == [1, 2, 3]


# Replays


def test_a_stopped_commit_is_done_by_the_next_one(home: Home) -> None:
    given = home.give({"a": [1.0], "b": [2.0]})
    n_stopped = 0
    while home.ended(given).status == "pending":
        asked = iter(range(n_stopped))
        try:
            home.ingest(should_stop=lambda asked=asked: next(asked, None) is None)
        except Interrupted:
            n_stopped += 1
            assert home.graph.features_version == 0
    assert n_stopped >= 2
    assert home.rows() == {"a": [1.0], "b": [2.0]}


def test_a_process_that_lost_its_lease_changes_nothing_more(home: Home) -> None:
    given = home.give({"a": [1.0]})
    ingestor = Ingestor(home.database, home.settings)
    with ingestor.open_graph(home.graph_id, should_stop=lambda: False) as opened:
        LeaseStore(home.database).release(opened.lease)
        with pytest.raises(LeaseExpired):
            opened.commit_features()
    assert home.ended(given).status == "pending"
    assert (home.store.versions(), home.graph.features_version) == ([], 0)
    home.ingest()
    assert home.rows() == {"a": [1.0]}
