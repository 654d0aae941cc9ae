"""Interchange: our graphs and tables as those of other libraries, with the names of nodes.

Libraries that speak Arrow's PyCapsule interface (polars, duckdb, pandas) read our objects directly.
pyarrow, scipy and the optional libraries load on first use: the client of a server has graphs and
tables as well, and starts fast.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Final

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, Int64Array
from peewit.solvers.extras import how_to_install
from peewit.solvers.notebook_html import SHOWN_ROWS, shown

_OF_PYG: Final = frozenset({"edge_index", "edge_weight", "node_id", "num_nodes"})
"""Attributes of the data that `to_pyg` makes."""

_INSTALLED_BY: Final = {
    "networkx": how_to_install("networkx"),
    "pandas": "pip install pandas",
    "polars": "pip install polars",
    "torch": "pip install torch torch_geometric",
    "torch_geometric": "pip install torch_geometric",
}


class ArrowTable(ABC):
    """Base of objects that others read as a table."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self) -> Any:
        """The rows as a pyarrow.Table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever speaks Arrow's PyCapsule interface, which shares their memory."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_polars(self) -> Any:
        """The rows as a polars.DataFrame.

        Raises
        ------
        ImportError
            polars is not installed.
        """
        return optional("polars").from_arrow(self.to_arrow())

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame; dictionaries of Arrow are categories.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        optional("pandas")
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """HTML for a notebook: facts, bars and the first rows."""
        table = self.to_arrow()
        columns = table.slice(0, SHOWN_ROWS).to_pydict()
        bars_of, bars = self._bars()
        facts, n_rows = self._facts(), table.num_rows
        return shown(type(self).__name__, facts, columns, n_rows, bars=bars, bars_of=bars_of)

    @abstractmethod
    def _bars(self) -> tuple[str, dict[str, int]]:
        """What bars in a notebook count, and the counts by name."""

    def _facts(self) -> dict[str, Any]:
        """Facts above the rows in a notebook."""
        return {}


class NodeTable(ArrowTable):
    """Base of predictions: a table with a row for each node, which a column ``node`` names."""

    __slots__ = ()

    def _bars(self) -> tuple[str, dict[str, int]]:
        """Nodes of each label, the commonest first; none of labels that are numbers."""
        labels = self.to_arrow()["label"]
        if import_module("pyarrow").types.is_floating(labels.type):
            return "", {}
        counts = {each["values"]: each["counts"] for each in labels.value_counts().to_pylist()}
        ranked = sorted(counts.items(), key=lambda each: -each[1])
        return "nodes by label", {
            "no label" if label is None else str(label): count for label, count in ranked
        }

    def to_anndata(self, data: Any, key_added: str = "peewit") -> Any:
        """An AnnData with the predictions in it, by the names of its observations.

        Parameters
        ----------
        data : anndata.AnnData
            Is written to. Observations without a row get missing values.
        key_added : str
            Name of the label in ``obs``, a category of classes; other columns follow it, as
            ``peewit_margin``. What each class has is a frame in ``obsm``, with a column for each:
            ``peewit_probability`` (or ``peewit_score``), and of sets ``peewit_labels``, whether a
            class is in the set.

        Returns
        -------
        anndata.AnnData
            ``data`` itself.

        Raises
        ------
        ImportError
            pandas is not installed.
        ValueError
            There is no column ``node``, or it names one that is no observation.
        """
        pandas = optional("pandas")
        rows = self.to_pandas()
        if "node" not in rows:
            raise ValueError(f"a table of nodes must have a column 'node', got {list(rows)}")
        rows.index = rows.pop("node").astype(str)
        outside = ~rows.index.isin(data.obs_names)
        if outside.any():
            raise ValueError(
                f"nodes must be obs_names of the AnnData, got {rows.index[outside][0]!r}; make the "
                "graph by peewit.sparsify(data), which keeps them"
            )
        of_classes: dict[str, dict[str, Any]] = {}
        for name in list(rows):
            kind, is_of_class, class_name = str(name).partition(":")
            if is_of_class:
                of_classes.setdefault(kind, {})[class_name] = rows.pop(name)
        if "labels" in rows:
            sets = rows.pop("labels").map(lambda one: {str(each) for each in one})
            known = of_classes.get("probability") or of_classes.get("score")
            names = known or sorted(set().union(*sets))
            of_classes["labels"] = {
                name: sets.map(lambda one, name=name: name in one) for name in names
            }
        if "margin" in rows:
            rows["label"] = rows["label"].astype("category")
        for name, column in _in_order(rows, data.obs_names).items():
            data.obs[key_added if name == "label" else f"{key_added}_{name}"] = column
        for kind, columns in of_classes.items():
            frame = pandas.DataFrame(columns)
            data.obsm[f"{key_added}_{kind}"] = _in_order(frame, data.obs_names)
        return data


class EdgeTable(ArrowTable):
    """Base of graphs, which others read as a table of edges.

    Rows for nodes, such as predictions, go along as ``nodes``: a table that speaks Arrow, with a
    column ``node``.
    """

    __slots__ = ()

    @abstractmethod
    def _matrix(self) -> Any:
        """(n_nodes, n_nodes) symmetric scipy.sparse.csr_array of the weights."""

    def _node_names(self) -> Any:
        """pyarrow.Array with the name of each node; None where nodes are their own numbers."""
        return None

    def _bars(self) -> tuple[str, dict[str, int]]:
        """Nodes by the number of their neighbors, from one power of two to the next."""
        counts = np.bincount(np.frexp(self._n_neighbors())[1]).tolist()  # of 0, 1, 2 to 3, ...
        names = ["0", "1", *(f"{1 << bit}–{(2 << bit) - 1}" for bit in range(1, len(counts)))]
        return "nodes by number of neighbors", dict(zip(names, counts, strict=False))

    def _n_neighbors(self) -> Any:
        """(n_nodes,) number of neighbors of each node."""
        return np.diff(self._matrix().indptr)

    def to_arrow(self) -> Any:
        """Each edge once: columns ``src`` and ``dst``, names of nodes, and ``weight``."""
        arrow = import_module("pyarrow")
        names, (u, v, weight) = self._node_names(), _edges_once(self._matrix())
        ends = [arrow.array(end) for end in (u, v)]
        if names is not None:
            ends = [names.take(end) for end in ends]
        return arrow.table({"src": ends[0], "dst": ends[1], "weight": arrow.array(weight)})

    def to_scipy(self) -> Any:
        """A copy of the adjacency matrix, a scipy.sparse.csr_array that may be changed.

        Row i is node i, whose name is ``external_ids[i]`` where nodes have names.
        """
        return self._matrix().copy()

    def to_networkx(self, nodes: Any = None) -> Any:
        """A networkx.Graph: nodes by name, edges with ``weight``.

        Parameters
        ----------
        nodes : table that speaks Arrow, or None
            Its further columns become attributes of the nodes that its column ``node`` names;
            what is null is left out.

        Raises
        ------
        ImportError
            networkx is not installed.
        ValueError
            ``nodes`` has no column ``node``, or names one that the graph lacks.
        """
        graph = optional("networkx").Graph()
        matrix = self._matrix()
        names = self._listed_names(matrix)
        graph.add_nodes_from(names)
        ends = (part.tolist() for part in _edges_once(matrix))
        graph.add_weighted_edges_from(
            (names[u], names[v], weight) for u, v, weight in zip(*ends, strict=True)
        )
        if nodes is not None:
            places, table = self._rows_of_nodes(nodes, matrix)
            for name in table.column_names:
                for place, value in zip(places.tolist(), table[name].to_pylist(), strict=True):
                    if value is not None:
                        graph.nodes[names[place]][name] = value
        return graph

    def to_pyg(self, nodes: Any = None) -> Any:
        """A torch_geometric.data.Data, in which each edge stands in both directions.

        Parameters
        ----------
        nodes : table that speaks Arrow, or None
            Has one row for each node. Its further columns become attributes of the data, in the
            order of the nodes: numbers as tensors, in which null is nan, others as lists.

        Returns
        -------
        torch_geometric.data.Data
            ``edge_index`` (2, 2 * n_edges) int64, ``edge_weight`` float32, ``num_nodes``, and
            ``node_id``, a list of the names.

        Raises
        ------
        ImportError
            torch or torch_geometric is not installed.
        ValueError
            ``nodes`` has no column ``node``, names one that the graph lacks, has not one row for
            each, or a column of a name that the data has itself.
        """
        torch = optional("torch")
        data = optional("torch_geometric.data")
        matrix = self._matrix()
        index, weight = edge_index(matrix)
        columns: dict[str, Any] = {"node_id": self._listed_names(matrix)}
        if nodes is not None:
            places, table = self._rows_of_nodes(nodes, matrix)
            order = np.argsort(places, kind="stable")
            if not np.array_equal(places[order], np.arange(matrix.shape[0])):
                raise ValueError(
                    f"nodes must have one row for each of the {matrix.shape[0]} nodes, got "
                    f"{places.size} rows for {np.unique(places).size} of them"
                )
            for name in table.column_names:
                if name in _OF_PYG:
                    raise ValueError(
                        f"nodes must have no column {name!r}, which PyTorch Geometric has itself"
                    )
                values = table[name].to_numpy()[order]
                is_number = values.dtype.kind in "biuf"
                columns[name] = torch.from_numpy(values) if is_number else values.tolist()
        return data.Data(
            edge_index=torch.from_numpy(index),
            edge_weight=torch.from_numpy(weight),
            num_nodes=matrix.shape[0],
            **columns,
        )

    def _listed_names(self, matrix: Any) -> list[Any]:
        names = self._node_names()
        return list(range(matrix.shape[0])) if names is None else list(names.to_pylist())

    def _rows_of_nodes(self, nodes: Any, matrix: Any) -> tuple[Int64Array, Any]:
        """Node of each row of a table, and its other columns."""
        arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
        table = arrow.table(nodes)
        if "node" not in table.column_names:
            raise ValueError(f"nodes must have a column 'node', got {table.column_names}")
        column, names = table["node"], self._node_names()
        if names is None:
            names = arrow.array(np.arange(matrix.shape[0]))
        index = compute.index_in(column.cast(names.type), value_set=names)
        if index.null_count:
            unknown = column.filter(compute.is_null(index))[0].as_py()
            raise ValueError(f"nodes must be nodes of the graph, got {unknown!r}")
        places: AnyArray = index.to_numpy()
        return places.astype(np.int64), table.drop_columns("node")


def edge_index(matrix: Any) -> tuple[Int64Array, Float32Array]:
    """(2, nnz) ends and (nnz,) weights of both directions of each edge, row by row."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.stack([rows, matrix.indices.astype(np.int64)]), matrix.data.astype(np.float32)


def _in_order(rows: Any, names: Any) -> Any:
    """Rows of a frame in the order of some names; missing values where it has none."""
    if len(names.difference(rows.index)):
        rows = rows.astype(dict.fromkeys(rows.select_dtypes("bool"), "boolean"))
    return rows.reindex(names)


def is_anndata(source: Any) -> bool:
    """Whether it is an AnnData, which needs not be installed."""
    return hasattr(source, "obsp") and hasattr(source, "obs_names")


def optional(name: str) -> Any:
    """A module that may be missing; raises ImportError that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        how = _INSTALLED_BY[library]
        raise ImportError(f"{library} must be installed for this; {how}", name=name) from error


def _edges_once(matrix: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    """(u, v, weight) of each edge with u < v."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    once = rows < matrix.indices
    return rows[once], matrix.indices[once], matrix.data[once]
