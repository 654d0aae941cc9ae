"""Second opinions, reservations, disagreements and agreement of annotators."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from peewit.service.catalog import GraphRecord
from peewit.service.labels.second_opinions import NoFirstOpinion
from peewit.service.labels.store import BadLabels
from peewit.service.operations.answers import answer_of
from peewit.service.operations.bodies import LabelIn
from peewit.service.operations.declaration import Body, Query, operation
from peewit.service.operations.here import Here
from peewit.service.operations.which import LabelColumn
from peewit.service.predictions.agreement_report import Drawn, agreement_of
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.questions import Queue
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import MAX_SUGGESTIONS
from peewit.service.tables.formats import json_integer
from peewit.service.tables.uploads import BadUpload, LabelColumns, json_labels, node_id
from peewit.service.tables.uploads.label_words import AS_SAID
from peewit.service.wire.labels import Label, LabelReceipt
from peewit.service.wire.opinions import (
    Disagreement,
    DisagreementList,
    GivenBack,
    LabelAgreement,
    OpinionOfNode,
    SecondOpinionNodes,
)
from peewit.service.wire.predictions import NodeId
from peewit.solvers.arguments import BadArgument

MAX_OPINIONS: Final = 1_000
"""Answers in one call."""

MAX_DISAGREEMENTS: Final = 10_000

Annotator = Annotated[
    str | None,
    Query(
        "Who says so, where a tool asks several people; else the name of the key, if there is one.",
        metavar="NAME",
    ),
]
Share = Annotated[
    float | None,
    Query(
        "Part of the labels given by hand that is drawn at random; by default that of the "
        "server's settings, PEEWIT_SECOND_OPINIONS.",
        ge=0,
        le=1,
    ),
]


@operation(
    "GET /second-opinions",
    "label",
    raises=(PredictionsNotFound, NotCrossValidated),
    client="second_opinions",
)
def get_second_opinions(
    here: Here,
    graph: GraphRecord,
    k: Annotated[int, Query("Most nodes.", ge=1, le=MAX_SUGGESTIONS, flag="-k")] = 1,
    by: Annotated[
        Queue, Query("A random share of the labels, or those that the others contradict.")
    ] = "second-opinion",
    share: Share = None,
    reserve: Annotated[bool, Query("Let nobody else be asked about them for a while.")] = True,
    annotator: Annotator = None,
    label_column: LabelColumn = None,
) -> SecondOpinionNodes:
    """Nodes that others have labeled by hand, for a second opinion of the caller.

    They are labeled blind: the answer has neither their label nor what is predicted. The caller has
    given no opinion of them yet. What the caller has reserved already comes first. Put the answers
    as `opinions`.
    """
    column, file = label_column or "", None
    if by == "doubtful":
        reader = here.home.predictions
        file = reader.open(reader.find(graph, column=column))
    who = here.given_by(annotator)
    if who is None:
        raise BadArgument(
            "annotator",
            "must have a name to be asked for a second opinion; call with a key, or name one",
        )
    questions = here.home.questions.second_opinions(
        graph,
        by,
        k,
        annotator=who,
        holder=here.holder_for(annotator),
        column=column,
        share=share,
        file=file,
        is_reserving=reserve,
    )
    ids = [node_id(each, graph.settings.node_ids) for each in questions.nodes]
    return SecondOpinionNodes(
        nodes=[json_integer(each) if isinstance(each, int) else each for each in ids],
        reserved_until=questions.until,
    )


@operation(
    "DELETE /reservations",
    "label",
    raises=(BadUpload,),
    client="give_back",
    items="given_back",
    is_repeatable=True,
)
def give_back_nodes(
    here: Here,
    graph: GraphRecord,
    nodes: Annotated[
        list[str] | None,
        Query(
            "May be given several times; all of the caller's when left out.",
            name="node",
            given_as=Sequence[NodeId] | None,
        ),
    ] = None,
    annotator: Annotator = None,
    label_column: LabelColumn = None,
) -> GivenBack:
    """Let others have nodes that the caller has reserved and does not label."""
    column, holder = label_column or "", here.holder_for(annotator)
    reservations = here.home.reservations
    if nodes:
        names = [str(node_id(each, graph.settings.node_ids)) for each in nodes]
    else:
        names = [each.node for each in reservations.own(graph.id, holder, column=column)]
    return GivenBack(given_back=reservations.give_back(graph.id, names, holder, column=column))


@operation(
    "POST /opinions", "label", raises=(NoFirstOpinion, BadUpload, BadLabels), is_repeatable=True
)
def put_opinions(
    here: Here,
    graph: GraphRecord,
    opinions: Annotated[
        list[LabelIn],
        Body(
            "Labels by node.", min_length=1, max_length=MAX_OPINIONS, given_as=Mapping[Any, Label]
        ),
    ],
    annotator: Annotator = None,
    label_column: LabelColumn = None,
) -> LabelReceipt:
    """Say what the caller thinks of nodes that others have labeled; all of it is stored, or none.

    The label that was given stands until more people have given another one. A later answer of the
    same person takes the place of the earlier one. In one call each node has one answer.
    """
    rows = [each.model_dump() for each in opinions]
    labels = json_labels(rows, graph.settings.node_ids, LabelColumns(words=AS_SAID))[""]
    receipt = here.home.second_opinions.answer(
        graph, labels, annotator=here.given_by(annotator), key=here.key, column=label_column or ""
    )
    return answer_of(LabelReceipt, receipt)


@operation("DELETE /opinions", "label", raises=(NoFirstOpinion, BadUpload))
def take_opinion_back(
    here: Here,
    graph: GraphRecord,
    node: Annotated[str, Query("Its id.", given_as=NodeId)],
    annotator: Annotator = None,
    label_column: LabelColumn = None,
) -> LabelReceipt:
    """Withdraw a second opinion of the caller."""
    receipt = here.home.second_opinions.take_back(
        graph,
        node_id(node, graph.settings.node_ids),
        annotator=here.given_by(annotator),
        key=here.key,
        column=label_column or "",
    )
    return answer_of(LabelReceipt, receipt)


@operation("GET /labels:agreement", "read", client="agreement")
def get_agreement(
    here: Here,
    graph: GraphRecord,
    drawn: Annotated[
        Drawn, Query("Nodes of the random share, or all that two people have labeled.")
    ] = "random",
    share: Share = None,
    confidence: Annotated[
        float, Query("Confidence of the intervals, in (0, 1).", gt=0, lt=1)
    ] = 0.95,
    label_column: LabelColumn = None,
) -> LabelAgreement:
    """How far people agree about the same nodes: percent, kappa of pairs, alpha of all.

    Figures from nodes drawn at random hold for all labels given by hand. Where people disagree the
    first label stands until more people have given another one, or somebody decides.
    """
    return agreement_of(
        here.home.questions,
        graph,
        column=label_column or "",
        drawn=drawn,
        share=share,
        confidence=confidence,
    )


@operation("GET /labels:disagreements", "read", client="disagreements")
def list_disagreements(
    here: Here,
    graph: GraphRecord,
    k: Annotated[int, Query("Most nodes.", ge=1, le=MAX_DISAGREEMENTS, flag="-k")] = 100,
    label_column: LabelColumn = None,
) -> DisagreementList:
    """Nodes that people have labeled differently, and which label stands until somebody decides."""
    disagreements = here.home.opinions.disagreements(graph.id, column=label_column or "")
    return DisagreementList(
        n_disagreements=len(disagreements),
        disagreements=tuple(
            answer_of(
                Disagreement,
                each,
                opinions=tuple(answer_of(OpinionOfNode, said) for said in each.opinions),
            )
            for each in disagreements[:k]
        ),
    )


@operation(
    "POST /labels:decide", "label", raises=(NoFirstOpinion, BadUpload, BadLabels), client="decide"
)
def decide_label(
    here: Here,
    graph: GraphRecord,
    node: Annotated[NodeId, Body("Its id.", flag="NODE")],
    label: Annotated[Label, Body("The one that is to stand.", flag="LABEL")],
    annotator: Annotator = None,
    label_column: LabelColumn = None,
) -> LabelReceipt:
    """Put the label that is to stand of a node about which people disagree.

    It keeps the `origin` of the label before, and no later answer changes it.
    """
    column = label_column or ""
    if here.is_local:
        label = here.home.labels.typed(graph.id, str(label), column=column)
    receipt = here.home.second_opinions.decide(
        graph,
        node_id(node, graph.settings.node_ids, name="node"),
        label,
        annotator=here.given_by(annotator),
        key=here.key,
        column=column,
    )
    return answer_of(LabelReceipt, receipt)
