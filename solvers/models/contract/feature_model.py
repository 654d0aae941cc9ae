"""Base of models that take features: what the stats and estimates of a solve ask of them."""

from typing import ClassVar

from peewit.solvers.models.contract.model import Model

GIVEN = "features"
"""What the stats say of a solve that had features."""

_ROW_COPIES = 2
"""What a solve holds of features unless its model knows better: about one copy in float64."""


class FeatureModel(Model):
    """A model of features that works on a graph alone as well."""

    __slots__ = ()

    uses_features: ClassVar[bool] = True

    of_graph: ClassVar[str]
    """What the stats say of a solve that had no features."""

    def working_bytes(self, n_rows: int, n_columns: int, row_bytes: int) -> int:  # noqa: ARG002
        """About what a solve holds of so many rows of features, unless it plans a Gram matrix."""
        return _ROW_COPIES * n_rows * row_bytes
