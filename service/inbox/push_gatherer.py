"""Push gatherer: joins waiting pushes into few files, since each file of the stream has a cost.

The file is on disk before the manifest names it, and pushes join it in the transaction that does.
So a process killed at any line leaves pushes that wait or a file that waits, never both.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet

from peewit.service.catalog import GraphRecord
from peewit.service.database.leases import Lease
from peewit.service.inbox.block_rows import RELATED
from peewit.service.inbox.push_log import PushLog, UngatheredPush
from peewit.service.inbox.pushes import RelationsNamed, block_schema, write_block

GATHER_ROWS: Final = 1 << 22
GATHER_BYTES: Final = 1 << 26
"""A gathered file ends with the push that reaches either."""

_LOOK_AT: Final = 20_000
"""Pushes that are gathered together; more wait for the next round."""


def gather_pushes(
    log: PushLog,
    graph: GraphRecord,
    directory: Path,
    *,
    lease: Lease,
    admitted: Callable[[Sequence[UngatheredPush]], Sequence[UngatheredPush]] = lambda some: some,
) -> int:
    """Make pending files of the pushes that wait and are ``admitted``; returns how many files.

    The directory need not exist. Raises `LeaseExpired` where another process may ingest the graph.
    """
    n_files = 0
    for group in _groups(admitted(log.ungathered(graph.id, limit=_LOOK_AT))):
        _gather(log, graph, group, directory, lease)
        n_files += 1
    return n_files


def _groups(waiting: Sequence[UngatheredPush]) -> Iterator[list[UngatheredPush]]:
    """Consecutive pushes up to the bounds; a push that must be alone is a group."""
    group: list[UngatheredPush] = []
    n_rows = n_bytes = 0
    for push in waiting:
        if group and (push.is_alone or group[0].is_alone or _is_enough(n_rows, n_bytes)):
            yield group
            group, n_rows, n_bytes = [], 0, 0
        group.append(push)
        n_rows += push.n_rows
        n_bytes += push.n_bytes
    if group:
        yield group


def _is_enough(n_rows: int, n_bytes: int) -> bool:
    return n_rows >= GATHER_ROWS or n_bytes >= GATHER_BYTES


def _gather(
    log: PushLog, graph: GraphRecord, group: list[UngatheredPush], directory: Path, lease: Lease
) -> None:
    if len(group) == 1 and group[0].path:  # a file already
        path, name = Path(group[0].path), group[0].id
    else:
        name = uuid4().hex
        path = directory / f"{name}.parquet"
        directory.mkdir(parents=True, exist_ok=True)
        try:
            write_block(path, _tables(log, group), block_schema(graph, name))
        except RelationsNamed:
            path = directory / f"{name}{RELATED}"
            schema = block_schema(graph, name, has_relations=True)
            write_block(path, _tables(log, group), schema)
    log.gather(
        graph.id, group, path=str(path), version=name, n_bytes=path.stat().st_size, lease=lease
    )


def _tables(log: PushLog, group: Sequence[UngatheredPush]) -> Iterator[pa.Table]:
    """The blocks of some pushes in order; those on disk by row group."""
    contents = log.contents([push.id for push in group])
    for push, (_, content) in zip(group, contents, strict=True):
        if content is not None:
            yield pa.ipc.open_stream(content).read_all()
            continue
        with pa.parquet.ParquetFile(push.path) as block:
            for batch in block.iter_batches():
                yield pa.Table.from_batches([batch])
