"""Suggestions of nodes to label next."""

import time
from typing import Literal

import httpx

from peewit.service.client.call_steps import Call, answered
from peewit.service.client.calls.common import POLL_SECONDS, get, parsed, with_wait
from peewit.service.client.errors import JobCancelled, StillWaiting
from peewit.service.wire.jobs import Job
from peewit.service.wire.predictions import Suggestions


def suggestions(
    graph: str,
    strategy: Literal["margin", "variance", "coverage", "random"] = "margin",
    k: int = 20,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    reserve: bool = False,
    annotator: str | None = None,
    timeout: float | None = None,
) -> Call[Suggestions]:
    """Nodes whose label would help most; none of them has a label.

    Put their labels with the ``origin`` of the answer.

    Parameters
    ----------
    graph : str
        Its name.
    strategy : {"margin", "variance", "coverage", "random"}
        The least margins; the nodes that take most from the variance of all; or nodes in the middle
        of k clusters of the unsure, so that they differ. The last two need no predictions, but the
        server has to locate the nodes first, once, which takes minutes on a large graph.
    k : int
        Most nodes, 1 to 200.
    model, job : str, optional
        Whose predictions to look at; the freshest by default.
    label_column : str, optional
        The named column that labels are wanted of; the one without a name otherwise.
    reserve : bool
        Let no other caller be given these nodes for a while; what was reserved comes again, first.
    annotator : str, optional
        For whom, where a program asks for several people.
    timeout : float, optional
        Seconds to wait until the nodes are located; for ever when left out.

    Raises
    ------
    PredictionsNotFound
        There are none, without which ``margin`` cannot do.
    Conflict
        The graph has no snapshot yet, or the nodes could not be located.
    JobCancelled
        Somebody has cancelled the job that locates them.
    StillWaiting
        Time is over; the job goes on.
    """
    request = get(
        "graphs",
        graph,
        "suggestions",
        strategy=strategy,
        k=k,
        model=model,
        job=job,
        label_column=label_column,
        reserve="true" if reserve else None,
        annotator=annotator,
    )
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = POLL_SECONDS if deadline is None else max(deadline - time.monotonic(), 0.0)
        wait = min(POLL_SECONDS, left)
        answer = yield from answered(with_wait(request, wait))
        if answer.status != httpx.codes.ACCEPTED:
            return parsed(Suggestions, answer.content)
        embedding = parsed(Job, answer.content)
        if embedding.status == "cancelled":
            raise JobCancelled(embedding)
        if wait <= 0:
            raise StillWaiting(f"job {embedding.id}", timeout or 0.0)
