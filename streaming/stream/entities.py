"""Entities: dense ids of a table of events, for the relations that are read after the first."""

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import Int32Array
from peewit.streaming.edges.blocks import EdgeBlock, RawBlock
from peewit.streaming.edges.parts import StagedFile
from peewit.streaming.nodes.index import NodeIndex

_ROW_BYTES: Final = 4


class Entities:
    """Dense ids of the entities of one file, kept as blocks of its first relation are mapped.

    A file is taken relation after relation. The entity of a row is the same in all of them, so that
    the others need neither its column nor the index. Those of a table that would take more than
    ``most_bytes`` are read and looked up again.
    """

    def __init__(self, staged: StagedFile, nodes: NodeIndex, *, most_bytes: int) -> None:
        self._nodes = nodes
        n_rows = max((part.first_row + part.n_rows for part in staged.parts), default=0)
        is_kept = len(staged.relations) > 1 and n_rows * _ROW_BYTES <= most_bytes
        self._known: Int32Array = np.empty(n_rows if is_kept else 0, np.int32)
        self._n_known = 0

    @property
    def are_known(self) -> bool:
        """Whether those of all rows are."""
        return 0 < self._n_known == self._known.size

    def map_block(self, raw: RawBlock) -> EdgeBlock:
        """Edges of a block, which was read without entities if ``are_known`` was true before."""
        known = self._known[raw.first_row : raw.first_row + raw.n_rows]
        if pa.types.is_null(raw.src.type):
            return self._nodes.map_block(replace(raw, u=known))
        if raw.first_row != self._n_known or known.size != raw.n_rows:
            return self._nodes.map_block(raw)
        block = self._nodes.map_block(raw, known=known)
        self._n_known += raw.n_rows
        return block
