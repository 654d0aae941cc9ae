"""`peewit doctor`: what is wrong with an installation, and what of it can be put right safely.

Decisions. A check is a function that yields findings and changes nothing; a finding that can be put
right carries the function that does it, so that looking and repairing are told apart by one call.
What might be data is never deleted: it is moved to ``lost+found`` in the home. What another process
may be writing at the moment is left alone until it is older than the grace time.
"""

from peewit.service.upkeep.doctor.examination import examine
from peewit.service.upkeep.doctor.findings import Finding, Level, Patient

__all__ = ["Finding", "Level", "Patient", "examine"]
