"""The backend beside networkx itself, which is the twin: its iteration, once it has converged."""

from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms import node_classification
from networkx.algorithms.tests import test_node_classification as theirs
from sklearn.exceptions import ConvergenceWarning

from peewit.solvers.networkx_backend import interface

FUNCTIONS = (
    node_classification.harmonic_function,
    node_classification.local_and_global_consistency,
)
CONVERGED = 1_000
Function = Callable[..., list[Any]]

pytestmark = pytest.mark.filterwarnings("ignore:Note. conversions to backend graphs:UserWarning")


@pytest.fixture(params=FUNCTIONS, ids=lambda function: function.__name__)
def function(request: pytest.FixtureRequest) -> Function:
    found: Function = request.param
    return found


def labeled(graph: Any, seed: int, classes: tuple[Any, ...] = ("x", "y", "z"), k: int = 6) -> Any:
    """The graph with labels at some nodes, drawn at random, each class at one at least."""
    rng = np.random.default_rng(seed)
    nodes = list(graph)
    for place, number in enumerate(rng.permutation(len(nodes))[:k]):
        graph.nodes[nodes[number]]["label"] = classes[place % len(classes)]
    return graph


def weighted(graph: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    for *_, attributes in graph.edges(data=True):
        attributes["weight"] = float(rng.uniform(0.2, 3.0))
    return graph


def some_graphs(seed: int) -> Iterator[tuple[str, Any]]:
    yield "dense", labeled(nx.gnp_random_graph(60, 0.15, seed=seed), seed)
    yield "in parts", labeled(nx.gnp_random_graph(60, 0.03, seed=seed), seed)
    yield "weighted", labeled(weighted(nx.gnp_random_graph(50, 0.1, seed=seed), seed), seed)
    loops = weighted(nx.gnp_random_graph(40, 0.1, seed=seed), seed)
    loops.add_edges_from([(node, node) for node in range(0, 40, 3)], weight=2.0)
    yield "with loops", labeled(loops, seed)
    parallel = nx.MultiGraph(nx.gnp_random_graph(40, 0.1, seed=seed))
    parallel.add_edges_from(list(parallel.edges())[::2], weight=0.5)
    yield "with parallel edges", labeled(parallel, seed)
    yield "of integers", labeled(nx.gnp_random_graph(40, 0.1, seed=seed), seed, classes=(7, 3))
    yield "one class", labeled(nx.gnp_random_graph(40, 0.05, seed=seed), seed, classes=("x",))
    named = nx.relabel_nodes(nx.gnp_random_graph(40, 0.1, seed=seed), lambda node: f"n{39 - node}")
    yield "of names", labeled(named, seed, classes=("x", 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_labels_are_those_that_networkx_converges_to(function: Function, seed: int) -> None:
    for kind, graph in some_graphs(seed):
        ours = function(graph, max_iter=CONVERGED, backend="peewit")
        assert ours == function(graph, max_iter=CONVERGED, backend="networkx"), kind


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.99])
def test_alpha_says_how_much_comes_from_neighbors(alpha: float) -> None:
    """Also on a path, whose far nodes have scores that no solver of the whole tells apart."""
    spread = node_classification.local_and_global_consistency
    path = labeled(nx.path_graph(200), 0, k=3)
    for graph in (path, *(graph for _, graph in some_graphs(1))):
        told = spread(graph, alpha=alpha, max_iter=2_500, backend="peewit")
        twin = spread(graph, alpha=alpha, max_iter=2_500)
        assert told == twin


def test_ties_go_to_the_class_that_came_first_as_in_networkx(function: Function) -> None:
    star = nx.star_graph(4)
    cycle = nx.cycle_graph(8)
    for graph, ends in ((star, (1, 2)), (cycle, (6, 2)), (nx.path_graph(5), (0, 4))):
        for node, label in zip(ends, ("late", "early"), strict=True):
            graph.nodes[node]["label"] = label
        assert function(graph, max_iter=CONVERGED, backend="peewit") == function(
            graph, max_iter=CONVERGED
        )


def test_unreachable_nodes_get_the_first_class_as_in_networkx(function: Function) -> None:
    graph = nx.disjoint_union_all([nx.path_graph(3), nx.path_graph(3), nx.path_graph(2)])
    graph.add_node("alone")
    graph.nodes[4]["label"] = "first"
    graph.nodes[1]["label"] = "second"
    told = function(graph, backend="peewit")
    assert told == function(graph, backend="networkx")
    assert told == ["second"] * 3 + ["first"] * 3 + ["second"] * 3  # that of node 1 comes first


def test_a_label_that_was_changed_counts_although_networkx_keeps_conversions(
    function: Function,
) -> None:
    graph = nx.path_graph(4)
    graph.nodes[0]["label"], graph.nodes[3]["label"] = "A", "B"
    assert function(graph, backend="peewit") == ["A", "A", "B", "B"]
    graph.nodes[3]["label"] = "C"
    assert function(graph, backend="peewit") == ["A", "A", "C", "C"]


def test_directed_graphs_are_refused_as_networkx_refuses_them(function: Function) -> None:
    graph = labeled(nx.gnp_random_graph(10, 0.3, directed=True, seed=0), 0)
    with pytest.raises(nx.NetworkXNotImplemented):
        function(graph, backend="peewit")
    with pytest.raises(nx.NetworkXNotImplemented):
        getattr(interface, function.__name__)(interface.convert_from_nx(graph))


def test_arguments_out_of_range_are_refused(function: Function) -> None:
    graph = labeled(nx.path_graph(9), 0)
    with pytest.raises(ValueError, match="max_iter must be at least 1, got 0"):
        function(graph, max_iter=0, backend="peewit")
    with pytest.raises(ValueError, match="rtol must lie in"):
        function(graph, rtol=0.0, backend="peewit")
    with pytest.raises(nx.NetworkXError, match="labeled by 'topic'"):
        function(graph, label_name="topic", backend="peewit")
    with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\), got 1.0"):
        node_classification.local_and_global_consistency(graph, alpha=1.0, backend="peewit")


