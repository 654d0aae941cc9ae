"""Chunks of a live source are in the graph once each, wherever the process that reads them dies."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import SourceNotFound, SourceRecord
from peewit.service.inbox.live_positions import KEPT_REFUSALS, PositionMoved
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.needed_files import remove_unneeded
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.live_sources.contract import Refused
from peewit.service.settings import Settings
from tests.fresh_databases import fresh
from tests.service.live_sources.feeding import edges_after, graph_edges
from tests.service.live_sources.scripted import changes, script

ROWS: Final = [
    [("a", "b", 1.0, "insert"), ("b", "c", 2.0, "insert"), ("c", "d", 3.0, "insert")],
    [("a", "b", 1.0, "delete"), ("d", "e", 4.0, "insert")],
    [("b", "a", 5.0, "set"), ("b", "c", 6.0, "set")],
    [("a", "b", 5.0, "delete"), ("e", "a", 7.0, "insert")],
]
WATCHED: Final = (
    "service/inbox/live_reader.py",
    "service/inbox/live_intakes.py",
    "service/inbox/live_positions.py",
    "service/inbox/file_outcomes.py",
    "service/inbox/push_log.py",
    "streaming/durable_files.py",
    "tests/service/live_sources/scripted.py",
)


N_DEATHS: Final = 23
"""Of the lines so many are tried, evenly."""


class Died(BaseException):
    """The process ends here."""


def entries() -> list[pa.Table | Refused | Exception]:
    first, *rest = (changes(*rows) for rows in ROWS)
    return [first, Refused(place="here", reason="it must be an edge"), *rest]


def add(manifest: Manifest, graph: GraphRecord, url: str) -> SourceRecord:
    return manifest.sources.add(graph.id, url, kind="scripted", follow=True)


def present(manifest: Manifest, source: SourceRecord) -> SourceRecord:
    (found,) = (s for s in manifest.sources.list(source.graph_id) if s.id == source.id)
    return found


def dying_at(line: int, run: Callable[[], object], *, watched: tuple[str, ...] = WATCHED) -> int:
    """Run, and die at a line of the watched modules; how many lines it came to."""
    n_lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal n_lines
        if not frame.f_code.co_filename.endswith(watched):
            return None
        if event == "line":
            n_lines += 1
            if n_lines == line:
                raise Died
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except Died:
        pass
    finally:
        sys.settrace(before)
    return n_lines


@pytest.mark.slow
def test_a_reading_that_dies_at_any_line_goes_on_without_loss_or_repetition(
    settings: Settings,
    manifest: Manifest,
    catalog: Catalog,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    url, _ = script(monkeypatch, entries())
    source = add(manifest, graph, url)
    untouched = tmp_path / "untouched"
    shutil.copytree(settings.home, untouched)
    wanted = [row for rows in ROWS for row in rows]
    unbroken = LiveReader(manifest, catalog, settings, chunk_rows=2)
    n_lines = dying_at(-1, lambda: unbroken.read(source))
    assert n_lines > 100
    for line in sorted({*range(1, n_lines + 1, n_lines // N_DEATHS), n_lines}):
        home = tmp_path / f"home-{line}"
        shutil.copytree(untouched, home)
        mine = Settings(home=home, threads=1)
        database = open_database(fresh(mine.database))
        here = Manifest(database)
        reader = LiveReader(here, Catalog(database), mine, chunk_rows=2)
        dying_at(line, lambda: reader.read(source))  # noqa: B023 - runs at once
        again = LiveReader(here, Catalog(database), mine, chunk_rows=2)
        assert again.read(present(here, source))
        files = here.pending(graph.id)
        read = [row for file in files for row in pq.read_table(file.path).to_pylist()]
        assert [tuple(row.values()) for row in read] == wanted, f"died at line {line}"
        assert present(here, source).n_refused == 1
        assert present(here, source).lag == 0
        directory = mine.graphs_directory / graph.id
        remove_unneeded(database, graph.id, directory, older_than_seconds=-1)
        left = {str(path) for path in (directory / "pushes").iterdir()}
        assert left == {file.path for file in files}
        database.close()
        shutil.rmtree(home)


def test_what_a_source_changes_is_what_the_graph_has(
    settings: Settings, manifest: Manifest, graph: GraphRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, told = script(monkeypatch, entries())
    source = add(manifest, graph, url)
    database = manifest.live._database
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == edges_after(row for rows in ROWS for row in rows)
    told.entries.append(changes(("x", "y", 1.5, "insert")))
    told.entries.append(changes(("x", "y", 1.5, "insert")))  # an equal chunk is no duplicate
    report = Ingestor(database, settings).ingest_graph(graph.id)
    assert (report.n_committed, report.n_duplicates) == (2, 0)
    assert graph_edges(settings, graph)["x", "y"] == 1.5
    assert present(manifest, source).position == {"entry": 7, "row": 0}


def test_no_more_is_read_than_may_wait(
    settings: Settings,
    manifest: Manifest,
    catalog: Catalog,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, _ = script(monkeypatch, entries())
    source = add(manifest, graph, url)
    narrow = settings.model_copy(update={"max_backlog_bytes": 1})
    reader = LiveReader(manifest, catalog, narrow)
    assert not reader.read(source)
    assert not reader.read(present(manifest, source))
    assert len(manifest.pending(graph.id)) == 1
    assert present(manifest, source).lag == 4
    Ingestor(manifest.live._database, narrow).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == edges_after(row for rows in ROWS for row in rows)


def test_of_two_readers_one_goes_on(
    settings: Settings,
    manifest: Manifest,
    catalog: Catalog,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, _ = script(monkeypatch, entries())
    source = add(manifest, graph, url)
    other = LiveReader(manifest, catalog, settings, chunk_rows=2)
    first = LiveReader(manifest, catalog, settings, chunk_rows=2)
    assert not first.read(source, on_chunk=lambda: other.read(source) and None)
    assert sum(pq.read_metadata(file.path).num_rows for file in manifest.pending(graph.id)) == 9
    directory = settings.graphs_directory / graph.id / "pushes"
    assert len(list(directory.iterdir())) == len(manifest.pending(graph.id))
    with pytest.raises(PositionMoved):
        manifest.live.advance(source, 0, {"entry": 9}, refused=())


def test_an_error_closes_the_source_and_the_next_reading_goes_on(
    settings: Settings,
    manifest: Manifest,
    catalog: Catalog,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = entries()
    listed.insert(2, ConnectionError("away"))
    url, told = script(monkeypatch, listed)
    source = add(manifest, graph, url)
    reader = LiveReader(manifest, catalog, settings)
    with pytest.raises(ConnectionError, match="away"):
        reader.read(source)
    assert (told.n_opened, told.n_closed) == (1, 1)
    assert reader.read(present(manifest, source))
    assert told.n_opened == 2
    assert present(manifest, source).position == {"entry": 5, "row": 0}
    manifest.sources.remove(graph.id, source.id)
    told.entries.append(changes(("x", "y", 1.5, "insert")))
    with pytest.raises(SourceNotFound):
        reader.read(source)


@pytest.mark.slow
def test_the_last_refusals_are_kept_and_all_are_counted(
    settings: Settings,
    manifest: Manifest,
    catalog: Catalog,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_more = 3
    url, _ = script(
        monkeypatch,
        [Refused(place=f"message {n}", reason="no edge") for n in range(KEPT_REFUSALS + n_more)],
    )
    source = add(manifest, graph, url)
    LiveReader(manifest, catalog, settings).read(source)
    assert present(manifest, source).n_refused == KEPT_REFUSALS + n_more
    kept = manifest.live.refusals(graph.id, limit=2 * KEPT_REFUSALS)
    assert len(kept) == KEPT_REFUSALS
    assert (kept[0].place, kept[-1].place) == (
        f"message {KEPT_REFUSALS + n_more - 1}",
        f"message {n_more}",
    )


def test_a_source_begins_where_it_is_told_to(
    settings: Settings,
    manifest: Manifest,
    catalog: Catalog,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, _ = script(monkeypatch, entries())
    start = {"entry": 4, "row": 0}
    source = manifest.sources.add(graph.id, url, kind="scripted", start=start)
    LiveReader(manifest, catalog, settings).read(source)
    (file,) = manifest.pending(graph.id)
    assert pq.read_table(file.path).num_rows == 2
    with pytest.raises(ValueError, match="kind must be 'scripted'"):
        manifest.sources.add(graph.id, url)
    manifest.sources.add(graph.id, url, kind="scripted", start=start)
    assert manifest.live.place(source.id).position == start


def test_ids_of_another_type_become_those_of_the_graph_or_are_refused(
    settings: Settings, manifest: Manifest, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = catalog.create(
        GraphSettings(name="numbers", node_ids="int64", expected_nodes=40, seed=1)
    )
    small = pa.table({"src": pa.array([1, 2], pa.int8()), "dst": pa.array(["3", "4"])})
    odd = pa.table({"src": [1, 2], "dst": ["3", "x"]})
    url, _ = script(monkeypatch, [small, odd])
    source = add(manifest, graph, url)
    report = Ingestor(manifest.live._database, settings).ingest_graph(graph.id)
    assert (report.n_committed, report.n_quarantined) == (1, 1)
    (refused,) = manifest.list_files(graph.id, status="quarantined", source_id=source.id)
    assert "entry-1-0" in refused.path
    assert "must hold integers" in str(refused.reason)


def test_an_edge_whose_end_is_no_text_is_a_bad_row(
    settings: Settings, manifest: Manifest, graph: GraphRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = pa.table({"src": [b"a", b"\xff\xfe", b"b"], "dst": ["x", "y", "z"]})
    lists = pa.table({"src": [["a"]], "dst": ["x"]})
    url, _ = script(monkeypatch, [odd, lists])
    source = manifest.sources.add(graph.id, url, kind="scripted", follow=True, max_bad_rows=1)
    report = Ingestor(manifest.live._database, settings).ingest_graph(graph.id)
    assert (report.n_committed, report.n_quarantined) == (1, 1)
    assert set(graph_edges(settings, graph)) == {("a", "x"), ("b", "z")}
    (refused,) = manifest.list_files(graph.id, status="quarantined", source_id=source.id)
    assert "column 'src' must hold strings in this graph, got type list" in str(refused.reason)
