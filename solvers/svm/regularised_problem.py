"""The regularised problem in a hypothesis space, and its solution."""

from dataclasses import dataclass
from typing import Literal

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.gram.space_base import Space
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.status import Status

BiasName = Literal["none", "free", "penalized"]
BIASES: tuple[BiasName, ...] = ("none", "free", "penalized")

LossName = Literal["squared-hinge", "squared", "hinge"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A function for each column of targets, to be found (E4).

    Minimises over coef and intercept, for each column k of the targets,

    1/2 [sum_i loss(f_ik, y_ik) + norm_penalty |f_k|^2 + graph_penalty g_k' L^p g_k],

    where f = values + intercept, and g is f with a penalized intercept, else values alone. The
    hinge loss counts twice, as (E1) has it.

    Attributes
    ----------
    space : Space
        Where the functions live.
    laplacian : IteratedLaplacian
        L^p of the nodes.
    norm_penalty, graph_penalty : float
        gamma_A > 0 and gamma_I >= 0.
    nodes : (n_labeled,) int64
        Labeled nodes, increasing.
    targets : (n_labeled, n_functions) float64
        1 or -1; any numbers for the squared loss.
    bias : {'none', 'free', 'penalized'}
        No intercept, one that costs nothing, one inside the graph penalty.
    loss : {'squared-hinge', 'squared', 'hinge'}
        max(0, 1 - y f)^2, (y - f)^2, max(0, 1 - y f).
    """

    space: Space
    laplacian: IteratedLaplacian
    norm_penalty: float
    graph_penalty: float
    nodes: Int64Array
    targets: FloatArray
    bias: BiasName = "none"
    loss: LossName = "squared-hinge"

    @property
    def n_functions(self) -> int:
        """Number of functions, each with a column of targets."""
        return int(self.targets.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Minimum:
    """Where a method ended.

    Attributes
    ----------
    coef : (n_coef, n_functions) float64
    intercept : (n_functions,) float64
    status : Status
    n_iter : int
        Newton steps or iterations, the most of any function.
    stopped_by : str
        The rule that ended it.
    """

    coef: FloatArray
    intercept: FloatArray
    status: Status
    n_iter: int
    stopped_by: str
