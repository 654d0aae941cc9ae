"""Certificates: how far a snapshot is from the raw graph that it stands for, and their store.

A certificate states the outer bounds, which hold with a given probability, never the Ritz values.
It is a small file beside its snapshot; `certify` measures one.
"""

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from peewit.solvers.arguments import BadArgument
from peewit.solvers.laplacian.extreme_eigenvalues import End
from peewit.streaming.durable_files import publish_json
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

CertificateStatus = Literal["converged", "max-passes", "inexact", "components-differ"]

MESSAGES: Final[dict[CertificateStatus, str]] = {
    "converged": "the bounds are as close as was asked",
    "max-passes": "the bounds hold, but the passes ended before they were as close as was asked; "
    "raise passes",
    "inexact": "the bounds hold, but the linear solves are not exact enough to bring them closer",
    "components-differ": "the snapshot and the raw graph have different components: no accuracy "
    "can be certified",
}
"""What each status means, and what to try next."""

_WORST_FIRST: Final[tuple[CertificateStatus, ...]] = (
    *("components-differ", "inexact", "max-passes", "converged"),
)

_FILE: Final = "certificate.json"
_UNKNOWN: Final = End(ritz=math.inf, residual=math.inf, outer=math.inf)
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifySettings:
    """Limits of one certification, and its probability."""

    passes: int = 40  # at most, over the raw edges; at least 2, the first finds components
    n_vectors: int = 4  # of one pass, at least 1; four cost hardly more than one
    gap: float = 0.1  # by this share epsilon may exceed the least possible one, in (0, 1)
    probability: float = 0.99  # of both outer bounds, in (0, 1)
    seed: int = 0  # draws the start, in [0, 2^63)

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        for name, least in (("passes", 2), ("n_vectors", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise BadArgument(name, f"must be an integer, got {value!r}")
            if value < least:
                raise BadArgument(name, f"must be at least {least}, got {value}")
        if self.seed >= 2**63:
            raise BadArgument("seed", f"must lie in [0, 2^63), got {self.seed}")
        for name in ("gap", "probability"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadArgument(name, f"must be a number, got {value!r}")
            if not 0.0 < value < 1.0:
                raise BadArgument(name, f"must lie in (0, 1), got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The measured accuracy of one snapshot.

    (1 - epsilon) L_G <= L_H <= (1 + epsilon) L_G holds for ``epsilon_certified`` with
    ``probability``, and certainly for no epsilon below ``epsilon_least``. The extreme Ritz values
    of L_H^+ L_G lie inside its spectrum, each with an eigenvalue within its residual. With
    ``probability`` no eigenvalue lies outside both outer bounds. ``n_edges`` counts raw edges,
    self-loops left out. None stands for what cannot be certified and, as an outer bound, for
    infinity.
    """

    snapshot: int
    status: CertificateStatus
    epsilon_certified: float | None
    epsilon_least: float | None
    ritz_min: float | None
    ritz_max: float | None
    residual_min: float | None
    residual_max: float | None
    outer_min: float | None
    outer_max: float | None
    probability: float
    n_edges: int
    n_passes: int
    n_vectors: int
    seed: int
    seconds: float  # of a resumed run, since it was resumed
    created_at: float  # seconds since the epoch

    @classmethod
    def of_ends(cls, ends: tuple[End, End] | None, **others: Any) -> Self:
        """From both ends of the spectrum of L_H^+ L_G, None if they are not known."""
        low, high = (_UNKNOWN, _UNKNOWN) if ends is None else ends
        least = math.inf if ends is None else epsilon_between(low.ritz, high.ritz)
        certified = math.inf if ends is None else epsilon_between(low.outer, high.outer)
        return cls(
            epsilon_certified=_finite(certified),
            epsilon_least=_finite(least),
            ritz_min=_finite(low.ritz),
            residual_min=_finite(low.residual),
            outer_min=_finite(low.outer),
            ritz_max=_finite(high.ritz),
            residual_max=_finite(high.residual),
            outer_max=_finite(high.outer),
            **others,
        )

    @property
    def message(self) -> str:
        """What the status means."""
        return MESSAGES[self.status]


def joined_certificates(parts: Sequence[Certificate], *, probability: float) -> Certificate:
    """The certificate that holds for every weighed sum of relations, from one of each.

    Eigenvalues of a sum lie between the least and the largest of its parts.
    """
    first, *others = parts
    if not others:
        return replace(first, probability=probability)
    statuses = {each.status for each in parts}

    def largest(name: str) -> float | None:
        values = [getattr(each, name) for each in parts]
        return None if None in values else max(values)

    def least(name: str) -> float | None:
        values = [getattr(each, name) for each in parts]
        return None if None in values else min(values)

    return replace(
        first,
        status=next(status for status in _WORST_FIRST if status in statuses),
        epsilon_certified=largest("epsilon_certified"),
        epsilon_least=largest("epsilon_least"),
        ritz_min=least("ritz_min"),
        ritz_max=largest("ritz_max"),
        residual_min=largest("residual_min"),
        residual_max=largest("residual_max"),
        outer_min=least("outer_min"),
        outer_max=largest("outer_max"),
        probability=probability,
        n_edges=sum(each.n_edges for each in parts),
        n_passes=max(each.n_passes for each in parts),
        seconds=sum(each.seconds for each in parts),
        created_at=max(each.created_at for each in parts),
    )


class CertificateStore:
    """Certificates of one graph's snapshots, in the directory of the snapshots."""

    def __init__(self, directory: Path) -> None:
        self._snapshots = SnapshotStore(directory)

    def get(self, number: int) -> Certificate | None:
        """Return the certificate of a snapshot, None where there is none.

        Raises `SnapshotNotFound`.
        """
        path = self._snapshots.companion(number, _FILE)
        try:
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if values.pop("format") != _FORMAT:
            return None  # measured by another version; certify again
        return Certificate(**values)

    def put(self, certificate: Certificate) -> None:
        """Store a certificate beside its snapshot.

        It replaces an earlier one, unless that has converged and this one has not.
        """
        earlier = self.get(certificate.snapshot)
        has_converged = certificate.status == "converged"
        if earlier is not None and earlier.status == "converged" and not has_converged:
            return
        path = self._snapshots.companion(certificate.snapshot, _FILE)
        publish_json(path, {"format": _FORMAT, **asdict(certificate)})

    def list(self) -> dict[int, Certificate]:
        """All certificates by the number of their snapshot, oldest first."""
        certificates: dict[int, Certificate] = {}
        for number in self._snapshots.numbers():
            with suppress(SnapshotNotFound):  # retired since it was listed
                certificate = self.get(number)
                if certificate is not None:
                    certificates[number] = certificate
        return certificates

    def numbers(self) -> set[int]:
        """Return the numbers of the snapshots that have a certificate."""
        return set(self.list())

    def newest(self) -> Certificate | None:
        """Return the certificate of the newest snapshot that has one."""
        return next(reversed(self.list().values()), None)


def _finite(value: float) -> float | None:
    """The value, None where it is infinite: JSON has no infinity."""
    return value if math.isfinite(value) else None


def epsilon_between(smallest: float, greatest: float) -> float:
    """The least epsilon with (1 - epsilon) L_G <= L_H <= (1 + epsilon) L_G.

    ``smallest`` and ``greatest`` enclose the spectrum of L_H^+ L_G. Eigenvalues of L_G^+ L_H are
    their inverses: those from 1 / greatest to 1 / smallest must lie in [1 - epsilon, 1 + epsilon].
    """
    if smallest <= 0.0:
        return math.inf
    return max(1.0 - 1.0 / greatest, 1.0 / smallest - 1.0, 0.0)
