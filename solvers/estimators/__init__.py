"""scikit-learn's interface to the models: ``StableHFS().fit(adjacency, y).transduction_``.

Context: people who know scikit-learn should need nothing new. Decision: an estimator takes a
graph, or features with affinity 'knn'; it has the hyperparameters of its model under the same
names. Consequence: `clone`, pipelines, parameter searches and pickling work, and nothing learned
by one `fit` is used by the next; to solve again warm, use the model itself.

Examples
--------
Ten labels tell the other 1,787 digits:

>>> import numpy as np
>>> from sklearn.datasets import load_digits
>>> from peewit.solvers.estimators import StableHFS
>>> images, digits = load_digits(return_X_y=True)
>>> y = np.full(digits.size, -1)  # -1: not known
>>> y[:10] = digits[:10]
>>> model = StableHFS(affinity="knn", n_neighbors=10).fit(images, y)
>>> print(f"{np.mean(model.transduction_ == digits):.0%}")
88%
"""

from typing import TYPE_CHECKING, Final

from peewit.solvers.late_modules import late_names

if TYPE_CHECKING:
    from peewit.solvers.estimators.auto import Auto
    from peewit.solvers.estimators.filtered_ridge import FilteredRidge
    from peewit.solvers.estimators.harmonic import (
        HFS,
        HarmonicMBO,
        HFSRegressor,
        StableHFS,
        StableHFSRegressor,
    )
    from peewit.solvers.estimators.kernel_machines import RLSC, SVM, LapRLSC, LapSVM
    from peewit.solvers.estimators.linear_machines import DASVM, TSVM, LinearSVM
    from peewit.solvers.estimators.poisson import Poisson, PoissonMBO
    from peewit.solvers.estimators.variational import (
        TVRLS,
        TVSVM,
        CheegerRLS,
        CheegerSVM,
        LapRLS,
        SimplexLapSVM,
    )

__all__ = [
    "DASVM",
    "HFS",
    "RLSC",
    "SVM",
    "TSVM",
    "TVRLS",
    "TVSVM",
    "Auto",
    "CheegerRLS",
    "CheegerSVM",
    "FilteredRidge",
    "HFSRegressor",
    "HarmonicMBO",
    "LapRLS",
    "LapRLSC",
    "LapSVM",
    "LinearSVM",
    "Poisson",
    "PoissonMBO",
    "SimplexLapSVM",
    "StableHFS",
    "StableHFSRegressor",
]

_ROOMS: Final = {
    "auto": ("Auto",),
    "filtered_ridge": ("FilteredRidge",),
    "harmonic": ("HFS", "HarmonicMBO", "HFSRegressor", "StableHFS", "StableHFSRegressor"),
    "kernel_machines": ("RLSC", "SVM", "LapRLSC", "LapSVM"),
    "linear_machines": ("DASVM", "TSVM", "LinearSVM"),
    "poisson": ("Poisson", "PoissonMBO"),
    "variational": ("TVRLS", "TVSVM", "CheegerRLS", "CheegerSVM", "LapRLS", "SimplexLapSVM"),
}
"""Names by the module that has them."""

__getattr__, __dir__ = late_names(
    __name__, {name: f"{__name__}.{room}" for room, names in _ROOMS.items() for name in names}
)
