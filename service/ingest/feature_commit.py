"""Commit of a feature set: its nodes into the index, its rows into a version of their own.

The version is published first, then nodes and snapshot; last the caller's transaction makes it the
present one. A commit that dies in between is repeated: the nodes have their numbers, and the
unnamed version is replaced.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from peewit.service.inbox.feature_log import FeatureSetRecord
from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.blocks import excerpt
from peewit.streaming.features.checked_tables import BadFeatures, as_bad_features
from peewit.streaming.features.feature_files import set_names, set_owners, set_values
from peewit.streaming.features.store import (
    FeaturesMeta,
    FeaturesNotFound,
    FeatureStore,
    NewRows,
    repeated_row,
)
from peewit.streaming.graph_stream import Interrupted, Stream
from peewit.streaming.nodes.index import DenseNodes, Nodes
from peewit.streaming.steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureCommitter:
    """Commits sets into one graph, whose only writer this process is."""

    stream: Stream
    store: FeatureStore
    should_stop: Callable[[], bool]  # asked between blocks
    guard: Callable[[], None]  # called before publishing; raises if it may not write
    steps: Steps  # told of progress
    wall_clock: Callable[[], float]  # seconds since the epoch

    def publish(self, waiting: FeatureSetRecord, *, present: int) -> FeaturesMeta:
        """Publish a set as version ``present + 1``, and a snapshot if it brings nodes.

        ``present`` is the present version, 0 for none. Nothing changes if it raises `BadFeatures`
        (the set breaks a rule) or `Interrupted` (``should_stop`` was true). Raises OSError if the
        disk fails or is full.
        """
        path = Path(waiting.path)
        self.steps.begin("adding features", waiting.path)
        onto = present if waiting.mode == "add" and present else None
        try:
            names, encoding = set_names(path)
            with self.stream.adding_nodes() as index:
                nodes, lengths = self._map_rows(index, waiting)
                return self.store.publish(
                    present + 1,
                    NewRows(
                        nodes=nodes,
                        n_columns=waiting.n_columns,
                        blocks=self._values(path),
                        lengths=lengths,
                        names=names,
                        encoding=encoding,
                    ),
                    onto=onto,
                    created_at=self.wall_clock(),
                    guard=self.guard,
                )
        except FeaturesNotFound as error:
            raise BadFeatures(f"{error}; replace the whole set") from error
        except pa.ArrowInvalid as error:
            raise BadFeatures(f"the file of the set is damaged ({excerpt(error)})") from error
        except FileNotFoundError as error:
            if path.exists():
                raise
            raise BadFeatures("the file of the set is gone") from error

    def _map_rows(
        self, index: Nodes, waiting: FeatureSetRecord
    ) -> tuple[Int64Array, Int64Array | None]:
        """Dense id of each row, and its number of entries where rows are sparse."""
        nodes: Int64Array = np.empty(waiting.n_rows, dtype=np.int64)
        lengths = np.empty_like(nodes) if waiting.is_sparse else None
        first_row = 0
        for ids, entries in set_owners(Path(waiting.path)):
            self._stop_if_asked()
            rows = slice(first_row, first_row + len(ids))
            with as_bad_features():
                nodes[rows] = index.add(ids, first_row=first_row)
            if isinstance(index, DenseNodes):
                is_erased = np.isin(nodes[rows], index.erased)
                if is_erased.any():
                    raise BadFeatures(
                        "column 'node' must hold no number that was erased",
                        argument="node",
                        row=first_row + int(is_erased.argmax()),
                    )
            if lengths is not None and entries is not None:
                lengths[rows] = entries
            first_row = rows.stop
        row = repeated_row(nodes)
        if row is not None:
            node = int(nodes[row])
            raise BadFeatures(
                "features must have one row of each node; leave the second out",
                argument="node",
                row=row,
                value=excerpt(index.external_ids(node, node + 1)[0].as_py()),
            )
        return nodes, lengths

    def _values(self, path: Path) -> Iterator[Any]:
        """The rows of a set, some at a time."""
        for values in set_values(path):
            self._stop_if_asked()
            yield values

    def _stop_if_asked(self) -> None:
        self.steps.move_on()
        if self.should_stop():
            raise Interrupted
