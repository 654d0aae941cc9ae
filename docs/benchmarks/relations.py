"""Do labels choose well how much each relation of a graph counts?

Typed sets of the folder that ``PEEWIT_DATA`` names: authors of DBLP and movies of Freebase, three
relations each, no features, equally many labels a class. Printed is the accuracy of `auto` where
all edges count alike, where relations have equal volumes, and with weights chosen by the labels, on
the same draws; what the choice loses to the better of the two means, with its standard error; and
processor time, relative to that of a first solve where all edges count alike: of a first solve with
the choice, of the choice alone, and of a solve with one more label relative to the same there.

``scalings`` are these sets, ``noise`` adds to each a relation of random edges, as many as the
largest has: the last column is what these cost beside the choice without them. ``counts`` has the
accuracy with the choice, and what it gains by logarithms of the numbers of edges in each relation
as features of the nodes that are asked about, as solves count them where edges are directed.
``features`` has the accuracy of `filtered-ridge` on the features of DBLP's authors smoothed along
the combination that is chosen, along each of its relations by itself, and along both as left-out
labels believe in each; and of `auto` along the combination and along both.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from docs.benchmarks.default_model import Made
from docs.benchmarks.frame import CONSOLE, cpu_of, folder, options, share_right, show
from peewit.service.tasks.joined_counts import JoinedCounts
from peewit.solvers.arrays import Int64Array
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.linear.filtered_features import FilteredFeatures
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.relations.choice import EQUAL_VOLUME, choose, equal_volumes
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.solving import RelationModel
from peewit.solvers.solution import Solution
from tests.data_sets import draw_per_class

SETS = ("dblp", "freebase")
COLLAPSED, CHOSEN = "collapsed", "chosen"


@cache
def typed(name: str) -> tuple[RelationGraphs, Int64Array]:
    """Relations of a typed set, whose kinds are part of nodes' names, and classes; -1 of others."""
    relations, classes, _ = with_rows(name)
    return relations, classes


@cache
def with_rows(name: str) -> tuple[RelationGraphs, Int64Array, FeatureRows | None]:
    """As `typed`, and the features of nodes with a label, in the order of these; or None."""
    edges = pq.read_table(folder() / f"{name}_typed_edges.parquet")
    labels = pq.read_table(folder() / f"{name}_typed_labels.parquet")
    ends = [
        pc.binary_join_element_wise(
            pc.cast(edges[kind], pa.string()), pc.cast(edges[side], pa.string()), ":"
        ).combine_chunks()
        for kind, side in (("src_kind", "src"), ("dst_kind", "dst"))
    ]
    names = pc.unique(pa.concat_arrays(ends))
    u, v = (pc.index_in(side, value_set=names).to_numpy() for side in ends)
    own = pc.binary_join_element_wise(
        pc.cast(labels["kind"], pa.string()), pc.cast(labels["node"], pa.string()), ":"
    )
    place = pc.index_in(own, value_set=names).to_numpy(zero_copy_only=False)
    features, path = None, folder() / f"{name}_typed_features.npz"
    if path.exists():
        order = np.argsort(place)
        features = FeatureRows(
            values=sp.csr_array(sp.load_npz(path))[order], nodes=place[order].astype(np.int64)
        )
    known = np.isfinite(place.astype(float))
    classes = np.full(len(names), -1)
    coded = pc.dictionary_encode(labels["label"].combine_chunks()).indices.to_numpy()
    classes[place[known].astype(np.int64)] = coded[known]
    relation = edges["relation"].to_numpy(zero_copy_only=False).astype(str)
    graphs = {}
    for each in np.unique(relation):
        rows = np.flatnonzero(relation == each)
        graphs[str(each)] = Graph.from_edges(
            u[rows], v[rows], np.ones(rows.size), n_nodes=len(names)
        )
    return RelationGraphs.of(graphs), classes, features


def collapsed(name: str) -> Made:
    """The graph of all edges of a typed set, and the classes."""
    relations, classes = typed(name)
    return relations.combined((1.0,) * len(relations)), classes


