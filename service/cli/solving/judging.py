"""How far predictions can be trusted: `evaluate`, and how answers about trust are printed."""

from collections.abc import Sequence
from shlex import quote
from typing import Final

from peewit.service.cli.operation_commands import add_command
from peewit.service.cli.option_names import as_options
from peewit.service.cli.session import command_group, echo, print_fields, print_rows, say
from peewit.service.operations.judging import (
    evaluate_predictions,
    get_abstention,
    get_doubtful_labels,
    get_reasons,
    get_sets,
    get_threshold,
)
from peewit.service.tables.uploads.label_words import left_out_text
from peewit.service.wire.evaluations import (
    Decision,
    Evaluation,
    PredictionAbstention,
    PredictionEvaluation,
    RealEvaluation,
    Threshold,
    ThresholdEvaluation,
)
from peewit.service.wire.predictions import (
    DoubtfulLabels,
    LabelReason,
    PredictionReasons,
    PredictionSets,
)

app = command_group()

_CURVE_SHOWN = 10

MAX_LEFT: Final = 0.005
"""Share of the walks whose end nobody needs to hear of."""


def show_evaluation(answer: PredictionEvaluation, **_: object) -> None:
    """Figures of all, then of each class, then of a threshold."""
    result = answer.of_numbers if answer.of_classes is None else answer.of_classes
    if result is None:
        return
    aims = {} if answer.objective is None else {"objective": answer.objective}
    print_fields({"model": answer.model, **aims, **_figures(result)})
    if answer.left_out:
        say(as_options(left_out_text(answer.left_out)))
    _warn(answer.note)
    if isinstance(result, Evaluation):
        _print_classes(result)
        if result.threshold is not None:
            echo()
            _print_threshold(result.threshold)


def show_sets(answer: PredictionSets, *, coverage: float, **_: object) -> None:
    """What sets promise to which classes, then their sizes."""
    sets = answer.sets
    print_rows(
        ("sets hold the true label of", "by labels", "asked", "guaranteed"),
        (
            (
                "nodes of " + ", ".join(map(str, each.labels)),
                each.n_labels,
                f"{100 * coverage:.4g}%",
                f"{each.guaranteed:.1%}" if each.excludes else "too few labels: in every set",
            )
            for each in sets.groups
        ),
    )
    echo("expect about the coverage that was asked, and at least what is guaranteed")
    if any(len(each.labels) > 1 for each in sets.groups):
        echo(
            "this holds for the nodes of these classes together; in one class more or "
            "fewer sets may miss. Solve with --set sets=by-class to have it for each class"
        )
    echo()
    if sets.unpromised:
        one = ", ".join(map(str, sets.unpromised))
        say(
            "nothing is promised to nodes of these classes, as none of their labels could "
            f"be left out: {one}"
        )
    if sets.mean_size is not None and sets.certain_share is not None:
        echo(
            f"a set holds {sets.mean_size:.2f} labels on average, and exactly one at "
            f"{sets.certain_share:.1%} of the {sets.n_nodes:,} nodes that labels reach"
        )
    _warn(sets.warning)


