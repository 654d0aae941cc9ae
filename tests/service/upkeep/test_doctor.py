"""Every check: one thing is broken, that thing is named, and put right where that is safe."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import delete, insert, text, update

from peewit.service.database.lease_holders import holder_name
from peewit.service.database.migrations import NEWEST
from peewit.service.database.tables import (
    feature_sets,
    files,
    graphs,
    jobs,
    leases,
    pushes,
    sources,
)
from peewit.service.database.timestamps import now
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow
from peewit.service.jobs.job import JobSpec, JobStatus
from peewit.service.upkeep.doctor import Finding, Level, Patient, examine, installation
from peewit.service.upkeep.doctor.database_and_rows import OVERDUE_SECONDS
from peewit.service.upkeep.doctor.findings import GRACE_SECONDS, LOST_AND_FOUND
from peewit.service.upkeep.restore import MARK
from peewit.service.worker.worker import Worker
from peewit.streaming.edges.windows import Window
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.logged_files import DeadRows
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.nodes.segments import list_segments
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from tests.service.places import Place, create, random_edges


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A home with a graph, its predictions, and a push that waits in a file."""
    place = filled(tmp_path / "home", None)
    yield place
    place.database.close()


def filled(home: Path, url: str | None) -> Place:
    place = Place(home, url)
    create(place)
    for seed in range(2):
        place.push("g", random_edges(seed))
        place.ingest()
    graph_id = place.catalog.get("g").id
    place.labels.put(graph_id, ["n1", "n2"], ["x", "y"])
    place.push("g", random_edges(4, n_rows=40_000))
    return place


@pytest.fixture
def solved(processes: None, place: Place) -> Place:
    """The same with the predictions of a job."""
    spec = JobSpec(
        graph_id=place.catalog.get("g").id,
        model="hfs",
        parameters={"graph_penalty": 1.0},
        lane="fast",
    )
    job = place.queue.submit(spec)
    assert Worker(place.database, place.settings).run_one(job.id).status is JobStatus.SUCCEEDED
    return place


def looked_at(place: Place, *, repair: bool = False, later: float = 0.0) -> list[Finding]:
    """What is not well."""
    patient = Patient(database=place.database, settings=place.settings, now=time.time() + later)
    return [each for each in examine(patient, repair=repair) if each.level is not Level.OK]


def the_finding(place: Place, check: str, *, later: float = 0.0) -> Finding:
    (found,) = looked_at(place, later=later)
    assert found.check == check
    return found


LATER = GRACE_SECONDS + 1.0


def test_a_well_home_has_no_findings(database_url: str, tmp_path: Path) -> None:
    place = filled(tmp_path / "home", database_url)
    assert looked_at(place, later=LATER) == []
    place.database.close()


