"""`peewit ingest`: one pass over some files, or the daemon that follows all sources."""

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import Annotated, Any

import typer

from peewit.service.cli.edges.absolute_urls import absolute_url
from peewit.service.cli.edges.dry_run import dry_run
from peewit.service.cli.edges.edge_files import listed
from peewit.service.cli.edges.outcome import tell_outcome
from peewit.service.cli.edges.reading import STOP_SECONDS, ended_when_stopped, files_of, read_all
from peewit.service.cli.edges.table_options import DirectedOption, FileRules
from peewit.service.cli.machine.version_and_health import role_fault
from peewit.service.cli.option_groups import with_groups
from peewit.service.cli.option_names import as_options
from peewit.service.cli.progress import fault_text
from peewit.service.cli.session import AsJson, command_group, given, keep_columns, open_home, say
from peewit.service.graphs.directed_relations import directed_relation, mark_directed
from peewit.service.graphs.table_notes import LOOKED_AT, columns_before, local_file, table_note
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import FileRecord, FileStatus, SourceRecord
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.service.logs import configure_logging
from peewit.service.operations.tables import EdgeColumnNames
from peewit.service.process_lifetime import (
    StopSignal,
    end_now,
    exit_after_signal,
    stop_when_stdin_ends,
)
from peewit.service.redaction import shown_url
from peewit.service.settings import Settings
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.table_formats import packed_otherwise

app = command_group()


@app.command()
@with_groups
def ingest(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the graph.")] = None,
    locations: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH|URL|GLOB...",
            help="Files with src, dst and weight: .parquet, .csv, .tsv, .ndjson, .arrow, also .gz "
            "and .zst. None: what waits already.",
        ),
    ] = None,
    *,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="MODULE:NAME",
            help=(
                "Edges from dask, in place of a PATH: a frame, a bag or a list of delayed "
                "tables in a Python module, or a function that returns one of these."
            ),
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Run as daemon over all graphs; takes no NAME.")
    ] = False,
    columns: EdgeColumnNames,
    directed: DirectedOption = False,
    rules: FileRules,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Read and check the files, and keep nothing.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="Threads to read and score with; all by default.", min=1)
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Most resident memory, as 2.5GiB; buffer and blocks are sized for it.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="With --follow: show metrics on this port of loopback.", min=1, max=65535
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a dask scheduler, tcp://HOST:PORT, whose workers sparsify the files; "
            "threads without it.",
        ),
    ] = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
    json: AsJson = False,
) -> None:
    """Bring edges into a graph.

    Run again, it goes on where it stopped. It exits with 1 when a file was refused, with 130 when
    it was stopped, and with 75 when another process took the graph over. While a daemon ingests the
    graph, this adds the sources and waits for it. Columns that are named are kept with the sources,
    and with the graph where it names none yet.
    """
    chosen = given(
        threads=threads, memory_limit=memory_limit, metrics_port=metrics_port, scheduler=scheduler
    )
    settings = Settings(**chosen)
    if follow:
        if name is not None:
            raise typer.BadParameter("--follow serves all graphs and takes no NAME")
        if dask is not None:
            raise typer.BadParameter("--follow reads sources, and takes no --dask")
        _follow(settings, until_stdin_ends=until_stdin_ends)
        return
    if metrics_port is not None:
        raise typer.BadParameter("--metrics-port needs --follow")
    if name is None:
        raise typer.BadParameter("give the NAME of a graph, or --follow")
    started = monotonic()
    with open_home(settings) as home:
        graph = home.graph(name)
        graph_id = graph.id
        named, of_sources = given(**vars(columns)), rules.said()
        has_options = named or dry or of_sources or directed
        if not (locations or dask) and has_options:
            raise typer.BadParameter(
                "--src, --dst, --weight, --op, --time, --relation, --directed, --relation-column, "
                "--src-kind-column, --dst-kind-column, --entity, --via, --time-unit, "
                "--time-format, --quote, --missing-ids, --skip-bad-rows, --replace, --again and "
                "--dry-run need a PATH, or --dask"
            )
        called = edge_columns(graph.settings.columns_of_edges, named)
        directed_one = directed_relation(columns.relation, is_directed=directed)
        if dask is not None:
            if locations or dry or {*of_sources} - {"max_bad_rows"}:
                rule = (
                    "must stand without a PATH, --dry-run, --replace, --again and their opposites"
                )
                raise typer.BadParameter(f"{rule}, got {dask}", param_hint="--dask")
            if mark_directed(home.catalog, graph, directed_one):
                say(f"solves of {name} count what its nodes send and receive in {directed_one}")
                graph = home.graph(name)
            from peewit.service.cli.edges.dask_edges import ingest_dask  # noqa: PLC0415 - dask loads slowly

            is_whole = ingest_dask(
                home, graph, dask, called, rules.skip_bad_rows or 0, as_json=json
            )
            keep_columns(home, graph, named)
            if not is_whole:
                raise typer.Exit(1)
            return
        if dry:
            urls = [absolute_url(location) for location in locations or ()]
            dry_run(home, graph, urls, named, rules.skip_bad_rows or 0, as_json=json)
            return
        n_bad_before = home.manifest.n_bad_rows(graph_id)
        sources_before = home.manifest.sources.list(graph_id)
        sources, paths = _add_sources(
            home, graph_id, locations or (), columns=named or None, **of_sources
        )
        for source in sources:
            if otherwise := _read_otherwise(home, source, sources_before):
                say(f"note: {otherwise}")
        if mark_directed(home.catalog, graph, directed_one):
            say(f"solves of {name} count what its nodes send and receive in {directed_one}")
            graph = home.graph(name)
        if twice := _packed_twice(home, graph_id, paths):
            say(f"note: {twice}")
        before = columns_before(graph, sources_before)
        shared = [
            note
            for path in sorted(paths)[:LOOKED_AT]
            if (
                note := table_note(
                    graph, home.nodes, local_file(path, called), before, tells_ids=False
                )
            )
        ]
        if rules.again and (n_there := home.manifest.n_read_once(graph_id, paths)):
            say(
                f"{n_there:,} of the files came by this very path and are not read again; copy one "
                "under another name to mean it"
            )
        with (
            StopSignal() as stop,
            exit_after_signal(STOP_SECONDS),
            ended_when_stopped("the same command goes on from here"),
        ):
            shown_paths = read_all(home, graph_id, sources, stop, is_quiet=json)
        refused = _files_not_taken(home, graph_id, paths, "quarantined")
        repeated = _files_not_taken(home, graph_id, paths, "duplicate") if paths else []
        has_read = home.graph(name).progress.edges_seen > graph.progress.edges_seen
        if has_read and len(refused) < len(paths):
            said = next((dict(each.columns) for each in sources if each.columns), {})
            keep_columns(home, graph, named or said)
        ids_before = {source.id for source in sources_before}
        _remove_spent(home, graph_id, [each for each in sources if each.id not in ids_before])
        n_bad = home.manifest.n_bad_rows(graph_id) - n_bad_before
        tell_outcome(
            home, graph, refused, repeated, monotonic() - started, n_bad_rows=n_bad, as_json=json
        )
        if has_read and shared and not json:
            say(f"note: {as_options(shared[0])}")
    for word, files in {"quarantined": refused, "skipped": repeated}.items():
        for file in () if json else files:
            if file.path not in shown_paths:
                fault = fault_text(file.reason, file.row, file.value)
                say(f"{word} {shown_url(file.path)}: {fault}")
    if refused:
        raise typer.Exit(1)


