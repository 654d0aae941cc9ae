"""Request bodies: counted and spooled while they arrive, in a format that their header names."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Annotated, Any, BinaryIO, Final, cast

import anyio
import pyarrow as pa
from fastapi import Depends, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peewit.service.api.served_home import HomeHere, ServedHome
from peewit.service.operations.tables import JsonUpload, TableUpload
from peewit.service.tables.uploads import decoding_bytes
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.problems import Problem

JSON: Final = "application/json"
_TSV: Final = "text/tab-separated-values"

MAX_JSON_BYTES: Final = 16 << 20
"""JSON is for little, tables for more; FastAPI may read it before it asks for the key."""

LEAST_BYTES_PER_SECOND: Final = 1024
"""A body that is slower for long holds a place that others want."""

_IN_MEMORY_BYTES: Final = 1 << 20
"""A larger body goes to an unnamed file on the home's disk, which ends with the request."""


_FEW_BYTES: Final = 1 << 16
"""JSON of so many bytes waits for no table; a table may come to millions of rows however short."""

_ENCODINGS: Final = {"identity": None, "gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}


class BodyTooLarge(Problem, ValueError):
    """The body is larger than the server takes."""

    status = 413
    title = "Body too large"


class BodyTooSlow(Problem, TimeoutError):
    """The rest of the body does not come, or comes too slowly."""

    status = 408
    title = "Body too slow"

    @property
    def problem_headers(self) -> Mapping[str, str]:
        """What still comes of the body is no other request."""
        return {"Connection": "close"}


class BodyTypeUnknown(Problem, BadArgument):
    """The body is in a format or an encoding that cannot be read."""

    status = 415
    title = "Body type unknown"


class BodyCap:
    """Middleware: refuses larger bodies, without reading more of them than the cap.

    Reading a body raises `BodyTooLarge` in ``app``, or `BodyTooSlow` if it stalls or trickles.
    ``max_bytes`` is for tables; other bodies are held in memory, up to `MAX_JSON_BYTES`.
    ``stall_seconds`` is the longest wait for the next bytes, and for all of them beyond
    `LEAST_BYTES_PER_SECOND`.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, stall_seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        max_bytes = self._max_bytes
        if _table_format(headers) is None:
            max_bytes = min(max_bytes, MAX_JSON_BYTES)
        announced = headers.get("content-length", "0")
        n_bytes = int(announced) if announced.isdecimal() else 0
        n_received = 0
        waited_seconds = 0.0
        is_awaited = n_bytes > 0 or "transfer-encoding" in headers

        async def receive_within_cap() -> Message:
            nonlocal n_received, waited_seconds, is_awaited
            _require_within(max_bytes, n_bytes)  # before the client is asked to send anything
            if not is_awaited:
                return await receive()
            in_credit = n_received / LEAST_BYTES_PER_SECOND - waited_seconds
            began = anyio.current_time()
            with _in_time(self._stall_seconds + min(in_credit, 0.0)):
                message = await receive()
            waited_seconds += anyio.current_time() - began
            is_awaited = message.get("more_body", False)
            n_received += len(message.get("body", b""))
            _require_within(max_bytes, n_received)
            return message

        await self._app(scope, receive_within_cap, send)


@contextmanager
def _in_time(seconds: float) -> Iterator[None]:
    try:
        with anyio.fail_after(max(seconds, 0.0)):
            yield
    except TimeoutError as error:
        raise BodyTooSlow(
            f"a body must come at {LEAST_BYTES_PER_SECOND} bytes a second or more and not stall "
            "for longer than PEEWIT_BODY_SECONDS; send it again"
        ) from error


def _require_within(max_bytes: int, n_bytes: int) -> None:
    if n_bytes > max_bytes:
        raise BodyTooLarge(
            f"a body of this type must have at most {max_bytes} bytes, got {n_bytes} or more; send "
            "it in pieces, JSON as a table, or raise PEEWIT_MAX_BODY_BYTES"
        )


async def _table(request: Request, home: HomeHere) -> AsyncIterator[TableUpload]:
    table_format = _format_of(request)
    if table_format is None and _media_type(request.headers) == JSON:
        table_format = Format.NDJSON  # as of files that are called so
    if table_format is None:
        raise _type_unknown(request, [JSON])
    async with _spool(request, home) as (file, digest, n_bytes):
        limits = home.upload_limits
        n_decoding = await run_in_threadpool(decoding_bytes, file, table_format, n_bytes, limits)
        yield TableUpload(
            file=file,
            table_format=table_format,
            digest=sha256(f"{table_format} {digest}".encode()).hexdigest(),
            limits=limits,
            decoding_bytes=n_decoding,
        )


async def _table_or_json(
    request: Request, home: HomeHere
) -> AsyncIterator[TableUpload | JsonUpload]:
    if _media_type(request.headers) != JSON:
        if _format_of(request) is None:
            raise _type_unknown(request, [JSON])
        async with asynccontextmanager(_table)(request, home) as table:
            yield table
        return
    async with _spool(request, home) as (file, _, n_bytes):
        few = n_bytes <= _FEW_BYTES
        n_decoding = 0 if few else decoding_bytes(file, None, n_bytes, home.upload_limits)
        yield JsonUpload(file=file, decoding_bytes=n_decoding)


TableBody = Annotated[TableUpload, Depends(_table)]
"""A table in one of the formats."""

TableOrJsonBody = Annotated[TableUpload | JsonUpload, Depends(_table_or_json)]
"""A table in one of the formats, or JSON."""


async def _held(body: TableOrJsonBody, home: HomeHere) -> AsyncIterator[TableUpload | JsonUpload]:
    async with home.decoding.held(body.decoding_bytes):
        yield body


HeldBody = Annotated[TableUpload | JsonUpload, Depends(_held)]
"""The same, which stays in memory until the answer is sent."""


def body_schema(description: str, *, json: type[BaseModel] | None = None) -> dict[str, Any]:
    """OpenAPI of a body that the route reads itself, for ``openapi_extra``."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    text = {"schema": {"type": "string"}}
    content: dict[str, Any] = {
        each.media_type: text if each in {Format.CSV, Format.NDJSON} else binary for each in Format
    }
    if json is not None:
        schema = {"$ref": f"#/components/schemas/{json.__name__}"}
        content = {JSON: {"schema": schema}, **content}
    return {"requestBody": {"description": description, "required": True, "content": content}}


@asynccontextmanager
async def _spool(request: Request, home: ServedHome) -> AsyncIterator[tuple[BinaryIO, str, int]]:
    """The body in a file, its SHA-256 and its length."""
    digest = sha256()
    n_bytes = 0
    with SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(home.settings.home)) as file:
        async for chunk in request.stream():
            digest.update(chunk)
            n_bytes += len(chunk)
            if n_bytes <= _IN_MEMORY_BYTES:
                file.write(chunk)
            else:
                await run_in_threadpool(file.write, chunk)
        file.seek(0)
        encoding = _encoding_of(request.headers)
        if encoding is None:
            yield cast("BinaryIO", file), digest.hexdigest(), n_bytes
            return
        is_table = _table_format(request.headers) is not None
        max_bytes = home.settings.max_body_bytes if is_table else MAX_JSON_BYTES
        with SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(home.settings.home)) as plain:
            n_bytes = await run_in_threadpool(unpack, file, encoding, plain, max_bytes)
            yield cast("BinaryIO", plain), digest.hexdigest(), n_bytes


