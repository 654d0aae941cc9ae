"""The sections of the README and of docs/ that run: what they say, and a shell that runs one."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.processes import REPOSITORY

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
SECTION = re.compile(r"<!-- run: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = "@@ next @@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some lines of bash and what they print; … stands for anything on a line or lines."""

    commands: str
    printed: str


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections() -> list[tuple[str, str]]:
    """What stands between ``<!-- run: NAME -->`` and ``<!-- end -->`` on all pages, by name."""
    return [found for page in PAGES for found in SECTION.findall(read(page))]


def fences(name: str) -> list[tuple[str, str]]:
    """Kind and text of each block of a section."""
    return FENCE.findall(dict(sections())[name])


def session(name: str) -> str:
    """The Python sessions of a section, which go on from each other."""
    return "\n".join(body for _, body in fences(name))


def steps(section: str) -> list[Step]:
    """The commands of a section, each with its output."""
    found = fences(section)
    kinds = [kind for kind, _ in found]
    assert kinds == ["bash", "text"] * (len(kinds) // 2)
    bodies = [body for _, body in found]
    return [
        Step(commands=commands, printed=printed)
        for commands, printed in zip(bodies[::2], bodies[1::2], strict=True)
    ]


def dense(text: str) -> str:
    """The text with all JSON in it written without spaces between its tokens."""
    return text.strip().replace('": ', '":').replace(', "', ',"')


def run_in_bash(section: str, directory: Path, environment: Mapping[str, str]) -> None:
    """Run a section in one shell and compare what each step prints."""
    asked = steps(section)
    script = f"echo '{MARK}'\n".join(step.commands for step in asked)
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", script],
        env=environment,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for step, printed in zip(asked, done.stdout.split(f"{MARK}\n"), strict=True):
        pattern = ".*?".join(re.escape(part) for part in dense(step.printed).split("…"))
        assert re.fullmatch(pattern, dense(printed), re.DOTALL), (
            f"{step.commands}\nprinted\n{printed}\nand the page says\n{step.printed}"
        )
