"""Names of processes that hold leases, from which another can tell that one of them is dead.

Only a process of the same running machine and the same process numbers (container) may judge, and
only what it can be sure of: whoever cannot tell waits until the lease runs out.
"""

import os
import socket
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NUMBERS: Final = Path("/proc/self/ns/pid")
_UNKNOWN: Final = "-"


def holder_name() -> str:
    """Host, process number, a name of its own, machine, and when the process started."""
    pid = os.getpid()
    started = psutil.Process(pid).create_time()
    return f"{socket.gethostname()}:{pid}:{uuid4().hex[:8]}:{_machine()}:{started:.2f}"


def is_dead(holder: str) -> bool:
    """Whether the process of this name has surely ended; False where that cannot be told."""
    parts = holder.rsplit(":", 4)
    if len(parts) != 5 or _UNKNOWN in parts or parts[3] != _machine():
        return False
    _, pid, _, _, started = parts
    try:
        process = psutil.Process(int(pid))
        is_same = f"{process.create_time():.2f}" == started
        return not is_same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except (ValueError, psutil.AccessDenied):
        return False


def _machine() -> str:
    """The same for two processes only if both see the same process numbers, since this boot."""
    try:
        boot = _BOOT.read_text().strip()
        numbers = os.readlink(_NUMBERS)  # noqa: PTH115 - a link to no path
    except OSError:  # no Linux
        return _UNKNOWN
    return f"{boot[:8]}-{''.join(filter(str.isdigit, numbers))}"
