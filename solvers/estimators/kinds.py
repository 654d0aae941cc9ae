"""Kinds of nodes, where all are named KIND:ID, as `sparsify` names them by `src="KIND:COLUMN"`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, Int64Array
from peewit.solvers.late_modules import LateModule
from peewit.solvers.relations.kind_names import NODE_OF_KIND

pa = LateModule("pyarrow")
pc = LateModule("pyarrow.compute")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """The kind of each node and its id there; build it with `of`."""

    kinds: Any  # pyarrow.DictionaryArray
    ids: Any  # pyarrow.Array

    @classmethod
    def of(cls, names: Any) -> "Kinds | None":
        """Kinds of nodes with these names, a pyarrow.Array; None where one is not KIND:ID."""
        if names is None or not (
            pa.types.is_string(names.type) or pa.types.is_large_string(names.type)
        ):
            return None
        for some in (names[:1], names):
            parts = pc.extract_regex(some, NODE_OF_KIND)
            if not len(parts) or parts.null_count:
                return None
        return cls(kinds=parts.field("kind").dictionary_encode(), ids=parts.field("id"))

    def among(self, nodes: Int64Array) -> list[str]:
        """The kinds of some nodes."""
        kinds: list[str] = pc.unique(self.kinds.take(pa.array(nodes))).to_pylist()
        return kinds

    def are(self, wanted: Sequence[str]) -> BoolArray:
        """Whether each node is of one of the kinds; raises `BadArgument` for one that is none."""
        known = self.kinds.dictionary.to_pylist()
        for kind in wanted:
            if kind not in known:
                rule = f"must be kinds of nodes, {', '.join(sorted(known))}"
                raise BadArgument("kinds", f"{rule}, got {kind!r}")
        codes = [known.index(kind) for kind in wanted]
        return np.isin(self.kinds.indices.to_numpy(), codes)
