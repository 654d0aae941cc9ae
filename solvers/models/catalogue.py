"""The catalogue: the public name of every model and its class.

Context: service and tests must find models without knowing them. Decision: one dictionary, and
everything else derives from the dataclass fields. Consequence: a new model is one file and one
line here.
"""

from peewit.solvers.models.auto import Auto
from peewit.solvers.models.base import Model
from peewit.solvers.models.cheeger_machines import CheegerRLS, CheegerSVM
from peewit.solvers.models.eigenfunctions import EigFun
from peewit.solvers.models.filtered_ridge import FilteredRidge
from peewit.solvers.models.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.laprlsc import LapRLSC
from peewit.solvers.models.lapsvm import LapSVM
from peewit.solvers.models.linear_svm import LinearSVM
from peewit.solvers.models.nearest_neighbor import NearestNeighbor
from peewit.solvers.models.poisson import Poisson
from peewit.solvers.models.poisson_mbo import PoissonMBO
from peewit.solvers.models.simple_hfs import SimpleHFS
from peewit.solvers.models.simplex_machines import LapRLS, SimplexLapSVM
from peewit.solvers.models.subsampling import SubSampling
from peewit.solvers.models.supervised_machines import RLSC, SVM
from peewit.solvers.models.total_variation_machines import TVRLS, TVSVM
from peewit.solvers.models.transductive_svms import DASVM, TSVM

CATALOGUE: dict[str, type[Model]] = {
    "auto": Auto,
    "cheeger-rls": CheegerRLS,
    "cheeger-svm": CheegerSVM,
    "da-svm": DASVM,
    "eigfun": EigFun,
    "filtered-ridge": FilteredRidge,
    "harmonic-mbo": HarmonicMBO,
    "hfs": HFS,
    "lap-rls": LapRLS,
    "lap-svm": SimplexLapSVM,
    "laprlsc": LapRLSC,
    "lapsvm": LapSVM,
    "linear-svm": LinearSVM,
    "nearest-neighbor": NearestNeighbor,
    "poisson": Poisson,
    "poisson-mbo": PoissonMBO,
    "rlsc": RLSC,
    "simple-hfs": SimpleHFS,
    "stable-hfs": StableHFS,
    "subsampling": SubSampling,
    "svm": SVM,
    "tsvm": TSVM,
    "tv-rls": TVRLS,
    "tv-svm": TVSVM,
}

DEFAULT_MODEL = "auto"
"""What to use when nothing is known of the classes; `docs.benchmarks.accuracy` says why."""
