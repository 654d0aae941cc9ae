"""`peewit labels put`, `list`, `export` and others: the labels that people give."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from peewit.service.cli.labels.table_files import (
    LabelColumnOption,
    LabelsOfFile,
    OutputFile,
    print_bytes,
    table_format,
    write_bytes,
)
from peewit.service.cli.operation_commands import add_command, here_of
from peewit.service.cli.option_groups import with_groups
from peewit.service.cli.option_names import as_options
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    given,
    keep_columns,
    open_home,
    print_json,
    print_rows,
    say,
    tell,
)
from peewit.service.labels.label_entry import LabelsRefused, encode_labels
from peewit.service.operations.labels import (
    ColumnsOfRows,
    LabelReading,
    LabelsOut,
    delete_labels,
    list_label_columns,
    put_labels,
)
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.uploads.label_words import left_out_text
from peewit.service.wire.labels import LabelColumnList, LabelOrigin
from peewit.streaming.edges.table_formats import Format

app = command_group()

_SHOWN = 10


@app.command()
@with_groups
def put(
    name: GraphName,
    file: Annotated[
        Path,
        typer.Argument(
            help="Columns node and label: .parquet, .csv, .tsv, .ndjson or .arrow, .gz or .zst",
            exists=True,
            dir_okay=False,
        ),
    ],
    *,
    unknown: Annotated[
        Literal["refuse", "keep"],
        typer.Option(help="Nodes that the graph does not know: refuse all, or keep their labels."),
    ] = "refuse",
    reading: LabelReading,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--label-column",
            metavar="NAME",
            help="Put a column of the file into that of the same name of the graph, instead of "
            "into the one without a name; repeatable. Empty cells say nothing.",
        ),
    ] = None,
    origin: Annotated[
        LabelOrigin | None,
        typer.Option(
            help="Where the labels come from: nodes were chosen by somebody (given), drawn at "
            "random, suggested by `peewit suggest`, or nobody knows (imported). Answers are not "
            "judged by suggested ones. By default each row's column origin says it, else imported."
        ),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who has given them; by default each row's column annotator says it, else nobody.",
        ),
    ] = None,
    of_rows: ColumnsOfRows,
    as_opinions: Annotated[
        bool,
        typer.Option(
            "--as-opinions",
            help="Keep them as the opinions of --annotator, beside the labels that others gave.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Put labels; the latest of a node wins.

    Columns that are named are kept with the graph where it names none yet. Where several label
    columns are put, all labels are put or none.
    """
    if names and reading.label is not None:
        raise typer.BadParameter("must be left out beside --label-column", param_hint="--label")
    if names and as_opinions:
        raise typer.BadParameter(
            "must be left out beside --label-column", param_hint="--as-opinions"
        )
    for option, value in (
        ("origin", of_rows.origin_column),
        ("annotator", of_rows.annotator_column),
    ):
        if as_opinions and value is not None:
            raise typer.BadParameter(
                "must be left out beside --as-opinions, which are all of one person",
                param_hint=f"--{option}-column",
            )
    with open_home() as home:
        graph, here, rows = home.graph(name), here_of(home), LabelsOfFile(file)
        named = given(node=reading.node, label=reading.label)
        if as_opinions:
            who = here.given_by(annotator)
            if origin is not None or unknown != "refuse":
                raise typer.BadParameter(
                    "must be left out beside --as-opinions, which are of labeled nodes",
                    param_hint="--unknown" if origin is None else "--origin",
                )
            if reading.contradictions == "opinions":
                raise typer.BadParameter(
                    "must be left out beside --as-opinions, which are all of one person",
                    param_hint="--contradictions",
                )
            columns = reading.columns(graph, time=of_rows.time_column)
            opinions = rows.labels(here, graph, columns)
            receipt = home.second_opinions.answer(graph, opinions[""], annotator=who)
            as_opinions_text = f"kept {receipt.accepted:,} opinions of {who}"
            out = as_options(left_out_text(opinions[""].left_out))
            tell("; ".join(filter(None, [as_opinions_text, out])), receipt, as_json=json)
            return
        try:
            answer = put_labels(
                here,
                graph,
                labels=rows,
                **vars(reading),
                **vars(of_rows),
                label_columns=names,
                unknown=unknown,
                origin=origin,
                annotator=annotator,
            )
            named |= given(
                origin=of_rows.origin_column,
                annotator=of_rows.annotator_column,
                label_time=of_rows.time_column,
            )
            keep_columns(home, graph, named)
        except LabelsRefused as error:
            if json:
                raise
            say(f"peewit: {as_options(str(error))}")
            for refused in error.receipt.refused[:_SHOWN]:
                say(f"  unknown node {refused}")
            raise typer.Exit(1) from error
    text = f"accepted {answer.accepted:,} labels, labels_seq {answer.labels_seq}"
    if not (answer.accepted or answer.left_out):
        text = f"{text}; {file} has no labels"
    more = map(as_options, (left_out_text(answer.left_out), answer.note or ""))
    tell("; ".join(filter(None, [text, *more])), answer, as_json=json)


