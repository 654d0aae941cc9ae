"""Models of functions in a kernel's space: which kernel, and how its Gram matrix is held."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from peewit.solvers.features import Rows
from peewit.solvers.gram.feature_spaces import LinearMap
from peewit.solvers.gram.kernel_functions import KERNELS, KernelFunction
from peewit.solvers.gram.kernel_spaces import BlockedGram, DenseGram
from peewit.solvers.gram.landmarks import LandmarkMap
from peewit.solvers.gram.memory_plan import GRAMS, PRECISIONS, GramPlan, GramRequest
from peewit.solvers.gram.space_base import Space
from peewit.solvers.gram.sparse_spaces import LocalMap, SparseGram
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.models.contract.embedded_model import EmbeddedModel
from peewit.solvers.models.contract.point_model import Points, Stats

FACTORED_ROWS: Final = 5_000
"""Most nodes for which a Gram matrix is factored rather than iterated on."""

FACTORED_COLUMNS: Final = 4_000
"""Most explicit features for which their penalty is factored."""

OF_SPACE: Final = ("inverse", "tied inverse", "eigenvectors", "gram factor")
"""Cache names of values derived from a space, dropped together with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpaceModel(EmbeddedModel):
    """A model whose functions live in the space of a kernel of features, or of an embedding."""

    kernel: Literal["gaussian", "polynomial", "linear", "wendland"] = hyperparameter(
        "gaussian",
        Rule(
            doc=(
                "Kernel of the features: exp(-|x - z|^2 / (2 width^2)), ((1 + <x, z> / "
                "width^2) / 2)^degree, <x, z> / width^2, or Wendland's of compact support. "
                "That is near the Gaussian at 0, and for few features it is 0 a few widths "
                "away."
            ),
            kind=str,
            words=KERNELS,
        ),
    )
    width: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Unit of length of the features; 'auto' is 0.7 of the mean distance of two "
            "nodes for kernels of distances, else the root of the mean squared length.",
            above=0.0,
            words=("auto",),
        ),
    )
    degree: int = hyperparameter(3, Rule(doc="Degree of the polynomial.", kind=int, minimum=1))
    gram: str = hyperparameter(
        "auto",
        Rule(
            doc="How the Gram matrix is held: in memory, made in blocks at every product, or "
            "approximated on landmarks. 'auto' is the best that fits the memory; a linear kernel "
            "then needs none.",
            kind=str,
            words=("auto", *GRAMS),
        ),
    )
    n_landmarks: int = hyperparameter(
        2_000, Rule(doc="Nodes that the kernel is approximated on.", kind=int, minimum=1)
    )
    precision: Literal["auto", "float32", "float64"] = hyperparameter(
        "auto",
        Rule(
            doc="Precision of the Gram matrix; 'auto' is float64 where that fits the memory.",
            kind=str,
            words=("auto", *PRECISIONS),
        ),
    )
    seed: int = hyperparameter(
        0, Rule(doc="Draws the landmarks, and labels that are held out.", kind=int, minimum=0)
    )

    def plan(
        self, n_rows: int, n_columns: int, budget_bytes: int, *, row_bytes: int | None = None
    ) -> GramPlan:
        """How the Gram matrix of ``n_rows`` nodes would be held.

        ``row_bytes`` is the size of a sparse row; None means dense float64. Raises `GramTooLarge`
        of `peewit.solvers.gram.memory_plan` if the requested form does not fit ``budget_bytes``.
        """
        request = GramRequest(
            n_rows=n_rows,
            n_columns=n_columns,
            row_bytes=8 * n_columns if row_bytes is None else row_bytes,
            is_linear=self.kernel == "linear",
            n_landmarks=self.n_landmarks,
            is_factored=self._is_factored(n_rows, n_columns),
            n_nearest=self._n_nearest,
        )
        return request.plan(self.gram, self.precision, budget_bytes)

    @property
    def _n_nearest(self) -> int:
        """Nodes that a row of a sparse Gram matrix reaches; 0 where it is not sparse."""
        return 0

    def _fitted_kernel(self, rows: Rows) -> KernelFunction:
        """The kernel in the unit of the rows."""
        width = None if self.width == "auto" else self.width
        return KernelFunction.fitted(self.kernel, rows, width=width, degree=self.degree)

    def _is_factored(self, n_rows: int, n_columns: int) -> bool:
        """Whether the method factors the Gram matrix, or the penalty of a linear kernel."""
        if self.kernel == "linear" and self.gram == "auto":
            return n_columns <= FACTORED_COLUMNS
        return n_rows <= FACTORED_ROWS

    def _space(self, prepared: Points, rows: Rows, watch: Watch, stats: Stats) -> Space:
        of_points = self._n_nearest, self._input_key(prepared)
        kernel_key = (self.kernel, self.width, self.degree, *of_points)
        kernel = prepared.latest("kernel", kernel_key, lambda: self._fitted_kernel(rows))
        plan = self.plan(rows.n_rows, rows.n_columns, prepared.kept_bytes, row_bytes=rows.row_bytes)
        stats["gram"], stats["precision"], stats["width"] = plan.form, plan.dtype.name, kernel.width
        space_key = (kernel_key, plan.form, plan.dtype, self.n_landmarks, self.seed)

        def made() -> Space:
            prepared.forget(*OF_SPACE)
            return self._make_space(prepared, kernel, rows, plan, watch)

        space: Space = prepared.latest("space", space_key, made)
        if isinstance(space, SparseGram | LocalMap):
            stats["row_entries"] = space.n_stored / space.n_rows
        return space

    def _make_space(
        self, prepared: Points, kernel: KernelFunction, rows: Rows, plan: GramPlan, watch: Watch
    ) -> Space:
        parallel, on_step = prepared.parallel, watch.step_of("gram matrix")
        if plan.form == "linear":
            return LinearMap(kernel, rows, plan.dtype)
        if plan.form == "blocked":
            return BlockedGram.of(kernel, rows, plan.dtype, parallel)
        if plan.form == "dense":
            return DenseGram.of(kernel, rows, plan.dtype, parallel, on_step)
        if plan.form == "sparse" and self.kernel == "wendland":
            kept_bytes = prepared.kept_bytes
            return SparseGram.of(
                kernel, rows, plan.dtype, kept_bytes=kept_bytes, parallel=parallel, on_step=on_step
            )
        if plan.form == "sparse":
            return LocalMap(kernel, rows, plan.dtype, self._n_nearest, on_step)
        rng = np.random.default_rng(self.seed)
        n_landmarks = min(self.n_landmarks, rows.n_rows)
        chosen = np.sort(rng.choice(rows.n_rows, n_landmarks, replace=False))
        return LandmarkMap(
            kernel,
            rows,
            rows.take(chosen),
            plan.dtype,
            kept_bytes=max(0, prepared.kept_bytes - plan.n_bytes),
            parallel=parallel,
            on_step=on_step,
        )
