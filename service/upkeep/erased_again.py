"""Erasures of the ledger that a restored backup does not know."""

from collections.abc import Iterator

from sqlalchemy import select

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.tables import erasures, label_events
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.leaving.erasure_ledger import LEDGER, Ledger
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from peewit.service.tables.uploads import node_id


def erase_again(database: Database, settings: Settings) -> int:
    """Number of nodes hidden again, which the home's ledger names and the backup still had.

    A backup that does not know an erasure is older than it, and so is all it holds of the node.
    """
    path = settings.home / LEDGER
    if not path.exists():
        return 0
    ledger, manifest = Ledger(path), Manifest(database)
    with database.read() as connection:
        known = set(connection.execute(select(erasures.c.id)).scalars())
    missing = [each for each in ledger.entries() if each.erasure not in known]
    wanted: dict[str, set[str]] = {}
    for entry in missing:
        wanted.setdefault(entry.graph, set()).update(entry.nodes)
    nodes = KnownNodes(settings.graphs_directory, manifest)
    forgetting = Forgetting(
        log=manifest.erasures, nodes=nodes, home=settings.home, within_seconds=settings.erase_within
    )
    n_erased = 0
    for graph in Catalog(database).list():
        if graph.id not in wanted:
            continue
        by_hash = ledger.nodes_by_hash(_ids(database, graph, nodes), wanted[graph.id])
        for entry in missing:
            if entry.graph == graph.id:
                named = [by_hash[each] for each in entry.nodes if each in by_hash]
                ids = [node_id(each, graph.settings.node_ids) for each in named]
                n_erased += forgetting.erase(graph, ids, erasure_id=entry.erasure).n_nodes
    return n_erased


def _ids(database: Database, graph: GraphRecord, nodes: KnownNodes) -> Iterator[str]:
    """External ids, as text, of all nodes that a graph has or that wait for it."""
    seen: set[str] = set()
    for ids in nodes.all_ids(graph):
        new = {str(node) for node in ids.to_pylist() if node is not None} - seen
        seen |= new
        yield from new
    mine = select(label_events.c.node).where(label_events.c.graph_id == graph.id).distinct()
    with database.read() as connection:
        yield from set(connection.execute(mine).scalars()) - seen