def with_noise(relations: RelationGraphs) -> RelationGraphs:
    """With a relation of random edges, as many as the largest has."""
    n_edges = max(graph.n_edges for graph in relations.graphs)
    u, v = np.random.default_rng(0).integers(0, relations.n_nodes, (2, n_edges))
    different = u != v
    ones = np.ones(np.count_nonzero(different))
    random = Graph.from_edges(u[different], v[different], ones, n_nodes=relations.n_nodes)
    return RelationGraphs.of(
        {**dict(zip(relations.names, relations.graphs, strict=True)), "random": random}
    )


def labels_at(nodes: Int64Array, classes: Int64Array) -> Labels:
    """Labels of these nodes; those of known class are asked about."""
    return replace(Labels.from_pairs(nodes, classes[nodes].tolist()), among=classes >= 0)


def solved(model: Model, prepared: object, labels: Labels) -> Solution:
    return model.solve(prepared, labels)


def looked_at(
    relations: RelationGraphs, classes: Int64Array, per_class: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    """Accuracy, and CPU seconds of a first and of the next solve, of every way to weigh.

    Of the choice itself the seconds stand in place of the accuracy.
    """
    nodes = draw_per_class(classes, per_class, seed=seed)
    labels = labels_at(nodes, classes)
    free = np.setdiff1d(np.flatnonzero(classes >= 0), nodes)
    one_more = labels_at(
        np.sort(np.append(nodes, np.random.default_rng(seed).choice(free))), classes
    )
    ways = {
        COLLAPSED: (1.0,) * len(relations),
        EQUAL_VOLUME: equal_volumes(relations),
        CHOSEN: None,
    }
    found = {}
    for name, weights in ways.items():
        model = RelationModel(model=Auto(), weights=weights)
        prepared, preparing = cpu_of(model.prepare, relations)
        solution, first = cpu_of(solved, model, prepared, labels)
        _, again = cpu_of(solved, model, prepared, one_more)
        right = share_right(solution.scores.argmax(axis=1), classes, nodes)
        found[name] = right, preparing + first, again
    _, choosing = cpu_of(choose, relations, labels)
    found["choice"] = choosing, choosing, choosing
    return found


def measure(relations: RelationGraphs, classes: Int64Array, per_class: int, n_draws: int) -> list:
    """Means of the accuracies, the loss and its error, and the relative seconds."""
    draws = defaultdict(list)
    for seed in range(n_draws):
        for name, figures in looked_at(relations, classes, per_class, seed).items():
            draws[name].append(figures)
    all_of = {name: np.array(figures) for name, figures in draws.items()}
    right = {name: 100 * all_of[name][:, 0] for name in (COLLAPSED, EQUAL_VOLUME, CHOSEN)}
    better = max((COLLAPSED, EQUAL_VOLUME), key=lambda name: right[name].mean())
    loss = right[better] - right[CHOSEN]
    error = loss.std(ddof=1) / np.sqrt(loss.size) if loss.size > 1 else np.nan
    alike = all_of[COLLAPSED].mean(axis=0)
    chosen, choosing = all_of[CHOSEN].mean(axis=0), all_of["choice"].mean(axis=0)
    seconds = chosen[1] / alike[1], choosing[1] / alike[1], chosen[2] / alike[2]
    return [*(each.mean() for each in right.values()), loss.mean(), error, *seconds]


def gained(
    relations: RelationGraphs, classes: Int64Array, per_class: int, n_draws: int
) -> tuple[float, tuple[float, float]]:
    """Mean accuracy without counts, and what these gain, with its error."""
    counts = np.log1p(np.column_stack([np.diff(g.adjacency.indptr) for g in relations.graphs]))
    nodes = np.flatnonzero(classes >= 0)
    of_nodes = counts[nodes].astype(np.float32)
    joined = JoinedCounts.of(of_nodes, None, is_encoded=False, nodes=nodes, snapshot=1)
    draws = []
    for seed in range(n_draws):
        known = draw_per_class(classes, per_class, seed=seed)
        labels, model = labels_at(known, classes), RelationModel(model=Auto())
        solutions = (
            solved(model, model.prepare(relations, features), labels)
            for features in (None, joined.beside(None))
        )
        draws.append(
            [share_right(each.scores.argmax(axis=1), classes, known) for each in solutions]
        )
    right = 100 * np.array(draws)
    lead = right[:, 1] - right[:, 0]
    return float(right[:, 0].mean()), (
        float(lead.mean()),
        float(lead.std() / max(n_draws - 1, 1) ** 0.5),
    )


class AlongRelations(FilteredRidge):
    """Filtered ridge with features smoothed along each relation alone."""

    def _by_relation(
        self, prepared: FilteredFeatures, along_all: Any, labels: Labels, stats: Any, watch: Watch
    ) -> Any:
        del stats
        factors = (0.0, *prepared.shares.tolist())
        return self._judge(prepared, replace(along_all.arm, factors=factors), labels, watch)


def by_features(per_class: int, n_draws: int) -> list[float]:
    """Means of the accuracies of every way to smooth features, and of the belief in relations."""
    relations, classes, rows = with_rows("dblp")
    ridge = FilteredRidge(teleport=0.1)
    along = AlongRelations(teleport=0.1)
    draws = []
    for seed in range(n_draws):
        known = draw_per_class(classes, per_class, seed=seed)
        labels = labels_at(known, classes)
        weights = choose(relations, labels).best.weights
        both = relations.combined(weights)
        whole = Graph.from_adjacency(both.adjacency)  # which knows of no relations
        ways = ((ridge, whole), (along, both), (ridge, both), (Auto(), whole), (Auto(), both))
        solutions = [solved(model, model.prepare(graph, rows), labels) for model, graph in ways]
        right = [share_right(each.scores.argmax(axis=1), classes, known) for each in solutions]
        draws.append([*np.multiply(100, right), solutions[2].stats["belief_relations"]])
    means: list[float] = np.mean(draws, axis=0).tolist()
    return means


def main() -> None:
    asked = options(
        __doc__,
        cases=("scalings", "noise", "counts", "features"),
        quick={"sets": ["dblp"], "draws": 1, "labels": [20]},
        sets=(list(SETS), SETS),
        labels=([5, 20, 40, 60], "per class"),
        draws=10,
    )
    columns = (
        "set|labels a class|all alike {:.1f}|equal volume {:.1f}|chosen {:.1f}|loses {:.1f}|"
        "+- {:.1f}|first solve {:.1f}|choice {:.1f}|next solve {:.1f}"
    )
    table, without = [], {}
    looked_at(*typed(asked.sets[0]), 5, 0)  # compile what is compiled
    for case in (each for each in asked.cases if each in {"scalings", "noise"}):
        for name in asked.sets:
            relations, classes = typed(name)
            for per_class in asked.labels:
                own = with_noise(relations) if case == "noise" else relations
                row = measure(own, classes, per_class, asked.draws)
                what = f"{name}, noise" if case == "noise" else name
                costs = without.get((name, per_class), np.nan) - row[2] if case == "noise" else None
                without.setdefault((name, per_class), row[2])
                table.append([what, str(per_class), *row, costs])
                CONSOLE.print(what, per_class, *(f"{each:.1f}" for each in row))
    if table:
        show("weights of relations", columns + "|noise costs {:.1f}", table, left=2)
    if "counts" in asked.cases:
        rows = [
            [name, str(per_class), *gained(*typed(name), per_class, asked.draws)]
            for name in asked.sets
            for per_class in asked.labels
        ]
        columns = "set|labels a class|chosen {:.1f}|counts gain {:+.2f} ± {:.2f}"
        show("counts of edges as features", columns, rows, left=2)
    if "features" in asked.cases:
        found = [[str(each), *by_features(each, asked.draws)] for each in asked.labels]
        columns = "labels a class|all edges {:.1f}|each relation {:.1f}|both {:.1f}"
        columns += "|auto, all edges {:.1f}|auto, both {:.1f}|belief in relations {:.2f}"
        show("features of authors of DBLP", columns, found)


if __name__ == "__main__":
    main()
