"""Questions to annotators: which node each is asked about, with no two asked about one at once.

A question is either an unlabeled node that a strategy chose, or a node that another person labeled,
for a second opinion. The latter shows neither label nor prediction, so that the answer is
independent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.labels.opinions import OpinionStore, random_part
from peewit.service.labels.reservations import Reservation, Reservations
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.doubtful_labels import MAX_DOUBTFUL, doubtful_labels
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.suggestions import MAX_SUGGESTIONS, Strategy, Suggester, Suggestions
from peewit.service.tables.uploads import node_array, node_id
from peewit.solvers.arguments import BadArgument

Queue = Literal["second-opinion", "doubtful"]
"""Labeled nodes for another person: a random share of them, or those the others contradict."""

QUEUES: Final[tuple[Queue, ...]] = get_args(Queue)

_TRIES: Final = 5


def part_of(graph: GraphRecord, column: str) -> Callable[[str], float]:
    """The function that orders labeled nodes at random for second opinions; see `random_part`."""
    return partial(random_part, seed=graph.settings.seed or 0, column=column)


class Reserved(NamedTuple):
    """Nodes reserved for one annotator, as text, and until when; None without any."""

    nodes: list[str]
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Chooses nodes and reserves them; safe for any number of threads and processes."""

    labels: LabelStore
    opinions: OpinionStore
    reservations: Reservations
    nodes: KnownNodes
    seconds: float  # that a node stays reserved
    share: float  # of the labels given by hand that get a second opinion, by default

    def suggest(
        self,
        suggester: Suggester,
        graph: GraphRecord,
        strategy: Strategy,
        n_nodes: int,
        *,
        holder: str,
        model: str | None = None,
        job_id: str | None = None,
        column: str | None = None,
    ) -> tuple[Suggestions, Reserved]:
        """Unlabeled nodes, now reserved for the holder; those reserved for them before come first.

        Parameters and errors are those of `Suggester.suggest`, but every strategy is limited to
        `MAX_SUGGESTIONS` nodes.
        """
        if n_nodes > MAX_SUGGESTIONS:
            raise BadArgument(
                "k", f"must be at most {MAX_SUGGESTIONS} to be reserved, got {n_nodes}"
            )

        def choose(n_more: int) -> Suggestions:
            n_wanted = min(n_nodes + n_more, MAX_SUGGESTIONS)
            return suggester.suggest(
                graph, strategy, n_wanted, model=model, job_id=job_id, column=column
            )

        of_column, held = column, set[str]()
        if column is not None:
            held = self.reservations.of_others(graph.id, holder, column=column)
        for tried in range(_TRIES):
            # nodes may have been labeled since, so each further try chooses more
            spare = n_nodes * (2**tried - 1)
            suggestions = choose(len(held) + spare)
            if of_column is None:
                of_column = "" if suggestions.file is None else suggestions.file.meta.label_column
                held = self.reservations.of_others(graph.id, holder, column=of_column)
                suggestions = choose(len(held) + spare) if held else suggestions
            reserved = self.reserve(
                graph,
                [str(node) for node in suggestions.nodes],
                holder=holder,
                strategy=strategy,
                n_nodes=n_nodes,
                column=of_column,
                still=partial(self.unlabeled, graph, column=of_column),
            )
            is_all = len(suggestions.nodes) < min(n_nodes + len(held) + spare, MAX_SUGGESTIONS)
            if is_all or len(reserved.nodes) == n_nodes:
                break
            held = self.reservations.of_others(graph.id, holder, column=of_column)
        return suggester.of_nodes(graph, suggestions, reserved.nodes), reserved

    def second_opinions(
        self,
        graph: GraphRecord,
        queue: Queue,
        n_nodes: int,
        *,
        annotator: str,
        holder: str,
        column: str = "",
        share: float | None = None,
        file: PredictionFile | None = None,
        skipped: frozenset[str] = frozenset(),
        is_reserving: bool = True,
    ) -> Reserved:
        """Nodes that others have labeled and that this annotator shall label, too.

        The queue holds a random share of the labels given by hand, in a random order that never
        changes; or the labels that the others contradict, the most doubtful first, which ``file``
        tells. Nodes are reserved for ``holder`` if ``is_reserving``. The share is ``self.share`` by
        default.
        """
        if queue == "doubtful":
            nodes = self._doubtful(graph, annotator, column, file)
        else:
            nodes = self.due(graph, annotator, column=column, share=share)
        wanted = [node for node in self._known(graph, nodes) if node not in skipped]
        if not is_reserving:
            held = self.reservations.of_others(graph.id, holder, column=column)
            return Reserved([node for node in wanted if node not in held][:n_nodes], None)
        return self.reserve(
            graph,
            wanted,
            holder=holder,
            strategy=queue,
            n_nodes=n_nodes,
            column=column,
            still=lambda nodes: [
                node
                for node in self.opinions.unanswered(graph.id, nodes, annotator, column=column)
                if node not in skipped
            ],
        )

    def due(
        self, graph: GraphRecord, annotator: str, *, column: str = "", share: float | None = None
    ) -> list[str]:
        """Labeled nodes of the random share that this annotator has not answered, in order."""
        share = self.share if share is None else share
        if not 0 <= share <= 1:
            raise BadArgument("share", f"must lie in [0, 1], got {share}")
        if share == 0:
            return []
        part = part_of(graph, column)
        waiting = self.opinions.awaiting(graph.id, annotator, column=column)
        return sorted((node for node in waiting if part(node) < share), key=part)

    def is_due(self, graph: GraphRecord, annotator: str, *, column: str = "") -> bool:
        """Whether the annotator's next question should be for a second opinion.

        It should after so many labels of the graph that second opinions come to the share.
        """
        if self.share == 0:
            return False
        last = self.opinions.last_seq(graph.id, annotator, column=column)
        return last is None or graph.labels_seq - last >= round(1 / self.share) - 1

    def unlabeled(self, graph: GraphRecord, nodes: Sequence[str], column: str) -> list[str]:
        """Those of some nodes that have no label, in order."""
        labeled = self.labels.of_nodes(graph.id, nodes, column=column)
        return [node for node in nodes if node not in labeled]

    def reserve(
        self,
        graph: GraphRecord,
        nodes: Sequence[str],
        *,
        holder: str,
        strategy: str,
        n_nodes: int,
        column: str,
        still: Callable[[list[str]], list[str]],
    ) -> Reserved:
        """Up to ``n_nodes`` nodes reserved for a holder, those they hold already first.

        ``still`` returns those of some nodes that may be asked about.
        """
        own = self.reservations.own(graph.id, holder, column=column)
        place = {node: row for row, node in enumerate(nodes)}
        own_nodes = still([each.node for each in own if each.strategy == strategy])
        own_nodes = sorted(own_nodes, key=lambda node: place.get(node, -1))[:n_nodes]
        held: list[Reservation] = []
        rest = [*own_nodes, *(each for each in nodes if each not in set(own_nodes))]
        for _ in range(_TRIES):
            others = self.reservations.of_others(graph.id, holder, column=column)
            free = [each for each in rest if each not in others]
            wanted = free[: n_nodes - len(held)]
            if not wanted:
                break
            got = self.reservations.reserve(
                graph.id,
                wanted,
                column=column,
                holder=holder,
                strategy=strategy,
                seconds=self.seconds,
            )
            # the last holder may have labeled a node since it was chosen
            open_nodes = set(still([each.node for each in got]))
            gone = [each.node for each in got if each.node not in open_nodes]
            self.reservations.give_back(graph.id, gone, holder, column=column)
            held += [each for each in got if each.node in open_nodes]
            rest = free[len(wanted) :]
        until = min((each.expires_at for each in held), default=None)
        return Reserved([each.node for each in held], until)

    def _doubtful(
        self, graph: GraphRecord, annotator: str, column: str, file: PredictionFile | None
    ) -> list[str]:
        """Contradicted labels of others that this annotator has not answered, as ranked."""
        if file is None:
            raise BadArgument("by", "must be second-opinion before anything is predicted")
        ranked = doubtful_labels(file, k=MAX_DOUBTFUL).labels
        names = [str(label.node) for label in ranked if label.behind > 0.0]
        return self.opinions.unanswered(graph.id, names, annotator, column=column)

    def _known(self, graph: GraphRecord, nodes: Sequence[str]) -> list[str]:
        """Those of some nodes that the graph knows; labels may come before their node."""
        if not nodes:
            return []
        kind = graph.settings.node_ids
        ids = node_array([node_id(node, kind) for node in nodes], kind)
        dense = self.nodes.lookup(graph, ids)
        return [nodes[row] for row in np.flatnonzero(dense >= 0).tolist()]
