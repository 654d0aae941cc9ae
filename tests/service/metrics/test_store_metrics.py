"""Numbers for Prometheus: those of the stores, those of ingest, and how many series there are."""

from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from peewit.service.catalog import Catalog, GraphProgress
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import FileOutcome, NewPush
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow
from peewit.service.live_sources.contract import Refused
from peewit.service.metrics.graph_metrics import MAX_GRAPHS, OTHERS
from peewit.service.metrics.store_metrics import (
    NO_GRAPH,
    IngestMetrics,
    metrics_server,
    store_registry,
)
from peewit.service.settings import Settings
from peewit.service.tasks.kind_list import KINDS
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.events import Committed, Progress, Quarantined, StreamSummary
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.sparsifier.degrees import Damage
from tests.fresh_databases import fresh
from tests.service.pushing import pushed
from tests.streaming.snapshots.test_store import META

SUMMARY = StreamSummary(
    n_nodes=1, edges_seen=1, left_out=NO_ROWS, n_records=1, n_resparsifications=0, snapshot=None
)


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Values by name and labels, parsed as Prometheus does."""
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "le")): (
            sample.value
        )
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_what_the_stores_know_is_read_at_each_scrape(database: Database) -> None:
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    registry = store_registry(database, Settings(), KINDS)
    assert samples(generate_latest(registry))["peewit_edges_ingested_total", "g"] == 0
    manifest = Manifest(database)
    source = manifest.sources.add(graph_id, "edges/").id
    manifest.register_files(graph_id, source, [(f"edges/{n}", "1", 100) for n in range(4)])
    pushed(manifest, graph_id, NewPush(body_digest="d", n_rows=1, n_bytes=7, content=b""))
    lease = LeaseStore(database).acquire(f"ingest:{graph_id}", "test", 60.0)
    assert lease is not None
    good, bad, *_ = manifest.pending(graph_id)
    manifest.finish(
        graph_id,
        [
            FileOutcome.committed(good.id, digest="d", n_rows=9, left_out=NO_ROWS),
            FileOutcome.quarantined(bad.id, "bad"),
        ],
        progress=GraphProgress(n_nodes=4, edges_seen=9, edges_kept=5, snapshot=3),
        lease=lease,
    )
    manifest.sources.note_listing(source, error="OSError: away")
    table = manifest.sources.add(graph_id, "/table", kind="delta")
    refused = [Refused(place="here", reason="no edge")]
    manifest.live.advance(table, 0, {"version": 1}, refused=refused)
    manifest.live.note_lag(table.id, 5)
    found = samples(generate_latest(registry))
    assert {name: found[name, "g"] for name, *labels in found if labels == ["g"]} == {
        "peewit_edges_ingested_total": 9,
        "peewit_snapshots_total": 3,
        "peewit_kept_edges": 5,
        "peewit_backlog_files": 3,
        "peewit_backlog_bytes": 207,
        "peewit_quarantined_files": 1,
        "peewit_retracting_files": 0,
        "peewit_retracted_files": 0,
        "peewit_failing_sources": 1,
        "peewit_source_lag": 5,
        "peewit_source_refusals": 1,
        "peewit_waiting_erasures": 0,
        "peewit_late_erasures": 0,
        "peewit_label_events_total": 0,
        "peewit_predicted_snapshot": 0,
        "peewit_predicted_label_events": 0,
    }


def test_what_ingest_does_and_what_stands_still_is_shown(database: Database) -> None:
    graph_id = Catalog(database).create(GraphSettings(name="g")).id
    values = {"key": "", "source_id": None, "file": None}
    steps = IngestSteps(database)
    steps.store(
        "a",
        [StepNow(**values, graph_id=graph_id, step="x", step_seconds=300.0, quiet_seconds=50.0)],
    )
    steps.store(
        "b", [StepNow(**values, graph_id=None, step="x", step_seconds=9.0, quiet_seconds=1.0)]
    )
    found = samples(generate_latest(store_registry(database, Settings(), KINDS)))
    assert {key: value for key, value in found.items() if "peewit_ingest" in key[0]} == {
        ("peewit_ingest_step_seconds", "g"): 300.0,
        ("peewit_ingest_quiet_seconds", "g"): 50.0,
        ("peewit_ingest_stuck_steps", "g"): 1.0,
        ("peewit_ingest_step_seconds", NO_GRAPH): 9.0,
        ("peewit_ingest_quiet_seconds", NO_GRAPH): 1.0,
        ("peewit_ingest_stuck_steps", NO_GRAPH): 0.0,
    }


def test_the_number_of_series_is_bounded_whatever_the_number_of_graphs(database: Database) -> None:
    catalog = Catalog(database)
    for number in range(MAX_GRAPHS + 3):
        graph = catalog.create(GraphSettings(name=f"g{number}"))
        catalog.record_progress(graph.id, GraphProgress(edges_seen=number))
    metrics = IngestMetrics(database, Settings(), KINDS)
    for number in range(MAX_GRAPHS + 3):
        metrics.note_listing(f"g{number}", None)
    found = samples(generate_latest(metrics.registry))
    edges = {labels[0]: value for (name, *labels), value in found.items() if "edges_in" in name}
    assert len(edges) == MAX_GRAPHS + 1
    assert edges[OTHERS] == 0 + 1 + 2
    assert sum(edges.values()) == sum(range(MAX_GRAPHS + 3))
    errors = {labels[0]: value for (name, *labels), value in found.items() if "errors" in name}
    assert len(errors) == MAX_GRAPHS + 1
    assert errors[OTHERS] == 3


def test_what_a_stream_tells_is_counted_and_shown_on_a_port_of_its_own(tmp_path: Path) -> None:
    database = open_database(fresh(f"sqlite:///{tmp_path / 'peewit.db'}"))
    metrics = IngestMetrics(database, Settings(), KINDS)
    progress = Progress(
        path="a",
        n_rows=50,
        n_bytes=1,
        summary=SUMMARY,
        n_blocks=4,
        block_seconds=2.0,
        resparsify_seconds=None,
    )
    thinning = Progress(
        path="a", n_rows=9, n_bytes=1, summary=SUMMARY, block_seconds=0.2, resparsify_seconds=7.0
    )
    file = EdgeFile(path="a", size=1, version="1")
    damage = Damage(n_nodes=3, weight_share=0.1, largest=0.25)
    deleting = replace(META, n_live=880, damage=damage, log_bytes=1_234)
    for event in (
        progress,
        thinning,
        Committed(files=(), summary=SUMMARY),
        Committed(files=(), summary=replace(SUMMARY, newest=deleting)),
        Committed(files=(), summary=replace(SUMMARY, newest=META)),  # which no log tells of
        Quarantined(file=file, reason="bad", row=None, value=None),
    ):
        metrics.note_event("g", event)
    metrics.note_listing("g", 0.5)
    with (
        metrics_server(metrics.registry, 0, "127.0.0.1", str) as port,
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer,
    ):
        found = samples(answer.read())
    with metrics_server(metrics.registry, None, "127.0.0.1", str) as nowhere:
        assert nowhere is None
    database.close()
    assert found["peewit_ingest_rows_total", "g"] == 59
    assert found["peewit_block_seconds_count", "g"] == 5
    assert found["peewit_block_seconds_sum", "g"] == pytest.approx(2.2)
    assert found["peewit_resparsify_seconds_count", "g"] == 1
    assert found["peewit_resparsify_seconds_sum", "g"] == 7.0
    assert found["peewit_ingest_files_total", "g", "quarantined"] == 1
    assert found["peewit_listing_seconds_count", "g"] == 1
    assert found["peewit_live_edges", "g"] == 880
    assert found["peewit_deleted_edges", "g"] == 900 - 2 - 880
    assert (found["peewit_damage_max", "g"], found["peewit_log_bytes", "g"]) == (0.25, 1_234)
    assert ("process_resident_memory_bytes",) in found


def test_the_port_tells_whether_its_process_is_well() -> None:
    faults = ["", "no fresh heartbeat"]
    with metrics_server(CollectorRegistry(), 0, "127.0.0.1", lambda: faults.pop(0)) as port:
        url = f"http://127.0.0.1:{port}/healthz"
        with urlopen(url, timeout=60) as answer:
            assert (answer.status, answer.read()) == (200, b"")
        with pytest.raises(HTTPError) as refused:
            urlopen(url, timeout=60)
        with refused.value as answer:
            assert (answer.code, answer.read()) == (503, b"no fresh heartbeat")
