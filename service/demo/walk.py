"""`peewit demo`: the whole path on real digits, through the code that serves users.

The demo has its own home: a directory with the edges and labels it made, the database and the
predictions. Running it again deletes the demo's graph the way users do and makes it again, with the
labels that people gave; other graphs in that home stay.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from peewit.service.catalog import Catalog, GraphNotFound, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.demo.compile_ahead import compiling_ahead
from peewit.service.demo.digits import (
    digit_edges,
    digit_labels,
    draw_labels,
    write_pictures,
    write_shuffled,
)
from peewit.service.demo.own_home import require_idle, take_home
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.label_entry import Labeling
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.evaluation import evaluate
from peewit.service.predictions.store import PredictionStore
from peewit.service.settings import Settings
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import LabelValue, UploadedLabels
from peewit.service.tasks.kind_list import KINDS
from peewit.service.wire.evaluations import Evaluation
from peewit.service.wire.labels import LabelOrigin
from peewit.service.wire.solve_lines import solve_lines
from peewit.service.worker.run_one_job import run_until_finished
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.durable_files import publish_file
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore

GRAPH_NAME: Final = "digits"
MAX_EDGES: Final = 16_000
"""Fewer than there are, so that the demo shows what thinning does."""
LABELS_PER_CLASS: Final = 10
SEED: Final = 0

_MARKER: Final = ".peewit-demo"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFiles:
    """Files that the demo leaves in its directory for people to look at."""

    directory: Path

    @property
    def edges(self) -> Path:
        """The 100-nearest-neighbor graph, as it was ingested."""
        return self.directory / "edges.parquet"

    @property
    def labels(self) -> Path:
        """The labels that were given."""
        return self.directory / "labels.csv"

    @property
    def truth(self) -> Path:
        """Every image's digit."""
        return self.directory / "truth.csv"

    @property
    def items(self) -> Path:
        """A picture of each image, which the dashboard shows."""
        return self.directory / "items" / GRAPH_NAME

    @property
    def predictions(self) -> Path:
        """The predictions of every node."""
        return self.directory / "predictions.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The demo's figures."""

    directory: Path  # its home
    ingest_seconds: float
    solve_seconds: float
    snapshot: SnapshotMeta
    job: Job  # the solve
    evaluation: Evaluation  # on the nodes without a label


def run_demo(settings: Settings, tell: Tell) -> DemoResult:
    """Run the demo in ``settings.home``, which comes from `demo_settings`.

    ``tell`` receives one line of text per step. Raises a FileExistsError where the directory holds
    something else, a RuntimeError where a server runs on this home or the solve did not succeed.
    """
    files = DemoFiles(directory=settings.home)
    take_home(files.directory, _MARKER, "demo")
    require_idle(settings, "demo")
    with closing(open_database(settings.database)) as database:
        with compiling_ahead(settings):
            _write_inputs(files, tell)
            graph = _fresh_graph(database)
            tell(f"graph     {GRAPH_NAME!r} created, at most {MAX_EDGES:,} edges")
            snapshot, ingest_seconds = _ingest(database, settings, graph, files, tell)
        _put_labels(database, settings, graph, files, tell)
        job, solve_seconds = _solve(database, settings, graph, tell)
        evaluation = _write_and_compare(database, settings, job, files, tell)
    return DemoResult(
        directory=files.directory,
        ingest_seconds=ingest_seconds,
        solve_seconds=solve_seconds,
        snapshot=snapshot,
        job=job,
        evaluation=evaluation,
    )


def _write_inputs(files: DemoFiles, tell: Tell) -> None:
    started = time.monotonic()
    edges, truth = digit_edges(), digit_labels()
    labels = draw_labels(truth, LABELS_PER_CLASS, seed=SEED)
    write_shuffled(edges, files.edges, seed=SEED)
    for table, path in ((truth, files.truth), (labels, files.labels)):
        path.write_bytes(b"".join(encode(table.schema, table.to_batches(), Format.CSV)))
    write_pictures(files.items)
    n_groups = pq.read_metadata(files.edges).num_row_groups
    tell(
        f"data      {truth.num_rows:,} images of digits, {edges.num_rows:,} edges to nearest "
        f"neighbors in {n_groups} row groups, {time.monotonic() - started:.1f} s"
    )
    tell(f"          {_relative_path(files.edges)}")


def _fresh_graph(database: Database) -> GraphRecord:
    """The demo's graph without edges, with only the labels by hand of an earlier run."""
    catalog = Catalog(database)
    by_hand: list[tuple[str, LabelValue, LabelOrigin, str | None]] = []
    try:
        earlier = catalog.get(GRAPH_NAME)
    except GraphNotFound:
        pass
    else:
        by_hand = _labels_by_hand(database, earlier)
        catalog.delete(earlier.id, cancel_jobs=JobQueue(database).cancel_graph)
    n_images = digit_labels().num_rows
    graph = catalog.create(
        GraphSettings(name=GRAPH_NAME, max_edges=MAX_EDGES, expected_nodes=n_images, seed=SEED)
    )
    if by_hand:  # now, since this run may fail before it puts labels
        nodes, labels, origins, annotators = zip(*by_hand, strict=True)
        LabelStore(database).put(graph.id, nodes, labels, origin=origins, annotator=annotators)
    return graph