def show_columns(answer: LabelColumnList, **_: object) -> None:
    """A line for each."""
    print_rows(
        ("column", "nodes", "labels"),
        (
            (each.name or "(without a name)", each.n_labeled, each.n_labels)
            for each in answer.label_columns
        ),
    )


add_command(app, list_label_columns, "columns", show=show_columns)


@app.command("list")
def list_labels(
    name: GraphName,
    label: Annotated[
        str | None, typer.Option("--label", metavar="LABEL", help="Only this label.")
    ] = None,
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those that this person has given.")
    ] = None,
    label_column: LabelColumnOption = None,
    n_labels: Annotated[int, typer.Option("-n", min=1, help="Most nodes.")] = 50,
    json: AsJson = False,
) -> None:
    """List labeled nodes, their labels, where these come from and who gave them, by their ids.

    Beside a person's name stands that of the key with which they signed.
    """
    with open_home() as home:
        store, graph = home.labels, home.graph(name)
        current = store.current(graph.id, column=label_column or "")
    names = ("node", "label", "origin", "annotator", "key")
    givers = (current.origins, current.annotators, current.keys)
    nodes, *said = (each.to_pylist() for each in (current.nodes, *givers))
    rows = sorted(zip(nodes, current.labels, *said, strict=True), key=lambda each: each[0])
    wanted = [
        each for each in rows if label in {None, str(each[1])} and annotator in {None, each[3]}
    ]
    if json:
        print_json([dict(zip(names, each, strict=True)) for each in wanted[:n_labels]])
        return
    print_rows(names, wanted[:n_labels])
    if len(wanted) > n_labels:
        of_column = f" --label-column {quote(label_column)}" if label_column else ""
        more = len(wanted) - n_labels
        say(f"and {more:,} more; `peewit labels export {name}{of_column}` writes them all")


def show_removed(receipt: LabelsOut, **_: object) -> None:
    """How many there were."""
    say(f"removed {receipt.accepted:,} labels, labels_seq {receipt.labels_seq}")


add_command(app, delete_labels, "remove", show=show_removed)


@app.command()
def export(
    name: GraphName,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The same as --output.")
    ] = None,
    output: OutputFile = None,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Write the present label of every labeled node, ready to be put again."""
    if file is not None and output is not None:
        raise typer.BadParameter("give FILE or --output, not both", param_hint="--output")
    output = output or file
    labels_format = Format.CSV if output is None else table_format(output, "--output")
    if json and output is None:
        labels_format = Format.NDJSON
    with open_home() as home:
        graph = home.graph(name)
        current = home.labels.current(graph.id, column=label_column or "")
    columns = label_columns(graph.settings.columns, given(label=label_column))
    pieces = encode_labels(current, graph.settings.node_ids, labels_format, columns)
    if output is None:
        print_bytes(pieces)
        return
    write_bytes(output, pieces)
    n_labels = len(current.labels)
    value = {"path": output, "n_labels": n_labels, "labels_seq": current.labels_seq}
    tell(f"wrote {n_labels:,} labels to {output}", value, as_json=json)
