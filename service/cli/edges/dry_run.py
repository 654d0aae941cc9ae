"""Dry run of an ingest: files are read and checked whole, and nothing is kept."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.edges.deletions_cost import DeletionsCost, ingest_memory
from peewit.service.cli.edges.edge_files import listed
from peewit.service.cli.option_names import as_options
from peewit.service.cli.session import echo, print_json, print_rows
from peewit.service.graphs.table_notes import columns_before, local_file, table_note
from peewit.service.home import Home
from peewit.service.inbox.edge_reports import FileReport, file_report
from peewit.service.inbox.file_times import FileTimes
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.inbox.typed_graphs import as_typed
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.edges.sources import EdgeFiles

_SHOWN_FAULTS = 10


def dry_run(
    home: Home,
    graph: GraphRecord,
    urls: Sequence[str],
    columns: Mapping[str, str],
    max_bad_rows: int,
    *,
    as_json: bool,
) -> None:
    """Tell what would be read, its faults and its memory; exit 1 if a file would be refused."""
    started = time.monotonic()
    named = edge_columns(graph.settings.columns_of_edges, columns)
    if any(named.said_kinds) and not graph.progress.edges_seen:
        graph = as_typed(graph)
    before = columns_before(graph, home.manifest.sources.list(graph.id))
    sources = [EdgeFiles(url, columns=named, max_bad_rows=MAX_BAD_ROWS) for url in urls]
    times = FileTimes.of(graph, home.settings.graphs_directory)
    reports = [
        replace(each, note=table_note(graph, home.nodes, local_file(each.path, named), before))
        for each in _reports(graph, sources, max_bad_rows, times)
    ]
    seconds = time.monotonic() - started
    n_rows = sum(report.n_rows for report in reports if report.refusal is None)
    n_bytes = ingest_memory(graph, home.settings, n_more=n_rows)
    cost = DeletionsCost.of(graph, home.settings, n_more=n_rows)
    if as_json:
        value = {
            "files": reports,
            "passed_over": [path for source in sources for path in source.skipped_files],
            "memory_bytes": n_bytes,
            "read_seconds": round(seconds, 3),
            "exact_deletions": cost,
        }
        print_json(value)
    else:
        _tell(reports, n_bytes, seconds, graph)
        if cost.are_on:
            echo(f"exact deletions add {cost}")
    if any(report.refusal is not None for report in reports):
        raise typer.Exit(1)


def _reports(
    graph: GraphRecord, sources: Sequence[EdgeFiles], max_bad_rows: int, times: FileTimes | None
) -> Iterator[FileReport]:
    with tempfile.TemporaryDirectory(prefix="peewit-") as directory:
        for source in sources:
            for file in listed(source):
                report = file_report(
                    graph, file, Path(directory), max_bad_rows=max_bad_rows, times=times
                )
                refusal = report.refusal
                yield replace(report, refusal=refusal and as_options(refusal))


def _kinds_text(report: FileReport) -> str | None:
    """Numbers of rows that delete or set, and of rows that come too late."""
    counts = [f"{count:,} {name}" for name, count in report.n_changes.items()]
    if report.n_late:
        counts.append(f"{report.n_late:,} too late for the window")
    return ", ".join(counts) or None


def _tell(reports: Sequence[FileReport], n_bytes: int, seconds: float, graph: GraphRecord) -> None:
    print_rows(
        ("file", "rows", "of these", "bad rows", "refused"),
        (
            (each.path, each.n_rows, _kinds_text(each), len(each.bad_rows), each.refusal)
            for each in reports
        ),
    )
    relations = [
        (report.path if not k else "", name, count, report.late_relations.get(name, 0))
        for report in reports
        for k, (name, count) in enumerate(report.relations.items())
    ]
    if relations:
        headings = ("relations of", "relation", "edges", "too late")
        n_columns = len(headings) if any(report.late_relations for report in reports) else 3
        echo()
        print_rows(headings[:n_columns], [row[:n_columns] for row in relations])
    for report in reports:
        if report.first_rows:
            echo()
            rows = ((report.path if not k else "", *row) for k, row in enumerate(report.first_rows))
            print_rows(("first of", "src", "dst", "weight", "operation"), rows)
    for note in dict.fromkeys(each.note for each in reports if each.note):
        echo(f"\nnote: {as_options(note)}")
    faults = [(report.path, row) for report in reports for row in report.bad_rows]
    if faults:
        echo()
        print_rows(
            ("bad in", "row (from 0)", "reason", "value"),
            ((path, row.row, row.reason, row.value) for path, row in faults[:_SHOWN_FAULTS]),
        )
        if len(faults) > _SHOWN_FAULTS:
            echo(f"and {len(faults) - _SHOWN_FAULTS:,} more")
    echo(
        f"\nreading took {seconds:.1f} s; ingest takes at least that, and at least "
        f"{n_bytes / 2**20:,.0f} MiB for {graph.settings.expected_nodes:,} nodes"
    )
