"""Ten nodes are chosen together, and shown until none of them is left."""

from threading import Event, current_thread
from typing import Any

import pytest

from peewit.service.dashboard.rounds import N_NODES, Rounds
from peewit.service.predictions.suggestions import Strategy, Suggester
from peewit.solvers import active_learning
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import embed
from tests.service.api.conftest import Api, bring_communities


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[Strategy]:
    """The strategies by which nodes were really chosen, one for each choice."""
    choose = Suggester.suggest
    found: list[Strategy] = []

    def suggest(self: Suggester, graph: Any, strategy: Strategy, *rest: Any, **named: Any) -> Any:
        found.append(strategy)
        return choose(self, graph, strategy, *rest, **named)

    monkeypatch.setattr(Suggester, "suggest", suggest)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["coverage", "variance"])
def test_nodes_chosen_together_are_shown_one_after_another(
    pages: Api, choices: list[Strategy], strategy: Strategy
) -> None:
    bring_communities(pages)
    home = pages.home
    graph = home.catalog.get("g")
    embed(GraphPaths(root=home.settings.graphs_directory / graph.id), 1)
    rounds = Rounds(home.suggester, home.labels)
    first = home.suggester.suggest(graph, strategy, N_NODES).nodes
    choices.clear()
    shown = []
    for _ in range(N_NODES):
        node = rounds.next_node(home.catalog.get("g"), strategy, set())
        assert node is not None
        assert rounds.next_node(home.catalog.get("g"), strategy, set()) == node  # until labeled
        shown.append(node)
        home.labels.put(graph.id, [node], ["left"])
    assert shown == first
    assert choices == [strategy]
    following = rounds.next_node(home.catalog.get("g"), strategy, set())
    assert following not in shown
    assert choices == [strategy, strategy]
    assert rounds.next_node(home.catalog.get("g"), strategy, {str(following)}) != following
    assert len(choices) == 2


def test_who_skips_or_labels_everything_is_told_so(pages: Api) -> None:
    bring_communities(pages)
    home = pages.home
    graph = home.catalog.get("g")
    embed(GraphPaths(root=home.settings.graphs_directory / graph.id), 1)
    rounds = Rounds(home.suggester, home.labels)
    everybody = {f"n{number}" for number in range(60)}
    assert rounds.next_node(graph, "coverage", everybody) is None
    assert rounds.next_node(graph, "coverage", everybody - {"n7"}) == "n7"


def test_what_choosing_needs_is_loaded_once_and_meanwhile(
    pages: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Event()
    names: list[str] = []

    def preload() -> None:
        names.append(current_thread().name)
        real()
        loaded.set()

    real = active_learning.preload
    monkeypatch.setattr("peewit.service.dashboard.rounds.preload", preload)
    for path in ("/", "/", "/sign-in"):
        assert pages.client.get(path).status_code == 200
    assert loaded.wait(30)
    assert names == ["preload"]
