import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each pattern is written so that it does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:work|root|home|Users)/")
INDEX_ADDRESS = re.compile(r"index[-_]url|find[-_]links|[/]simple[/]?\s*$|https?://[^\s/]*pypi")


@pytest.fixture(scope="module")
def texts(processes: None) -> dict[str, str]:
    """Text of every file that is tracked or would be, by its path."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout to know which files are tracked")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    found = {}
    for name in filter(None, listing.split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            found[name] = content.decode()
    return found


def lines_that_match(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_the_patterns_find_what_they_are_for() -> None:
    assert MACHINE_PATH.search("cd /" + "work/main")
    assert MACHINE_PATH.search('open("/' + 'root/x")')
    assert INDEX_ADDRESS.search("--extra-index" + "-url https://example.org")
    assert INDEX_ADDRESS.search("https://" + "pypi.example.org/x")
    assert not MACHINE_PATH.search("the directory home/graphs/<id>/")


def test_no_file_names_a_path_of_one_machine(texts: dict[str, str]) -> None:
    assert lines_that_match(MACHINE_PATH, texts) == []


def test_no_file_names_a_package_index(texts: dict[str, str]) -> None:
    assert lines_that_match(INDEX_ADDRESS, texts) == []
