"""A backup and its restore: rows, files and what goes on then, on both databases and across."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from sqlalchemy import URL, func, select, update

from peewit.service.database.engine import Database
from peewit.service.database.leases import LeaseStore
from peewit.service.database.migrations import DatabaseVersionError
from peewit.service.database.tables import files, metadata, pushes
from peewit.service.inbox.needed_files import GRAPHS
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.job import JobSpec, JobStatus, Lane
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.key_store import KeyStore
from peewit.service.supervisor import sole_supervisor
from peewit.service.upkeep.backup import STAGING_PREFIX, BackupRefused, abandoned_stagings, back_up
from peewit.service.upkeep.backup_format import (
    DATABASE,
    MANIFEST,
    DamagedBackup,
    NotABackup,
    read_manifest,
)
from peewit.service.upkeep.restore import MARK, HomeNotEmpty, restore
from peewit.streaming.graph_stream import Interrupted
from peewit.streaming.passes.raw_edge_passes import snapshot_files
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.conftest import fresh_database
from tests.service.places import Place, create, random_edges

LANES: tuple[Lane, ...] = ("fast", "heavy")


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Iterator[Place]:
    place = Place(tmp_path / "home", database_url)
    yield place
    place.database.close()


@pytest.fixture
def postgres_url_elsewhere(postgres_server: URL) -> Iterator[str]:
    """A second fresh database on the server."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty home elsewhere; on PostgreSQL in a database of its own."""
    make = (
        request.getfixturevalue("postgres_url_elsewhere") if request.param == "postgres" else None
    )
    place = Place(tmp_path / "deep" / "other", make)
    yield place
    place.database.close()


@pytest.fixture
def sqlite_other(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "deep" / "other")
    yield place
    place.database.close()


