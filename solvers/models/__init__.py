"""The catalogue: the public name of every model and its class.

Context: service and tests must find models without knowing them. Decision: one dictionary, and
everything else derives from the dataclass fields. Consequence: a new model is one file and one
line here.
"""

from solvers.models.base import Model
from solvers.models.cheeger import CheegerRLS, CheegerSVM
from solvers.models.eigenfunctions import EigFun
from solvers.models.harmonic import HFS, StableHFS
from solvers.models.harmonic_mbo import HarmonicMBO
from solvers.models.lapsvm import LapRLSC, LapSVM
from solvers.models.linear_machine import LinearSVM
from solvers.models.nearest_neighbor import NearestNeighbor
from solvers.models.poisson import Poisson, PoissonMBO
from solvers.models.simple_hfs import SimpleHFS
from solvers.models.simplex_machines import LapRLS, SimplexLapSVM
from solvers.models.subsampling import SubSampling
from solvers.models.svm import RLSC, SVM
from solvers.models.total_variation import TVRLS, TVSVM
from solvers.models.transductive import DASVM, TSVM

CATALOGUE: dict[str, type[Model]] = {
    "cheeger-rls": CheegerRLS,
    "cheeger-svm": CheegerSVM,
    "da-svm": DASVM,
    "eigfun": EigFun,
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

DEFAULT_MODEL = "harmonic-mbo"
"""What to use when nothing is known of the classes; `tests.benchmarks.accuracy` says why."""
