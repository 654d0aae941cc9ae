"""`peewit labelstudio`: nodes out to Label Studio as tasks, and its annotations in as labels."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.labels.table_files import LabelColumnOption, write_bytes
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    say,
    tell,
)
from peewit.service.cli.solving.submission import require_success
from peewit.service.dashboard.node_media import Items
from peewit.service.home import Home
from peewit.service.label_studio.annotations import Agreed, RefusedTask, agreed, read_export
from peewit.service.label_studio.tasks import (
    CONTROL,
    IMAGE,
    TEXT,
    completed,
    labeling_config,
    shown_keys,
    task,
)
from peewit.service.labels.annotators import annotator_name
from peewit.service.labels.store import BadLabels
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.suggestions import LOCATING, MAX_SAMPLE, Strategy
from peewit.service.tables.uploads import BadUpload, NodeId, UploadedLabels, node_array, node_id
from peewit.service.wire.labels import LabelOrigin
from peewit.streaming.edges.blocks import MAX_NODE_BYTES

app = command_group("Label with Label Studio: send tasks out, take labels in.")

_SHOWN: Final = 10

Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="CLASS",
        help="A class beside those of the labels and predictions; repeatable.",
    ),
]


@app.command()
def tasks(
    name: GraphName,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Tasks to import, JSON.")
    ],
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the labeling configuration, XML."),
    ] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="How nodes are chosen, as of `peewit suggest`.")
    ] = "margin",
    n_nodes: Annotated[int, typer.Option("-k", min=1, max=MAX_SAMPLE, help="Most nodes.")] = 50,
    classes: Classes = None,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Write suggested nodes as tasks for Label Studio, with what is predicted of them.

    The text or picture that a node has in PEEWIT_ITEMS is part of its task.
    """
    with open_home() as home:
        graph = home.graph(name)
        suggester = home.suggester
        job = suggester.request_embedding(graph) if strategy in LOCATING else None
        if job is not None:
            require_success(home, job, is_quiet=json)
        suggestions = suggester.suggest(graph, strategy, n_nodes, column=label_column)
        known = _classes(home, graph, label_column, classes or [])
        items = Items(home.settings.items_directory)
        made = completed(
            [
                task(
                    node,
                    graph=name,
                    origin=suggestions.origin,
                    shown=_shown(items, name, node),
                    prediction=prediction,
                    model_version=_version(suggestions.file),
                )
                for node, prediction in zip(suggestions.nodes, suggestions.predictions, strict=True)
            ]
        )
    if config is not None:
        written = labeling_config(list(known.values()), shown=shown_keys(made))
        write_bytes(config, [written.encode()])
    write_bytes(output, [orjson.dumps(made, option=orjson.OPT_INDENT_2)])
    tell(
        f"wrote {len(made):,} tasks to {output}"
        + ("" if config is None else f" and {len(known):,} choices to {config}"),
        {"path": output, "n_tasks": len(made), "config": config, "classes": list(known.values())},
        as_json=json,
    )


