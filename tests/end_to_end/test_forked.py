"""Commands that are forks in tests print and end as those that are started."""

import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.processes import PEEWIT, Home


def ended(home: Home, program: tuple[str, ...], *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*program, *arguments],
        env=home.environment,
        input="node,label\na,x\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("graph", "create", "g"), ("labels", "put", "g", "-", "--json"), ("graph", "create", "é ")],
)
def test_a_fork_ends_as_the_real_one(
    home: Home, tmp_path: Path, forked: Path, arguments: tuple[str, ...]
) -> None:
    assert ended(home, (str(forked),), *arguments) == ended(
        Home(tmp_path / "real"), PEEWIT, *arguments
    )


def test_a_fork_ends_with_who_asked_for_it(home: Home, forked: Path) -> None:
    daemon = subprocess.Popen(
        [forked, "ingest", "--follow"], env=home.environment, stderr=subprocess.PIPE, text=True
    )
    with daemon:
        assert daemon.stderr is not None
        assert daemon.stderr.readline()
        daemon.kill()
        daemon.stderr.read()  # ends once nobody has it open any longer
