"""How long processes live: told to stop they do, even in the middle of a long computation."""

import os
import signal
import subprocess
import sys
import time

import pytest

from peewit.service.process_lifetime import StopSignal

LONG_COMPUTATION = """
import hashlib
from peewit.service.process_lifetime import StopSignal, exit_after_signal

with StopSignal() as stop, exit_after_signal(0.5):
    print("started", flush=True)
    {work}
print("left", stop(), flush=True)
"""


def _started(work: str) -> subprocess.Popen[str]:
    program = LONG_COMPUTATION.format(work=work)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_computation_that_cannot_be_interrupted_ends_all_the_same(number: int) -> None:
    # One call into C, minutes long, during which no handler of Python's runs; like our kernels it
    # gives the interpreter free for other threads.
    process = _started("hashlib.pbkdf2_hmac('sha256', b'x', b'y', 10**9)")
    process.send_signal(number)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.usefixtures("processes")
def test_work_that_stops_by_itself_is_left_alone() -> None:
    process = _started("stop.wait(30)")
    process.send_signal(signal.SIGTERM)
    assert _rest(process) == "left True\n"


@pytest.mark.usefixtures("processes")
def test_without_a_signal_nothing_happens() -> None:
    process = _started("pass")
    assert _rest(process) == "left False\n"


def _rest(process: subprocess.Popen[str]) -> str:
    """What a process that ends well says from now on."""
    assert process.stdout is not None
    with process.stdout:
        rest = process.stdout.read()
    assert process.wait(timeout=60) == 0
    return rest


GIVE_WAY = """
import os, subprocess, sys
from pathlib import Path
group = Path("/proc/self/autogroup")
child = "from peewit.service.process_lifetime import give_way; give_way()"
subprocess.run([sys.executable, "-c", child], check=True)
print(os.nice(0), group.read_text().split()[-1] if group.exists() else "none")
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("is_of_parent", [True, False])
def test_giving_way_reaches_the_session_of_the_parent_and_no_other(is_of_parent: bool) -> None:
    command = [sys.executable, "-c", GIVE_WAY]
    if not is_of_parent:  # as below a shell, which leads the session
        command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    done = subprocess.run(
        command, start_new_session=True, capture_output=True, text=True, check=True
    )
    niceness, of_session = done.stdout.split()
    assert int(niceness) == os.nice(0)  # of the parent itself
    assert of_session in ({"3", "none"} if is_of_parent else {"0", "none"})


@pytest.mark.usefixtures("processes")
def test_the_end_of_a_child_ends_a_wait_for_a_signal() -> None:
    began = time.monotonic()
    with StopSignal(ends_waits_for_children=True) as stop:
        with subprocess.Popen([sys.executable, "-c", ""]):
            assert not stop.wait(600.0)
        assert time.monotonic() - began < 600.0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(600.0)
