"""Predictions of nodes, and suggestions of nodes to label."""

from datetime import datetime
from typing import Literal

from peewit.service.wire.labels import Label, LabelOrigin
from peewit.service.wire.records import described, record

NodeId = int | str


@record
class Prediction:
    """What is predicted for one node; fields of a `Prediction` in a file."""

    node: NodeId = described("A string where a float would not hold the integer.")
    label: Label | None = described("Null where no label reaches.")
    score: float = described("Score of the winner; where targets are real, the number predicted.")
    margin: float | None = described("Winner minus runner-up; null of real targets.")
    reachable: bool
    variance: float | None = described("Null unless the job was asked for it.")
    stability: float | None = described(
        "Share of the replicas of the sparsifier that predict the same; null as variance."
    )
    proven: bool | None = described(
        "Whether the label is proven to be that of all edges; null as variance."
    )
    scores: dict[str, float] | None = described("By class; null where there are many.")
    p_values: dict[str, float] | None = described(
        "By class: a class is in a set where it is more than 1 - coverage. Null unless the job was "
        "asked for sets.",
        default=None,
    )
    labels: tuple[Label, ...] | None = described(
        "The set of the coverage that was asked; null without it.", default=None
    )
    certain: bool | None = described(
        "Whether one label alone is in the set; null without it.", default=None
    )


@record
class Provenance:
    """What predictions were made from."""

    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    refined: bool = described("Whether scores are those of the full graph.")
    score: str = described("How to read scores: probability, class score or value.")
    objective: str | None = described(
        "What labels aim at, accuracy or macro-f1; null of models that have no choice.",
        default=None,
    )
    label_column: str | None = described(
        "The column of labels that is predicted; null for the one without a name.", default=None
    )


@record
class SetGroup:
    """Classes whose nodes have the true label in their sets as often as is said, together."""

    labels: tuple[Label, ...]
    n_labels: int = described(
        "Labels of these classes that were left out once, and that others reached."
    )
    guaranteed: float = described(
        "Least chance by the theorem, where the labels are a random sample of the nodes of "
        "these classes. Expect about the coverage that was asked."
    )
    excludes: bool = described(
        "Whether there are labels enough to leave a class of these out of any set."
    )


@record
class SetsOfPredictions:
    """Sets of labels, what they promise, and how large they are."""

    coverage: float = described("Asked.")
    groups: tuple[SetGroup, ...] = described("One alone where sets are marginal.")
    unpromised: tuple[Label, ...] = described(
        "Classes of which no label could be left out, as they have one label. Nothing is "
        "promised to their nodes, nor to those of classes without a label."
    )
    n_nodes: int = described("Nodes that a label reaches; sets of others hold all labels.")
    mean_size: float | None = described("Mean size of their sets; null without any.")
    certain_share: float | None = described("Part of these nodes whose set holds one label.")
    warning: str | None = described(
        "What makes the promise doubtful, or by which labels it is; null else."
    )


@record
class PredictionSets(Provenance):
    """The same, with where the predictions come from."""

    sets: SetsOfPredictions


@record
class DoubtfulLabel:
    """A label, and what the others say of its node."""

    node: NodeId = described("A string where a float would not hold the integer.")
    label: Label = described("The one that was given.")
    predicted: Label = described("By the other labels.")
    behind: float = described(
        "Score of the best other class minus that of the given one; below 0 where the others agree."
    )
    probability: float | None = described(
        "Probability of the given label by the other labels; null where scores are class scores."
    )
    dropped: bool = described(
        "Whether the answer does without it, as without_doubtful asked.", default=False
    )


@record
class DoubtfulLabelList:
    """Labels that the others contradict, the most doubtful first."""

    n_left_out: int = described("Labels that were left out once.")
    n_contradicted: int = described("Those of them that the others predict otherwise.")
    labels: tuple[DoubtfulLabel, ...] = described(
        "As many as were asked for, agreed ones included."
    )


@record
class DoubtfulLabels(Provenance):
    """The same, with where the predictions come from."""

    doubtful: DoubtfulLabelList


