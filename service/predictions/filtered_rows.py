"""Filtered rows of a prediction file, by class, margin, score or set, a page at a time.

A page begins where the last one ended, so that none reads the file from its start.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.abstention import is_answered
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.prediction_files import LABELED, PROVEN, PredictionFile
from peewit.service.predictions.sorted_rows import sorted_numbers, sorted_rows
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, Int64Array

_MOST_SELECTED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which rows of a file are wanted; None of a field does not filter."""

    label: str | int | None = None  # the predicted class
    margin_below: float | None = None
    score_from: float | None = None  # only nodes that a label reaches
    sets: LabelSets | None = None
    is_certain: bool = True  # with ``sets``: nodes whose set is certain, else the others
    is_unlabeled: bool = False  # only nodes that carry no label
    is_unproven: bool = False  # only labels that are not proven to be those of all edges

    @classmethod
    def of_arguments(
        cls,
        file: PredictionFile,
        *,
        label: str | None,
        margin_below: float | None,
        score_from: float | None,
    ) -> "RowFilter":
        """A filter of a file; raises BadArgument for an unknown class, or a file of numbers."""
        arguments = {"label": label, "margin_below": margin_below, "score_from": score_from}
        names = [name for name, value in arguments.items() if value is not None]
        if names and file.meta.score == "value":
            raise BadArgument(names[0], "must be left out: numbers are predicted, not classes")
        class_name = None if label is None else class_named(file, label)
        if label is not None and class_name is None:
            raise BadArgument("label", f"must be a class that is predicted, got {label!r}")
        return cls(label=class_name, margin_below=margin_below, score_from=score_from)

    def mask(self, batch: pa.RecordBatch) -> BoolArray:
        """(n_rows,) whether each row of a batch is wanted."""
        nodes = batch.column("node")
        wanted: BoolArray = nodes.is_valid().to_numpy(zero_copy_only=False)
        if self.label is not None:
            wanted &= _is_label(batch.column("label"), self.label)
        if self.margin_below is not None:
            margin = batch.column("margin").to_numpy(zero_copy_only=False)
            with np.errstate(over="ignore"):  # a bound beyond float32 becomes infinite
                wanted &= margin < margin.dtype.type(self.margin_below)
        if self.score_from is not None:
            wanted &= is_answered(batch, self.score_from)
        if self.sets is not None:
            wanted &= (self.sets.sizes(batch) == 1) == self.is_certain
        if self.is_unlabeled:
            wanted &= ~batch.column(LABELED).to_numpy(zero_copy_only=False)
        if self.is_unproven:
            is_open = pc.invert(batch.column(PROVEN))
            wanted &= is_open.fill_null(False).to_numpy(zero_copy_only=False)
        return wanted

    def rows_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The wanted rows of some batches, in batches."""
        for batch in batches:
            yield batch.filter(pa.array(self.mask(batch)))


def rows(
    file: PredictionFile, wanted: RowFilter, *, first: int = 0, limit: int = 50
) -> tuple[Int64Array, int | None]:
    """Dense ids of up to ``limit`` wanted rows, and where the next page begins; None on the last.

    ``first`` is the row of the file to begin at.
    """
    numbers: list[int] = []
    for start, batch in numbered_batches(file):
        if start + batch.num_rows <= first:
            continue
        mask = wanted.mask(batch)
        mask[: max(first - start, 0)] = False
        numbers += (np.flatnonzero(mask)[: limit + 1 - len(numbers)] + start).tolist()
        if len(numbers) > limit:
            break
    following = numbers[limit] if len(numbers) > limit else None
    return np.array(numbers[:limit], np.int64), following


def sorted_page(
    file: PredictionFile,
    wanted: RowFilter,
    column: str,
    *,
    is_reversed: bool = False,
    first: int = 0,
    limit: int = 50,
) -> tuple[Int64Array, int | None]:
    """Like `rows`, sorted by a column; ``first`` counts rows in that order.

    Early pages come by selection, later ones by sorting all rows.
    """
    end = first + limit
    n_rows = end + 1 if end < _MOST_SELECTED else None
    numbers = sorted_numbers(file, column, n_rows=n_rows, is_reversed=is_reversed, mask=wanted.mask)
    following = end if len(numbers) > end else None
    return numbers[first:end].astype(np.int64), following


def ordered_rows(
    file: PredictionFile,
    wanted: RowFilter,
    *,
    sort: str | None = None,
    is_reversed: bool = False,
    top: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The wanted rows in batches, by a column or in the order of the file, or so many of them.

    Raises BadArgument for a column that is missing or empty, and where the file does not say which
    nodes carry a label.
    """
    if wanted.is_unlabeled:
        require_labeled(file)
    if wanted.is_unproven:
        require_proof(file)
    if sort is None:
        row_numbers = wanted.rows_of(file.shown())
        return row_numbers if top is None else _first_of(row_numbers, top)
    return sorted_rows(file, sort, n_rows=top, is_reversed=is_reversed, mask=wanted.mask)


def require_labeled(file: PredictionFile) -> None:
    """Raise BadArgument where a file does not say which nodes carry a label."""
    if LABELED not in file.schema.names:
        raise BadArgument("unlabeled", "needs predictions that mark labeled nodes; solve again")


def require_proof(file: PredictionFile) -> None:
    """Raise BadArgument where no label of a file was to be proven."""
    if PROVEN not in file.schema.names:
        raise BadArgument(
            "unproven",
            "needs predictions with a proof: name their job, or solve again with prove=.01",
        )


def _first_of(batches: Iterator[pa.RecordBatch], n_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if n_rows <= 0:
            return
        yield batch.slice(0, n_rows)
        n_rows -= batch.num_rows


def class_named(file: PredictionFile, text: str) -> str | int | None:
    """The class whose text is ``text``; None where there is none."""
    return next((name for name in file.meta.class_names if str(name) == text), None)


def numbered_batches(file: PredictionFile) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of a file, each with the number of its first row before it."""
    start = 0
    for batch in file.batches():
        yield start, batch
        start += batch.num_rows


def _is_label(column: pa.Array, label: str | int) -> BoolArray:
    if pa.types.is_dictionary(column.type):
        names = column.dictionary.to_pylist()
        if label not in names:
            return np.zeros(len(column), bool)
        is_equal = pc.equal(column.indices, names.index(label))
    elif isinstance(label, int) and pa.types.is_integer(column.type):
        is_equal = pc.equal(column, label)
    else:
        return np.zeros(len(column), bool)
    is_label: BoolArray = is_equal.fill_null(False).to_numpy(zero_copy_only=False)
    return is_label


def with_kinds(
    file: PredictionFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Rows with the kind and the id of each node behind its name, in a typed graph."""
    if not file.meta.answers:
        return schema, batches
    kind, own_id = pa.field("kind", pa.string()), pa.field("id", schema.field("node").type)
    wide = schema.insert(1, own_id).insert(1, kind)

    def widened() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = pc.extract_regex(batch.column("node"), "(?s)^(?P<kind>[^:]*):(?P<id>.*)$")
            kinds, ids = (parts.field(at).cast(each.type) for at, each in ((0, kind), (1, own_id)))
            columns = [batch.column(0), kinds, ids, *batch.columns[1:]]
            yield pa.record_batch(columns, schema=wide)

    return wide, widened()
