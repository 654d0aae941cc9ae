"""Live sources whose rows belong to kinds of edges, or are events."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.graph_settings import GraphSettings
from peewit.service.home import Home
from peewit.service.inbox.block_rows import RELATED
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.live_reader import access_to
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.live_reading import live_reader
from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.kafka_gatherer import Gatherer
from peewit.service.live_sources.kafka_values import Message, ids_of
from peewit.service.live_sources.kinds import live_source
from peewit.service.settings import Settings
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from tests.service.live_sources.feeding import graph_edges
from tests.service.live_sources.scripted import script

VIA = {"entity": "account:who", "via": "device:device,ip:ip"}
NAMED = {"src": "account:who", "dst": "ip:ip", "relation_column": "kind"}
ONE = {"src": "account:who", "dst": "ip:ip", "relation": "login"}

ROWS: list[dict[str, Any]] = [
    {"who": 1, "device": "x", "ip": 7, "kind": "login"},
    {"who": 2, "device": None, "ip": 7, "kind": "card"},
    {"who": 1, "device": "null", "ip": 8, "kind": "card"},
]
IPS = [("account:1", "ip:7"), ("account:2", "ip:7"), ("account:1", "ip:8")]
EXPECTED = [
    (
        VIA,
        [
            ("device", "account:1", "device:x"),
            ("device", "account:2", None),
            ("device", "account:1", None),
            *(("ip", *pair) for pair in IPS),
        ],
    ),
    (NAMED, [(row["kind"], *pair) for row, pair in zip(ROWS, IPS, strict=True)]),
    (ONE, [("login", *pair) for pair in IPS]),
]


def take_in(source: SourceRecord, database: Database, settings: Settings) -> None:
    """Read a source and ingest what it holds."""
    live_reader(Home(database, settings)).read(source)
    Ingestor(database, settings).ingest_graph(source.graph_id)


def related(settings: Settings, graph: GraphRecord) -> list[tuple[str, str, str | None]]:
    """Rows of the one file that names relations."""
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    (path,) = paths.pushes.glob(f"*{RELATED}")
    (file,) = CheckpointStore(paths.checkpoints).newest().files
    assert file.columns.relation_column == "relation"
    table = pq.read_table(path)
    assert file.left_out.empty_cells == table["dst"].null_count
    columns = (table[name].to_pylist() for name in ("relation", "src", "dst"))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(("columns", "expected"), EXPECTED)
def test_a_delta_table_has_relations(
    columns: Mapping[str, str],
    expected: list[tuple[str, str, str | None]],
    tmp_path: Path,
    settings: Settings,
    database: Database,
    catalog: Catalog,
    manifest: Manifest,
) -> None:
    graph = catalog.create(GraphSettings(name="k", expected_nodes=40, seed=1))
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(ROWS))
    url = str(tmp_path / "t")
    source = manifest.sources.add(graph.id, url, kind="delta", columns=columns, follow=True)
    take_in(source, database, settings)
    assert related(settings, graph) == expected
    access = access_to(source, catalog.get("k"), home=settings.home)
    with closing(live_source("delta").open(access)) as live:
        assert [live.holds(pa.array([each])) for each in ("account:2", "2")] == [True, False]


@pytest.mark.parametrize(("columns", "expected"), EXPECTED)
def test_messages_have_relations(
    columns: Mapping[str, str],
    expected: list[tuple[str, str, str | None]],
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    database: Database,
    catalog: Catalog,
    manifest: Manifest,
) -> None:
    gathered = Gatherer(
        Access(url="", columns=edge_columns({}, columns), takes_changes=False, node_kind="typed")
    )
    for number, row in enumerate([*ROWS, {"device": "x", "ip": 7, "kind": "a"}]):
        gathered.add(Message("t", 0, number, None, json.dumps(row).encode(), None, 0))
    table, refused = gathered.take()
    assert table is not None
    assert [each.place for each in refused] == ["t partition 0 offset 3"]
    graph = catalog.create(GraphSettings(name="k", expected_nodes=40, seed=1))
    url, _ = script(monkeypatch, [table])
    source = manifest.sources.add(graph.id, url, kind="scripted", columns=columns, follow=True)
    take_in(source, database, settings)
    assert related(settings, graph) == expected


def test_events_of_a_live_source_may_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    database: Database,
    catalog: Catalog,
    manifest: Manifest,
) -> None:
    graph = catalog.create(
        GraphSettings(name="k", expected_nodes=40, seed=1, deletions="exact", node_ids="string")
    )
    names = ("src", "via1", "via2", "weight", "op")
    rows = [("a", "x", "7", 1.0, "insert"), ("b", "", "7", 1.0, "insert")]
    rows += [("a", "x", "7", 1.0, "delete")]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    url, _ = script(monkeypatch, [pa.table(columns)])
    named = {"entity": "who", "via": "device,ip"}
    source = manifest.sources.add(graph.id, url, kind="scripted", columns=named, follow=True)
    take_in(source, database, settings)
    assert graph_edges(settings, graph) == {("7", "b"): 1.0}


KINDS = {"src_kind_column": "of", "dst_kind_column": "with"}
KIND_ROWS: list[dict[str, Any]] = [
    {"src": 1, "of": "account", "dst": 1, "with": "device"},
    {"src": 2, "of": "account", "dst": 1, "with": "card"},
]
KIND_EDGES = {("account:1", "device:1"): 1.0, ("account:2", "card:1"): 1.0}


def test_rows_of_tables_name_the_kinds_of_their_nodes(
    tmp_path: Path, settings: Settings, database: Database, catalog: Catalog, manifest: Manifest
) -> None:
    asked = GraphSettings(name="k", expected_nodes=40, seed=1, deletions="exact")
    graph = catalog.create(asked)
    bad = [{**KIND_ROWS[0], "src": 3, "of": each} for each in ("a b", "null", None, "x:y")]
    url = str(tmp_path / "t")
    write_deltalake(url, pa.Table.from_pylist([*KIND_ROWS, *bad]))
    manifest.sources.add(
        graph.id, url, kind="delta", columns=KINDS, follow=True, max_bad_rows=len(bad)
    )
    (source,) = manifest.sources.list(graph.id)
    take_in(source, database, settings)
    assert graph_edges(settings, graph) == KIND_EDGES
    assert catalog.get("k").settings.node_ids == "typed"
    (file,) = manifest.list_files(graph.id)
    assert file.n_bad_rows == len(bad)
    access = access_to(source, catalog.get("k"), home=settings.home)
    with closing(live_source("delta").open(access)) as live:
        held = [live.holds(pa.array([each])) for each in ("card:1", "account:1", "account:7", "1")]
    assert held == [True, True, False, False]


def test_messages_name_the_kinds_of_their_nodes(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    database: Database,
    catalog: Catalog,
    manifest: Manifest,
) -> None:
    asked = GraphSettings(name="k", expected_nodes=40, seed=1, deletions="exact")
    graph = catalog.create(asked)
    columns = edge_columns(asked.columns_of_edges, KINDS)
    access = Access(url="", columns=columns, takes_changes=False, node_kind="typed")
    gathered = Gatherer(access)
    gone = {"src": 2, "of": "account", "dst": 1, "with": "card"}
    values = [*KIND_ROWS, {**KIND_ROWS[0], "of": "a b"}, {"src": 4, "dst": 5}]
    for number, row in enumerate(values):
        gathered.add(Message("t", 0, number, None, json.dumps(row).encode(), None, 0))
    for key in (json.dumps(gone), "2,1"):
        gathered.add(Message("t", 0, len(values), key.encode(), None, None, 0))
    table, refused = gathered.take()
    assert table is not None
    assert [each.place.rpartition(" ")[2] for each in refused] == ["2", "3", "4"]
    assert "the key must name the pair that is deleted, as src,dst,of,with" in refused[2].reason
    message = Message("t", 0, 0, None, json.dumps(KIND_ROWS[0]).encode(), None, 0)
    assert ids_of(message, access) == {"account:1", "device:1"}
    url, _ = script(monkeypatch, [table])
    source = manifest.sources.add(graph.id, url, kind="scripted", columns=KINDS, follow=True)
    take_in(source, database, settings)
    assert graph_edges(settings, graph) == {("account:1", "device:1"): 1.0}
