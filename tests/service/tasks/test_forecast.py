"""How long a job has still to go, told from its pace and from the last equal one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.tasks.forecast import Forecast, last_equal, seconds_by_stage
from peewit.service.tasks.tasks_and_messages import Advanced
from tests.fresh_databases import fresh

TAKEN = {"loading": 1.0, "preparing": 2.0, "solving": 10.0, "writing": 0.5}


class Queue:
    """A queue with one graph, in which jobs end at once."""

    def __init__(self, directory: Path) -> None:
        self.database = open_database(fresh(f"sqlite:///{directory / 'peewit.db'}"))
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


def told(forecast: Forecast, stage: str, phase: str, fraction: float | None = None) -> float | None:
    """Seconds left once the attempt has told where it is."""
    forecast.take(Advanced(phase=phase, stage=stage, fraction=fraction))
    return forecast.seconds_left


def test_the_last_equal_job_tells_before_anything_has_moved(queue: Queue) -> None:
    clock = Clock()
    forecast = Forecast(queue.finished(), clock=clock)
    assert told(forecast, "loading", "loading") == 13.5
    clock.now += 0.25
    assert told(forecast, "loading", "loading") == 13.25
    clock.now += 5.0  # longer than it took last: what is over is over
    assert told(forecast, "loading", "loading") == 12.5
    assert told(forecast, "solving", "solving") == 10.5


def test_its_own_pace_tells_without_an_equal_job() -> None:
    clock = Clock()
    forecast = Forecast(None, clock=clock)
    assert told(forecast, "solving", "solving") is None
    clock.now += 3.0
    assert told(forecast, "solving", "solving", 0.25) == pytest.approx(9.0)
    assert told(forecast, "solving", "solving", 1e-6) is None  # too little of it


def test_a_pace_slower_than_last_time_counts(queue: Queue) -> None:
    clock = Clock()
    forecast = Forecast(queue.finished(), clock=clock)
    told(forecast, "solving", "steps")
    clock.now += 6.0
    assert told(forecast, "solving", "steps", 0.2) == pytest.approx(24.5)
    # as last: other phases may follow
    assert told(forecast, "solving", "steps", 0.9) == pytest.approx(4.5)
    # a new phase begins with no pace
    assert told(forecast, "solving", "walks", 0.5) == pytest.approx(4.5)


def test_the_part_that_is_done_is_told_by_the_seconds_of_the_last_equal_job(queue: Queue) -> None:
    forecast = Forecast(queue.finished())
    assert forecast.fraction_done == 0.0
    told(forecast, "preparing", "preparing")
    assert forecast.fraction_done == pytest.approx(1.0 / 13.5)
    told(forecast, "solving", "steps", 1.0)
    assert forecast.fraction_done == pytest.approx((3.0 + 0.75 * 10.0) / 13.5)
    told(forecast, "writing", "writing")
    assert forecast.fraction_done == pytest.approx(13.0 / 13.5)


@pytest.mark.parametrize("stages", [(None,), ("tuning",), ("loading", "preparing", "solving")])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_done_never_falls(stages: tuple[str | None, ...], seed: int) -> None:
    """Whatever phases tell: residuals rise, phases return, and some tell nothing."""
    rng = np.random.default_rng(seed)
    forecast = Forecast(None)
    so_far = [0.0]
    for stage in stages:
        for phase in rng.choice(["scores", "walks", "kernel"], 8):
            for fraction in [None, *rng.random(5), 1.0]:
                forecast.take(Advanced(phase=phase, stage=stage, fraction=fraction))
                so_far.append(forecast.fraction_done)
    assert (np.diff(so_far) >= 0.0).all()
    assert so_far[-1] < 1.0
    assert len(set(so_far)) > 8 * len(stages)  # it does move
