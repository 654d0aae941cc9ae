"""Does the road from a company's raw files to its frauds reach what hand-made graphs reach?

Five calls of ingest read them, each naming relation and kinds of nodes. Printed of each seed are
the precision of the first so many accounts without label (500 of 60,000), and the average
precision, by the score of the fraud class: of the union of all edges, of relations that labels
weigh, alone, with counts of what accounts send and receive in each, with the raw table of accounts
as features, and with both, as a solve has it; of a graph of accounts alone that joins who shares
cards, devices and pictures, with the raw table and with features made by hand, counts of messages
among them; of gradient boosting on these and on labels propagated along that graph, left out in
five folds where known; and of scikit-network on the union. ``--out`` writes the files of the first
seed there instead.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

from docs.benchmarks.frame import CONSOLE, cpu_of, installed, options, show
from docs.benchmarks.marketplace_files import EDGE_FILES, FRAUD, Marketplace, marketplace
from peewit.service.tasks.joined_counts import JoinedCounts
from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array
from peewit.solvers.estimators.classifier_on_graph import ClassifierOnGraph
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.solving import RelationModel, RelationSolution
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.features.encoding import Encoding
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.passes.relation_counts import count_arcs_of
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

UNION, RELATIONS = "union", "relations"
WITH_TABLE, WITH_COUNTS = "relations, table", "relations, counts"
WITH_BOTH, RIDGE = "relations, table, counts", "relations, table, counts, ridge"
TREES = "relations, table, counts, boosting"
BY_HAND, RIDGE_BY_HAND = "by hand", "by hand, ridge"
GRAPH_BY_HAND = "graph by hand, table"
BOOSTED, DIFFUSED = "boosting", "scikit-network"
METHODS: Final = (
    *(UNION, RELATIONS, WITH_TABLE, WITH_COUNTS, WITH_BOTH, RIDGE, TREES),
    *(GRAPH_BY_HAND, BY_HAND, RIDGE_BY_HAND, BOOSTED, DIFFUSED),
)

MOST_SHARING: Final = 50
"""Accounts on a device or card beyond which whoever makes graphs by hand does not join them."""

N_FOLDS: Final = 5
PER_TOP: Final = 120
"""Accounts for each that is looked at: 500 of 60,000."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ingested:
    """What ingest made of the files: relations, and the node of each account."""

    market: Marketplace
    relations: RelationGraphs
    account: Int64Array  # (n_accounts,) nodes, by number less 1
    labels: Labels  # by number less 1
    counts: Float32Array  # (n_nodes, n_columns) of what nodes send and receive, as a solve has them

    @property
    def node_labels(self) -> Labels:
        """Labels of nodes, of which accounts are asked about."""
        is_account = np.zeros(self.relations.n_nodes, bool)
        is_account[self.account] = True
        nodes, classes = self.account[self.labels.nodes], self.labels.classes
        return replace(Labels.from_pairs(nodes, classes), among=is_account)

    def features(self) -> FeatureRows:
        """Rows of the table of accounts as `peewit features` makes them."""
        order = np.argsort(self.account)
        return FeatureRows(values=encoded(self.market)[order], nodes=self.account[order])

    def with_counts(self, rows: FeatureRows | None) -> Any:
        """Rows, if any, beside counts of accounts."""
        nodes = np.sort(self.account)
        of_nodes = self.counts[nodes]
        joined = JoinedCounts.of(of_nodes, rows, is_encoded=True, nodes=nodes, snapshot=1)
        return joined.beside(rows)


def ingested(market: Marketplace) -> Ingested:
    """The graph of the files, by five calls of ingest; accounts without an edge are nodes, too."""
    with tempfile.TemporaryDirectory() as name:
        files, paths = Path(name) / "files", GraphPaths(root=Path(name) / "graph")
        files.mkdir()
        market.write(files)
        sparsifier = SparsifierSettings(max_edges=20_000_000)
        settings = StreamSettings(node_kind="typed", sparsifier=sparsifier, n_threads=1)
        for file, columns in EDGE_FILES.items():
            Stream(paths, settings).ingest(EdgeFiles(files / file, columns=columns).list())
        store = SnapshotStore(paths.snapshots)
        meta = store.meta(store.numbers()[-1])
        graphs = store.load_relations(meta.number)
        counted = count_arcs_of(paths, meta, attempt="benchmark", keep_raw=False)
        numbers = pc.cast(pq.read_table(files / "accounts.parquet")["account_id"], pa.string())
        names = pc.binary_join_element_wise("account", numbers, ":")
        nodes = open_nodes(paths.nodes, kind="typed", writable=False)
        account = np.asarray(nodes.lookup(names), np.int64)
        alone = np.flatnonzero(account < 0)
        n_nodes = nodes.n_nodes + alone.size
        account[alone] = np.arange(nodes.n_nodes, n_nodes)
        relations = RelationGraphs.of(
            {each: Graph.from_edges(*own.edges(), n_nodes=n_nodes) for each, own in graphs.items()}
        )
        decisions = pyarrow.csv.read_csv(files / "decisions.csv")
    is_fraud = np.asarray(pc.equal(decisions["label"], FRAUD)).astype(np.int64)
    labels = Labels.from_pairs(decisions["account"].to_numpy() - 1, is_fraud)
    return Ingested(
        market=market,
        relations=relations,
        account=account,
        labels=labels,
        counts=counted.rows(["message"], np.arange(n_nodes)),
    )