def everything(database: Database) -> dict[str, list[dict[str, object]]]:
    """All rows that a backup carries, in an order, without the fraction of a millisecond."""
    with database.read() as connection:
        return {
            table.name: sorted(
                (
                    {
                        name: value.replace(microsecond=value.microsecond // 1000 * 1000)
                        if hasattr(value, "microsecond")
                        else value
                        for name, value in row._mapping.items()
                    }
                    for row in connection.execute(select(table))
                ),
                key=repr,
            )
            for table in metadata.sorted_tables
            if table.name not in {"workers", "leases"}
        }


def fill(place: Place, tmp_path: Path) -> None:
    """Rows in every table: source, pushes small and large, labels, jobs, keys."""
    create(place)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    pq.write_table(random_edges(1), inbox / "a.parquet")
    graph = place.catalog.get("g")
    place.manifest.sources.add(graph.id, str(inbox), follow=False)
    place.push("g", random_edges(2))
    place.ingest()
    place.push("g", random_edges(3, n_rows=20))
    place.push("g", random_edges(4, n_rows=40_000))
    place.labels.put(graph.id, ["n1", "n2", "n3"], ["x", 3, "x"])
    spec = JobSpec(graph_id=graph.id, model="hfs", parameters={"graph_penalty": 1}, lane="fast")
    place.queue.submit(spec)
    KeyStore(place.database).create("laptop", ["read"])


def test_every_row_and_file_comes_back(place: Place, other: Place, tmp_path: Path) -> None:
    fill(place, tmp_path)
    before = everything(place.database)
    told: list[str] = []
    report = back_up(
        place.database,
        place.settings,
        tmp_path / "backup",
        progress=lambda what, _done, _total: told.append(what),
    )
    assert set(told) == {"rows", "bytes"}
    assert report.missing == ()
    assert [(each.graph, each.n_committed) for each in report.outside] == [("g", 1)]
    assert everything(place.database) == before
    assert not list(place.settings.graphs_directory.glob(".*"))

    restored = restore(other.database, other.settings, tmp_path / "backup")
    assert restored.rows == report.rows
    moved = json.loads(json.dumps(everything(other.database), default=repr))
    expected = json.dumps(before, default=repr).replace(
        str(place.settings.graphs_directory), str(other.settings.graphs_directory)
    )
    assert moved == json.loads(expected)
    assert {path.name for path in other.settings.home.iterdir()} <= {
        GRAPHS,
        *(f"peewit.db{end}" for end in ("", "-wal", "-shm")),
    }


def test_reports_of_bad_rows_come_back(place: Place, sqlite_other: Place, tmp_path: Path) -> None:
    create(place)
    graph = place.catalog.get("g")
    (tmp_path / "edges.csv").write_text("src,dst,weight\na,b,1\nb,c,-1\n")
    place.manifest.sources.add(graph.id, str(tmp_path / "edges.csv"), max_bad_rows=1)
    place.ingest()
    (report,) = place.paths().bad_rows.iterdir()
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(sqlite_other.database, sqlite_other.settings, tmp_path / "backup")
    assert (sqlite_other.paths().bad_rows / report.name).read_bytes() == report.read_bytes()


@pytest.mark.slow
def test_smoothed_features_which_can_be_made_again_are_left_out(
    place: Place, sqlite_other: Place, tmp_path: Path
) -> None:
    create(place)
    place.push("g", random_edges(0))
    place.ingest()
    directory = place.paths().filtered_features
    directory.mkdir()
    (directory / "00ff-1.npy").write_bytes(b"large")
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(sqlite_other.database, sqlite_other.settings, tmp_path / "backup")
    assert sqlite_other.paths().snapshots.exists()
    assert not sqlite_other.paths().filtered_features.exists()


@pytest.mark.slow
@pytest.mark.parametrize("keep_raw", [True, False])
def test_the_sparsifier_goes_on_to_the_same_edges(
    place: Place, other: Place, tmp_path: Path, keep_raw: bool
) -> None:
    create(place, keep_raw=keep_raw)
    for seed in range(3):
        place.push("g", random_edges(seed))
        place.ingest()
    place.push("g", random_edges(7))
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(other.database, other.settings, tmp_path / "backup")
    for each in (place, other):
        each.ingest()
        each.push("g", random_edges(8))
        each.ingest()
    assert place.catalog.get("g").progress == other.catalog.get("g").progress
    assert place.catalog.get("g").progress.edges_seen == 5 * 4_000
    assert place.edges().num_rows < 1_500
    assert other.edges().equals(place.edges())


@pytest.mark.slow
def test_a_file_half_absorbed_is_gone_on_with(
    place: Place, sqlite_other: Place, tmp_path: Path
) -> None:
    create(place)
    place.push("g", random_edges(1))
    place.ingest()
    place.push("g", random_edges(2, n_rows=400_000))
    n_asked = 0

    def should_stop() -> bool:
        nonlocal n_asked
        pointer = place.paths().checkpoints / "current.json"
        names = json.loads(pointer.read_text())
        n_asked += names["newest"] != names["clean"]
        return n_asked > 0

    with pytest.raises(Interrupted):
        Ingestor(place.database, place.settings).ingest_graph(
            place.catalog.get("g").id, should_stop=should_stop
        )
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(sqlite_other.database, sqlite_other.settings, tmp_path / "backup")
    shutil.move(place.settings.graphs_directory, tmp_path / "away")  # what it reads is its own
    sqlite_other.ingest()
    shutil.move(tmp_path / "away", place.settings.graphs_directory)
    place.ingest()
    assert sqlite_other.edges().equals(place.edges())
    assert sqlite_other.catalog.get("g").progress == place.catalog.get("g").progress


@pytest.mark.slow
@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_retraction_that_waits_is_carried_out_where_it_is_restored(
    place: Place, other: Place, tmp_path: Path, *, is_ahead: bool
) -> None:
    """Also where the checkpoint has it done already, and the manifest was not told yet."""
    create(place, deletions="exact", epsilon=0.1, max_edges=None)
    for seed in range(2):
        pq.write_table(random_edges(seed), tmp_path / f"{seed}.parquet")
        graph_id = place.catalog.get("g").id
        place.manifest.sources.add(graph_id, str(tmp_path / f"{seed}.parquet"), replaces=True)
    place.ingest()
    first, second = place.manifest.list_files(graph_id)
    place.manifest.retractions.want(graph_id, first.id)
    if is_ahead:
        place.ingest()
        with place.database.write() as connection:
            mine = update(files).where(files.c.id == first.id)
            connection.execute(mine.values(status="retracting"))
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(other.database, other.settings, tmp_path / "backup")
    for each in (place, other):
        each.ingest()
        found = each.manifest.list_files(graph_id)
        assert [file.status for file in found] == ["retracted", "committed"]
        (absorbed,) = CheckpointStore(each.paths().checkpoints).clean().files
        assert absorbed.path == second.path
        meta = SnapshotStore(each.paths().snapshots).list()[-1]
        assert snapshot_files(each.paths(), meta) == (absorbed,)
    assert other.edges().equals(place.edges())
    (source, _) = other.manifest.sources.list(graph_id)
    assert source.replaces


@pytest.mark.slow
def test_numbers_of_files_go_on_after_those_restored(
    place: Place, other: Place, tmp_path: Path
) -> None:
    fill(place, tmp_path)
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(other.database, other.settings, tmp_path / "backup")
    with other.database.read() as connection:
        last = connection.execute(select(func.max(files.c.id))).scalar_one()
    other.ingest()
    found = other.manifest.list_files(other.catalog.get("g").id)
    assert max(file.id for file in found) > last
    assert {file.status for file in found} == {"committed"}


def test_running_jobs_wait_again_and_end_once(
    place: Place, sqlite_other: Place, tmp_path: Path
) -> None:
    create(place)
    graph_id = place.catalog.get("g").id
    spec = JobSpec(graph_id=graph_id, model="hfs", parameters={}, lane="fast")
    running = place.queue.submit_coalesced(spec)
    assert place.queue.claim("w", LANES) is not None
    waiting = place.queue.submit_coalesced(spec)
    alone = place.queue.submit(replace(spec, idempotency_key="k", max_attempts=1))
    assert place.queue.claim("w", LANES, job_id=alone.id) is not None
    back_up(place.database, place.settings, tmp_path / "backup")
    report = restore(sqlite_other.database, sqlite_other.settings, tmp_path / "backup")
    assert report.n_requeued == 2
    queue = sqlite_other.queue
    assert queue.get(running.id).status is JobStatus.CANCELLED  # an equal one waits
    assert queue.get(waiting.id).status is JobStatus.QUEUED
    claimed = queue.claim("other", LANES, job_id=alone.id)
    assert claimed is not None
    assert (claimed.attempt, claimed.max_attempts) == (2, 2)
    assert place.queue.get(alone.id).status is JobStatus.RUNNING


@pytest.mark.slow
def test_deleted_graphs_leases_and_workers_stay_behind(
    place: Place, sqlite_other: Place, tmp_path: Path
) -> None:
    create(place)
    create(place, name="gone")
    place.push("gone", random_edges(1))
    place.ingest("gone")
    gone = place.catalog.get("gone").id
    place.catalog.delete(gone, cancel_jobs=place.queue.cancel_graph)
    LeaseStore(place.database).acquire("x", "me", 60.0)
    WorkerRegistry(place.database).register("w", LANES)
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(sqlite_other.database, sqlite_other.settings, tmp_path / "backup")
    assert [each.settings.name for each in sqlite_other.catalog.list()] == ["g"]
    assert not list((tmp_path / "backup").rglob(f"*{gone}*"))
    assert WorkerRegistry(sqlite_other.database).alive() == []
    assert LeaseStore(sqlite_other.database).holder("x") is None


@pytest.mark.slow
def test_a_checkpoint_ahead_of_its_rows_is_told_again(
    place: Place, sqlite_other: Place, tmp_path: Path
) -> None:
    """What the lock may let through: the checkpoint is there, its manifest not yet."""
    create(place)
    place.push("g", random_edges(1))
    place.ingest()
    place.push("g", random_edges(2))
    place.ingest()
    graph_id = place.catalog.get("g").id
    last = place.manifest.list_files(graph_id)[-1].id
    with place.database.write() as connection:
        connection.execute(update(files).where(files.c.id == last).values(status="pending"))
        connection.execute(update(pushes).where(pushes.c.file_id == last).values(content=None))
    back_up(place.database, place.settings, tmp_path / "backup")
    restore(sqlite_other.database, sqlite_other.settings, tmp_path / "backup")
    sqlite_other.ingest()
    assert sqlite_other.catalog.get("g").progress.edges_seen == 8_000
    assert sqlite_other.edges().equals(place.edges())
    assert sqlite_other.manifest.counts(graph_id)["committed"] == 2


@pytest.mark.usefixtures("processes")
def test_no_lease_is_confirmed_while_files_get_their_second_names(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that links is asked, from within, whether another could write."""
    create(place)
    place.push("g", random_edges(1))
    place.ingest()
    lease = LeaseStore(place.database).acquire("ingest:other", "me", 60.0)
    assert lease is not None
    ask = (
        "import sys; from sqlalchemy import *; url, = sys.argv[1:]\n"
        "engine = create_engine(url)\n"
        "with engine.connect() as c:\n"
        "    c.exec_driver_sql('PRAGMA busy_timeout = 1' if 'sqlite' in url else"
        " \"SET lock_timeout = '50ms'\")\n"
        '    c.execute(text("UPDATE leases SET token = token + 1")); c.commit()\n'
    )
    url = place.database.engine.url.render_as_string(hide_password=False)
    outcomes: list[int] = []
    link = os.link

    def linked(source: Path, target: Path) -> None:
        if not outcomes:
            done = subprocess.run(
                [sys.executable, "-c", ask, url], capture_output=True, check=False
            )
            assert b"lock" in done.stderr
            outcomes.append(done.returncode)
        link(source, target)

    monkeypatch.setattr(os, "link", linked)
    back_up(place.database, place.settings, tmp_path / "backup")
    assert outcomes == [1]
    LeaseStore(place.database).renew(lease)


@pytest.fixture
def backed_up(tmp_path: Path) -> Path:
    """A backup of a SQLite home with one graph."""
    place = Place(tmp_path / "home")
    fill(place, tmp_path)
    back_up(place.database, place.settings, tmp_path / "backup")
    place.database.close()
    return tmp_path / "backup"


@pytest.mark.slow
def test_a_directory_that_holds_something_is_refused(backed_up: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    with pytest.raises(BackupRefused, match=rf"must be empty .* holds {DATABASE}, {GRAPHS}"):
        back_up(place.database, place.settings, backed_up)
    (tmp_path / "link").symlink_to(place.settings.home)
    for inside in (place.settings.graphs_directory, place.settings.home, tmp_path / "link"):
        with pytest.raises(BackupRefused, match="must not lie in PEEWIT_HOME"):
            back_up(place.database, place.settings, inside / "backup")
        assert not (inside / "backup").exists()
    (tmp_path / "empty").mkdir()
    back_up(place.database, place.settings, tmp_path / "empty")
    assert (tmp_path / "empty" / MANIFEST).exists()
    place.database.close()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("place", [DATABASE, f"{GRAPHS}/"])
def test_a_full_disk_leaves_nothing_and_names_the_file(
    backed_up: Path, tmp_path: Path, place: str
) -> None:
    rows = (backed_up / DATABASE).stat().st_size
    limit = rows - 1 if place == DATABASE else rows + 1_000
    (graph,) = (tmp_path / "home" / GRAPHS).iterdir()
    (graph / "large").write_bytes(bytes(2 * rows))
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from peewit.service.upkeep.backup import back_up\n"
        "from peewit.service.database.engine import open_database\n"
        "from peewit.service.settings import Settings\n"
        "settings = Settings(home=sys.argv[1])\n"
        "database = open_database(settings.database)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
        "back_up(database, settings, Path(sys.argv[2]))\n"
    )
    target = tmp_path / "sub" / "full"
    ran = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "home", target, str(limit)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_ignore_size_signal,
    )
    assert ran.returncode == 1
    assert place in ran.stderr.splitlines()[-1]
    assert list(target.parent.iterdir()) == []
    assert not list((tmp_path / "home" / "graphs").glob(".*"))


def _ignore_size_signal() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


@pytest.mark.usefixtures("processes")
def test_second_names_of_a_killed_backup_are_removed_by_the_next(
    place: Place, tmp_path: Path
) -> None:
    create(place)
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from peewit.service.upkeep.backup import back_up\n"
        "from peewit.service.database.engine import open_database\n"
        "from peewit.service.settings import Settings\n"
        "settings = Settings(home=sys.argv[1], database_url=sys.argv[2])\n"
        "database = open_database(settings.database)\n"
        "kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "back_up(database, settings, Path(sys.argv[3]), progress=kill)\n"
    )
    url = place.database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", script, place.settings.home, url, tmp_path / "killed"]
    assert subprocess.run(command, check=False).returncode == -9
    assert not (tmp_path / "killed").exists()
    assert len(abandoned_stagings(place.settings.graphs_directory)) == 1
    back_up(place.database, place.settings, tmp_path / "killed")
    assert not list(place.settings.graphs_directory.glob(f"{STAGING_PREFIX}*"))


@pytest.mark.parametrize("harm", ["change", "remove", "cut"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(
    backed_up: Path, sqlite_other: Place, harm: str
) -> None:
    victim = next(backed_up.rglob("edges.arrow"))
    match harm:
        case "change":
            content = bytearray(victim.read_bytes())
            content[len(content) // 2] ^= 1
            victim.write_bytes(content)
        case "cut":
            victim.write_bytes(victim.read_bytes()[:-1])
        case _:
            victim.unlink()
    with pytest.raises(DamagedBackup, match=r"edges\.arrow .*use another backup"):
        restore(sqlite_other.database, sqlite_other.settings, backed_up)
    assert sqlite_other.catalog.list() == []
    assert all(path.name.startswith("peewit.db") for path in sqlite_other.settings.home.iterdir())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE graphs SET id = '../../outside'", "32 hexadecimal digits"),
        ("UPDATE pushes SET path = '/etc/passwd'", "a file of its graph"),
        ("UPDATE pushes SET path = path || '/../../../outside'", "a file of its graph"),
    ],
)
def test_a_backup_that_somebody_changed_stays_inside(
    backed_up: Path, sqlite_other: Place, change: str, said: str
) -> None:
    with closing(sqlite3.connect(backed_up / DATABASE)) as connection:
        connection.execute(change)
        connection.commit()
    page = json.loads((backed_up / MANIFEST).read_text())
    content = (backed_up / DATABASE).read_bytes()
    for file in page["files"]:
        if file["path"] == DATABASE:
            file |= {"size": len(content), "digest": blake3(content).hexdigest()}
    (backed_up / MANIFEST).write_text(json.dumps(page))
    with pytest.raises(DamagedBackup, match=said):
        restore(sqlite_other.database, sqlite_other.settings, backed_up)
    assert not sqlite_other.settings.graphs_directory.exists()


def test_a_deep_manifest_is_no_page_of_a_backup(backed_up: Path, sqlite_other: Place) -> None:
    (backed_up / MANIFEST).write_text("[" * 100_000)
    with pytest.raises(NotABackup, match="no page of a backup"):
        restore(sqlite_other.database, sqlite_other.settings, backed_up)


def test_rows_that_lack_are_seen(backed_up: Path, sqlite_other: Place) -> None:
    page = json.loads((backed_up / MANIFEST).read_text())
    page["rows"]["label_events"] += 1
    (backed_up / MANIFEST).write_text(json.dumps(page))
    with pytest.raises(DamagedBackup, match="label_events must have 4 rows, 3 came in"):
        restore(sqlite_other.database, sqlite_other.settings, backed_up)
    assert sqlite_other.catalog.list() == []


def test_what_is_no_backup_is_refused(tmp_path: Path, sqlite_other: Place) -> None:
    with pytest.raises(NotABackup, match=r"must hold a backup, it has no manifest\.json"):
        restore(sqlite_other.database, sqlite_other.settings, tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(NotABackup, match="is no page of a backup"):
        restore(sqlite_other.database, sqlite_other.settings, tmp_path)
    (tmp_path / MANIFEST).write_text('{"format": 99}')
    with pytest.raises(NotABackup, match="another format than 1"):
        restore(sqlite_other.database, sqlite_other.settings, tmp_path)


def test_a_home_or_database_with_anything_is_refused(backed_up: Path, other: Place) -> None:
    stray = other.settings.home / "notes.txt"
    other.settings.home.mkdir(parents=True, exist_ok=True)
    stray.write_text("mine")
    with pytest.raises(HomeNotEmpty, match=r"must be empty, it has notes\.txt"):
        restore(other.database, other.settings, backed_up)
    stray.unlink()
    key = KeyStore(other.database).create("k", ["read"])
    with pytest.raises(HomeNotEmpty, match="1 rows in keys"):
        restore(other.database, other.settings, backed_up)
    with other.database.write() as connection:
        connection.execute(metadata.tables["keys"].delete())
    WorkerRegistry(other.database).register("busy", LANES)
    with pytest.raises(HomeNotEmpty, match="busy does; stop it first"):
        restore(other.database, other.settings, backed_up)
    assert key
    assert not (other.settings.home / MARK).exists()


@pytest.mark.parametrize(
    ("schema", "way_out"),
    [("0024", "ingest and label anew"), ("9999", "install the newer version")],
)
def test_a_backup_of_another_schema_is_refused(
    backed_up: Path, sqlite_other: Place, schema: str, way_out: str
) -> None:
    page = json.loads((backed_up / MANIFEST).read_text())
    (backed_up / MANIFEST).write_text(json.dumps(page | {"schema": schema}))
    with pytest.raises(DatabaseVersionError, match=f"the backup {backed_up} .*{schema}.*{way_out}"):
        restore(sqlite_other.database, sqlite_other.settings, backed_up)
    assert sqlite_other.catalog.list() == []


KILLED = """
import os, signal, sys
from pathlib import Path
import peewit.service.upkeep.restore as module
from peewit.service.database.engine import open_database
from peewit.service.settings import Settings

home, url, backup, moment = sys.argv[1:]
settings = Settings(home=home, database_url=url)
database = open_database(settings.database)

def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

progress = lambda what, done, total: None
match moment:
    case "files": progress = lambda what, done, total: die() if done > total / 2 else None
    case "rows": progress = lambda what, done, total: die() if what == "rows" else None
    case "renamed": module.fsync_directory = lambda path: die() if path == settings.home else None
    case "committed": module._report = die
module.restore(database, settings, Path(backup), progress=progress)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("moment", ["files", "rows", "renamed", "committed"])
def test_a_restore_that_is_killed_begins_again_or_is_whole(
    backed_up: Path, other: Place, moment: str
) -> None:
    url = other.database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", KILLED, other.settings.home, url, backed_up, moment]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == -9, ran.stderr
    assert (other.settings.home / MARK).exists()
    assert len(other.catalog.list()) == (moment == "committed")
    report = restore(other.database, other.settings, backed_up)
    assert report.rows == read_manifest(backed_up).rows
    assert not (other.settings.home / MARK).exists()
    assert not list(other.settings.home.glob(".tmp-*"))
    other.ingest()
    assert other.catalog.get("g").progress.edges_seen == 4_000 * 2 + 20 + 40_000


def test_a_home_that_was_served_empty_takes_a_restore(backed_up: Path, sqlite_other: Place) -> None:
    with sole_supervisor(sqlite_other.settings.database):
        pass
    assert restore(sqlite_other.database, sqlite_other.settings, backed_up).rows["graphs"] == 1


@pytest.mark.slow
def test_another_backup_does_not_finish_the_restore_of_this(
    backed_up: Path, sqlite_other: Place
) -> None:
    restore(sqlite_other.database, sqlite_other.settings, backed_up)
    page = {"backup": "/earlier", "created_at": "2020"}
    (sqlite_other.settings.home / MARK).write_text(json.dumps(page))
    with pytest.raises(HomeNotEmpty, match=r"/earlier .* remove .*restore\.json"):
        restore(sqlite_other.database, sqlite_other.settings, backed_up)
    assert sqlite_other.catalog.get("g").progress.edges_seen == 8_000
