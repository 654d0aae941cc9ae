"""Jobs of kind ``certify``: what they may be asked, and how a child runs them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from time import monotonic
from typing import Any, Final

from peewit.service.tasks.messages import Advanced, Certified, CertifyTask, Stopped
from peewit.solvers.arguments import BadArgument
from peewit.solvers.iterate import ProgressReport
from peewit.streaming.passes.certificate import CertifySettings, certify
from peewit.streaming.passes.raw_edges import PassStopped, RawEdgesGone
from peewit.streaming.snapshots.store import GraphPaths

REPORT_SECONDS: Final = 0.5
"""Progress within one phase is reported this often."""

_SNAPSHOT: Final = "snapshot"


def validate_certify(parameters: Mapping[str, Any]) -> tuple[int | None, CertifySettings]:
    """The snapshot to certify, None for the newest, and how hard to try.

    Parameters
    ----------
    parameters : mapping
        JSON values: ``snapshot`` and the fields of `CertifySettings`; those left out take their
        defaults.

    Raises
    ------
    ValueError
        No such parameter, or a value that breaks its rule.
    """
    known = {_SNAPSHOT, *(field.name for field in fields(CertifySettings))}
    unknown = sorted(parameters.keys() - known)
    if unknown:
        raise ValueError(
            f"certify has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    values = dict(parameters)
    snapshot = values.pop(_SNAPSHOT, None)
    if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int)):
        raise BadArgument("snapshot", f"must be an integer, got {snapshot!r}")
    if snapshot is not None and snapshot < 1:
        raise BadArgument("snapshot", f"must be at least 1, got {snapshot}")
    return snapshot, CertifySettings(**values)


def certify_task(
    task: CertifyTask,
    *,
    report: Callable[[Advanced], None],
    cancelled: Callable[[], bool],
) -> Certified | Stopped:
    """`Certified` once the certificate is on the disk, or `Stopped`.

    Raises
    ------
    ValueError
        Raw edges are missing or changed, or a parameter is wrong.
    OSError, MemoryError, LookupError, RuntimeError
        Files that could not be read or written.
    """
    _, settings = validate_certify(task.parameters)
    try:
        certificate = certify(
            GraphPaths(root=task.graph_directory),
            task.snapshot,
            settings,
            keep_raw=task.keep_raw,
            owner=task.job_id,
            n_threads=task.n_threads,
            progress=Reporter(report),
            cancelled=cancelled,
        )
    except PassStopped:
        return Stopped()
    except RawEdgesGone as error:
        raise explained(error, keep_raw=task.keep_raw) from error
    return Certified(result={**asdict(certificate), "message": certificate.message})


def explained(error: RawEdgesGone, *, keep_raw: bool) -> ValueError:
    """The error with what would have kept the edges."""
    return ValueError(str(error) if keep_raw else f"{error}; pushed edges stay only with keep_raw")


class Reporter:
    """Passes on where the work is, at most every `REPORT_SECONDS` within a phase."""

    def __init__(self, report: Callable[[Advanced], None]) -> None:
        self._report = report
        self._phase = ""
        self._last_at = 0.0

    def __call__(self, report: ProgressReport) -> None:
        """Tell it, unless the same phase was told a moment ago."""
        now = monotonic()
        if report.phase != self._phase or now - self._last_at >= REPORT_SECONDS:
            self._phase, self._last_at = report.phase, now
            self._report(Advanced(phase=report.phase, fraction=report.fraction))
