"""Model guide: which model to take, by a few questions, and all models by family.

The rules are those of docs/how-to/choose-a-model.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query

Predicts = Literal["classes", "numbers", "points"]
Knows = Literal["edges", "both", "words", "vectors"]
Labels = Literal["few", "some", "arriving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What somebody has and wants.

    Attributes
    ----------
    predicts : {"classes", "numbers", "points"}
        Classes or numbers of nodes, or classes of points that are no nodes.
    knows : {"edges", "both", "words", "vectors"}
        Edges alone, features beside them, or features without edges: words, or dense vectors.
    labels : {"few", "some", "arriving"}
        Up to five of each class, more, or one after another.
    are_sizes_known : bool
        Whether the frequencies of the classes are known.
    """

    predicts: Annotated[Predicts, Query()] = "classes"
    knows: Annotated[Knows, Query()] = "edges"
    labels: Annotated[Labels, Query()] = "some"
    are_sizes_known: Annotated[bool, Query(alias="sizes")] = False
    needs_probabilities: Annotated[bool, Query(alias="probabilities")] = False


Answered = Annotated[Answers, Depends()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A model to take, and why."""

    model: str
    why: str  # one sentence
    parameters: Mapping[str, str] = field(default_factory=dict)  # to set, as text
    before: str = ""  # what to do first


QUESTIONS: Final[tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]] = (
    (
        "predicts",
        "What is to be predicted?",
        (
            ("classes", "classes of nodes"),
            ("numbers", "numbers of nodes"),
            ("points", "classes of new points, too, which are no nodes"),
        ),
    ),
    (
        "knows",
        "What is known of the nodes?",
        (
            ("edges", "edges"),
            ("both", "edges and features"),
            ("words", "features that are words, no edges"),
            ("vectors", "dense features, no edges"),
        ),
    ),
    (
        "labels",
        "How many labels?",
        (
            ("few", "up to five of each class"),
            ("some", "more"),
            ("arriving", "they come one after another"),
        ),
    ),
    (
        "sizes",
        "Is it known how common the classes are?",
        (("0", "no, or they are about even"), ("1", "yes, and they are uneven")),
    ),
    ("probabilities", "Must scores be probabilities?", (("0", "no"), ("1", "yes"))),
)
"""Name, text and answers of each question."""


def advice(answers: Answers) -> Advice:
    """The model to begin with, and the parameters to set."""
    advised = _model(answers)
    if not answers.needs_probabilities or answers.predicts == "numbers" or advised.model == "auto":
        return advised
    return replace(
        advised,
        parameters={**advised.parameters, "probabilities": "true"},
        why=f"{advised.why} Its scores become probabilities by labels left out.",
    )


def _model(answers: Answers) -> Advice:
    if answers.predicts == "numbers":
        return Advice(
            model="stable-hfs",
            parameters={"target": "real"},
            why="It predicts numbers from labels that are numbers.",
        )
    if answers.predicts == "points":
        return Advice(
            model="filtered-ridge",
            why="It predicts points that are no nodes, from features and, where there are, edges. "
            "Where features are dense and classes curved, take lapsvm.",
        )
    if answers.knows == "words":
        return Advice(
            model="tsvm",
            why="A linear function of words whose margin keeps clear of nodes without a label.",
        )
    if answers.knows == "vectors":
        return Advice(
            model="auto",
            why="It weighs several models by the labels that each predicts when they are left out.",
            before="Make edges from the features first: peewit graph knn.",
        )
    if answers.labels == "few" and answers.are_sizes_known:
        return Advice(
            model="poisson-mbo",
            parameters={"class_balance": '{"spam": 2, "ham": 1}'},
            why="It keeps to the sizes of the classes that you give, which few labels do not tell.",
        )
    if answers.labels == "arriving":
        return Advice(model="stable-hfs", why="It is the fastest to solve again.")
    return Advice(
        model="auto",
        why=(
            "It reads the graph in several ways, and the features where nodes have some. "
            "It leaves each label out in turn, and trusts most the way that predicts those "
            "labels best. Its scores are probabilities, and nothing has to be chosen."
        ),
    )


FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {
    "Several at once": {"auto": "several of the others, weighed by labels left out; the default"},
    "Along the edges": {
        "stable-hfs": "soft harmonic functions; classes or numbers, and the fastest to solve again",
        "hfs": "harmonic functions, soft or hard; scores are probabilities",
        "poisson": "for very few labels of each class",
        "poisson-mbo": "the same with class sizes that you know, or that it finds",
        "harmonic-mbo": "a harmonic function, then short walks that settle borders of clusters",
    },
    "Features along the edges": {
        "filtered-ridge": "features smoothed along the edges; also for new points",
        "lapsvm": "smooth functions of dense features; also for new points",
        "laprlsc": "the same by least squares",
    },
    "Features of words": {
        "tsvm": "a linear margin that keeps clear of unlabeled nodes; needs no edges",
        "da-svm": "the same by annealing",
        "linear-svm": "the same of labeled nodes alone",
    },
    "Clusters with sharp borders": {
        "tv-rls": "total variation; minutes rather than seconds",
        "tv-svm": "the same with hinges",
        "cheeger-rls": "the cut that is least over its balance",
        "cheeger-svm": "the same with hinges",
    },
    "For comparison": {
        "svm": "the labeled nodes alone, by a support vector machine",
        "rlsc": "the labeled nodes alone, by least squares",
        "lap-rls": "Laplacian least squares beside total variation",
        "lap-svm": "a Laplacian SVM beside total variation",
        "nearest-neighbor": "the class of the nearest labeled node",
        "subsampling": "a harmonic function on a sample of the nodes",
        "eigfun": "eigenfunctions of the features",
        "simple-hfs": "the simple algorithm of its paper",
    },
}
"""Every model once, with its purpose in a line."""


def line_of(model: str) -> str:
    """Purpose of a model."""
    return next((each[model] for each in FAMILIES.values() if model in each), "")


def given(answers: Answers) -> dict[str, Any]:
    """The answers by name of their question."""
    return {
        "predicts": answers.predicts,
        "knows": answers.knows,
        "labels": answers.labels,
        "sizes": "1" if answers.are_sizes_known else "0",
        "probabilities": "1" if answers.needs_probabilities else "0",
    }
