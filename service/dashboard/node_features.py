"""What a table of features says of a node, for people who label: chosen columns of its row.

Context: moderators judge an account by its row, and a file for each account is too much to ask.
Decision: no second copy of the table; what ingest keeps as features is read back, column by column.
Consequence: an erasure forgets it with the features; numbers have four digits and times their day,
and texts, names of rows and words of a column that has very many are not there to be shown.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

import numpy as np
import scipy.sparse as sp

from peewit.service.catalog import GraphRecord
from peewit.solvers.arrays import FloatArray
from peewit.solvers.features import FeatureRows
from peewit.streaming.features.encoding import EncodedColumn, Encoding
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore
from peewit.streaming.graph_paths import GraphPaths

SHOWN: Final = 12
"""Columns shown where nobody has chosen any."""

MOST_LISTED: Final = 80
"""Columns to choose among, the first ones; a form has no more fields."""

_UNREADABLE: Final = ("hashed", "text")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a node's row; ``key`` stands for its name in forms and cookies."""

    name: str
    value: str
    is_shown: bool

    @property
    def key(self) -> str:
        """The same for every node and graph."""
        return key_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFeatures:
    """The row of a node, as far as people can read it."""

    columns: Sequence[Column]
    unreadable: Sequence[str]  # columns whose values no feature gives back
    is_exact: bool  # whether numbers are as they came


def key_of(name: str) -> str:
    """Eight hexadecimal digits of a column's name."""
    return blake2b(name.encode(), digest_size=4).hexdigest()


def node_features(
    paths: GraphPaths, graph: GraphRecord, node: int, chosen: Collection[str] | None
) -> NodeFeatures | None:
    """The row of a dense id; None where it has none, or its columns have no names.

    ``chosen`` are keys of the columns to show; None for the first `SHOWN`.
    """
    store = FeatureStore(paths.features)
    try:
        meta = store.meta(graph.features_version)
        row = _row_of(store.load(meta.version, graph.progress.n_nodes), node)
    except FeaturesNotFound:  # it never had any, or they are replaced just now
        return None
    if row is None:
        return None
    if meta.encoding is not None:
        encoding = Encoding.from_json(meta.encoding)
        values = _decoded(encoding, row)
        unreadable = [each.name for each in encoding.columns if each.kind in _UNREADABLE]
        unreadable += encoding.left_out
    elif meta.names is not None:
        values = [(name, f"{value:g}") for name, value in zip(meta.names, row, strict=True)]
        unreadable = []
    else:
        return None
    columns = [
        Column(name, value, place < SHOWN if chosen is None else key_of(name) in chosen)
        for place, (name, value) in enumerate(values[:MOST_LISTED])
    ]
    return NodeFeatures(columns=columns, unreadable=unreadable, is_exact=meta.encoding is None)


def _row_of(rows: FeatureRows, node: int) -> FloatArray | None:
    place = node
    if rows.nodes is not None:
        place = int(np.searchsorted(rows.nodes, node))
        if place == rows.nodes.size or rows.nodes[place] != node:
            return None
    elif node >= rows.n_rows:
        return None
    taken = rows.take(np.array([place]))
    dense = taken.toarray() if sp.issparse(taken) else taken
    return np.asarray(dense[0], np.float64)


def _decoded(encoding: Encoding, row: FloatArray) -> list[tuple[str, str]]:
    """Names and values of the columns that can be read, in the order of the table."""
    values, start = [], 0
    for column in encoding.columns:
        stop = start + len(column.features)
        if column.kind not in _UNREADABLE:
            values.append((column.name, _value_text(column, row[start:stop])))
        start = stop
    return values


def _value_text(column: EncodedColumn, own: FloatArray) -> str:
    if column.kind == "category":
        words = [word for word, is_it in zip(column.words, own, strict=False) if is_it and word]
        is_missing = column.may_be_missing and own[-1]
        return words[0] if words else "missing" if is_missing else "a word of few rows"
    (value, *_) = column.decoded(own)
    if value is None:
        return "missing"
    if column.kind == "flag":
        return "yes" if value else "no"
    if column.kind == "time":
        moment = datetime.fromtimestamp(0, UTC) + timedelta(days=value)
        return f"{moment:%Y-%m-%d}"
    return f"{value:,.12g}"
