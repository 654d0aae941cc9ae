"""The total variation family behind scikit-learn's interface: models of a graph, without a kernel.

Their kernel's norm is that of the model's own features, which estimators of graphs do not have.
Without it Cheeger-SVM is Cheeger-RLS, and is left out.
"""

from typing import Literal

from peewit.solvers.estimators.classifier_base import ScoreClassifier
from peewit.solvers.models.variational import (
    cheeger_machines,
    simplex_machines,
    total_variation_machines,
)
from peewit.solvers.models.variational.variational_model import InitialName
from peewit.solvers.variation.splitting import Normalization


class LapRLS(ScoreClassifier):
    """Lap-RLS on the simplex: `models.simplex_machines.LapRLS` as an estimator.

    On a graph alone one linear solve; nothing has to be brought to the simplex.
    """

    _model = simplex_machines.LapRLS

    graph_penalty: float = 0.1
    label_weight: float = 1.0


class SimplexLapSVM(ScoreClassifier):
    """Lap-SVM on the simplex: `models.simplex_machines.SimplexLapSVM` as an estimator."""

    _model = simplex_machines.SimplexLapSVM

    graph_penalty: float = 0.1
    label_weight: float = 1.0
    pull: float = 3.0
    rtol: float = 1e-3
    max_iter: int = 1_000


class TotalVariationClassifier(ScoreClassifier):
    """Base of the estimators of total variation."""

    initial: InitialName = "auto"
    graph_penalty: float | Literal["auto"] = "auto"
    label_weight: float = 10.0
    normalization: Normalization = "sqrt"
    pull: float = 1.0
    rtol: float = 1e-4
    proximal_rtol: float = 1e-2
    max_iter: int = 200


class TVRLS(TotalVariationClassifier):
    """TV-RLS: `models.total_variation_machines.TVRLS` as an estimator."""

    _model = total_variation_machines.TVRLS


class TVSVM(TotalVariationClassifier):
    """TV-SVM: `models.total_variation_machines.TVSVM` as an estimator."""

    _model = total_variation_machines.TVSVM


class CheegerRLS(ScoreClassifier):
    """Cheeger-RLS: `models.cheeger_machines.CheegerRLS` as an estimator."""

    _model = cheeger_machines.CheegerRLS

    initial: InitialName = "auto"
    balance: Literal["degrees", "nodes"] = "degrees"
    max_iter: int = 100
