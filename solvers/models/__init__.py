"""The catalogue: the public name of every model and its class.

Context: service and tests must find models without knowing them. Decision: one dictionary, and
everything else derives from the dataclass fields. Consequence: a new model is one file and one
line here.
"""

from solvers.models.base import Model
from solvers.models.harmonic import HFS, StableHFS

CATALOGUE: dict[str, type[Model]] = {
    "hfs": HFS,
    "stable-hfs": StableHFS,
}
