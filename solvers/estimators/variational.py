"""The total variation family behind scikit-learn's interface: models of a graph, without a kernel.

Their kernel's norm is that of the model's own features, which estimators of graphs do not have.
Without it Cheeger-SVM is Cheeger-RLS, and is left out.
"""

from typing import ClassVar, Final, Literal

from peewit.solvers.estimators.classifiers import ScoreClassifier
from peewit.solvers.estimators.targets import Marker
from peewit.solvers.models import cheeger, simplex_machines, total_variation

_OF_KERNEL: Final = frozenset(
    {
        "degree",
        "gram",
        "kernel",
        "n_dimensions",
        "n_landmarks",
        "norm_penalty",
        "precision",
        "seed",
        "width",
    }
)


class LapRLS(ScoreClassifier):
    """Lap-RLS on the simplex: `models.simplex_machines.LapRLS` as an estimator.

    On a graph alone one linear solve; nothing has to be brought to the simplex.

    Parameters
    ----------
    graph_penalty : float
        Weight of f' L f of the functions f, in units of the mean degree.
    label_weight : float
        Weight of the loss at each label.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = simplex_machines.LapRLS
    _left_out: ClassVar[frozenset[str]] = _OF_KERNEL | {"pull", "rtol", "max_iter"}

    def __init__(
        self,
        *,
        graph_penalty: float = 0.1,
        label_weight: float = 1.0,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.graph_penalty = graph_penalty
        self.label_weight = label_weight
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class SimplexLapSVM(ScoreClassifier):
    """Lap-SVM on the simplex: `models.simplex_machines.SimplexLapSVM` as an estimator.

    Parameters
    ----------
    graph_penalty : float
        Weight of f' L f of the functions f, in units of the mean degree.
    label_weight : float
        Weight of the loss at each label.
    pull : float
        Weight of the terms that tie the splitting together.
    rtol : float
        Largest difference left of functions and simplex, and of a step from the last, times pull.
    max_iter : int
        Most steps to the simplex.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = simplex_machines.SimplexLapSVM
    _left_out: ClassVar[frozenset[str]] = _OF_KERNEL

    def __init__(
        self,
        *,
        graph_penalty: float = 0.1,
        label_weight: float = 1.0,
        pull: float = 3.0,
        rtol: float = 1e-3,
        max_iter: int = 1_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.graph_penalty = graph_penalty
        self.label_weight = label_weight
        self.pull = pull
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class TVRLS(ScoreClassifier):
    """TV-RLS: `models.total_variation.TVRLS` as an estimator.

    Parameters
    ----------
    initial : {'auto', 'cut', 'harmonic', 'poisson'}
        Where it starts: from clusters that the labels name, from the harmonic function of the
        labels, or from Poisson learning. 'auto' is 'cut' below five labels per class, else
        'harmonic'.
    graph_penalty : float or 'auto'
        Weight of the total variation, in units of the mean degree; 'auto' is 2 for two classes,
        0.4 for more.
    label_weight : float
        Weight of the loss at each label.
    normalization : {'none', 'sqrt', 'as-printed'}
        Whether functions are rescaled in every step: not, to root mean square 1, or to norm n.
    pull : float
        Weight of the terms that tie the splitting together.
    rtol : float
        Share of the samples that may still change class in the last five steps; without
        normalization the largest difference of the copies that are to be equal.
    proximal_rtol : float
        Relative duality gap of the proximal steps of total variation.
    max_iter : int
        Most steps.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = total_variation.TVRLS
    _left_out: ClassVar[frozenset[str]] = _OF_KERNEL

    def __init__(
        self,
        *,
        initial: Literal["auto", "cut", "harmonic", "poisson"] = "auto",
        graph_penalty: float | Literal["auto"] = "auto",
        label_weight: float = 10.0,
        normalization: Literal["none", "sqrt", "as-printed"] = "sqrt",
        pull: float = 1.0,
        rtol: float = 1e-4,
        proximal_rtol: float = 1e-2,
        max_iter: int = 200,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.initial = initial
        self.graph_penalty = graph_penalty
        self.label_weight = label_weight
        self.normalization = normalization
        self.pull = pull
        self.rtol = rtol
        self.proximal_rtol = proximal_rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class TVSVM(ScoreClassifier):
    """TV-SVM: `models.total_variation.TVSVM` as an estimator.

    Parameters
    ----------
    initial : {'auto', 'cut', 'harmonic', 'poisson'}
        Where it starts: from clusters that the labels name, from the harmonic function of the
        labels, or from Poisson learning. 'auto' is 'cut' below five labels per class, else
        'harmonic'.
    graph_penalty : float or 'auto'
        Weight of the total variation, in units of the mean degree; 'auto' is 2 for two classes,
        0.4 for more.
    label_weight : float
        Weight of the loss at each label.
    normalization : {'none', 'sqrt', 'as-printed'}
        Whether functions are rescaled in every step: not, to root mean square 1, or to norm n.
    pull : float
        Weight of the terms that tie the splitting together.
    rtol : float
        Share of the samples that may still change class in the last five steps; without
        normalization the largest difference of the copies that are to be equal.
    proximal_rtol : float
        Relative duality gap of the proximal steps of total variation.
    max_iter : int
        Most steps.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = total_variation.TVSVM
    _left_out: ClassVar[frozenset[str]] = _OF_KERNEL

    def __init__(
        self,
        *,
        initial: Literal["auto", "cut", "harmonic", "poisson"] = "auto",
        graph_penalty: float | Literal["auto"] = "auto",
        label_weight: float = 10.0,
        normalization: Literal["none", "sqrt", "as-printed"] = "sqrt",
        pull: float = 1.0,
        rtol: float = 1e-4,
        proximal_rtol: float = 1e-2,
        max_iter: int = 200,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.initial = initial
        self.graph_penalty = graph_penalty
        self.label_weight = label_weight
        self.normalization = normalization
        self.pull = pull
        self.rtol = rtol
        self.proximal_rtol = proximal_rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class CheegerRLS(ScoreClassifier):
    """Cheeger-RLS: `models.cheeger.CheegerRLS` as an estimator.

    Parameters
    ----------
    initial : {'auto', 'cut', 'harmonic', 'poisson'}
        Where it starts: from clusters that the labels name, from the harmonic function of the
        labels, or from Poisson learning. 'auto' is 'cut' below five labels per class, else
        'harmonic'.
    balance : {'degrees', 'nodes'}
        What the balance of a cut counts.
    max_iter : int
        Most steps.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = cheeger.CheegerRLS
    _left_out: ClassVar[frozenset[str]] = _OF_KERNEL

    def __init__(
        self,
        *,
        initial: Literal["auto", "cut", "harmonic", "poisson"] = "auto",
        balance: Literal["degrees", "nodes"] = "degrees",
        max_iter: int = 100,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.initial = initial
        self.balance = balance
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled
