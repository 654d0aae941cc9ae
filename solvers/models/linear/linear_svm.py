"""Linear SVM of large sparse features, by the modified finite Newton method."""

from dataclasses import dataclass

from peewit.solvers.arrays import FloatArray
from peewit.solvers.models.linear.linear_fit import Fit
from peewit.solvers.models.linear.linear_machine import LinearMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearSVM(LinearMachine):
    """Linear support vector machine of the labeled nodes: l2-SVM-MFN (section F.1).

    The modified finite Newton method of Keerthi and DeCoste (2005): the squared hinge, conjugate
    gradients on the rows inside the margin, and an exact line search. With a graph penalty the
    unlabeled nodes count, too.
    """

    def _weights(self, fit: Fit) -> FloatArray:
        return self._supervised_weights(fit)
