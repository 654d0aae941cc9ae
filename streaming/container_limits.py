"""Processors and memory of this process: the machine's, or less where its container says so.

Read by every command before numpy and numba load; `dask.system` gives the same number of
processors, but takes a tenth of a second to load.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")


def n_usable_processors(root: Path = _ROOT) -> int:
    """Processors that this process may use, a part of one counted whole.

    A container's ``--cpus``, and ``CPUQuota`` of systemd, are quotas of time in a control group
    (Linux) of version 2 or 1; ``--cpuset-cpus`` and ``taskset`` are an affinity. ``/sys`` and
    ``/proc`` lie in ``root``.
    """
    if hasattr(os, "sched_getaffinity"):
        n_processors = len(os.sched_getaffinity(0))
    else:
        n_processors = os.cpu_count() or 1
    v1 = zip(
        _limits(root, "cpu/cpu.cfs_quota_us", 1),
        _limits(root, "cpu/cpu.cfs_period_us", 1),
        strict=False,
    )
    quotas = [*_limits(root, "cpu.max", 2), *((*quota, *period) for quota, period in v1)]
    return min([n_processors, *(math.ceil(quota / period) for quota, period in quotas)])


def container_memory_bytes(root: Path = _ROOT) -> int | None:
    """Most bytes of memory that the container of this process may have; None without a limit.

    ``/sys`` and ``/proc`` lie in ``root``.
    """
    limits = [*_limits(root, "memory.max", 1), *_limits(root, "memory/memory.limit_in_bytes", 1)]
    return min((words[0] for words in limits), default=None)


def _limits(root: Path, name: str, n_words: int) -> Iterator[list[int]]:
    """Numbers of a file of this process's control group, and of the groups around it.

    Without a limit the file is not there, or reads ``max`` or -1.
    """
    mount = root / "sys/fs/cgroup"
    own = mount / _group(root)
    for directory in (own, *own.parents):
        if not directory.is_relative_to(mount):
            return
        try:
            words = [int(word) for word in (directory / name).read_text().split()]
        except (OSError, ValueError):
            continue
        if len(words) == n_words and words[0] > 0:
            yield words


def _group(root: Path) -> str:
    """Path of the group of version 2; empty where it is the root, as in a container of its own."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line[4:] for line in lines if line.startswith("0::/")), "")