@record
class LabelReason:
    """A label that speaks for its class at a node."""

    node: NodeId = described("Where the label is; a string where a float would not hold it.")
    label: Label
    part: float = described(
        "Part of the support of its class. By walks: of its density (J15), and at least so "
        "much where walks were not followed to their end. By shares: of the sizes of all "
        "shares in its score (J19), below 0 where it speaks against its own class."
    )
    way: tuple[NodeId, ...] | None = described(
        "How walks from the node most likely come there, both ends included; null where that was "
        "too far to look for, or leads through nodes that were erased."
    )
    relations: tuple[tuple[str, ...], ...] | None = described(
        "Relations that join the ends of each step of the way, the weightiest first; null without "
        "a way, and where the graph names none."
    )


@record
class FeatureReason:
    """A feature that speaks for the class, or against it."""

    name: str = described("Name of a column, `column=word`, or of a count, as `message sent`.")
    value: float | None = described(
        "The node's own, as it came; null of a node without features, and of a missing one."
    )
    part: float = described(
        "Part of what all features add, by size: the node's own and those near it, "
        "smoothed along the edges (K5c). Below 0 where it speaks against the class."
    )


@record
class ClassSupport:
    """How much speaks for a class."""

    label: Label
    support: float = described(
        "By walks its density, 1 where those from the node find it as those from anywhere do; by "
        "shares what its labels add to its score."
    )


@record
class NodeReasons:
    """Which labels speak for what is predicted of a node."""

    node: NodeId = described("A string where a float would not hold the integer.")
    label: Label | None = described("Null where no label reaches.")
    score: float = described("Score of this label, as in the predictions.")
    by: Literal["walks", "shares"] = described(
        "walks that restart at the node; or shares: what each label adds to the model's own "
        "scores, exactly, as solves with label_shares keep it."
    )
    classes: tuple[ClassSupport, ...] = described("The largest five, the largest first.")
    labels: tuple[LabelReason, ...] = described(
        "Labels of the class predicted, the largest part first."
    )
    carried: float = described("Part of the support of the class predicted that these carry.")
    against: tuple[LabelReason, ...] = described(
        "Labels of other classes that add most to their support; up to as many."
    )
    features: tuple[FeatureReason, ...] = described(
        "Those that add most, where features are part of the answer and still there."
    )
    belief_features: float = described(
        "How much of the answer is by features, 0 to 1; 0 where it is by edges alone."
    )
    followed: float = described("Share of the walks that were followed to their end.")
    is_whole: bool = described(
        "Whether all is known that supports the classes: shares do, and densities of auto, which "
        "hold the walks that were not followed, too."
    )
    note: str | None = described("What to know of these reasons; null of nothing.")


@record
class PredictionReasons(Provenance):
    """The same, with where the prediction comes from."""

    reasons: NodeReasons


@record
class NodePrediction(Provenance):
    """The prediction of one node, with where it comes from."""

    prediction: Prediction


@record
class Lookup(Provenance):
    """The predictions of some nodes, with where they come from."""

    predictions: tuple[Prediction, ...]
    newer: tuple[NodeId, ...] = described("Nodes that came after the snapshot.")
    unasked: tuple[NodeId, ...] = described(
        "Nodes of kinds that the predictions are not about; they carry labels on."
    )
    unknown: tuple[NodeId, ...] = described("Nodes that the graph does not know.")


@record
class PredictionRows(Provenance):
    """Some predictions in the order of the file, with where they come from."""

    predictions: tuple[Prediction, ...]
    next_row: int | None = described("For ?first=, of the next such page; null on the last one.")


@record
class Suggestion:
    """A node to label."""

    node: NodeId = described("A string where a float would not hold the integer.")
    prediction: Prediction | None = described("Null while nothing is predicted of it.")


@record
class Suggestions:
    """Nodes to label, the most useful first; none of them has a label."""

    strategy: Literal["margin", "variance", "coverage", "random"]
    origin: LabelOrigin = described("What to put their labels with.")
    job: str | None = described("Whose predictions were looked at; null without any.")
    model: str | None
    snapshot: int | None = described("Snapshot of the predictions.")
    predicted_labels_seq: int | None = described("Last label that the predictions know.")
    labels_seq: int = described("Last label that was looked at.")
    embedding_snapshot: int | None = described(
        "The snapshot in which the nodes were located; null for margin."
    )
    suggestions: tuple[Suggestion, ...]
    reserved_until: datetime | None = described(
        "Until then they are suggested to no other caller; null unless asked.", default=None
    )

    @property
    def nodes(self) -> list[NodeId]:
        """The nodes alone."""
        return [each.node for each in self.suggestions]
