"""Live sources whose columns name kinds of nodes: edges and labels of a typed graph."""

import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database
from peewit.service.graph_settings import GraphSettings
from peewit.service.home import Home
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.live_reading import live_reader
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from tests.service.live_sources.feeding import graph_edges
from tests.service.live_sources.node_rows import labels
from tests.service.live_sources.scripted import changes, script


def test_rows_of_live_sources_are_nodes_of_their_kinds(
    settings: Settings,
    database: Database,
    catalog: Catalog,
    manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings_of_graph = GraphSettings(name="k", expected_nodes=40, seed=1, deletions="exact")
    graph = catalog.create(settings_of_graph)
    rows = [("1", "1", 1.0, "insert"), ("2", "1", 1.0, "insert"), ("1", "2", 1.0, "insert")]
    url, _ = script(monkeypatch, [changes(*rows), changes(("1", "2", 1.0, "delete"))])
    add, options = manifest.sources.add, {"kind": "scripted", "follow": True}
    edges = add(graph.id, url, columns={"src": "account:who", "dst": "device:what"}, **options)
    assert catalog.get("k").settings.node_ids == "typed"
    url, _ = script(monkeypatch, [labels((1, "a"), ("2", "b")), labels(("2", None))])
    topic = add(graph.id, url, holds="labels", columns={"node": "account:who"}, **options)
    reader = live_reader(Home(database, settings), chunk_rows=2)
    reader.read(edges)
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == {
        ("account:1", "device:1"): 1.0,
        ("account:2", "device:1"): 1.0,
    }
    reader.read(topic)
    current = LabelStore(database).current(graph.id)
    assert current.nodes.to_pylist() == ["account:1"]
