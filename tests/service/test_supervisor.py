"""The supervisor with real child processes: restarts, a clean end, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import psutil
import pytest
from sqlalchemy import make_url

from peewit.service.process_lifetime import StopSignal
from peewit.service.settings import Settings
from peewit.service.supervisor import (
    LONGEST_DELAY_SECONDS,
    AlreadyServedError,
    Role,
    Supervisor,
    peewit_roles,
    restart_delay,
    sole_supervisor,
)

DEADLINE_SECONDS = 60.0

STEADY = """
import os, sys
with open(sys.argv[1], "a") as file:
    print(os.getpid(), file=file)
os.read(0, 1)  # until the supervisor is gone
"""

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "a") as file:
    print(child.pid, os.getpid(), file=file)
time.sleep(600)
"""

SHORT = """
import os, sys
with open(sys.argv[1], "a") as file:
    print(os.getpid(), file=file)
"""

SUPERVISE = """
import sys
from peewit.service.process_lifetime import StopSignal
from peewit.service.logs import configure_logging
from peewit.service.supervisor import Role, Supervisor
configure_logging("info")
roles = [Role(name="child", command=(sys.executable, "-c", sys.argv[2], sys.argv[1]))]
with StopSignal(ends_waits_for_children=True) as stop:
    Supervisor(roles).run(stop)
"""


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "not so within the time"
        time.sleep(0.02)


def numbers(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def pids(processes: None, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "pids"
    yield path
    for pid in numbers(path):
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)


def role(script: str, pids: Path) -> Role:
    return Role(name="child", command=(sys.executable, "-c", script, str(pids)))


def run_until(supervisor: Supervisor, is_so: Callable[[], bool]) -> float:
    """Supervise until something is so, then stop by SIGTERM; the seconds that the stop took."""
    asked_at = []

    def ask() -> None:
        try:
            eventually(is_so)
        finally:
            asked_at.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGTERM)

    with StopSignal(ends_waits_for_children=True) as stop:
        thread = Thread(target=ask)
        thread.start()
        supervisor.run(stop)
        thread.join()
    return time.monotonic() - asked_at[0]


def test_delays_double_and_stay_within_the_longest() -> None:
    delays = [restart_delay(count) for count in range(8)]
    assert delays[:5] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert delays[-1] == restart_delay(1000) == LONGEST_DELAY_SECONDS


def test_a_child_that_died_is_started_again(pids: Path) -> None:
    run_until(Supervisor([role(SHORT, pids)]), lambda: len(numbers(pids)) >= 2)
    first, second = numbers(pids)[:2]
    assert first != second


def test_a_stop_ends_a_willing_child_at_once(pids: Path) -> None:
    supervisor = Supervisor([role(STEADY, pids)], grace_seconds=DEADLINE_SECONDS)
    seconds = run_until(supervisor, lambda: len(numbers(pids)) == 1)
    assert is_gone(numbers(pids)[0])
    assert seconds < DEADLINE_SECONDS


def test_a_child_that_ignores_the_stop_is_killed_with_its_own_children(pids: Path) -> None:
    supervisor = Supervisor([role(STUBBORN, pids)], grace_seconds=0.5)
    run_until(supervisor, lambda: len(numbers(pids)) == 2)
    grandchild, child = numbers(pids)
    assert is_gone(child)
    eventually(lambda: is_gone(grandchild))  # reaped by init, not by us


def test_children_end_when_the_supervisor_is_killed(pids: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, str(pids), STEADY]
    with subprocess.Popen(command) as supervisor:
        eventually(lambda: len(numbers(pids)) == 1)
        supervisor.kill()
    eventually(lambda: is_gone(numbers(pids)[0]))


def test_a_second_signal_cuts_the_grace_short(pids: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, str(pids), STUBBORN]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as supervisor:
        eventually(lambda: len(numbers(pids)) == 2)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.stderr is not None
        assert any("stopping" in line for line in supervisor.stderr)
        supervisor.send_signal(signal.SIGINT)
        supervisor.communicate(timeout=5)
    assert is_gone(numbers(pids)[1])


def test_a_signal_that_comes_before_the_wait_is_not_lost() -> None:
    with StopSignal(ends_waits_for_children=True) as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(0.0)
        assert not stop.wait(0.01, n_signals=2)


def test_roles_read_the_settings_that_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        home=tmp_path / "home",
        source_roots=(tmp_path / "a", tmp_path / "b"),
        source_schemes=("s3",),
        source_hosts=("data.example", "127.0.0.1:8443"),
    )
    roles = peewit_roles(settings, host="127.0.0.1", port=8000, n_api_processes=1)
    for variable, value in roles[0].environment.items():
        monkeypatch.setenv(variable, value)
    assert Settings() == settings


def test_graphs_made_on_the_page_have_the_budget_of_those_made_by_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path)
    assert settings.graph_memory_bytes is None
    for role in peewit_roles(settings, host="127.0.0.1", port=8000, n_api_processes=1):
        with monkeypatch.context() as patch:
            for variable, value in role.environment.items():
                patch.setenv(variable, value)
            assert Settings().graph_memory_bytes is None


def test_sqlite_is_served_once_at_a_time_and_postgresql_by_many(tmp_path: Path) -> None:
    file = make_url(f"sqlite:///{tmp_path}/peewit.db")
    for _ in range(2):  # what has ended is in nobody's way
        with sole_supervisor(file):
            told = rf"process {os.getpid()}.* another PEEWIT"
            with pytest.raises(AlreadyServedError, match=told):
                sole_supervisor(file).__enter__()
            with sole_supervisor(make_url(f"sqlite:///{tmp_path}/other.db")):
                pass
    server = make_url("postgresql://peewit@nowhere/peewit")
    with sole_supervisor(server), sole_supervisor(server):
        pass
