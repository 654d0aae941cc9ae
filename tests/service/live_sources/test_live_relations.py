"""Live sources whose rows belong to kinds of edges, or are events."""

import json
from collections.abc import Mapping
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
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.live_reading import live_reader
from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.kafka_gatherer import Gatherer
from peewit.service.live_sources.kafka_values import Message
from peewit.service.settings import Settings
from peewit.service.tables.column_names import edge_columns
from peewit.solvers.arguments import BadArgument
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
    live_reader(Home(database, settings)).read(source)
    Ingestor(database, settings).ingest_graph(graph.id)
    assert related(settings, graph) == expected


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
    live_reader(Home(database, settings)).read(source)
    Ingestor(database, settings).ingest_graph(graph.id)
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
    live_reader(Home(database, settings)).read(source)
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == {("7", "b"): 1.0}


def test_live_sources_have_no_columns_of_kinds(manifest: Manifest, graph: GraphRecord) -> None:
    kinds = {"src": "who", "dst": "ip:ip", "src_kind_column": "kind"}
    with pytest.raises(BadArgument, match=r"columns\.src_kind_column must be left out for a"):
        manifest.sources.add(graph.id, "/tables/logins", kind="delta", columns=kinds)
