"""Options of reading a table, and words for nothing; needs the standard library alone."""

from typing import Final, Literal, TypeAlias

Quote: TypeAlias = Literal["double", "none"]
"""Whether a double quote at the beginning of a field quotes it; looked at where nobody says."""

MissingIds: TypeAlias = Literal["refuse", "keep"]
"""What becomes of ids that are words for a missing value."""

NodelessRows: TypeAlias = Literal["refuse", "leave-out"]
"""What becomes of rows of labels or features that name no node; those left out are counted."""

Contradictions: TypeAlias = Literal["refuse", "last", "leave-out", "opinions"]
"""What becomes of a table that gives nodes different labels: refused, the last of each holds, these
nodes are left out, or the rows of a node are opinions of several people."""

READING_OPTIONS: Final = ("time_unit", "time_format", "quote", "missing_ids")
"""Names of all of them, beside those of columns."""
