"""Kernel machines behind scikit-learn's interface: of features, and a graph made or given."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from solvers.arrays import AnyArray, FloatArray
from solvers.estimators.base import FORMATS, N_NEIGHBORS, ModelEstimator, plain
from solvers.estimators.targets import ClassTargets, Marker
from solvers.graph import Graph
from solvers.models import lapsvm, svm
from solvers.models.base import Rule
from solvers.models.kernel_machine import KernelMachine
from solvers.neighbors import neighbor_graph

_MAX_BYTES = Rule(doc="Memory that Gram matrix and method may take.", kind=int, minimum=1)


class KernelClassifier(ClassifierMixin, ModelEstimator):
    """Base of the classifiers; further attributes are those of `ModelEstimator`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Distinct classes, sorted, in the type of ``y``.
    decision_ : (n_samples, n_classes) float64
        Class scores; the largest wins. Of two classes the second column is the decision value,
        the first its negative.
    transduction_ : (n_samples,) array
        Class of every sample.
    n_features_in_ : int
        Columns of the features.
    """

    _model: ClassVar[type[KernelMachine]]
    _left_out: ClassVar[frozenset[str]] = frozenset({"n_dimensions"})

    max_bytes: int
    unlabeled: Marker

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, graph: Any = None) -> Self:
        """Functions that predict any sample, from features of all and labels of some.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix
            Features.
        y : (n_samples,) array-like
            Class of each sample: strings or whole numbers; ``unlabeled`` where it is not known.
        graph : Graph, (n_samples, n_samples) array or scipy sparse matrix, or None
            The graph, or its adjacency matrix: symmetric, entries >= 0, diagonal ignored. None
            for that of the nearest neighbors. Models without a graph penalty ignore it.

        Raises
        ------
        TypeError, ValueError
            An argument breaks a rule above, fewer than two classes have a label, a hyperparameter
            breaks its rule, or what it asks for does not fit ``max_bytes``.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            The solve ended before what was asked for was reached.
        """
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse=FORMATS,
            dtype=(np.float64, np.float32),
            ensure_min_samples=2,
        )
        max_bytes = plain(self.max_bytes)
        _MAX_BYTES.check("max_bytes", max_bytes)
        targets = ClassTargets.of_vector(y, plain(self.unlabeled))
        model = self._model(**self._hyperparameters())
        prepared = model.prepare(self._graph(X, graph), X, kept_bytes=max_bytes)
        solution = model.solve(prepared, targets.labels)
        self._finish(solution)
        self.classes_ = targets.classes
        self._functions: Any = None if solution.functions is None else solution.functions.trimmed()
        self.decision_ = solution.scores
        self.transduction_ = targets.classes[solution.scores.argmax(axis=1)]
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Class scores of new samples.

        Returns
        -------
        (n_samples, n_classes) float64, or (n_samples,) of two classes
            Of two classes the decision value of the second.
        """
        scores = self._new_scores(X)
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> AnyArray:
        """(n_samples,) class of new samples.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix

        Raises
        ------
        ValueError
            ``X`` has another number of features, or an entry that is not finite.
        """
        codes = self._new_scores(X).argmax(axis=1)
        predicted: AnyArray = self.classes_[codes]
        return predicted

    def _new_scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows = validate_data(
            self, X, accept_sparse=FORMATS, dtype=(np.float64, np.float32), reset=False
        )
        scores: FloatArray = self._functions.class_scores(rows)
        return scores

    def _graph(self, X: Any, graph: Any) -> Graph:  # noqa: ARG002 - made where it is used
        """The graph of the samples; without edges where the model uses none."""
        return Graph.from_edges([], [], [], n_nodes=X.shape[0])


class GraphKernelClassifier(KernelClassifier):
    """Base of the classifiers with a graph penalty."""

    n_neighbors: int

    def _graph(self, X: Any, graph: Any) -> Graph:
        """The graph given, or that of nearest neighbors with heat weights (E.4)."""
        if graph is None:
            n_neighbors = plain(self.n_neighbors)
            N_NEIGHBORS.check("n_neighbors", n_neighbors)
            return neighbor_graph(X, n_neighbors, weights="heat", symmetrize="max")
        given = graph if isinstance(graph, Graph) else Graph.from_adjacency(graph)
        if given.n_nodes != X.shape[0]:
            raise ValueError(
                f"graph must have one node per sample, got {given.n_nodes} nodes for "
                f"{X.shape[0]} samples"
            )
        return given


class LapSVM(GraphKernelClassifier):
    """Laplacian support vector machine: `solvers.models.lapsvm.LapSVM` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        exp(-|x - z|^2 / (2 width^2)), ((1 + <x, z> / width^2) / 2)^degree or
        <x, z> / width^2.
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


class LapRLSC(GraphKernelClassifier):
    """Laplacian regularised least squares: `solvers.models.lapsvm.LapRLSC` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        exp(-|x - z|^2 / (2 width^2)), ((1 + <x, z> / width^2) / 2)^degree or
        <x, z> / width^2.
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


class SVM(KernelClassifier):
    """Support vector machine of the labeled samples: `solvers.models.svm.SVM` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        exp(-|x - z|^2 / (2 width^2)), ((1 + <x, z> / width^2) / 2)^degree or
        <x, z> / width^2.
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


class RLSC(KernelClassifier):
    """Regularised least squares of the labeled samples: `solvers.models.svm.RLSC` as an estimator.

    Parameters
    ----------
    kernel : {'gaussian', 'polynomial', 'linear'}
        exp(-|x - z|^2 / (2 width^2)), ((1 + <x, z> / width^2) / 2)^degree or
        <x, z> / width^2.
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
