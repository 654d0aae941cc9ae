"""Kernel machines behind scikit-learn's interface."""

from typing import Literal

from peewit.solvers.estimators.inductive import GraphClassifier, InductiveClassifier
from peewit.solvers.estimators.targets import Marker
from peewit.solvers.models import lapsvm, svm


class LapSVM(GraphClassifier):
    """Laplacian support vector machine: `models.lapsvm.LapSVM` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        ``exp(-|x - z|^2 / (2 width^2))``, ``((1 + <x, z> / width^2) / 2)^degree`` or
        ``<x, z> / width^2``.
    width : float or 'auto'
        Unit of length of the features; 'auto' is 0.7 of the mean distance of two samples
        for the Gaussian, else the root of the mean squared length.
    degree : int
        Degree of the polynomial.
    norm_penalty : float
        Weight of the squared norm of the functions.
    graph_penalty : float
        Weight of f' L^power f of the scores f.
    laplacian : {'normalized', 'combinatorial'}
        Laplacian of the penalty.
    power : int
        Times the Laplacian is applied in the penalty.
    bias : {'none', 'free', 'penalized'}
        Intercept: none, one that costs nothing, or one inside the graph penalty.
    method : {'auto', 'newton', 'dual', 'pcg'}
        How it is solved; 'auto' is newton up to 5,000 samples, on landmarks and on linear
        kernels, above conjugate gradients.
    loss : {'auto', 'squared-hinge', 'hinge'}
        Loss at the labels; 'auto' is the hinge for the dual, else its square.
    stop : {'optimal', 'stability', 'validation', 'mixed'}
        When pcg ends: at the optimum, once few unlabeled samples change class, once no more of
        the labels held out are right, or once both hold.
    measure : {'gradient', 'preconditioned-gradient', 'mixed-product', 'objective'}
        What pcg brings down to ``rtol`` of its first value.
    rtol : float or 'auto'
        How small the measure has to be; 'auto' is 1e-8, of the objective 1e-6.
    max_iter : int
        Most iterations of pcg.
    validation_share : float
        Share of the labels held out with stop 'validation' or 'mixed'.
    gram : {'auto', 'dense', 'blocked', 'landmarks'}
        How the Gram matrix is held; 'auto' is the best that fits ``max_bytes``.
    n_landmarks : int
        Samples that the kernel is approximated on.
    precision : {'auto', 'float32', 'float64'}
        Of the Gram matrix; 'auto' is float64 where that fits.
    seed : int
        Draws the landmarks and the labels held out.
    n_neighbors : int
        Neighbors of each sample in the graph that is made when `fit` is given none.
    max_bytes : int
        Memory that Gram matrix and method may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = lapsvm.LapSVM

    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "polynomial", "linear"] = "gaussian",
        width: float | Literal["auto"] = "auto",
        degree: int = 3,
        norm_penalty: float = 0.01,
        graph_penalty: float = 1.0,
        laplacian: Literal["normalized", "combinatorial"] = "normalized",
        power: int = 2,
        bias: Literal["none", "free", "penalized"] = "none",
        method: Literal["auto", "newton", "dual", "pcg"] = "auto",
        loss: Literal["auto", "squared-hinge", "hinge"] = "auto",
        stop: Literal["optimal", "stability", "validation", "mixed"] = "optimal",
        measure: Literal[
            "gradient", "preconditioned-gradient", "mixed-product", "objective"
        ] = "gradient",
        rtol: float | Literal["auto"] = "auto",
        max_iter: int = 1_000,
        validation_share: float = 0.2,
        gram: Literal["auto", "dense", "blocked", "landmarks"] = "auto",
        n_landmarks: int = 2_000,
        precision: Literal["auto", "float32", "float64"] = "auto",
        seed: int = 0,
        n_neighbors: int = 10,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.degree = degree
        self.norm_penalty = norm_penalty
        self.graph_penalty = graph_penalty
        self.laplacian = laplacian
        self.power = power
        self.bias = bias
        self.method = method
        self.loss = loss
        self.stop = stop
        self.measure = measure
        self.rtol = rtol
        self.max_iter = max_iter
        self.validation_share = validation_share
        self.gram = gram
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.seed = seed
        self.n_neighbors = n_neighbors
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled


class LapRLSC(GraphClassifier):
    """Laplacian regularised least squares: `models.lapsvm.LapRLSC` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        ``exp(-|x - z|^2 / (2 width^2))``, ``((1 + <x, z> / width^2) / 2)^degree`` or
        ``<x, z> / width^2``.
    width : float or 'auto'
        Unit of length of the features; 'auto' is 0.7 of the mean distance of two samples
        for the Gaussian, else the root of the mean squared length.
    degree : int
        Degree of the polynomial.
    norm_penalty : float
        Weight of the squared norm of the functions.
    graph_penalty : float
        Weight of f' L^power f of the scores f.
    laplacian : {'normalized', 'combinatorial'}
        Laplacian of the penalty.
    power : int
        Times the Laplacian is applied in the penalty.
    bias : {'none', 'free', 'penalized'}
        Intercept: none, one that costs nothing, or one inside the graph penalty.
    method : {'auto', 'closed-form', 'pcg'}
        How it is solved; 'auto' is the closed form up to 5,000 samples, on landmarks and on
        linear kernels, above conjugate gradients.
    stop : {'optimal', 'stability', 'validation', 'mixed'}
        When pcg ends: at the optimum, once few unlabeled samples change class, once no more of
        the labels held out are right, or once both hold.
    measure : {'gradient', 'preconditioned-gradient', 'mixed-product', 'objective'}
        What pcg brings down to ``rtol`` of its first value.
    rtol : float or 'auto'
        How small the measure has to be; 'auto' is 1e-8, of the objective 1e-6.
    max_iter : int
        Most iterations of pcg.
    validation_share : float
        Share of the labels held out with stop 'validation' or 'mixed'.
    gram : {'auto', 'dense', 'blocked', 'landmarks'}
        How the Gram matrix is held; 'auto' is the best that fits ``max_bytes``.
    n_landmarks : int
        Samples that the kernel is approximated on.
    precision : {'auto', 'float32', 'float64'}
        Of the Gram matrix; 'auto' is float64 where that fits.
    seed : int
        Draws the landmarks and the labels held out.
    n_neighbors : int
        Neighbors of each sample in the graph that is made when `fit` is given none.
    max_bytes : int
        Memory that Gram matrix and method may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = lapsvm.LapRLSC

    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "polynomial", "linear"] = "gaussian",
        width: float | Literal["auto"] = "auto",
        degree: int = 3,
        norm_penalty: float = 0.01,
        graph_penalty: float = 1.0,
        laplacian: Literal["normalized", "combinatorial"] = "normalized",
        power: int = 2,
        bias: Literal["none", "free", "penalized"] = "none",
        method: Literal["auto", "closed-form", "pcg"] = "auto",
        stop: Literal["optimal", "stability", "validation", "mixed"] = "optimal",
        measure: Literal[
            "gradient", "preconditioned-gradient", "mixed-product", "objective"
        ] = "gradient",
        rtol: float | Literal["auto"] = "auto",
        max_iter: int = 1_000,
        validation_share: float = 0.2,
        gram: Literal["auto", "dense", "blocked", "landmarks"] = "auto",
        n_landmarks: int = 2_000,
        precision: Literal["auto", "float32", "float64"] = "auto",
        seed: int = 0,
        n_neighbors: int = 10,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.degree = degree
        self.norm_penalty = norm_penalty
        self.graph_penalty = graph_penalty
        self.laplacian = laplacian
        self.power = power
        self.bias = bias
        self.method = method
        self.stop = stop
        self.measure = measure
        self.rtol = rtol
        self.max_iter = max_iter
        self.validation_share = validation_share
        self.gram = gram
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.seed = seed
        self.n_neighbors = n_neighbors
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled


