"""Upload limits: rows, columns and decoded bytes of a table, however small its body is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from peewit.service.tables.uploads.faults import TableTooLarge

ROWS: Final = "rows", "PEEWIT_MAX_BODY_ROWS"
LABEL_ROWS: Final = "label_rows", "PEEWIT_MAX_LABEL_ROWS"
COLUMNS: Final = "columns", "PEEWIT_MAX_COLUMNS"
"""Name of a limit in errors, and the setting that raises it."""

BYTES_PER_COLUMN: Final = 10 << 10
"""Measured overhead of Arrow for a CSV column; other formats take less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Most rows, columns and decoded bytes of a table."""

    rows: int
    label_rows: int  # lower, since labels become Python values
    columns: int  # nested and unread ones, too
    decoded_bytes: int
    batch_bytes: int  # decoded at once: a page of Parquet, a batch of Arrow


def require_at_most(n_found: int, most: int | None, rule: tuple[str, str]) -> None:
    """Refuse more rows or columns than ``most``; ``rule`` names the limit and its setting."""
    if most is not None and n_found > most:
        name, variable = rule
        raise TableTooLarge(
            f"{name} must be at most {most}; send the table in pieces, or raise {variable}",
            argument=name,
            value=n_found,
        )


def require_decodable(n_bytes: int, n_at_once: int, limits: UploadLimits) -> None:
    """Refuse what takes too much memory, before anything is decompressed."""
    if n_bytes > limits.decoded_bytes:
        raise TableTooLarge(
            f"decoded_bytes must be at most {limits.decoded_bytes}; send the table in pieces, or "
            "raise PEEWIT_MAX_DECODED_BYTES",
            argument="decoded_bytes",
            value=n_bytes,
        )
    if n_at_once > limits.batch_bytes:
        raise TableTooLarge(
            f"batch_bytes must be at most {limits.batch_bytes} in a page or batch once it is "
            "decoded; write smaller ones, or raise PEEWIT_MAX_BODY_BYTES",
            argument="batch_bytes",
            value=n_at_once,
        )


def counted(
    batches: Iterable[pa.RecordBatch], limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    """The same batches, refused once they exceed the limits, since metadata may be wrong."""
    n_rows = n_bytes = 0
    for batch in batches:
        if limits is not None:
            n_rows += batch.num_rows
            n_bytes += batch.nbytes
            require_at_most(n_rows, limits.rows, ROWS)
            require_decodable(n_bytes, 0, limits)
        yield batch


def columns_within(
    limits: UploadLimits | None, check: Callable[[Sequence[str]], None] | None = None
) -> Callable[[Sequence[str]], None]:
    """A check of column names: at most as many as the limit, and ``check``."""

    def look(names: Sequence[str]) -> None:
        if limits is not None:
            require_at_most(len(names), limits.columns, COLUMNS)
        if check is not None:
            check(names)

    return look
