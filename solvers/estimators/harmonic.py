"""Harmonic functions, and walks that begin with one, behind scikit-learn's interface."""

from typing import Literal

from peewit.solvers.estimators.base import GraphEstimator
from peewit.solvers.estimators.classifier_base import ProbabilityClassifier, ScoreClassifier
from peewit.solvers.estimators.regressor_base import GraphRegressor
from peewit.solvers.models.harmonic import harmonic, harmonic_mbo


class Harmonic(GraphEstimator):
    """Base of the estimators of harmonic functions."""

    graph_penalty: float | Literal["auto"] = "auto"
    rtol: float = 1e-6
    max_iter: int = 10_000


class HFS(Harmonic, ProbabilityClassifier):
    """Harmonic functions, hard or soft: `models.harmonic.HFS` as an estimator."""

    _model = harmonic.HFS

    class_mass: harmonic.ClassMass = "auto"


class StableHFS(Harmonic, ScoreClassifier):
    """Stable-HFS: `models.harmonic.StableHFS` as an estimator."""

    _model = harmonic.StableHFS


class HFSRegressor(Harmonic, GraphRegressor):
    """`models.harmonic.HFS` as an estimator of numbers."""

    _model = harmonic.HFS


class StableHFSRegressor(Harmonic, GraphRegressor):
    """`models.harmonic.StableHFS` as an estimator of numbers."""

    _model = harmonic.StableHFS


class HarmonicMBO(ScoreClassifier):
    """Harmonic MBO: `models.harmonic_mbo.HarmonicMBO` as an estimator."""

    _model = harmonic_mbo.HarmonicMBO

    n_rounds: int = 9
    walk_length: int = 10
    min_kept: float = 0.8
    rtol: float = 1e-5
    max_iter: int = 10_000
