"""The node to label next, or why there is none and what to do about it."""

from typing import Any, Literal, NamedTuple

from peewit.service.api.auth import Caller
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.rounds import Rounds
from peewit.service.jobs.job import Job
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.questions import QUEUES, Queue
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import (
    LOCATING,
    STRATEGIES,
    EmbeddingFailed,
    NoEmbedding,
    Strategy,
    origin_of,
)
from peewit.service.wire.labels import LabelOrigin

Choice = Literal[Strategy, Queue]
"""What an annotator asks for: unlabeled nodes by a strategy, or nodes that others labeled."""

CHOICES: tuple[Choice, ...] = (*STRATEGIES, *QUEUES)

_BETWEEN: Queue = "second-opinion"
"""Shown between other questions, too, as random nodes are."""


class Question(NamedTuple):
    """A node as text, the origin for its label, and whether it is for a second opinion."""

    node: str
    origin: LabelOrigin
    is_second: bool = False


class NoNode(LookupError):
    """There is no node to label; ``values`` are the template's: ``state``, and its details."""

    def __init__(self, state: str, **values: Any) -> None:
        super().__init__(state)
        self.values = {"state": state, **values}


def next_node(
    graph: GraphRecord,
    home: ServedHome,
    rounds: Rounds,
    choice: Choice,
    skipped: set[str],
    *,
    caller: Caller,
    column: str = "",
) -> Question:
    """A node reserved for the caller to label; nobody else is shown it meanwhile.

    A node that they were shown and have not answered comes again. Sometimes it is a random one, see
    `Rounds.strategy_now`, or one that somebody else labeled, see `Questions.is_due`.

    Raises
    ------
    NoNode
        ``no-snapshot``, ``no-predictions`` and ``numbers`` (by margin), ``unlocated``, ``locating``
        and ``failed`` (otherwise), ``all-labeled``, ``all-skipped``, ``all-held``, ``elsewhere``;
        ``no-name``, ``no-second`` and ``not-doubted`` of second opinions.
    """
    if graph.progress.snapshot is None:
        raise NoNode("no-snapshot", files=home.manifest.counts(graph.id))
    queue = next((each for each in QUEUES if each == choice), None)
    if queue is not None:
        return _second_opinion(graph, home, queue, skipped, caller, column)
    chosen = next(each for each in STRATEGIES if each == choice)
    strategy = rounds.strategy_now(graph, chosen, column)
    shown = _shown_before(graph, home, {chosen, strategy, _BETWEEN}, skipped, caller, column)
    if shown is not None:
        return shown
    if caller.annotator is not None and home.questions.is_due(
        graph, caller.annotator, column=column
    ):
        try:
            return _second_opinion(graph, home, _BETWEEN, skipped, caller, column)
        except NoNode:
            pass  # none in the share: an unlabeled one instead
    has_margins = _has_margins(graph, home, column)
    if strategy == "margin":
        if not has_margins:
            raise NoNode("no-predictions" if has_margins is None else "numbers")
    elif strategy in LOCATING:
        _require_embedding(graph, home, has_margins=bool(has_margins))
    held = home.reservations.of_others(graph.id, caller.holder, column=column)
    while (node := rounds.next_node(graph, strategy, skipped | held, column)) is not None:
        is_mine = _reserve(graph, home, node, strategy, caller, column)
        # the last holder may have labeled it since it was chosen
        if is_mine and home.questions.unlabeled(graph, [node], column):
            return Question(node, origin_of(strategy))
        home.reservations.give_back(graph.id, [node], caller.holder, column=column)
        held.add(node)
    n_left = graph.progress.n_nodes - home.suggester.n_labeled(graph, column)
    if n_left <= 0:
        raise NoNode("all-labeled")
    if rounds.next_node(graph, strategy, skipped, column) is not None:
        raise NoNode("all-held", n_left=n_left)
    is_skipped = bool(home.suggester.suggest(graph, strategy, 1, column=column).nodes)
    raise NoNode("all-skipped" if is_skipped else "elsewhere", n_left=n_left)


