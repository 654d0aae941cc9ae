"""The command line called as a user calls it, but within the test's process."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from peewit.service.cli import main
from peewit.service.cli.solving import submission
from peewit.service.database.engine import Database
from peewit.service.jobs.job import Job
from peewit.service.settings import Settings
from peewit.service.worker.run_one_job import run_all_until_finished
from tests.fresh_databases import fresh
from tests.service.lasting_children import lasting_child

REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended, and what it printed."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Peewit = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PEEWIT_HOME of the test."""
    directory = tmp_path / "home"
    monkeypatch.setenv("PEEWIT_HOME", str(directory))
    fresh(f"sqlite:///{directory / 'peewit.db'}")
    compiled = os.environ.get("NUMBA_CACHE_DIR", str(REPOSITORY / ".numba-cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", compiled)  # for the processes that solve
    return directory


@pytest.fixture
def no_home(home: Path) -> Path:
    """PEEWIT_HOME where nothing is yet."""
    shutil.rmtree(home)
    return home


@pytest.fixture
def peewit(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Peewit:
    """Runs ``peewit <arguments>``."""

    def run_in_lasting_child(
        database: Database, settings: Settings, job_ids: Sequence[str], **options: Any
    ) -> list[Job]:
        child = lasting_child(settings)
        return run_all_until_finished(database, settings, job_ids, child=child, **options)

    monkeypatch.setattr(submission, "run_all_until_finished", run_in_lasting_child)

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["peewit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capfdbinary.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Outcome(exit_code=code or 0, out=printed.out.decode(), err=printed.err.decode())

    return run
