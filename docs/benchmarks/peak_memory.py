"""Resident memory of this process, its peak above all, in bytes.

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


def anonymous_bytes(pid: int | str = "self") -> int:
    """What a process holds, mapped files left out; 0 of one that has ended."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
