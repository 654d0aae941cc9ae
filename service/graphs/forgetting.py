"""Forgetting nodes: writes an erasure to the ledger, stores it, and hides its nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.leaving.erasure_ledger import LEDGER, Ledger
from peewit.service.inbox.leaving.erasures import ErasureLog, ErasureRecord
from peewit.service.tables.uploads import NodeId, node_array
from peewit.solvers.arrays import Int32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Stores requests to forget nodes."""

    log: ErasureLog
    nodes: KnownNodes
    home: Path  # holds the ledger
    within_seconds: float  # until files are to be overwritten

    def erase(
        self,
        graph: GraphRecord,
        nodes: Iterable[NodeId],
        *,
        owner: str | None = None,
        erasure_id: str | None = None,
    ) -> ErasureRecord:
        """Hide some nodes from now on; ingest erases them.

        Unknown external ids are taken too, since what waits may hold them. ``owner`` is the prefix
        of the key that asks; ``erasure_id`` is of an erasure of the ledger that is applied again.
        Raises `GraphNotFound`, or an OSError where the ledger cannot be written; then nothing is
        hidden.
        """
        named: Sequence[NodeId] = list(dict.fromkeys(nodes))
        ids = node_array(named, graph.settings.node_ids)
        is_known = self.nodes.knows(graph, ids)
        dense = self.nodes.lookup(graph, ids)
        erasure = self.log.add(
            graph.id,
            [str(node) for node in named],
            dense.tolist(),
            n_known=int(np.count_nonzero(is_known)),
            within_seconds=self.within_seconds,
            owner=owner,
            erasure_id=erasure_id,
            ledger=Ledger(self.home / LEDGER) if erasure_id is None else None,
        )
        self._hide_new(graph, erasure, ids, dense)
        return erasure

    def _hide_new(
        self, graph: GraphRecord, erasure: ErasureRecord, ids: pa.Array, before: Int32Array
    ) -> None:
        """Hide what files brought between the look at the index and the erasure.

        Ingest does this for later files, as the erasure is stored by then.
        """
        present = replace(graph, erasures_seq=self.log.changes(graph.id))
        dense = self.nodes.committed(present, ids)
        rows = np.flatnonzero((dense >= 0) & (dense != before))
        if rows.size:
            keys = [(erasure.id, row) for row in rows.tolist()]
            self.log.note_dense(graph.id, dict(zip(keys, dense[rows].tolist(), strict=True)))
