"""Edge reports: what an ingest would take from a file, and what it would refuse.

Files are read and checked whole for commands and pages, and nothing is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.file_times import FileTimes
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.redaction import shown_url
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.conversion import TooManyBadRows, too_many
from peewit.streaming.edges.operations import DELETIONS_OFF, INSERT, OPERATIONS
from peewit.streaming.edges.parts import BadRow, EdgeFile, StagedFile
from peewit.streaming.edges.reader import read_part
from peewit.streaming.edges.staging import stage

_FIRST_ROWS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What a file holds."""

    path: str
    n_rows: int = 0  # rows that are taken
    first_rows: Sequence[tuple[object, object, float, str]] = ()  # src, dst, weight, operation
    n_changes: Mapping[str, int] = field(default_factory=dict)  # rows that delete or set
    bad_rows: Sequence[BadRow] = ()  # those that break a rule
    refusal: str | None = None  # why an ingest would not take the file
    digest: str | None = None  # of a file that could be read
    n_late: int | None = None  # rows older than the window; None without a column of times
    note: str | None = None  # to be known before it is taken
    relations: Mapping[str, int] = field(default_factory=dict)  # named ones with their edges
    late_relations: Mapping[str, int] = field(default_factory=dict)  # as n_late, of named ones


def file_report(
    graph: GraphRecord,
    file: EdgeFile,
    directory: Path,
    *,
    max_bad_rows: int,
    times: FileTimes | None,
) -> FileReport:
    """What a file would bring to a graph.

    ``directory`` receives a copy while the file is read. With more than ``max_bad_rows`` the file
    would be refused; beyond ``file.max_bad_rows`` they are looked for only where they are counted
    quickly. ``times`` are of the files so far, in a graph with a window by time.
    """
    kind, max_nodes = graph.settings.node_ids, graph.settings.max_nodes
    try:
        with stage(file, directory, node_kind=kind, max_nodes=max_nodes) as staged:
            return _look(graph, staged, max_bad_rows, times)
    except TooManyBadRows as error:
        if error.n_bad_rows is not None and file.max_bad_rows < error.n_bad_rows <= MAX_BAD_ROWS:
            looked_for = replace(file, max_bad_rows=error.n_bad_rows)
            return file_report(graph, looked_for, directory, max_bad_rows=max_bad_rows, times=times)
        refusal = str(error)
    except BadEdges as error:
        refusal = str(error)
    except OSError as error:
        refusal = f"it cannot be read now: {error}"
    if times is not None:
        times.forget_file()
    return FileReport(path=shown_url(file.path), refusal=refusal)


def _look(
    graph: GraphRecord, staged: StagedFile, max_bad_rows: int, times: FileTimes | None
) -> FileReport:
    """Read and check a file; raises BadEdges where a part of it breaks a rule."""
    kind, max_nodes = graph.settings.node_ids, graph.settings.max_nodes
    first: list[tuple[object, object, float, str]] = []
    counts = np.zeros(len(OPERATIONS), np.int64)
    relations = dict.fromkeys(staged.relations, 0)
    for part in staged.parts:
        relations[part.relation] += part.n_rows
    is_read_whole = staged.columns.op or staged.columns.via or times is not None
    for part in staged.parts[: None if is_read_whole else 1]:
        block = read_part(staged, part, node_kind=kind, max_nodes=max_nodes)
        if times is not None:
            times.look(block, part.relation)
        op = np.zeros(block.n_rows, np.uint8) if block.op is None else block.op
        counts += np.bincount(op, minlength=counts.size)
        relations[part.relation] -= block.n_empty
        if not first:
            rows = np.arange(block.n_rows)
            if block.cells:
                rows = rows[np.array(block.cells[0].is_valid())]
            rows = rows[:_FIRST_ROWS]
            ends = (column.take(pa.array(rows)).to_pylist() for column in (block.src, block.dst))
            weights = block.weight[rows].tolist()
            done = [OPERATIONS[code] for code in op[rows]]
            first = list(zip(*ends, weights, done, strict=True))
    changes = dict(zip(OPERATIONS, counts.tolist(), strict=True))
    del changes[OPERATIONS[INSERT]]
    refusal = None
    if any(changes.values()) and graph.settings.deletions == "off":
        refusal = DELETIONS_OFF
    if len(staged.bad_rows) > max_bad_rows:
        refusal = str(too_many(staged.bad_rows[max_bad_rows], len(staged.bad_rows)))
    if times is not None and refusal is not None:
        times.forget_file()
    late = None if times is None or refusal is not None else times.end()
    return FileReport(
        path=shown_url(staged.file.path),
        n_rows=staged.n_rows,
        first_rows=first,
        n_changes={name: count for name, count in changes.items() if count},
        bad_rows=staged.bad_rows,
        refusal=refusal,
        digest=staged.digest,
        relations={name: count for name, count in relations.items() if name},
        n_late=None if late is None else sum(late.values()),
        late_relations={name: count for name, count in (late or {}).items() if name},
    )
