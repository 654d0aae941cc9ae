"""The sdist and the wheel of this checkout, built without an index, and what they must hold."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.end_to_end.processes import REPOSITORY

PACKAGES: Final = ("service", "solvers", "streaming")
SOURCES: Final = (".src", *PACKAGES, "pyproject.toml", "README.md", "LICENSE")
NOT_PACKED: Final = {"service/dashboard/screenshot.png"}
"""Of the README, which shows it from the checkout."""


class Failed(Exception):
    """A step that failed, and what it printed."""


def run(
    *command: object,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    text: str = "",
) -> str:
    """What a command printed; with its errors, where it failed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=directory,
        env=environment,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    if done.returncode:
        raise Failed(done.stdout)
    return done.stdout


def build(into: Path) -> tuple[Path, Path]:
    """The sdist of this checkout, and the wheel of what it holds: that of the checkout itself."""
    with TemporaryDirectory() as name:
        checkout, unpacked, straight = (Path(name, each) for each in ("checkout", "un", "straight"))
        checkout.mkdir()
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.nbi", "*.nbc")
        for source in map(REPOSITORY.joinpath, SOURCES):
            if source.is_dir():
                copy = checkout / source.name
                shutil.copytree(source, copy, symlinks=True, ignore=ignored)
            else:
                shutil.copy(source, checkout)
        sdist = _built("sdist", checkout, into)
        shutil.unpack_archive(sdist, unpacked, filter="data")
        (rebuilt,) = unpacked.iterdir()
        wheel = _built("wheel", rebuilt, into)
        if wheel.read_bytes() != _built("wheel", checkout, straight).read_bytes():
            raise Failed(f"{sdist.name} does not build the wheel that the checkout builds")
    return sdist, wheel


def _built(kind: str, source: Path, into: Path) -> Path:
    """The file that setuptools makes of a tree, without an index; the same from the same tree."""
    code = f"from setuptools.build_meta import build_{kind} as build; print(build({str(into)!r}))"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}  # the first day of zip files
    printed = run(
        sys.executable, "-W", "ignore", "-c", code, directory=source, environment=environment
    )
    return into / printed.splitlines()[-1]


def misplaced(sdist: Path, wheel: Path) -> list[str]:
    """Files of the packages that are missing in one of the two, and others that are in it."""
    facade = REPOSITORY / ".src" / "peewit"
    files = {path.name for path in facade.iterdir() if path.is_file()} | {
        str(path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name.removeprefix("peewit/") for name in archive.namelist()}
    with tarfile.open(sdist) as archive:
        members = [member.name.partition("/")[2] for member in archive if member.isfile()]
    in_sdist = {name.removeprefix(".src/peewit/") for name in members}
    about = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    return sorted(
        f"{archive.name}: {name}"
        for archive, found in (
            (wheel, {name for name in in_wheel if ".dist-info/" not in name}),
            (sdist, {name for name in in_sdist if ".egg-info/" not in name} - about),
        )
        for name in found ^ (files - NOT_PACKED)
    )


def check(sdist: Path, wheel: Path) -> str:
    """Look at both as PyPI and its users would."""
    programs = Path(sys.executable).parent
    run(programs / "twine", "check", "--strict", sdist, wheel)
    run(programs / "check-wheel-contents", "--toplevel", "peewit", wheel)
    if wrong := misplaced(sdist, wheel):
        raise Failed("\n".join(["packed and should not be, or the other way round:", *wrong]))
    return "twine, check-wheel-contents, every file of the packages and no other"
