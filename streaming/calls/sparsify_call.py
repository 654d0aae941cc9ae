"""`sparsify` for notebooks and scripts: one call from edges to a sparsifier, nothing kept on disk.

`graph_stream.Stream` is the stream of a graph that is kept, followed and resumed.
"""

import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from peewit.solvers.graph import Graph
from peewit.solvers.interchange import is_anndata
from peewit.solvers.iteration_loop import UNWATCHED, Progress, Watch
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.calls.dask_partitions import DaskPartitions, blocks_of_partitions, is_dask
from peewit.streaming.calls.in_memory import (
    Edges,
    columns_in_memory,
    edge_table,
    matrix_of_anndata,
    node_kind_of,
    node_kind_of_file,
)
from peewit.streaming.calls.sparsified import Sparsified
from peewit.streaming.calls.warned_oddities import warn_of_columns, warn_of_files, warn_of_ids
from peewit.streaming.cluster.sparsified_shares import ShareSettings, absorb_group, index_in_memory
from peewit.streaming.container_limits import n_usable_processors
from peewit.streaming.edge_budget import edge_budget
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock
from peewit.streaming.edges.column_mapping import NO_COLUMN, EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.conversion import is_read_in_place, with_count
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import PART_ROWS, StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.reading_options import MissingIds, Quote
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.nodes.index import DEFAULT_MAX_NODES, Nodes
from peewit.streaming.sparsifier.kelner_levin import (
    CopiesState,
    KelnerLevinSettings,
    copies_graph,
    kelner_levin,
)
from peewit.streaming.sparsifier.settings_and_state import (
    EXPECTED_NODES,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import expected_epsilon, sparsifier_graph, thinned

GROUP_BLOCKS: Final = 8
"""Blocks that are scored against one embedding."""

WAVE_SHARES: Final = 8
"""Shares that a cluster works on together."""

Method = Literal["bernoulli", "dependent", "kelner-levin"]
"""How edges are sampled; see ``sparsify``."""

METHODS: Final[tuple[Method, ...]] = get_args(Method)


def sparsify(
    edges: Edges,
    epsilon: float | None = None,
    *,
    method: Method = "dependent",
    seed: int = 0,
    max_edges: int | None = None,
    n_nodes: int | None = None,
    node_ids: NodeKind | None = None,
    src: str = "src",
    dst: str = "dst",
    weight: str = "weight",
    op: Literal[""] | None = None,
    quote: Quote | None = None,
    missing_ids: MissingIds = "refuse",
    max_bad_rows: int = 0,
    n_threads: int | None = None,
    scheduler: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Sparsified:
    """Graph of some edges: all of them while they are within the budget, else a sparsifier.

    A sparsifier has every quadratic form of the graph within ``1 +- epsilon``, and its components.
    Undirected: parallel edges and both orientations of an edge sum; self-loops and rows of weight 0
    are left out.

    Parameters
    ----------
    edges : path or URL, table, list of tuples, tuple of arrays, sparse matrix or graph
        - A file (Parquet, CSV, TSV, NDJSON, Arrow; packed or not), a directory of these, a glob, or
          any fsspec URL: columns ``src``, ``dst`` and, if there is one, ``weight``. Read in parts,
          never whole; files of equal content count once. Remote files, and those that are not
          Parquet, are copied, one at a time, to a temporary directory.
        - A table with these columns, from pyarrow or whatever speaks Arrow's stream interface
          (polars, pandas, duckdb).
        - A list of tuples ``(u, v)`` or ``(u, v, weight)``, or a networkx graph: edges without a
          ``weight`` weigh 1, nodes without edges are left out.
        - Arrays ``(u, v)`` or ``(u, v, weight)``.
        - A symmetric scipy.sparse adjacency matrix, or a ``peewit.solvers.graph.Graph``.
        - An AnnData: the matrix ``obsp["connectivities"]``, or another that ``weight`` names, with
          the names and the order of its observations.
        - A `dask.dataframe`, a `dask.bag` of tables, tuples or mappings, or a list of what
          `dask.delayed` made of tables: partitions are computed in order, one for each thread at a
          time, by the client that is connected, else here; how rows are dealt to them changes
          nothing.
    epsilon : float or None
        Spectral error asked, in (0, 1). None asks for none: every edge is kept until they pass
        ``max_edges``, and then as many as that; ``epsilon_expected`` tells what came of it.
    method : {"dependent", "bernoulli", "kelner-levin"}
        - ``dependent``: coins that even out the degrees of nodes (section B.6).
        - ``bernoulli``: one independent coin for each edge, hence many more of them.
        - ``kelner-levin``: N copies of each edge, as printed (section B.3), to compare with. For
          edges in memory. It may lose bridges; it needs an ``epsilon``; ``max_edges``, if given,
          is N.
    seed : int
        Equal seeds and edges give equal sparsifiers, whatever the number of threads or workers.
    max_edges : int or None
        Most edges to keep; wins over ``epsilon``. A spanning forest is kept even so. None where
        ``epsilon`` is None, too: 2.5 million for each GiB of the memory of this machine or
        container, at least one and at most 20 million; ``Sparsified.max_edges`` tells which.
    n_nodes : int or None
        Number of nodes, where it is known: more are refused, and nodes ``0 .. n_nodes - 1`` need
        not all have edges. Of files it also sets the logarithm in the sampling constant, which is
        that of a million nodes without it.
    node_ids : {"string", "int64", "dense"} or None
        What ids are. None takes strings and integers of files, tables, lists and networkx graphs
        as names, ``external_ids`` says of which node, and integers of arrays as the nodes
        ``0 .. n_nodes - 1`` themselves; ``dense`` asks for that, ``int64`` for names.
    src, dst, weight : str
        What the columns of files and tables are called. ``account:user_id`` names the kind of its
        nodes, too; ``external_ids`` then are ``account:17``.
    op : "" or None
        "" takes every row for an edge where a column of changes asks for deletes, which is refused.
    quote : {"double", "none"} or None
        Whether a double quote before a field of text quotes it; None looks, and refuses what is
        unclear.
    missing_ids : {"refuse", "keep"}
        What becomes of ids as NULL and NA.
    max_bad_rows : int
        Most rows of each file that may be left out because they break a rule.
    n_threads : int or None
        Threads that read and score; None for one per processor.
    scheduler : str or None
        Address of a dask.distributed scheduler whose workers see the files; None does it here.
    storage_options : mapping or None
        Passed to the fsspec file system of a URL.
    progress : callable or None
        Is told how many edges are done, of the table or of which file, as a `ProgressReport`;
        `peewit.ProgressBar` shows it.

    Returns
    -------
    Sparsified
        The graph, and what is known of it.

    Raises
    ------
    BadEdges
        A rule of the edge contract is broken; a ValueError that names rule, row and value.
    TypeError
        ``edges`` are none of these.
    ValueError
        An argument is out of its range or does not fit ``edges``.

    Examples
    --------
    The complete graph on 1,000 nodes has 499,500 edges. All of them fit; a tenth is enough for an
    error of .7:

    >>> import numpy as np
    >>> from peewit.streaming import sparsify
    >>> u, v = np.triu_indices(1000, 1)
    >>> sparsify((u, v)).edges_kept
    499500
    >>> result = sparsify((u, v), epsilon=0.7)
    >>> result.edges_seen, result.edges_kept < 50_000, result.graph.n_components
    (499500, True, 1)
    >>> result.epsilon_expected < 0.7
    True
    >>> round(float(result.adjacency.sum() / 2) / 499_500, 2)  # total weight is kept on average
    1.0

    Ids may be strings, here in a table with a weight for each edge:

    >>> import pyarrow as pa
    >>> table = pa.table({"src": ["ann", "bob"], "dst": ["bob", "cid"], "weight": [1.0, 2.0]})
    >>> friends = sparsify(table)
    >>> friends.external_ids.to_pylist()
    ['ann', 'bob', 'cid']
    >>> friends.lookup(["cid", "dan"]).tolist()
    [2, -1]
    """
    if n_nodes is not None and n_nodes < 1:
        raise ValueError(f"n_nodes must be at least 1, got {n_nodes}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    columns = EdgeColumns(
        src=src,
        dst=dst,
        weight=weight,
        op=NO_COLUMN if op == "" else op,
        quote=quote,
        missing_ids=missing_ids,
    )
    n_threads = n_usable_processors() if n_threads is None else n_threads
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    if any(columns.kinds):
        if node_ids not in (None, "typed"):
            rule = "node_ids must be left out where src and dst name kinds of nodes"
            raise ValueError(f"{rule}, got {node_ids!r}")
        node_ids = "typed"
    if method == "kelner-levin" and epsilon is None:
        raise ValueError("epsilon must lie in (0, 1) for method kelner-levin, got None")
    if epsilon is None and max_edges is None:
        max_edges = edge_budget()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="sparsify") as pool:
        call = _Call(
            epsilon=epsilon,
            method=method,
            seed=seed,
            max_edges=max_edges,
            n_nodes=n_nodes,
            n_threads=n_threads,
            parallel=pool.map,
            watch=Watch(progress=progress),
        )
        call.settings(2)  # refuses wrong values before anything is read
        if isinstance(edges, str | os.PathLike):
            if method == "kelner-levin":
                raise ValueError(f"method kelner-levin takes edges in memory, got {edges!r}")
            source = EdgeFiles(edges, storage_options, columns=columns, max_bad_rows=max_bad_rows)
            return _of_files(source, call, node_ids, scheduler)
        if is_dask(edges):
            _require_of_dask(method, scheduler, storage_options, max_bad_rows)
            return _of_partitions(edges, call, node_ids, columns)
        if scheduler is not None or storage_options is not None:
            name = "storage_options" if scheduler is None else "scheduler"
            raise ValueError(f"{name} is for edges in files, got edges of {type(edges).__name__}")
        if max_bad_rows:
            raise ValueError(f"max_bad_rows is for edges in files, got {max_bad_rows}")
        if is_anndata(edges):
            matrix, names = matrix_of_anndata(edges, weight)
            return replace(_of_table(matrix, call, node_ids, columns), external_ids=names)
        return _of_table(edges, call, node_ids, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Checked arguments of one call."""

    epsilon: float | None
    method: Method
    seed: int
    max_edges: int | None
    n_nodes: int | None
    n_threads: int
    parallel: Parallel
    watch: Watch = UNWATCHED

    @property
    def max_nodes(self) -> int:
        return self.n_nodes or DEFAULT_MAX_NODES

    def settings(self, n_nodes: int) -> SparsifierSettings:
        """Settings that decide which edges stay in a graph of about so many nodes."""
        return SparsifierSettings(
            epsilon=self.epsilon,
            seed=self.seed,
            max_edges=self.max_edges,
            expected_nodes=max(self.n_nodes or n_nodes, 2),
            coins="dependent" if self.method == "dependent" else "independent",
        )


def _require_of_dask(
    method: Method,
    scheduler: str | None,
    storage_options: Mapping[str, Any] | None,
    max_bad_rows: int,
) -> None:
    """Raise ValueError where arguments are for other edges than those of dask."""
    if method == "kelner-levin":
        raise ValueError(
            "method kelner-levin takes edges in memory, got those of dask; use dependent"
        )
    if scheduler is not None:
        raise ValueError(
            f"scheduler is for edges in files, got {scheduler!r}; connect a "
            "dask.distributed.Client, which then computes the partitions"
        )
    if storage_options is not None or max_bad_rows:
        name = "max_bad_rows" if storage_options is None else "storage_options"
        raise ValueError(f"{name} is for edges in files, got edges of dask; leave it out")


def _of_partitions(
    edges: Edges, call: _Call, kind: NodeKind | None, columns: EdgeColumns
) -> Sparsified:
    """Sparsifier of edges that dask computes, partition by partition."""
    partitions = DaskPartitions(edges, columns)
    settings, state = call.settings(EXPECTED_NODES), SparsifierState()
    with closing(partitions.tables(call.n_threads)) as reading:
        empty, first = [], next(reading)
        while not first.table.num_rows and (following := next(reading, None)) is not None:
            empty.append(first)
            first = following
        columns = first.columns
        if kind is None:
            kind = node_kind_of(first.table.schema, columns)
            kind = "dense" if kind == "int64" and first.is_of_arrays else kind
        nodes = index_in_memory(kind, hash_seed=call.seed, max_nodes=call.max_nodes)
        warn_of_columns(first.table, columns, first.names)

        raw_blocks = blocks_of_partitions(
            chain(empty, [first], reading),
            node_kind=kind,
            max_nodes=call.max_nodes,
            columns=columns,
            n_threads=call.n_threads,
            on_partition=lambda number: call.watch.step("partitions", number, len(partitions)),
        )
        with closing(raw_blocks):
            for group in _groups(map(nodes.map_block, raw_blocks)):
                state = absorb_group(
                    state, settings, group, n_nodes=nodes.n_nodes, parallel=call.parallel
                )
    call.watch.step("partitions", len(partitions), len(partitions))
    warn_of_ids(_external_ids(nodes, kind), kind)
    return _result(state, settings, nodes, kind, call)


def _of_table(edges: Edges, call: _Call, kind: NodeKind | None, columns: EdgeColumns) -> Sparsified:
    """Sparsifier of edges in memory: numbers first, so that the number of nodes is known."""
    table, n_nodes = edge_table(edges, columns.weight)
    columns = columns_in_memory(edges, columns)
    if n_nodes is not None:
        if call.n_nodes not in (None, n_nodes):
            raise ValueError(f"n_nodes must be that of the graph, {n_nodes}, got {call.n_nodes}")
        if kind not in (None, "dense"):
            raise ValueError(f"node_ids must be dense for a matrix or a graph, got {kind!r}")
    if kind is None:
        kind = node_kind_of(table.schema, columns)
        if kind == "int64" and (n_nodes is not None or isinstance(edges, tuple)):
            kind = "dense"
    max_nodes = n_nodes or call.max_nodes
    nodes = index_in_memory(kind, hash_seed=call.seed, max_nodes=max_nodes)
    blocks = list(_blocks(table, nodes, kind, max_nodes, columns))
    warn_of_columns(table, columns)
    warn_of_ids(_external_ids(nodes, kind), kind)
    n_known = n_nodes or (call.n_nodes if kind == "dense" else None) or nodes.n_nodes
    if call.method == "kelner-levin":
        return _of_copies(blocks, call, nodes, kind, n_known)
    settings = call.settings(n_known)
    state = SparsifierState(n_nodes=n_known)
    for group in _groups(blocks):
        call.watch.step("edges", state.n_rows_seen, table.num_rows)
        state = absorb_group(state, settings, group, n_nodes=n_known, parallel=call.parallel)
    call.watch.step("edges", state.n_rows_seen, table.num_rows)
    return _result(state, settings, nodes, kind, call)


def _of_copies(
    blocks: Sequence[EdgeBlock], call: _Call, nodes: Nodes, kind: NodeKind, n_nodes: int
) -> Sparsified:
    """Sparsifier of edges in memory by Kelner-Levin as printed."""
    if call.epsilon is None:
        raise AssertionError("copies were refused without epsilon")
    settings = KelnerLevinSettings(
        epsilon=call.epsilon, n_nodes=max(n_nodes, 2), n_copies=call.max_edges, seed=call.seed
    )
    n_rows = sum(block.n_rows for block in blocks)
    call.watch.step("edges", 0, n_rows)
    state = replace(kelner_levin(blocks, settings), n_nodes=n_nodes)
    call.watch.step("edges", n_rows, n_rows)
    return Sparsified(
        graph=copies_graph(state),
        external_ids=_external_ids(nodes, kind),
        edges_seen=n_rows,
        left_out=sum((block.left_out for block in blocks), NO_ROWS),
        epsilon_expected=_expected_of_copies(state, settings),
        max_edges=call.max_edges,
        max_edges_bound=call.max_edges is not None,
    )


def _expected_of_copies(state: CopiesState, settings: KelnerLevinSettings) -> float:
    """Error to expect of copies (B10'): the least sampled degree is counted, not modeled."""
    degree = np.zeros(state.n_nodes)
    for end in (state.u, state.v):
        degree += np.bincount(end, state.copies, state.n_nodes)
    touched = degree[degree > 0.0]
    if not touched.size:
        return 0.0
    per_leverage = settings.birth_copies * settings.share
    fluctuation = np.sqrt(2.0 * np.log(settings.n_nodes) / touched.min())
    return float(max(2.0 / np.sqrt(per_leverage), fluctuation))


def _external_ids(nodes: Nodes, kind: NodeKind) -> pa.Array | None:
    return None if kind == "dense" else nodes.external_ids().combine_chunks()


def _of_files(
    source: EdgeFiles, call: _Call, kind: NodeKind | None, scheduler: str | None
) -> Sparsified:
    files = source.list()
    for path in source.skipped_files:
        warnings.warn(f"passed over {path}: the name of a file must be UTF-8", stacklevel=3)
    if not files:
        raise ValueError(f"edges must name at least one table, got {source.url!r}")
    settings = call.settings(EXPECTED_NODES)
    state = SparsifierState()
    nodes: Nodes | None = None
    digests: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="peewit-") as directory:
        for number, file in enumerate(files, 1):
            with stage(
                file, Path(directory), node_kind=kind or "string", part_rows=PART_ROWS
            ) as staged:
                if nodes is None:
                    kind = kind or node_kind_of_file(staged)
                    nodes = index_in_memory(kind, hash_seed=call.seed, max_nodes=call.max_nodes)
                if kind is None or staged.digest in digests:
                    continue
                digests.add(staged.digest)
                shared = ShareSettings(
                    node_kind=kind,
                    max_nodes=call.max_nodes,
                    sparsifier=settings,
                    group_blocks=GROUP_BLOCKS,
                )
                phase = f"edges of file {number} of {len(files)}"
                call.watch.step(phase, 0, staged.n_rows)
                try:
                    if scheduler is None:
                        state = _absorb_here(state, nodes, staged, shared, call, phase)
                    else:
                        state = _absorb_on_cluster(
                            state, nodes, staged, shared, call, scheduler, phase
                        )
                except BadEdges as error:
                    fault = error
                    if is_read_in_place(staged.file, staged.local_path):
                        fault = with_count(
                            *(error, staged.file, staged.local_path, Path(directory) / "counted"),
                            node_kind=kind,
                            max_nodes=call.max_nodes,
                        )
                    reason = f"{file.path}: {fault.reason}"
                    raise BadEdges(
                        reason, argument=fault.argument, row=fault.row, value=fault.value
                    ) from error
                if not staged.is_unchanged():
                    raise BadEdges(f"{file.path} changed while it was read")
    if nodes is None or kind is None:
        raise AssertionError("a file was staged")
    warn_of_files(files, kind, call.max_nodes)
    warn_of_ids(_external_ids(nodes, kind), kind)
    return _result(state, settings, nodes, kind, call)


def _absorb_here(
    state: SparsifierState,
    nodes: Nodes,
    staged: StagedFile,
    settings: ShareSettings,
    call: _Call,
    phase: str,
) -> SparsifierState:
    n_before = state.n_rows_seen
    reading = read_parts(
        [(staged, part) for part in staged.parts],
        node_kind=settings.node_kind,
        max_nodes=settings.max_nodes,
        n_threads=call.n_threads,
    )
    with closing(reading):
        for group in _groups(map(nodes.map_block, reading)):
            state = absorb_group(
                state, settings.sparsifier, group, n_nodes=nodes.n_nodes, parallel=call.parallel
            )
            call.watch.step(phase, state.n_rows_seen - n_before, staged.n_rows)
    return state


def _absorb_on_cluster(
    state: SparsifierState,
    nodes: Nodes,
    staged: StagedFile,
    settings: ShareSettings,
    call: _Call,
    scheduler: str,
    phase: str,
) -> SparsifierState:
    from peewit.streaming.cluster.dask_ingest import Cluster  # noqa: PLC0415 - a slow import; only clusters need it

    n_before = state.n_rows_seen
    with Cluster(scheduler, settings, wave_shares=WAVE_SHARES) as cluster:
        next_part = 0
        while wave := cluster.next_wave(state, staged, next_part=next_part):
            state = cluster.absorb_wave(state, nodes, staged, wave, parallel=call.parallel)
            call.watch.step(phase, state.n_rows_seen - n_before, staged.n_rows)
            next_part = wave[-1][-1].number + 1
    return state


def _result(
    state: SparsifierState, settings: SparsifierSettings, nodes: Nodes, kind: NodeKind, call: _Call
) -> Sparsified:
    state = thinned(state, settings, parallel=call.parallel)
    graph = sparsifier_graph(state)
    if kind == "dense" and call.n_nodes is not None and call.n_nodes > graph.n_nodes:
        graph = Graph.from_edges(*graph.edges(), n_nodes=call.n_nodes)
    return Sparsified(
        graph=graph,
        external_ids=_external_ids(nodes, kind),
        edges_seen=state.n_rows_seen,
        left_out=state.left_out,
        epsilon_expected=expected_epsilon(state, settings),
        max_edges=call.max_edges,
        max_edges_bound=bool(np.isfinite(state.constant)),
    )


def _blocks(
    table: pa.Table, nodes: Nodes, kind: NodeKind, max_nodes: int, columns: EdgeColumns
) -> Iterator[EdgeBlock]:
    for first_row in range(0, table.num_rows, PART_ROWS):
        raw = read_columns(
            table.slice(first_row, PART_ROWS),
            node_kind=kind,
            max_nodes=max_nodes,
            columns=columns,
            first_row=first_row,
        )
        yield nodes.map_block(raw)


def _groups(blocks: Iterable[EdgeBlock]) -> Iterator[Sequence[EdgeBlock]]:
    remaining = iter(blocks)
    while group := list(islice(remaining, GROUP_BLOCKS)):
        yield group
