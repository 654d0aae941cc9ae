"""Features of the nodes, and the sets that they came in."""

from typing import Literal

from peewit.service.inbox.feature_log import FeatureSetRecord
from peewit.service.inbox.feature_sets import FeaturesStatus
from peewit.service.operations.answers import answer_of
from peewit.service.wire.features import Features, FeatureSet


def feature_set_of(record: FeatureSetRecord) -> FeatureSet:
    """The answer for a set."""
    return answer_of(FeatureSet, record, kind=_kind(record.is_sparse))


def features_of(status: FeaturesStatus) -> Features:
    """The answer for the features of a graph."""
    present = status.present
    return Features(
        features_version=status.features_version,
        kind=None if present is None else _kind(present.is_sparse),
        n_rows=0 if present is None else present.n_rows,
        n_columns=None if present is None else present.n_columns,
        n_missing=status.n_missing,
        n_pending=status.n_pending,
        refused=None if status.refused is None else feature_set_of(status.refused),
    )


def _kind(is_sparse: bool) -> Literal["dense", "sparse"]:
    return "sparse" if is_sparse else "dense"
