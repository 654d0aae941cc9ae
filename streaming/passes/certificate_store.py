"""Certificates: how far a snapshot is from the raw graph that it stands for, and their store.

What is certified are the outer bounds, which hold with a stated probability, never the Ritz values.
A certificate is a small file beside its snapshot; `certify` measures one.
"""

import json
import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from peewit.solvers.arguments import BadArgument
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
"""What a status means, and what to try."""

_FILE: Final = "certificate.json"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifySettings:
    """Limits of one certification, and its probability.

    Attributes
    ----------
    passes : int
        Most passes over the raw edges, at least 2: the first finds the components.
    n_vectors : int
        Vectors of one pass, at least 1; four cost a pass hardly more than one.
    gap : float
        The certified accuracy may exceed the least possible one by this part of it, in (0, 1).
    probability : float
        The outer bounds hold with it, in (0, 1).
    seed : int
        Draws the start, in [0, 2^63).
    """

    passes: int = 40
    n_vectors: int = 4
    gap: float = 0.1
    probability: float = 0.99
    seed: int = 0

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

    Attributes
    ----------
    snapshot : int
        Number of the snapshot.
    status : str
        How it ended; see `MESSAGES`.
    epsilon_certified : float or None
        (1 - epsilon) L_G <= L_H <= (1 + epsilon) L_G holds with ``probability``; None where
        nothing can be certified.
    epsilon_least : float or None
        For certain it holds for no smaller epsilon; from the Ritz values.
    ritz_min, ritz_max : float or None
        Extreme Ritz values of L_H^+ L_G: inside its spectrum.
    residual_min, residual_max : float or None
        Their residuals: an eigenvalue is as near.
    outer_min, outer_max : float or None
        With ``probability`` no eigenvalue lies outside; None for an infinite bound.
    probability : float
        Of both outer bounds together.
    n_edges : int
        Raw edges, self-loops not counted.
    n_passes, n_vectors : int
        Passes over them and vectors of one.
    seed : int
        Drew the start.
    seconds : float
        Time it took; of a run that was resumed, since then.
    created_at : float
        Seconds since the epoch.
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
    seconds: float
    created_at: float

    @property
    def message(self) -> str:
        """What the status means."""
        return MESSAGES[self.status]


class CertificateStore:
    """Certificates of one graph's snapshots.

    Parameters
    ----------
    directory : Path
        Of the snapshots.
    """

    def __init__(self, directory: Path) -> None:
        self._snapshots = SnapshotStore(directory)

    def get(self, number: int) -> Certificate | None:
        """Return the certificate of a snapshot, None where there is none.

        Raises
        ------
        SnapshotNotFound
            No such snapshot is kept.
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

        It takes the place of an earlier one, unless that has converged and this has not.
        """
        earlier = self.get(certificate.snapshot)
        has_converged = certificate.status == "converged"
        if earlier is not None and earlier.status == "converged" and not has_converged:
            return
        path = self._snapshots.companion(certificate.snapshot, _FILE)
        publish_json(path, {"format": _FORMAT, **asdict(certificate)})

    def list(self) -> dict[int, Certificate]:
        """All certificates by the number of their snapshot, oldest first."""
        found: dict[int, Certificate] = {}
        for number in self._snapshots.numbers():
            with suppress(SnapshotNotFound):  # retired since it was listed
                certificate = self.get(number)
                if certificate is not None:
                    found[number] = certificate
        return found

    def numbers(self) -> set[int]:
        """Return the numbers of the snapshots that have one."""
        return set(self.list())

    def newest(self) -> Certificate | None:
        """Return the certificate of the newest snapshot that has one."""
        return next(reversed(self.list().values()), None)


def epsilon_between(smallest: float, greatest: float) -> float:
    """The least epsilon with (1 - epsilon) L_G <= L_H <= (1 + epsilon) L_G.

    ``smallest`` and ``greatest`` enclose the spectrum of L_H^+ L_G. Eigenvalues of L_G^+ L_H are
    their inverses: those from 1 / greatest to 1 / smallest must lie in [1 - epsilon, 1 + epsilon].
    """
    if smallest <= 0.0:
        return math.inf
    return max(1.0 - 1.0 / greatest, 1.0 / smallest - 1.0, 0.0)
