"""Examination: all checks in order, and the repair of what they found."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy.exc import DBAPIError

from peewit.service.upkeep.doctor.findings import Check, Finding, Level, Patient
from peewit.service.upkeep.doctor.graph_files import (
    check_checkpoints,
    check_node_index,
    check_predictions,
    check_pushes,
    check_snapshots,
)
from peewit.service.upkeep.doctor.installation import (
    check_clock,
    check_compiled_code,
    check_disk,
    check_home,
    check_packages,
    check_secrets,
)
from peewit.service.upkeep.doctor.leftovers import (
    check_deleted_graphs,
    check_orphan_directories,
    check_orphan_predictions,
    check_orphan_pushes,
    check_temporary_files,
)
from peewit.service.upkeep.doctor.tables import (
    check_database,
    check_jobs,
    check_leases,
    check_sources,
)

CHECKS: Final[dict[str, Check]] = {
    "packages": check_packages,
    "compiled code": check_compiled_code,
    "home": check_home,
    "disk": check_disk,
    "secrets": check_secrets,
    "database": check_database,
    "clock": check_clock,
    "checkpoints": check_checkpoints,
    "node index": check_node_index,
    "snapshots": check_snapshots,
    "predictions": check_predictions,
    "pushes": check_pushes,
    "jobs": check_jobs,
    "leases": check_leases,
    "sources": check_sources,
    "deleted graphs": check_deleted_graphs,
    "orphan directories": check_orphan_directories,
    "orphan pushes": check_orphan_pushes,
    "orphan predictions": check_orphan_predictions,
    "temporary files": check_temporary_files,
}
"""By name, in the order in which they are told."""


def examine(patient: Patient, *, repair: bool = False) -> Sequence[Finding]:
    """Findings of all checks, a good one where a check found nothing.

    Parameters
    ----------
    patient : Patient
        What to look at; may be in use.
    repair : bool
        Whether to put right what can be; each finding then says what was done.
    """
    findings = [each for name, check in CHECKS.items() for each in _run(name, check, patient)]
    return [_repair(each) for each in findings] if repair else findings


def _run(name: str, check: Check, patient: Patient) -> Iterator[Finding]:
    try:
        found = list(check(patient))
    except (OSError, DBAPIError, ValueError, RuntimeError, LookupError) as error:
        found = [_fault(name, f"could not be looked at: {error}")]
    if all(each.level is Level.INFORMATION for each in found):
        yield Finding(check=name, level=Level.OK, text="")
    yield from found


def _fault(name: str, text: str) -> Finding:
    return Finding(check=name, level=Level.FAULT, text=text)


def _repair(finding: Finding) -> Finding:
    if finding.repair is None:
        return finding
    try:
        return replace(finding, level=Level.INFORMATION, repaired=finding.repair())
    except (OSError, DBAPIError, ValueError, RuntimeError, LookupError) as error:
        return replace(finding, repaired=f"not repaired: {error}")
