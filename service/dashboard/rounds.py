"""Rounds of label next: nodes are suggested some at a time and shown one after another.

Context: choosing nodes by position takes up to a fifth of a second, and an annotator wants the next
one at once; labels come faster than predictions that know them, so that choosing anew after each
label would stay in one place. Decision: ten nodes chosen together are shown until none is left; by
margin, which is fast, one at a time. Consequence: nine of ten nodes are there at once and differ,
and new predictions count with the next ten.

Context: labels of nodes picked by predictions or the graph cannot judge answers. Decision: after
nine labels without a random node the next node is a random one, whatever the strategy. Consequence:
every tenth label is one to judge by, nine rows tell whose turn it is, and an undo or a second
annotator changes nothing about it.

Context: a random node that one annotator looks at cannot be the next of another. Decision: a round
keeps all that was chosen, and nodes of others are skipped when one is shown. Consequence: a random
node is deferred, never lost: it is the first in order again once it is given back.
"""

from collections import OrderedDict
from threading import Lock, Thread
from typing import Final

from peewit.service.catalog import GraphRecord
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.suggestions import MAX_SUGGESTIONS, Strategy, Suggester
from peewit.solvers.active_learning import preload

N_NODES: Final = 10
"""Number of nodes chosen together."""

RANDOM_EVERY: Final = 10
"""One of so many questions is a random node."""

_MAX_KEPT: Final = 100


class Rounds:
    """What is left of the nodes that were chosen together; thread-safe."""

    def __init__(self, suggester: Suggester, labels: LabelStore) -> None:
        self._suggester = suggester
        self._labels = labels
        self._nodes: OrderedDict[tuple[str, Strategy, str], list[str]] = OrderedDict()
        self._lock = Lock()
        self._is_prepared = False

    def prepare(self) -> None:
        """Load in the background what choosing needs, so that the next annotator need not wait."""
        with self._lock:
            is_prepared, self._is_prepared = self._is_prepared, True
        if not is_prepared:
            Thread(target=preload, name="preload").start()

    def strategy_now(self, graph: GraphRecord, strategy: Strategy, column: str = "") -> Strategy:
        """How to choose the next node: as asked, or at random when it is time for that."""
        n_others = RANDOM_EVERY - 1
        last = self._labels.page(graph.id, column=column, limit=n_others)
        is_due = len(last) == n_others and all(each.origin != "random" for each in last)
        return "random" if is_due else strategy

    def next_node(
        self, graph: GraphRecord, strategy: Strategy, skipped: set[str], column: str = ""
    ) -> str | None:
        """A node to label now, as text; None where all that could be suggested are done.

        It has no label in ``column``. ``skipped`` are nodes that the annotator does not want again,
        and those that others look at. Raises the errors of `Suggester.suggest`.
        """
        if strategy == "margin":
            chosen = self._chosen(graph, strategy, skipped, column)
            return next((each for each in chosen if each not in skipped), None)
        key = (f"{graph.id}/{graph.erasures_seq}", strategy, column)
        with self._lock:
            nodes = self._nodes.get(key, [])
        left = self._unlabeled(graph, nodes, skipped, column)
        if not left:
            chosen = self._chosen(graph, strategy, skipped, column)
            with self._lock:
                self._nodes[key] = chosen
                while len(self._nodes) > _MAX_KEPT:
                    self._nodes.popitem(last=False)
            left = [each for each in chosen if each not in skipped]
        return left[0] if left else None

    def _chosen(
        self, graph: GraphRecord, strategy: Strategy, skipped: set[str], column: str
    ) -> list[str]:
        n_wanted = min(N_NODES + len(skipped), MAX_SUGGESTIONS)
        nodes = self._suggester.suggest(graph, strategy, n_wanted, column=column).nodes
        return self._unlabeled(graph, [str(each) for each in nodes], set(), column)

    def _unlabeled(
        self, graph: GraphRecord, nodes: list[str], skipped: set[str], column: str
    ) -> list[str]:
        labeled = self._labels.of_nodes(graph.id, nodes, column=column)
        return [each for each in nodes if each not in labeled and each not in skipped]
