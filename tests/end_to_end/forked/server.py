"""Forks for each command that comes over a socket; ends when its stdin does.

It has one thread, which is what a fork keeps. A command is told what `python -m peewit` is told:
arguments, environment, directory, stdin to stderr, and `peewit.__main__` as the main module, at
which processes look that it spawns. It ends as an interpreter does.
"""

import gc
import marshal
import os
import runpy
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select
from typing import Final

_PACKET: Final = 1 << 17
_MODULES: Final = (
    *sorted(
        f"peewit.service.cli.{path.stem}"
        for path in Path(import_module("peewit.service.cli").__path__[0]).glob("[a-z]*.py")
    ),
    "alembic.command",  # and what commands import once they need it
    "numba",
    "peewit.service.ingest.ingestor",
    "peewit.service.kernel_warmup",
    "peewit.service.worker.run_one_job",
    "sqlalchemy.dialects.sqlite",
)
_OWN_FORK: Final = {"jemalloc_bg_thd"}
"""Threads of what sees to forks itself."""

Request = tuple[list[str], str, dict[str, str]]


def main() -> None:
    """Serve at the address of `sys.argv`; in each fork, run the command that was asked for."""
    preload()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(sys.argv[1])
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        arguments, directory, environment = serve(listening)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    runpy.run_module("peewit", run_name="__main__", alter_sys=True)


def preload() -> None:
    """Import what commands import; forks share it."""
    for name in _MODULES:
        import_module(name)
    tasks = Path("/proc/self/task").glob("*/comm")
    names = {path.read_text().strip() for path in tasks if path.parent.name != str(os.getpid())}
    if not names <= _OWN_FORK:
        raise RuntimeError(f"a fork keeps one thread, but importing has started {names}")
    gc.collect()
    gc.freeze()  # or the first collection of a fork would copy all pages


def serve(listening: socket.socket) -> Request:
    """What is asked for, in the fork that is to do it; the server itself does not return."""
    while sys.stdin not in select([sys.stdin, listening], [], [])[0]:
        with listening.accept()[0] as caller:
            if not os.fork():
                return mind(caller)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
    sys.exit()


def mind(caller: socket.socket) -> Request:
    """Fork once more, where this returns; tell the caller how that ended, or end it with him."""
    packet, streams, _, _ = socket.recv_fds(caller, _PACKET, 3)
    command = os.fork()
    for number, stream in enumerate(streams):
        if not command:
            os.dup2(stream, number)
        os.close(stream)
    if not command:
        request: Request = marshal.loads(packet)
        return request
    ended = os.pidfd_open(command)
    if ended not in select([ended, caller], [], [])[0]:
        os.kill(command, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with suppress(BrokenPipeError):
        caller.send(str(code).encode())
    os._exit(0)


main()
