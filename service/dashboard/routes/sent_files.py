"""Files that are sent: received, shown with their columns, looked through, and then taken."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from peewit.service.api.json_response import json_response
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.pages import back_to, is_piece, page
from peewit.service.dashboard.uploads import Holds, Upload, Uploads
from peewit.service.problems import InvalidArgument
from peewit.service.tables.uploads import TableTooLarge, decoding_bytes
from peewit.streaming.edges.bad_table import BadTable

_CHUNK_BYTES: Final = 1 << 20


async def received(request: Request, graph: GraphRecord, holds: Holds, name: str) -> Upload:
    """The file of a request: its body under a name, or a form field where no script runs."""
    (upload,) = await all_received(request, graph.id, holds, name)
    return upload


async def all_received(
    request: Request, graph_id: str | None, holds: Holds, name: str, *, most: int = 1
) -> list[Upload]:
    """The files of a request: its body, or up to so many of a form field."""
    receive = partial(uploads_of(request).receive, graph_id, holds, owner=request.state.caller.name)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return [await receive(name, request.stream())]
    async with request.form(max_files=most, max_fields=10) as form:
        files = [each for each in form.getlist("file") if isinstance(each, UploadFile)]
        if not any(each.filename for each in files):
            raise InvalidArgument("file must be chosen", argument="file")
        return [await receive(each.filename or "", _chunks(each)) for each in files]


async def _chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK_BYTES):
        yield chunk


def sent_to(request: Request, path: str) -> Response:
    """The address of a file's page: as an answer to a script, else as a redirect."""
    if "hx-request" in request.headers:
        return json_response({"location": path}, status=HTTPStatus.CREATED)
    return back_to(path)


def report_piece(request: Request, template: str, **values: Any) -> Response:
    """The report on a file: a part of its page, or a whole page where no script runs."""
    values = {"upload": None, "place": None} | values
    if is_piece(request):
        return page(request, template, **values)
    return page(request, "report_page.html", part=template, **values)


def uploads_of(request: Request) -> Uploads:
    """The uploads of the application."""
    uploads: Uploads = request.app.state.uploads
    return uploads


def upload_of(request: Request, graph: GraphRecord, holds: Holds, upload_id: str) -> Upload:
    """A file that the sender of a request has sent before."""
    owner = request.state.caller.name
    return uploads_of(request).get(graph.id, holds, upload_id, owner=owner)


def address_of(graph: GraphRecord, holds: Holds, upload: Upload) -> str:
    """Where the page of a file is."""
    return f"/graphs/{graph.settings.name}/{holds}/files/{upload.id}"


def columns_page(
    request: Request,
    template: str,
    graph: GraphRecord,
    holds: Holds,
    upload: Upload,
    chosen: Any,
    propose: Callable[..., tuple[Any, Any]],
    **values: Any,
) -> Response:
    """The first rows of a table, and its columns as chosen or proposed; else why it is no table.

    ``propose`` gives head and choice, with the ``last`` choice that was taken.
    """
    head = fault = None
    try:
        head, chosen = propose(last=uploads_of(request).remembered(graph.id, holds))
    except (BadTable, TableTooLarge) as error:
        fault = str(error)
    address = address_of(graph, holds, upload)
    values |= {"graph": graph, "upload": upload, "address": address}
    return page(request, template, head=head, fault=fault, chosen=chosen, **values)


async def decoding_of(upload: Upload, home: ServedHome) -> int:
    """Bytes of the decoding budget that reading a file takes."""

    def count() -> int:
        limits = home.upload_limits
        with upload.opened() as file:
            return decoding_bytes(file, upload.table_format, upload.n_bytes, limits)

    return await run_in_threadpool(count)
