"""How long processes live: told to stop they do, even in the middle of a long computation."""

import signal
import subprocess
import sys
import time

import pytest

LONG_COMPUTATION = """
import hashlib
from service.lifetime import StopSignal, exit_after_signal

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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_computation_that_cannot_be_interrupted_ends_all_the_same(number: int) -> None:
    # One call into C, minutes long, during which no handler of Python's runs; like our kernels it
    # gives the interpreter free for other threads.
    process = _started("hashlib.pbkdf2_hmac('sha256', b'x', b'y', 10**9)")
    begun = time.monotonic()
    process.send_signal(number)
    try:
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - begun < 10


def test_work_that_stops_by_itself_is_left_alone() -> None:
    process = _started("stop.wait(30)")
    process.send_signal(signal.SIGTERM)
    assert _rest(process) == "left True\n"


def test_without_a_signal_nothing_happens() -> None:
    process = _started("pass")
    assert _rest(process) == "left False\n"


def _rest(process: subprocess.Popen[str]) -> str:
    """What a process that ends well says from now on."""
    assert process.stdout is not None
    with process.stdout:
        rest = process.stdout.read()
    assert process.wait(timeout=30) == 0
    return rest
