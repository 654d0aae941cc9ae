"""`peewit predictions`: what came out of a solve."""

from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
import typer

from peewit.service.cli.labels.table_files import OutputFile, print_bytes, table_format, write_table
from peewit.service.cli.option_groups import with_groups
from peewit.service.cli.session import AsJson, GraphName, command_group, open_home, say, tell
from peewit.service.operations.here import Here
from peewit.service.operations.which import (
    Coverage,
    Order,
    Positive,
    SafeCsv,
    ThresholdValue,
    Which,
)
from peewit.service.predictions.prediction_files import PROVEN, PredictionFile
from peewit.service.predictions.thresholds import with_answers
from peewit.service.tables.formats import encode
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.table_formats import Format

app = command_group()


@app.command()
@with_groups
def predictions(
    name: GraphName,
    output: OutputFile = None,
    *,
    which: Which,
    order: Order,
    positive: Positive = None,
    threshold: ThresholdValue = None,
    coverage: Coverage = None,
    safe_csv: SafeCsv = False,
    json: AsJson = False,
) -> None:
    """Write what was predicted last, or by one job.

    Columns node, label, score, margin, reachable, labeled (whether the node carries a label) and,
    unless there are many, a score per class; variance, stability, proven and p_value:CLASS where
    the job was asked for variance, replicas, prove or sets.
    Where labels are real numbers, label and score hold the number predicted and margin nothing.
    With --positive CLASS --threshold T a node is CLASS where its score of CLASS is at least T, else
    the best of the other classes; `peewit threshold` chooses T. --coverage needs a solve with
    --set sets=auto; in CSV the labels of a set are parted by bars.
    """
    if positive is not None and threshold is None:
        raise typer.BadParameter("needs --threshold", param_hint="--positive")
    if output is not None:
        table_format(output, "--output")
    with open_home() as home:
        is_of_proof = order.unproven or order.sort == PROVEN
        opened = which.open_to_evaluate if is_of_proof else which.open  # notes changed labels
        file = opened(Here(home=home, is_local=True, note=say), home.graph(name))
        n_rows = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal n_rows
            for batch in rows:
                n_rows += batch.num_rows
                yield batch

        rows = _rows(file, order, threshold)
        schema, batches = with_answers(
            file, counted(), positive=positive, threshold=threshold, coverage=coverage
        )
        if output is None:
            lines = Format.NDJSON if json else Format.CSV
            print_bytes(encode(schema, batches, lines, safe_csv=safe_csv))
            return
        write_table(output, schema, batches, safe_csv=safe_csv)
    meta = file.meta
    tell(
        f"wrote {n_rows:,} predictions of {meta.model} to {output} "
        f"(snapshot {meta.snapshot}, labels_seq {meta.labels_seq}, {meta.solver_status})",
        {"path": output, "n_nodes": n_rows, **asdict(meta)},
        as_json=json,
    )


def _rows(file: PredictionFile, order: Order, threshold: float | None) -> Iterator[pa.RecordBatch]:
    """The requested rows; wrong usage if they cannot be had so."""
    try:
        return order.rows(file, threshold=threshold)
    except BadArgument as error:
        raise typer.BadParameter(str(error), param_hint=f"--{error.argument}") from error
