"""Second opinions, reservations, disagreements and agreement of annotators.

Written from `peewit.service.operations.opinions`; `make generate` writes it anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read
from peewit.service.wire.labels import Label, LabelReceipt
from peewit.service.wire.opinions import (
    DisagreementList,
    GivenBack,
    LabelAgreement,
    SecondOpinionNodes,
)
from peewit.service.wire.predictions import NodeId


def second_opinions(
    graph: str,
    k: int = 1,
    by: Literal["second-opinion", "doubtful"] = "second-opinion",
    share: float | None = None,
    reserve: bool = True,
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[SecondOpinionNodes]:
    """Nodes that others have labeled by hand, for a second opinion of the caller.

    They are labeled blind: the answer has neither their label nor what is predicted. The caller has
    given no opinion of them yet. What the caller has reserved already comes first. Put the answers
    as `opinions`.

    Parameters
    ----------
    graph : str
        Its name.
    k : int, optional
        Most nodes.
    by : Literal['second-opinion', 'doubtful'], optional
        A random share of the labels, or those that the others contradict.
    share : float, optional
        Part of the labels given by hand that is drawn at random; by default that of the
        server's settings, PEEWIT_SECOND_OPINIONS.
    reserve : bool, optional
        Let nobody else be asked about them for a while.
    annotator : str, optional
        Who says so, where a tool asks several people; else the name of the key, if there is
        one.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Raises
    ------
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    Conflict
        The job kept no scores of left-out labels.
    """
    request = get(
        "graphs",
        graph,
        "second-opinions",
        k=k,
        by=by,
        share=share,
        reserve=reserve,
        annotator=annotator,
        label_column=label_column,
    )
    return (yield from read(SecondOpinionNodes, request))


def give_back(
    graph: str,
    nodes: Sequence[int | str] | None = None,
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[int]:
    """Let others have nodes that the caller has reserved and does not label.

    Parameters
    ----------
    graph : str
        Its name.
    nodes : Sequence[int or str], optional
        May be given several times; all of the caller's when left out.
    annotator : str, optional
        Who says so, where a tool asks several people; else the name of the key, if there is
        one.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Raises
    ------
    InvalidArgument
        What came cannot be read as the table it should be; nothing of it is taken.
    """
    request = Request(
        method="DELETE",
        path=path("graphs", graph, "reservations"),
        params={
            "node": None if nodes is None else list(nodes),
            "annotator": annotator,
            "label_column": label_column,
        },
        is_repeatable=True,
    )
    return (yield from read(GivenBack, request)).given_back


def put_opinions(
    graph: str,
    opinions: Mapping[Any, int | str | float],
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[LabelReceipt]:
    """Say what the caller thinks of nodes that others have labeled; all of it is stored, or none.

    The label that was given stands until more people have given another one. A later answer of the
    same person takes the place of the earlier one. In one call each node has one answer.

    Parameters
    ----------
    graph : str
        Its name.
    opinions : Mapping[Any, int or str or float]
        Labels by node.
    annotator : str, optional
        Who says so, where a tool asks several people; else the name of the key, if there is
        one.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Raises
    ------
    Conflict
        The node has no label of somebody else to give a second opinion about.
    InvalidArgument
        What came cannot be read as the table it should be; nothing of it is taken. Or: A node
        or label breaks a rule; nothing of the batch is stored.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "opinions"),
        params={"annotator": annotator, "label_column": label_column},
        json={"opinions": [{"node": node, "label": label} for node, label in opinions.items()]},
        is_repeatable=True,
    )
    return (yield from read(LabelReceipt, request))


def take_opinion_back(
    graph: str, node: NodeId, annotator: str | None = None, label_column: str | None = None
) -> Call[LabelReceipt]:
    """Withdraw a second opinion of the caller.

    Parameters
    ----------
    graph : str
        Its name.
    node : NodeId
        Its id.
    annotator : str, optional
        Who says so, where a tool asks several people; else the name of the key, if there is
        one.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Raises
    ------
    Conflict
        The node has no label of somebody else to give a second opinion about.
    InvalidArgument
        What came cannot be read as the table it should be; nothing of it is taken.
    """
    request = Request(
        method="DELETE",
        path=path("graphs", graph, "opinions"),
        params={"node": node, "annotator": annotator, "label_column": label_column},
    )
    return (yield from read(LabelReceipt, request))


def agreement(
    graph: str,
    drawn: Literal["random", "all"] = "random",
    share: float | None = None,
    confidence: float = 0.95,
    label_column: str | None = None,
) -> Call[LabelAgreement]:
    """How far people agree about the same nodes: percent, kappa of pairs, alpha of all.

    Figures from nodes drawn at random hold for all labels given by hand. Where people disagree the
    first label stands until more people have given another one, or somebody decides.

    Parameters
    ----------
    graph : str
        Its name.
    drawn : Literal['random', 'all'], optional
        Nodes of the random share, or all that two people have labeled.
    share : float, optional
        Part of the labels given by hand that is drawn at random; by default that of the
        server's settings, PEEWIT_SECOND_OPINIONS.
    confidence : float, optional
        Confidence of the intervals, in (0, 1).
    label_column : str, optional
        A named column of labels; the one without a name otherwise.
    """
    request = Request(
        method="GET",
        path=path("graphs", graph, "labels", verb="agreement"),
        params={
            "drawn": drawn,
            "share": share,
            "confidence": confidence,
            "label_column": label_column,
        },
        is_repeatable=True,
    )
    return (yield from read(LabelAgreement, request))


def disagreements(
    graph: str, k: int = 100, label_column: str | None = None
) -> Call[DisagreementList]:
    """Nodes that people have labeled differently, and which label stands until somebody decides.

    Parameters
    ----------
    graph : str
        Its name.
    k : int, optional
        Most nodes.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.
    """
    request = Request(
        method="GET",
        path=path("graphs", graph, "labels", verb="disagreements"),
        params={"k": k, "label_column": label_column},
        is_repeatable=True,
    )
    return (yield from read(DisagreementList, request))


def decide(
    graph: str,
    node: NodeId,
    label: Label,
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[LabelReceipt]:
    """Put the label that is to stand of a node about which people disagree.

    It keeps the `origin` of the label before, and no later answer changes it.

    Parameters
    ----------
    graph : str
        Its name.
    node : NodeId
        Its id.
    label : Label
        The one that is to stand.
    annotator : str, optional
        Who says so, where a tool asks several people; else the name of the key, if there is
        one.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Raises
    ------
    Conflict
        The node has no label of somebody else to give a second opinion about.
    InvalidArgument
        What came cannot be read as the table it should be; nothing of it is taken. Or: A node
        or label breaks a rule; nothing of the batch is stored.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "labels", verb="decide"),
        params={"annotator": annotator, "label_column": label_column},
        json={"node": node, "label": label},
    )
    return (yield from read(LabelReceipt, request))
