"""Examination: all checks in order, and the repair of their findings."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy.exc import DBAPIError

from peewit.service.upkeep.doctor import database_and_rows, graph_files, installation, leftovers
from peewit.service.upkeep.doctor.findings import Check, Finding, Level, Patient, fault

CHECKS: Final[dict[str, Check]] = {
    "packages": installation.check_packages,
    "compiled code": installation.check_compiled_code,
    "home": installation.check_home,
    "disk": installation.check_disk,
    "secrets": installation.check_secrets,
    "database": database_and_rows.check_database,
    "clock": installation.check_clock,
    "graphs": database_and_rows.check_graphs,
    "checkpoints": graph_files.check_checkpoints,
    "logs": graph_files.check_logs,
    "node index": graph_files.check_node_index,
    "snapshots": graph_files.check_snapshots,
    "predictions": graph_files.check_predictions,
    "pushes": graph_files.check_pushes,
    "jobs": database_and_rows.check_jobs,
    "leases": database_and_rows.check_leases,
    "ingest": database_and_rows.check_ingest,
    "sources": database_and_rows.check_sources,
    "erasures": database_and_rows.check_erasures,
    "deleted graphs": leftovers.check_deleted_graphs,
    "orphan directories": leftovers.check_orphan_directories,
    "orphan pushes": leftovers.check_orphan_pushes,
    "orphan predictions": leftovers.check_orphan_predictions,
    "smoothed features": leftovers.check_replaced_features,
    "temporary files": leftovers.check_temporary_files,
}
"""Checks by name, in the order of the report."""


def examine(patient: Patient, *, repair: bool = False) -> Sequence[Finding]:
    """Findings of all checks; one that is OK for a check without findings.

    The installation may be in use. With ``repair``, what can be repaired is, and findings say how.
    """
    findings = [finding for name, check in CHECKS.items() for finding in _run(name, check, patient)]
    return [_repair(finding) for finding in findings] if repair else findings


def _run(name: str, check: Check, patient: Patient) -> Iterator[Finding]:
    try:
        findings = list(check(patient))
    except (OSError, DBAPIError, ValueError, RuntimeError, LookupError) as error:
        findings = [fault(f"could not be looked at: {error}")]
    if all(finding.level is Level.INFORMATION for finding in findings):
        findings = [Finding(level=Level.OK, text=""), *findings]
    for finding in findings:
        yield replace(finding, check=name)


def _repair(finding: Finding) -> Finding:
    if finding.repair is None:
        return finding
    try:
        return replace(finding, level=Level.INFORMATION, repaired=finding.repair())
    except (OSError, DBAPIError, ValueError, RuntimeError, LookupError) as error:
        return replace(finding, repaired=f"not repaired: {error}")
