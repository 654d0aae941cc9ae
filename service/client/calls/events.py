"""Events of a job as they are written, over as many connections as it takes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import httpx

from peewit.service.client.call_steps import (
    AskRetries,
    Flow,
    Item,
    NextPiece,
    Pause,
    Request,
    Retries,
    answered,
)
from peewit.service.client.calls.common import get, read
from peewit.service.client.errors import ServerUnreachable, unreachable
from peewit.service.client.further_answers import JobEvent, Refusal
from peewit.service.wire.jobs import Job

_FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})
_SILENCE_SECONDS: Final = 15.0
"""The server gives a sign of life so often."""


def events(job_id: str, *, after: int = 0) -> Flow[JobEvent]:
    """The history of a job and then its news, until it is finished.

    A connection that breaks is opened again after the last event that came, so that none is missed
    or comes twice.

    Parameters
    ----------
    job_id : str
        Of the job.
    after : int
        Number of the event to start behind.

    Raises
    ------
    JobNotFound
        There is none of this id.
    ServerUnreachable
        The connection broke too often without any event in between.
    """
    retries: Retries = yield AskRetries()
    n_failed = 0
    is_final = False
    while True:
        began_after = after
        broke: ServerUnreachable | None = None
        yield from answered(_since(job_id, after))
        decoder = EventDecoder()
        try:
            while (piece := (yield NextPiece())) is not None:
                for event in decoder.feed(piece):
                    after, n_failed = event.seq, 0
                    yield Item(event)
                    if event.kind in _FINAL:
                        return
        except httpx.HTTPError as error:
            broke = unreachable(error)
            broke.__cause__ = error
        if broke is None and is_final and after == began_after:
            return  # no more to tell
        # A server that is stopped ends the events in good order, whatever the job does.
        is_final = (yield from read(Job, get("jobs", job_id))).is_final
        if is_final and broke is None:
            continue
        n_failed += 1
        pause = retries.pause_seconds(n_failed, None)
        if pause is None:
            raise broke or ServerUnreachable(
                Refusal(title="Server unreachable", detail="the events ended before the job")
            )
        yield Pause(pause)


def _since(job_id: str, after: int) -> Request:
    request = get("jobs", job_id, "events")
    headers = {"Last-Event-ID": str(after)}
    return replace(request, headers=headers, wait_seconds=_SILENCE_SECONDS, is_streamed=True)


class EventDecoder:
    """Events out of the bytes of a stream of them, in pieces of any size.

    An event comes out with the empty line that ends it: half of one is none.
    """

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, piece: bytes) -> Iterator[JobEvent]:
        """The events that a piece completes."""
        *whole, self._waiting = (self._waiting + piece).split(b"\n\n")
        for block in whole:
            fields = dict(
                line.split(": ", 1) for line in block.decode().split("\n") if line[:1] != ":"
            )
            if fields:  # a sign of life has none
                data = json.loads(fields["data"])
                yield JobEvent(seq=int(fields["id"]), kind=fields["event"], data=data)
