"""Which nodes a graph knows, while ingest goes on."""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.known_nodes import MAX_OPEN, KnownNodes
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.push_gatherer import gather_pushes
from peewit.service.inbox.pushes import PushStore
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.service.tables.uploads import node_array
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.graph_paths import GraphPaths
from tests.fresh_databases import fresh


class Graphs:
    """A home, and pushes to the graphs in it."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home, database_url=None)
        self.database: Database = open_database(fresh(self.settings.database))
        self.manifest = Manifest(self.database)
        self.nodes = KnownNodes(self.settings.graphs_directory, self.manifest)
        self._pushes = PushStore(
            manifest=self.manifest,
            graphs_directory=self.settings.graphs_directory,
            max_backlog_bytes=10**9,
            max_total_backlog_bytes=10**9,
        )

    def create(self, name: str, kind: NodeKind = "string") -> GraphRecord:
        return Catalog(self.database).create(GraphSettings(name=name, node_ids=kind, seed=0))

    def push(self, graph: GraphRecord, *edges: tuple[object, object]) -> None:
        lines = "".join(f"{u},{v}\n" for u, v in edges)
        file = io.BytesIO(f"src,dst\n{lines}".encode())
        self._pushes.add(graph, file, Format.CSV, body_digest="0")

    def ingest(self, graph: GraphRecord) -> None:
        Ingestor(self.database, self.settings).ingest_graph(graph.id)


@pytest.fixture
def graphs(tmp_path: Path) -> Iterator[Graphs]:
    graphs = Graphs(tmp_path)
    yield graphs
    graphs.database.close()


KINDS: list[tuple[NodeKind, list[str | int]]] = [
    ("string", ["a", "b", "c"]),
    ("int64", [-(2**63), 7, 2**63 - 1]),
    ("dense", [0, 1, 5]),
]


@pytest.mark.parametrize(("kind", "nodes"), KINDS)
def test_a_node_is_known_from_its_push_on_and_found_from_its_commit_on(
    graphs: Graphs, kind: NodeKind, nodes: list[str | int]
) -> None:
    graph = graphs.create("g", kind)
    asked = node_array([*nodes, "z" if kind == "string" else 9], kind)
    assert graphs.nodes.knows(graph, asked).tolist() == [False] * 4
    graphs.push(graph, (nodes[0], nodes[1]))
    graphs.push(graph, (nodes[1], nodes[2]))
    assert graphs.nodes.knows(graph, asked).tolist() == [True, True, True, False]
    assert graphs.nodes.lookup(graph, asked).tolist() == [-1] * 4
    graphs.ingest(graph)
    assert graphs.nodes.knows(graph, asked).tolist() == [True, True, True, False]
    dense = nodes if kind == "dense" else [0, 1, 2]
    assert graphs.nodes.lookup(graph, asked).tolist() == [*dense, -1]
    external = graphs.nodes.external_ids(graph, 2).to_pylist()
    assert external == (nodes[:2])


@pytest.mark.slow
def test_a_node_is_never_lost_between_its_push_and_its_commit(graphs: Graphs) -> None:
    """Readers ask all the time, while pushes turn into checkpoints under their hands."""
    graph = graphs.create("g")
    n_pushed = 0
    is_done = False

    def ask(_reader: int) -> int:
        n_asked = 0
        while not is_done:
            nodes = [f"n{number}" for number in range(n_pushed)]
            assert graphs.nodes.knows(graph, node_array(nodes, "string")).all()
            n_asked += 1
        return n_asked

    with ThreadPoolExecutor(3) as readers:
        asking = [readers.submit(ask, reader) for reader in range(3)]
        try:
            for number in range(12):
                graphs.push(graph, (f"n{number}", "hub"))
                n_pushed = number + 1
                if number % 2:
                    graphs.ingest(graph)
        finally:
            is_done = True
        assert all(each.result() > 0 for each in asking)


def test_nodes_of_large_and_gathered_pushes_are_known(graphs: Graphs) -> None:
    graph = graphs.create("g")
    graphs.push(graph, *[(f"n{number}", f"m{number}") for number in range(5_000)])
    graphs.push(graph, ("a", "b"))
    asked = node_array(["m4999", "b", "z"], "string")
    assert graphs.nodes.knows(graph, asked).tolist() == [True, True, False]
    lease = LeaseStore(graphs.database).acquire(f"ingest:{graph.id}", "test", 60.0)
    assert lease is not None
    directory = GraphPaths(root=graphs.settings.graphs_directory / graph.id).pushes
    assert gather_pushes(graphs.manifest.push_log, graph, directory, lease=lease) == 1
    assert graphs.nodes.knows(graph, asked).tolist() == [True, True, False]


def test_only_so_many_indexes_stay_open(graphs: Graphs) -> None:
    node = pa.array(["a"], pa.large_string())
    made = [graphs.create(f"g{number}") for number in range(MAX_OPEN + 2)]
    for graph in made:
        graphs.nodes.lookup(graph, node)
    graphs.push(made[0], ("a", "b"))
    graphs.ingest(made[0])
    assert graphs.nodes.lookup(made[0], node).tolist() == [0]
