"""`peewit evaluate`, `sets`, `abstain` and `threshold`: how far predictions can be trusted."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from peewit.service.cli.option_names import as_options
from peewit.service.cli.predictions import Positive, ThresholdValue, predictions_file
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    JobOption,
    ModelName,
    Session,
    command_group,
    given,
    open_session,
    print_fields,
    print_json,
    print_rows,
    say,
)
from peewit.service.cli.table_files import (
    LabelColumnOption,
    LabelOption,
    NodeOption,
    labels_of_file,
)
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.evaluation import evaluate as compare
from peewit.service.predictions.evaluation import evaluate_numbers as compare_numbers
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.thresholds import (
    asked_threshold,
    class_threshold,
    left_out_evaluation,
)
from peewit.service.tables.column_names import label_columns
from peewit.service.wire.evaluations import (
    Decision,
    Evaluation,
    RealEvaluation,
    ThresholdEvaluation,
)

app = command_group()

_CURVE_SHOWN = 10

MinRecall = Annotated[
    float | None,
    typer.Option(help="Choose the threshold: find this part of CLASS, as precisely as can be."),
]

MinPrecision = Annotated[
    float | None,
    typer.Option(help="Choose it: this part of what is found is CLASS; find as many as can be."),
]

CostFn = Annotated[
    float | None, typer.Option(help="Choose it by least cost; this for a CLASS that is missed.")
]

CostFp = Annotated[
    float | None, typer.Option(help="And this for another node taken for CLASS; 1 when left out.")
]

PositiveShare = Annotated[
    float | None,
    typer.Option(help="Part of all nodes that is CLASS; as among those judged when left out."),
]


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
    label_column: LabelColumnOption = None,
    job: JobOption = None,
    node: NodeOption = None,
    label: LabelOption = None,
    top_k: Annotated[
        int | None, typer.Option(help="A class counts as found among so many; 3 by default.")
    ] = None,
    positive: Positive = None,
    threshold: ThresholdValue = None,
    min_recall: MinRecall = None,
    min_precision: MinPrecision = None,
    cost_fn: CostFn = None,
    cost_fp: CostFp = None,
    positive_share: PositiveShare = None,
    json: AsJson = False,
) -> None:
    """Compare predictions with true labels.

    Only nodes that carry no label are judged: by figures of each class and of all, or where labels
    are real numbers by the size of the misses. With --positive CLASS also a threshold on its score,
    given or chosen on labels left out, beside the largest score.
    """
    with open_session() as session:
        graph = session.graph(name)
        file = predictions_file(session, name, model, label_column, job)
        of_truth = given(node=node, label=label_column if label is None else label)
        columns = label_columns(graph.settings.columns, of_truth)
        store, column = LabelStore(session.database), file.meta.label_column
        is_text = store.are_text(graph.id, column=column) is True
        rows = labels_of_file(truth, graph.settings.node_ids, columns, csv_is_text=is_text)
        labels = store.current(graph.id, column=column, upto_seq=file.meta.labels_seq)
        chosen = asked_threshold(
            file,
            positive=positive,
            threshold=threshold,
            min_recall=min_recall,
            min_precision=min_precision,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            positive_share=positive_share,
        )
    predicted = file.table()
    result: Evaluation | RealEvaluation = (
        compare_numbers(predicted, rows, labels)
        if file.meta.score == "value"
        else compare(predicted, rows, labels, top_k=top_k, threshold=chosen)
    )
    if json:
        print_json({"model": file.meta.model, "snapshot": file.meta.snapshot, **asdict(result)})
        return
    print_fields({"model": file.meta.model, **_figures(result)})
    if isinstance(result, Evaluation):
        _print_classes(result)
        if result.threshold is not None:
            typer.echo()
            _print_threshold(result.threshold)


@app.command()
def sets(
    name: GraphName,
    coverage: Annotated[
        float, typer.Option(help="Chance that the set of a node holds its true label.")
    ] = 0.9,
    model: ModelName = None,
    label_column: LabelColumnOption = None,
    job: JobOption = None,
    json: AsJson = False,
) -> None:
    """Say what sets of labels promise that hold the true one, and how large they are.

    Needs a solve with --set sets=auto. `peewit predictions --coverage` writes them.
    """
    with open_session() as session:
        file = judged_file(session, name, model, label_column, job)
    found = LabelSets.of(file, coverage).summary()
    if json:
        print_json({"model": file.meta.model, "snapshot": file.meta.snapshot, **asdict(found)})
        return
    print_rows(
        ("sets hold the true label of", "by labels", "asked", "guaranteed"),
        (
            (
                "nodes of " + ", ".join(map(str, each.labels)),
                each.n_labels,
                f"{100 * coverage:.4g}%",
                f"{each.guaranteed:.1%}" if each.excludes else "too few labels: in every set",
            )
            for each in found.groups
        ),
    )
    typer.echo("about what was asked is to be expected, and never less than what is guaranteed")
    if any(len(each.labels) > 1 for each in found.groups):
        typer.echo(
            "for the nodes of several classes together: of one of them more sets may miss, or "
            "fewer; --set sets=by-class promises it for each"
        )
    typer.echo()
    if found.unpromised:
        one = ", ".join(map(str, found.unpromised))
        say(f"nothing is promised to nodes of classes of which no label could be left out: {one}")
    if found.mean_size is not None and found.certain_share is not None:
        typer.echo(
            f"of {found.n_nodes:,} nodes that labels reach a set holds {found.mean_size:.2f} "
            f"labels in the mean, and one alone at {found.certain_share:.1%}"
        )
    if found.warning is not None:
        say(f"warning: {as_options(found.warning)}")


@app.command()
def abstain(
    name: GraphName,
    max_error: Annotated[
        float, typer.Option(help="Part of the answers that may be wrong, in (0, 1).")
    ] = 0.05,
    confidence: Annotated[float, typer.Option(help="Chance that no more are, at least.")] = 0.9,
    model: ModelName = None,
    label_column: LabelColumnOption = None,
    job: JobOption = None,
    json: AsJson = False,
) -> None:
    """Say how sure a prediction must be for few to be wrong, by the labels left out.

    Needs probabilities: a solve of auto with --set sets=auto or --set cross_validate=5, of any
    other model with --set probabilities=true.
    """
    with open_session() as session:
        file = judged_file(session, name, model, label_column, job)
    found = abstention(file, max_error=max_error, confidence=confidence)
    if json:
        print_json({"model": file.meta.model, "snapshot": file.meta.snapshot, **asdict(found)})
        return
    print_rows(
        ("answer from score", "labels answered", "wrong", f"at most, by {confidence:.0%}"),
        (
            (
                f"{each.score:.4f}",
                f"{each.answered:.1%}",
                f"{each.error:.1%}",
                f"{each.greatest_error:.1%}",
            )
            for each in found.curve[:: max(1, len(found.curve) // _CURVE_SHOWN)]
        ),
    )
    typer.echo()
    if found.chosen is None or found.answered_nodes is None:
        typer.echo(
            f"{found.n_left_out:,} labels left out are too few, or too often wrong, to know of any "
            f"score from which on at most {max_error:.1%} are wrong"
        )
    else:
        typer.echo(
            f"from score {found.chosen.score:.9g} on at most {max_error:.1%} are wrong, by "
            f"{confidence:.0%}: {found.answered_nodes:.1%} of the nodes"
        )
    if found.warning is not None:
        say(f"warning: {as_options(found.warning)}")


@app.command()
def threshold(
    name: GraphName,
    positive: Annotated[str, typer.Option(metavar="CLASS", help="The class to decide.")],
    model: ModelName = None,
    label_column: LabelColumnOption = None,
    job: JobOption = None,
    min_recall: MinRecall = None,
    min_precision: MinPrecision = None,
    cost_fn: CostFn = None,
    cost_fp: CostFp = None,
    positive_share: PositiveShare = None,
    json: AsJson = False,
) -> None:
    """Choose a threshold on the score of a class, by the labels left out of the latest solve.

    Needs a solve with --set cross_validate=5. Say one goal: --min-recall, --min-precision, or
    costs. Where labels were not drawn at random, give --positive-share as well.
    """
    with open_session() as session:
        file = judged_file(session, name, model, label_column, job)
    chosen = class_threshold(
        file,
        positive,
        min_recall=min_recall,
        min_precision=min_precision,
        cost_fn=cost_fn,
        cost_fp=cost_fp,
        positive_share=positive_share,
    )
    found = left_out_evaluation(file, chosen)
    if json:
        print_json({"model": file.meta.model, "snapshot": file.meta.snapshot, **asdict(found)})
        return
    _print_threshold(found)
    if found.warning is not None:
        say(f"warning: {as_options(found.warning)}")
    of_column = f"--label-column {quote(label_column)} " if label_column else ""
    of_job = f"--job {job} " if job else ""
    decided = f"{of_column}{of_job}--positive {quote(positive)} --threshold {found.threshold:.9g}"
    say(f"`peewit predictions {quote(name)} {decided}` decides by it")


def _print_classes(result: Evaluation) -> None:
    """A line for each class, and the commonest mistakes."""
    typer.echo()
    print_rows(
        (
            "class",
            "judged",
            "right",
            "precision",
            "recall",
            "F1",
            "AP",
            "ROC AUC",
            "of truth",
            "predicted",
            "of labels",
        ),
        (
            (
                str(each.label),
                each.n_judged,
                each.n_right,
                *map(
                    _decimals,
                    (
                        each.precision,
                        each.recall,
                        each.f1,
                        each.average_precision,
                        each.roc_auc,
                        each.true_share,
                        each.predicted_share,
                        each.label_share,
                    ),
                ),
            )
            for each in result.classes
        ),
    )
    if result.n_classes > len(result.classes):
        say(f"and {result.n_classes - len(result.classes)} classes more, with fewer nodes")
    if result.most_confused:
        typer.echo()
        print_rows(
            ("true", "predicted", "nodes"),
            ((str(each.true), str(each.predicted), each.n_nodes) for each in result.most_confused),
        )


def _print_threshold(found: ThresholdEvaluation) -> None:
    """What a threshold finds, beside the largest score."""
    print_fields(
        {
            "class": str(found.positive),
            "threshold": f"{found.threshold:.9g}",
            "judged by": f"{found.n_nodes:,} nodes, {found.n_positive:,} of the class",
            "share of the class": f"{found.positive_share:.4f}",
        }
    )
    typer.echo()
    decisions = {"threshold": found.by_threshold, "largest score": found.by_largest_score}
    print_rows(
        ("decided by", "found", "precision", "recall", "F1", "cost"),
        ((name, each.n_found, *_decision(each)) for name, each in decisions.items()),
    )


def _decision(each: Decision) -> tuple[str | None, ...]:
    return tuple(map(_decimals, (each.precision, each.recall, each.f1, each.cost)))


def _decimals(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _figures(result: Evaluation | RealEvaluation) -> dict[str, object]:
    """What people are told first."""
    if isinstance(result, Evaluation):
        told: dict[str, object] = {
            "accuracy": _decimals(result.accuracy),
            "always the commonest class": _decimals(result.majority_accuracy),
            "mean recall (balanced)": _decimals(result.balanced_accuracy),
            "macro F1": _decimals(result.macro_f1),
            "macro average precision": _decimals(result.macro_average_precision),
            "macro ROC AUC": _decimals(result.macro_roc_auc),
        }
        if result.top_k is not None:
            told[f"among the {result.top_k} best"] = _decimals(result.top_k_accuracy)
        told |= {"nodes judged": result.n_judged, "right": result.n_right}
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


def judged_file(
    session: Session, name: str, model: str | None, label_column: str | None, job: str | None
) -> PredictionFile:
    """The same, to be judged by its labels; says so where they have changed since."""
    file = predictions_file(session, name, model, label_column, job)
    if session.graph(name).labels_seq > file.meta.labels_seq:
        say("labels have changed since this was solved; `peewit solve` takes them in")
    return file
