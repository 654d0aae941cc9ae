"""Base of models that take features: their entry in the stats and their memory estimate."""

from typing import ClassVar

from peewit.solvers.models.contract.model import Model

FEATURES = "features"
"""Stats entry ``input`` of a solve with features."""

_ROW_COPIES = 2
"""Default number of copies of the features in memory: one in float64 beside the original."""


class FeatureModel(Model):
    """A model of features that also works on a graph alone."""

    __slots__ = ()

    uses_features: ClassVar[bool] = True

    of_graph: ClassVar[str]
    """Stats entry ``input`` of a solve without features."""

    def working_bytes(self, n_rows: int, n_columns: int, row_bytes: int) -> int:  # noqa: ARG002
        """Approximate memory of a solve on this many rows, unless the model plans a Gram matrix."""
        return _ROW_COPIES * n_rows * row_bytes
