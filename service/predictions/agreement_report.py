"""Agreement of annotators on one column of labels: figures, and notes on how to read them."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final, Literal

import numpy as np

from peewit.service.catalog import GraphRecord
from peewit.service.labels.opinions import Opinion
from peewit.service.predictions.questions import Questions, part_of
from peewit.service.tables.uploads import LabelValue
from peewit.service.wire.opinions import AgreementFigure, LabelAgreement, PairAgreement
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Int64Array
from peewit.solvers.assessment.agreement import (
    MOST_CLASSES,
    NO_ANSWER,
    Estimate,
    alpha_agreement,
    pair_agreement,
    wilson_interval,
)

Drawn = Literal["random", "all"]
"""Which nodes count: only those drawn at random, whose figures hold for all labels, or all."""

FEW_NODES: Final = 30
"""With fewer nodes the report adds a note: bootstrap intervals are too narrow then."""

_MOST_PAIRS: Final = 100


def agreement_of(
    questions: Questions,
    graph: GraphRecord,
    *,
    column: str = "",
    drawn: Drawn = "random",
    share: float | None = None,
    confidence: float = 0.95,
) -> LabelAgreement:
    """How far the annotators of a graph agree, on nodes with opinions of two or more of them.

    Opinions without an annotator do not count. A node is part of the random sample by its place in
    the order of second opinions, however it came to be asked about; so a doubtful node within the
    share counts, too. Raises ValueError for ``share`` or ``confidence`` outside its range.
    """
    share = questions.share if share is None else share
    if not 0 <= share <= 1:
        raise BadArgument("share", f"must lie in [0, 1], got {share}")
    opinions = [each for each in questions.opinions.all(graph.id, column=column) if each.annotator]
    people = sorted({opinion.annotator or "" for opinion in opinions})
    nodes, answers = _table(opinions, people)
    of_two = np.count_nonzero(answers != NO_ANSWER, axis=1) >= 2
    part = part_of(graph, column)
    counted = of_two & np.array([drawn == "all" or part(node) < share for node in nodes], bool)
    answers = answers[counted]
    n_nodes, alpha = alpha_agreement(answers, confidence=confidence)
    n_agreed = int(
        np.count_nonzero([len({*row[row != NO_ANSWER].tolist()}) == 1 for row in answers])
    )
    low, high = (
        wilson_interval(n_agreed, n_nodes, confidence=confidence) if n_nodes else (None, None)
    )
    n_waiting = _n_waiting(questions, graph, column, share, opinions)
    return LabelAgreement(
        drawn=drawn,
        share=share,
        n_nodes=n_nodes,
        n_nodes_of_all=int(np.count_nonzero(of_two)),
        n_waiting=n_waiting,
        n_disagreements=len(questions.opinions.disagreements(graph.id, column=column)),
        confidence=confidence,
        observed=AgreementFigure(value=n_agreed / n_nodes if n_nodes else None, low=low, high=high),
        alpha=_figure(alpha),
        pairs=_pairs(people, answers, confidence),
        note=_note(
            drawn,
            n_nodes,
            int(np.count_nonzero(of_two)),
            n_waiting,
            has_alpha=alpha.value is not None,
        ),
    )


def _table(opinions: Sequence[Opinion], people: Sequence[str]) -> tuple[list[str], Int64Array]:
    """Nodes, and the code of each person's answer for each node; equal labels have one code."""
    nodes = list(dict.fromkeys(opinion.node for opinion in opinions))
    row = {node: place for place, node in enumerate(nodes)}
    person = {name: place for place, name in enumerate(people)}
    classes: dict[LabelValue, int] = {}
    table = np.full((len(nodes), len(people)), NO_ANSWER, np.int64)
    for opinion in opinions:
        number = classes.setdefault(opinion.label, len(classes))
        table[row[opinion.node], person[opinion.annotator or ""]] = number
    return nodes, table


def _pairs(
    people: Sequence[str], answers: Int64Array, confidence: float
) -> tuple[PairAgreement, ...]:
    is_there = (answers != NO_ANSWER).astype(np.int64)
    common = is_there.T @ is_there
    pairs = [pair for pair in combinations(range(len(people)), 2) if common[pair]]
    pairs.sort(key=lambda pair: -int(common[pair]))
    agreements = []
    for first, second in pairs[:_MOST_PAIRS]:
        pair = pair_agreement(answers[:, first], answers[:, second], confidence=confidence)
        agreements.append(
            PairAgreement(
                annotators=(people[first], people[second]),
                n_nodes=pair.n_nodes,
                n_agreed=pair.n_agreed,
                observed=_figure(pair.observed),
                kappa=_figure(pair.kappa),
            )
        )
    return tuple(agreements)


def _figure(estimate: Estimate) -> AgreementFigure:
    return AgreementFigure(value=estimate.value, low=estimate.low, high=estimate.high)


def _n_waiting(
    questions: Questions, graph: GraphRecord, column: str, share: float, opinions: Sequence[Opinion]
) -> int:
    """Number of labels in the share that only one person has given an opinion on."""
    answered = {each.node for each in opinions}
    due = questions.due(graph, "", column=column, share=share)  # nobody has no name
    return sum(each not in answered for each in due)


def _note(
    drawn: Drawn, n_nodes: int, n_of_all: int, n_waiting: int, *, has_alpha: bool
) -> str | None:
    said = []
    if n_nodes == 0:
        said.append("no node has the opinions of two people yet")
        if n_of_all:
            said.append(f"but for {n_of_all:,} that were not drawn at random; ask for all of them")
    elif n_nodes < FEW_NODES:
        said.append(f"{n_nodes} nodes are few: below {FEW_NODES} kappa and alpha say little")
    if n_nodes and not has_alpha:
        said.append(
            "alpha is not defined where all answers are the same label, since nothing says "
            "how often people would agree by chance. It is not computed for more than "
            f"{MOST_CLASSES:,} labels"
        )
    if n_nodes and drawn == "random" and n_waiting:
        said.append(
            f"{n_waiting:,} more nodes of the sample want a second opinion; until they have it "
            "those that people put off are missing"
        )
    if n_nodes and drawn == "all":
        said.append("doubtful labels are among them, so that they tell nothing of all labels")
    return "; ".join(said) or None
