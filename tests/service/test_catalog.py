"""Graph settings and the catalog, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select, update

from peewit.service.catalog import (
    Catalog,
    GraphExists,
    GraphNotFound,
    GraphProgress,
    GraphRecord,
    lock_graph,
)
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.database.tables import files, graphs, jobs, label_events, sources
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import AutoSolve, GraphConflict, GraphSettings, SnapshotEvery
from peewit.service.inbox.inbox_records import NewPush
from peewit.service.inbox.leaving.wishes import Wishes
from peewit.service.inbox.manifest import Manifest
from peewit.service.labels.store import LabelStore
from peewit.streaming.left_out import LeftOut
from tests.fresh_databases import fresh
from tests.service.pushing import pushed


@pytest.fixture
def graph(catalog: Catalog) -> GraphRecord:
    return catalog.create(GraphSettings(name="graph"))


@pytest.fixture(scope="module")
def shared_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """One for all examples of a property, which delete their graphs."""
    database = open_database(fresh(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'peewit.db'}"))
    yield Catalog(database)
    database.close()


def cancel_nothing(graph_id: str, connection: Connection) -> None:
    """The graphs of these tests have no jobs."""


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("name", "", "name must be 1 to 63"),
        ("name", "-g", "name must be 1 to 63"),
        ("name", "Graph", "got 'Graph'"),
        ("name", "a" * 64, "name must be 1 to 63"),
        ("name", "g\n", "name must be 1 to 63"),
        ("node_ids", "int32", "node_ids must be 'string' or 'int64' or 'dense' or 'typed', got"),
        ("epsilon", 0.0, "epsilon must be a finite number > 0 and < 1, got 0.0"),
        ("epsilon", 1.0, "epsilon must be a finite number > 0 and < 1"),
        ("epsilon", float("nan"), "epsilon must be a finite number > 0 and < 1, got nan"),
        ("max_edges", 0, "max_edges must be an integer >= 1 and < 9223372036854775808"),
        ("expected_nodes", 1, "expected_nodes must be an integer >= 2 and <="),
        (
            "max_nodes",
            2**31 - 1,
            "max_nodes must be an integer >= 2 and <= 2147483646, got 2147483647",
        ),
        ("seed", -1, "seed must be an integer >= 0"),
        ("seed", 2**63, "seed must be an integer >= 0"),
    ],
)
def test_a_setting_against_its_rule_is_refused(field: str, value: object, rule: str) -> None:
    settings: dict[str, Any] = {"name": "g", field: value}
    with pytest.raises(ValueError, match=rule):
        GraphSettings(**settings)


@pytest.mark.parametrize("amounts", [{}, {"edges": 0}, {"seconds": 0.0}, {"seconds": float("inf")}])
def test_snapshot_every_needs_a_positive_amount(amounts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="snapshot_every"):
        SnapshotEvery(**amounts)


@pytest.mark.parametrize("parameters", [{"x": float("nan")}, {"x": object()}])
def test_auto_solve_takes_what_json_can_say(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"auto_solve\.parameters must be JSON values"):
        AutoSolve(model="hfs", parameters=parameters)
    with pytest.raises(ValueError, match=r"auto_solve\.model must name a model"):
        AutoSolve(model="")


@pytest.mark.slow
@given(
    st.builds(
        GraphSettings,
        name=st.from_regex(r"[a-z0-9][a-z0-9_-]{0,62}", fullmatch=True),
        node_ids=st.sampled_from(["string", "int64", "dense"]),
        epsilon=st.floats(0, 1, exclude_min=True, exclude_max=True),
        max_edges=st.none() | st.integers(1, 2**63 - 1),
        expected_nodes=st.integers(2, 2**31 - 2),
        max_nodes=st.integers(2, 2**31 - 2),
        seed=st.integers(0, 2**63 - 1),
        keep_raw=st.booleans(),
        snapshot_every=st.none()
        | st.builds(SnapshotEvery, edges=st.integers(1), seconds=st.none() | st.floats(1e-3, 1e9)),
        auto_solve=st.none()
        | st.builds(
            AutoSolve,
            model=st.just("hfs"),
            parameters=st.dictionaries(st.text("abc"), st.floats(-1e9, 1e9) | st.booleans()),
        ),
    )
)
def test_settings_are_stored_as_they_were_given(
    shared_catalog: Catalog, settings: GraphSettings
) -> None:
    record = shared_catalog.create(settings)
    try:
        assert record.settings == settings
        assert shared_catalog.get(settings.name) == record
        assert shared_catalog.get_by_id(record.id) == record
    finally:
        shared_catalog.delete(record.id, cancel_jobs=cancel_nothing)


def test_a_new_graph_is_empty(graph: GraphRecord) -> None:
    assert graph.progress == GraphProgress()
    assert (graph.labels_seq, graph.features_version) == (0, 0)


def test_a_seed_is_chosen_and_kept(catalog: Catalog) -> None:
    seeds = [catalog.create(GraphSettings(name=name)).settings.seed for name in "ab"]
    assert None not in seeds
    assert seeds[0] != seeds[1]
    assert catalog.get("a").settings.seed == seeds[0]


def test_a_name_is_given_once(catalog: Catalog, graph: GraphRecord) -> None:
    with pytest.raises(GraphExists, match="name must be new, got 'graph'"):
        catalog.create(GraphSettings(name="graph"))
    assert [each.id for each in catalog.list()] == [graph.id]


def test_of_many_who_want_a_name_at_once_one_gets_it(catalog: Catalog) -> None:
    def create(_: int) -> bool:
        try:
            catalog.create(GraphSettings(name="wanted"))
        except GraphExists:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(8), timeout=60)) == 1


def test_graphs_are_listed_by_name(catalog: Catalog) -> None:
    for name in ("b", "c", "a"):
        catalog.create(GraphSettings(name=name))
    assert [each.settings.name for each in catalog.list()] == ["a", "b", "c"]


def test_an_unknown_graph_is_named(catalog: Catalog) -> None:
    with pytest.raises(GraphNotFound, match="no graph 'other'"):
        catalog.get("other")
    with pytest.raises(GraphNotFound, match="no graph 'other'"):
        catalog.get_by_id("other")


def test_what_may_change_is_changed_and_kept(catalog: Catalog, graph: GraphRecord) -> None:
    wanted = replace(
        graph.settings,
        name="renamed",
        epsilon=0.3,
        max_edges=10,
        keep_raw=False,
        snapshot_every=SnapshotEvery(seconds=60.0),
        auto_solve=AutoSolve(model="hfs"),
    )
    assert catalog.update(graph.id, lambda _: wanted).settings == wanted
    assert catalog.get("renamed").settings == wanted
    cleared = replace(wanted, max_edges=None, snapshot_every=None, auto_solve=None)
    catalog.update(graph.id, lambda _: cleared)
    assert catalog.get("renamed").settings == cleared


@pytest.mark.parametrize(
    ("present", "wanted", "raised"),
    [
        ((None, 20), (None, 25), "max_edges"),
        ((None, 20), (None, 20), None),
        ((None, 20), (None, 10), None),
        ((0.2, 20), (0.2, 25), "max_edges"),
        ((0.2, 20), (0.2, None), "max_edges"),
        ((None, 20), (0.2, None), "max_edges"),
        ((None, 20), (0.2, 20), None),
        ((0.5, None), (0.2, None), "epsilon"),
        ((0.5, None), (0.5, 20), None),
        ((0.5, None), (0.7, None), None),
        ((0.5, 20), (None, 20), "epsilon"),
        ((0.5, None), (None, 20), "epsilon"),
    ],
)
def test_more_edges_are_read_again_once_some_were_thrown_away(
    database: Database,
    catalog: Catalog,
    present: tuple[float | None, int | None],
    wanted: tuple[float | None, int | None],
    raised: str | None,
) -> None:
    def change(settings: GraphSettings) -> GraphSettings:
        return replace(settings, epsilon=wanted[0], max_edges=wanted[1])

    asked: list[str] = []
    for expected in (None, 0.0, 0.6):
        name = f"g{expected}".replace(".", "-").lower()
        settings = GraphSettings(name=name, epsilon=present[0], max_edges=present[1])
        graph = catalog.create(settings)
        catalog.record_progress(graph.id, GraphProgress(edges_kept=20, epsilon_expected=expected))
        catalog.update(
            graph.id, change, require_edges=lambda _graph, setting: asked.append(setting)
        )
        is_due = bool(expected) and raised is not None
        assert Wishes(database).of(graph.id).repair_wanted == ("all" if is_due else None)
    assert asked == ([] if raised is None else [raised])


def test_a_budget_of_what_is_kept_takes_back_what_could_not_be_read(
    database: Database, catalog: Catalog
) -> None:
    graph = catalog.create(GraphSettings(name="g", max_edges=20))
    catalog.record_progress(graph.id, GraphProgress(edges_kept=20, epsilon_expected=0.6))
    wishes = Wishes(database)

    def set_budget(max_edges: int) -> None:
        catalog.update(graph.id, lambda old: replace(old, max_edges=max_edges))

    set_budget(50)
    lease = LeaseStore(database).acquire(f"ingest:{graph.id}", "test", 60.0)
    assert lease is not None
    wishes.repair_failed(graph.id, "a file is missing", lease=lease)
    set_budget(40)
    wanted = wishes.of(graph.id)
    assert (wanted.repair_wanted, wanted.repair_fault) == ("all", "a file is missing")
    set_budget(20)
    wanted = wishes.of(graph.id)
    assert (wanted.repair_wanted, wanted.repair_fault) == (None, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("node_ids", "dense"),
        ("seed", 7),
        ("expected_nodes", 5),
        ("max_nodes", 5),
        ("deletions", "exact"),
    ],
)
def test_what_the_sparsifier_has_used_is_fixed(
    catalog: Catalog, graph: GraphRecord, field: str, value: Any
) -> None:
    change: dict[str, Any] = {field: value}
    with pytest.raises(GraphConflict, match=f"{field} is fixed at .* got {value!r}"):
        catalog.update(graph.id, lambda settings: replace(settings, **change))
    assert catalog.get_by_id(graph.id) == graph


def test_a_graph_cannot_take_the_name_of_another(catalog: Catalog, graph: GraphRecord) -> None:
    catalog.create(GraphSettings(name="other"))
    with pytest.raises(GraphExists, match="other"):
        catalog.update(graph.id, lambda settings: replace(settings, name="other"))


def test_of_two_changes_at_once_none_is_lost(catalog: Catalog, graph: GraphRecord) -> None:
    def grow(_: int) -> None:
        catalog.update(graph.id, lambda old: replace(old, max_edges=(old.max_edges or 0) + 1))

    before = graph.settings.max_edges
    assert before is not None
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(grow, range(12), timeout=60))
    assert catalog.get("graph").settings.max_edges == before + 12


def test_progress_is_shown_with_the_graph(catalog: Catalog, graph: GraphRecord) -> None:
    progress = GraphProgress(
        n_nodes=10**9,
        edges_seen=10**12,
        edges_kept=10**7,
        left_out=LeftOut(3),
        epsilon_expected=0.61,
        snapshot=41,
    )
    catalog.record_progress(graph.id, progress)
    assert catalog.get("graph").progress == progress


def test_progress_joins_the_transaction_of_the_caller(
    database: Database, catalog: Catalog, graph: GraphRecord
) -> None:
    with database.write() as connection:
        catalog.record_progress(graph.id, GraphProgress(n_nodes=5), connection)
        connection.rollback()
    assert catalog.get("graph").progress.n_nodes == 0


def test_a_deleted_graph_is_gone_and_its_name_is_free(catalog: Catalog, graph: GraphRecord) -> None:
    catalog.delete(graph.id, cancel_jobs=cancel_nothing)
    assert catalog.list() == []
    for forbidden in (
        lambda: catalog.get("graph"),
        lambda: catalog.update(graph.id, lambda settings: settings),
        lambda: catalog.record_progress(graph.id, GraphProgress()),
        lambda: catalog.delete(graph.id, cancel_jobs=cancel_nothing),
    ):
        with pytest.raises(GraphNotFound):
            forbidden()
    assert catalog.create(GraphSettings(name="graph")).id != graph.id


def test_deleting_cancels_the_jobs_in_the_same_transaction(
    database: Database, catalog: Catalog, graph: GraphRecord
) -> None:
    def cancel(graph_id: str, connection: Connection) -> None:
        connection.execute(
            update(jobs).where(jobs.c.graph_id == graph_id).values(status="cancelled")
        )

    def cancel_and_fail(graph_id: str, connection: Connection) -> None:
        cancel(graph_id, connection)
        raise OSError("the queue is out of reach")

    job = {"id": "j", "graph_id": graph.id, "kind": "solve", "lane": "fast", "parameters": {}}
    with database.write() as connection:
        connection.execute(jobs.insert().values(max_attempts=1, **job))
    with pytest.raises(OSError, match="out of reach"):
        catalog.delete(graph.id, cancel_jobs=cancel_and_fail)
    with database.read() as connection:
        assert connection.execute(select(jobs.c.status)).scalar_one() == "queued"
    assert catalog.get("graph") == graph
    catalog.delete(graph.id, cancel_jobs=cancel)
    with database.read() as connection:
        assert connection.execute(select(jobs.c.status)).scalar_one() == "cancelled"


def test_a_deleted_graph_is_purged_after_the_grace_time_with_all_it_had(
    database: Database, catalog: Catalog, graph: GraphRecord, tmp_path: Path
) -> None:
    manifest = Manifest(database)
    source = manifest.sources.add(graph.id, "edges/")
    manifest.register_files(graph.id, source.id, [("edges/a", "1", 5)])
    pushed(manifest, graph.id, NewPush(path="p", body_digest="d", n_rows=1, n_bytes=1))
    LabelStore(database).put(graph.id, ["n1", "n2"], ["a", "b"])
    kept = catalog.create(GraphSettings(name="kept"))
    LabelStore(database).put(kept.id, ["n1"], ["a"])
    for each in (graph, kept):
        (tmp_path / each.id / "snapshots").mkdir(parents=True)
    catalog.delete(graph.id, cancel_jobs=cancel_nothing)

    assert catalog.purge_deleted(3600.0, tmp_path) == []
    assert (tmp_path / graph.id).exists()
    with database.write() as connection:
        deleted = update(graphs).where(graphs.c.id == graph.id)
        connection.execute(deleted.values(deleted_at=now(-3601.0)))
    assert catalog.purge_deleted(3600.0, tmp_path) == [graph.id]
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == [kept.id]
    with database.read() as connection:
        counts = [
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (graphs, sources, files, label_events)
        ]
    assert counts == [1, 0, 0, 1]
    assert catalog.purge_deleted(0.0, tmp_path) == []


def test_a_purge_that_was_broken_off_is_finished_by_the_next(
    catalog: Catalog, graph: GraphRecord, tmp_path: Path
) -> None:
    """The files are gone already, the rows are not."""
    catalog.delete(graph.id, cancel_jobs=cancel_nothing)
    assert catalog.purge_deleted(0.0, tmp_path / "gone") == [graph.id]


@pytest.mark.postgres
def test_postgresql_writes_two_graphs_at_the_same_time(postgres_url: str) -> None:
    database = open_database(postgres_url)
    catalog = Catalog(database)
    first, second = (catalog.create(GraphSettings(name=name)) for name in "ab")
    with database.write() as connection, ThreadPoolExecutor(1) as pool:
        lock_graph(connection, first.id)
        change = pool.submit(catalog.record_progress, second.id, GraphProgress(n_nodes=1))
        change.result(timeout=60)
    assert catalog.get("b").progress.n_nodes == 1
    database.close()
