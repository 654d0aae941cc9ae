"""Features of live sources: sets that wait for ingest, one for each chunk."""

import shutil
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.graphs.live_features import FeatureIntake
from peewit.service.home import Home
from peewit.service.inbox.feature_log import NewFeatureSet
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.live_intakes import Taken
from peewit.service.inbox.live_positions import PositionMoved
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.needed_files import remove_unneeded
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.live_reading import live_reader
from peewit.service.settings import Settings
from peewit.streaming.features.checked_tables import read_features
from peewit.streaming.features.feature_files import set_owners, set_values, write_set
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from tests.fresh_databases import fresh
from tests.service.live_sources.node_rows import put_nodes
from tests.service.live_sources.scripted import Script, script
from tests.service.live_sources.test_live_reader import dying_at
from tests.service.live_sources.topics import mock_cluster

WATCHED: Final = (
    "service/graphs/live_features.py",
    "service/inbox/feature_log.py",
    "service/inbox/live_positions.py",
    "service/inbox/live_reader.py",
    "streaming/durable_files.py",
)
N_DEATHS: Final = 12


def rows(*given: tuple[Any, ...]) -> pa.Table:
    """Rows of (node, features) or (node, features, op)."""
    nodes, features, ops = zip(*[(*row, "set")[:3] for row in given], strict=True)
    return pa.table(
        {
            "node": pa.array(nodes, pa.string()),
            "features": pa.array(features, pa.list_(pa.float64())),
            "op": ops,
        }
    )


def sparse(*given: tuple[str, list[int], list[float]]) -> pa.Table:
    nodes, indices, values = zip(*given, strict=True)
    return pa.table({"node": nodes, "indices": indices, "values": values})


def add(
    manifest: Manifest, graph: GraphRecord, url: str, kind: str = "scripted", **options: Any
) -> SourceRecord:
    return manifest.sources.add(graph.id, url, kind=kind, holds="features", follow=True, **options)


def present(settings: Settings, database: Database, graph: GraphRecord) -> dict[str, list[float]]:
    """The features of each node of the graph."""
    record = Catalog(database).get_by_id(graph.id)
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    n_nodes = record.progress.n_nodes
    found = FeatureStore(paths.features).load(record.features_version, n_nodes)
    names = KnownNodes(settings.graphs_directory, Manifest(database)).external_ids(record, n_nodes)
    values = found.values.toarray() if found.is_sparse else np.asarray(found.values)
    nodes = range(n_nodes) if found.nodes is None else found.nodes
    return {names[int(n)].as_py(): row.tolist() for n, row in zip(nodes, values, strict=True)}


def refusals(manifest: Manifest, graph: GraphRecord) -> list[tuple[str, str]]:
    return [
        (each.place, each.reason) for each in reversed(manifest.live.refusals(graph.id, limit=100))
    ]


