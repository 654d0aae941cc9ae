"""Records of labels, as they go over the wire."""

from typing import Final, Literal, get_args

from peewit.service.wire.records import described, record

Label = int | str | float

LabelOrigin = Literal["given", "random", "suggested", "imported"]
"""Origin of a label: somebody chose the node (given) or it was drawn at random (random); a strategy
picked it by the graph or by predictions (suggested); a file or live source (imported)."""

LABEL_ORIGINS: Final[tuple[LabelOrigin, ...]] = get_args(LabelOrigin)
"""All of them."""


def origin_named(text: str) -> LabelOrigin | None:
    """The origin that a form or a cell names, or None."""
    return next((each for each in LABEL_ORIGINS if each == text), None)


@record
class LabelReceipt:
    """What became of labels."""

    labels_seq: int = described("Number of the graph's last label event, with these.")
    accepted: int
    left_out: dict[str, int] = described(
        "Rows that were left out, by their word, which means no label.", default_factory=dict
    )
    note: str | None = described(
        "What may have gone wrong, as classes that differ only in case.", default=None
    )


@record
class LabelColumn:
    """A column of labels: of each node at most one."""

    name: str = described("Empty for the one without a name.")
    n_labeled: int = described("Nodes that have a label in it.")
    n_labels: int = described("How many different ones.")


@record
class LabelColumnList:
    """The columns in which labels were given."""

    label_columns: list[LabelColumn]
