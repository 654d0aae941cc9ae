"""Chunks of a live source in the home: kept, swept, offered again, backed up, forgotten."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.needed_files import remove_unneeded
from peewit.service.inbox.source_lister import READING, SourceLister
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.live_sources.contract import Refused
from peewit.service.settings import Settings
from peewit.service.upkeep.backup import back_up
from peewit.service.upkeep.restore import restore
from tests.service.live_sources.feeding import edges_after, graph_edges
from tests.service.live_sources.scripted import changes, script
from tests.service.live_sources.tables import append, make_table, table_edges

WHO = "somebody-who-leaves"
DEADLINE_SECONDS = 60.0


def chunk_files(settings: Settings, graph: GraphRecord) -> list[Path]:
    return sorted((settings.graphs_directory / graph.id / "pushes").iterdir())


@pytest.mark.parametrize("keep_raw", [True, False])
def test_chunks_stay_as_pushes_do(
    settings: Settings, database: Database, tmp_path: Path, *, keep_raw: bool
) -> None:
    graph = Catalog(database).create(
        GraphSettings(name="g", expected_nodes=40, seed=1, keep_raw=keep_raw)
    )
    url = make_table(tmp_path / "t", [("a", "b", 1.0)])
    Manifest(database).sources.add(graph.id, url, kind="delta")
    Ingestor(database, settings).ingest_graph(graph.id)
    directory = settings.graphs_directory / graph.id
    remove_unneeded(database, graph.id, directory, older_than_seconds=-1)
    assert len(chunk_files(settings, graph)) == keep_raw


@pytest.mark.slow
def test_a_refused_chunk_is_kept_and_can_be_taken_with_fewer_rows(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    manifest = Manifest(database)
    url = make_table(tmp_path / "t", [("a", "b", 1.0)])
    source = manifest.sources.add(graph.id, url, kind="delta", follow=True)
    ingestor = Ingestor(database, settings)
    ingestor.ingest_graph(graph.id)
    append(url, [("b", "c", 2.0), ("c", "d", -1.0)])
    append(url, [("d", "e", 3.0)])
    assert ingestor.ingest_graph(graph.id).n_quarantined == 1
    (refused,) = manifest.list_files(graph.id, status="quarantined")
    assert (refused.row, refused.value) == (1, "-1.0")
    assert Path(refused.path).name.startswith("version-1-")
    remove_unneeded(database, graph.id, settings.graphs_directory / graph.id, older_than_seconds=-1)
    manifest.sources.add(graph.id, url, kind="delta", max_bad_rows=1)
    assert manifest.retry_source(graph.id, source.id) == 1
    assert ingestor.ingest_graph(graph.id).n_committed == 1
    assert graph_edges(settings, graph) == {("a", "b"): 1.0, ("b", "c"): 2.0, ("d", "e"): 3.0}
    manifest.sources.remove(graph.id, source.id)
    append(url, [("e", "f", 4.0)])
    manifest.sources.add(graph.id, url, kind="delta")
    ingestor.ingest_graph(graph.id)
    assert graph_edges(settings, graph)["e", "f"] == 4.0


def test_a_live_source_has_no_files_to_replace(database: Database, graph: GraphRecord) -> None:
    with pytest.raises(ValueError, match="replaces must be off"):
        Manifest(database).sources.add(graph.id, "/t", kind="delta", replaces=True)


def test_a_backup_goes_on_where_the_source_was(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    manifest = Manifest(database)
    url = make_table(tmp_path / "t", [("a", "b", 1.0)])
    source = manifest.sources.add(graph.id, url, kind="delta", follow=True)
    Ingestor(database, settings).ingest_graph(graph.id)
    append(url, [("b", "c", 2.0)])
    LiveReader(manifest, Catalog(database), settings).read(source)
    back_up(database, settings, tmp_path / "backup")
    append(url, [("c", "d", 3.0)])
    elsewhere = Settings(home=tmp_path / "elsewhere", threads=1)
    restored = open_database(elsewhere.database)
    restore(restored, elsewhere, tmp_path / "backup")
    Ingestor(restored, elsewhere).ingest_graph(graph.id)
    assert graph_edges(elsewhere, graph) == table_edges(url)
    restored.close()


@pytest.mark.slow
def test_an_erased_node_leaves_chunks_and_is_told_of_the_table(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    manifest = Manifest(database)
    url = make_table(tmp_path / "t", [(WHO, "b", 1.0), ("b", "c", 2.0)])
    manifest.sources.add(graph.id, url, kind="delta", follow=True)
    other = make_table(tmp_path / "u", [("b", "d", 2.0)])
    manifest.sources.add(graph.id, other, kind="delta")
    ingestor = Ingestor(database, settings)
    ingestor.ingest_graph(graph.id)
    append(url, [(WHO, "d", 3.0), ("d", "e", 4.0)])
    (source, _) = manifest.sources.list(graph.id)
    LiveReader(manifest, Catalog(database), settings).read(source)  # waits, and is read before
    manifest.live.advance(
        source,
        manifest.live.place(source.id).n_reads,
        manifest.live.place(source.id).position or {},
        refused=[Refused(place="here", reason=f"no edge: '{WHO}'")],
    )
    nodes = KnownNodes(settings.graphs_directory, manifest)
    forgetting = Forgetting(
        log=manifest.erasures, nodes=nodes, home=settings.home, within_seconds=60
    )
    erasure = forgetting.erase(Catalog(database).get("g"), [WHO])
    for _ in range(3):
        ingestor.ingest_graph(graph.id)
    done = manifest.erasures.get(graph.id, erasure.id)
    assert done.status == "erased"
    assert done.sources == {"holding": [url], "unread": []}
    assert manifest.live.refusals(graph.id, limit=1)[0].reason == "no edge: (erased)"
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    assert not [path for path in files if WHO.encode() in path.read_bytes()]


def test_the_lister_reads_live_sources_in_their_turn_and_rests_after_failures(
    settings: Settings, database: Database, graph: GraphRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, catalog = Manifest(database), Catalog(database)
    away = ConnectionError("no route to https://me:hidden@store")
    url, told = script(monkeypatch, [changes(("a", "b", 1.0, "insert")), away])
    once, read_once = script(monkeypatch, [changes(("x", "y", 1.0, "insert"))])
    manifest.sources.add(graph.id, url, kind="scripted", follow=True)
    manifest.sources.add(graph.id, once, kind="scripted")
    now = 1_000.0
    lister = SourceLister(
        manifest, settings, reader=LiveReader(manifest, catalog, settings), clock=lambda: now
    )

    def poll() -> None:
        lister.poll([graph.id])
        assert lister.wait(DEADLINE_SECONDS)

    poll()
    assert len(manifest.pending(graph.id)) == 2
    failed = next(each for each in manifest.sources.list(graph.id) if each.url == url)
    assert failed.error == "ConnectionError: no route to https://me:***@store"
    told.entries.append(changes(("b", "c", 2.0, "insert")))
    poll()
    assert len(manifest.pending(graph.id)) == 2, "it rests"
    now += 1_000
    poll()
    assert len(manifest.pending(graph.id)) == 3
    mended = next(each for each in manifest.sources.list(graph.id) if each.url == url)
    assert (mended.error, mended.lag) == (None, 0)
    told.entries.append(changes(("c", "d", 3.0, "insert")))
    read_once.entries.append(changes(("x", "z", 4.0, "insert")))
    now += 1_000
    poll()
    assert len(manifest.pending(graph.id)) == 4, "one is not followed, and was read"
    manifest.sources.add(graph.id, once, kind="scripted")
    poll()
    assert (told.n_opened, told.n_closed) == (2, 1)
    followed = next(each for each in manifest.sources.list(graph.id) if each.url == url)
    manifest.sources.remove(graph.id, followed.id)
    poll()
    assert told.n_closed == 2
    manifest.sources.add(graph.id, url, kind="scripted")
    lister.close()
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == edges_after(
        [
            ("a", "b", 1.0, "insert"),
            ("b", "c", 2.0, "insert"),
            ("c", "d", 3.0, "insert"),
            ("x", "y", 1.0, "insert"),
            ("x", "z", 4.0, "insert"),
        ]
    )


DYING = """
import os, signal, sys
from pathlib import Path
from peewit.service.live_sources.in_hand import InHand
in_hand = InHand()
with in_hand.marked(Path(sys.argv[1])):
    if sys.argv[2] == "stopped":
        in_hand.release()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("processes")
