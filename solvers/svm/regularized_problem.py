"""The regularized problem in a hypothesis space, and its solution."""

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
    """The problem (E4): a function to be found for each column of targets.

    Minimizes over coef and intercept, for each column k of the targets, 1/2 [sum_i loss(f_ik, y_ik)
    + norm_penalty |f_k|^2 + graph_penalty g_k' L^p g_k], where f = values + intercept, and g is f
    with a penalized intercept, else values alone. The hinge loss counts twice, as in (E1).
    """

    space: Space
    laplacian: IteratedLaplacian
    norm_penalty: float  # gamma_A > 0
    graph_penalty: float  # gamma_I >= 0
    nodes: Int64Array  # (n_labeled,) labeled nodes, increasing
    targets: FloatArray  # (n_labeled, n_functions) 1 or -1; any numbers for the squared loss
    bias: BiasName = "none"  # penalized: inside the graph penalty; free: costs nothing
    loss: LossName = "squared-hinge"  # max(0, 1 - y f)^2, (y - f)^2 or max(0, 1 - y f)

    @property
    def n_functions(self) -> int:
        """Number of functions, one for each column of targets."""
        return int(self.targets.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Minimum:
    """Result of a method."""

    coef: FloatArray  # (n_coef, n_functions)
    intercept: FloatArray  # (n_functions,)
    status: Status
    n_iter: int  # Newton steps or iterations, the most of any function
    stopped_by: str  # the rule that ended it