def show_again(
    graph: GraphRecord,
    home: ServedHome,
    question: Question,
    choice: Choice,
    caller: Caller,
    column: str,
) -> Question:
    """The question whose answer was taken back, for the same person, instead of the next one."""
    own = home.reservations.own(graph.id, caller.holder, column=column)
    others = [each.node for each in own]
    home.reservations.give_back(graph.id, others, caller.holder, column=column)
    if question.is_second:
        chosen: Choice = choice if choice in QUEUES else _BETWEEN
    else:
        chosen = "random" if question.origin == "random" else choice
    _reserve(graph, home, question.node, chosen, caller, column)
    return question


def is_worker_alive(home: ServedHome, job: Job) -> bool:
    """Whether a worker can run a job."""
    return bool(WorkerRegistry(home.database).alive(job.lane))


def _reserve(
    graph: GraphRecord, home: ServedHome, node: str, choice: str, caller: Caller, column: str
) -> bool:
    """Whether the node is the caller's now."""
    return bool(
        home.reservations.reserve(
            graph.id,
            [node],
            column=column,
            holder=caller.holder,
            strategy=choice,
            seconds=home.settings.reserve_seconds,
        )
    )


def _shown_before(
    graph: GraphRecord,
    home: ServedHome,
    choices: set[Choice],
    skipped: set[str],
    caller: Caller,
    column: str,
) -> Question | None:
    """The question shown last and not answered; other reservations of the caller end."""
    own = home.reservations.own(graph.id, caller.holder, column=column)
    if not own:
        return None
    names = [each.node for each in own]
    free = set(home.questions.unlabeled(graph, names, column))
    of_others = set(
        ()
        if caller.annotator is None
        else home.opinions.unanswered(graph.id, names, caller.annotator, column=column)
    )
    shown = None
    for each in own:
        is_second = each.strategy == _BETWEEN
        is_open = each.node in (of_others if is_second else free)
        is_wanted = each.strategy in choices and each.node not in skipped
        if not (is_wanted and is_open):
            continue
        origin: LabelOrigin = "random" if each.strategy == "random" else "suggested"
        shown = Question(each.node, origin, is_second)
        _reserve(graph, home, each.node, each.strategy, caller, column)
        break
    rest = [each for each in names if shown is None or each != shown.node]
    home.reservations.give_back(graph.id, rest, caller.holder, column=column)
    return shown


def _second_opinion(
    graph: GraphRecord,
    home: ServedHome,
    queue: Queue,
    skipped: set[str],
    caller: Caller,
    column: str,
) -> Question:
    if caller.annotator is None:
        raise NoNode("no-name")
    own = home.reservations.own(graph.id, caller.holder, column=column)
    others = [each.node for each in own if each.strategy != queue or each.node in skipped]
    home.reservations.give_back(graph.id, others, caller.holder, column=column)
    file = _newest_file(graph, home, column) if queue == "doubtful" else None
    if queue == "doubtful" and (file is None or file.meta.score == "value"):
        raise NoNode("not-doubted")
    try:
        questions = home.questions.second_opinions(
            graph,
            queue,
            1,
            annotator=caller.annotator,
            holder=caller.holder,
            column=column,
            file=file,
            skipped=frozenset(skipped),
        )
    except NotCrossValidated:
        raise NoNode("not-doubted") from None
    if not questions.nodes:
        raise NoNode("no-second")
    return Question(questions.nodes[0], "given", is_second=True)


def _newest_file(graph: GraphRecord, home: ServedHome, column: str) -> PredictionFile | None:
    try:
        return home.predictions.open(home.predictions.find(graph, column=column))
    except PredictionsNotFound:
        return None


def _has_margins(graph: GraphRecord, home: ServedHome, column: str) -> bool | None:
    """Whether the freshest predictions have margins; None without predictions."""
    file = _newest_file(graph, home, column)
    return None if file is None else file.meta.score != "value"


def _require_embedding(graph: GraphRecord, home: ServedHome, *, has_margins: bool) -> None:
    try:
        job = home.suggester.request_embedding(graph, starts=False)
    except NoEmbedding:
        raise NoNode("unlocated", has_margins=has_margins) from None
    except EmbeddingFailed:
        failed = home.jobs.newest(graph.id, "embed")
        raise NoNode("failed", job=failed, has_margins=has_margins) from None
    if job is not None:
        alive = is_worker_alive(home, job)
        raise NoNode("locating", job=job, has_margins=has_margins, is_worker_alive=alive)
