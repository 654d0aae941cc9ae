"""Arrow and Parquet tables, surveyed before anything is decoded."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet

from peewit.service.tables.arrow_survey import ArrowSurvey, UnboundedArrow, survey_arrow
from peewit.service.tables.parquet_survey import ParquetSurvey, UnboundedParquet, survey_parquet
from peewit.service.tables.uploads.faults import TableTooLarge
from peewit.service.tables.uploads.givers import giver_columns
from peewit.service.tables.uploads.limits import (
    BYTES_PER_COLUMN,
    COLUMNS,
    ROWS,
    UploadLimits,
    require_at_most,
    require_decodable,
)
from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.bad_table import BadTable, BadUpload
from peewit.streaming.edges.columns import string_lengths
from peewit.streaming.edges.parts import first_rows_of
from peewit.streaming.edges.plain_types import is_text, plain_column
from peewit.streaming.edges.table_formats import (
    BYTES_PER_BATCH,
    ROWS_PER_BATCH,
    Format,
    require_no_seam,
    require_stream_end,
)

_ARROW_FILE: Final = b"ARROW1"
_VIEWS: Final = (pa.string_view(), pa.binary_view())
_STRINGS: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), *_VIEWS)
_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


CheckNames = Callable[[Sequence[str]], None]
"""Raises where the names of a table's columns are not allowed."""


def any_names(names: Sequence[str]) -> None:
    """Accept any names; whoever reads the columns checks them."""


def stored_batches(
    file: BinaryIO,
    table_format: Format,
    wanted: tuple[str, ...],
    limits: UploadLimits | None,
    *,
    check: CheckNames = any_names,
    beside: tuple[str, ...] = (),
) -> Iterator[pa.RecordBatch]:
    """Batches of Arrow or Parquet; rows with strings in dictionaries come a few at a time.

    Columns ``beside`` the wanted ones are read where the table has them and `giver_columns` accepts
    them; others may come too.
    """
    if table_format is Format.ARROW:
        batches = _arrow_batches(file, wanted, limits, check)
    else:
        batches = _parquet_batches(file, wanted, limits, check, beside)
    for batch in batches:
        yield from _with_plain_strings(batch, (*wanted, *giver_columns(batch.schema, beside)))


def surveyed_bytes(file: BinaryIO, table_format: Format, limits: UploadLimits) -> int:
    """Bytes of the decoded table; 0 for a damaged one, which is never decoded."""
    survey: ArrowSurvey | ParquetSurvey
    try:
        if table_format is Format.ARROW:
            survey = survey_arrow(file, max_columns=limits.columns)
        else:
            survey = survey_parquet(file)
    except (UnboundedArrow, UnboundedParquet):
        return 0
    return survey.decoded_bytes + survey.n_columns * BYTES_PER_COLUMN


def stored_names(
    file: BinaryIO, table_format: Format, limits: UploadLimits | None
) -> tuple[str, ...]:
    """Names of all columns of Arrow or Parquet; raises `BadUpload` as `stored_batches` does."""
    if table_format is Format.ARROW:
        return tuple(_arrow_reader(file, (), limits).schema.names)
    return tuple(_parquet_file(file, (), limits).schema_arrow.names)


def stored_to_read(
    file: BinaryIO,
    table_format: Format,
    to_read: Callable[[pa.Table], Sequence[str]],
    limits: UploadLimits | None,
) -> Sequence[str]:
    """Columns to read, as ``to_read`` says by the first rows; the file is left where it stood.

    Of Arrow by the names, as all of its columns are decoded. Of a Parquet file by the names, too,
    where columns of text would take more than the limits.
    """
    start = file.tell()
    try:
        if table_format is Format.ARROW:
            names = _arrow_reader(file, (), limits).schema.names
        else:
            schema = _parquet_file(file, (), limits).schema_arrow
            names = schema.names
            texts = tuple(each.name for each in schema if is_text(each.type))
            with suppress(BadTable, TableTooLarge, pa.ArrowException, OSError):
                file.seek(start)
                return to_read(first_rows_of(_parquet_file(file, texts, limits)))
    finally:
        file.seek(start)
    nothing = pa.nulls(0, pa.int64())
    return to_read(pa.Table.from_arrays([nothing] * len(names), names=names))


def _arrow_reader(
    file: BinaryIO, wanted: tuple[str, ...], limits: UploadLimits | None
) -> pa.ipc.RecordBatchStreamReader:
    start = file.tell()
    if file.read(len(_ARROW_FILE)) == _ARROW_FILE:
        raise BadUpload(
            "the body must be an Arrow IPC stream, and is an Arrow file (Feather); write it with "
            "pyarrow.ipc.new_stream, or as Parquet"
        )
    file.seek(start)
    if limits is not None:
        try:
            survey = survey_arrow(file, max_columns=limits.columns)
        except UnboundedArrow as error:
            raise BadUpload(f"the body must be a whole Arrow IPC stream ({error})") from error
        require_at_most(survey.n_columns, limits.columns, COLUMNS)
        require_at_most(survey.n_rows, limits.rows, ROWS)
        require_decodable(survey.decoded_bytes, survey.largest_message_bytes, limits)
    with named_faults("the body must be an Arrow IPC stream"):
        reader = pa.ipc.open_stream(file)
        _require_plain_types(reader.schema, wanted)  # a name may not be UTF-8
    return reader


