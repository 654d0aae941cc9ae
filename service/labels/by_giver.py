"""Labels of a table by who gave them: what its rows say, checked, and what is said for all rows."""

from typing import Final, get_args

from peewit.service.labels.annotators import MAX_NAME, annotator_name
from peewit.service.labels.store import BadLabels
from peewit.service.tables.uploads import UploadedLabels
from peewit.service.tables.uploads.givers import ANNOTATOR, ORIGIN, Giver
from peewit.service.wire.labels import LabelOrigin
from peewit.solvers.arguments import BadArgument

OriginAndAnnotator = tuple[LabelOrigin, str | None]

MAX_GIVERS: Final = 1000
"""Most pairs of an origin and an annotator in a table; those of each are stored by themselves."""


def by_giver(
    given: UploadedLabels, *, origin: LabelOrigin, annotator: str | None
) -> dict[OriginAndAnnotator, UploadedLabels]:
    """Rows by origin and annotator; of a node named twice the later row alone.

    Parameters
    ----------
    given : UploadedLabels
        What was sent.
    origin, annotator : LabelOrigin, str or None
        Of rows that say nothing.

    Raises
    ------
    BadLabels
        A row says what is no origin, or no name, or the rows say more than `MAX_GIVERS` pairs.
    """
    if not given.givers:
        return {(origin, annotator): given}
    said: dict[Giver, OriginAndAnnotator] = {}
    for row, giver in enumerate(given.givers):
        if giver not in said:
            if len(said) == MAX_GIVERS:
                raise BadLabels(
                    f"columns {ORIGIN!r} and {ANNOTATOR!r} must hold at most {MAX_GIVERS:,} pairs; "
                    "say one name for all rows where they mean something else",
                    argument=ANNOTATOR,
                    row=row,
                    value=giver.annotator,
                )
            said[giver] = (
                _origin(giver.origin, row) if giver.origin else origin,
                _annotator(giver.annotator, row) if giver.annotator else annotator,
            )
    last = dict(zip(given.nodes, zip(given.labels, given.givers, strict=True), strict=True))
    found: dict[OriginAndAnnotator, UploadedLabels] = {}
    for node, (label, giver) in last.items():
        alike = found.setdefault(said[giver], UploadedLabels(nodes=[], labels=[]))
        alike.nodes.append(node)
        alike.labels.append(label)
    return found


def _origin(text: str, row: int) -> LabelOrigin:
    origins: tuple[LabelOrigin, ...] = get_args(LabelOrigin)
    for each in origins:
        if each == text:
            return each
    raise BadLabels(
        f"column {ORIGIN!r} must hold {', '.join(origins)} or nothing; say one of them for all "
        "rows where it means something else",
        argument=ORIGIN,
        row=row,
        value=text,
    )


def _annotator(text: str, row: int) -> str:
    try:
        return annotator_name(text)
    except BadArgument as error:
        raise BadLabels(
            f"column {ANNOTATOR!r} must hold names of 1 to {MAX_NAME} characters that can be "
            "shown, or nothing; say one name for all rows where it means something else",
            argument=ANNOTATOR,
            row=row,
            value=text[:MAX_NAME],
        ) from error