def _labels_by_hand(
    database: Database, graph: GraphRecord
) -> list[tuple[str, LabelValue, LabelOrigin, str | None]]:
    """Number labels that the demo has not put itself; text, which cannot stay, is left out."""
    drawn = _labels(draw_labels(digit_labels(), LABELS_PER_CLASS, seed=SEED)).last_of_each()
    current = LabelStore(database).current(graph.id)
    columns = current.nodes, current.origins, current.annotators
    nodes, origins, annotators = (column.to_pylist() for column in columns)
    rows = zip(nodes, current.labels, origins, annotators, strict=True)
    return [row for row in rows if drawn.get(row[0]) != row[1] and not isinstance(row[1], str)]


def _ingest(
    database: Database, settings: Settings, graph: GraphRecord, files: DemoFiles, tell: Tell
) -> tuple[SnapshotMeta, float]:
    started = time.monotonic()
    Manifest(database).sources.add(graph.id, str(files.edges))
    Ingestor(database, settings).ingest_graph(graph.id)
    seconds = time.monotonic() - started
    store = SnapshotStore(GraphPaths(root=settings.graphs_directory / graph.id).snapshots)
    number = store.latest()
    if number is None:
        raise RuntimeError(f"no snapshot came of {files.edges}; `peewit source list` says why")
    meta = store.meta(number)
    tell(
        f"ingest    {meta.edges_seen:,} edges in, {meta.edges_kept:,} kept, at most "
        f"{MAX_EDGES:,} whatever comes, {meta.n_nodes:,} nodes, {seconds:.1f} s"
    )
    tell(
        f"          snapshot {meta.number} stands for all edges within epsilon "
        f"{meta.epsilon_expected:.2f}"
    )
    return meta, seconds


def _put_labels(
    database: Database, settings: Settings, graph: GraphRecord, files: DemoFiles, tell: Tell
) -> None:
    drawn = draw_labels(digit_labels(), LABELS_PER_CLASS, seed=SEED)
    by_hand = LabelStore(database).current(graph.id).nodes
    missing = drawn.filter(pc.invert(pc.is_in(drawn["node"], by_hand.cast(pa.string()))))
    receipt = _labeling(database, settings).put(graph, {"": _labels(missing)})
    by_hand_text = f", {len(by_hand)} by hand kept" if len(by_hand) else ""
    tell(
        f"labels    {receipt.accepted} put, {LABELS_PER_CLASS} of each digit{by_hand_text}, "
        f"labels_seq {receipt.labels_seq}"
    )
    tell(f"          {_relative_path(files.labels)}")


def _labeling(database: Database, settings: Settings) -> Labeling:
    return Labeling(
        database=database,
        labels=LabelStore(database),
        nodes=KnownNodes(settings.graphs_directory, Manifest(database)),
    )


def _labels(table: pa.Table) -> UploadedLabels:
    return UploadedLabels(nodes=table["node"].to_pylist(), labels=table["label"].to_pylist())


def _solve(
    database: Database, settings: Settings, graph: GraphRecord, tell: Tell
) -> tuple[Job, float]:
    started = time.monotonic()
    spec = KINDS["solve"].spec(graph.id, model=DEFAULT_MODEL, parameters={})
    job = JobQueue(database).submit(spec)
    job = run_until_finished(database, settings, job.id)
    seconds = time.monotonic() - started
    if job.status is not JobStatus.SUCCEEDED or job.result is None:
        raise RuntimeError(f"the solve must succeed, it is {job.status}: {job.error}")
    spent = ", ".join(f"{phase} {taken:.2f}" for phase, taken in job.result["seconds"].items())
    tell(f"solve     {DEFAULT_MODEL}, {job.result['status']}, {seconds:.1f} s ({spent})")
    for line in solve_lines(job.result, graph=GRAPH_NAME)[:2]:  # the third is of drawing labels
        tell(f"          {line}")
    return job, seconds


def _write_and_compare(
    database: Database, settings: Settings, job: Job, files: DemoFiles, tell: Tell
) -> Evaluation:
    file = PredictionStore(database, settings.graphs_directory).read(job)
    pieces = encode(file.schema, file.batches(), Format.PARQUET)
    publish_file(files.predictions, lambda path: _write(path, b"".join(pieces)))
    truth = _labels(digit_labels())
    labels = LabelStore(database).current(job.graph_id, upto_seq=file.meta.labels_seq)
    result = evaluate(file.table(), truth, labels)
    tell(f"predict   {file.n_nodes:,} nodes written")
    tell(f"          {_relative_path(files.predictions)}")
    tell(f"accuracy  {result.accuracy:.4f} on the {result.n_judged:,} nodes without a label")
    return result


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _relative_path(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
