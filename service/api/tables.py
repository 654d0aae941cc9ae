"""Table responses: the format is chosen by ``?format=`` or by the `Accept` header."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final

from fastapi import Depends, Header, Query, Response
from fastapi.responses import StreamingResponse

from peewit.service.operations.tables import Pieces, Rows
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.problems import Problem

_WILDCARDS: Final = {"*/*": Format.CSV, "text/*": Format.CSV, "application/*": Format.NDJSON}

_MAX_PIECE_BYTES: Final = 1 << 20


class FormatNotOffered(Problem, ValueError):
    """No format that is accepted can be sent."""

    status = 406
    title = "Format not offered"
    argument: ClassVar[str] = "Accept"


async def _chosen(
    name: Annotated[
        Format | None, Query(alias="format", description="Wins over the header Accept.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
) -> Format:
    return accepted_format(accept) if name is None else name


ChosenFormat = Annotated[Format, Depends(_chosen)]
"""Format of the table."""


def accepted_format(accept: str) -> Format:
    """The format that an `Accept` header prefers, CSV by default; raises `FormatNotOffered`."""
    ranges = [_quality(each) for each in accept.split(",")]
    for _, media_range in sorted(ranges, key=lambda each: -each[0]):
        table_format = Format.of_media_type(media_range) or _WILDCARDS.get(media_range)
        if table_format is not None:
            return table_format
    offered = ", ".join(each.media_type for each in Format)
    raise FormatNotOffered(f"Accept must name one of {offered}, got {accept}")


def table_response(rows: Rows, chosen: Format, if_none_match: str | None) -> Response:
    """A table that is written while it is sent, unless the client has it already."""
    tag = {} if rows.tag is None else {"ETag": f'"{rows.tag}-{chosen}"'}
    for each in tag.values():
        if (unchanged := not_modified(each, if_none_match)) is not None:
            return unchanged
    pieces, headers = rows.open(chosen)
    disposition = f'inline; filename="{rows.name}{chosen.suffix}"'
    return StreamingResponse(
        _short(pieces),
        media_type=chosen.media_type,
        headers={"Content-Disposition": disposition, "Vary": "Accept", **headers, **tag},
    )


def _short(pieces: Pieces) -> Iterator[bytes | memoryview]:
    """Smaller pieces, so that little is kept for a slow or refused reader."""
    for piece in pieces:
        view = memoryview(piece)
        for first in range(0, len(view), _MAX_PIECE_BYTES):
            yield view[first : first + _MAX_PIECE_BYTES]


def not_modified(tag: str, if_none_match: str | None) -> Response | None:
    """The answer to a client that has the present table already, else None.

    ``tag`` is the quoted `ETag` of the present one; ``if_none_match`` has tags, weak ones too, or
    ``*``.
    """
    known = {each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")}
    if known.isdisjoint({tag, "*"}):
        return None
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag, "Vary": "Accept"})


IfNoneMatch = Annotated[
    str | None, Header(description="`ETag` of what is there already; 304 while it is the same.")
]


def table_answer(description: str, unchanged: str | None) -> dict[int | str, dict[str, Any]]:
    """OpenAPI of a table response, for ``responses``."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    content = {each.media_type: schema for each in Format}
    responses: dict[int | str, dict[str, Any]] = {
        200: {"description": description, "content": content}
    }
    return responses if unchanged is None else responses | {304: {"description": unchanged}}


def _quality(media_range: str) -> tuple[float, str]:
    """Quality of a media range, and the range; 0 and empty when it is not wanted."""
    name, *parameters = (part.strip().lower() for part in media_range.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                quality = float(parameter[2:])
            except ValueError:
                return 0.0, ""
            return (quality, name) if quality > 0 else (0.0, "")
    return 1.0, name