def show_abstention(
    answer: PredictionAbstention, *, max_error: float, confidence: float, **_: object
) -> None:
    """The curve of errors, then the score to answer from."""
    abstention = answer.abstention
    print_rows(
        ("answer from score", "labels answered", "wrong", f"at most, by {confidence:.0%}"),
        (
            (
                f"{each.score:.4f}",
                f"{each.answered:.1%}",
                f"{each.error:.1%}",
                f"{each.greatest_error:.1%}",
            )
            for each in abstention.curve[:: max(1, len(abstention.curve) // _CURVE_SHOWN)]
        ),
    )
    echo()
    if abstention.chosen is None or abstention.answered_nodes is None:
        echo(
            f"no score is known from which on at most {max_error:.1%} are wrong: the "
            f"{abstention.n_left_out:,} labels left out are too few, or too often wrong. "
            "Label more nodes, or allow more errors"
        )
    else:
        echo(
            f"from score {abstention.chosen.score:.9g} on at most {max_error:.1%} are "
            f"wrong, with a confidence of {confidence:.0%}; that answers "
            f"{abstention.answered_nodes:.1%} of the nodes"
        )
    _warn(abstention.warning)


def show_threshold(
    answer: Threshold,
    *,
    name: str,
    positive: str,
    label_column: str | None,
    job: str | None,
    **_: object,
) -> None:
    """What the threshold finds, and the command that decides by it."""
    _print_threshold(answer.chosen)
    _warn(answer.chosen.warning)
    of_column = f"--label-column {quote(label_column)} " if label_column else ""
    of_job = f"--job {job} " if job else ""
    decided = (
        f"{of_column}{of_job}--positive {quote(positive)} --threshold {answer.chosen.threshold:.9g}"
    )
    say(f"`peewit predictions {quote(name)} {decided}` decides by it")


def show_reasons(answer: PredictionReasons, *, node: str, **_: object) -> None:
    """What speaks for the prediction of a node, and what against it."""
    reasons = answer.reasons
    predicted = reasons.label
    if predicted is None:
        echo(f"{node}: no label reaches it")
        return
    echo(f"{node}: {predicted} ({answer.score} {reasons.score:.4f})")
    support = ", ".join(f"{each.label} {each.support:.4g}" for each in reasons.classes)
    by = {
        "walks": "walks from this node end at labels of a class so many times as often as walks "
        "from anywhere",
        "shares": "labels add up to",
    }
    echo(f"{by[reasons.by]}: {support}")
    echo()
    if reasons.features:
        print_rows(
            (f"feature for {predicted}", "its own", "part"),
            (
                (each.name, "-" if each.value is None else f"{each.value:g}", f"{each.part:+.1%}")
                for each in reasons.features
            ),
        )
        echo(f"features are {reasons.belief_features:.0%} of the answer")
        echo()
    _print_labels(f"for {predicted}", reasons.labels)
    if reasons.labels:
        echo(f"these carry {reasons.carried:.1%} of what speaks for {predicted}")
    if reasons.against:
        echo()
        _print_labels("against it", reasons.against)
    if not reasons.is_whole and reasons.followed < 1.0 - MAX_LEFT:
        say(f"walks were followed as far as {reasons.followed:.1%}; there may be more labels")
    if reasons.note is not None:
        say(reasons.note)


def show_doubtful(answer: DoubtfulLabels, **_: object) -> None:
    """The labels, the most doubtful first, and how many are contradicted."""
    doubtful = answer.doubtful
    print_rows(
        ("node", "label", "the others say", "probability of the label", "behind", "dropped"),
        (
            (
                each.node,
                str(each.label),
                str(each.predicted),
                None if each.probability is None else f"{each.probability:.3f}",
                f"{each.behind:.3g}",
                each.dropped,
            )
            for each in doubtful.labels
        ),
    )
    say(
        f"the other labels contradict {doubtful.n_contradicted:,} of "
        f"{doubtful.n_left_out:,} labels that were left out to test them"
    )


add_command(app, evaluate_predictions, "evaluate", show=show_evaluation)
add_command(app, get_sets, "sets", show=show_sets)
add_command(app, get_abstention, "abstain", show=show_abstention)
add_command(app, get_threshold, "threshold", show=show_threshold)
add_command(app, get_reasons, "why", show=show_reasons)
add_command(app, get_doubtful_labels, "doubtful", show=show_doubtful)


def _warn(warning: str | None) -> None:
    if warning is not None:
        say(f"warning: {as_options(warning)}")


def _print_classes(result: Evaluation) -> None:
    """A line for each class, and the commonest mistakes."""
    echo()
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
        echo()
        print_rows(
            ("true", "predicted", "nodes"),
            ((str(each.true), str(each.predicted), each.n_nodes) for each in result.most_confused),
        )


def _print_threshold(evaluation: ThresholdEvaluation) -> None:
    """What a threshold finds, beside predictions without one."""
    print_fields(
        {
            "class": str(evaluation.positive),
            "threshold": f"{evaluation.threshold:.9g}",
            "judged by": f"{evaluation.n_nodes:,} nodes, {evaluation.n_positive:,} of the class",
            "share of the class": f"{evaluation.positive_share:.4f}",
        }
    )
    echo()
    decisions = {"threshold": evaluation.by_threshold, "no threshold": evaluation.by_largest_score}
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
        figures: dict[str, object] = {
            "accuracy": _decimals(result.accuracy),
            "always the commonest class": _decimals(result.majority_accuracy),
            "mean recall (balanced)": _decimals(result.balanced_accuracy),
            "macro F1": _decimals(result.macro_f1),
            "macro average precision": _decimals(result.macro_average_precision),
            "macro ROC AUC": _decimals(result.macro_roc_auc),
        }
        if result.top_k is not None:
            figures[f"among the {result.top_k} best"] = _decimals(result.top_k_accuracy)
        figures |= {"nodes judged": result.n_judged, "right": result.n_right}
    else:
        figures = {
            "RMSE": None if result.rmse is None else f"{result.rmse:.6g}",
            "MAE": None if result.mae is None else f"{result.mae:.6g}",
            "R^2": None if result.r2 is None else f"{result.r2:.4f}",
            "nodes judged": result.n_judged,
        }
    return figures | {
        "left out, labeled": result.n_labeled,
        "left out, not in the graph": result.n_absent,
        "not reached by any label": result.n_unreachable,
    }


def _way(each: LabelReason) -> str:
    """What lies between the node and a label."""
    if each.way is None:
        return "too far to look for"
    if len(each.way) < 3:
        between = "the node itself" if len(each.way) == 1 else "a neighbor"
    else:
        between = " > ".join(map(str, each.way[1:-1]))
    if not each.relations:
        return between
    return f"{between} (by {', then '.join(' and '.join(step) for step in each.relations)})"


def _print_labels(title: str, labels: Sequence[LabelReason]) -> None:
    print_rows(
        (title, "label", "part", "on the way"),
        ((str(each.node), str(each.label), f"{each.part:.1%}", _way(each)) for each in labels),
    )
