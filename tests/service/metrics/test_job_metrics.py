"""Numbers of jobs as the database has them, on both back ends."""

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database
from peewit.service.database.leases import LeaseStore
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.job import JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.labels.store import LabelStore
from peewit.service.metrics.store_metrics import store_registry
from peewit.service.settings import Settings
from peewit.service.tasks.kind_list import KINDS


def scraped(database: Database) -> dict[tuple[str, ...], float]:
    """Values by name and labels, those in the order of the labels' names."""
    registry = store_registry(database, Settings(max_backlog_bytes=77), KINDS)
    text = generate_latest(registry).decode()
    return {
        (sample.name, *(label for _, label in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_jobs_are_counted_by_status_kind_and_lane(database: Database) -> None:
    empty = scraped(database)
    assert empty["peewit_jobs", "solve", "fast", "queued"] == 0
    assert empty["peewit_oldest_queued_job_seconds", "fast"] == 0
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    queue = JobQueue(database)
    for model in ("hfs", "poisson", "stable-hfs"):
        queue.submit(JobSpec(graph_id=graph_id, model=model, parameters={}))
    queue.submit(
        JobSpec(graph_id=graph_id, kind="certify", model=None, parameters={}, lane="heavy")
    )
    first = queue.claim("w", ["fast"])
    assert first is not None
    queue.capture(first.id, 1, snapshot=4, labels_seq=6, features_version=0)
    queue.finish(first.id, 1, {"file": "f"})
    second = queue.claim("w", ["fast"])
    assert second is not None
    queue.fail(second.id, 1, "killed", retry=True)
    assert queue.claim("w", ["fast"], job_id=second.id) is not None
    found = scraped(database)
    assert {key[1:]: n for key, n in found.items() if key[0] == "peewit_jobs" and n} == {
        ("solve", "fast", "succeeded"): 1,
        ("solve", "fast", "running"): 1,
        ("solve", "fast", "queued"): 1,
        ("certify", "heavy", "queued"): 1,
    }
    assert found["peewit_job_retries",] == 1
    assert 0 <= found["peewit_oldest_queued_job_seconds", "heavy"] < 600
    assert found["peewit_predicted_snapshot", "g"] == 4
    assert found["peewit_predicted_label_events", "g"] == 6


def test_workers_leases_labels_and_limits_are_told(database: Database) -> None:
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    registry = WorkerRegistry(database)
    registry.register("a", ("fast", "heavy"))
    registry.register("b", ("fast",))
    registry.register("ingest:c", ())
    LeaseStore(database).acquire(f"ingest:{graph_id}", "c", 60.0)
    LeaseStore(database).acquire("ingest:other", "c", 60.0)
    LabelStore(database).put(graph_id, ["x", "y"], ["left", "right"])
    found = scraped(database)
    assert found["peewit_workers_alive", "fast"] == 2
    assert found["peewit_workers_alive", "heavy"] == 1
    assert found["peewit_workers_alive", "ingest"] == 1
    assert found["peewit_leases_held", "ingest"] == 2
    assert found["peewit_label_events_total", "g"] == 2
    assert found["peewit_backlog_limit_bytes", "graph"] == 77
