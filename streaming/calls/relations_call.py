"""`sparsify_relations` for notebooks and scripts: one call from several kinds of edges to graphs.

They go through the stream of a graph that is kept for the call alone: one node index, one budget.
"""

import math
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Progress, Watch
from peewit.solvers.relations.relation_names import check_relation_name
from peewit.streaming.calls.dask_partitions import DaskPartitions, is_dask
from peewit.streaming.calls.in_memory import (
    Edges,
    columns_in_memory,
    edge_table,
    node_kind_of,
    node_kind_of_file,
)
from peewit.streaming.calls.sparsified import Sparsified, SparsifiedRelations
from peewit.streaming.calls.warned_oddities import warn_of_files, warn_of_ids
from peewit.streaming.container_limits import n_usable_processors
from peewit.streaming.edge_budget import edge_budget
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import NO_COLUMN, EdgeColumns
from peewit.streaming.edges.node_kinds import NodeKind, split_column
from peewit.streaming.edges.parts import PART_ROWS, EdgeFile
from peewit.streaming.edges.reading_options import MissingIds, Quote
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.events import Duplicate, IngestEvent, Quarantined
from peewit.streaming.events import Progress as GroupDone
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.nodes.index import DEFAULT_MAX_NODES, open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import RelationMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import EXPECTED_NODES, SparsifierSettings

_ByRelation = str | Mapping[str, str]


