"""How long a job has still to go, told from its pace and from the last equal one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from peewit.service.catalog import Catalog, GraphSettings
from peewit.service.database.engine import open_database
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.tasks.forecast import Forecast, last_equal, seconds_by_stage
from peewit.service.tasks.tasks_and_messages import Advanced

TAKEN = {"loading": 1.0, "preparing": 2.0, "solving": 10.0, "writing": 0.5}


class Queue:
    """A queue with one graph, in which jobs end at once."""

    def __init__(self, directory: Path) -> None:
        self.database = open_database(f"sqlite:///{directory / 'peewit.db'}")
        self.jobs = JobQueue(self.database)
        self.graph_id = Catalog(self.database).create(GraphSettings(name="g")).id

    def finished(self, model: str = "hfs", **parameters: object) -> Job:
        spec = JobSpec(graph_id=self.graph_id, model=model, parameters=parameters)
        claimed = self.jobs.claim("w", ("fast",), job_id=self.jobs.submit(spec).id)
        assert claimed is not None
        return self.jobs.finish(claimed.id, claimed.attempt, {"seconds": TAKEN})


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path)
    yield made
    made.database.close()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_last_job_that_was_asked_the_same_is_found(queue: Queue) -> None:
    queue.finished()
    expected = queue.finished(rtol=1e-3)
    queue.finished(rtol=1e-4)
    queue.finished("poisson", rtol=1e-3)
    found = last_equal(queue.jobs, queue.graph_id, "solve", "hfs", {"rtol": 1e-3})
    assert found is not None
    assert found.id == expected.id
    assert last_equal(queue.jobs, queue.graph_id, "tune", "hfs", {"rtol": 1e-3}) is None
    assert seconds_by_stage(found) == TAKEN


@pytest.mark.parametrize("result", [None, {}, {"seconds": 3.5}])
def test_a_result_without_stages_tells_of_none(queue: Queue, result: object) -> None:
    job = replace(queue.finished(), result=result)
    assert seconds_by_stage(job) == {}


def test_the_last_equal_job_tells_before_anything_has_moved(queue: Queue) -> None:
    clock = Clock()
    forecast = Forecast(queue.finished(), clock=clock)
    assert forecast.seconds_left(Advanced(phase="loading", stage="loading")) == 13.5
    clock.now += 0.25
    assert forecast.seconds_left(Advanced(phase="loading", stage="loading")) == 13.25
    clock.now += 5.0  # longer than it took last: what is over is over
    assert forecast.seconds_left(Advanced(phase="loading", stage="loading")) == 12.5
    assert forecast.seconds_left(Advanced(phase="solving", stage="solving")) == 10.5


def test_its_own_pace_tells_without_an_equal_job() -> None:
    clock = Clock()
    forecast = Forecast(None, clock=clock)
    assert forecast.seconds_left(Advanced(phase="solving", stage="solving")) is None
    clock.now += 3.0
    at_a_quarter = Advanced(phase="solving", stage="solving", fraction=0.25)
    assert forecast.seconds_left(at_a_quarter) == pytest.approx(9.0)
    just_begun = Advanced(phase="solving", stage="solving", fraction=1e-6)
    assert forecast.seconds_left(just_begun) is None


def test_a_pace_slower_than_last_time_counts(queue: Queue) -> None:
    clock = Clock()
    forecast = Forecast(queue.finished(), clock=clock)
    forecast.seconds_left(Advanced(phase="steps", stage="solving"))
    clock.now += 6.0
    slow = Advanced(phase="steps", stage="solving", fraction=0.2)
    assert forecast.seconds_left(slow) == pytest.approx(24.5)
    quick = Advanced(phase="steps", stage="solving", fraction=0.9)
    assert forecast.seconds_left(quick) == pytest.approx(4.5)  # as last: other phases may follow
    other = Advanced(phase="walks", stage="solving", fraction=0.5)
    assert forecast.seconds_left(other) == pytest.approx(4.5)  # a new phase begins with no pace
