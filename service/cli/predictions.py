"""`peewit predictions`: what came out of a solve."""

from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from shlex import quote
from typing import Annotated

import pyarrow as pa
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    JobOption,
    ModelName,
    Session,
    command_group,
    open_session,
    say,
    tell,
)
from peewit.service.cli.table_files import (
    LabelColumnOption,
    OutputFile,
    print_bytes,
    table_format,
    write_table,
)
from peewit.service.database.read_cache import Recent
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.job import Job
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.reader import PredictionReader
from peewit.service.predictions.sorted_rows import sorted_rows
from peewit.service.predictions.store import PredictionsNotFound, PredictionStore
from peewit.service.predictions.thresholds import (
    asked_threshold,
    with_threshold,
)
from peewit.service.tables.formats import encode
from peewit.streaming.edges.table_formats import Format

app = command_group()


Positive = Annotated[
    str | None, typer.Option(metavar="CLASS", help="The class that the threshold decides.")
]
ThresholdValue = Annotated[
    float | None,
    typer.Option("--threshold", help="CLASS where its score is at least that."),
]


@app.command()
def predictions(
    name: GraphName,
    output: OutputFile = None,
    model: ModelName = None,
    label_column: LabelColumnOption = None,
    job: JobOption = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Order of the rows. By margin and stability the least certain nodes come "
            "first, by node and label the least; by score, score:CLASS and variance the largest. "
            "Nodes that no label reaches come last.",
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many rows.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The opposite of --sort.")] = False,
    positive: Positive = None,
    threshold: ThresholdValue = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Add labels, a set that holds the true one with that chance, and certain: "
            "whether it holds one alone."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Write the latest predictions, or those of one job.

    Columns node, label, score, margin, reachable and, unless there are many, a score per class;
    variance, stability and p_value:CLASS where the job was asked for variance, replicas or sets.
    Where labels are real numbers, label and score hold the number predicted and margin nothing.
    With --positive CLASS --threshold T a node is CLASS where its score of CLASS is at least T, else
    the best of the other classes; `peewit threshold` chooses T. --coverage needs a solve with
    --set sets=auto; in CSV the labels of a set are parted by bars.
    """
    if positive is not None and threshold is None:
        raise typer.BadParameter("needs --threshold", param_hint="--positive")
    if threshold is not None and sort in {"label", "score", "margin"}:
        raise typer.BadParameter(
            f"must be node, reachable or score:CLASS beside --threshold, got {sort}",
            param_hint="--sort",
        )
    if reverse and sort is None:
        raise typer.BadParameter("needs --sort", param_hint="--reverse")
    if output is not None:
        table_format(output, "--output")
    with open_session() as session:
        file = predictions_file(session, name, model, label_column, job)
        chosen = asked_threshold(file, positive=positive, threshold=threshold)
        batches = _rows(file, sort, top, is_reversed=reverse)
        schema = file.schema
        if chosen is not None:
            batches = with_threshold(file, batches, chosen)
        if coverage is not None:
            found = LabelSets.of(file, coverage)
            batches, schema = found.with_sets(batches), found.schema
        if output is None:
            lines = Format.NDJSON if json else Format.CSV
            print_bytes(encode(schema, batches, lines))
            return
        write_table(output, schema, batches)
    meta = file.meta
    n_rows = file.n_nodes if top is None else min(top, file.n_nodes)
    tell(
        f"wrote {n_rows:,} predictions of {meta.model} to {output} "
        f"(snapshot {meta.snapshot}, labels_seq {meta.labels_seq}, {meta.solver_status})",
        {"path": output, "n_nodes": n_rows, **asdict(meta)},
        as_json=json,
    )


def _first_rows(batches: Iterator[pa.RecordBatch], n_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if n_rows <= 0:
            return
        yield batch.slice(0, n_rows)
        n_rows -= batch.num_rows


def _rows(
    file: PredictionFile, sort: str | None, top: int | None, *, is_reversed: bool
) -> Iterator[pa.RecordBatch]:
    """The rows asked for; wrong usage where they cannot be sorted so."""
    if sort is None:
        return file.shown() if top is None else _first_rows(file.shown(), top)
    try:
        return sorted_rows(file, sort, n_rows=top, is_reversed=is_reversed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sort") from error


def prediction_reader(session: Session) -> PredictionReader:
    """What finds predictions, and nodes in them."""
    graphs_directory = session.settings.graphs_directory
    return PredictionReader(
        store=PredictionStore(session.database, graphs_directory),
        jobs=JobQueue(session.database),
        nodes=KnownNodes(graphs_directory, session.manifest),
        recent=Recent(session.database),
    )


def predictions_file(
    session: Session, name: str, model: str | None, label_column: str | None, job: str | None
) -> PredictionFile:
    """The predictions of a job or the latest, or why there are none and what to do."""
    reader, graph = prediction_reader(session), session.graph(name)
    if job is not None:
        job_id = reader.jobs.resolve(job)
        return reader.open(reader.find(graph, model=model, job_id=job_id, column=label_column))
    file = reader.open(_latest(reader.store, session, graph, model, label_column))
    newest = graph.progress.snapshot
    of_column = f" --label-column {quote(label_column)}" if label_column else ""
    if newest is not None and file.meta.snapshot < newest:
        say(
            f"these are of snapshot {file.meta.snapshot}, and {name} has snapshot {newest} by now: "
            f"`peewit solve {name}{of_column}` predicts with what came since"
        )
    return file


def _latest(
    store: PredictionStore,
    session: Session,
    graph: GraphRecord,
    model: str | None,
    label_column: str | None,
) -> Job:
    """The job with the freshest predictions."""
    job = store.latest(graph.id, model, column=label_column or "")
    if job is None:
        if label_column is not None:
            LabelStore(session.database).require_column(graph.id, label_column)
        if model is not None:  # loads all models: a second
            import_module("peewit.service.tasks.solve_options").model_class(model)
        name, of_what = graph.settings.name, "" if model is None else f" of {model}"
        command = f"peewit solve {name}" + ("" if model is None else f" --model {model}")
        if label_column is not None:
            of_what += f" of label column {label_column!r}"
            command += f" --label-column {quote(label_column)}"
        raise PredictionsNotFound(
            f"{name} has no predictions{of_what} yet; make some with `{command}`"
        )
    return job