def _arrow_batches(
    file: BinaryIO, wanted: tuple[str, ...], limits: UploadLimits | None, check: CheckNames
) -> Iterator[pa.RecordBatch]:
    reader = _arrow_reader(file, wanted, limits)
    with named_faults("the body must be an Arrow IPC stream"):
        check(reader.schema.names)
    while True:
        with named_faults("the Arrow IPC stream breaks off or is damaged"):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                require_stream_end(file.read(1))
                return
        yield batch


def _parquet_file(
    file: BinaryIO,
    wanted: tuple[str, ...],
    limits: UploadLimits | None,
    beside: tuple[str, ...] = (),
) -> pa.parquet.ParquetFile:
    dictionaries: list[str] = []
    if limits is not None:
        try:
            survey = survey_parquet(file, wanted + beside)
        except UnboundedParquet as error:
            raise BadUpload(f"the body must be a whole Parquet file ({error})") from error
        require_at_most(survey.n_columns, limits.columns, COLUMNS)
        require_at_most(survey.n_rows, limits.rows, ROWS)
        require_decodable(survey.decoded_bytes, survey.largest_page_bytes, limits)
        dictionaries = sorted(survey.dictionary_columns)
    require_no_seam(file)
    with named_faults("the body must be a Parquet file"):
        parquet = pa.parquet.ParquetFile(
            file, read_dictionary=dictionaries, coerce_int96_timestamp_unit="us"
        )
        _require_plain_types(parquet.schema_arrow, wanted)
    return parquet


def _parquet_batches(
    file: BinaryIO,
    wanted: tuple[str, ...],
    limits: UploadLimits | None,
    check: CheckNames,
    beside: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    parquet = _parquet_file(file, wanted, limits, beside)
    with named_faults("the body must be a Parquet file"):
        check(parquet.schema_arrow.names)
    taken = (*wanted, *giver_columns(parquet.schema_arrow, beside))
    names = [name for name in parquet.schema_arrow.names if name in taken]
    n_rows = min(ROWS_PER_BATCH, max(1, BYTES_PER_BATCH // _row_bytes(parquet)))
    with named_faults("the Parquet file is damaged"):
        batches = parquet.iter_batches(batch_size=n_rows, columns=names)
        yield from batches


def _require_plain_types(schema: pa.Schema, wanted: tuple[str, ...]) -> None:
    """Refuse types that no table needs and whose decoded size is unbounded."""
    for field in schema:
        if field.name not in wanted:
            continue
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_list = any(check(kind) for check in _LISTS)
        value = kind.value_type if is_list else kind
        is_scalar = not is_list and (kind in (*_STRINGS, pa.null()) or pa.types.is_decimal(kind))
        if not (pa.types.is_primitive(value) or is_scalar):
            raise BadUpload(
                f"column {field.name!r} must hold strings, numbers or lists of numbers; write "
                "what is none of these as text",
                argument=field.name,
                value=f"type {field.type}",
            )


def _with_plain_strings(batch: pa.RecordBatch, wanted: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The batch with wanted columns of strings as plain ones, not dictionaries or views.

    In those, rows share the bytes of long strings, so that a copy may take any amount; batches are
    sliced to stay within `BYTES_PER_BATCH`.
    """
    row_bytes = 0
    shared: list[int] = []
    for number, field in enumerate(batch.schema):
        is_dictionary = pa.types.is_dictionary(field.type)
        kind = field.type.value_type if is_dictionary else field.type
        is_shared = is_dictionary or kind in _VIEWS
        if field.name in wanted and kind in _STRINGS and is_shared:
            column = batch.column(number)
            with named_faults(
                f"column {field.name!r} must be valid Arrow data", argument=field.name
            ):
                column.validate(full=True)
            values = column.dictionary if is_dictionary else column
            row_bytes += int(string_lengths(values).max(initial=0))
            shared.append(number)
    if not shared:
        yield batch
        return
    n_rows = max(1, BYTES_PER_BATCH // max(row_bytes, 1))
    for first in range(0, max(batch.num_rows, 1), n_rows):
        piece = batch.slice(first, n_rows)
        for number in shared:
            name, column = piece.schema.names[number], piece.column(number)
            piece = piece.set_column(number, name, plain_column(column))
        yield piece


def _row_bytes(parquet: pa.parquet.ParquetFile) -> int:
    """About the bytes of a row, estimated from footer and schema."""
    metadata = parquet.metadata
    n_bytes = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    widths = [
        4 * field.type.list_size
        for field in parquet.schema_arrow
        if pa.types.is_fixed_size_list(field.type)
    ]
    return int(max(1, n_bytes // max(metadata.num_rows, 1), *widths))
