"""`peewit features`: numbers that describe nodes."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.edges.reading import STOP_SECONDS, ended_when_stopped, renewer_for
from peewit.service.cli.labels.table_files import NodeOption, ZeroBased
from peewit.service.cli.progress import RowProgress
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    echo,
    open_home,
    print_json,
    say,
    stderr_console,
)
from peewit.service.database.lease_keeper import LeaseHeld
from peewit.service.home import Home
from peewit.service.inbox.feature_log import FeatureSetRecord
from peewit.service.inbox.feature_tables import MATRIX_SUFFIX, n_rows_known, path_blocks
from peewit.service.inbox.typed_graphs import kinds_named, typed_graph
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.service.tables.column_names import column_list, column_wishes
from peewit.service.tables.uploads.joined_features import NodeTable, join_tables, joined_file
from peewit.streaming.edges.reading_options import NodelessRows
from peewit.streaming.edges.table_formats import format_of_file
from peewit.streaming.features.checked_tables import NODE, FeatureBlock
from peewit.streaming.graph_stream import Interrupted

app = command_group()

_WATCH_SECONDS = 1.0


@app.command()
def features(
    name: GraphName,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help=(
                "Column node, and features (lists of equal length) or indices and values, "
                "in .parquet, .arrow or .ndjson. A .csv or .tsv has node and a column for "
                "each number. All of these may end in .gz or .zst. Or one .npz of "
                "scipy.sparse.save_npz, whose row i is node i."
            ),
            exists=True,
            dir_okay=False,
        ),
    ],
    from_libsvm: Annotated[
        bool, typer.Option("--from-libsvm", help="One file of libsvm text, row i being node i.")
    ] = False,
    zero_based: ZeroBased = False,
    node: NodeOption = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            metavar="COLUMN,...",
            help="Columns of texts: their words become features, by a hash.",
        ),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(
            "--without",
            metavar="COLUMN,...",
            help="Columns that become no features, as one that holds the label.",
        ),
    ] = None,
    missing_ids: Annotated[
        NodelessRows,
        typer.Option(
            "--missing-ids",
            help="Rows that name no node: refuse the table, or leave them out and say so.",
        ),
    ] = "refuse",
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help=(
                "The tables have other columns of the same nodes: join them by node, with gaps "
                "where one lacks it. --node may name the column of each, with commas between."
            ),
        ),
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Add rows or overwrite those of these nodes; others stay.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Give nodes features; nodes that the graph does not know are created.

    All files together replace what there is, unless --add is given. The set is taken whole or not
    at all. Columns of tables that are joined keep their names; those of equal names get that of
    their file before them, as accounts.age.
    """
    if zero_based and not from_libsvm:
        raise typer.BadParameter("must stand beside --from-libsvm", param_hint="--zero-based")
    for value, flag in ((text, "--text"), (without, "--without")):
        if value and (from_libsvm or any(path.suffix == MATRIX_SUFFIX for path in paths)):
            raise typer.BadParameter("a matrix has no columns by name", param_hint=flag)
    if join and (from_libsvm or any(path.suffix == MATRIX_SUFFIX for path in paths)):
        raise typer.BadParameter("a matrix has no column of nodes", param_hint="--join")
    for path in () if from_libsvm else paths:
        if path.suffix != MATRIX_SUFFIX:
            try:
                format_of_file(path.name)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="PATH") from error
    started = time.monotonic()
    with open_home() as home:
        graph = home.graph(name)
        column = node or graph.settings.columns.get(NODE, NODE)
        columns = _columns_of(paths, column) if join else [column]
        for each in columns:
            graph = typed_graph(home.database, graph, kinds_named({NODE: each}))
        with ExitStack() as stack, StopSignal() as stop, exit_after_signal(STOP_SECONDS):
            with ended_when_stopped("nothing was taken"):
                if join:
                    one = _joined(home, graph, paths, columns, missing_ids)
                    paths, column = [stack.enter_context(one)], NODE
                blocks = path_blocks(
                    graph,
                    paths,
                    is_libsvm=from_libsvm,
                    zero_based=zero_based,
                    node=column,
                    encoding=home.features.encoding(graph) if add else None,
                    wishes=column_wishes(text, without, missing_ids),
                    n_threads=home.settings.n_threads,
                )
                n_rows = None if from_libsvm else n_rows_known(paths)
                progress = RowProgress(stderr_console(), n_rows)
                with nullcontext() if json else progress:
                    taken = home.features.add(
                        graph,
                        _watch_blocks(blocks, stop, progress, is_quiet=json),
                        mode="add" if add else "replace",
                    )
            with ended_when_stopped(
                f"the features are on disk, `peewit ingest {name}` takes them in"
            ):
                ended = _commit(home, graph, taken, stop)
        _tell(home, name, ended, time.monotonic() - started, as_json=json)
    if ended.note is not None:
        say(f"note: {ended.note}")
    if ended.status == "refused":
        say(f"peewit: {ended.fault}")
        raise typer.Exit(1)


