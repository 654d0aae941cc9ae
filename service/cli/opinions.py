"""`peewit labels`: agreement of the people who label, disagreements, decisions, and names."""

from dataclasses import asdict
from typing import Annotated

import typer

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    print_rows,
    say,
    tell,
)
from peewit.service.cli.table_files import LabelColumnOption
from peewit.service.labels.annotators import annotator_name
from peewit.service.predictions.agreement_report import Drawn, agreement_of
from peewit.service.tables.uploads import LabelValue
from peewit.service.wire.opinions import AgreementFigure
from peewit.streaming.edges.node_ids import node_id

app = command_group()

Share = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Share of the labels given by hand that is drawn; PEEWIT_SECOND_OPINIONS by default.",
    ),
]


@app.command()
def agreement(
    name: GraphName,
    drawn: Annotated[
        Drawn,
        typer.Option(help="Nodes of the random share, or all that two people have labeled."),
    ] = "random",
    share: Share = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals, in (0, 1).")] = 0.95,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Say how far people agree about the same nodes: percent, kappa of pairs, alpha of all.

    Of nodes drawn at random the figures hold for all labels given by hand. Where people disagree
    the first label stands until more people have given another one, or somebody decides.
    """
    with open_home() as home:
        found = agreement_of(
            home.questions,
            home.graph(name),
            column=label_column or "",
            drawn=drawn,
            share=share,
            confidence=confidence,
        )
    if json:
        print_json(asdict(found))
        return
    print_rows(
        ("who", "nodes", "agree", "percent", "kappa"),
        (
            (
                " and ".join(each.annotators),
                each.n_nodes,
                each.n_agreed,
                _shown(each.observed, percent=True),
                _shown(each.kappa),
            )
            for each in found.pairs
        ),
    )
    say(
        f"all: {found.n_nodes:,} nodes, {_shown(found.observed, percent=True)} agree, alpha "
        f"{_shown(found.alpha)}"
    )
    if found.note:
        say(found.note)
    if found.n_disagreements:
        say(
            f"{found.n_disagreements:,} nodes wait for a decision: `peewit labels disagreements "
            f"{name}`"
        )


@app.command()
def disagreements(
    name: GraphName,
    n_nodes: Annotated[int, typer.Option("-k", min=1, help="Most nodes.")] = 20,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """List nodes that people have labeled differently, and which label stands meanwhile."""
    with open_home() as home:
        store, graph = home.opinions, home.graph(name)
        found = store.disagreements(graph.id, column=label_column or "")
    if json:
        print_json([asdict(each) for each in found[:n_nodes]])
        return
    print_rows(
        ("node", "stands", "said"),
        (
            (
                each.node,
                str(each.label),
                ", ".join(f"{said.annotator or '-'}: {said.label}" for said in each.opinions),
            )
            for each in found[:n_nodes]
        ),
    )
    say(f"{len(found):,} nodes; `peewit labels decide {name} NODE LABEL` decides about one")


@app.command()
def decide(
    name: GraphName,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its id.")],
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The one that is to stand.")],
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who decides; nobody by default.")
    ] = None,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Put the label that is to stand of a node about which people disagree.

    It keeps the origin of the label before, and no later answer changes it.
    """
    column = label_column or ""
    with open_home() as home:
        graph, labels = home.graph(name), home.labels
        receipt = home.second_opinions.decide(
            graph,
            node_id(node, graph.settings.node_ids),
            _typed(label, labels.are_text(graph.id, column=column) is False),
            annotator=None if annotator is None else annotator_name(annotator),
            column=column,
        )
    tell(f"{node} is {label}, labels_seq {receipt.labels_seq}", receipt, as_json=json)


@app.command("rename-annotator")
def rename_annotator(
    name: GraphName,
    present: Annotated[str, typer.Argument(metavar="PRESENT", help="The name until now.")],
    wanted: Annotated[str, typer.Argument(metavar="NEW", help="The name from now on.")],
    json: AsJson = False,
) -> None:
    """Give a person another name in the labels, history and opinions of a graph.

    A name that another person has there is refused: two would become one. Keys keep their names.
    """
    new = annotator_name(wanted, argument="NEW")
    with open_home() as home:
        n_changed = home.opinions.rename(home.graph(name).id, present, new)
    tell(f"changed {n_changed:,} rows", {"n_changed": n_changed}, as_json=json)


def _typed(label: str, is_number: bool) -> LabelValue:
    """A typed label, a number if labels are numbers."""
    if not is_number:
        return label
    try:
        return int(label)
    except ValueError:
        try:
            return float(label)
        except ValueError:
            return label  # refused with the rule that it breaks


def _shown(figure: AgreementFigure, *, percent: bool = False) -> str:
    """A figure with its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    if percent:
        return f"{100 * figure.value:.1f} % ({100 * figure.low:.0f} to {100 * figure.high:.0f})"
    return f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
