"""Table responses: the format is chosen by ``?format=`` or by the `Accept` header."""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final

from fastapi import Depends, Header, Query, Response
from fastapi.responses import StreamingResponse

from peewit.service.predictions.prediction_files import PredictionMeta
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.problems import Problem

_WILDCARDS: Final = {
    "*/*": Format.CSV,
    "text/*": Format.CSV,
    "application/*": Format.NDJSON,
}

_MAX_PIECE_BYTES: Final = 1 << 20


class FormatNotOffered(Problem, ValueError):
    """No format that is accepted can be sent."""

    status = 406
    title = "Format not offered"
    argument: ClassVar[str] = "Accept"


async def _chosen(
    asked: Annotated[
        Format | None, Query(alias="format", description="Wins over the header Accept.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
) -> Format:
    return accepted_format(accept) if asked is None else asked


ChosenFormat = Annotated[Format, Depends(_chosen)]
"""Format of the table."""


def accepted_format(accept: str) -> Format:
    """The format that an `Accept` header prefers, CSV by default; raises `FormatNotOffered`."""
    ranges = [_quality(each) for each in accept.split(",")]
    for _, media_range in sorted(ranges, key=lambda each: -each[0]):
        found = Format.of_media_type(media_range) or _WILDCARDS.get(media_range)
        if found is not None:
            return found
    offered = ", ".join(each.media_type for each in Format)
    raise FormatNotOffered(f"Accept must name one of {offered}, got {accept}")


def table_response(
    pieces: Iterable[bytes | memoryview],
    table_format: Format,
    *,
    name: str,
    headers: Mapping[str, str],
) -> StreamingResponse:
    """A table that is written while it is sent.

    ``pieces`` are from `peewit.service.tables.formats.encode`; ``name`` is an ASCII file name
    without suffix; ``headers`` tell where the table comes from.
    """
    disposition = f'inline; filename="{name}{table_format.suffix}"'
    return StreamingResponse(
        _short(pieces),
        media_type=table_format.media_type,
        headers={"Content-Disposition": disposition, "Vary": "Accept", **headers},
    )


def _short(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
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


def provenance_headers(meta: PredictionMeta) -> dict[str, str]:
    """Provenance of predictions, as headers of a table of them."""
    return {
        "Peewit-Job": meta.job_id,
        "Peewit-Model": meta.model,
        "Peewit-Snapshot": str(meta.snapshot),
        "Peewit-Labels-Seq": str(meta.labels_seq),
        "Peewit-Features-Version": str(meta.features_version),
        "Peewit-Solver-Status": meta.solver_status,
    }


IfNoneMatch = Annotated[
    str | None, Header(description="`ETag` of what is there already; 304 while it is the same.")
]


def table_answer(description: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI of a table response, for ``responses``."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    content = {each.media_type: schema for each in Format}
    return {200: {"description": description, "content": content}}


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
