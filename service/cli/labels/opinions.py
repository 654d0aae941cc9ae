"""`peewit labels`: agreement of the people who label, disagreements, decisions, and names."""

from typing import Annotated

import typer

from peewit.service.cli.operation_commands import add_command
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_rows,
    say,
    tell,
)
from peewit.service.labels.annotators import annotator_name
from peewit.service.operations.opinions import decide_label, get_agreement, list_disagreements
from peewit.service.wire.labels import LabelReceipt
from peewit.service.wire.opinions import (
    AgreementFigure,
    DisagreementList,
    LabelAgreement,
    OpinionOfNode,
)

app = command_group()


def show_agreement(agreement: LabelAgreement, *, name: str, **_: object) -> None:
    """A line for each pair, and then all."""
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
            for each in agreement.pairs
        ),
    )
    say(
        f"all: {agreement.n_nodes:,} nodes, {_shown(agreement.observed, percent=True)} agree, "
        f"alpha {_shown(agreement.alpha)}"
    )
    if agreement.note:
        say(agreement.note)
    if agreement.n_disagreements:
        say(
            f"{agreement.n_disagreements:,} nodes wait for a decision: `peewit labels "
            f"disagreements {name}`"
        )


def show_disagreements(disagreements: DisagreementList, *, name: str, **_: object) -> None:
    """A line for each node, and how to decide."""
    print_rows(
        ("node", "stands", "said"),
        (
            (
                each.node,
                str(each.label),
                ", ".join(f"{_signed(said)}: {said.label}" for said in each.opinions),
            )
            for each in disagreements.disagreements
        ),
    )
    say(
        f"{disagreements.n_disagreements:,} nodes; `peewit labels decide {name} NODE LABEL` "
        "decides about one"
    )


def show_decision(receipt: LabelReceipt, *, node: str, label: str, **_: object) -> None:
    """What stands now."""
    say(f"{node} is {label}, labels_seq {receipt.labels_seq}")


add_command(app, get_agreement, "agreement", show=show_agreement)
add_command(app, list_disagreements, "disagreements", show=show_disagreements)
add_command(app, decide_label, "decide", show=show_decision)


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


def _signed(said: OpinionOfNode) -> str:
    """Who said something, and with which key where they call themselves otherwise."""
    who = said.annotator or "-"
    return who if said.key in {None, said.annotator} else f"{who} (key {said.key})"


def _shown(figure: AgreementFigure, *, percent: bool = False) -> str:
    """A figure with its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    if percent:
        return f"{100 * figure.value:.1f} % ({100 * figure.low:.0f} to {100 * figure.high:.0f})"
    return f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