def test_an_empty_home_is_well(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    assert looked_at(place) == []
    place.database.close()


@pytest.mark.parametrize("which", ["newest", "clean"])
def test_a_checkpoint_that_cannot_be_read(place: Place, which: str) -> None:
    checkpoints = place.paths().checkpoints
    pointer = checkpoints / "current.json"
    names = json.loads(pointer.read_text())
    copy = f"{int(names['newest']) + 1:012d}"
    shutil.copytree(checkpoints / names["newest"], checkpoints / copy)
    pointer.write_text(json.dumps(names | {which: copy}))
    assert looked_at(place) == []
    records = next((checkpoints / copy).glob("*.records"))
    records.write_bytes(records.read_bytes()[:-1])
    found = the_finding(place, "checkpoints")
    assert found.level is Level.FAULT
    assert f"the {which} checkpoint cannot be read" in found.text
    assert found.repair is None


def test_checkpoints_that_are_gone(place: Place) -> None:
    shutil.rmtree(place.paths().checkpoints)
    assert "is missing; restore a backup" in the_finding(place, "checkpoints").text


def test_a_log_that_is_gone_or_damaged(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    create(place, deletions="exact")
    place.push("g", random_edges(0))
    place.ingest()
    log = place.paths().log
    assert looked_at(place) == []
    (logged,) = log.glob("*.arrow")
    content = logged.read_bytes()
    for broken in (content[:-1], b""):
        logged.write_bytes(broken)
        found = the_finding(place, "logs")
        assert found.level is Level.FAULT
        assert "the log of its edges is damaged" in found.text
    logged.unlink()
    assert "a part of the log of the graph must be there" in the_finding(place, "logs").text
    logged.write_bytes(content)
    ChangeLog(log).publish_dead(1, DeadRows({(logged.stem, 7): np.ones(1, np.uint8)}))
    assert looked_at(place) == []  # no checkpoint knows of it
    checkpoints = CheckpointStore(place.paths().checkpoints)
    clean = checkpoints.clean()
    checkpoints.save(replace(clean, states={"": replace(clean.state, log_version=1)}))
    assert "some are of 7" in the_finding(place, "logs").text
    place.database.close()


@pytest.mark.slow
def test_a_log_whose_files_have_expired_is_whole(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    create(place, deletions="exact", window=Window.of(2.0, buckets=2))
    for second in (1, 2, 9):
        edges = random_edges(second, 40)
        times = pa.array([(1_790_000_000 + second) * 1_000_000] * 40).cast(pa.timestamp("us"))
        place.push("g", edges.append_column("time", times))
        place.ingest()
        if second == 2:  # its dead rows are known before it leaves
            gone = edges.slice(0, 9).append_column("op", pa.repeat("delete", 9))
            place.push("g", gone.append_column("time", times[:9]))
            place.ingest()
    assert len(list(place.paths().log.glob("*.arrow"))) == 2  # the last file, what is dead
    assert looked_at(place) == []
    place.database.close()


def test_a_node_index_that_is_short_or_damaged(place: Place) -> None:
    segment = list_segments(place.paths().nodes)[0].path
    content = segment.read_bytes()
    place_of_id = content.index(b"n1n") if b"n1n" in content else content.rindex(b"n")
    segment.write_bytes(content[:place_of_id] + b"m" + content[place_of_id + 1 :])
    assert "its checksum differs" in the_finding(place, "node index").text
    segment.unlink()
    assert (
        "60 node ids are asked for, only 0 are published" in the_finding(place, "node index").text
    )


def test_ids_beyond_the_checkpoint_are_dropped_unless_an_ingest_has_the_graph(place: Place) -> None:
    index = open_nodes(place.paths().nodes, kind="string")
    block = random_edges(9, n_nodes=100)
    index.map(
        block["src"].combine_chunks().cast("large_string"),
        block["dst"].combine_chunks().cast("large_string"),
    )
    assert index.publish() == 100
    found = the_finding(place, "node index")
    assert found.level is Level.INFORMATION
    assert "40 ids beyond the checkpoint" in found.text
    (repaired,) = looked_at(place, repair=True)
    assert repaired.repaired == "dropped"
    assert looked_at(place) == []
    place.ingest()
    assert place.catalog.get("g").progress.n_nodes == 60


def test_a_snapshot_that_is_gone_or_damaged(place: Place) -> None:
    directory = place.paths().snapshots / "00000002"
    edges = directory / "edges.arrow"
    content = edges.read_bytes()
    edges.write_bytes(content[: len(content) // 2])
    assert "snapshot 2 cannot be read" in the_finding(place, "snapshots").text
    edges.write_bytes(content)
    meta = json.loads((directory / "meta.json").read_text())
    (directory / "meta.json").write_text(json.dumps(meta | {"edges_kept": 1}))
    assert "snapshot 2 must have 1 edges" in the_finding(place, "snapshots").text
    edges.unlink()
    assert "snapshot 2 lacks a file" in the_finding(place, "snapshots").text
    shutil.rmtree(directory)
    assert (
        "no snapshot 2, the newest is 1, though rows name it; restore a backup"
        in the_finding(place, "snapshots").text
    )


@pytest.mark.slow
def test_a_snapshot_that_nothing_names_and_that_lacks_a_file(place: Place) -> None:
    directory = place.paths().snapshots / "00000001"
    (directory / "edges.arrow").unlink()
    assert looked_at(place) == []  # it may be on its way out
    found = the_finding(place, "snapshots", later=LATER)
    assert found.level is Level.WARNING
    (repaired,) = looked_at(place, repair=True, later=LATER)
    assert "lost+found" in repaired.repaired
    assert looked_at(place, later=LATER) == []
    assert not directory.exists()


def test_predictions_that_are_damaged_or_gone(solved: Place) -> None:
    assert looked_at(solved, later=LATER) == []
    (path,) = solved.paths().predictions.glob("*.arrow")
    path.write_bytes(path.read_bytes()[:100])
    assert "cannot be read" in the_finding(solved, "predictions").text
    path.unlink()
    assert "are missing; solve again" in the_finding(solved, "predictions").text


def test_predictions_that_no_job_names_are_removed(solved: Place) -> None:
    (path,) = solved.paths().predictions.glob("*.arrow")
    orphan = path.with_name("00ff-1.arrow")
    shutil.copy(path, orphan)
    assert looked_at(solved) == []
    old = time.time() - LATER
    os.utime(orphan, (old, old))
    found = the_finding(solved, "orphan predictions")
    assert "00ff-1.arrow belongs to no job" in found.text
    assert looked_at(solved, repair=True)[0].repaired == "removed 1 such files"
    assert (orphan.exists(), path.exists()) == (False, True)


def test_smoothed_features_that_nobody_can_ask_for_are_removed(place: Place) -> None:
    path = place.paths().filtered_features / "00ff-1.npy"
    path.parent.mkdir()
    path.write_bytes(b"")
    assert looked_at(place) == []
    old = time.time() - LATER
    os.utime(path, (old, old))
    found = the_finding(place, "smoothed features")
    assert f"{path} was replaced or never finished" in found.text
    assert looked_at(place, repair=True)[0].repaired == "removed"
    assert not path.exists()


@pytest.mark.parametrize("table", ["pushes", "files", "feature_sets"])
def test_a_file_that_rows_name_and_that_is_gone(place: Place, table: str) -> None:
    graph_id = place.catalog.get("g").id
    root = place.settings.graphs_directory / graph_id
    match table:
        case "pushes":
            with place.database.read() as connection:
                path = (
                    connection.execute(pushes.select().where(pushes.c.file_id.is_(None))).one().path
                )
            Path(path).unlink()
        case "files":  # raw edges that are to be kept
            path = place.manifest.list_files(graph_id)[0].path
            Path(path).unlink()
        case _:
            path = str(root / "feature_sets" / "gone.arrow")
            with place.database.write() as connection:
                connection.execute(
                    insert(feature_sets).values(
                        id="s",
                        graph_id=graph_id,
                        position=99,
                        mode="replace",
                        path=path,
                        n_rows=1,
                        n_columns=1,
                        is_sparse=False,
                        n_bytes=1,
                    )
                )
    found = the_finding(place, "pushes")
    assert found.level is Level.FAULT
    assert f"{Path(path).name} is missing" in found.text


@pytest.mark.slow
@pytest.mark.parametrize("directory", ["pushes", "feature_sets"])
def test_a_block_that_no_row_names_is_put_aside(place: Place, directory: str) -> None:
    orphan = place.settings.graphs_directory / place.catalog.get("g").id / directory / "x.parquet"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"may be data")
    assert looked_at(place) == []  # young: its row may be on its way
    found = the_finding(place, "orphan pushes", later=LATER)
    assert "is named by no row" in found.text
    (repaired,) = looked_at(place, repair=True, later=LATER)
    (kept,) = (place.settings.home / LOST_AND_FOUND).iterdir()
    assert repaired.repaired == f"moved to {kept}"
    assert kept.read_bytes() == b"may be data"
    assert looked_at(place, later=LATER) == []


def test_a_directory_of_no_graph_is_put_aside(place: Place) -> None:
    orphan = place.settings.graphs_directory / "0123"
    orphan.mkdir()
    (orphan / "file").write_text("data")
    assert looked_at(place) == []
    found = the_finding(place, "orphan directories", later=LATER)
    assert (found.level, found.text) == (Level.FAULT, f"{orphan} belongs to no graph")
    looked_at(place, repair=True, later=LATER)
    (kept,) = (place.settings.home / LOST_AND_FOUND).iterdir()
    assert (kept / "file").read_text() == "data"
    assert looked_at(place, later=LATER) == []


def test_a_graph_deleted_long_ago_is_purged(place: Place) -> None:
    create(place, name="gone")
    place.push("gone", random_edges(0))
    place.ingest("gone")
    graph_id = place.catalog.get("gone").id
    place.catalog.delete(graph_id, cancel_jobs=place.queue.cancel_graph)
    assert looked_at(place, later=LATER) == []
    with place.database.write() as connection:
        old = update(graphs).where(graphs.c.id == graph_id).values(deleted_at=now(-LATER))
        connection.execute(old)
    assert "was deleted and is still on the disk" in the_finding(place, "deleted graphs").text
    assert looked_at(place, repair=True)[0].repaired == "removed 1 deleted graphs"
    assert not (place.settings.graphs_directory / graph_id).exists()
    assert looked_at(place) == []


def test_unfinished_files_are_removed_once_they_are_old(place: Place) -> None:
    (place.paths().snapshots / ".tmp-1-00000009").mkdir()
    (place.paths().nodes / ".tmp-1-x.arrow").write_text("")
    assert looked_at(place) == []
    assert {each.check for each in looked_at(place, later=LATER)} == {"temporary files"}
    assert len(looked_at(place, repair=True, later=LATER)) == 2
    assert looked_at(place, later=LATER) == []


def dead_holder() -> str:
    """The name of a process of this machine that has ended."""
    ask = "from peewit.service.database.lease_holders import holder_name; print(holder_name())"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.usefixtures("processes")
def test_what_a_killed_backup_left_is_removed(place: Place) -> None:
    staging = place.settings.graphs_directory / ".tmp-backup-1"
    staging.mkdir()
    (staging / "holder").write_text(holder_name())
    assert looked_at(place, later=LATER) == []  # this process is alive
    (staging / "holder").write_text(dead_holder())
    assert "left by a backup that was killed" in the_finding(place, "temporary files").text
    assert looked_at(place, repair=True)[0].repaired == "removed"
    assert not staging.exists()


def test_a_job_that_nobody_runs_waits_again(place: Place) -> None:
    spec = JobSpec(
        graph_id=place.catalog.get("g").id, model="hfs", parameters={}, lane="fast", max_attempts=1
    )
    job = place.queue.submit(spec)
    assert place.queue.claim("w", ("fast",)) is not None
    assert looked_at(place) == []
    with place.database.write() as connection:
        connection.execute(update(jobs).values(lease_expires_at=now(-1.0)))
    found = the_finding(place, "jobs")
    assert f"job {job.id} was run by w, which is gone" in found.text
    assert looked_at(place, repair=True)[0].repaired == "1 such jobs wait again"
    assert place.queue.get(job.id).status is JobStatus.QUEUED
    assert place.queue.claim("other", ("fast",)) is not None


@pytest.mark.usefixtures("processes")
def test_a_lease_of_a_dead_holder_is_given_free(place: Place) -> None:
    with place.database.write() as connection:
        for name, holder in (("ingest:a", dead_holder()), ("ingest:b", holder_name())):
            connection.execute(
                insert(leases).values(name=name, holder=holder, token=9, expires_at=now(60.0))
            )
    found = the_finding(place, "leases")
    assert "the lease ingest:a is held by" in found.text
    assert looked_at(place, repair=True)[0].repaired == "given free"
    assert looked_at(place) == []


def test_refused_files_and_failing_sources_are_told_but_no_fault(place: Place) -> None:
    graph_id = place.catalog.get("g").id
    source = place.manifest.sources.add(graph_id, "s3://bucket/edges")
    with place.database.write() as connection:
        failing = update(sources).where(sources.c.id == source.id)
        connection.execute(failing.values(error="no answer", n_failures=2))
        connection.execute(update(files).where(files.c.position == 1).values(status="quarantined"))
    found = looked_at(place)
    assert {each.level for each in found} == {Level.INFORMATION}
    assert "source s3://bucket/edges of g cannot be read: no answer" in found[0].text
    assert "1 files of g are refused" in found[1].text
    late = place.manifest.sources.add(graph_id, "s3://bucket/others", follow=True)
    with place.database.write() as connection:
        connection.execute(update(files).where(files.c.position == 1).values(status="retracting"))
    assert len(looked_at(place)) == 2
    with place.database.write() as connection:
        its = update(sources).where(sources.c.id == late.id)
        connection.execute(its.values(listed_at=now(-1 - OVERDUE_SECONDS)))
    assert "1 followed sources of g should have been listed long ago" in looked_at(place)[1].text
    place.manifest.sources.remove(graph_id, late.id)
    assert "1 files of g wait to be retracted; `peewit ingest g`" in looked_at(place)[1].text


def test_a_graph_that_cannot_be_read_again_is_told_but_no_fault(place: Place) -> None:
    with place.database.write() as connection:
        connection.execute(update(graphs).values(repair_fault="s3://bucket/a is missing"))
    found = the_finding(place, "graphs")
    assert found.level is Level.INFORMATION
    assert found.text == "graph g: reading edges again has failed: s3://bucket/a is missing"


def test_ingest_that_stands_still_is_a_fault_and_slow_work_is_none(place: Place) -> None:
    graph_id = place.catalog.get("g").id
    values = {"key": "", "graph_id": graph_id, "source_id": None, "file": "edges/1.csv"}
    slow = StepNow(**values, step="thinning", step_seconds=300.0, quiet_seconds=2.0)
    stuck = StepNow(**values, step="reading", step_seconds=300.0, quiet_seconds=200.0)
    steps = IngestSteps(place.database)
    steps.store("ingest:host:1", [slow])
    found = the_finding(place, "ingest")
    assert found.level is Level.INFORMATION
    assert "(g): thinning, edges/1.csv for 5 min" in found.text
    steps.store("ingest:host:1", [stuck])
    found = the_finding(place, "ingest")
    assert found.level is Level.FAULT
    assert "(g): reading, edges/1.csv: no progress for 3 min" in found.text


def sqlite_file(place: Place) -> Path:
    return Path(str(place.database.engine.url.database))


def test_a_row_that_refers_to_nothing(place: Place) -> None:
    with sqlite3.connect(sqlite_file(place)) as connection:  # which asks for no foreign keys
        connection.execute(
            "INSERT INTO label_events (graph_id, column_name, seq, node, label, created_at) "
            "VALUES ('none', '', 1, 'n', 'x', '2026')"
        )
    connection.close()
    assert "of label_events refers to none of graphs" in the_finding(place, "database").text


def test_another_schema(place: Place) -> None:
    with place.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert f"must be at schema {NEWEST}, got 0001" in the_finding(place, "database").text


def test_a_damaged_sqlite_file(place: Place) -> None:
    place.database.close()
    path = sqlite_file(place)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        index = "ix_label_events_graph_id_column_name_node_seq"
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = bytes(size)
    path.write_bytes(content)
    found = [each for each in looked_at(place) if each.check == "database"]
    assert found
    assert [each.text for each in found if "the file is damaged" not in each.text] == []


def test_open_secrets_are_closed(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("x")
    secret.chmod(0o644)
    place.settings = place.settings.model_copy(update={"database_password_file": secret})
    found = the_finding(place, "secrets")
    assert "must be closed to others, its mode is 644" in found.text
    assert looked_at(place, repair=True)[0].repaired == "closed to others"
    assert looked_at(place) == []
    secret.unlink()
    assert "does not exist" in the_finding(place, "secrets").text


def test_a_directory_for_compiled_code_that_takes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert "set NUMBA_CACHE_DIR" in the_finding(place, "compiled code").text


def test_packages_that_lack_or_are_too_old(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["numpy>=999", "no-such-package-of-ours", 'other>=1; extra == "s3"']
    monkeypatch.setattr(installation, "requires", lambda _name: asked)
    texts = [each.text for each in looked_at(place)]
    assert len(texts) == 2
    assert texts[0].startswith("numpy>=999 is needed, ")
    assert texts[1] == "no-such-package-of-ours is needed, it is not installed"


def test_a_disk_that_is_nearly_full(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "FREE_SHARE", 1.1)
    found = the_finding(place, "disk")
    assert found.level is Level.WARNING
    assert "make room" in found.text
    usage = type(shutil.disk_usage("/"))(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert "the next checkpoint may need" in the_finding(place, "disk").text


def test_clocks_that_differ(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "now", lambda: now(90.0))
    found = the_finding(place, "clock")
    assert found.level is Level.WARNING
    assert "are 9" in found.text or "are 89" in found.text


def test_a_restore_that_has_not_ended(place: Place) -> None:
    (place.settings.home / MARK).write_text("{}")
    assert "run `peewit restore` again" in the_finding(place, "home").text


def test_a_home_that_takes_nothing(place: Place) -> None:
    graphs_directory = place.settings.graphs_directory
    away = graphs_directory.with_name("away")
    graphs_directory.rename(away)
    graphs_directory.write_text("no directory")
    found = [each for each in looked_at(place) if each.check == "home"]
    assert f"{graphs_directory} must take files" in found[0].text


def test_a_check_that_fails_itself_is_a_fault(place: Place) -> None:
    with place.database.write() as connection:
        connection.execute(delete(graphs))
        connection.execute(text("DROP TABLE job_events"))
        connection.execute(text("DROP TABLE jobs"))
    found = [each for each in looked_at(place) if each.check == "jobs"]
    assert found[0].level is Level.FAULT
    assert "could not be looked at" in found[0].text
