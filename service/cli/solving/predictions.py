"""`peewit predictions`: what came out of a solve."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import pyarrow as pa
import typer

from peewit.service.cli.labels.table_files import (
    LabelColumnOption,
    OutputFile,
    print_bytes,
    table_format,
    write_table,
)
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    JobOption,
    ModelName,
    command_group,
    open_home,
    say,
    tell,
)
from peewit.service.operations.here import Here
from peewit.service.operations.which import Which
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.sorted_rows import sorted_rows
from peewit.service.predictions.thresholds import with_answers
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
    with open_home() as home:
        which = Which(model=model, job=job, label_column=label_column)
        file = which.open(Here(home=home, is_local=True, note=say), home.graph(name))
        rows = _rows(file, sort, top, is_reversed=reverse)
        schema, batches = with_answers(
            file, rows, positive=positive, threshold=threshold, coverage=coverage
        )
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
    """The requested rows; wrong usage if they cannot be sorted so."""
    if sort is None:
        return file.shown() if top is None else _first_rows(file.shown(), top)
    try:
        return sorted_rows(file, sort, n_rows=top, is_reversed=is_reversed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sort") from error