def sparsify_relations(
    edges: Mapping[str, Edges] | Edges,
    epsilon: float | None = None,
    *,
    seed: int = 0,
    max_edges: int | None = None,
    n_nodes: int | None = None,
    src: _ByRelation = "src",
    dst: _ByRelation = "dst",
    weight: _ByRelation = "weight",
    relation_column: str | None = None,
    entity: str | None = None,
    via: Sequence[str] = (),
    node_ids: NodeKind | None = None,
    op: Literal[""] | None = None,
    quote: Quote | None = None,
    missing_ids: MissingIds = "refuse",
    max_bad_rows: int = 0,
    n_threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> SparsifiedRelations:
    """Graphs of several kinds of edges over the same nodes, each thinned by itself.

    Edges are as `sparsify` takes them: a mapping of the names of relations to the edges of each, or
    one table. Of that either ``relation_column`` names the relation of each row, or a row is an
    event, which joins its ``entity`` with each of its columns ``via``, by a relation of that name.
    Partitions of dask pass through files of a temporary directory.

    Parameters
    ----------
    edges : mapping of str to edges, or table, path or URL
        See `sparsify`. Nodes of the same id are the same in all relations.
    epsilon : float or None
        Spectral error asked of each relation, in (0, 1); None as in `sparsify`.
    seed : int
        Equal seeds and edges give equal sparsifiers, whatever the number of threads.
    max_edges : int or None
        Most edges to keep of all relations together; see `sparsify`. Small ones are kept whole.
    n_nodes : int or None
        Number of nodes, where it is known: more are refused.
    src, dst, weight : str, or mapping of str to str
        What the columns of tables are called, or by relation where they differ.
        ``account:user_id`` names the kind of its nodes, too, in all relations or in none.
    relation_column : str or None
        Column of one table with the name of each row's relation.
    entity : str or None
        Column of a table of events that is joined with each of ``via``.
    via : sequence of str
        Columns of events that the entity is joined with; an empty cell makes no edge.
    node_ids : {"string", "int64", "dense"} or None
        What ids are; see `sparsify`.
    op, quote, missing_ids, max_bad_rows, n_threads, storage_options, progress
        See `sparsify`; ``progress`` is told how many tables are done.

    Returns
    -------
    SparsifiedRelations
        A mapping of names of relations to what `sparsify` returns.

    Raises
    ------
    BadEdges
        A rule of the edge contract is broken; a ValueError that names table, rule, row and value.
    TypeError, ValueError
        As of `sparsify`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from peewit.streaming import sparsify_relations
    >>> logins = pa.table({"user": ["ann", "bob"], "device": ["d1", "d1"]})
    >>> messages = pa.table({"from": ["ann"], "to": ["cid"]})
    >>> both = sparsify_relations(
    ...     {"login": logins, "message": messages},
    ...     src={"login": "account:user", "message": "account:from"},
    ...     dst={"login": "device:device", "message": "account:to"},
    ... )
    >>> {name: each.edges_kept for name, each in both.items()}
    {'login': 2, 'message': 1}
    >>> both.external_ids.to_pylist()
    ['account:ann', 'device:d1', 'account:bob', 'account:cid']

    A table of events, a star around each row's entity:

    >>> events = pa.table({"user": [1, 2], "card": [7, 7], "phone": [None, 5]})
    >>> stars = sparsify_relations(events, entity="account:user", via=["card:card", "phone:phone"])
    >>> {name: (each.edges_kept, each.left_out.empty_cells) for name, each in stars.items()}
    {'card': (2, 0), 'phone': (1, 1)}
    """
    n_threads = n_usable_processors() if n_threads is None else n_threads
    if epsilon is None and max_edges is None:
        max_edges = edge_budget()
    named = {"src": src, "dst": dst, "weight": weight}
    columns_of = partial(
        EdgeColumns, op=NO_COLUMN if op == "" else op, quote=quote, missing_ids=missing_ids
    )
    if isinstance(edges, Mapping):
        events = {"relation_column": relation_column, "entity": entity, "via": tuple(via)}
        for argument, value in events.items():
            if value:
                raise ValueError(
                    f"{argument} is for one table with several relations; leave it out of a "
                    f"mapping, got {value!r}"
                )
        columns = _columns_by_relation(edges, named, columns_of)
        tables = [(each, columns[name]) for name, each in edges.items()]
    else:
        tables = [(edges, _columns_of_one(named, relation_column, entity, via, columns_of))]
    with tempfile.TemporaryDirectory(prefix="peewit-") as directory:
        paths = GraphPaths(root=Path(directory))
        listing = _Listing(paths, max_bad_rows, dict(storage_options or {}))
        for each, own in tables:
            listing.add(each, own)
        settings = StreamSettings(
            node_kind=node_ids or listing.node_kind,
            max_nodes=n_nodes or DEFAULT_MAX_NODES,
            sparsifier=SparsifierSettings(
                epsilon=epsilon,
                seed=seed,
                max_edges=max_edges,
                expected_nodes=max(n_nodes or EXPECTED_NODES, 2),
            ),
            n_threads=n_threads,
            checkpoint_seconds=math.inf,
        )
        on_event = _OnEvent(listing, Watch(progress=progress))
        stream = Stream(paths, settings, on_event=on_event)
        stream.ingest(listing.files)
        if on_event.of_others:
            stream.ingest(list(on_event.of_others.values()))
        in_order = edges if isinstance(edges, Mapping) else [split_column(each)[1] for each in via]
        result = _result(paths, settings, list(in_order), max(n_nodes or 0, listing.n_nodes))
        warn_of_files(listing.files, settings.node_kind, settings.max_nodes, stacklevel=3)
        warn_of_ids(result.external_ids, settings.node_kind, stacklevel=3)
        return result


def _columns_by_relation(
    edges: Mapping[str, Edges],
    named: Mapping[str, _ByRelation],
    columns_of: Callable[..., EdgeColumns],
) -> dict[str, EdgeColumns]:
    """Columns of the table of each relation."""
    if not edges:
        raise ValueError("edges must have at least one relation, got an empty mapping")
    for argument, value in named.items():
        unknown = [] if isinstance(value, str) else [name for name in value if name not in edges]
        if unknown:
            known = ", ".join(map(str, edges))
            raise ValueError(f"{argument} must name relations of {known}, got {unknown[0]!r}")
    return {
        name: columns_of(
            relation=check_relation_name(name),
            **{
                argument: value if isinstance(value, str) else value.get(name, argument)
                for argument, value in named.items()
            },
        )
        for name in edges
    }


def _columns_of_one(
    named: Mapping[str, _ByRelation],
    relation_column: str | None,
    entity: str | None,
    via: Sequence[str],
    columns_of: Callable[..., EdgeColumns],
) -> EdgeColumns:
    """Columns of one table with several relations."""
    for argument, value in named.items():
        if not isinstance(value, str):
            rule = f"{argument} must be one name where edges are one table"
            raise ValueError(f"{rule}, got {value!r}")
    if isinstance(via, str):
        raise ValueError(f"via must be a sequence of names, as ({via!r},), got {via!r}")
    if (relation_column is None) == (not via):
        raise ValueError(
            "edges must be a mapping of relations to their edges, or one table with a "
            "relation_column, or with an entity and via"
        )
    if (entity is None) != (not via):
        raise ValueError(f"entity and via must stand together, got {entity!r} and {tuple(via)!r}")
    if entity is not None:
        named = {**named, "src": entity}
    return columns_of(**named, relation_column=relation_column, via=tuple(via))


class _Listing:
    """Files to read: those named, and one for each table in memory, with what is known of each."""

    def __init__(self, paths: GraphPaths, max_bad_rows: int, storage: dict[str, Any]) -> None:
        self.files: list[EdgeFile] = []
        self.n_nodes = 0  # where matrices or graphs tell
        self._words: dict[str, str] = {}
        self._node_kind: NodeKind | None = None
        self._paths = paths
        self._max_bad_rows = max_bad_rows
        self._storage = storage
        for each in (paths.pushes, paths.staging):
            each.mkdir(parents=True)

    @property
    def node_kind(self) -> NodeKind:
        """What ids are, by the first table."""
        return self._node_kind or "string"

    def told(self, path: str) -> str:
        """What people know a file by: of a table in memory its relation."""
        return self._words.get(path, path)

    def add(self, edges: Edges, columns: EdgeColumns) -> None:
        """List the edges of one relation, or those of one table of several."""
        if isinstance(edges, str | os.PathLike):
            source = EdgeFiles(
                edges, self._storage, columns=columns, max_bad_rows=self._max_bad_rows
            )
            files = source.list()
            for path in source.skipped_files:
                warnings.warn(f"passed over {path}: the name of a file must be UTF-8", stacklevel=4)
            if not files:
                raise ValueError(f"edges must name at least one table, got {source.url!r}")
            if any(columns.kinds):
                self._take_kind("typed")
            elif self._node_kind is None:
                with stage(files[0], self._paths.staging) as staged:
                    self._take_kind(node_kind_of_file(staged))
            for known in self.files:
                if known.path in {file.path for file in files}:
                    raise ValueError(
                        "edges must name each file in one relation, got it in two: "
                        f"{known.path!r}; say entity and via, or relation_column, of that table"
                    )
            self.files += files
            return
        if self._max_bad_rows:
            raise ValueError(f"max_bad_rows is for edges in files, got {self._max_bad_rows}")
        relation = "edges" if columns.relation is None else columns.relation
        if is_dask(edges):
            with closing(DaskPartitions(edges, columns).tables(1)) as partitions:
                for each in partitions:
                    word = f"{relation}, partition {each.number} (from 0)"
                    self._store(each.table, each.columns, word, is_of_arrays=each.is_of_arrays)
            return
        table, n_nodes = edge_table(edges, columns.weight)
        are_numbers = n_nodes is not None or isinstance(edges, tuple)
        self._store(table, columns_in_memory(edges, columns), relation, is_of_arrays=are_numbers)
        self.n_nodes = max(self.n_nodes, n_nodes or 0)

    def _store(
        self, table: pa.Table, columns: EdgeColumns, word: str, *, is_of_arrays: bool
    ) -> None:
        """List a file of a table, which people know by a word."""
        kind = node_kind_of(table.schema, columns)
        self._take_kind("dense" if kind == "int64" and is_of_arrays else kind)
        stored = self._paths.pushes / f"{len(self.files)}.parquet"
        pq.write_table(table, stored, compression="lz4", row_group_size=PART_ROWS)
        (file,) = EdgeFiles(stored, columns=columns).list()
        self._words[file.path] = word
        self.files.append(replace(file, again=True))  # equal tables count, each of them

    def _take_kind(self, kind: NodeKind) -> None:
        if self._node_kind is None:
            self._node_kind = kind
        elif "dense" in (kind, self._node_kind) and kind != self._node_kind:
            raise ValueError(
                "edges must be arrays, matrices and graphs in all relations, whose nodes are "
                "numbers, or in none; name the nodes of all by tables"
            )


class _OnEvent:
    """What events of the stream mean to a call: progress, or the end of it.

    A file whose content came before counts once in a relation, as of `sparsify`. ``of_others`` are
    files that came before in other relations alone, by relation and content, to be read again.
    """

    def __init__(self, listing: _Listing, watch: Watch) -> None:
        self.of_others: dict[tuple[str | None, str], EdgeFile] = {}
        self._listing = listing
        self._watch = watch
        self._numbers = {file.path: number for number, file in enumerate(listing.files)}
        self._relations = {file.path: file.columns.relation for file in listing.files}

    def __call__(self, event: IngestEvent) -> None:
        if isinstance(event, Quarantined):
            raise BadEdges(
                f"{self._listing.told(event.file.path)}: {event.reason}",
                row=event.row,
                value=event.value,
            )
        if isinstance(event, Duplicate):
            relation = event.file.columns.relation
            if relation != self._relations[event.original]:
                self.of_others[relation, event.digest] = replace(event.file, again=True)
        if isinstance(event, GroupDone):
            self._watch.step("tables", self._numbers[event.path], len(self._numbers))


def _result(
    paths: GraphPaths, settings: StreamSettings, names: Sequence[str], n_nodes: int
) -> SparsifiedRelations:
    """Graphs of the newest snapshot, by relation; empty ones of relations without an edge."""
    snapshots = SnapshotStore(paths.snapshots)
    number = snapshots.latest()
    kind = settings.node_kind
    n_known = 0
    metas: dict[str, RelationMeta] = {}
    graphs: dict[str, Graph] = {}
    if number is not None:
        n_known = snapshots.meta(number).n_nodes
        metas = {each.name: each for each in snapshots.meta(number).relations}
        graphs = snapshots.load_relations(number)
    names_of_nodes = None
    if kind != "dense":
        nodes = open_nodes(paths.nodes, kind=kind, n_nodes=n_known, writable=False)
        names_of_nodes = nodes.external_ids().combine_chunks()
        n_nodes = n_known
    n_nodes = max(n_nodes, n_known)
    found = {}
    for name in dict.fromkeys([*names, *metas]):
        meta = metas.get(name)
        found[name] = Sparsified(
            graph=_with_nodes(graphs.get(name), n_nodes),
            external_ids=names_of_nodes,
            edges_seen=meta.edges_seen if meta else 0,
            left_out=meta.left_out if meta else NO_ROWS,
            epsilon_expected=meta.epsilon_expected if meta else 0.0,
            max_edges=settings.sparsifier.max_edges,
            max_edges_bound=bool(meta and meta.sampling_constant is not None),
        )
    return SparsifiedRelations(relations=found, external_ids=names_of_nodes)


def _with_nodes(graph: Graph | None, n_nodes: int) -> Graph:
    """The graph with so many nodes; one without edges of None."""
    if graph is not None and graph.n_nodes == n_nodes:
        return graph
    none = np.zeros(0, np.int32)
    u, v, weight = (none, none, np.zeros(0)) if graph is None else graph.edges()
    return Graph.from_edges(u, v, weight, n_nodes=n_nodes)