def _columns_of(paths: Sequence[Path], node: str) -> list[str]:
    """The column of nodes of each table, of which ``node`` names one for all or one for each."""
    columns = column_list(node, "node")
    if len(columns) not in {1, len(paths)}:
        rule = f"must name one column, or one for each of the {len(paths)} tables"
        raise typer.BadParameter(f"{rule}, got {len(columns)}", param_hint="--node")
    return list(columns) * (len(paths) // len(columns))


@contextmanager
def _joined(
    home: Home,
    graph: GraphRecord,
    paths: Sequence[Path],
    columns: Sequence[str],
    missing_ids: NodelessRows,
) -> Iterator[Path]:
    """One table of all columns, while it is needed."""
    tables = [NodeTable(path=path, node=node) for path, node in zip(paths, columns, strict=True)]
    settings = graph.settings
    with TemporaryDirectory(dir=home.settings.home) as directory:
        target = Path(directory) / joined_file([path.name for path in paths])
        n_left_out = join_tables(
            *(tables, target),
            node_kind=settings.node_ids,
            max_nodes=settings.max_nodes,
            missing_ids=missing_ids,
        )
        if n_left_out:
            say(f"note: rows that name no node were left out: {n_left_out:,}")
        yield target


def _watch_blocks(
    blocks: Iterable[FeatureBlock], stop: StopSignal, progress: RowProgress, *, is_quiet: bool
) -> Iterator[FeatureBlock]:
    """The blocks, with progress shown; raises `Interrupted` at a signal."""
    for block in blocks:
        if stop():
            raise Interrupted
        if not is_quiet:
            progress.advance(block.n_rows)
        yield block


def _commit(
    home: Home, graph: GraphRecord, taken: FeatureSetRecord, stop: StopSignal
) -> FeatureSetRecord:
    """The set once it has ended, brought into the graph here or by another process."""
    is_told = False
    while True:
        try:
            with (
                renewer_for(home, graph.id) as renewer,
                Ingestor(home.database, home.settings, renewer=renewer).open_graph(
                    graph.id, should_stop=stop
                ) as opened,
            ):
                opened.commit_features()
        except LeaseHeld:
            if not is_told:
                say("another process ingests this graph; waiting for it to take the features")
                is_told = True
        ended = home.manifest.feature_log.get(graph.id, taken.id)
        if ended.status != "pending":
            return ended
        if stop.wait(_WATCH_SECONDS):
            raise Interrupted


def _tell(home: Home, name: str, ended: FeatureSetRecord, seconds: float, *, as_json: bool) -> None:
    """Print what the graph has now."""
    status = home.features.status(home.graph(name))
    if as_json:
        print_json({"graph": name, "set": ended, "features": status, "seconds": round(seconds, 3)})
    elif ended.status == "committed":
        kind = "sparse " if ended.is_sparse else ""
        echo(
            f"{name}: {ended.n_rows:,} {kind}rows of {ended.n_columns:,} columns, "
            f"{ended.n_new_nodes:,} new nodes, {seconds:.1f} s"
        )
        echo(f"features_version {ended.features_version}: {status.n_missing:,} nodes without a row")
