"""Forgetting nodes: an erasure is noted in the ledger and stored, and its nodes are hidden."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.erasure_ledger import LEDGER, Ledger
from peewit.service.inbox.erasures import ErasureLog, ErasureRecord
from peewit.service.tables.uploads import NodeId, node_array
from peewit.solvers.arrays import Int32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Takes the wish of somebody to be forgotten.

    Attributes
    ----------
    log : ErasureLog
        Receives it.
    nodes : KnownNodes
        Tells which nodes there are.
    home : Path
        Holds the ledger.
    within_seconds : float
        Time until files are to be overwritten.
    """

    log: ErasureLog
    nodes: KnownNodes
    home: Path
    within_seconds: float

    def erase(
        self,
        graph: GraphRecord,
        nodes: Iterable[NodeId],
        *,
        owner: str | None = None,
        erasure_id: str | None = None,
    ) -> ErasureRecord:
        """Hide some nodes from now on; whoever ingests the graph erases them.

        Parameters
        ----------
        graph : GraphRecord
            Which graph.
        nodes : iterable of str or int
            External ids of its kind; those that it does not know are taken, too: what waits may
            hold them.
        owner : str, optional
            Prefix of the key that asks.
        erasure_id : str, optional
            Of one that the ledger has and that is applied again.

        Raises
        ------
        GraphNotFound
            The graph was deleted.
        OSError
            The ledger cannot be written; nothing is hidden then.
        """
        named: Sequence[NodeId] = list(dict.fromkeys(nodes))
        ids = node_array(named, graph.settings.node_ids)
        is_known = self.nodes.knows(graph, ids)
        dense = self.nodes.lookup(graph, ids)
        made = self.log.add(
            graph.id,
            [str(node) for node in named],
            dense.tolist(),
            n_known=int(np.count_nonzero(is_known)),
            within_seconds=self.within_seconds,
            owner=owner,
            erasure_id=erasure_id,
            ledger=Ledger(self.home / LEDGER) if erasure_id is None else None,
        )
        self._hide_new(graph, made, ids, dense)
        return made

    def _hide_new(
        self, graph: GraphRecord, made: ErasureRecord, ids: pa.Array, before: Int32Array
    ) -> None:
        """Hide what files brought between the look at the index and the erasure.

        Of later files whoever ingests them does it, as the erasure is stored by then.
        """
        present = replace(graph, erasures_seq=self.log.changes(graph.id))
        found = self.nodes.committed(present, ids)
        news = np.flatnonzero((found >= 0) & (found != before))
        if news.size:
            self.log.note_dense(
                graph.id, made.id, dict(zip(news.tolist(), found[news].tolist(), strict=True))
            )