def unpack(coded: IO[bytes], encoding: str, plain: IO[bytes], max_bytes: int) -> int:
    """Decode a body into a file, put at its start; returns the length of the content.

    Raises `BodyTooLarge` at the cap, beyond which nothing is decoded, and `BadUpload` if the body
    is not coded as its header says.
    """
    n_bytes = 0
    source = pa.PythonFile(coded, mode="r")
    with (
        named_faults(f"the body must be {encoding}, as Content-Encoding says"),
        pa.CompressedInputStream(source, encoding) as content,
    ):
        # `read` of Arrow never gives back the room for what could not be decoded
        while chunk := content.read_buffer(_IN_MEMORY_BYTES):
            n_bytes += len(chunk)
            _require_within(max_bytes, n_bytes)
            plain.write(chunk)
    plain.seek(0)
    return n_bytes


def _encoding_of(headers: Headers) -> str | None:
    """Compression of the body, as Arrow calls it; None if there is none."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _ENCODINGS:
        raise BodyTypeUnknown(
            "Content-Encoding", f"must be {', '.join(_ENCODINGS)} or left out, got {encoding}"
        )
    return _ENCODINGS[encoding]


def _format_of(request: Request) -> Format | None:
    """The table format that the headers name; None if they name none."""
    _encoding_of(request.headers)
    return _table_format(request.headers)


def _table_format(headers: Headers) -> Format | None:
    """The format of a table; CSV has whatever separator its header shows."""
    media_type = _media_type(headers)
    return Format.CSV if media_type == _TSV else Format.of_media_type(media_type)


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _type_unknown(request: Request, others: list[str]) -> BodyTypeUnknown:
    known = ", ".join([*others, *(each.media_type for each in Format)])
    received = request.headers.get("content-type", "none")
    return BodyTypeUnknown("Content-Type", f"must be one of {known}, got {received}")
