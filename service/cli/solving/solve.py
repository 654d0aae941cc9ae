"""`peewit solve` and `peewit estimate`: ask for predictions, or for what they would take."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from shlex import quote
from typing import Annotated, Any, Final

import typer

from peewit.service.cli.edges.deletions_cost import DeletionsCost
from peewit.service.cli.labels.table_files import (
    LabelColumnOption,
    parsed_settings,
    with_label_column,
)
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    as_text,
    command_group,
    open_home,
    print_fields,
    print_json,
    say,
)
from peewit.service.cli.solving.submission import require_valid, run_columns, run_job
from peewit.service.jobs.job import LABEL_COLUMN, MAX_PRIORITY
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.solving.estimate import Estimator
from peewit.service.wire.jobs import Estimate
from peewit.service.wire.solve_lines import solve_lines, warning_text
from peewit.solvers.models.catalogue import DEFAULT_MODEL

app = command_group()

_KIND: Final = KINDS["solve"]
_SHARES_SHOWN: Final = 10
_FAR = 0.1
"""Calibration error of probabilities that is large."""

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
    label_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--label-column",
            metavar="NAME",
            help="A named column of labels, instead of the one without a name; repeatable: a job "
            "for each, all on one snapshot.",
        ),
    ] = None,
    priority: Annotated[
        int,
        typer.Option(
            min=-MAX_PRIORITY,
            max=MAX_PRIORITY,
            help="Priority of the job; a higher one runs earlier.",
        ),
    ] = 0,
    details: Annotated[
        bool, typer.Option("--details", help="Say all that is known of the answer.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Predict every node's label from those that were put.

    A label is a class, or with --model hfs --set target=real a number. Says first how often labels
    that are left out are right. Works on the newest snapshot and the present labels. The job goes
    through the queue. While no worker is alive this command runs it itself.
    """
    columns = label_columns or []
    if len(columns) > 1:
        values = _check_parameters(model, parameters)
        tell = partial(_tell_result, name, details=details)
        run_columns(name, columns, values, tell, model=model, priority=priority, json=json)
        return
    values = _check_parameters(model, parameters, *columns)
    tell_result = partial(_tell_result, name, values.get(LABEL_COLUMN, ""), details=details)
    run_job(name, _KIND, values, tell_result, model=model, priority=priority, json=json)


