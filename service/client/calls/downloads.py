"""Tables that the server sends: whole, a batch at a time, or to a file."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO
from uuid import uuid4

import httpx
import pyarrow as pa

from peewit.service.client.call_steps import (
    Answer,
    Call,
    Flow,
    Item,
    NextPiece,
    Request,
    answered,
    once,
    repeated,
)
from peewit.service.client.errors import ServerUnreachable, unreachable
from peewit.service.client.further_answers import Refusal
from peewit.service.client.tables import ArrowDecoder
from peewit.streaming.edges.table_formats import Format


def table_of(request: Request) -> Call[tuple[pa.Table, httpx.Headers]]:
    """A table in memory, and the headers that it came with."""
    streamed = _as_stream(request, Format.ARROW)

    def attempt() -> Call[tuple[pa.Table, httpx.Headers]]:
        answer = yield from once(streamed)
        return (yield from rest_of_table(answer)), answer.headers

    return (yield from repeated(streamed, attempt))


def rest_of_table(answer: Answer) -> Call[pa.Table | None]:
    """The table that the pieces of an answer are; None where the answer says nothing changed."""
    if answer.status == httpx.codes.NOT_MODIFIED:
        return None
    decoder = ArrowDecoder()
    batches: list[pa.RecordBatch] = []
    while (piece := (yield NextPiece())) is not None:
        batches += decoder.feed(piece)
    _require_end(decoder)
    return pa.Table.from_batches(batches, decoder.schema)


def batches_of(request: Request) -> Flow[pa.RecordBatch]:
    """A table a batch at a time; what breaks off after the first batch is not tried again."""
    decoder = ArrowDecoder()
    yield from answered(_as_stream(request, Format.ARROW))
    try:
        while (piece := (yield NextPiece())) is not None:
            for batch in decoder.feed(piece):
                yield Item(batch)
    except httpx.HTTPError as error:
        raise unreachable(error) from error
    _require_end(decoder)


def download(request: Request, target: Path | str, table_format: str | None) -> Call[Path]:
    """A table in a file, which appears when it is whole.

    What is there is replaced. The suffix of the file says the format when ``table_format`` is None.
    """
    target = Path(target)
    chosen = Format.of_path(target) if table_format is None else Format(table_format)
    streamed = _as_stream(request, chosen)

    def attempt() -> Call[Path]:
        yield from once(streamed)
        with _publish(target) as file:
            while (piece := (yield NextPiece())) is not None:
                file.write(piece)
        return target

    return (yield from repeated(streamed, attempt))


def _as_stream(request: Request, table_format: Format) -> Request:
    headers = {**request.headers, "Accept": table_format.media_type}
    return replace(request, headers=headers, is_streamed=True)


def _require_end(decoder: ArrowDecoder) -> None:
    """Refuse a stream whose connection was closed in good order, but too early."""
    if not decoder.is_ended:
        raise ServerUnreachable(
            Refusal(title="Server unreachable", detail="the table broke off before its end")
        )


@contextmanager
def _publish(target: Path) -> Generator[IO[bytes]]:
    """A file beside the target that takes its place if nothing goes wrong."""
    part = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
