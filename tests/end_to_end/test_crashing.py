"""Kills under load on each database; on SQLite edges, files and nodes leave, too.

`docs.benchmarks.crashes` runs for longer.
"""

import os
from pathlib import Path
from typing import Literal

import pytest

from tests.end_to_end.crashing.cluster import programs
from tests.end_to_end.crashing.run import Plan, crash

SEED = int(os.environ.get("PEEWIT_CRASH_SEED", "1"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "n_kills", [6, *(pytest.param(each, marks=pytest.mark.nightly) for each in (20, 100))]
)
@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_nothing_acknowledged_is_lost_while_processes_are_killed(
    tmp_path: Path, database: Literal["sqlite", "postgresql"], n_kills: int
) -> None:
    if database == "postgresql" and programs() is None:
        pytest.skip("needs PostgreSQL's programs, as its server is killed; install postgresql")
    plan = Plan(database=database, seed=SEED, n_kills=n_kills, deletes=database == "sqlite")
    report = crash(plan, tmp_path / "run")
    print(report.summary())  # noqa: T201 - the seed, and what it came to
    assert not report.violations, report.evidence()
    assert report.kills.total() >= n_kills
