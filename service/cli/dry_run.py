"""Dry run of an ingest: files are read and checked whole, and nothing is kept."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.deletions_cost import DeletionsCost, ingest_memory
from peewit.service.cli.dry_run_times import FileTimes
from peewit.service.cli.edge_files import listed
from peewit.service.cli.option_names import as_options
from peewit.service.cli.session import Session, print_json, print_rows
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.redaction import shown_url
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.operations import DELETIONS_OFF, INSERT, OPERATIONS
from peewit.streaming.edges.parts import BadRow, EdgeFile
from peewit.streaming.edges.reader import read_part
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage

_FIRST_ROWS = 3
_SHOWN_FAULTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What a file holds.

    Attributes
    ----------
    path : str
        Which one.
    n_rows : int
        Rows that are taken.
    first_rows : list of (src, dst, weight, operation)
        The first of them.
    n_changes : dict of str to int
        Rows that delete or set, by operation, where there are any.
    bad_rows : tuple of BadRow
        Rows that break a rule.
    refusal : str or None
        Why an ingest would not take the file.
    n_late : int or None
        Rows that would be left out as they are older than the window; None in graphs where no
        column tells that.
    """

    path: str
    n_rows: int = 0
    first_rows: Sequence[tuple[object, object, float, str]] = ()
    n_changes: Mapping[str, int] = field(default_factory=dict)
    bad_rows: Sequence[BadRow] = ()
    refusal: str | None = None
    n_late: int | None = None


def dry_run(
    session: Session,
    graph: GraphRecord,
    urls: Sequence[str],
    columns: Mapping[str, str],
    max_bad_rows: int,
    *,
    as_json: bool,
) -> None:
    """Tell what would be read, what is wrong with it, and the memory that it takes.

    Exits with 1 when a file would be refused.
    """
    started = time.monotonic()
    named = edge_columns(graph.settings.columns_of_edges, columns)
    sources = [EdgeFiles(url, columns=named, max_bad_rows=MAX_BAD_ROWS) for url in urls]
    times = FileTimes.of(graph, session.settings.graphs_directory)
    reports = list(_reports(graph, sources, max_bad_rows, times))
    seconds = time.monotonic() - started
    n_bytes = ingest_memory(graph, session.settings)
    n_rows = sum(report.n_rows for report in reports if report.refusal is None)
    cost = DeletionsCost.of(graph, session.settings, n_more=n_rows)
    if as_json:
        value = {
            "files": reports,
            "passed_over": [path for source in sources for path in source.passed_over],
            "memory_bytes": n_bytes,
            "read_seconds": round(seconds, 3),
            "exact_deletions": cost,
        }
        print_json(value)
    else:
        _tell(reports, n_bytes, seconds, graph)
        if cost.are_on:
            typer.echo(f"exact deletions add {cost}")
    if any(report.refusal is not None for report in reports):
        raise typer.Exit(1)


def _reports(
    graph: GraphRecord,
    sources: Sequence[EdgeFiles],
    max_bad_rows: int,
    times: FileTimes | None,
) -> Iterator[FileReport]:
    with tempfile.TemporaryDirectory(prefix="peewit-") as directory:
        for source in sources:
            for file in listed(source):
                yield _report(graph, file, Path(directory), max_bad_rows, times)


def _report(
    graph: GraphRecord,
    file: EdgeFile,
    directory: Path,
    max_bad_rows: int,
    times: FileTimes | None,
) -> FileReport:
    kind, max_nodes = graph.settings.node_ids, graph.settings.max_nodes
    try:
        with stage(file, directory, node_kind=kind, max_nodes=max_nodes) as staged:
            first: list[tuple[object, object, float, str]] = []
            counts = np.zeros(len(OPERATIONS), np.int64)
            is_read_whole = staged.columns.op or times is not None
            for part in staged.parts[: None if is_read_whole else 1]:
                block = read_part(staged, part, node_kind=kind, max_nodes=max_nodes)
                if times is not None:
                    times.look(block)
                op = np.zeros(block.n_rows, np.uint8) if block.op is None else block.op
                counts += np.bincount(op, minlength=counts.size)
                if not first:
                    ends = (column[:_FIRST_ROWS].to_pylist() for column in (block.src, block.dst))
                    weights = block.weight[:_FIRST_ROWS].tolist()
                    done = [OPERATIONS[each] for each in op[:_FIRST_ROWS]]
                    first = list(zip(*ends, weights, done, strict=True))
            changes = dict(zip(OPERATIONS, counts.tolist(), strict=True))
            del changes[OPERATIONS[INSERT]]
            refusal = None
            if any(changes.values()) and graph.settings.deletions == "off":
                refusal = DELETIONS_OFF
            if len(staged.bad_rows) > max_bad_rows:
                refusal = (
                    f"{len(staged.bad_rows):,} bad rows; "
                    f"--skip-bad-rows {len(staged.bad_rows)} leaves them out"
                )
            if times is not None and refusal is not None:
                times.forget_file()
            return FileReport(
                path=shown_url(file.path),
                n_rows=staged.n_rows,
                first_rows=first,
                n_changes={name: count for name, count in changes.items() if count},
                bad_rows=staged.bad_rows,
                refusal=refusal,
                n_late=None if times is None or refusal is not None else times.end(),
            )
    except BadEdges as error:
        if times is not None:
            times.forget_file()
        return FileReport(path=shown_url(file.path), refusal=as_options(str(error)))
    except OSError as error:
        return FileReport(path=shown_url(file.path), refusal=f"it cannot be read now: {error}")


def _kinds_text(report: FileReport) -> str | None:
    """How many rows delete and set, and how many come too late."""
    told = [f"{count:,} {name}" for name, count in report.n_changes.items()]
    if report.n_late:
        told.append(f"{report.n_late:,} too late for the window")
    return ", ".join(told) or None


def _tell(reports: Sequence[FileReport], n_bytes: int, seconds: float, graph: GraphRecord) -> None:
    print_rows(
        ("file", "rows", "of these", "bad rows", "refused"),
        (
            (each.path, each.n_rows, _kinds_text(each), len(each.bad_rows), each.refusal)
            for each in reports
        ),
    )
    for report in reports:
        if report.first_rows:
            typer.echo()
            rows = ((report.path if not k else "", *row) for k, row in enumerate(report.first_rows))
            print_rows(("first of", "src", "dst", "weight", "operation"), rows)
    faults = [(report.path, row) for report in reports for row in report.bad_rows]
    if faults:
        typer.echo()
        print_rows(
            ("bad in", "row (from 0)", "reason", "value"),
            ((path, row.row, row.reason, row.value) for path, row in faults[:_SHOWN_FAULTS]),
        )
        if len(faults) > _SHOWN_FAULTS:
            typer.echo(f"and {len(faults) - _SHOWN_FAULTS:,} more")
    typer.echo(
        f"\nreading took {seconds:.1f} s; ingest takes at least that, and at least "
        f"{n_bytes / 2**20:,.0f} MiB for {graph.settings.expected_nodes:,} nodes"
    )
