"""What an estimator tells of the nodes, as a table with their names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.decision import DecisionRule, decided
from peewit.solvers.estimators.kinds import Kinds
from peewit.solvers.interchange import NodeTable
from peewit.solvers.late_modules import LateModule

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LateModule("pyarrow")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodePredictions(NodeTable):
    """A table of predictions, for polars, duckdb, networkx (`EdgeTable.to_networkx`) and others.

    Attributes
    ----------
    table : pyarrow.Table
        ``node``, its name or number; ``kind`` and ``id`` where names are of kinds; ``label``, null
        where no label reaches; of classes also ``score`` and ``margin``, what it is above the best
        other (`peewit.solvers.decision.DecisionRule.margin` where a rule decides), and
        ``score:<class>``, called ``probability`` where they are; ``reachable``; with sets
        ``labels``, the classes in each, and ``certain``.
    model : str
        Name of the estimator.
    score : str
        ``probability`` or ``class score``; of numbers ``number``.
    """

    table: "pa.Table"
    model: str
    score: str

    def to_arrow(self) -> "pa.Table":
        """The table itself."""
        return self.table

    def _facts(self) -> dict[str, Any]:
        labels = self.table["label"]
        return {
            "model": self.model,
            "nodes": self.table.num_rows,
            "without label": labels.null_count or None,
            "score": self.score,
        }

    def of_kinds(self, kinds: Kinds, wanted: Sequence[str]) -> "NodePredictions":
        """Rows of all nodes narrowed to those of some kinds, with the columns ``kind`` and ``id``.

        `BadArgument` for a kind that is none.
        """
        wide = self.table.add_column(1, "id", kinds.ids)
        wide = wide.add_column(1, "kind", kinds.kinds.dictionary_decode())
        return replace(self, table=wide.filter(pa.array(kinds.are(wanted))))

    def with_sets(self, classes: AnyArray, is_in: BoolArray) -> "NodePredictions":
        """The same with sets of classes, (n_nodes, n_classes); what is predicted is in each."""
        names = pa.array(classes.tolist())
        best = pa.compute.index_in(self.table["label"], value_set=names)
        held = is_in | (best.to_numpy()[:, None] == np.arange(len(names)))
        sizes = held.sum(axis=1)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        sets = pa.ListArray.from_arrays(offsets, names.take(pa.array(np.nonzero(held)[1])))
        wide = self.table.append_column("labels", sets)
        return replace(self, table=wide.append_column("certain", pa.array(sizes == 1)))

    @classmethod
    def of_classes(
        cls,
        nodes: "pa.Array",
        classes: AnyArray,
        scores: FloatArray,
        reachable: BoolArray,
        *,
        model: str,
        score: str,
        rule: DecisionRule | None = None,
    ) -> "NodePredictions":
        """Of (n_nodes, n_classes) scores, which decide among ``classes`` by a rule."""
        best = decided(scores, rule)
        winner = np.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        if rule is None:
            others = scores.copy()
            np.put_along_axis(others, best[:, None], -np.inf, axis=1)
            margin = winner - others.max(axis=1)
        else:
            margin = rule.margin(scores, best)
        name = "probability" if score == "probability" else "score"
        columns = {
            "node": nodes,
            "label": pa.array(classes.tolist()).take(pa.array(best, mask=~reachable)),
            name: winner,
            "margin": margin,
            "reachable": reachable,
        }
        columns |= {
            f"{name}:{label}": column
            for label, column in zip(classes.tolist(), scores.T, strict=True)
        }
        return cls(table=pa.table(columns), model=model, score=score)

    @classmethod
    def of_numbers(
        cls, nodes: "pa.Array", values: FloatArray, reachable: BoolArray, *, model: str
    ) -> "NodePredictions":
        """Of a number for each node."""
        label = pa.array(values, mask=~reachable)
        columns = {"node": nodes, "label": label, "reachable": reachable}
        return cls(table=pa.table(columns), model=model, score="number")


def places_of(
    nodes: Any, names: "pa.Array | None", n_nodes: int, argument: str = "nodes"
) -> AnyArray:
    """Place of each node, by name where nodes have names and else by number.

    ``argument`` names them in a message.
    """
    wanted = nodes if isinstance(nodes, Sequence) else np.asarray(nodes)
    if isinstance(nodes, str) or (isinstance(wanted, np.ndarray) and wanted.ndim != 1):
        raise ValueError(f"nodes must be a list or a vector of nodes, got {nodes!r}")
    if names is None:
        places = np.asarray(wanted)
        if places.size and places.dtype.kind not in "iu":
            rule = "must name nodes by numbers, as the graph has no names of nodes"
            raise BadArgument(argument, f"{rule}, got {places[0]!r}")
        outside = (places < 0) | (places >= n_nodes)
        if outside.any():
            rule = f"must name nodes in [0, {n_nodes})"
            raise BadArgument(argument, f"{rule}, got {places[outside][0]}")
        return places.astype(np.int64)
    place = {name: number for number, name in enumerate(names.to_pylist())}
    numbers = [place.get(node.item() if hasattr(node, "item") else node) for node in wanted]
    if n_unknown := numbers.count(None):
        unknown = wanted[numbers.index(None)]
        raise BadArgument(
            argument,
            f"must name nodes of the graph, got {n_unknown:,} unknown, the first {unknown!r}; "
            "leave those out",
        )
    return np.array(numbers, np.int64)