@app.command("labels")
def put_annotations(
    name: GraphName,
    file: Annotated[
        Path,
        typer.Argument(
            help="Export of Label Studio, JSON or JSON_MIN.", exists=True, dir_okay=False
        ),
    ],
    classes: Classes = None,
    control: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the choices in the configuration.")
    ] = CONTROL,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Put what annotators chose in Label Studio as labels of suggested nodes.

    If a person annotates a node several times, the last choice counts. If several people do, the
    class that most chose counts; a tie is refused. What was skipped says nothing. What breaks a
    rule is refused alone, with the id of its task.
    """
    try:
        exported = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{file} must be JSON: {error}") from error
    export = read_export(exported, graph=name, control=control)
    labels, ties = agreed(export.answers)
    refused = [*export.refused, *ties]
    with open_home() as home:
        graph = home.graph(name)
        known = _classes(home, graph, label_column, classes or [])
        rows, wrong = _rows(home, graph, labels, known)
        labeling = home.labeling
        n_accepted, seq = 0, graph.labels_seq
        for (origin, annotator), some in rows.items():
            of_columns = {label_column or "": some}
            try:
                receipt = labeling.put(graph, of_columns, origin=origin, annotator=annotator)
            except BadLabels as error:  # of another kind than those that are there
                refused.append(RefusedTask(task=f"those of {annotator}", reason=str(error)))
                continue
            n_accepted, seq = n_accepted + receipt.accepted, receipt.labels_seq
    refused += wrong
    if json:
        print_json(
            {
                "accepted": n_accepted,
                "labels_seq": seq,
                "n_skipped": export.n_skipped,
                "n_unanswered": export.n_unanswered,
                "refused": [asdict(each) for each in refused],
            }
        )
    else:
        _tell(n_accepted, seq, export.n_skipped, export.n_unanswered, refused)
    if refused and not n_accepted:
        raise typer.Exit(1)


def _tell(
    n_accepted: int, seq: int, n_skipped: int, n_unanswered: int, refused: Sequence[RefusedTask]
) -> None:
    say(
        f"accepted {n_accepted:,} labels, labels_seq {seq}; {n_skipped:,} annotations skipped, "
        f"{n_unanswered:,} without a choice"
    )
    for each in refused[:_SHOWN]:
        say(f"  refused task {each.task}: {each.reason}")
    if len(refused) > _SHOWN:
        say(f"  and {len(refused) - _SHOWN:,} more; --json lists them all")


def _rows(
    home: Home, graph: GraphRecord, labels: Iterable[Agreed], known: Mapping[str, int | str]
) -> tuple[dict[tuple[LabelOrigin, str], UploadedLabels], list[RefusedTask]]:
    """Labels by their origin and who chose them last, and those that the graph does not take."""
    taken: list[tuple[NodeId, Agreed]] = []
    refused: list[RefusedTask] = []
    for each in labels:
        try:
            node = node_id(each.node, graph.settings.node_ids)
            annotator_name(each.annotators[-1])
            if len(each.choice.encode()) > MAX_NODE_BYTES:
                raise ValueError(
                    f"the choice must have at most {MAX_NODE_BYTES:,} bytes, "
                    f"got {each.choice[:40]!r} and more"
                )
        except (BadUpload, ValueError) as error:
            refused.append(RefusedTask(task=each.task, reason=str(error)))
            continue
        if known and each.choice not in known:
            reason = (
                f"the choice must be a class of the graph, got {each.choice!r}; "
                "--class takes it as a new one"
            )
            refused.append(RefusedTask(task=each.task, reason=reason))
        else:
            taken.append((node, each))
    ids = node_array([node for node, _ in taken], graph.settings.node_ids)
    nodes = home.nodes
    rows: dict[tuple[LabelOrigin, str], UploadedLabels] = {}
    are_known = nodes.knows(graph, ids).tolist()
    for (node, each), is_known in zip(taken, are_known, strict=True):
        if not is_known:
            reason = f"the graph must know the node, got {each.node!r}"
            refused.append(RefusedTask(task=each.task, reason=reason))
            continue
        origin: LabelOrigin = "random" if each.origin == "random" else "suggested"
        key = origin, annotator_name(each.annotators[-1])
        alike = rows.setdefault(key, UploadedLabels(nodes=[], labels=[]))
        alike.nodes.append(node)
        alike.labels.append(known.get(each.choice, each.choice))
    return rows, refused


def _classes(
    home: Home, graph: GraphRecord, column: str | None, more: Sequence[str]
) -> dict[str, int | str]:
    """Classes of labels, of the newest predictions and of ``more``, by how they are written.

    Those of ``more`` are numbers if the others are. Raises ValueError for labels that are real
    numbers.
    """
    classes: list[Any] = list(home.labels.class_counts(graph.id, column=column or ""))
    store = home.prediction_files
    job = store.latest(graph.id, None, column=column or "")
    if job is not None:
        classes += store.read(job).meta.class_names
    if any(isinstance(each, float) for each in classes):
        raise ValueError("labels must be classes for Label Studio, got real numbers")
    are_numbers = bool(classes) and all(isinstance(each, int) for each in classes)
    classes += [
        int(each) if are_numbers and each.lstrip("-").isdecimal() else each for each in more
    ]
    return {str(each): each for each in sorted(dict.fromkeys(classes), key=_order)}


def _order(label: int | str) -> tuple[bool, int, str]:
    return (True, 0, label) if isinstance(label, str) else (False, label, "")


def _shown(items: Items, graph: str, node: NodeId) -> dict[str, str]:
    """Text or picture of a node; a picture as a data URI, as Label Studio asks nothing of us."""
    item = items.find(graph, str(node))
    if item is None:
        return {}
    if not item.is_picture:
        return {TEXT: item.text()}
    content = base64.b64encode(item.path.read_bytes()).decode()
    return {IMAGE: f"data:{item.media_type};base64,{content}"}


def _version(file: PredictionFile | None) -> str | None:
    """Text on what predictions were made from."""
    if file is None:
        return None
    return f"{file.meta.model}, snapshot {file.meta.snapshot}, labels {file.meta.labels_seq}"
