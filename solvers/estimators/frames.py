"""Data frames of pandas, polars and pyarrow: columns by name, and rows by the names of nodes."""

from collections import Counter
from collections.abc import Sequence
from numbers import Real
from typing import Any, Final

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, Int64Array
from peewit.solvers.estimators.edge_tables import column_names
from peewit.solvers.estimators.node_predictions import places_of
from peewit.solvers.estimators.targets import without_nulls
from peewit.solvers.features import FeatureRows

ENCODE: Final = (
    "encode them, as by skrub.TableVectorizer or sklearn.compose.ColumnTransformer; `peewit "
    "features` of the service does so itself"
)
"""Way out of columns that hold no numbers."""

_NODE: Final = "node"
"""Column that names the nodes of rows, as in tables of the service."""

_SHOWN: Final = 5


def index_names(given: Any) -> list[Any] | None:
    """What the index of a frame or Series calls its rows; None where they are numbered from 0."""
    index = getattr(given, "index", None)
    if index is None or callable(index):  # of a list
        return None
    names = list(index)
    return None if names == list(range(len(names))) else names


def entries_of_index(series: Any, argument: str) -> dict[Any, Any]:
    """Entries of a Series by the names of its index; raises `BadArgument` for a name twice."""
    names = list(series.index)
    entries = dict(zip(names, series, strict=True))
    if len(entries) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise BadArgument(
            argument,
            f"must name each node once, got {twice!r} {names.count(twice)} times; take rows out, "
            f"as by {argument}[~{argument}.index.duplicated(keep='last')]",
        )
    return entries


def refuse_two_readings(given: Any, names: Any, argument: str) -> None:
    """Raise `BadArgument` where an index 0 to n-1 numbers rows, and the nodes in another order."""
    index = getattr(given, "index", None)
    if names is None or index is None or callable(index) or len(index) != len(names):
        return
    ids, numbers = np.asarray(names), np.arange(len(names))
    if ids.dtype.kind == "i" and (ids != numbers).any() and (np.sort(ids) == numbers).all():
        raise BadArgument(
            argument,
            f"must be clear of order: its index 0 to {len(names) - 1} numbers rows, and the nodes "
            f"are called so in another order; give {argument}.to_numpy() where rows are in that of "
            f"external_ids, else {argument}.loc[graph.external_ids.to_pylist()].to_numpy()",
        )


def require_numbers(frame: Any, argument: str, way_out: str = ENCODE) -> None:
    """Raise `BadArgument` that names the columns of a frame which hold no numbers."""
    wrong = [name for name in column_names(frame) or () if _numbers(frame[name]) is None]
    if wrong:
        more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        named = ", ".join(map(repr, wrong[:_SHOWN]))
        raise BadArgument(
            argument, f"must hold numbers, got none in column {named}{more}; {way_out}"
        )


def rows_of_nodes(frame: Any, names: Any, argument: str) -> tuple[Any, Int64Array | None]:
    """The features of a frame, and the node of each row; None where row i is node i.

    Nodes that have ``names``, a pyarrow.Array, are those of the index or the column ``node``. What
    is no frame stays as it is. `BadArgument` for columns without numbers, and for a row of no node
    or of another row's.
    """
    columns = column_names(frame)
    if columns is None:
        return frame, None
    nodes = None if names is None else index_names(frame)
    if nodes is None and _NODE not in columns:
        refuse_two_readings(frame, names, argument)
    if nodes is None and names is not None and _NODE in columns:
        nodes = np.asarray(frame[_NODE]).tolist()
        kept = [name for name in columns if name != _NODE]
        frame = frame.select(kept) if hasattr(frame, "select") else frame[kept]
    require_numbers(frame, argument)
    return frame, None if nodes is None else _places_of_rows(nodes, names, argument)


def node_features(features: Any, names: Any) -> Any:
    """Features as models take them, of a frame those of the nodes that its rows name.

    `BadArgument` as `rows_of_nodes`.
    """
    frame, places = rows_of_nodes(features, names, "features")
    columns = column_names(frame)
    if columns is None:
        return features
    found: list[Any] = [_numbers(frame[name]) for name in columns]
    values = np.column_stack(found)
    return values if places is None else in_order(values, places)


def in_order(values: Any, places: Int64Array) -> FeatureRows:
    """Rows of the nodes at ``places``."""
    order = np.argsort(places)
    return FeatureRows(values=values[order], nodes=places[order])


def _places_of_rows(nodes: Sequence[Any], names: Any, argument: str) -> Int64Array:
    try:
        places = places_of(nodes, names, len(names))
    except ValueError as error:
        raise BadArgument(
            argument,
            f"must have rows of nodes of the graph, by their index or column {_NODE!r} ({error}); "
            "reset_index(drop=True) where rows are in the order of the nodes",
        ) from error
    seen, counts = np.unique(places, return_counts=True)
    if seen.size < places.size:
        twice = names[int(seen[counts > 1][0])].as_py()
        raise BadArgument(argument, f"must have one row of each node, got several of {twice!r}")
    return places.astype(np.int64)


def _numbers(column: Any) -> AnyArray | None:
    """Entries of a column, nan where one is missing; None where others are no numbers."""
    values: AnyArray = np.asarray(column)
    if values.dtype.kind == "O":
        entries = np.asarray(without_nulls(column), object).ravel().tolist()
        if all(entry is None or isinstance(entry, Real) for entry in entries):
            values = np.array(entries, np.float64)
    return values if values.dtype.kind in "buif" else None