@app.command()
def estimate(
    name: GraphName,
    model: ModelName = DEFAULT_MODEL,
    parameters: Parameters = None,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Say what a solve would take, and whether it fits; exit with 1 where it does not.

    Memory follows from the newest snapshot, the present features and the model. Seconds are those
    of the last equal solve, if there was one. It also says what exact deletions add to ingest for
    the edges so far, or would add.
    """
    values = _check_parameters(model, parameters, label_column)
    with open_home() as home:
        graph = home.graph(name)
        needs = Estimator.of(home).estimate(graph, model, values)
        cost = DeletionsCost.of(graph, home.settings)
    if json:
        print_json({**asdict(needs), "exact_deletions": cost})
    else:
        _tell_estimate(needs, cost)
    if not needs.fits:
        raise typer.Exit(1)


def _check_parameters(
    model: str, parameters: list[str] | None, label_column: str | None = None
) -> dict[str, Any]:
    """The parameters with the label column; wrong usage if the model does not take them."""
    values = with_label_column(parsed_settings(parameters), label_column)
    require_valid(_KIND, model, values, hint="--model or --set")
    return values


def _tell_estimate(estimate: Estimate, cost: DeletionsCost) -> None:
    facts: dict[str, object] = {
        "model": estimate.model,
        "input": estimate.input,
        "nodes, edges": f"{estimate.n_nodes:,}, {estimate.n_edges:,}",
    }
    if estimate.n_points is not None:
        facts["points, numbers each"] = f"{estimate.n_points:,}, {estimate.n_features:,}"
    if estimate.gram_bytes is not None:
        facts["Gram matrix"] = (
            f"{estimate.gram}, {estimate.precision}, {_size(estimate.gram_bytes)}"
        )
    needed = "-" if estimate.n_bytes is None else _size(estimate.n_bytes)
    facts["memory"] = f"{needed} of {_size(estimate.limit_bytes)}"
    facts["seconds"] = estimate.seconds
    facts["exact deletions"] = f"{'add' if cost.are_on else 'would add'} {cost}"
    print_fields(facts)
    if estimate.seconds is None:
        say("no equal solve tells how long it takes")
    if estimate.message is not None:
        verdict = "it may not fit" if estimate.fits else "it does not fit"
        say(f"peewit: {verdict}: {estimate.message}")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB"


def _tell_result(
    name: str, label_column: str, result: Mapping[str, Any], *, details: bool = False
) -> None:
    for line in solve_lines(result, graph=name, label_column=label_column):
        say(line)
    if warning := warning_text(result, graph=name, label_column=label_column):
        say(f"warning: {warning}")
    if details or result["judged"] is None:
        _tell_details(result)
    for line in _worth(result["stats"], details=details):
        say(line)
    of_column = f" --label-column {quote(label_column)}" if label_column else ""
    more = "" if details else f"; `peewit solve {name}{of_column} --details` says more of a solve"
    say(f"`peewit predictions {name}{of_column} -o FILE` writes them{more}")


def _tell_details(result: Mapping[str, Any]) -> None:
    seconds = ", ".join(f"{phase} {taken:.2f} s" for phase, taken in result["seconds"].items())
    n_classes = result["n_classes"]
    kind = "real numbers" if n_classes is None else f"labels of {n_classes} classes"
    say(
        f"solved {result['n_nodes']:,} nodes from {result['n_labels']:,} {kind}: "
        f"{result['status']} ({seconds})"
    )
    for stage, phases in result.get("phase_seconds", {}).items():
        if len(phases) > 1:
            costs = ", ".join(f"{phase} {taken:.2f} s" for phase, taken in phases.items())
            say(f"{stage} took {costs}")
    if passes := result.get("passes"):
        of_stages = ", ".join(f"{number} in {stage}" for stage, number in passes.items())
        say(f"{sum(passes.values())} passes over all edges: {of_stages}")
    if result.get("notes"):
        say(f"note: {result['notes']}")
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
    if result["class_shares"] is not None:
        say(f"predicted, and of the labels: {_shares(result['class_shares'], n_classes)}")
    n_bare, reads_neighbors = result["n_without_features"], "teleport" in stats
    if result["features_version"]:
        fate = "get their neighbors'" if reads_neighbors else "get no label"
        bare = f"; {n_bare:,} nodes have none and {fate}" if n_bare else ""
        say(f"used features_version {result['features_version']}{bare}")
    elif result["input"] != "graph":
        say(f"the graph has no features; its {result['input']} served instead")
    n_unreachable = result["n_unreachable"] - (0 if reads_neighbors else n_bare)
    if n_unreachable > 0:
        say(
            f"no label reaches {n_unreachable:,} nodes: they have no label, and as scores "
            f"{_unreached_scores(stats)}"
        )
    if result["n_labels_waiting"]:
        say(f"{result['n_labels_waiting']:,} labels wait for their nodes to come")


def _unreached_scores(stats: Mapping[str, Any]) -> str:
    is_given = stats.get("class_shares") in {"known", "counted"}
    return "the class shares" if is_given else "the mean of the others"


def _shares(listed: Sequence[Mapping[str, Any]], n_classes: int) -> str:
    """Predicted shares of classes, with their shares of the labels in brackets."""
    most = sorted(listed, key=lambda each: -each["predicted"])[:_SHARES_SHOWN]
    shares = [f"{each['label']} {each['predicted']:.1%} ({each['labels']:.1%})" for each in most]
    more = f", and {n_classes - len(most)} classes more" if n_classes > len(most) else ""
    return ", ".join(shares) + more


def _worth(stats: Mapping[str, Any], *, details: bool) -> Iterator[str]:
    """Lines on the answer that were asked for, and with ``details`` the others."""
    if (folds := stats.get("cross_validation")) is not None:
        figure = "accuracy" if "accuracy" in folds else "rmse"
        before = ", before all edges were read" if "refined" in stats else ""
        yield (
            f"cross-validated {figure} {as_text(folds[figure])} over {folds['n_left_out']:,} "
            f"labels in {len(folds['folds'])} folds{before}"
        )
        if folds["always_kept"]:
            names = ", ".join(map(str, folds["always_kept"]))
            yield (
                "no label was left out to test these classes, as they have one label or "
                f"suggested ones only: {names}"
            )
    if (n_dropped := stats.get("n_labels_dropped")) is not None:
        yield (
            f"dropped {n_dropped:,} labels that the others contradict; `peewit labels doubtful` "
            "says which"
        )
    truth = stats.get("calibration")
    if truth is not None and (details or "cross_validation" in stats):
        is_far = truth["expected_calibration_error"] > _FAR and not truth["is_calibrated"]
        mending = "; --set probabilities=true mends that" if is_far else ""
        yield (
            f"probabilities: calibration error {as_text(truth['expected_calibration_error'])}, "
            f"Brier score {as_text(truth['brier_score'])} by {truth['n_left_out']:,} labels left "
            f"out{mending}"
        )
    if (sets := stats.get("sets")) is not None:
        yield f"`peewit sets` says what sets of labels promise, by {sets['n_folds']} folds"
    if (replicas := stats.get("replicas")) is not None:
        yield (
            f"{replicas['n_unstable']:,} nodes have another label in one of "
            f"{replicas['n_replicas']} replicas of the sparsifier; `peewit predictions --sort "
            "stability` puts them first"
        )
    if (variance := stats.get("variance")) is not None:
        yield f"variances have a standard deviation of {variance['relative_error']:.1%} or less"