def _packed_twice(home: Home, graph_id: str, paths: Collection[str]) -> str | None:
    """That a file comes which was read before as it lay unpacked, or packed otherwise."""
    for path in sorted(paths)[:LOOKED_AT]:
        others = packed_otherwise(path)
        is_there = home.manifest.n_read_once(graph_id, others) or not others.isdisjoint(paths)
        if is_there and not home.manifest.n_read_once(graph_id, [path]):
            return (
                f"{path} is the name of another file too, unpacked or packed otherwise; where both "
                "hold the same rows, these count twice"
            )
    return None


def _follow(settings: Settings, *, until_stdin_ends: bool) -> None:
    from peewit.service.ingest.daemon import IngestDaemon  # noqa: PLC0415 - one pass needs none

    configure_logging(settings.log_level, settings.log_format)
    with (
        StopSignal() as stop,
        ExitStack() as last,
        exit_after_signal(STOP_SECONDS, at_exit=last.close),
        open_home(settings) as home,
    ):
        if until_stdin_ends:
            stop_when_stdin_ends()
        with Renewer(home.database, delay_seconds=None) as renewer:
            daemon = IngestDaemon(home.database, settings, renewer=renewer)
            last.callback(daemon.lister.release)
            daemon.run(stop, partial(role_fault, "ingest"))
    end_now(0)


def _add_sources(
    home: Home, graph_id: str, locations: Sequence[str], **reading: Any
) -> tuple[list[SourceRecord], set[str]]:
    """The sources of these places, and their files; none is added if one of them is missing."""
    urls = [absolute_url(location) for location in locations]
    paths: set[str] = set()
    for url in urls:
        files = listed(EdgeFiles(url))
        paths.update(file.path for file in files)
        if not files:
            raise FileNotFoundError(
                f"PATH must name tables (of a directory those whose names end like one), none is "
                f"there: {shown_url(url)!r}; `peewit source add --follow` waits for them"
            )
    return [home.manifest.sources.add(graph_id, url, **reading) for url in urls], paths


def _read_otherwise(home: Home, source: SourceRecord, before: Sequence[SourceRecord]) -> str | None:
    """That files of a place are in the graph by other columns than are asked for now."""
    earlier = next((each for each in before if each.id == source.id), source)
    n_files = home.manifest.counts(source.graph_id, source_id=source.id)["committed"]
    if earlier.columns == source.columns or not n_files:
        return None
    said = ", ".join(f"{name}={value}" for name, value in (earlier.columns or {}).items())
    return (
        f"{n_files:,} files of {shown_url(source.url)} were read with "
        f"{said or 'the columns of the graph'}. A file is not read again with others: name "
        "all columns at once by --via, or copy it to another name and add --again"
    )


def _remove_spent(home: Home, graph_id: str, sources: Sequence[SourceRecord]) -> None:
    """Remove sources of one pass whose files another source has given: daemons would go on.

    A source of an earlier command is somebody's, and stays.
    """
    for source in sources:
        if not home.manifest.has_files(source.id):
            home.manifest.sources.remove(graph_id, source.id)


def _files_not_taken(
    home: Home, graph_id: str, paths: Collection[str], status: FileStatus
) -> list[FileRecord]:
    """Files whose newest version ended so, of these paths or of all if none is named."""
    if not home.manifest.counts(graph_id)[status]:
        return []
    newest = {file.path: file for file in files_of(home, graph_id, ())}
    return [
        file
        for file in newest.values()
        if file.status == status and (not paths or file.path in paths)
    ]