def test_negative_weights_are_left_to_networkx(function: Function) -> None:
    graph = labeled(nx.path_graph(9), 0)
    graph.add_edge(3, 4, weight=-1.0)
    with pytest.raises(NotImplementedError) as refused:
        function(graph, backend="peewit")
    assert "finite and >= 0, got -1.0" in str(refused.value.__cause__)
    with nx.config(backend_priority=["peewit"]):
        assert function(graph) == function(graph, backend="networkx")


def test_a_limit_that_is_reached_is_told(function: Function) -> None:
    graph = labeled(nx.grid_2d_graph(30, 30), 0)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or rtol"):
        function(graph, max_iter=2, backend="peewit")


def test_a_converted_graph_is_the_graph_again(function: Function) -> None:
    graph = labeled(weighted(nx.MultiGraph(nx.path_graph(4)), 0), 0)
    converted = interface.convert_from_nx(graph)
    assert interface.convert_from_nx(converted) is converted
    again = interface.convert_to_nx(converted)
    assert nx.utils.graphs_equal(again, graph)
    assert again is not graph
    assert function(converted) == function(graph, backend="peewit")
    assert nx.number_connected_components(converted, backend="networkx") == 1


def test_small_graphs_are_left_to_networkx_unless_asked_for() -> None:
    small, large = nx.path_graph(10), nx.path_graph(interface.LEAST_EDGES + 1)
    assert "networkx is faster" in str(interface.should_run("harmonic_function", (small,), {}))
    assert interface.should_run("harmonic_function", (large,), {}) is True


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The backend wherever it can run; what it ran of calls."""
    ran: list[str] = []
    monkeypatch.setattr(interface, "LEAST_EDGES", 0)
    for function in FUNCTIONS:
        own = getattr(interface, function.__name__)

        def noted(*args: Any, own: Any = own, **kwargs: Any) -> list[Any]:
            ran.append(own.__name__)
            result: list[Any] = own(*args, **kwargs)
            return result

        monkeypatch.setattr(interface, function.__name__, noted)
    with nx.config(backend_priority=["peewit"]):
        yield ran


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        (suite, name)
        for suite in (theirs.TestHarmonicFunction, theirs.TestLocalAndGlobalConsistency)
        for name in vars(suite)
        if name.startswith("test_")
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_networkxs_own_tests_pass(suite: Any, name: str, everywhere: list[str]) -> None:
    getattr(suite(), name)()
    assert everywhere or name == "test_digraph"
