"""Warm children as real processes: they answer, stay, stop, and die when they must."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar

import psutil
import pyarrow as pa
import pytest

from peewit.service.settings import Settings
from peewit.service.tasks.certify import CertifyTask
from peewit.service.tasks.solving.solve import SolveTask
from peewit.service.tasks.tasks_and_messages import Advanced, Done, Failed, TaskOutcome, TaskStopped
from peewit.service.worker.warm_child import KILL_AFTER_SECONDS, WarmChild
from tests.service.solvable import (
    ENDLESS_CLASSES,
    ENDLESS_SIDE,
    TIGHT,
    grid,
    publish_snapshot,
    spread_labels,
    two_communities,
)
from tests.streaming.streamed import random_file, streamed

pytestmark = pytest.mark.usefixtures("processes")

DEADLINE_SECONDS = 60.0

PARENT = """
import sys, time
from peewit.service.worker.warm_child import WarmChild
from peewit.service.settings import Settings

if __name__ == "__main__":
    child = WarmChild("orphan", Settings(home=sys.argv[1]))
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
"""


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "not so within the time"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def task(directory: Path, labels: dict[str, str | int]) -> SolveTask:
    return SolveTask(
        job_id="ab12",
        attempt=1,
        graph_id=directory.name,
        graph_directory=directory,
        snapshot=1,
        labels_seq=1,
        features_version=0,
        model="hfs",
        parameters={},
        nodes=pa.array(labels, pa.large_string()),
        labels=list(labels.values()),
        origins=pa.array(["given"] * len(labels)),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def quick(home: Path) -> SolveTask:
    publish_snapshot(home / "quick", 1, *two_communities())
    return task(home / "quick", {"n3": "left", "n33": "right"})


@pytest.fixture(scope="module")
def endless(home: Path) -> SolveTask:
    publish_snapshot(home / "endless", 1, *grid(ENDLESS_SIDE))
    labels = spread_labels(ENDLESS_SIDE**2, ENDLESS_CLASSES)
    return replace(task(home / "endless", labels), parameters=TIGHT)


@pytest.fixture(scope="module")
def child(home: Path) -> Iterator[WarmChild]:
    child = WarmChild("test", Settings(home=home))
    yield child
    child.stop()


def run(child: WarmChild, asked: SolveTask) -> TaskOutcome:
    return child.run(asked, progress=lambda _: None, interrupted=lambda: False)


class Running:
    """A task that runs in a thread of its own."""

    def __init__(self, child: WarmChild, asked: SolveTask) -> None:
        self.is_solving = Event()
        self.interrupt = Event()
        self._answers: list[TaskOutcome] = []
        self._thread = Thread(target=self._run, args=(child, asked))
        self._thread.start()
        assert self.is_solving.wait(DEADLINE_SECONDS)

    def answer(self) -> TaskOutcome:
        self._thread.join(DEADLINE_SECONDS)
        return self._answers[0]

    def _run(self, child: WarmChild, asked: SolveTask) -> None:
        self._answers.append(
            child.run(asked, progress=self._note, interrupted=self.interrupt.is_set)
        )

    def _note(self, advanced: Advanced) -> None:
        if advanced.fraction is not None:
            self.is_solving.set()


def test_a_child_stays_and_its_next_answer_is_warm(child: WarmChild, quick: SolveTask) -> None:
    first = run(child, quick)
    pid = child.pid
    second = run(child, replace(quick, attempt=2))
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    assert (child.pid, second.result["warm"]) == (pid, True)


def test_an_idle_child_works_ahead_for_labels_that_change(
    home: Path, child: WarmChild, quick: SolveTask
) -> None:
    publish_snapshot(home / "changing", 1, *grid(40))
    labels: dict[str, str | int] = {f"n{node}": node % 3 for node in range(0, 1_000, 20)}
    forms = []
    for number, seconds in enumerate((0, 0, 0.2, 1, 4, 8)):  # too few for the solves' own columns
        time.sleep(seconds)
        labels[f"n{1_111 + number}"] = 1
        asked = replace(task(home / "changing", labels), parameters={"graph_penalty": 0.1})
        answer = run(child, asked)
        assert isinstance(answer, Done)
        forms.append(answer.result["stats"]["preconditioner"])
        if forms[-1] == "kernel":
            break
    assert forms[-1] == "kernel"
    assert len(forms) > 2


def test_a_task_that_cannot_be_done_leaves_the_child_alive(
    child: WarmChild, quick: SolveTask
) -> None:
    run(child, quick)
    pid = child.pid
    refused = run(child, replace(quick, parameters={"gamma": 1}))
    assert isinstance(refused, Failed)
    assert (refused.retry, refused.trace) == (False, "")
    assert "no parameter 'gamma'" in refused.error
    missing = run(child, replace(quick, snapshot=9))
    assert isinstance(missing, Failed)
    assert missing.retry
    assert missing.error == "no snapshot 9, the newest is 1"
    assert child.pid == pid


def test_an_interrupted_task_stops_between_two_iterations(
    child: WarmChild, endless: SolveTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.service.worker.warm_child.KILL_AFTER_SECONDS", DEADLINE_SECONDS)
    running = Running(child, endless)
    pid = child.pid
    running.interrupt.set()
    assert running.answer() == TaskStopped()
    assert child.pid == pid


def test_a_stop_that_comes_too_late_does_not_stop_the_next_task(
    child: WarmChild, quick: SolveTask
) -> None:
    answers = [
        child.run(
            replace(quick, attempt=attempt), progress=lambda _: None, interrupted=lambda: True
        )
        for attempt in range(5)
    ]
    assert all(isinstance(answer, Done | TaskStopped) for answer in answers)
    assert isinstance(run(child, quick), Done)


def test_a_child_that_does_not_stop_is_killed_and_replaced(
    child: WarmChild, quick: SolveTask, endless: SolveTask
) -> None:
    running = Running(child, endless)
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    running.interrupt.set()
    assert running.answer() == TaskStopped()
    assert time.monotonic() - began >= KILL_AFTER_SECONDS
    assert is_gone(pid)
    assert isinstance(run(child, quick), Done)
    assert child.pid != pid


def test_a_killed_child_is_a_failed_attempt_with_the_reason(
    child: WarmChild, quick: SolveTask, endless: SolveTask
) -> None:
    running = Running(child, endless)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    answer = running.answer()
    assert isinstance(answer, Failed)
    assert answer.retry
    assert answer.error == "the solving process was killed by SIGKILL, perhaps for want of memory"
    assert isinstance(run(child, quick), Done)


def test_a_child_that_dies_between_two_tasks_is_replaced(
    child: WarmChild, quick: SolveTask
) -> None:
    run(child, quick)
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    # Until the last of its threads is gone too, the parent cannot know.
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    eventually(lambda: os.waitid(os.P_PID, pid, ended) is not None)
    assert isinstance(run(child, quick), Done)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_to_the_whole_group_are_the_workers_to_act_on(
    child: WarmChild, quick: SolveTask, number: signal.Signals
) -> None:
    run(child, quick)
    pid = child.pid
    assert pid is not None
    os.kill(pid, number)
    assert isinstance(run(child, quick), Done)
    assert child.pid == pid


def test_an_error_of_the_caller_ends_the_child_with_its_task(
    child: WarmChild, quick: SolveTask
) -> None:
    def fail(_advanced: Advanced) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.run(quick, progress=fail, interrupted=lambda: False)
    assert child.pid is None
    assert isinstance(run(child, quick), Done)


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, script, tmp_path], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.kill()
    eventually(lambda: is_gone(pid))


def test_a_child_gives_way_and_its_parent_does_not(child: WarmChild, quick: SolveTask) -> None:
    run(child, quick)
    assert child.pid is not None
    assert psutil.Process(child.pid).nice() == min(psutil.Process().nice() + 3, 19)


class Moved(BaseHTTPRequestHandler):
    """Gives a file until it has moved to another host."""

    content: ClassVar[bytes] = b""
    target: ClassVar[str | None] = None
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        if self._answer():
            self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self) -> bool:
        Moved.asked.append(self.headers["Host"])
        self.send_response(200 if self.target is None else 302)
        if self.target is None:
            self.send_header("Content-Length", str(len(self.content)))
        else:
            self.send_header("Location", self.target)
        self.end_headers()
        return self.target is None


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[int]:
    random_file(1).write(tmp_path / "edges.parquet", "string")
    Moved.content, Moved.target = (tmp_path / "edges.parquet").read_bytes(), None
    Moved.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Moved) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_child_follows_no_redirect_to_a_host_that_nobody_has_named(
    moving: int, child: WarmChild, home: Path
) -> None:
    graph = streamed(home / "moved", f"http://127.0.0.1:{moving}/edges.parquet", "string")
    asked = CertifyTask(
        job_id="ab12",
        attempt=1,
        graph_id="moved",
        graph_directory=graph.paths.root,
        snapshot=1,
        parameters={},
        keep_raw=True,
        n_threads=2,
        scheduler=None,
    )
    Moved.target = f"http://localhost:{moving}/edges.parquet"
    answer = child.run(asked, progress=lambda _: None, interrupted=lambda: False)
    assert isinstance(answer, Failed)
    assert "PEEWIT_SOURCE_HOSTS" in answer.error
    assert set(Moved.asked) == {f"127.0.0.1:{moving}"}


def test_a_scheduler_that_is_not_there_may_be_there_for_the_next_attempt(
    child: WarmChild, home: Path, tmp_path: Path
) -> None:
    random_file(1).write(tmp_path / "edges.parquet", "dense")
    graph = streamed(home / "scheduled", tmp_path, "dense")
    asked = CertifyTask(
        job_id="ab13",
        attempt=1,
        graph_id="scheduled",
        graph_directory=graph.paths.root,
        snapshot=1,
        parameters={},
        keep_raw=True,
        n_threads=2,
        scheduler="nonsense://x",
    )
    answer = child.run(asked, progress=lambda _: None, interrupted=lambda: False)
    assert isinstance(answer, Failed)
    assert answer.retry
    assert answer.error.startswith("scheduler must be the address of a dask scheduler that answers")