@pytest.mark.slow
def test_sets_come_once_wherever_the_reading_dies(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    table = rows(("a", [1, 2]), ("b", [3, 4]), ("a", [5, 6]), ("c", [7]), ("d", [8, 9]))
    url, _ = script(monkeypatch, [table])
    source = add(manifest, graph, url)
    untouched = tmp_path / "untouched"
    shutil.copytree(settings.home, untouched)
    unbroken = live_reader(Home(database, settings), chunk_rows=2)
    n_lines = dying_at(-1, lambda: unbroken.read(source), watched=WATCHED)
    assert n_lines > 100
    for line in sorted({*range(1, n_lines + 1, n_lines // N_DEATHS), n_lines}):
        mine = Settings(home=tmp_path / f"home-{line}", threads=1)
        shutil.copytree(untouched, mine.home)
        here = open_database(fresh(mine.database))
        reader = live_reader(Home(here, mine), chunk_rows=2)
        dying_at(line, lambda: reader.read(source), watched=WATCHED)  # noqa: B023 - runs at once
        manifest_here = Manifest(here)
        (again,) = manifest_here.sources.list(graph.id)
        assert live_reader(Home(here, mine), chunk_rows=2).read(again)
        sets = manifest_here.feature_log.waiting(graph.id)
        paths = [Path(each.path) for each in sets]
        owners = [ids.to_pylist() for path in paths for ids, _ in set_owners(path)]
        assert owners == [["a", "b"], ["a"], ["d"]], f"died at line {line}"
        assert [values.tolist() for values in set_values(paths[1])] == [[[5.0, 6.0]]]
        assert len(refusals(manifest_here, graph)) == 1
        directory = mine.graphs_directory / graph.id
        remove_unneeded(here, graph.id, directory, older_than_seconds=-1)
        assert set((directory / "feature_sets").iterdir()) == set(paths)
        here.close()
        shutil.rmtree(mine.home)


def told(monkeypatch: pytest.MonkeyPatch, manifest: Manifest, graph: GraphRecord) -> Script:
    url, play = script(monkeypatch, [])
    add(manifest, graph, url)
    return play


def test_a_row_replaces_that_of_its_node_and_what_is_deleted_stays(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play, ingestor = told(monkeypatch, manifest, graph), Ingestor(database, settings)
    play.entries.append(rows(("a", [1, 2]), ("b", [3, 4]), ("b", [5, 6])))
    ingestor.ingest_graph(graph.id)
    assert present(settings, database, graph) == {"a": [1, 2], "b": [5, 6]}
    play.entries.append(rows(("a", [7, 8]), ("b", None, "delete"), ("c", None), ("d", [1, 1])))
    play.entries.append(rows(("d", None, "delete"), ("d", [2, 2]), ("e", [1, 2, 3])))
    play.entries.append(sparse(("a", [0], [1.0])))
    play.entries.append(rows(("a", [float("nan"), 1]), ("", [1, 2]), ("f", [1, 2], "never")))
    ingestor.ingest_graph(graph.id)
    assert present(settings, database, graph) == {"a": [7, 8], "b": [5, 6], "d": [2, 2]}
    told_of = refusals(manifest, graph)
    assert [place for place, _ in told_of] == [
        *("entry-1-0 row 1", "entry-1-0 row 2", "entry-2-0 row 2", "entry-3-0 row 0"),
        *("entry-4-0 row 0", "entry-4-0 row 1", "entry-4-0 row 2"),
    ]
    assert told_of[0][1] == "features of node 'b' stay: they are replaced, not taken back"
    assert "dense" in told_of[3][1]
    assert not manifest.feature_log.waiting(graph.id)


def test_sparse_rows_need_an_entry_in_one_of_them(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play, ingestor = told(monkeypatch, manifest, graph), Ingestor(database, settings)
    play.entries.append(sparse(("a", [], [])))
    play.entries.append(sparse(("a", [1], [2.0]), ("b", [0, 0], [1.0, 1.0]), ("c", [], [])))
    ingestor.ingest_graph(graph.id)
    assert present(settings, database, graph) == {"a": [0, 2], "c": [0, 0]}
    assert [place for place, _ in refusals(manifest, graph)] == [
        "entry-0-0 row 0",
        "entry-1-0 row 1",
    ]


def test_what_waits_bounds_what_is_read_and_makes_room(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = told(monkeypatch, manifest, graph)
    play.entries += [rows(("a", [1, 2])), rows(("b", [3, 4])), rows(("c", [5, 6]))]
    narrow = settings.model_copy(update={"max_backlog_bytes": 1})
    (source,) = manifest.sources.list(graph.id)
    assert not live_reader(Home(database, narrow)).read(source)
    assert len(manifest.feature_log.waiting(graph.id)) == 1
    Ingestor(database, narrow).ingest_graph(graph.id)
    assert len(present(settings, database, graph)) == 3


def test_of_two_readers_one_stores_a_set(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = told(monkeypatch, manifest, graph)
    play.entries += [rows(("a", [1, 2])), rows(("b", [3, 4]))]
    (source,) = manifest.sources.list(graph.id)
    first, other = live_reader(Home(database, settings)), live_reader(Home(database, settings))
    assert not first.read(source, on_chunk=lambda: other.read(source) and None)
    waiting = manifest.feature_log.waiting(graph.id)
    directory = settings.graphs_directory / graph.id / "feature_sets"
    assert {str(path) for path in directory.iterdir()} == {each.path for each in waiting}
    assert len(waiting) == 2
    with pytest.raises(PositionMoved):
        manifest.live.advance(source, 0, {"entry": 9})


def test_rows_of_another_shape_are_refused_where_another_source_came_first(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told(monkeypatch, manifest, graph).entries.append(rows(("a", [1, 2])))
    told(monkeypatch, manifest, graph).entries.append(rows(("b", [1, 2, 3]), ("c", [3, 4])))
    first, second = manifest.sources.list(graph.id)
    take = FeatureIntake.take

    def overtaken(intake: FeatureIntake, source: SourceRecord, *given: Any, **named: Any) -> Taken:
        found = take(intake, source, *given, **named)
        if source.id == second.id and not manifest.feature_log.waiting(graph.id):
            assert live_reader(Home(database, settings)).read(first)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(FeatureIntake, "take", overtaken)
        assert not live_reader(Home(database, settings)).read(second)
    assert len(manifest.feature_log.waiting(graph.id)) == 1
    assert not refusals(manifest, graph)
    Ingestor(database, settings).ingest_graph(graph.id)
    assert present(settings, database, graph) == {"a": [1, 2], "c": [3, 4]}
    assert [place for place, _ in refusals(manifest, graph)] == ["entry-0-0 row 0"]
    directory = settings.graphs_directory / graph.id / "feature_sets"
    assert not list(directory.iterdir())


def test_a_set_that_ingest_refuses_is_told_with_its_source(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play, ingestor = told(monkeypatch, manifest, graph), Ingestor(database, settings)
    play.entries.append(rows(("a", [1, 2])))
    ingestor.ingest_graph(graph.id)
    (source,) = manifest.sources.list(graph.id)
    wide = settings.graphs_directory / graph.id / "feature_sets" / "wide.arrow"
    block = read_features(
        rows(("b", [1, 2, 3])).drop(["op"]), node_kind="string", max_nodes=40, n_columns=3
    )
    for source_id in (source.id, None):
        written = write_set(wide, [block])
        new = NewFeatureSet(
            mode="add",
            path=str(wide),
            n_rows=1,
            n_columns=written.n_columns,
            is_sparse=False,
            n_bytes=1,
            source_id=source_id,
        )
        manifest.feature_log.add(graph.id, new, max_waiting_bytes=None)
        ingestor.ingest_graph(graph.id)
    ((place, reason),) = refusals(manifest, graph)
    assert place == "set of 1 rows"
    assert "must hold 2 numbers in every row" in reason
    assert manifest.sources.list(graph.id)[0].n_refused == 1


def test_features_of_tables_and_topics(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    manifest, catalog = Manifest(database), Catalog(database)
    ingestor = Ingestor(database, settings)
    of_table = catalog.create(GraphSettings(name="table", expected_nodes=40, seed=1))
    url = str(tmp_path / "t")
    put_nodes(url, "features", {"a": 0, "b": 1})
    add(manifest, of_table, url, "delta")
    ingestor.ingest_graph(of_table.id)
    put_nodes(url, "features", {"b": 2, "c": 0})
    ingestor.ingest_graph(of_table.id)
    assert present(settings, database, of_table) == {"a": [1, 2], "b": [5, 6], "c": [1, 2]}
    assert refusals(manifest, of_table) == []
    of_topic = catalog.create(GraphSettings(name="topic", expected_nodes=40, seed=1))
    with mock_cluster() as cluster:
        topic = cluster.create("features")
        sent = [
            {"node": "a", "features": [1, 2]},
            {"node": "b", "features": "none"},
            {"node": "b", "indices": [0], "values": [1]},
            b"c,1,2",
            {"node": "c"},
            [{"node": "a", "features": [3, 4.5]}, {"node": "d", "features": [0, None]}],
        ]
        cluster.send("features", sent)
        add(manifest, of_topic, topic, "kafka")
        ingestor.ingest_graph(of_topic.id)
    assert present(settings, database, of_topic) == {"a": [3, 4.5]}
    places = [int(place.split()[-1]) for place, _ in refusals(manifest, of_topic)]
    assert sorted(places) == [1, 2, 3, 4, 5]


def test_an_erased_node_has_no_features_until_it_comes_anew(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play, ingestor = told(monkeypatch, manifest, graph), Ingestor(database, settings)
    (source,) = manifest.sources.list(graph.id)
    play.entries.append(rows(("somebody-who-leaves", [1, 2]), ("b", [3, 4])))
    ingestor.ingest_graph(graph.id)
    play.entries.append(rows(("somebody-who-leaves", [5, 6]), ("c", [7, 8])))
    live_reader(Home(database, settings)).read(source)  # waits, and is read before
    forgetting = Forgetting(
        log=manifest.erasures,
        nodes=KnownNodes(settings.graphs_directory, manifest),
        home=settings.home,
        within_seconds=60,
    )
    erasure = forgetting.erase(Catalog(database).get("g"), ["somebody-who-leaves"])
    for _ in range(3):
        ingestor.ingest_graph(graph.id)
    done = manifest.erasures.get(graph.id, erasure.id)
    assert (done.status, done.sources) == ("erased", {"holding": [source.url], "unread": []})
    assert present(settings, database, graph) == {"b": [3, 4], "c": [7, 8]}
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    assert not [path for path in files if b"somebody-who-leaves" in path.read_bytes()]
