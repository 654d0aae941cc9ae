"""How graphs have grown: noted while they are ingested, thinned out, and turned into a speed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database
from peewit.service.database.tables import ingest_points
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.ingest_history import (
    MAX_POINTS,
    IngestHistory,
    IngestPoint,
    edges_per_second,
)
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from tests.service.solvable import two_communities

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POINT = IngestPoint(at=NOON, n_nodes=1, edges_seen=0, edges_kept=0, n_records=0, memory_bytes=0)


@pytest.fixture
def graph_id(database: Database) -> str:
    return Catalog(database).create(GraphSettings(name="g", expected_nodes=60)).id


def test_points_come_back_in_order(database: Database, graph_id: str) -> None:
    history = IngestHistory(database)
    assert history.points(graph_id) == []
    for number in range(30):
        history.note(
            graph_id,
            n_nodes=number,
            edges_seen=2 * number,
            edges_kept=1,
            n_records=3,
            memory_bytes=4,
        )
    points = history.points(graph_id)
    assert [each.at for each in points] == sorted(each.at for each in points)
    assert 1 <= len(points) <= 30  # those of one millisecond are one
    last = points[-1]
    assert last.edges_seen == 2 * last.n_nodes
    assert (last.n_records, last.memory_bytes) == (3, 4)
    assert history.latest(graph_id, 5) == points[-5:]
    assert history.points("nobody") == []


def test_old_points_are_thinned_out(database: Database, graph_id: str) -> None:
    rows = [
        {
            "graph_id": graph_id,
            "at": NOON + timedelta(seconds=number),
            "n_nodes": number,
            "edges_seen": number,
            "edges_kept": 0,
            "n_records": 0,
            "memory_bytes": 0,
        }
        for number in range(MAX_POINTS + 50)
    ]
    with database.write() as connection:
        connection.execute(insert(ingest_points), rows)
    IngestHistory(database).note(
        graph_id, n_nodes=9999, edges_seen=9999, edges_kept=0, n_records=0, memory_bytes=0
    )
    kept = [each.n_nodes for each in IngestHistory(database).points(graph_id)]
    assert MAX_POINTS // 2 < len(kept) < MAX_POINTS
    assert kept[-1] == 9999
    assert kept[-100:-1] == list(range(MAX_POINTS + 50 - 99, MAX_POINTS + 50))
    steps = {later - earlier for earlier, later in pairwise(kept[:-100])}
    assert steps == {2}


def test_speed_is_that_of_the_last_seconds() -> None:
    points = [
        replace(POINT, at=NOON + timedelta(seconds=each), edges_seen=1000 * each)
        for each in range(60)
    ]
    end = points[-1].at
    assert edges_per_second(points, end) == pytest.approx(1000)
    assert edges_per_second(points, end + timedelta(seconds=30)) == 0.0
    assert edges_per_second(points[-1:], end) == 0.0
    assert edges_per_second([], end) == 0.0


def test_ingest_notes_how_the_graph_grows(
    database: Database, graph_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, v = two_communities()
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": u.astype(str), "dst": v.astype(str)}), path)
    Manifest(database).sources.add(graph_id, str(path))
    settings = Settings(home=tmp_path / "home", threads=1)
    Ingestor(database, settings).ingest_graph(graph_id)
    last = IngestHistory(database).points(graph_id)[-1]
    record = Catalog(database).get_by_id(graph_id)
    assert (last.n_nodes, last.edges_seen) == (60, len(u))
    assert last.edges_kept == record.progress.edges_kept > 0
    assert last.n_records >= last.edges_kept
    assert last.memory_bytes > 2**20

    def away(*_: object, **__: object) -> None:
        raise OperationalError("INSERT", {}, Exception("away"))

    monkeypatch.setattr(IngestHistory, "note", away)
    pq.write_table(pa.table({"src": ["x"], "dst": ["y"]}), tmp_path / "more.parquet")
    Manifest(database).sources.add(graph_id, str(tmp_path / "more.parquet"))
    assert Ingestor(database, settings).ingest_graph(graph_id).n_committed == 1
