"""Labels centered per component: what the models fit, and the means they add again.

On a component a constant costs no energy. So labels are centered with their mean target there, and
a component without label is answered by the mean of all labels.
"""

from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray
from peewit.solvers.labels import Targets
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CenteredLabels:
    """Labels centered by the components of their nodes."""

    labels: Targets
    component: IntArray  # (n_nodes,) of each node, numbered from 0
    values: FloatArray  # (n_labeled, n_columns) targets minus the mean of their component
    means: FloatArray  # (n_components, n_columns) mean targets; of all labels where none
    counts: IntArray  # (n_components,) labels

    @classmethod
    def of(cls, labels: Targets, component: IntArray) -> "CenteredLabels":
        """``labels`` on nodes of these components; each number has at least one node."""
        targets, at = labels.targets(), component[labels.nodes]
        counts = np.bincount(at, minlength=int(component.max(initial=-1)) + 1)
        means = np.tile(labels.mean_target(), (counts.size, 1))
        sums = np.zeros_like(means)
        np.add.at(sums, at, targets)
        # one component with all labels has their mean to the last digit
        is_own = ((counts > 0) & (counts < labels.n_labeled))[:, None]
        np.divide(sums, counts[:, None], out=means, where=is_own)
        return cls(
            labels=labels,
            component=component,
            values=targets - means[at],
            means=means,
            counts=counts,
        )

    def uncentered(self) -> "CenteredLabels":
        """The same with uncentered targets, and means of 0 where there are labels."""
        means = np.where(self.counts[:, None] > 0, 0.0, self.means)
        return replace(self, values=self.labels.targets(), means=means)

    @property
    def reachable(self) -> BoolArray:
        """(n_nodes,) whether the node's component has a label."""
        return self.counts[self.component] > 0

    @property
    def lacks(self) -> BoolArray:
        """(n_components, n_columns) whether no label of the class lies in the component."""
        return np.asarray((self.means == 0) | (self.counts == 0)[:, None])

    @property
    def absent(self) -> BoolArray:
        """(n_nodes, n_columns) whether no label of the class lies in the node's component."""
        return self.lacks[self.component]

    @property
    def baseline(self) -> FloatArray:
        """(n_nodes, n_columns) the mean of each node's component."""
        return self.means[self.component]

    def on_nodes(self, values: FloatArray) -> FloatArray:
        """(n_nodes, n_columns) with ``values`` at the labeled nodes and 0 elsewhere."""
        block = np.zeros((self.component.size, values.shape[1]))
        block[self.labels.nodes] = values
        return block

    def solution(
        self, scores: FloatArray, status: Status, stats: dict[str, float | int | str]
    ) -> Solution:
        """The solution: ``scores`` where a label reaches, the mean of all labels elsewhere."""
        reachable = self.reachable
        all_scores = np.where(reachable[:, None], scores, self.labels.mean_target())
        return Solution(scores=all_scores, reachable=reachable, status=status, stats=stats)
