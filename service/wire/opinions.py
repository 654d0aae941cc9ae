"""Records of reservations, second opinions and agreement, as they go over the wire."""

from datetime import datetime

from peewit.service.wire.labels import Label, LabelOrigin
from peewit.service.wire.records import described, record


@record
class SecondOpinionNodes:
    """Nodes that others have labeled, without their label and without what is predicted."""

    nodes: list[int | str] = described("A string where a float would not hold the integer.")
    reserved_until: datetime | None = described(
        "Until then no other annotator is asked; null where nothing was reserved."
    )


@record
class GivenBack:
    """Reservations that have ended."""

    given_back: int


@record
class OpinionOfNode:
    """What one person has said of a node."""

    annotator: str | None = described("Null where nobody is known.")
    key: str | None = described("Name of the key that signed so; null without one.")
    label: Label
    at: datetime


@record
class Disagreement:
    """A node that people have labeled differently, and nobody has decided about."""

    node: str
    label: Label = described(
        "The one that stands: the first, until more people have given another than have given it."
    )
    origin: LabelOrigin
    opinions: tuple[OpinionOfNode, ...] = described("Those that count, in the order of answers.")


@record
class DisagreementList:
    """Nodes to decide about, the last answer first."""

    n_disagreements: int = described("All of them.")
    disagreements: tuple[Disagreement, ...]


@record
class AgreementFigure:
    """A figure and where it lies."""

    value: float | None = described("Null where it is not defined, as of one class alone.")
    low: float | None
    high: float | None


@record
class PairAgreement:
    """Agreement of two people."""

    annotators: tuple[str, str]
    n_nodes: int = described("That both have labeled.")
    n_agreed: int
    observed: AgreementFigure = described("Share of these nodes with the same label.")
    kappa: AgreementFigure = described("Cohen's.")


@record
class LabelAgreement:
    """How far people agree about labels."""

    drawn: str = described("random: on the nodes drawn at random; all: on all with two opinions.")
    share: float = described("Part of the labels given by hand that was to be drawn.")
    n_nodes: int = described("With opinions of two people or more, of those that count here.")
    n_nodes_of_all: int = described("The same, however they were chosen.")
    n_waiting: int = described("Nodes of the share that still want a second opinion.")
    n_disagreements: int = described("Nodes that wait for a decision, however they were chosen.")
    confidence: float
    observed: AgreementFigure = described("Share of the nodes on which all who answered agree.")
    alpha: AgreementFigure = described("Krippendorff's, of all people together.")
    pairs: tuple[PairAgreement, ...] = described("Who have the most nodes in common, first.")
    note: str | None = described("What to know of these figures; null of nothing.")
