"""Feature sets that people send: checked on arrival, durable before they are acknowledged.

A set becomes one Arrow file below the graph and a row that names it; ingest brings it into the
graph (`peewit.service.ingest.feature_commit`). What breaks the data contract is refused here with
its row and leaves nothing behind. What only ingest can see (a node twice, too many nodes, rows that
do not fit those they are added to) refuses the set later; its record says why.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from sqlalchemy.exc import DBAPIError

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.feature_log import FeatureLog, FeatureSetRecord, NewFeatureSet, SetMode
from peewit.service.inbox.inbox_records import BacklogFull
from peewit.streaming.durable_files import make_durable_directory
from peewit.streaming.features.checked_tables import FeatureBlock
from peewit.streaming.features.encoding import Encoding
from peewit.streaming.features.feature_files import SetShape, write_set
from peewit.streaming.features.store import (
    FeaturesMeta,
    FeaturesNotFound,
    FeatureStore,
    order_to_join,
)
from peewit.streaming.graph_paths import GraphPaths

Doubts = Callable[[GraphRecord, Path, SetShape], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesStatus:
    """The features of a graph at one moment."""

    features_version: int  # 0 before the first set
    present: FeaturesMeta | None  # None before the first set, and where its files are gone
    n_missing: int  # nodes of the graph without a row
    n_pending: int  # sets that wait for ingest
    refused: FeatureSetRecord | None  # the set that ended last, if it was refused


class FeatureSets:
    """Store of incoming sets and of their state; any number of threads may use it.

    At most ``max_backlog_bytes`` of one graph may wait. ``doubts`` says what to know of the file of
    a set besides what its rows say by themselves.
    """

    def __init__(
        self,
        log: FeatureLog,
        graphs_directory: Path,
        *,
        max_backlog_bytes: int,
        doubts: Doubts | None = None,
    ) -> None:
        self._doubts = doubts
        self._log = log
        self._graphs_directory = graphs_directory
        self._max_backlog_bytes = max_backlog_bytes

    def require_room(self, graph_id: str) -> None:
        """Raise `BacklogFull` while the backlog is full; to be called before a body is read."""
        waiting = self._log.waiting_bytes(graph_id)
        if waiting >= self._max_backlog_bytes:
            raise BacklogFull(
                "features of one graph that wait must have less than "
                f"{self._max_backlog_bytes} bytes, got {waiting}; ingest must catch up first"
            )

    def add(
        self,
        graph: GraphRecord,
        blocks: Iterable[FeatureBlock],
        *,
        mode: SetMode,
        owner: str | None = None,
    ) -> FeatureSetRecord:
        """A set with all its rows, durable when this returns; ``owner`` is a prefix of a key.

        Raises BadFeatures or BadUpload where a row breaks the data contract or there is none,
        `BacklogFull` where others were faster to fill the room that `require_room` saw,
        `GraphNotFound`, and an OSError of the disk.
        """
        directory = GraphPaths(root=self._graphs_directory / graph.id).feature_sets
        make_durable_directory(directory)
        path = directory / f"{uuid4().hex}.arrow"
        shape = write_set(path, blocks, own_labels=[graph.settings.columns.get("label", "label")])
        try:
            if mode == "add" and not self._log.waiting_bytes(graph.id):
                before = self._present(graph)
                order_to_join(
                    before,
                    n_columns=shape.n_columns,
                    is_sparse=shape.is_sparse,
                    names=shape.names,
                    encoding=shape.encoding,
                )
            new = NewFeatureSet(
                mode=mode,
                path=str(path),
                n_rows=shape.n_rows,
                n_columns=shape.n_columns,
                is_sparse=shape.is_sparse,
                note=self.note(graph, path, shape),
                n_bytes=path.stat().st_size,
                owner=owner,
            )
            return self._log.add(graph.id, new, max_waiting_bytes=self._max_backlog_bytes)
        except DBAPIError:
            raise  # it may be stored and the answer be lost; `sweep` removes what no row names
        except Exception:
            path.unlink()
            raise

    def note(self, graph: GraphRecord, path: Path, shape: SetShape) -> str | None:
        """What to know of a set in a file of `write_set`."""
        doubts = None if self._doubts is None else self._doubts(graph, path, shape)
        return "; ".join(filter(None, (shape.note, doubts))) or None

    def status(self, graph: GraphRecord) -> FeaturesStatus:
        """Features of the graph; none where their files were removed by hand."""
        present = self._present(graph)
        last = self._log.last_ended(graph.id)
        return FeaturesStatus(
            features_version=graph.features_version,
            present=present,
            n_missing=graph.progress.n_nodes - (present.n_rows if present else 0),
            n_pending=len(self._log.waiting(graph.id)),
            refused=last if last is not None and last.status == "refused" else None,
        )

    def encoding(self, graph: GraphRecord, version: int | None = None) -> Encoding | None:
        """How the features of a version, or those there, were made from columns of any kind."""
        try:
            meta = self._present(graph) if version is None else self._store(graph).meta(version)
        except FeaturesNotFound:
            return None
        stored = None if meta is None else meta.encoding
        return None if stored is None else Encoding.from_json(stored)

    def names(self, graph: GraphRecord, version: int | None) -> tuple[str, ...] | None:
        """Names of the columns of a version; None where it is not kept, or has none."""
        try:
            return None if version is None else self._store(graph).meta(version).names
        except FeaturesNotFound:
            return None

    def _present(self, graph: GraphRecord) -> FeaturesMeta | None:
        if not graph.features_version:
            return None
        try:
            return self._store(graph).meta(graph.features_version)
        except FeaturesNotFound:
            return None

    def _store(self, graph: GraphRecord) -> FeatureStore:
        return FeatureStore(GraphPaths(root=self._graphs_directory / graph.id).features)
