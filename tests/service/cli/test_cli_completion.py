"""Completion in shells: what may stand where, and what it costs."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from peewit.service.catalog import Catalog
from peewit.service.cli import _app
from peewit.service.cli.completion import MODELS
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.job import JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from peewit.solvers.models.catalogue import CATALOGUE
from tests.service.cli.conftest import Peewit

_MOST_CPU_SECONDS = 1.0  # a third of it on an idle machine
_COMPLETES = """
import resource, sys
from peewit.service.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    heavy = {"dask", "fastapi", "numba", "numpy", "pyarrow", "scipy", "sklearn", "sqlalchemy"}
    assert not heavy & sys.modules.keys()
    assert used.ru_utime + used.ru_stime < float(sys.argv[1])
"""


@pytest.fixture
def complete(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[[str], list[str]]:
    """What a line may go on with."""

    def run(line: str) -> list[str]:
        monkeypatch.setenv("_PEEWIT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit):
            typer.main.get_command(_app)(prog_name="peewit")
        monkeypatch.delenv("_PEEWIT_COMPLETE")
        printed = capfdbinary.readouterr()
        assert printed.err == b""
        return printed.out.decode().split()

    return run


def test_all_models_are_completed() -> None:
    assert MODELS.split() == sorted(CATALOGUE)


def test_graphs_jobs_and_sources_are_completed(
    peewit: Peewit, complete: Callable[[str], list[str]], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "edges.csv").write_text("src,dst\na,b\n")
    graphs = [peewit("graph", "create", name, "--json").json["id"] for name in ("mail", "map")]
    peewit("graph", "create", "gone")
    peewit("graph", "delete", "gone", "--yes")
    peewit("source", "add", "mail", tmp_path / "edges.csv")
    far = peewit("source", "add", "mail", "memory://edges", "--follow", "--json").json["id"]
    database = open_database(Settings(home=home).database)
    spec = JobSpec(graph_id=graphs[0], model="hfs", parameters={})
    job = JobQueue(database).submit(spec)
    database.close()
    assert complete("peewit graph show ") == ["mail", "map"]
    assert complete("peewit solve mai") == ["mail"]
    assert complete("peewit jobs list --graph map") == ["map"]
    assert complete("peewit jobs show ") == [job.short_id]
    assert complete(f"peewit predict mail x --job {job.id[:10]}") == [job.id]
    assert complete("peewit jobs wait zz") == []
    assert sorted(complete("peewit source remove mail ")) == sorted(
        [str(tmp_path / "edges.csv"), far]
    )
    assert complete("peewit source retry map ") == []
    assert complete("peewit solve mail --model stable") == ["stable-hfs"]
    assert complete("peewit labels put mail x --unknown ") == ["refuse", "keep"]
    assert complete("peewit predictions mail --so") == ["--sort"]


def test_names_come_from_either_kind_of_database(
    complete: Callable[[str], list[str]], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEEWIT_DATABASE_URL", database_url)
    database = open_database(database_url)
    for name in ("mail", "map"):
        Catalog(database).create(GraphSettings(name=name))
    graph_id = Catalog(database).get("map").id
    job = JobQueue(database).submit(JobSpec(graph_id=graph_id, model="hfs", parameters={}))
    database.close()
    assert complete("peewit graph show ma") == ["mail", "map"]
    assert complete("peewit graph show %") == []
    assert complete("peewit jobs show ") == [job.short_id]


@pytest.mark.parametrize(
    "url",
    [None, "postgresql://nobody@127.0.0.1:9/none", "mysql://x", "sqlite:////no/such/place.db"],
)
def test_without_a_database_there_is_nothing_to_say(
    complete: Callable[[str], list[str]],
    no_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str | None,
) -> None:
    if url is not None:
        monkeypatch.setenv("PEEWIT_DATABASE_URL", url)
    assert complete("peewit graph show ") == []
    assert not no_home.exists()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("line", ["peewit gra", "peewit graph show ", "peewit solve g --model "])
def test_completion_loads_little(peewit: Peewit, line: str) -> None:
    peewit("graph", "create", "g")
    asked = {
        "_PEEWIT_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", _COMPLETES, str(_MOST_CPU_SECONDS)],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()
