"""Calls about second opinions, reservations and agreement of annotators."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read
from peewit.service.client.calls.downloads import table_of
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
    *,
    by: Literal["second-opinion", "doubtful"] = "second-opinion",
    share: float | None = None,
    reserve: bool = True,
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[SecondOpinionNodes]:
    """Nodes that others have labeled and this person is to label, too, without knowing their label.

    Parameters
    ----------
    graph : str
        Its name.
    k : int
        Most nodes, 1 to 200.
    by : {"second-opinion", "doubtful"}
        A random share of the labels given by hand, or labels that the others contradict.
    share : float, optional
        That share, in [0, 1]; as the server is set otherwise.
    reserve : bool
        Let nobody else be asked about them for a while.
    annotator : str, optional
        Who is asked; the name of the key when left out.
    label_column : str, optional
        The named column of labels; the one without a name otherwise.

    Raises
    ------
    InvalidArgument
        There is no name.
    """
    request = get(
        "graphs",
        graph,
        "second-opinions",
        k=k,
        by=by,
        share=share,
        reserve=str(reserve).lower(),
        annotator=annotator,
        label_column=label_column,
    )
    return (yield from read(SecondOpinionNodes, request))


def give_back(
    graph: str,
    nodes: Sequence[NodeId] | None = None,
    *,
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[int]:
    """Let others have nodes that were reserved, all of them when left out; how many there were."""
    request = Request(
        method="DELETE",
        path=path("graphs", graph, "reservations"),
        params={
            "node": None if nodes is None else [str(node) for node in nodes],
            "annotator": annotator,
            "label_column": label_column,
        },
        is_repeatable=True,
    )
    return (yield from read(GivenBack, request)).given_back


def put_opinions(
    graph: str,
    opinions: Mapping[Any, Label],
    *,
    annotator: str | None = None,
    label_column: str | None = None,
) -> Call[LabelReceipt]:
    """Say what somebody thinks of nodes that others have labeled; all of it is stored, or none.

    Parameters
    ----------
    graph : str
        Its name.
    opinions : mapping
        Label by node, at most 1,000.
    annotator : str, optional
        Whose they are; the name of the key when left out.
    label_column : str, optional
        The named column of labels; the one without a name otherwise.

    Raises
    ------
    Conflict
        A node has no label, or one of the same person.
    InvalidArgument
        There is no name, or a label breaks a rule.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "opinions"),
        params={"annotator": annotator, "label_column": label_column},
        json={
            "opinions": [{"node": node, "label": label} for node, label in opinions.items()],
        },
        is_repeatable=True,
    )
    return (yield from read(LabelReceipt, request))


def opinions(
    graph: str, *, withdrawn: bool = False, label_column: str | None = None
) -> Call[pa.Table]:
    """What each person has said: ``node``, ``annotator``, ``label``, ``at``, ``withdrawn_at``.

    Labels are JSON; those that count no longer come only when asked for.
    """
    request = get(
        "graphs",
        graph,
        "opinions",
        withdrawn=str(withdrawn).lower(),
        label_column=label_column,
    )
    return (yield from table_of(request))[0]


def agreement(
    graph: str,
    *,
    drawn: Literal["random", "all"] = "random",
    share: float | None = None,
    confidence: float = 0.95,
    label_column: str | None = None,
) -> Call[LabelAgreement]:
    """How far people agree about labels, with intervals.

    Parameters
    ----------
    graph : str
        Its name.
    drawn : {"random", "all"}
        Nodes of the random share, of which the figures hold for all labels given by hand; or all
        with two opinions.
    share : float, optional
        That share, in [0, 1]; as the server is set otherwise.
    confidence : float
        Of the intervals, in (0, 1).
    label_column : str, optional
        The named column of labels; the one without a name otherwise.
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
    graph: str, *, k: int = 100, label_column: str | None = None
) -> Call[DisagreementList]:
    """Nodes that people have labeled differently, and which label stands until somebody decides."""
    request = Request(
        method="GET",
        path=path("graphs", graph, "labels", verb="disagreements"),
        params={"k": k, "label_column": label_column},
        is_repeatable=True,
    )
    return (yield from read(DisagreementList, request))


def decide(
    graph: str, node: NodeId, label: Label, *, label_column: str | None = None
) -> Call[LabelReceipt]:
    """Put the label that is to stand of a node about which people disagree.

    Raises
    ------
    Conflict
        There are not several opinions of the node.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "labels", verb="decide"),
        params={"label_column": label_column},
        json={"node": node, "label": label},
    )
    return (yield from read(LabelReceipt, request))
