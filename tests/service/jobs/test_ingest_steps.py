"""What ingest does, what of it stands still, and which sources fail."""

from typing import Any

from sqlalchemy import update

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs, ingest_steps
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow, duration
from peewit.service.jobs.worker_registry import SILENT_AFTER_SECONDS


def step(**changes: Any) -> StepNow:
    values: dict[str, Any] = {
        "key": "",
        "graph_id": None,
        "source_id": None,
        "step": "thinning",
        "file": None,
        "step_seconds": 200.0,
        "quiet_seconds": 1.0,
    }
    return StepNow(**values | changes)


def test_what_stands_still_is_told_with_graph_source_and_time(database: Database) -> None:
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    source = Manifest(database).sources.add(graph_id, "https://me:hidden@store/x", follow=True)
    store = IngestSteps(database)
    place = {"graph_id": graph_id, "source_id": source.id}
    store.store("ingest:a:1", [step(graph_id=graph_id)])
    store.store(
        "ingest:b:1",
        [
            step(**place, step="reading", file="https://me:hidden@store/x/1", quiet_seconds=50.0),
            step(**place, key=source.id, step="listing", quiet_seconds=44.0),
        ],
    )
    (fault,) = store.faults(45.0)
    assert (fault.graph, fault.source_id, fault.process) == ("g", source.id, "ingest:b:1")
    assert str(fault) == (
        "graph g, source https://me:***@store/x: reading, https://me:***@store/x/1: "
        "no progress for 50 s"
    )
    assert [each.doing(45.0) for each in store.present(graph_id)] == [
        "thinning for 3 min",
        "reading, https://me:***@store/x/1: no progress for 50 s",
        "listing for 3 min",
    ]
    store.store("ingest:b:1", [])
    assert [each.process for each in store.present()] == ["ingest:a:1"]


def test_a_process_that_says_nothing_any_more_does_nothing(database: Database) -> None:
    store = IngestSteps(database)
    store.store("ingest:a:1", [step(quiet_seconds=99.0)])
    assert [str(each) for each in store.faults(45.0)] == ["ingest: thinning: no progress for 99 s"]
    with database.write() as connection:
        connection.execute(update(ingest_steps).values(seen_at=now(-SILENT_AFTER_SECONDS - 1.0)))
    assert store.faults(45.0) == store.present() == []


def test_a_source_that_fails_is_told_once_with_its_error(database: Database) -> None:
    manifest, store = Manifest(database), IngestSteps(database)
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    source = manifest.sources.add(graph_id, "edges/", follow=True)
    manifest.sources.note_listing(source.id, error="PermissionError: token=hidden is no good")
    (fault,) = store.faults(45.0)
    assert (fault.graph, fault.url, fault.process) == ("g", "edges/", None)
    assert fault.error == "PermissionError: token=*** is no good"
    assert fault.seconds is not None
    assert 0.0 <= fault.seconds < 60.0
    place = {"graph_id": graph_id, "source_id": source.id}
    store.store("i", [step(**place, key=source.id, step="listing", quiet_seconds=50.0)])
    assert [each.error for each in store.faults(45.0)] == [None]
    store.store("i", [])
    manifest.sources.note_listing(source.id)
    assert store.faults(45.0) == []


def test_graphs_that_cannot_be_thinned_or_read_again_are_told(database: Database) -> None:
    catalog, store = Catalog(database), IngestSteps(database)
    ids = [catalog.create(GraphSettings(name=name)).id for name in ("a", "b", "gone")]
    fault = "s3://me:hidden@store/x is missing"
    for graph_id, values in zip(
        ids,
        ({"n_failed_embeddings": 2}, {"repair_fault": fault}, {"n_failed_embeddings": 1}),
        strict=True,
    ):
        with database.write() as connection:
            connection.execute(update(graphs).where(graphs.c.id == graph_id).values(**values))
    catalog.delete(ids[2], cancel_jobs=lambda _graph_id, _connection: None)
    first, second = map(str, store.faults(45.0))
    assert first.startswith("graph a: thinning has failed: resistances did not converge in 2 thin")
    assert second == "graph b: reading edges again has failed: s3://me:***@store/x is missing"


def test_times_are_said_as_people_do() -> None:
    said = [duration(seconds) for seconds in (0.4, 52.0, 119.0, 180.0, 7199.0, 9000.0)]
    assert said == ["0 s", "52 s", "119 s", "3 min", "120 min", "2.5 h"]
