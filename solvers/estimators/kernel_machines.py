"""Kernel machines behind scikit-learn's interface."""

from typing import Literal

from peewit.solvers.estimators.calibrated_scores import CalibratedScores
from peewit.solvers.estimators.inductive_base import InductiveClassifier, PenalizedClassifier
from peewit.solvers.gram.kernel_functions import KernelName
from peewit.solvers.laplacian.iterated_laplacian import LaplacianName
from peewit.solvers.models.machines import laprlsc, lapsvm, supervised_machines
from peewit.solvers.svm.regularized_problem import BiasName
from peewit.solvers.svm.stopping import MeasureName, StopName


class KernelClassifier(CalibratedScores, InductiveClassifier):
    """Base of the kernel machines."""

    kernel: KernelName = "gaussian"
    width: float | Literal["auto"] = "auto"
    degree: int = 3
    norm_penalty: float | Literal["auto"] = 0.01
    bias: BiasName = "none"
    n_landmarks: int = 2_000
    precision: Literal["auto", "float32", "float64"] = "auto"
    seed: int = 0


class LaplacianClassifier(PenalizedClassifier, KernelClassifier):
    """Base of the kernel machines with a graph penalty."""

    gram: Literal["auto", "dense", "blocked", "landmarks", "sparse"] = "auto"
    n_nearest: int = 50
    norm_penalty: float | Literal["auto"] = "auto"
    graph_penalty: float | Literal["auto"] = "auto"
    laplacian: LaplacianName = "normalized"
    power: int = 2
    stop: StopName = "optimal"
    measure: MeasureName = "gradient"
    rtol: float | Literal["auto"] = "auto"
    max_iter: int = 1_000
    validation_share: float = 0.2


class LapSVM(LaplacianClassifier):
    """Laplacian support vector machine: `models.lapsvm.LapSVM` as an estimator."""

    _model = lapsvm.LapSVM

    method: Literal["auto", "newton", "dual", "pcg"] = "auto"
    loss: Literal["auto", "squared-hinge", "hinge"] = "auto"


class LapRLSC(LaplacianClassifier):
    """Laplacian regularised least squares: `models.laprlsc.LapRLSC` as an estimator."""

    _model = laprlsc.LapRLSC

    method: Literal["auto", "closed-form", "pcg"] = "auto"


class SVM(KernelClassifier):
    """Support vector machine of the labeled samples: model `SVM` as an estimator."""

    _model = supervised_machines.SVM

    gram: Literal["auto", "dense", "blocked", "landmarks"] = "auto"
    method: Literal["auto", "newton", "dual"] = "auto"
    loss: Literal["auto", "squared-hinge", "hinge"] = "auto"


class RLSC(KernelClassifier):
    """Regularised least squares of the labeled samples: model `RLSC` as an estimator."""

    _model = supervised_machines.RLSC

    gram: Literal["auto", "dense", "blocked", "landmarks"] = "auto"
