"""What a child does with a filter job that is stopped or made again, and which files stay."""

import os
from pathlib import Path
from time import time

from peewit.service.graphs.filtered_feature_files import GRACE_SECONDS, file_name
from peewit.service.home import Home
from peewit.service.jobs.job import Job
from peewit.service.tasks.filter import FilterKind, FilterTask
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.progress import Cancelled
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskStopped
from tests.service.featured import Featured
from tests.service.solvable import graphs_within

OLD = 2 * GRACE_SECONDS


def stores_of(graph: Featured) -> Home:
    return Home(graph.database, graph.settings)


def claimed(graph: Featured) -> tuple[Job, FilterTask]:
    kind = FilterKind()
    queued = graph.queue.submit(kind.spec(graph.graph_id, parameters={}))
    job = graph.queue.claim("w", ("heavy",), job_id=queued.id)
    assert job is not None
    return job, kind.capture(job, graph.record, stores_of(graph))


def run(
    task: FilterTask, told: list[Advanced], cancelled: Cancelled = lambda: False
) -> Done | TaskStopped:
    graphs = graphs_within(2**30)
    return FilterKind().run(
        task, TaskContext(graphs=graphs, report=told.append, cancelled=cancelled)
    )


def finished(graph: Featured) -> Path:
    """The file of a job that has succeeded."""
    job, task = claimed(graph)
    answer = run(task, [])
    assert isinstance(answer, Done)
    FilterKind().publish(job, answer.result, stores_of(graph))
    return graph.paths.filtered_features / answer.result["file"]


def aged(path: Path) -> Path:
    os.utime(path, (time() - OLD, time() - OLD))
    return path


def test_a_task_that_is_stopped_on_the_way_leaves_no_file(graph: Featured) -> None:
    told: list[Advanced] = []
    _, task = claimed(graph)

    def is_filtering() -> bool:
        return bool(told) and told[-1].phase == "columns"

    assert run(task, told, cancelled=is_filtering) == TaskStopped()
    assert [each.phase for each in told] == ["loading", "filtering", "columns"]
    assert list(graph.paths.filtered_features.iterdir()) == []


def test_an_attempt_removes_what_an_earlier_one_left(graph: Featured) -> None:
    job, task = claimed(graph)
    directory = graph.paths.filtered_features
    directory.mkdir()
    (directory / f".{file_name(job.id, 7)}.0123").write_bytes(b"half")
    (directory / file_name(job.id, 7)).write_bytes(b"of an attempt without a lease")
    assert isinstance(run(task, []), Done)
    assert [each.name for each in directory.iterdir()] == [file_name(job.id, job.attempt)]


def test_files_stay_that_are_the_last_young_or_being_made(graph: Featured) -> None:
    replaced, young, last = (finished(graph) for _ in range(3))
    failed, _ = claimed(graph)
    running, _ = claimed(graph)
    left = [
        replaced.with_name(f".{file_name(failed.id, failed.attempt)}.0123"),
        replaced.with_name(file_name("00ff", 1)),
    ]
    kept = [replaced.with_name(f".{file_name(running.id, running.attempt)}.0123"), last]
    for path in (left[0], left[1], kept[0]):
        path.write_bytes(b"")
    for path in (replaced, *left, *kept):
        aged(path)
    graph.queue.fail(failed.id, failed.attempt, "no room")
    FilterKind().sweep(graph.graph_id, stores_of(graph))
    assert set(replaced.parent.iterdir()) == {young, *kept}
