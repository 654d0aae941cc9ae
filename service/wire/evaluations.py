"""Predictions judged by true labels, and thresholds on the score of a class."""

from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import Provenance
from peewit.service.wire.records import described, record


@record
class ClassEvaluation:
    """One class against the rest, on the judged nodes."""

    label: Label
    n_judged: int = described("Judged nodes of this class.")
    n_predicted: int = described("Judged nodes predicted to be of it.")
    n_right: int = described("Nodes that are in both.")
    precision: float | None = described("Null where none is predicted.")
    recall: float | None = described("Null where none is judged.")
    f1: float | None = described("Null where there is neither.")
    average_precision: float | None = described(
        "Average precision of the nodes ranked by the class's score; null without score "
        "columns or judged nodes."
    )
    roc_auc: float | None = described("The same; also null without nodes of another class.")
    true_share: float | None = described("Its part of the judged nodes; null of none.")
    predicted_share: float | None = described("Its part of their predictions.")
    label_share: float | None = described("Its part of the labels; null without labels.")


@record
class Confusion:
    """Judged nodes by true and by predicted class."""

    classes: tuple[Label, ...] = described("Those of rows and columns, the commonest at most 20.")
    counts: tuple[tuple[int, ...], ...] = described(
        "A row for each true class and one for all others. Columns have one more, the "
        "last, for nodes that no label reaches."
    )


@record
class ConfusedPair:
    """Nodes of one class that are predicted to be of another."""

    true: Label
    predicted: Label
    n_nodes: int


@record
class Decision:
    """What one way to decide finds of the positive class."""

    precision: float | None = described("Null where no node is found.")
    recall: float
    f1: float
    n_found: int
    cost: float | None = described("Mean cost of a node; null without costs.")


@record
class ThresholdEvaluation:
    """The positive class decided by a threshold on its score, beside predictions without one."""

    positive: Label
    threshold: float = described("A node is positive where its score is at least that.")
    n_nodes: int = described("Labels left out, or nodes judged.")
    n_positive: int
    positive_share: float = described("What precision and cost take for the part that is positive.")
    by_threshold: Decision
    by_largest_score: Decision = described(
        "As predictions are without a threshold: by the largest score, or the objective."
    )
    warning: str | None = described(
        "Why the figures are doubtful, or by which labels they are; null else."
    )


@record
class RiskPoint:
    """What becomes of answers from some score on, by labels left out."""

    score: float = described("Answers that score no less are given.")
    answered: float = described("Part of the labels left out that is answered.")
    error: float = described("Part of these answers that is wrong.")
    greatest_error: float = described("Exceeded with a chance of 1 - confidence at most.")


@record
class Abstention:
    """From which score on few predictions are wrong."""

    max_error: float = described("Part of the answers that may be wrong.")
    confidence: float
    n_left_out: int = described("Labels left out, and reached by others.")
    chosen: RiskPoint | None = described(
        "The lowest score that is known to do; null where labels are too few to know of any."
    )
    answered_nodes: float | None = described("Part of the nodes that score no less.")
    curve: tuple[RiskPoint, ...] = described("The surest answers first, 50 points at most.")
    warning: str | None = described("What makes it doubtful, or by which labels it is; null else.")


@record
class PredictionAbstention(Provenance):
    """The same, with where the predictions come from."""

    abstention: Abstention


@record
class Threshold(Provenance):
    """A threshold chosen on labels left out, with where the scores come from."""

    chosen: ThresholdEvaluation


@record
class Evaluation:
    """Predicted classes against the true ones, on nodes that carry no label."""

    accuracy: float | None = described("Part of the judged nodes; null when none was judged.")
    majority_accuracy: float | None = described(
        "The same of always saying the commonest true class."
    )
    balanced_accuracy: float | None = described("Mean recall of the classes with judged nodes.")
    macro_f1: float | None = described("Mean over classes that are judged or predicted.")
    macro_average_precision: float | None = described("Mean over the classes that have one.")
    macro_roc_auc: float | None = described("The same.")
    top_k: int | None = described("Null where all classes would count, or scores are not kept.")
    top_k_accuracy: float | None = described(
        "Part of the judged nodes whose class is among those of the top_k largest scores."
    )
    n_judged: int = described("Nodes of the truth that carry no label.")
    n_right: int = described("A node that no label reaches is wrong.")
    n_labeled: int = described("Left out: nodes of the truth that carry a label.")
    n_absent: int = described("Left out: nodes of the truth that the predictions do not have.")
    n_unreachable: int = described("Judged nodes that no label reaches; they rank last.")
    n_classes: int = described("Classes that truth, predictions and labels have together.")
    classes: tuple[ClassEvaluation, ...] = described(
        "In order; the commonest where there are many."
    )
    confusion: Confusion
    most_confused: tuple[ConfusedPair, ...] = described("The commonest mistakes, at most 10.")
    threshold: ThresholdEvaluation | None = described("Null unless asked for.")


@record
class RealEvaluation:
    """Predicted numbers against the true ones, on nodes that carry no label."""

    rmse: float | None = described("Root of the mean squared miss; null when none was judged.")
    mae: float | None = described("Mean absolute miss; null when none was judged.")
    r2: float | None = described(
        "1 - (squared misses) / (squared distances to the mean of the truth); null when the truth "
        "does not vary."
    )
    n_judged: int = described("Nodes of the truth that carry no label.")
    n_labeled: int = described("Left out: nodes of the truth that carry a label.")
    n_absent: int = described("Left out: nodes of the truth that the predictions do not have.")
    n_unreachable: int = described("Judged nodes that no label reaches; predicted the mean.")


@record
class PredictionEvaluation(Provenance):
    """Predictions against the truth, with where they come from."""

    of_classes: Evaluation | None = described("Null where numbers are predicted.")
    of_numbers: RealEvaluation | None = described("Null where classes are predicted.")
    left_out: dict[str, int] = described(
        "Rows of the truth that were left out, by their word, which means no label.",
        default_factory=dict,
    )
    note: str | None = described(
        "What may have gone wrong: nothing is judged, or the truth has classes that no label has.",
        default=None,
    )
