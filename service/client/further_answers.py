"""Answers of the client beside the records of `peewit.service.wire`: errors, events and tables.

Records hold no connection: both clients give the same, and they can be kept, compared and pickled.
Fields that a newer server adds are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from peewit.service.validation_rules import rule_of, with_argument
from peewit.solvers.interchange import EdgeTable, NodeTable

T = TypeVar("T")

_ADAPTERS: Final[dict[Any, Any]] = {}
"""Made when the first answer of a kind comes; all of them would cost the import a second."""


def record_of(kind: type[T], content: bytes) -> T:
    """A record from JSON; raises ValueError that says what is wrong and where."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 (a third of the import)

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        record: T = _ADAPTERS[kind].validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(with_argument(place, rule_of(first))) from error
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What is wrong with a call (RFC 9457); see `peewit.service.client.errors.PeewitError`."""

    title: str
    detail: str
    type: str = "about:blank"
    status: int | None = None
    argument: str | None = None
    rule: str | None = None
    row: int | None = None
    value: str | None = None
    refused: tuple[str, ...] | None = None
    n_refused: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One line of a job's history; ``seq`` counts from 1, ``kind`` says what happened."""

    seq: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions(NodeTable):
    """A table of predictions, and where it comes from.

    Attributes
    ----------
    table : pyarrow.Table
        Columns ``node`` (not of new points), ``label``, ``score``, ``margin`` and others.
    job, model, snapshot, labels_seq, features_version, solver_status
        What it was made from.
    etag : str or None
        For `if_changed_since` of the next call; new points have none.
    """

    table: pa.Table
    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    etag: str | None

    def to_arrow(self) -> pa.Table:
        """The table itself."""
        return self.table

    def _facts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "snapshot": self.snapshot,
            "labels_seq": self.labels_seq,
            "solver": self.solver_status,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Sparsifier(EdgeTable):
    """The edges of a snapshot in memory, for other libraries.

    Attributes
    ----------
    table : pyarrow.Table
        Each edge once: ``src``, ``dst``, ``weight``.
    graph : str
        Name of the graph.
    snapshot : int
        Number of the snapshot.
    """

    table: pa.Table
    graph: str
    snapshot: int

    def to_arrow(self) -> pa.Table:
        """The table itself."""
        return self.table

    @property
    def external_ids(self) -> pa.Array:
        """Name of each node, in the order in which edges name them; all have an edge."""
        return self._numbered.dictionary

    @cached_property
    def _numbered(self) -> Any:
        """Nodes of all ``src`` and then of all ``dst``, as a pyarrow.DictionaryArray."""
        ends = self.table["src"].chunks + self.table["dst"].chunks
        return pa.chunked_array(ends, self.table["src"].type).combine_chunks().dictionary_encode()

    @cached_property
    def adjacency(self) -> Any:
        """(n_nodes, n_nodes) symmetric scipy.sparse.csr_array of the weights."""
        u, v = np.split(self._numbered.indices.to_numpy(), 2)
        weight, n_nodes = self.table["weight"].to_numpy(), len(self.external_ids)
        ends = np.concatenate([u, v]), np.concatenate([v, u])
        matrix = import_module("scipy.sparse").coo_array(
            (np.concatenate([weight, weight]), ends), shape=(n_nodes, n_nodes)
        )
        rows = matrix.tocsr()
        rows.sort_indices()
        return rows

    def _matrix(self) -> Any:
        return self.adjacency

    def _n_neighbors(self) -> Any:
        return np.bincount(self._numbered.indices.to_numpy())

    def _node_names(self) -> pa.Array:
        return self.external_ids

    def _facts(self) -> dict[str, Any]:
        return {"graph": self.graph, "snapshot": self.snapshot, "edges": self.table.num_rows}
