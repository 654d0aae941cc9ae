"""List of the kinds of job: a new one is a file beside this one and a line below."""

from typing import Any, Final

from peewit.service.tasks.certify import CertifyKind
from peewit.service.tasks.embed import EmbedKind
from peewit.service.tasks.filter import FilterKind
from peewit.service.tasks.job_kind import Kind
from peewit.service.tasks.knn import KnnKind
from peewit.service.tasks.map import MapKind
from peewit.service.tasks.solving.solve import SolveKind
from peewit.service.tasks.tune import TuneKind
from peewit.solvers.arguments import BadArgument

KINDS: Final[dict[str, Kind[Any]]] = {
    kind.name: kind
    for kind in (
        SolveKind(),
        TuneKind(),
        CertifyKind(),
        KnnKind(),
        EmbedKind(),
        FilterKind(),
        MapKind(),
    )
}
"""By name."""


def kind_of(name: str) -> Kind[Any]:
    """The kind of a name; raises ValueError, with all names, if there is none."""
    if name not in KINDS:
        raise BadArgument("kind", f"must be one of {', '.join(KINDS)}, got {name!r}")
    return KINDS[name]
