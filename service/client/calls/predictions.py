"""Predictions: the whole table, one node, some nodes, new points.

Written from `peewit.service.operations.predictions`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call
from peewit.service.client.calls.common import get, read
from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import PredictionRows


def prediction_rows(
    graph: str,
    label: Label | None = None,
    margin_below: float | None = None,
    score_from: float | None = None,
    first: int = 0,
    limit: int = 100,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionRows]:
    """A page of predictions, all or some, in the order of the file.

    Name the `job` of the first page in the next ones: a new one may come in between.

    Parameters
    ----------
    graph : str
        Its name.
    label : Label, optional
        Only nodes predicted so.
    margin_below : float, optional
        Only nodes whose two best classes are closer.
    score_from : float, optional
        Only nodes whose score is no less.
    first : int, optional
        Where to begin: `next_row` of the page before.
    limit : int, optional
        Most entries.
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "rows",
        label=label,
        margin_below=margin_below,
        score_from=score_from,
        first=first,
        limit=limit,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from read(PredictionRows, request))