def test_a_source_in_hand_when_its_daemon_was_killed_has_failed(
    settings: Settings, database: Database, graph: GraphRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest(database)
    url, told = script(monkeypatch, [changes(("a", "b", 1.0, "insert"))])
    source = manifest.sources.add(graph.id, url, kind="scripted", follow=True)
    mark = settings.home / READING / source.id
    now = 1_000.0

    def daemon() -> SourceLister:
        """As one that was just started."""
        reader = LiveReader(manifest, Catalog(database), settings)
        return SourceLister(manifest, settings, reader=reader, clock=lambda: now)

    def poll(lister: SourceLister) -> SourceRecord:
        lister.poll([graph.id])
        assert lister.wait(DEADLINE_SECONDS)
        return manifest.sources.list(graph.id)[0]

    for n_deaths in (1, 2, 3):
        subprocess.run([sys.executable, "-c", DYING, mark, "killed"], check=False, timeout=60)
        lister = daemon()
        failed = poll(lister)
        assert failed.n_failures == n_deaths
        assert failed.error is not None
        assert failed.error.startswith("ReaderDied: the process that read it before was killed")
        now += settings.list_seconds * 2**n_deaths - 1
        poll(lister)
        assert told.n_opened == 0, "it rests longer each time"
    now += 2
    assert poll(lister).error is None
    assert told.n_opened == 1
    subprocess.run([sys.executable, "-c", DYING, mark, "stopped"], check=True, timeout=60)
    assert poll(daemon()).error is None
    assert list(mark.parent.iterdir()) == []


def test_ids_that_no_column_of_text_can_hold_are_told(
    settings: Settings, database: Database, graph: GraphRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = pa.table({"src": [["a"]], "dst": [["b"]]})
    url, _ = script(monkeypatch, [odd])
    manifest = Manifest(database)
    manifest.sources.add(graph.id, url, kind="scripted")
    assert Ingestor(database, settings).ingest_graph(graph.id).n_quarantined == 1
    (refused,) = manifest.list_files(graph.id, status="quarantined")
    assert "column 'src' must hold strings in this graph, got type list" in str(refused.reason)
