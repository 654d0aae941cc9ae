"""`peewit predict`: new points through the model of a solve."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from peewit.service.cli.labels.table_files import (
    LabelColumnOption,
    OutputFile,
    ZeroBased,
    print_bytes,
    table_format,
    write_table,
)
from peewit.service.cli.session import AsJson, GraphName, command_group, open_home, say, tell
from peewit.service.home import Home
from peewit.service.inbox.feature_tables import MATRIX_SUFFIX, point_rows
from peewit.service.jobs.job import Job, UnknownJob
from peewit.service.predictions.checked_points import checked_points
from peewit.service.predictions.predictors import (
    NotInductive,
    inductive_models,
    latest_predictor,
    predictor_of,
)
from peewit.service.predictions.store import PredictionStore
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import point_batches
from peewit.streaming.edges.table_formats import Format

app = command_group()


@app.command()
def predict(
    name: GraphName,
    points: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=(
                "Column features, or indices and values, or the columns that features "
                "were made of, by name. A CSV has a column for each number. Or .npz of "
                "scipy.sparse.save_npz. NDJSON may also have edges, a list of "
                "{node, weight}."
            ),
            exists=True,
            dir_okay=False,
        ),
    ],
    output: OutputFile = None,
    job: Annotated[
        str | None, typer.Option(help="Id of the solve; the freshest that can by default.")
    ] = None,
    label_column: LabelColumnOption = None,
    from_libsvm: Annotated[
        bool, typer.Option("--from-libsvm", help="A file of libsvm text.")
    ] = False,
    zero_based: ZeroBased = False,
    json: AsJson = False,
) -> None:
    """Predict points that are no nodes of the graph, by a model that was solved on features.

    Columns label, score, margin and, unless there are many, a score per class; a row for each
    point, in the order of the file.
    """
    if job is not None and label_column is not None:
        raise typer.BadParameter("must be left out beside --job", param_hint="--label-column")
    if zero_based and not from_libsvm:
        raise typer.BadParameter("must stand beside --from-libsvm", param_hint="--zero-based")
    is_matrix = from_libsvm or points.suffix == MATRIX_SUFFIX
    if not is_matrix:
        table_format(points, "FILE")
    if output is not None:
        table_format(output, "--output")
    with open_home() as home:
        store = home.prediction_files
        predictor = predictor_of(store, _job(home, store, name, job, label_column or ""))
        graph = home.graph(name)
        nodes = home.nodes
        columns = home.features.names(graph, predictor.meta.features_version)
        check = partial(
            checked_points,
            n_columns=predictor.n_columns,
            names=columns,
            model=predictor.meta.model,
            neighbors=predictor.neighbors(graph, nodes),
        )
        if is_matrix:
            blocks = check([point_rows(points, is_libsvm=from_libsvm, zero_based=zero_based)])
        else:
            points_format, kind = table_format(points, "FILE"), graph.settings.node_ids
            with points.open("rb") as file:
                encoding = home.features.encoding(graph, predictor.meta.features_version)
                rows = point_batches(file, points_format, kind, encoding=encoding, names=columns)
                blocks = check(rows)
    batches = predictor.batches(blocks)
    meta = predictor.meta
    if output is None:
        say(f"predicted by {meta.model} (job {meta.job_id})")
        print_bytes(encode(predictor.schema, batches, Format.NDJSON if json else Format.CSV))
        return
    write_table(output, predictor.schema, batches)
    n_points = sum(block.features.shape[0] for block in blocks)
    tell(
        f"wrote {n_points:,} predictions of {meta.model} to {output} (job {meta.job_id}, "
        f"features_version {meta.features_version}, labels_seq {meta.labels_seq})",
        {"path": output, "n_points": n_points, "job": meta.job_id, "model": meta.model},
        as_json=json,
    )


def _job(home: Home, store: PredictionStore, name: str, job_id: str | None, column: str) -> Job:
    """The named job, or the newest of a label column that predicts new points."""
    graph = home.graph(name)
    if job_id is not None:
        queue = home.jobs
        job = queue.get(queue.full_id(job_id))
        if job.graph_id != graph.id:
            raise UnknownJob(f"no job {job_id!r} of graph {name}")
        return job
    latest = latest_predictor(store, graph.id, column=column)
    if latest is None:
        home.labels.require_column(graph.id, column)
        raise NotInductive(
            f"{name} has no predictions by a model of features; give its nodes features and solve "
            f"with --model, one of {', '.join(inductive_models())}"
        )
    return latest
