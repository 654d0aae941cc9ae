"""The node to label next, or why there is none and what to do about it."""

from typing import Any, NamedTuple

from peewit.service.api.stores import Stores
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.rounds import Rounds
from peewit.service.jobs.job import Job
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import (
    LOCATING,
    EmbeddingFailed,
    Strategy,
    origin_of,
)
from peewit.service.wire.labels import LabelOrigin


class Question(NamedTuple):
    """A node, as text, and what to put its label with."""

    node: str
    origin: LabelOrigin


class NoNode(LookupError):
    """There is no node to label.

    Attributes
    ----------
    values : dict
        For the template: ``state``, and what it says of it.
    """

    def __init__(self, state: str, **values: Any) -> None:
        super().__init__(state)
        self.values = {"state": state, **values}


def next_node(
    graph: GraphRecord,
    stores: Stores,
    rounds: Rounds,
    strategy: Strategy,
    skipped: set[str],
    *,
    owner: str | None,
    column: str = "",
) -> Question:
    """A node without label in a column; ``owner`` asks for the embedding where there is none.

    Now and then it is a random one, see `Rounds.strategy_now`.

    Raises
    ------
    NoNode
        ``no-snapshot``, ``no-predictions`` and ``numbers`` (by margin), ``locating`` and
        ``failed`` (otherwise), ``all-labeled``, ``all-skipped``, ``elsewhere``.
    """
    if graph.progress.snapshot is None:
        raise NoNode("no-snapshot", files=stores.manifest.counts(graph.id))
    strategy = rounds.strategy_now(graph, strategy, column)
    has_margins = _has_margins(graph, stores, column)
    if strategy == "margin":
        if not has_margins:
            raise NoNode("no-predictions" if has_margins is None else "numbers")
    elif strategy in LOCATING:
        _require_embedding(graph, stores, owner=owner, has_margins=bool(has_margins))
    node = rounds.next_node(graph, strategy, skipped, column)
    if node is not None:
        return Question(node, origin_of(strategy))
    n_left = graph.progress.n_nodes - stores.suggester.n_labeled(graph, column)
    if n_left <= 0:
        raise NoNode("all-labeled")
    is_skipped = bool(stores.suggester.suggest(graph, strategy, 1, column=column).nodes)
    raise NoNode("all-skipped" if is_skipped else "elsewhere", n_left=n_left)


def is_worker_alive(stores: Stores, job: Job) -> bool:
    """Whether somebody is there to run a job."""
    return bool(WorkerRegistry(stores.database).alive(job.lane))


def _has_margins(graph: GraphRecord, stores: Stores, column: str) -> bool | None:
    """Whether the freshest predictions have margins; None where there are none."""
    try:
        file = stores.predictions.open(stores.predictions.find(graph, column=column))
    except PredictionsNotFound:
        return None
    return file.meta.score != "value"


def _require_embedding(
    graph: GraphRecord, stores: Stores, *, owner: str | None, has_margins: bool
) -> None:
    try:
        job = stores.suggester.request_embedding(graph, owner=owner)
    except EmbeddingFailed:
        failed = stores.jobs.newest(graph.id, "embed")
        raise NoNode("failed", job=failed, has_margins=has_margins) from None
    if job is not None:
        alive = is_worker_alive(stores, job)
        raise NoNode("locating", job=job, has_margins=has_margins, is_worker_alive=alive)
