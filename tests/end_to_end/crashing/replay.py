"""The same files and labels in their recorded order on a second home that nothing disturbs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.crashing.checks import History
from tests.end_to_end.crashing.live_edges import live_edges, named_edges, newest_meta, rows_of
from tests.end_to_end.crashing.load import AUTO_MODEL, GRAPH
from tests.end_to_end.crashing.record import Record
from tests.end_to_end.crashing.system import SETTINGS
from tests.end_to_end.processes import Home

MODELS = (AUTO_MODEL, "stable-hfs")


def check_replay(
    disturbed: Home, record: Record, history: History, directory: Path
) -> Iterator[str]:
    """Final edges, nodes and predictions of fresh solves equal those of the replay.

    Where files or nodes have left, nodes that they brought keep their numbers: then it is the edges
    that live which are compared, by the names of their ends.
    """
    settings = SETTINGS | {"PEEWIT_CHECKPOINT_SECONDS": "30"}  # thousands of files are quick then
    home = Home(directory / "home", **settings)
    try:
        again = _replayed(home, record, history, directory / "files")
        yield from _compare_graphs(history, again)
        if history.graph.settings.deletions == "exact":
            return  # what was sampled anew depends on the moments of snapshots
        for model in MODELS:
            tables = [
                _solved(each, directory / f"{model}-{number}.arrow", model)
                for number, each in enumerate((disturbed, home))
            ]
            if not tables[0].equals(tables[1]):
                yield f"predictions of {model} differ: {_difference(*tables)}"
    finally:
        home.end()


def _replayed(home: Home, record: Record, history: History, ordered: Path) -> History:
    ordered.mkdir(parents=True)
    for number, rows in enumerate(rows_of(record, history)):
        unnamed = pa.array([""] * len(rows), pa.string())
        is_named = "relation" in rows.column_names
        table = rows if is_named else rows.append_column("relation", unnamed)
        pq.write_table(table, ordered / f"{number:08}.parquet")
    chosen = history.graph.settings
    home.run(
        *("graph", "create", GRAPH, "--epsilon", chosen.epsilon, "--seed", chosen.seed),
        *("--expected-nodes", chosen.expected_nodes, "--deletions", chosen.deletions),
    )
    columns = ("--relation-column", "relation", "--missing-ids", "keep")
    home.run("ingest", GRAPH, ordered, *columns)
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    try:
        graph_id = Catalog(database).get(GRAPH).id
        store = LabelStore(database)
        with database.write() as connection:
            for node, label in filter(None, history.events):
                if label is None:
                    store.delete(graph_id, [node], connection=connection)
                else:
                    store.put(graph_id, [node], [label], connection=connection)
        return History.of(database, settings)
    finally:
        database.close()


def _compare_graphs(disturbed: History, replayed: History) -> Iterator[str]:
    if replayed.events != list(filter(None, disturbed.events)):
        yield "the label events of the replay differ: a removal found no label to remove"
    both = disturbed, replayed
    is_exact = disturbed.graph.settings.deletions == "exact"
    if is_exact:
        for history, n_live in zip(both, (live_edges(each).num_rows for each in both), strict=True):
            meta = newest_meta(history)
            if meta.n_live != n_live:
                yield f"snapshot {meta.number} tells {meta.n_live} live edges of {n_live}"
    if not disturbed.is_insert_only:
        lives = [named_edges(each) for each in both]
        if lives[0] != lives[1]:
            yield f"the edges that live differ: {lives[0] - lives[1]}, {lives[1] - lives[0]}"
        return
    kept = () if is_exact else ("edges_kept", "epsilon_expected")
    for name in ("n_nodes", "edges_seen", "left_out", *kept):
        was, again = (getattr(each.graph.progress, name) for each in both)
        if was != again:
            yield f"{name} is {was}, in the replay {again}"
    edges, nodes = zip(*(_graph(each) for each in both), strict=True)
    if not nodes[0].equals(nodes[1]):
        yield "the node indexes differ"
    if is_exact:
        edges = tuple(map(live_edges, both))
    if not edges[0].equals(edges[1]):
        which = "that live" if is_exact else "of the last snapshots"
        yield f"the edges {which} differ: {edges[0].num_rows}, {edges[1].num_rows}"


def _graph(history: History) -> tuple[pa.Table, pa.ChunkedArray]:
    """Edges of the newest snapshot and the ids of its nodes."""
    snapshots = SnapshotStore(history.paths.snapshots)
    number = snapshots.numbers()[-1]
    nodes = open_nodes(history.paths.nodes, kind="string", writable=False)
    return snapshots.edges(number), nodes.external_ids(0, snapshots.meta(number).n_nodes)


def _solved(home: Home, path: Path, model: str) -> pa.Table:
    """Predictions of a solve by a process that knows nothing from before."""
    home.run("solve", GRAPH, "--model", model)
    home.run("predictions", GRAPH, "--model", model, "-o", path)
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_stream(file).read_all().replace_schema_metadata(None)


def _difference(one: pa.Table, other: pa.Table) -> str:
    if one.num_rows != other.num_rows:
        return f"{one.num_rows} and {other.num_rows} rows"
    n_labels = sum(
        u != v for u, v in zip(*(each["label"].to_pylist() for each in (one, other)), strict=True)
    )
    score = np.abs(one["score"].to_numpy() - other["score"].to_numpy()).max()
    return f"{n_labels} labels, scores by up to {score:.3g}"
