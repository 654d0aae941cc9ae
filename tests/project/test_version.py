"""The version stands in pyproject.toml; what else names it follows from there."""

import re
import subprocess
import tomllib
from importlib.metadata import version

import pytest

from tests.goldens.generate import IMAGE, of_image
from tests.project.sources import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_what_is_installed_has_the_version_of_the_project() -> None:
    assert version("peewit") == VERSION


def test_every_file_that_names_the_image_names_this_version() -> None:
    named = {path.name: IMAGE.findall(path.read_text()) for path in of_image()}
    assert {name for names in named.values() for name in names} == {f"peewit:{VERSION}"}
    assert all(named[name] for name in (".env.example", "compose.yaml", "api.yaml", "dask.yaml"))


@pytest.mark.usefixtures("processes")
def test_make_reads_it() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "try-image"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert f'PEEWIT_TEST_IMAGE="peewit:{VERSION}"' in printed


def test_no_page_names_a_version_that_would_have_to_follow() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile"]
    literal = re.compile(rf"peewit[:-]{re.escape(VERSION)}")
    assert [path.name for path in pages if literal.search(path.read_text())] == []
