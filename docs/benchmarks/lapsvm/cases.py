"""One split made ready to be trained on, and the errors of what has been trained."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from docs.benchmarks.lapsvm.sets import DataSet, Split
from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.kernel_functions import KernelFunction
from peewit.solvers.gram.kernel_spaces import BlockedGram, DenseGram
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.solvers.svm.regularized_problem import BiasName, LossName, Problem
from peewit.solvers.svm.stopping import decisions

PARTS: Final = ("unlabeled", "validation", "test")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """What training needs besides labels; ``held_gram`` is of the points held out with the others.

    Seconds are CPU seconds.
    """

    gram: DenseGram
    laplacian: IteratedLaplacian
    held_gram: RealArray
    gram_seconds: float
    graph_seconds: float


class Case:
    """A split: labeled points first, then unlabeled ones; the others are new to every method."""

    def __init__(self, data: DataSet, split: Split, dtype: Any) -> None:
        self._data, self._dtype = data, dtype
        self.nodes = np.arange(split.labeled.size)
        trained = np.concatenate([split.labeled, split.unlabeled])
        self.rows = FeatureRows.of(data.features[trained], trained.size)
        self.classes = data.classes[trained]
        self.held = np.concatenate([split.validation, split.test])
        self.n_validation = split.validation.size
        self.held_classes = data.classes[self.held]
        self.kernel = KernelFunction.fitted(
            data.setting.kernel, self.rows, width=data.setting.width, degree=data.setting.degree
        )

    @property
    def n_rows(self) -> int:
        """Labeled and unlabeled points."""
        return int(self.classes.size)

    @property
    def held_features(self) -> Any:
        """Of validation, then test points."""
        return self._data.features[self.held]

    @property
    def targets(self) -> FloatArray:
        """(n_labeled, n_functions) 1 or -1; of two classes one function, of the second."""
        classes = np.arange(self._data.classes.max() + 1)
        targets = np.where(self.classes[self.nodes, None] == classes, 1.0, -1.0)
        return targets[:, 1:] if classes.size == 2 else targets

    @cached_property
    def labeled_space(self) -> BlockedGram:
        """Where methods without a graph work: no Gram matrix is made."""
        return BlockedGram(
            kernel=self.kernel, rows=self.kernel.scaled(self.rows.values, np.float64), parallel=map
        )

    def joined(self) -> Joined:
        """Gram matrix and graph, made anew."""
        setting = self._data.setting
        begun = time.process_time()
        gram = DenseGram.of(self.kernel, self.rows, self._dtype)
        gram_made = time.process_time()
        held = self.kernel.block(self.kernel.scaled(self.held_features, self._dtype), gram.rows)
        held_made = time.process_time()
        graph = neighbor_graph(
            self.rows.values, setting.n_neighbors, weights="heat", symmetrize="max"
        )
        laplacian = IteratedLaplacian.of_graph(graph, power=setting.power)
        return Joined(
            gram=gram,
            laplacian=laplacian,
            held_gram=held,
            gram_seconds=gram_made - begun,
            graph_seconds=time.process_time() - held_made,
        )

    def problem(
        self, joined: Joined, penalties: tuple[float, float], bias: BiasName, loss: LossName
    ) -> Problem:
        """The minimisation on a dense Gram matrix."""
        return Problem(
            space=joined.gram,
            laplacian=joined.laplacian,
            norm_penalty=penalties[0],
            graph_penalty=penalties[1],
            nodes=self.nodes,
            targets=self.targets,
            bias=bias,
            loss=loss,
        )

    def errors(self, values: FloatArray, functions: Expansion) -> FloatArray:
        """(3,) percent wrong, of unlabeled, validation and test points, by values at the others."""
        new = functions.values(self.held_features) if self.held.size else values[:0]
        return self.errors_of(values, new)

    def errors_of(self, values: FloatArray, held_values: FloatArray) -> FloatArray:
        """`errors` of values at all points; NaN of parts without points."""
        n_labeled, n_validation = self.nodes.size, self.n_validation
        new = decisions(held_values)
        return 100.0 * np.array(
            [
                self._share(decisions(values)[n_labeled:], self.classes[n_labeled:]),
                self._share(new[:n_validation], self.held_classes[:n_validation]),
                self._share(new[n_validation:], self.held_classes[n_validation:]),
            ]
        )

    def _share(self, decided: Any, classes: Int64Array) -> float:
        if classes.size == 0:
            return float("nan")
        is_wrong = decided != classes
        if not self._data.setting.is_macro:
            return float(is_wrong.mean())
        return float(np.mean([is_wrong[classes == each].mean() for each in np.unique(classes)]))
