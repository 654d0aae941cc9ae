"""The catalogue: the public name of every model and its class.

Context: service and tests must find models without knowing them. Decision: one dictionary, and
everything else derives from the dataclass fields. Consequence: a new model is one file and one
line here.
"""

from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.eigenfunctions import EigFun
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.harmonic.nearest_neighbor import NearestNeighbor
from peewit.solvers.models.harmonic.simple_hfs import SimpleHFS
from peewit.solvers.models.harmonic.subsampling import SubSampling
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import DASVM, TSVM
from peewit.solvers.models.machines.laprlsc import LapRLSC
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.models.machines.supervised_machines import RLSC, SVM
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.models.poisson.poisson_mbo import PoissonMBO
from peewit.solvers.models.variational.cheeger_machines import CheegerRLS, CheegerSVM
from peewit.solvers.models.variational.simplex_machines import LapRLS, SimplexLapSVM
from peewit.solvers.models.variational.total_variation_machines import TVRLS, TVSVM

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
