"""Checks of the machine and of what is installed on it."""

import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from sqlalchemy import select

from peewit.service.database.timestamps import now
from peewit.service.settings import takes_files
from peewit.service.upkeep.doctor.findings import Finding, Patient, fault, warning
from peewit.service.upkeep.restore import MARK
from peewit.solvers.kernels.cache_directory import cache_directory

FREE_SHARE: Final = 0.05
"""Share of the disk; less free space gives a warning."""

CLOCK_SECONDS: Final = 5.0
"""Most difference between clocks of one installation; leases last twelve seconds."""


def check_packages(patient: Patient) -> Iterator[Finding]:
    """Installed versions that this program does not support."""
    del patient
    for line in requires("peewit") or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            yield fault(f"{requirement} is needed, it is not installed")
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            yield fault(f"{requirement} is needed, {installed} is installed")


def check_compiled_code(patient: Patient) -> Iterator[Finding]:
    """Whether compiled kernels can be cached."""
    del patient
    directory = cache_directory()
    if not takes_files(directory):
        yield warning(
            f"{directory or 'a cache directory'} must take files, it does not, so every "
            "process compiles anew; set NUMBA_CACHE_DIR to a directory that can be written"
        )


def check_home(patient: Patient) -> Iterator[Finding]:
    """Whether files can be published: written beside their place and renamed."""
    home, graphs = patient.settings.home, patient.settings.graphs_directory
    for directory in (home, graphs):
        if directory.exists() and not takes_files(directory):
            yield fault(f"{directory} must take files, it does not")
    if (home / MARK).exists():
        yield fault(f"a restore into {home} has not come to its end; run `peewit restore` again")
    for below in graphs.glob("*/*") if graphs.exists() else ():
        if below.is_mount():
            yield fault(
                f"{below} must lie on one file system with {graphs}, it is mounted there; files "
                "cannot be renamed into it"
            )


def check_disk(patient: Patient) -> Iterator[Finding]:
    """Whether there is room for the next checkpoints."""
    usage = shutil.disk_usage(patient.settings.home)
    sizes = [_checkpoint_bytes(patient.paths(graph).checkpoints) for graph in patient.graphs()]
    largest = max(sizes, default=0)
    shown = f"{usage.free / 2**30:.1f} GiB of {usage.total / 2**30:.1f} GiB are free"
    if usage.free < 2 * largest:
        yield fault(f"{shown}; the next checkpoint may need {2 * largest / 2**30:.1f} GiB")
    elif usage.free < FREE_SHARE * usage.total:
        yield warning(f"{shown}; make room")


def check_secrets(patient: Patient) -> Iterator[Finding]:
    """Files with passwords and keys that are not closed to others."""
    settings = patient.settings
    for path in (settings.database_password_file, settings.admin_key_file):
        if path is None:
            continue
        if not path.exists():
            yield fault(f"{path} is named by the environment, it does not exist")
        elif path.stat().st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            yield fault(
                f"{path} must be closed to others, "
                f"its mode is {stat.S_IMODE(path.stat().st_mode):o}",
                repair=partial(_close, path),
            )


def check_clock(patient: Patient) -> Iterator[Finding]:
    """Difference between the clocks of the database and of this machine."""
    with patient.database.read() as connection:
        before = datetime.now(UTC)
        theirs = connection.execute(select(now())).scalar_one()
        after = datetime.now(UTC)
    apart = max((before - theirs).total_seconds(), (theirs - after).total_seconds())
    if apart > CLOCK_SECONDS:
        yield warning(
            f"the clocks of the database and of this machine are {apart:.1f} s apart; set "
            "them alike, since files are kept by one clock and rows by the other"
        )


def _close(path: Path) -> str:
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~(stat.S_IRWXO | stat.S_IWGRP))
    return "closed to others"


def _checkpoint_bytes(directory: Path) -> int:
    """Bytes of the largest checkpoint."""
    if not directory.exists():
        return 0
    sizes = [
        sum(path.stat().st_size for path in checkpoint.iterdir())
        for checkpoint in directory.iterdir()
        if checkpoint.is_dir()
    ]
    return max(sizes, default=0)
