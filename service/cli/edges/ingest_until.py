"""Ingest at the command line until what was asked has come about."""

from collections.abc import Callable
from typing import Final, TypeVar

from peewit.service.cli.edges.reading import STOP_SECONDS, ended_when_stopped, read_all
from peewit.service.cli.session import say
from peewit.service.home import Home
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.service.wire.records import Ongoing
from peewit.streaming.graph_stream import Interrupted

S = TypeVar("S", bound=Ongoing)

_WATCH_SECONDS: Final = 0.5


def carry_out(
    home: Home, graph_id: str, answer: S, look: Callable[[], S], *, when_stopped: str
) -> S:
    """Ingest a graph here, or wait for who does, until an answer is settled.

    ``when_stopped`` tells what becomes of it after a signal.
    """
    is_said = False
    with StopSignal() as stop, exit_after_signal(STOP_SECONDS), ended_when_stopped(when_stopped):
        while not answer.is_settled:
            read_all(home, graph_id, (), stop, is_quiet=True, is_done=lambda: look().is_settled)
            answer = look()
            if answer.is_settled:
                break
            if not is_said:
                say("waiting for jobs that began before, or another process; Ctrl-C leaves it so")
                is_said = True
            if stop.wait(_WATCH_SECONDS):
                raise Interrupted
    return answer
