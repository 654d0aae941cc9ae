"""`peewit doctor`: what is wrong with an installation, and what of it can be repaired safely.

Decisions. A check is a function that yields findings and changes nothing; a finding that can be
repaired carries the function that repairs it, so that looking and repairing stay apart. What might
be data is never deleted but moved to ``lost+found`` in the home. What another process may be
writing is left alone until it is older than the grace time.
"""

from peewit.service.upkeep.doctor.examination import examine
from peewit.service.upkeep.doctor.findings import Finding, Level, Patient

__all__ = ["Finding", "Level", "Patient", "examine"]
