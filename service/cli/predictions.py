"""`peewit predictions` and `peewit evaluate`: what came out of a solve."""

from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    Session,
    command_group,
    open_session,
    print_fields,
    print_json,
    print_rows,
    tell,
)
from peewit.service.cli.table_files import (
    LabelOption,
    NodeOption,
    OutputFile,
    given,
    labels_of_file,
    print_bytes,
    table_format,
    write_table,
)
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.evaluation import Evaluation, RealEvaluation
from peewit.service.predictions.evaluation import evaluate as compare
from peewit.service.predictions.evaluation import evaluate_numbers as compare_numbers
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.sorted_rows import sorted_rows
from peewit.service.predictions.store import PredictionsNotFound, PredictionStore
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.formats import encode
from peewit.streaming.edges.table_formats import Format

app = command_group()

ModelName = Annotated[
    str | None, typer.Option(help="Its latest predictions; of any model by default.")
]


@app.command()
def predictions(
    name: GraphName,
    output: OutputFile = None,
    model: ModelName = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Order of the rows. By margin the least certain nodes come first, by node and "
            "label the least; by score, score:CLASS and variance the largest. Nodes that no label "
            "reaches come last.",
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many rows.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The opposite of --sort.")] = False,
    json: AsJson = False,
) -> None:
    """Write the latest predictions.

    Columns node, label, score, margin, reachable and, unless there are many, a score per class.
    Where labels are real numbers, label and score hold the number predicted and margin nothing.
    """
    if reverse and sort is None:
        raise typer.BadParameter("needs --sort", param_hint="--reverse")
    if output is not None:
        table_format(output, "--output")
    with open_session() as session:
        file = _latest(session, name, model)
        batches = _rows(file, sort, top, is_reversed=reverse)
        if output is None:
            lines = Format.NDJSON if json else Format.CSV
            print_bytes(encode(file.schema, batches, lines))
            return
        write_table(output, file.schema, batches)
    meta = file.meta
    n_rows = file.n_nodes if top is None else min(top, file.n_nodes)
    tell(
        f"wrote {n_rows:,} predictions of {meta.model} to {output} "
        f"(snapshot {meta.snapshot}, labels_seq {meta.labels_seq}, {meta.solver_status})",
        {"path": output, "n_nodes": n_rows, **asdict(meta)},
        as_json=json,
    )


@app.command()
def evaluate(
    name: GraphName,
    truth: Annotated[
        Path,
        typer.Argument(
            metavar="TRUTH", help="Columns node and label.", exists=True, dir_okay=False
        ),
    ],
    model: ModelName = None,
    node: NodeOption = None,
    label: LabelOption = None,
    json: AsJson = False,
) -> None:
    """Compare predictions with true labels.

    Only nodes that carry no label are judged: by accuracy, or where labels are real numbers by
    the size of the misses.
    """
    with open_session() as session:
        graph = session.graph(name)
        columns = label_columns(graph.settings.columns, given(node=node, label=label))
        rows = labels_of_file(truth, graph.settings.node_ids, columns)
        file = _latest(session, name, model)
        labels = LabelStore(session.database).current(graph.id, upto_seq=file.meta.labels_seq)
    predicted = file.table()
    result: Evaluation | RealEvaluation = (
        compare_numbers(predicted, rows, labels)
        if file.meta.score == "value"
        else compare(predicted, rows, labels)
    )
    if json:
        print_json({"model": file.meta.model, "snapshot": file.meta.snapshot, **asdict(result)})
        return
    print_fields({"model": file.meta.model, **_figures(result)})
    if not isinstance(result, Evaluation):
        return
    typer.echo()
    print_rows(
        ("class", "judged", "right", "part right"),
        (
            (
                str(each.label),
                each.n_judged,
                each.n_right,
                f"{each.n_right / each.n_judged:.4f}" if each.n_judged else None,
            )
            for each in result.classes
        ),
    )


def _rows(
    file: PredictionFile, sort: str | None, top: int | None, *, is_reversed: bool
) -> Iterator[pa.RecordBatch]:
    """The rows asked for; wrong usage where they cannot be sorted so."""
    if sort is None:
        return file.batches() if top is None else iter(file.table().slice(0, top).to_batches())
    try:
        return sorted_rows(file, sort, n_rows=top, is_reversed=is_reversed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sort") from error


def _figures(result: Evaluation | RealEvaluation) -> dict[str, object]:
    """What people are told first."""
    if isinstance(result, Evaluation):
        told: dict[str, object] = {
            "accuracy": None if result.accuracy is None else f"{result.accuracy:.4f}",
            "nodes judged": result.n_judged,
            "right": result.n_right,
        }
    else:
        told = {
            "RMSE": None if result.rmse is None else f"{result.rmse:.6g}",
            "MAE": None if result.mae is None else f"{result.mae:.6g}",
            "R^2": None if result.r2 is None else f"{result.r2:.4f}",
            "nodes judged": result.n_judged,
        }
    return told | {
        "left out, labeled": result.n_labeled,
        "left out, not in the graph": result.n_absent,
        "not reached by any label": result.n_unreachable,
    }


def _latest(session: Session, name: str, model: str | None) -> PredictionFile:
    store = PredictionStore(session.database, session.settings.graphs_directory)
    job = store.latest(session.graph(name).id, model)
    if job is None:
        command = f"peewit solve {name}"
        if model is None:
            raise PredictionsNotFound(f"{name} has no predictions yet; make some with `{command}`")
        # loads all models: a second
        import_module("peewit.service.tasks.solve_options").model_class(model)
        raise PredictionsNotFound(
            f"{name} has no predictions of {model} yet; make some with `{command} --model {model}`"
        )
    return store.read(job)
