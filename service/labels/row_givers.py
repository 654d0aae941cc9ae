"""Givers of rows: origin and annotator of each label of a table."""

from dataclasses import dataclass

from peewit.service.labels.annotators import MAX_NAME, annotator_name
from peewit.service.labels.store import BadLabels
from peewit.service.tables.uploads import UploadedLabels
from peewit.service.tables.uploads.givers import ANNOTATOR, GIVER_COLUMNS, ORIGIN
from peewit.service.wire.labels import LABEL_ORIGINS, LabelOrigin, origin_named
from peewit.solvers.arguments import BadArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGivers:
    """Origin and annotator of labels: one value for all rows, or a list of one for each."""

    origin: LabelOrigin | list[LabelOrigin]
    annotator: str | list[str | None] | None

    def of(self, row: int) -> tuple[LabelOrigin, str | None]:
        """Origin and annotator of a row."""
        origin, annotator = self.origin, self.annotator
        return (
            origin if isinstance(origin, str) else origin[row],
            annotator[row] if isinstance(annotator, list) else annotator,
        )


def row_givers(labels: UploadedLabels, *, origin: LabelOrigin, annotator: str | None) -> RowGivers:
    """Checked givers of rows; ``origin`` and ``annotator`` hold for rows that do not say it.

    Raises `BadLabels` where a row says an unknown origin, or no valid name.
    """
    if labels.givers is None:
        return RowGivers(origin=origin, annotator=annotator)
    rows, called = labels.giver_rows, labels.giver_names
    of_origin, of_annotator = (called.get(giver, giver) for giver in GIVER_COLUMNS)
    origins = {each: _origin(each.origin, rows[each], of_origin) or origin for each in rows}
    names = {
        each: _annotator(each.annotator, rows[each], of_annotator) or annotator for each in rows
    }
    return RowGivers(
        origin=[origins[each] for each in labels.givers],
        annotator=[names[each] for each in labels.givers],
    )


def _origin(text: str, row: int, column: str) -> LabelOrigin | None:
    origin = origin_named(text)
    if origin is not None or not text:
        return origin
    raise BadLabels(
        f"column {column!r} must hold {', '.join(LABEL_ORIGINS)} or nothing; say one of them for "
        "all rows where it means something else",
        argument=ORIGIN,
        row=row,
        value=text,
    )


def _annotator(text: str, row: int, column: str) -> str | None:
    try:
        return annotator_name(text) if text else None
    except BadArgument as error:
        raise BadLabels(
            f"column {column!r} must hold names of 1 to {MAX_NAME} characters that can be "
            "shown, or nothing; say one name for all rows where it means something else",
            argument=ANNOTATOR,
            row=row,
            value=text[:MAX_NAME],
        ) from error
