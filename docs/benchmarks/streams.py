"""Streams and what they leave behind, in few words; cluster, window and rest by their settings."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.graph import Graph
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import Snapshot, SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

_OF_SPARSIFIER = {each.name for each in fields(SparsifierSettings)}


def opened(
    root: Path, on_event: Callable[[IngestEvent], None] | None = None, **settings: Any
) -> Stream:
    """The stream of a graph, dense unless told otherwise; settings of both kinds."""
    sparsifier = {name: settings.pop(name) for name in _OF_SPARSIFIER & settings.keys()}
    settings = {"node_kind": "dense", "sparsifier": SparsifierSettings(**sparsifier)} | settings
    told = {} if on_event is None else {"on_event": on_event}
    return Stream(GraphPaths(root=root), StreamSettings(**settings), **told)


def ingested(root: Path, files: Path, **settings: Any) -> Snapshot:
    """The snapshot of a graph whose edges are in files."""
    opened(root, **settings).ingest(EdgeFiles(files).list())
    return newest(root)


def store_of(root: Path) -> SnapshotStore:
    """The snapshots of a graph."""
    return SnapshotStore(GraphPaths(root=root).snapshots)


def newest(root: Path) -> Snapshot:
    """The last one of them."""
    store = store_of(root)
    return store.load(store.numbers()[-1])


def newest_meta(root: Path) -> SnapshotMeta:
    """What is known of it, without its edges."""
    return store_of(root).list()[-1]


def write_graph(path: Path, graph: Graph) -> None:
    """Write its edges, each once."""
    u, v, weight = graph.edges()
    pq.write_table(pa.table({"src": u, "dst": v, "weight": weight}), path)
