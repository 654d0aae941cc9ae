"""Lease holders: names of processes, by which another process can tell that one is dead.

Only a process of the same running machine and the same process numbers (container) may judge, and
only what is certain: whoever cannot tell waits until the lease runs out.
"""

import os
import socket
from pathlib import Path
from typing import Final
from uuid import uuid4

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NUMBERS: Final = Path("/proc/self/ns/pid")
_UNKNOWN: Final = "-"
_ENDED: Final = {"Z", "X"}
"""Dead, and perhaps not yet waited for by its parent."""


def holder_name() -> str:
    """Host, process number, a random name, machine, and when the process started."""
    pid = os.getpid()
    try:
        _, started = _state_and_start(pid)
    except OSError:  # no Linux
        started = _UNKNOWN
    return f"{socket.gethostname()}:{pid}:{uuid4().hex[:8]}:{_machine()}:{started}"


def is_dead(holder: str) -> bool:
    """Whether the process of this name has surely ended; False where that cannot be told."""
    parts = holder.rsplit(":", 4)
    if len(parts) != 5 or _UNKNOWN in parts or parts[3] != _machine():
        return False
    _, pid, _, _, started = parts
    try:
        state, start = _state_and_start(int(pid))
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (ValueError, OSError):
        return False
    return start != started or state in _ENDED


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process of this machine; False where that cannot be told."""
    try:
        return _state_and_start(pid)[0] in {"T", "t"}
    except OSError:
        return False


def _state_and_start(pid: int) -> tuple[str, str]:
    """State letter, and start in clock ticks since boot: setting the clock does not change it."""
    # the name of the program before them may hold anything, parentheses too
    after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return after_name[0], after_name[19]


def _machine() -> str:
    """Equal for two processes only if both see the same process numbers, since this boot."""
    try:
        boot = _BOOT.read_text().strip()
        numbers = os.readlink(_NUMBERS)  # noqa: PTH115 - a link to no path
    except OSError:  # no Linux
        return _UNKNOWN
    return f"{boot[:8]}-{''.join(filter(str.isdigit, numbers))}"