class SVM(InductiveClassifier):
    """Support vector machine of the labeled samples: `models.svm.SVM` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        ``exp(-|x - z|^2 / (2 width^2))``, ``((1 + <x, z> / width^2) / 2)^degree`` or
        ``<x, z> / width^2``.
    width : float or 'auto'
        Unit of length of the features; 'auto' is 0.7 of the mean distance of two samples
        for the Gaussian, else the root of the mean squared length.
    degree : int
        Degree of the polynomial.
    norm_penalty : float
        Weight of the squared norm of the functions.
    bias : {'none', 'free', 'penalized'}
        Intercept: none or one; without a graph the last two are the same.
    method : {'auto', 'newton', 'dual'}
        In the primal, or by a quadratic program; 'auto' is the primal unless the loss is the
        hinge.
    loss : {'auto', 'squared-hinge', 'hinge'}
        Loss at the labels; 'auto' is the hinge for the dual, else its square.
    gram : {'auto', 'dense', 'blocked', 'landmarks'}
        How the Gram matrix is held; 'auto' is the best that fits ``max_bytes``.
    n_landmarks : int
        Samples that the kernel is approximated on.
    precision : {'auto', 'float32', 'float64'}
        Of the Gram matrix; 'auto' is float64 where that fits.
    seed : int
        Draws the landmarks.
    max_bytes : int
        Memory that Gram matrix and method may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = svm.SVM

    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "polynomial", "linear"] = "gaussian",
        width: float | Literal["auto"] = "auto",
        degree: int = 3,
        norm_penalty: float = 0.01,
        bias: Literal["none", "free", "penalized"] = "none",
        method: Literal["auto", "newton", "dual"] = "auto",
        loss: Literal["auto", "squared-hinge", "hinge"] = "auto",
        gram: Literal["auto", "dense", "blocked", "landmarks"] = "auto",
        n_landmarks: int = 2_000,
        precision: Literal["auto", "float32", "float64"] = "auto",
        seed: int = 0,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.degree = degree
        self.norm_penalty = norm_penalty
        self.bias = bias
        self.method = method
        self.loss = loss
        self.gram = gram
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.seed = seed
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled


class RLSC(InductiveClassifier):
    """Regularised least squares of the labeled samples: `models.svm.RLSC` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        ``exp(-|x - z|^2 / (2 width^2))``, ``((1 + <x, z> / width^2) / 2)^degree`` or
        ``<x, z> / width^2``.
    width : float or 'auto'
        Unit of length of the features; 'auto' is 0.7 of the mean distance of two samples
        for the Gaussian, else the root of the mean squared length.
    degree : int
        Degree of the polynomial.
    norm_penalty : float
        Weight of the squared norm of the functions.
    bias : {'none', 'free', 'penalized'}
        Intercept: none or one; without a graph the last two are the same.
    gram : {'auto', 'dense', 'blocked', 'landmarks'}
        How the Gram matrix is held; 'auto' is the best that fits ``max_bytes``.
    n_landmarks : int
        Samples that the kernel is approximated on.
    precision : {'auto', 'float32', 'float64'}
        Of the Gram matrix; 'auto' is float64 where that fits.
    seed : int
        Draws the landmarks.
    max_bytes : int
        Memory that Gram matrix and method may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = svm.RLSC

    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "polynomial", "linear"] = "gaussian",
        width: float | Literal["auto"] = "auto",
        degree: int = 3,
        norm_penalty: float = 0.01,
        bias: Literal["none", "free", "penalized"] = "none",
        gram: Literal["auto", "dense", "blocked", "landmarks"] = "auto",
        n_landmarks: int = 2_000,
        precision: Literal["auto", "float32", "float64"] = "auto",
        seed: int = 0,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.degree = degree
        self.norm_penalty = norm_penalty
        self.bias = bias
        self.gram = gram
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.seed = seed
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled
