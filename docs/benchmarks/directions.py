"""Is it worth anything to know who wrote to whom?

Readings of arcs: *ignored*, both ends alike; *left out*, where there are other relations; *tied*,
a node has a copy that sends and one that receives, joined by an edge of weight mu times the mean
arc's, other relations lie on both, a label holds both, and the answer is their mean; *counted*,
ignored, with features of each node: logs of what it sent and received and of its partners each way.
Sets: messages of the marketplace, alone and beside its other relations at equal volume (average
precision of the fraud class); chameleon and squirrel, links between pages whose classes are their
traffic, as ``NAME_filtered_directed.npz`` of yandex-research/heterophilous-graphs in the folder
that ``PEEWIT_DATA`` names (accuracy, as of the others); buyers who write to sellers; four roles,
each of which writes to the next; and four communities, where direction says nothing. No edge is
thinned. Models: `auto`, and the densities of personalized PageRank that relations are chosen by.
A labeled node is one node in the cover, so that a label that is left out leaves both copies.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import average_precision_score

from docs.benchmarks.frame import CONSOLE, folder, options, share_right, show
from docs.benchmarks.marketplace import ingested
from docs.benchmarks.marketplace_files import marketplace
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.density_arm import TELEPORT
from peewit.solvers.relations.choice import equal_volumes
from tests.data_sets import draw_per_class

TIES: Final = (1.0, 0.1)
IGNORED, LEFT_OUT, COUNTED = "ignored", "left out", "counted"
READINGS: Final = (IGNORED, LEFT_OUT, *(f"tied {tie:g}" for tie in TIES), COUNTED)

Scores = Callable[[Graph, Int64Array, Int64Array, Any], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arcs:
    """Arcs, the sum of other relations on the same nodes, and classes; -1 of what is not asked."""

    sent: Any  # (n_nodes, n_nodes) csr_array, entry (u, v) what u sent to v
    classes: Int64Array
    others: Any = None  # symmetric csr_array
    is_ranked: bool = False  # by average precision of class 1

    @classmethod
    def of(cls, u: Int64Array, v: Int64Array, classes: Int64Array) -> "Arcs":
        """Of weight 1, and no self-loops; repeated ones are summed."""
        rows = np.flatnonzero(u != v)
        ends = u[rows], v[rows]
        return cls(
            sent=sp.csr_array((np.ones(rows.size), ends), (classes.size,) * 2), classes=classes
        )

    @property
    def counts(self) -> FeatureRows:
        """Logs of what was sent, received, and partners each way, of nodes that have classes."""
        sent = self.sent / self.sent.data.min()
        both = (sent, sent.sign())
        columns = np.log1p(
            np.column_stack([np.ravel(each.sum(a)) for each in both for a in (1, 0)])
        )
        nodes = np.flatnonzero(self.classes >= 0)
        spread = columns[nodes].std(axis=0)
        rows = (columns[nodes] - columns[nodes].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return FeatureRows(values=rows, nodes=nodes)

    @property
    def ignored(self) -> Graph:
        """Both ends alike."""
        both = self.sent + self.sent.T
        return Graph.from_adjacency(both if self.others is None else both + self.others)

    def tied(self, tie: float, labeled: Int64Array) -> tuple[Graph, Int64Array]:
        """The cover, and the node that receives of each node; labeled ones have no copies."""
        n_nodes = self.classes.size
        free = np.setdiff1d(np.arange(n_nodes), labeled)
        receives = np.arange(n_nodes)
        receives[free] = n_nodes + np.arange(free.size)
        arcs = self.sent.tocoo()
        u, v, weight = [arcs.row, free], [receives[arcs.col], receives[free]], [arcs.data]
        weight.append(np.full(free.size, tie * arcs.data.mean()))
        if self.others is not None:
            beside = sp.triu(self.others).tocoo()
            u += [beside.row, receives[beside.row]]
            v += [beside.col, receives[beside.col]]
            weight += [beside.data, beside.data]
        ends = np.concatenate(u), np.concatenate(v)
        cover = Graph.from_edges(*ends, np.concatenate(weight), n_nodes=n_nodes + free.size)
        return cover, receives


def stochastic(shares: FloatArray, n_arcs: int, n_nodes: int = 2_000) -> Arcs:
    """Arcs from class to class by these shares; few nodes send much, few others receive much."""
    rng = np.random.default_rng(0)
    n_classes = len(shares)
    classes = rng.integers(0, n_classes, n_nodes)
    pulls = np.minimum(1.0 + rng.pareto(1.5, (2, n_nodes)), np.sqrt(n_nodes))
    pair = rng.choice(shares.size, n_arcs, p=np.ravel(shares) / shares.sum())
    ends = []
    for own, pull in zip((pair // n_classes, pair % n_classes), pulls, strict=True):
        end = np.empty(n_arcs, np.int64)
        for each in range(n_classes):
            rows, nodes = np.flatnonzero(own == each), np.flatnonzero(classes == each)
            end[rows] = rng.choice(nodes, rows.size, p=pull[nodes] / pull[nodes].sum())
        ends.append(end)
    return Arcs.of(*ends, classes)


def messages(n_accounts: int) -> Arcs:
    """Messages of the marketplace alone."""
    market = marketplace(n_accounts)
    table = market.tables["messages.ndjson"]
    src, dst, n = (column.to_numpy() for column in table.columns)
    sent = sp.csr_array((n.astype(float), (src - 1, dst - 1)), (n_accounts,) * 2)
    return Arcs(sent=sent, classes=market.is_fraud.astype(np.int64), is_ranked=True)


def messages_beside(n_accounts: int) -> Arcs:
    """Messages beside the other relations, each at the volume of the others."""
    case, alone = ingested(marketplace(n_accounts)), messages(n_accounts)
    relations = case.relations
    weights = dict(zip(relations.names, equal_volumes(relations), strict=True))
    factor = weights.pop("message")
    others = relations.combined([weights.get(name, 0.0) for name in relations.names])
    arcs = alone.sent.tocoo()
    ends = case.account[arcs.row], case.account[arcs.col]
    classes = np.full(relations.n_nodes, -1)
    classes[case.account] = alone.classes
    sent = sp.csr_array((factor * arcs.data, ends), (relations.n_nodes,) * 2)
    return Arcs(sent=sent, classes=classes, others=sp.csr_array(others.adjacency), is_ranked=True)


def pages(name: str) -> Arcs:
    """Links between pages of Wikipedia."""
    with np.load(folder() / f"{name}_filtered_directed.npz") as stored:
        return Arcs.of(*stored["edges"].T, stored["node_labels"].astype(np.int64))


ROLES: Final = 0.05 * np.ones((4, 4)) + 0.8 * np.roll(np.eye(4), 1, axis=1)
SETS: dict[str, Callable[[int], Arcs]] = {
    "messages": messages,
    "messages beside others": messages_beside,
    "chameleon": lambda _: pages("chameleon"),
    "squirrel": lambda _: pages("squirrel"),
    "two-sided": lambda _: stochastic(np.array([[0.05, 0.85], [0.05, 0.05]]), 10_000),
    "roles": lambda _: stochastic(ROLES, 10_000),
    "communities": lambda _: stochastic(0.15 * np.ones((4, 4)) + 0.4 * np.eye(4), 10_000),
}


def auto(graph: Graph, nodes: Int64Array, known: Int64Array, features: Any = None) -> FloatArray:
    """Scores of classes by `auto`."""
    model = Auto()
    found: FloatArray = model.solve(
        model.prepare(graph, features), Labels.from_pairs(nodes, known)
    ).scores
    return found


def density(graph: Graph, nodes: Int64Array, known: Int64Array, _: Any = None) -> FloatArray:
    """Shares of classes among walks from their labels, for what those from anywhere do (K6)."""
    pagerank = PersonalizedPageRank.of_graph(graph)
    root = pagerank.inverse_root[:, None]
    targets = np.zeros((graph.n_nodes, int(known.max()) + 1))
    targets[nodes, known] = 1.0
    volume = float(graph.degree.sum()) or 1.0
    found = pagerank.filtered(targets * root, TELEPORT).astype(float) * volume * root
    found = found / targets.sum(axis=0) + 0.3
    shares: FloatArray = found / found.sum(axis=1, keepdims=True)
    return shares


MODELS: dict[str, Scores] = {"auto": auto, "density": density}


def read(arcs: Arcs, reading: str, model: str, nodes: Int64Array) -> FloatArray | None:
    """Scores of all nodes; None where there is nothing to read."""
    scores, known = MODELS[model], arcs.classes[nodes]
    if reading == IGNORED:
        return scores(arcs.ignored, nodes, known, None)
    if reading == LEFT_OUT:
        if arcs.others is None:
            return None
        return scores(Graph.from_adjacency(arcs.others), nodes, known, None)
    if reading == COUNTED:
        return scores(arcs.ignored, nodes, known, arcs.counts) if model == "auto" else None
    cover, receives = arcs.tied(float(reading.split()[1]), nodes)
    found = scores(cover, nodes, known, None)
    both: FloatArray = (found[: arcs.classes.size] + found[receives]) / 2.0
    return both


def judged(arcs: Arcs, scores: FloatArray, nodes: Int64Array) -> float:
    """Accuracy or average precision on the nodes of known class without label."""
    if not arcs.is_ranked:
        return share_right(scores.argmax(axis=1), arcs.classes, nodes)
    asked = np.setdiff1d(np.flatnonzero(arcs.classes >= 0), nodes)
    return float(average_precision_score(arcs.classes[asked], scores[asked, 1]))


def measure(arcs: Arcs, model: str, per_class: int, n_draws: int) -> list[tuple[float, float]]:
    """Mean of each reading, and the standard error of its lead over arcs that are ignored."""
    right = defaultdict(list)
    for seed in range(n_draws):
        nodes = draw_per_class(arcs.classes, per_class, seed=seed)
        for reading in READINGS:
            scores = read(arcs, reading, model, nodes)
            right[reading].append(np.nan if scores is None else judged(arcs, scores, nodes))
    found = []
    for reading in READINGS:
        lead = 100.0 * np.subtract(right[reading], right[IGNORED])
        error = lead.std(ddof=1) / n_draws**0.5 if n_draws > 1 else np.nan
        found.append((100.0 * float(np.mean(right[reading])), float(error)))
    return found


def main() -> None:
    asked = options(
        __doc__,
        quick={"draws": 1, "sets": ["roles"]},
        sets=(list(SETS), SETS),
        labels=([5, 20], "per class"),
        accounts=(3_000, "of the marketplace"),
        draws=5,
    )
    table = []
    for name in asked.sets:
        try:
            arcs = SETS[name](asked.accounts)
        except FileNotFoundError as missing:
            CONSOLE.print(f"left out: {name} ({missing})")
            continue
        for model in MODELS:
            for per_class in asked.labels:
                means = measure(arcs, model, per_class, asked.draws)
                cells = ["-" if np.isnan(mean) else (mean, error) for mean, error in means]
                table.append([name, model, str(per_class), means[0][0], *cells[1:]])
                told = (f"{mean:.1f} ± {error:.1f}" for mean, error in means)
                CONSOLE.print(f"{name}, {model}, {per_class}: {', '.join(told)}")
    columns = "|".join(f"{reading} {{:.1f}} ± {{:.1f}}" for reading in READINGS[1:])
    title = "accuracy, of messages average precision, in %; errors are of the lead over ignored"
    show(title, f"set|model|labels a class|ignored {{:.1f}}|{columns}", table, left=3)


if __name__ == "__main__":
    main()