def encoded(market: Marketplace) -> FloatArray:
    """The table of accounts as features, by the rules of `peewit features`."""
    table = market.tables["accounts.parquet"].drop_columns("account_id").combine_chunks()
    rows: FloatArray = Encoding.of(table).encode(table.to_batches()[0], 0).astype(float)
    return rows


def message_counts(market: Marketplace) -> FloatArray:
    """(n_accounts, 4) logs of what an account sent and received, and of its partners each way."""
    table = market.tables["messages.ndjson"]
    src, dst, n = (column.to_numpy() for column in table.columns)
    sent = sp.csr_array((n, (src - 1, dst - 1)), (market.ring.size, market.ring.size))
    once = sent.sign()
    return np.log1p(np.column_stack([each.sum(axis) for each in (sent, once) for axis in (1, 0)]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HandMade:
    """What somebody with a week makes: a graph of accounts alone, and features of each."""

    graph: Graph
    features: FloatArray

    @classmethod
    def of(cls, market: Marketplace) -> "HandMade":
        """By cards, devices and pictures that accounts share; messages are features alone."""
        n_accounts = market.ring.size
        seller = _incidence(market.tables["offers.csv"], n_accounts)
        images = market.tables["images.tsv"]
        ends = [images[name].to_numpy() - 1 for name in ("listing", "copy_of")]
        alike = sp.csr_array((np.ones(ends[0].size), ends), (seller.shape[1],) * 2)
        copies = seller @ (alike + alike.T) @ seller.T
        adjacency, counts = copies, [seller.sum(1), copies.sum(1), copies.sign().sum(1)]
        for file, column in (("logins.csv.gz", "device_id"), ("cards.parquet", "card_hash")):
            has = _incidence(market.tables[file].select(["account_id", column]), n_accounts)
            n_sharing = has.sum(0)
            counts += [has.sum(1), (has * n_sharing).max(1).toarray(), has @ n_sharing]
            joins = np.where((n_sharing > 1) & (n_sharing <= MOST_SHARING), n_sharing - 1.0, np.inf)
            adjacency = adjacency + has @ sp.diags_array(1.0 / joins) @ has.T
        adjacency = sp.csr_array(adjacency - sp.diags_array(adjacency.diagonal()))
        adjacency.eliminate_zeros()
        table = encoded(market)
        of_graph = np.log1p(np.column_stack([np.ravel(each) for each in counts]))
        made = (_scaled(of_graph), _scaled(message_counts(market)), table)
        return cls(graph=Graph.from_adjacency(adjacency), features=np.column_stack(made))


def _incidence(table: pa.Table, n_accounts: int) -> Any:
    """(n_accounts, n_things) 1 where an account has a thing."""
    account, thing = (column.combine_chunks() for column in table.columns)
    if pa.types.is_integer(thing.type):
        codes = thing.to_numpy() - 1
    else:
        codes = thing.dictionary_encode().indices.to_numpy()
    ends = account.to_numpy() - 1, codes
    return sp.csr_array((np.ones(codes.size), ends), (n_accounts, codes.max() + 1)).sign()


def _scaled(columns: FloatArray) -> FloatArray:
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def propagated(graph: Graph, labels: Labels) -> FloatArray:
    """(n_nodes, 2) labels of each class after thirty steps along the edges, a tenth kept each."""
    own = np.zeros((graph.n_nodes, 2))
    own[labels.nodes, labels.classes] = 1.0
    degree = np.where(graph.degree > 0, graph.degree, 1.0)[:, None]
    values = own
    for _ in range(30):
        values = 0.9 * (graph.adjacency @ values) / degree + 0.1 * own
    return values


def boosted(made: HandMade, labels: Labels) -> FloatArray:
    """Probability of fraud by boosting; labels see what others propagate, not themselves."""
    spread = propagated(made.graph, labels)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    for others, own in folds.split(labels.nodes, labels.classes):
        nodes = labels.nodes[own]
        spread[nodes] = propagated(made.graph, labels.subset(others))[nodes]
    rows = np.column_stack([made.features, spread])
    trees = HistGradientBoostingClassifier(learning_rate=0.05, random_state=0)
    trees.fit(rows[labels.nodes], labels.classes)
    found: FloatArray = trees.predict_proba(rows)[:, 1]
    return found


def methods(case: Ingested) -> dict[str, Callable[[], FloatArray]]:
    """Of each the score of fraud of all accounts, from files that were read."""
    relations, by_hand = case.relations, HandMade.of(case.market)

    def along(model: Model, features: Any = None) -> Callable[[], FloatArray]:
        def score() -> FloatArray:
            whole: Any = RelationModel(model=model)
            solution = whole.solve(whole.prepare(relations, features), case.node_labels)
            if features is None and isinstance(solution, RelationSolution):
                CONSOLE.print(solution.choice.stats)
            found: FloatArray = solution.scores[case.account, 1]
            return found

        return score

    def on(graph: Graph, model: Model, labels: Labels, features: Any = None) -> FloatArray:
        scores: FloatArray = model.solve(model.prepare(graph, features), labels).scores[:, 1]
        return scores

    def diffused() -> FloatArray:
        network = installed("sknetwork.classification")
        nodes = case.account[case.labels.nodes].tolist()
        known = dict(zip(nodes, case.labels.classes.tolist(), strict=True))
        found: FloatArray = network.DiffusionClassifier(n_iter=50).fit_predict_proba(
            sp.csr_matrix(union.adjacency), known
        )[case.account, 1]
        return found

    def boosted_on_graph() -> FloatArray:
        rows, n_nodes = case.with_counts(case.features()), relations.n_nodes
        features = np.zeros((n_nodes, rows.n_columns))
        features[rows.nodes] = rows.whole()
        y = np.full(n_nodes, -1)
        y[case.node_labels.nodes] = case.node_labels.classes
        trees = HistGradientBoostingClassifier(learning_rate=0.05, random_state=0)
        named = dict(zip(relations.names, relations.graphs, strict=True))
        model = ClassifierOnGraph(classifier=trees).fit(named, y, features)
        found: FloatArray = model.label_distributions_[case.account, 1]
        return found

    union = relations.combined((1.0,) * len(relations))
    found = {
        UNION: lambda: on(union, Auto(), case.node_labels)[case.account],
        RELATIONS: along(Auto()),
        WITH_TABLE: along(Auto(), case.features()),
        WITH_COUNTS: along(Auto(), case.with_counts(None)),
        WITH_BOTH: along(Auto(), case.with_counts(case.features())),
        RIDGE: along(FilteredRidge(), case.with_counts(case.features())),
        TREES: boosted_on_graph,
        GRAPH_BY_HAND: lambda: on(by_hand.graph, Auto(), case.labels, encoded(case.market)),
        BY_HAND: lambda: on(by_hand.graph, Auto(), case.labels, by_hand.features),
        RIDGE_BY_HAND: lambda: on(by_hand.graph, FilteredRidge(), case.labels, by_hand.features),
        BOOSTED: lambda: boosted(by_hand, case.labels),
    }
    if installed("sknetwork.classification"):
        found[DIFFUSED] = diffused
    return found


def judged(case: Ingested, scores: FloatArray) -> tuple[float, float]:
    """Precision of the first accounts without label, and average precision of all of these."""
    asked = np.setdiff1d(np.arange(scores.size), case.labels.nodes)
    asked = np.random.default_rng(0).permutation(asked)  # ties are broken at random
    truth = case.market.is_fraud[asked]
    first = np.argsort(-scores[asked], kind="stable")[: scores.size // PER_TOP]
    return float(truth[first].mean()), float(average_precision_score(truth, scores[asked]))


def main() -> None:
    asked = options(
        __doc__,
        quick={"accounts": 3_000, "seeds": 1},
        accounts=60_000,
        seeds=5,
        first_seed=0,
        methods=(list(METHODS), METHODS),
        out=(str, "folder that the files of the first seed are written to, and no more"),
    )
    if asked.out:
        Path(asked.out).mkdir(parents=True, exist_ok=True)
        marketplace(asked.accounts, asked.first_seed).write(Path(asked.out))
        return
    figures = defaultdict(list)
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        case = ingested(marketplace(asked.accounts, seed))
        known = methods(case)
        for name in asked.methods:
            if name in known:
                scores, seconds = cpu_of(known[name])
                figures[name].append((*judged(case, scores), seconds))
                shown = "precision {:.3f}, average precision {:.3f}, CPU s {:.0f}"
                CONSOLE.print(f"seed {seed}, {name}: {shown.format(*figures[name][-1])}")
    columns = (
        "method|seeds|precision of the first {:.3f} ± {:.3f}|average {:.3f} ± {:.3f}|CPU s {:.0f}"
    )
    rows = []
    for name, found in figures.items():
        means, errors = (
            np.mean(found, axis=0),
            np.std(found, axis=0) / max(len(found) - 1, 1) ** 0.5,
        )
        cells = [(mean, error) for mean, error in zip(means[:2], errors[:2], strict=True)]
        rows.append([name, len(found), *cells, means[2]])
    show(f"frauds among {asked.accounts:,} accounts", columns, rows)


if __name__ == "__main__":
    main()
