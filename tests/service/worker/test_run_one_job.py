"""Jobs that a command waits for: small solves run in its own process, others in a child."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from peewit.service.catalog import Catalog
from peewit.service.home import Home
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.solving import solve
from peewit.service.worker.run_one_job import run_until_finished
from peewit.service.worker.worker import Worker
from peewit.streaming.graph_paths import GraphPaths
from tests.service.solvable import TIGHT
from tests.service.worker.test_worker import Service, children, eventually

pytestmark = pytest.mark.usefixtures("processes")

COMMAND = """
import sys
from peewit.service.database.engine import open_database
from peewit.service.settings import Settings
from peewit.service.worker.run_one_job import run_until_finished

settings = Settings(home=sys.argv[1])
run_until_finished(open_database(settings.database), settings, sys.argv[2])
"""


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


def is_small(service: Service, job: Job) -> bool:
    graph = Catalog(service.database).get_by_id(job.graph_id)
    home = Home(service.database, service.settings)
    return KINDS[job.kind].is_small(job, graph, home)


def test_a_small_solve_starts_no_process_and_answers_as_a_child_does(service: Service) -> None:
    graph, n_children, n_before = service.quick("small"), [], len(children())
    own = run_until_finished(
        service.database,
        service.settings,
        service.submit(graph).id,
        on_change=lambda _: n_children.append(len(children()) - n_before),
    )
    table = service.predictions.read(own).table()
    in_child = Worker(service.database, service.settings).run_one(service.submit(graph).id)
    assert set(n_children) == {0}
    assert own.result is not None
    assert in_child.result is not None
    differs = {"file", "seconds", "phase_seconds"}
    assert {**own.result, **dict.fromkeys(differs)} == {**in_child.result, **dict.fromkeys(differs)}
    assert own.result["seconds"].keys() == in_child.result["seconds"].keys()
    assert service.predictions.read(in_child).table().equals(table)
    kinds = dict.fromkeys(service.kinds(own))  # progress comes by the clock
    assert list(kinds) == list(dict.fromkeys(service.kinds(in_child)))
    assert (own.attempt, own.snapshot, own.labels_seq) == (1, 1, 2)


def test_a_small_solve_fails_with_the_words_of_a_child(service: Service) -> None:
    graph = service.quick("wrong")
    graph.label({"n3": "left", "n33": "left"})
    ended = run_until_finished(service.database, service.settings, service.submit(graph).id)
    in_child = Worker(service.database, service.settings).run_one(service.submit(graph).id)
    assert (ended.status, ended.error) == (JobStatus.FAILED, in_child.error)
    assert ended.error


def test_a_small_solve_ends_where_somebody_cancels_it(service: Service) -> None:
    job = service.submit(service.endless("cancelled"), TIGHT)

    def cancel(seen: Job) -> None:
        if seen.progress is not None:
            service.queue.cancel(seen.id)

    ended = run_until_finished(service.database, service.settings, job.id, on_change=cancel)
    assert (ended.status, ended.attempt) == (JobStatus.CANCELLED, 1)


def test_a_solve_after_a_killed_one_runs_in_a_child(service: Service) -> None:
    job = service.submit(service.endless("killed"), TIGHT)
    command = [sys.executable, "-c", COMMAND, str(service.settings.home), job.id]
    with subprocess.Popen(command) as process:
        eventually(lambda: service.is_iterating(job))
        os.kill(process.pid, signal.SIGKILL)
    n_children, n_before = list[int](), len(children())

    def is_again(seen: Job) -> bool:
        n_children.append(len(children()) - n_before)
        return seen.attempt == 2 and n_children[-1] > 0

    ended = run_until_finished(
        service.database,
        service.settings,
        job.id,
        should_stop=lambda: is_again(service.queue.get(job.id)),
    )
    assert (ended.status, ended.attempt) == (JobStatus.QUEUED, 2)
    assert n_children[-1] == 1


def test_large_long_and_heavy_solves_are_not_small(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = service.quick("sizes")
    job = service.submit(graph)
    heavy = service.submit(graph, {"variance": True}, lane="heavy")
    assert [is_small(service, each) for each in (job, heavy)] == [True, False]
    for name, below in (("SMALL_NODES", 59), ("SMALL_EDGES", 216)):  # of 60 and 217
        with monkeypatch.context() as patch:
            patch.setattr(solve, name, below)
            assert not is_small(service, job)
    assert is_small(service, job)


def test_a_solve_whose_size_is_unknown_fails_in_a_child(service: Service) -> None:
    graph = service.quick("damaged")
    (meta,) = GraphPaths(root=graph.directory).snapshots.rglob("*.json")
    meta.write_text("[]")
    with capture_logs() as lines:
        ended = run_until_finished(service.database, service.settings, service.submit(graph).id)
    assert "size of a job unknown" in [each["event"] for each in lines]
    assert ended.status is JobStatus.FAILED
    assert ended.error


def test_a_solve_is_not_small_where_memory_is_short(service: Service) -> None:
    job = service.submit(service.quick("memory"))
    half_of_what_is_reserved = 2**28
    service.settings = service.settings.model_copy(
        update={"child_memory_bytes": half_of_what_is_reserved}
    )
    assert not is_small(service, job)
