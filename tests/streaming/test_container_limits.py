import os
from pathlib import Path

import pytest

from peewit.streaming.container_limits import container_memory_bytes, n_usable_processors


def machine(root: Path, files: dict[str, str]) -> Path:
    """A machine with these files of control groups."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The affinity of a process on a machine of eight."""
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("needs processes that can be kept to some processors (Linux)")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),
        ("max 100000", 8),
    ],
)
def test_a_quota_counts_as_processors(tmp_path: Path, quota: str, expected: int) -> None:
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": quota}
    root = machine(tmp_path, files)
    assert n_usable_processors(root) == expected


@pytest.mark.parametrize(("quota", "expected"), [("300000", 3), ("-1", 8)])
def test_so_does_one_of_version_1(tmp_path: Path, quota: str, expected: int) -> None:
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/docker/0a",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": quota,
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
    )
    assert n_usable_processors(root) == expected


def test_the_smallest_quota_of_the_groups_around_a_process_holds(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "0::/system.slice/peewit.service",
            "sys/fs/cgroup/system.slice/cpu.max": "400000 100000",
            "sys/fs/cgroup/system.slice/peewit.service/cpu.max": "max 100000",
            "sys/fs/cgroup/system.slice/other.service/cpu.max": "100000 100000",
        },
    )
    assert n_usable_processors(root) == 4


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert n_usable_processors(tmp_path) == 8
    assert container_memory_bytes(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sys/fs/cgroup/memory.max", "2147483648", 2**31),
        ("sys/fs/cgroup/memory.max", "max", None),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824", 2**30),
    ],
)
def test_memory_is_limited_too(tmp_path: Path, name: str, text: str, expected: int | None) -> None:
    assert container_memory_bytes(machine(tmp_path, {name: text})) == expected
