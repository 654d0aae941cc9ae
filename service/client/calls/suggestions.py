"""Suggestions of nodes to label next.

Written from `peewit.service.operations.suggestions`; `make generate` writes it anew.
"""

from typing import Literal

from peewit.service.client.call_steps import Call
from peewit.service.client.calls.common import after_job, get
from peewit.service.wire.predictions import Suggestions


def suggestions(
    graph: str,
    strategy: Literal["margin", "variance", "coverage", "random"] = "margin",
    k: int = 20,
    reserve: bool = False,
    annotator: str | None = None,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    timeout: float | None = None,
) -> Call[Suggestions]:
    """Nodes whose label would help most.

    Never one that has a label. By margin: where the two best classes are closest; needs
    predictions. By variance: what tells most of all others. By coverage: unsure nodes that differ.
    These two first locate the nodes, by a job of kind embed, and do without predictions, and so
    tell where to begin. By random: the first nodes of a random order that never changes: labels of
    all of them are a random sample, by which to judge. Put the labels with the `origin` of the
    answer: answers are not judged by suggested ones. With `reserve` no two callers are given the
    same node; it is free again when it has a label, is given back, or after a while.

    Parameters
    ----------
    graph : str
        Its name.
    strategy : Literal['margin', 'variance', 'coverage', 'random'], optional
        How nodes are chosen: by the least margins, by what takes most variance from all nodes,
        by how much they differ, or at random.
    k : int, optional
        Most nodes; 200 but by random.
    reserve : bool, optional
        Suggest them to no other caller for PEEWIT_RESERVE_SECONDS; what the caller has reserved
        comes again, first. At most 200.
    annotator : str, optional
        For whom they are reserved, where a tool asks several people.
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.
    timeout : float, optional
        Seconds to wait for a job that must end first; for ever when left out.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    Conflict
        The graph has no embedding yet. Or: The job that should make the embedding has failed.
    InvalidArgument
        The predictions are numbers, which have no margins.
    JobCancelled
        Somebody has cancelled the job that must end first.
    StillWaiting
        Time is over; the job goes on.
    """
    request = get(
        "graphs",
        graph,
        "suggestions",
        strategy=strategy,
        k=k,
        reserve=reserve,
        annotator=annotator,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from after_job(Suggestions, request, seconds=timeout))
