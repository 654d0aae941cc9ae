"""Second opinions, reservations, disagreements and agreement of annotators."""

from functools import partial
from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import (
    ONE_GRAPH,
    AnnotatorName,
    NamedColumn,
    given_by,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import (
    Body,
    InvalidArgument,
    NodeIn,
    refusing,
)
from peewit.service.api.schemas.labels import LabelIn
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.api.tables import ChosenFormat, FormatNotOffered, table_answer, table_response
from peewit.service.catalog import GraphNotFound
from peewit.service.labels.opinion_table import encode_opinions
from peewit.service.labels.second_opinions import NoFirstOpinion
from peewit.service.labels.store import BadLabels
from peewit.service.operations.answers import answer_of
from peewit.service.predictions.agreement_report import Drawn, agreement_of
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.questions import Queue
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import MAX_SUGGESTIONS
from peewit.service.tables.formats import json_integer
from peewit.service.tables.uploads import BadUpload, json_labels, node_id
from peewit.service.wire.labels import LabelReceipt
from peewit.service.wire.opinions import (
    Disagreement,
    DisagreementList,
    GivenBack,
    LabelAgreement,
    OpinionOfNode,
    SecondOpinionNodes,
)

router = resource("labels", ONE_GRAPH)

MAX_OPINIONS: Final = 1_000
"""Answers in one call."""

Share = Annotated[
    float | None,
    Query(
        ge=0,
        le=1,
        description="Of the labels given by hand that are drawn at random; that of the server's "
        "settings by default.",
    ),
]


class OpinionsIn(Body):
    """What one person says of nodes that others have labeled."""

    opinions: Annotated[list[LabelIn], Field(min_length=1, max_length=MAX_OPINIONS)]


class DecisionIn(Body):
    """The label that is to stand."""

    node: NodeIn
    label: int | str | float


@router.get(
    "/second-opinions",
    dependencies=[requires("label")],
    responses=problems(GraphNotFound, PredictionsNotFound, NotCrossValidated, InvalidArgument),
)
def get_second_opinions(
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    by: Annotated[
        Queue,
        Query(description="A random share of the labels, or those that the others contradict."),
    ] = "second-opinion",
    k: Annotated[int, Query(ge=1, le=MAX_SUGGESTIONS, description="Most nodes.")] = 1,
    share: Share = None,
    reserve: Annotated[
        bool, Query(description="Let nobody else be asked about them for a while.")
    ] = True,
    annotator: AnnotatorName = None,
    label_column: NamedColumn = None,
) -> SecondOpinionNodes:
    """Nodes that others have labeled by hand and the caller has said nothing of.

    They are to be labeled blind: neither the label nor what is predicted is told. What the caller
    has reserved already comes first. Put the answers as `opinions`.
    """
    column = label_column or ""
    file = None
    if by == "doubtful":
        file = home.predictions.open(home.predictions.find(graph, column=column))
    with refusing():
        who = given_by(caller, annotator)
        if who is None:
            raise InvalidArgument(
                "annotator must have a name to be asked for a second opinion; call with a key, or "
                "name one",
                argument="annotator",
            )
        found = home.questions.second_opinions(
            graph,
            by,
            k,
            annotator=who,
            holder=caller.holder_for(annotator),
            column=column,
            share=share,
            file=file,
            is_reserving=reserve,
        )
    kind = graph.settings.node_ids
    ids = [node_id(each, kind) for each in found.nodes]
    return SecondOpinionNodes(
        nodes=[json_integer(each) if isinstance(each, int) else each for each in ids],
        reserved_until=found.until,
    )


@router.delete(
    "/reservations", dependencies=[requires("label")], responses=problems(GraphNotFound, BadUpload)
)
def give_back_nodes(
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    node: Annotated[
        list[str],
        Query(
            default_factory=list,
            description="May be given several times; all of the caller's when left out.",
        ),
    ],
    annotator: AnnotatorName = None,
    label_column: NamedColumn = None,
) -> GivenBack:
    """Let others have nodes that the caller has reserved and does not label."""
    column = label_column or ""
    with refusing():
        holder = caller.holder_for(annotator)
    if not node:
        nodes = [each.node for each in home.reservations.own(graph.id, holder, column=column)]
    else:
        nodes = [str(node_id(each, graph.settings.node_ids)) for each in node]
    n_given = home.reservations.give_back(graph.id, nodes, holder, column=column)
    return GivenBack(given_back=n_given)


@router.post(
    "/opinions",
    dependencies=[requires("label")],
    responses=problems(GraphNotFound, NoFirstOpinion, BadUpload, BadLabels, InvalidArgument),
)
async def put_opinions(
    body: OpinionsIn,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    annotator: AnnotatorName = None,
    label_column: NamedColumn = None,
) -> LabelReceipt:
    """Say what the caller thinks of nodes that others have labeled; all of it is stored, or none.

    The label that was given stands until more people have given another one. Whoever answers again
    withdraws the answer before.
    """
    rows = [each.model_dump() for each in body.opinions]
    given = json_labels(rows, graph.settings.node_ids)[""]
    with refusing():
        who = given_by(caller, annotator)
        answer = partial(
            home.second_opinions.answer, graph, given, annotator=who, column=label_column or ""
        )
        return answer_of(LabelReceipt, await run_in_threadpool(answer))


@router.delete(
    "/opinions",
    dependencies=[requires("label")],
    responses=problems(GraphNotFound, NoFirstOpinion, BadUpload, InvalidArgument),
)
def take_opinion_back(
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    node: Annotated[str, Query()],
    annotator: AnnotatorName = None,
    label_column: NamedColumn = None,
) -> LabelReceipt:
    """Withdraw a second opinion of the caller."""
    with refusing():
        receipt = home.second_opinions.take_back(
            graph,
            node_id(node, graph.settings.node_ids),
            annotator=given_by(caller, annotator),
            column=label_column or "",
        )
    return answer_of(LabelReceipt, receipt)


@router.get(
    "/opinions",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    responses=table_answer(
        "Columns `node`, `annotator`, `label` (as JSON), `at` and `withdrawn_at`, of nodes that "
        "several people have labeled."
    )
    | problems(GraphNotFound, FormatNotOffered),
)
def get_opinions(
    graph: GraphHere,
    home: HomeHere,
    table_format: ChosenFormat,
    withdrawn: Annotated[bool, Query(description="Also those that count no longer.")] = False,
    label_column: NamedColumn = None,
) -> StreamingResponse:
    """What each person has said of nodes that several people have labeled."""
    found = home.opinions.all(graph.id, column=label_column or "", withdrawn=withdrawn)
    return table_response(
        encode_opinions(found, graph.settings.node_ids, table_format),
        table_format,
        name=f"{graph.settings.name}-opinions",
        headers={},
    )


@router.get(
    "/labels:agreement",
    dependencies=[requires("read")],
    responses=problems(GraphNotFound, InvalidArgument),
)
def get_agreement(
    graph: GraphHere,
    home: HomeHere,
    drawn: Annotated[
        Drawn, Query(description="Nodes of the random share, or all with two opinions.")
    ] = "random",
    share: Share = None,
    confidence: Annotated[float, Query(gt=0, lt=1)] = 0.95,
    label_column: NamedColumn = None,
) -> LabelAgreement:
    """How far people agree about labels: percent, kappa of pairs, alpha of all, with intervals."""
    return agreement_of(
        home.questions,
        graph,
        column=label_column or "",
        drawn=drawn,
        share=share,
        confidence=confidence,
    )


@router.get(
    "/labels:disagreements", dependencies=[requires("read")], responses=problems(GraphNotFound)
)
def list_disagreements(
    graph: GraphHere,
    home: HomeHere,
    k: Annotated[int, Query(ge=1, le=MAX_OPINIONS, description="Most nodes.")] = 100,
    label_column: NamedColumn = None,
) -> DisagreementList:
    """Nodes that people have labeled differently, and which label stands until somebody decides."""
    found = home.opinions.disagreements(graph.id, column=label_column or "")
    return DisagreementList(
        n_disagreements=len(found),
        disagreements=tuple(
            answer_of(
                Disagreement,
                each,
                opinions=tuple(answer_of(OpinionOfNode, said) for said in each.opinions),
            )
            for each in found[:k]
        ),
    )


@router.post(
    "/labels:decide",
    dependencies=[requires("label")],
    responses=problems(GraphNotFound, NoFirstOpinion, BadUpload, BadLabels),
)
async def decide_label(
    body: DecisionIn,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    label_column: NamedColumn = None,
) -> LabelReceipt:
    """Put the label that is to stand of a node about which people disagree.

    It keeps the `origin` of the label before, and no later answer changes it.
    """
    decide = partial(
        home.second_opinions.decide,
        graph,
        node_id(body.node, graph.settings.node_ids, name="node", row=0),
        body.label,
        annotator=caller.annotator,
        column=label_column or "",
    )
    return answer_of(LabelReceipt, await run_in_threadpool(decide))
