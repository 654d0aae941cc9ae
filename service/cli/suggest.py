"""`peewit suggest`: which nodes to label next."""

from shlex import quote
from typing import Annotated

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    print_rows,
    say,
)
from peewit.service.cli.submission import print_failure, wait_for_job
from peewit.service.cli.table_files import LabelColumnOption
from peewit.service.home import Home
from peewit.service.jobs.job import JobStatus
from peewit.service.labels.annotators import annotator_name
from peewit.service.predictions.suggestions import (
    LOCATING,
    MAX_SAMPLE,
    STRATEGIES,
    Strategy,
    Suggestions,
)

app = command_group()


@app.command()
def suggest(
    name: GraphName,
    strategy: Annotated[
        Strategy, typer.Option(help=f"How to choose: {', '.join(STRATEGIES)}.")
    ] = "margin",
    n_nodes: Annotated[
        int, typer.Option("-k", min=1, max=MAX_SAMPLE, help="Most nodes; 200 but by random.")
    ] = 20,
    model: Annotated[
        str | None, typer.Option(help="Look at its latest predictions; any model's by default.")
    ] = None,
    label_column: LabelColumnOption = None,
    reserve_for: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Let nobody else be shown them for PEEWIT_RESERVE_SECONDS; what this annotator "
            "holds comes first.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Say which nodes to label next: those whose label would help most.

    By margin: where the two best classes are closest. By variance: what tells most of all others.
    By coverage: unsure nodes that differ. These two first locate the nodes, a job that runs here
    while no worker is alive; they work before the first prediction, too. At random: label all that
    are named, and judge by them, as by a random sample. Put labels of suggested nodes with the
    --origin that is told: answers are not judged by them.
    """
    with open_home() as home:
        found = suggest_nodes(
            home,
            home.graph(name),
            strategy,
            n_nodes,
            model=model,
            label_column=label_column,
            reserve_for=reserve_for,
            is_quiet=json,
        )
    if json:
        print_json(_as_json(found))
        return
    if not found.nodes:
        held = "" if reserve_for is None else ", or is reserved for somebody else"
        say(f"every node that could be suggested has a label{held}")
        return
    print_rows(
        ("node", "predicted", "margin"),
        (
            (str(node), None, None)
            if prediction is None or prediction["label"] is None
            else (
                str(node),
                str(prediction["label"]),
                None if prediction["margin"] is None else float(prediction["margin"]),
            )
            for node, prediction in zip(found.nodes, found.predictions, strict=True)
        ),
    )
    say(f"put their labels with `peewit labels put {quote(name)} FILE --origin {found.origin}`")


def suggest_nodes(
    home: Home,
    graph: GraphRecord,
    strategy: Strategy,
    n_nodes: int,
    *,
    model: str | None = None,
    label_column: str | None = None,
    reserve_for: str | None = None,
    is_quiet: bool,
) -> Suggestions:
    """The suggestions, once the nodes are located; ends the command if they cannot be.

    They are reserved for the annotator ``reserve_for`` for a while.
    """
    suggester = home.suggester
    asked = None if strategy not in LOCATING else suggester.request_embedding(graph)
    if asked is not None:
        job = wait_for_job(home, asked, is_quiet=is_quiet)
        if job.status is not JobStatus.SUCCEEDED:
            print_failure(job)
            raise typer.Exit(1)
    if reserve_for is None:
        return suggester.suggest(graph, strategy, n_nodes, model=model, column=label_column)
    found, _ = home.questions.suggest(
        suggester,
        graph,
        strategy,
        n_nodes,
        holder=f"command {annotator_name(reserve_for, argument='reserve_for')}",
        model=model,
        column=label_column,
    )
    return found


def _as_json(found: Suggestions) -> dict[str, object]:
    return {
        "strategy": found.strategy,
        "origin": found.origin,
        "job": None if found.file is None else found.file.meta.job_id,
        "labels_seq": found.labels_seq,
        "embedding_snapshot": found.embedding_snapshot,
        "suggestions": [
            {"node": node, "prediction": prediction}
            for node, prediction in zip(found.nodes, found.predictions, strict=True)
        ],
    }
