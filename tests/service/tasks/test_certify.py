"""What a certify job may be asked, and what a child does with one."""

from pathlib import Path
from typing import Any

import pytest

from peewit.service.tasks.certify import CertifyKind, CertifyOptions, CertifyTask
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.progress import Cancelled, Report
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskStopped
from peewit.streaming.passes.certificate_store import CertificateStore
from tests.service.solvable import graphs_within
from tests.streaming.streamed import StreamedGraph, random_file, streamed


@pytest.fixture
def graph(tmp_path: Path) -> StreamedGraph:
    (tmp_path / "data").mkdir()
    random_file(1).write(tmp_path / "data" / "edges.parquet", "string")
    return streamed(tmp_path / "graph", tmp_path / "data", "string")


def task(graph: StreamedGraph, *, keep_raw: bool = True, **parameters: Any) -> CertifyTask:
    return CertifyTask(
        job_id="ab12",
        attempt=1,
        graph_id="g",
        graph_directory=graph.paths.root,
        snapshot=1,
        parameters=parameters,
        keep_raw=keep_raw,
        n_threads=2,
        scheduler=None,
    )


def run(
    asked: CertifyTask,
    *,
    report: Report = lambda _advanced: None,
    cancelled: Cancelled = lambda: False,
) -> Done | TaskStopped:
    graphs = graphs_within(2**30)
    return CertifyKind().run(asked, TaskContext(graphs=graphs, report=report, cancelled=cancelled))


def test_task_leaves_a_certificate_and_says_the_same(graph: StreamedGraph) -> None:
    seen: list[Advanced] = []
    answer = run(task(graph, gap=0.5), report=seen.append)
    assert isinstance(answer, Done)
    stored = CertificateStore(graph.paths.snapshots).get(1)
    assert stored is not None
    assert answer.result["epsilon_certified"] == stored.epsilon_certified
    assert answer.result["message"] == stored.message
    phases = list(dict.fromkeys(advanced.phase for advanced in seen))
    assert phases[:4] == ["loading", "reading", "components", "start"]
    assert phases[4:6] == ["pass 2", "pass 2: solving"]


def test_task_that_is_told_to_stop_leaves_no_certificate(graph: StreamedGraph) -> None:
    answer = run(task(graph), cancelled=lambda: True)
    assert answer == TaskStopped()
    assert CertificateStore(graph.paths.snapshots).get(1) is None


@pytest.mark.parametrize("keep_raw", [True, False])
def test_missing_edges_are_named_with_what_keeps_them(
    graph: StreamedGraph, tmp_path: Path, keep_raw: bool
) -> None:
    (tmp_path / "data" / "edges.parquet").unlink()
    with pytest.raises(ValueError, match=r"edges\.parquet: it is missing") as caught:
        run(task(graph, keep_raw=keep_raw))
    assert ("only with keep_raw" in str(caught.value)) is not keep_raw


def test_parameters_left_out_take_their_defaults() -> None:
    assert CertifyKind().read({}) == CertifyOptions()
    asked = CertifyKind().read({"snapshot": 3, "passes": 7})
    assert asked == CertifyOptions(snapshot=3, passes=7)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pass": 3}, "certify has no parameter 'pass'; it has gap, n_vectors, passes"),
        ({"snapshot": 0}, "snapshot must be at least 1, got 0"),
        ({"snapshot": True}, "snapshot must be an integer, got True"),
        ({"passes": 1}, "passes must be at least 2, got 1"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CertifyKind().check(None, parameters)
