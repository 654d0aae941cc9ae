"""Peak resident memory of this process, in bytes.

``getrusage`` would tell at least the peak of the parent: Linux hands ``ru_maxrss`` on to what a
process starts.
"""

from pathlib import Path

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def reset_peak() -> None:
    """Let the peak of resident memory begin anew."""
    if _CLEAR.exists():
        _CLEAR.write_text("5")


def peak_bytes() -> int:
    """Most resident memory since the start or the last reset; 0 where the system does not tell."""
    if not _STATUS.exists():
        return 0
    [line] = [line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10
