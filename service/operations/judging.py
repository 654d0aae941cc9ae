"""How far predictions can be trusted: sets, abstention, doubts, reasons, thresholds."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from peewit.service.catalog import GraphRecord
from peewit.service.operations.bodies import LabelsIn
from peewit.service.operations.declaration import Group, Query, Table, operation
from peewit.service.operations.here import Here
from peewit.service.operations.labels import LabelReading
from peewit.service.operations.tables import GivenLabels
from peewit.service.operations.which import (
    OF_PREDICTIONS,
    Positive,
    ThresholdValue,
    Which,
    provenance,
)
from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.doubtful_labels import MAX_DOUBTFUL, doubtful_labels
from peewit.service.predictions.evaluation import evaluate, evaluate_numbers, evaluation_note
from peewit.service.predictions.label_sets import LabelSets, SetsNotKept
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.reader import NodeNotAsked, NodeNotFound, NodeNotPredicted
from peewit.service.predictions.reasons import MAX_REASONS, ReasonsNotKept, node_reasons
from peewit.service.predictions.thresholds import (
    asked_threshold,
    class_threshold,
    left_out_evaluation,
)
from peewit.service.tables.uploads import BadUpload, node_id
from peewit.service.wire.evaluations import PredictionAbstention, PredictionEvaluation, Threshold
from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import (
    DoubtfulLabels,
    NodeId,
    PredictionReasons,
    PredictionSets,
)
from peewit.solvers.arguments import BadArgument
from peewit.streaming.snapshots.store import SnapshotNotFound


@dataclass(frozen=True, kw_only=True)
class Goal(Group):
    """What a threshold is chosen for."""

    min_recall: Annotated[
        float | None, Query("Least part of the class to find, as precisely as can be; in (0, 1].")
    ] = None
    min_precision: Annotated[
        float | None,
        Query(
            "Least precision, in (0, 1]: the part of the nodes found that "
            "is of the class. Finds as many as it allows."
        ),
    ] = None
    cost_fn: Annotated[float | None, Query("Cost of a node of the class that is missed.")] = None
    cost_fp: Annotated[
        float | None, Query("Cost of another node taken for it; 1 when left out.")
    ] = None
    positive_share: Annotated[
        float | None,
        Query("Part of all nodes that is of the class; as among those judged when left out."),
    ] = None


@operation(
    "POST /predictions:evaluate",
    "read",
    raises=(*OF_PREDICTIONS, NotCrossValidated),
    client="evaluate",
    gate="label_tables",
)
def evaluate_predictions(
    here: Here,
    graph: GraphRecord,
    truth: Annotated[
        GivenLabels, Table("True labels: columns `node` and `label`.", json=LabelsIn, flag="TRUTH")
    ],
    which: Which,
    goal: Goal,
    reading: LabelReading,
    top_k: Annotated[
        int | None, Query("A class counts as found among so many; 3 by default.")
    ] = None,
    positive: Positive = None,
    threshold: ThresholdValue = None,
) -> PredictionEvaluation:
    """Predictions judged by true labels, on the nodes that carry no label; nothing is stored.

    By figures of each class and of all, or where labels are real numbers by the size of the misses.
    With `positive` also a threshold on its score: given, or chosen on labels left out for a goal.
    """
    file = which.open(here, graph)
    column, labels = file.meta.label_column, here.home.labels
    if reading.contradictions == "opinions":
        raise BadArgument(
            "contradictions", "must be refuse, last or leave-out for the truth, got 'opinions'"
        )
    reading = replace(reading, label=reading.label or column or None)
    true_labels = truth.labels(here, graph, reading.columns(graph, into=column))[column]
    known = labels.current(graph.id, column=column, upto_seq=file.meta.labels_seq)
    chosen = asked_threshold(file, positive=positive, threshold=threshold, **vars(goal))
    table = file.table()
    if file.meta.score == "value":
        of_numbers = evaluate_numbers(table, true_labels, known)
        evaluation: dict[str, Any] = {"of_classes": None, "of_numbers": of_numbers}
    else:
        of_classes = evaluate(table, true_labels, known, top_k=top_k, threshold=chosen)
        evaluation = {"of_classes": of_classes, "of_numbers": None}
    result = evaluation["of_classes"] or evaluation["of_numbers"]
    return PredictionEvaluation(
        **provenance(file),
        **evaluation,
        left_out=dict(true_labels.left_out),
        note=evaluation_note(result, true_labels, known),
    )


@operation(
    "GET /predictions/sets",
    "read",
    raises=(*OF_PREDICTIONS, SetsNotKept),
    client="sets",
    tool="Say what sets of labels promise",
)
def get_sets(
    here: Here,
    graph: GraphRecord,
    which: Which,
    coverage: Annotated[float, Query("Chance that a set holds the true label, in (0, 1).")] = 0.9,
) -> PredictionSets:
    """What sets of labels of some coverage promise, to whom, and how large they are.

    The job must have solved with `sets=auto`.
    """
    file = which.open_to_evaluate(here, graph)
    return PredictionSets(**provenance(file), sets=LabelSets.of(file, coverage).summary())


@operation(
    "GET /predictions/abstention",
    "read",
    raises=(*OF_PREDICTIONS, NotCrossValidated),
    client="abstention",
    tool="Say how sure a prediction must be",
)
def get_abstention(
    here: Here,
    graph: GraphRecord,
    which: Which,
    max_error: Annotated[float, Query("Part of the answers that may be wrong, in (0, 1).")] = 0.05,
    confidence: Annotated[float, Query("Chance that no more are, at least.")] = 0.9,
) -> PredictionAbstention:
    """How sure a prediction must be for few to be wrong: a score, and the curve of errors.

    The job must give probabilities and have left labels out: `sets=auto` or `cross_validate=5` with
    `auto`, `probabilities=true` with any other model.
    """
    file = which.open_to_evaluate(here, graph)
    abstaining = abstention(file, max_error=max_error, confidence=confidence)
    return PredictionAbstention(**provenance(file), abstention=abstaining)


@operation(
    "GET /predictions/doubtful-labels",
    "read",
    raises=(*OF_PREDICTIONS, NotCrossValidated),
    client="doubtful_labels",
    tool="List doubtful labels",
)
def get_doubtful_labels(
    here: Here,
    graph: GraphRecord,
    which: Which,
    k: Annotated[int, Query("Most labels.", ge=1, le=MAX_DOUBTFUL, flag="-k")] = 20,
) -> DoubtfulLabels:
    """Labels that the others contradict, the most doubtful first: mistakes are among them.

    Behind is the score of what the others say minus that of the label; below 0 they agree. The job
    must have solved with `cross_validate=5`, `sets=auto`, `probabilities=true`, or
    `without_doubtful=K`, which drops some of them from the answer.
    """
    file = which.open_to_evaluate(here, graph)
    return DoubtfulLabels(**provenance(file), doubtful=doubtful_labels(file, k=k))


@operation(
    "GET /predictions/node/reasons",
    "read",
    raises=(
        *OF_PREDICTIONS,
        NodeNotFound,
        NodeNotPredicted,
        NodeNotAsked,
        ReasonsNotKept,
        SnapshotNotFound,
        BadUpload,
    ),
    client="reasons",
)
def get_reasons(
    here: Here,
    graph: GraphRecord,
    which: Which,
    node: Annotated[
        str, Query("External id of the node.", name="id", flag="NODE", given_as=NodeId)
    ],
    k: Annotated[
        int, Query("Most labels for it, and against it.", ge=1, le=MAX_REASONS, flag="-k")
    ] = 5,
) -> PredictionReasons:
    """Which labels speak for a prediction, and on which way.

    Jobs with `label_shares=true` also show what labels add to the model's own scores. The first
    question after a snapshot reads it whole; further ones take a moment.
    """
    its_id = node_id(node, graph.settings.node_ids, name="NODE" if here.is_local else "id")
    file = which.open_to_evaluate(here, graph)
    home = here.home
    reasons = node_reasons(home.predictions, home.paths(graph), graph, file, its_id, k=k)
    return PredictionReasons(**provenance(file), reasons=reasons)


@operation(
    "GET /predictions/threshold",
    "read",
    raises=(*OF_PREDICTIONS, NotCrossValidated),
    client="threshold",
    tool="Choose a threshold for a class",
)
def get_threshold(
    here: Here,
    graph: GraphRecord,
    which: Which,
    goal: Goal,
    positive: Annotated[str, Query("The class to decide.", metavar="CLASS", given_as=Label)],
) -> Threshold:
    """A threshold on the score of a class, chosen on the labels that the job left out.

    The job must have solved with `cross_validate=5`. Exactly one goal: `min_recall`,
    `min_precision`, or costs. Where labels were not drawn at random, give `positive_share` as well.
    """
    file = which.open_to_evaluate(here, graph)
    chosen = class_threshold(file, positive, **vars(goal))
    return Threshold(**provenance(file), chosen=left_out_evaluation(file, chosen))
