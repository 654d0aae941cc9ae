"""A graph that is fed by live sources: what its edges are, and what those of a table should be."""

from collections.abc import Iterable

from peewit.service.catalog import GraphRecord
from peewit.service.settings import Settings
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import live_blocks
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.checkpoints import CheckpointStore, living
from peewit.streaming.snapshots.store import SnapshotStore

Edges = dict[tuple[str, str], float]
"""Weight of each pair, its smaller end first."""


def graph_edges(settings: Settings, graph: GraphRecord) -> Edges:
    """Edges that live in the log of a graph at its newest snapshot; each pair stands once."""
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    snapshots = SnapshotStore(paths.snapshots)
    meta = snapshots.meta(snapshots.numbers()[-1])
    nodes = open_nodes(paths.nodes, kind="string", writable=False)
    names = nodes.external_ids(0, nodes.n_nodes).to_pylist()
    files = CheckpointStore(paths.checkpoints).clean().files
    found: Edges = {}
    for number, (relation, version) in enumerate(meta.log_versions.items()):
        log = ChangeLog(paths.relation_log(number))
        blocks = live_blocks(log, living(files, NEVER, relation), log.dead(version))
        rows = (row for _, each in blocks for row in zip(each.u, each.v, each.weight, strict=True))
        for u, v, weight in rows:
            pair = _pair(names[u], names[v])
            assert pair not in found, f"{pair} lives twice"
            found[pair] = float(weight)
    return found


def edges_after(rows: Iterable[tuple[str, str, float, str]]) -> Edges:
    """The dictionary that rows of (src, dst, weight, op) leave, one after another."""
    found: Edges = {}
    for src, dst, weight, op in rows:
        if src == dst:
            continue
        if op == "delete":
            found.pop(_pair(src, dst), None)
        else:
            found[_pair(src, dst)] = weight
    return found


def _pair(u: str, v: str) -> tuple[str, str]:
    return (u, v) if u < v else (v, u)
