"""`peewit solve` and `peewit estimate`: ask for predictions, or for what they would take."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    Session,
    as_text,
    command_group,
    open_session,
    print_fields,
    print_json,
    say,
)
from peewit.service.cli.submission import print_failure, run_job
from peewit.service.cli.tables import parsed_settings
from peewit.service.jobs.job import MAX_PRIORITY, Job, JobSpec, JobStatus, lane_of
from peewit.service.jobs.queue import DatabaseJobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.tasks.estimate import Estimate, Estimator
from peewit.service.tasks.solve_options import validate_solve
from peewit.solvers.models import DEFAULT_MODEL

app = command_group()

ModelName = Annotated[str, typer.Option(help="Public name of the model.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Hyperparameter or option; repeatable."),
]


@app.command()
def solve(
    name: GraphName,
    model: ModelName = DEFAULT_MODEL,
    parameters: Parameters = None,
    priority: Annotated[
        int,
        typer.Option(min=-MAX_PRIORITY, max=MAX_PRIORITY, help="Of the job; higher runs earlier."),
    ] = 0,
    json: AsJson = False,
) -> None:
    """Predict every node's label: a class, or with --model hfs --set target=real a number.

    Works on the newest snapshot and the present labels. The job goes through the queue. While no
    worker is alive this command runs it itself.
    """
    values = _check_parameters(model, parameters)
    with open_session() as session:
        graph = session.graph(name)
        estimator_of(session).require_room(graph, model, values)
        spec = JobSpec(
            graph_id=graph.id,
            model=model,
            parameters=values,
            lane=lane_of(model, values),
            priority=priority,
        )
        job = run_job(session, spec, is_quiet=json)
    if json:
        print_json(job)
    else:
        _tell_outcome(name, job)
    if job.status is not JobStatus.SUCCEEDED:
        raise typer.Exit(1)


@app.command()
def estimate(
    name: GraphName,
    model: ModelName = DEFAULT_MODEL,
    parameters: Parameters = None,
    json: AsJson = False,
) -> None:
    """Say what a solve would take, and whether it fits; exit with 1 where it does not.

    Memory follows from the newest snapshot, the present features and the model. Seconds are those
    of the last equal solve, if there was one.
    """
    values = _check_parameters(model, parameters)
    with open_session() as session:
        found = estimator_of(session).estimate(session.graph(name), model, values)
    if json:
        print_json(found)
    else:
        _tell_estimate(found)
    if not found.fits:
        raise typer.Exit(1)


def _check_parameters(model: str, parameters: list[str] | None) -> dict[str, Any]:
    """The parameters; wrong usage when the model does not take them."""
    values = parsed_settings(parameters)
    try:
        validate_solve(model, values)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--model or --set") from error
    return values


def estimator_of(session: Session) -> Estimator:
    """Estimator of solves, with the settings of this process."""
    return Estimator(
        jobs=DatabaseJobQueue(session.database),
        labels=LabelStore(session.database),
        graphs_directory=session.settings.graphs_directory,
        memory_bytes=session.settings.child_memory_bytes,
    )


def _tell_estimate(found: Estimate) -> None:
    told: dict[str, object] = {
        "model": found.model,
        "input": found.input,
        "nodes, edges": f"{found.n_nodes:,}, {found.n_edges:,}",
    }
    if found.n_points is not None:
        told["points, numbers each"] = f"{found.n_points:,}, {found.n_features:,}"
    if found.gram_bytes is not None:
        told["Gram matrix"] = f"{found.gram}, {found.precision}, {_size(found.gram_bytes)}"
    needed = "-" if found.n_bytes is None else _size(found.n_bytes)
    told["memory"] = f"{needed} of {_size(found.limit_bytes)}"
    told["seconds"] = found.seconds
    print_fields(told)
    if found.seconds is None:
        say("no equal solve tells how long it takes")
    if found.message is not None:
        say(f"peewit: it does not fit: {found.message}")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB"


def _tell_outcome(name: str, job: Job) -> None:
    if job.result is None:
        print_failure(job)
        return
    result = job.result
    seconds = ", ".join(f"{phase} {taken:.2f} s" for phase, taken in result["seconds"].items())
    n_classes = result["n_classes"]
    kind = "real numbers" if n_classes is None else f"labels of {n_classes} classes"
    say(
        f"solved {result['n_nodes']:,} nodes from {result['n_labels']:,} {kind}: "
        f"{result['status']} ({seconds})"
    )
    stats = result["stats"]
    if "refined" in stats:
        moved = (
            f"{stats['n_changed']:,} nodes changed their label"
            if "n_changed" in stats
            else f"no number moved by more than {stats['largest_change']:.3g}"
        )
        say(
            f"refined on the full graph: {stats['passes']} passes, residual "
            f"{stats['residual']:.1e}, {moved}"
        )
    if result["warning"]:
        say(f"warning: {result['warning']}")
    n_bare = result["n_without_features"]
    if result["features_version"]:
        bare = f"; {n_bare:,} nodes have none and get no label" if n_bare else ""
        say(f"used features_version {result['features_version']}{bare}")
    elif result["input"] != "graph":
        say(f"the graph has no features; its {result['input']} served instead")
    if result["n_unreachable"] > n_bare:
        say(f"{result['n_unreachable'] - n_bare:,} nodes cannot be reached by any label")
    if result["n_labels_waiting"]:
        say(f"{result['n_labels_waiting']:,} labels wait for their nodes to come")
    for line in _worth(result["stats"]):
        say(line)
    say(f"`peewit predictions {name} -o FILE` writes them")


def _worth(stats: Mapping[str, Any]) -> Iterator[str]:
    """What the job was asked to say of its answer."""
    if (folds := stats.get("cross_validation")) is not None:
        figure = "accuracy" if "accuracy" in folds else "rmse"
        yield (
            f"cross-validated {figure} {as_text(folds[figure])} over {folds['n_left_out']:,} "
            f"labels in {len(folds['folds'])} folds"
        )
        if folds["always_kept"]:
            kept = ", ".join(map(str, folds["always_kept"]))
            yield f"never left out, since they have one label: {kept}"
    if (bound := stats.get("bound")) is not None:
        yield (
            f"mean squared miss {as_text(bound['empirical_risk'])} on the labels; on the others at "
            f"most {as_text(bound['bound'])} (as printed: {as_text(bound['bound_of_paper'])}), "
            f"{bound['kind']}"
        )
    if (variance := stats.get("variance")) is not None:
        yield f"variances have a standard deviation of {variance['relative_error']:.1%} or less"
