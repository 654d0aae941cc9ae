"""Features that give the label away: one value in each class, on all labeled rows looked at."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.catalog import GraphRecord
from peewit.service.labels.store import LabelStore
from peewit.solvers.arrays import AnyArray, IntArray
from peewit.streaming.features.encoding import Encoding
from peewit.streaming.features.feature_files import SetShape, set_owners, set_values
from peewit.streaming.features.store import FeaturesMeta

_LEAST_LABELS: Final = 10
_MOST_LABELS: Final = 10_000
_MOST_CLASSES: Final = 64
_SHOWN: Final = 3


def leaks_note(labels: LabelStore, graph: GraphRecord, path: Path, shape: SetShape) -> str | None:
    """Which columns of a file of `write_set` give the label away; None where none does.

    The labels given last are looked at, of each column of labels. Sparse rows are looked at where
    they were made from columns of any kind.
    """
    if shape.n_rows < _LEAST_LABELS or (shape.is_sparse and shape.encoding is None):
        return None
    notes = []
    for label_column in labels.columns(graph.id):
        events = labels.page(graph.id, column=label_column, limit=_MOST_LABELS)
        codes = {label: code for code, label in enumerate({each.label for each in events})}
        classes = {each.node: codes[each.label] for each in events}
        values, of_rows = _labeled_rows(path, shape.n_columns, classes)
        notes.append(leak_of(shape, values, of_rows, label_column))
    return "; ".join(filter(None, notes)) or None


def leak_of(
    shape: SetShape | FeaturesMeta, values: AnyArray, classes: IntArray, label_column: str = ""
) -> str | None:
    """Which columns of labeled rows, (n_rows, n_features), give their classes away, in words."""
    if len(classes) < _LEAST_LABELS or not 2 <= len(np.unique(classes)) <= _MOST_CLASSES:
        return None
    leaking = [
        name
        for name, parts in _columns_of(shape).items()
        if any(gives_away(values[:, places], classes) for places in parts)
    ]
    if not leaking:
        return None
    named = ", ".join(map(str, leaking[:_SHOWN]))
    more = f" and {len(leaking) - _SHOWN:,} more" if len(leaking) > _SHOWN else ""
    of_column = f" of {label_column!r}" if label_column else ""
    subject, verb = ("columns", "give") if len(leaking) > 1 else ("column", "gives")
    return (
        f"{subject} {named}{more} {verb} the label{of_column} away, with one value in each class "
        f"on all {len(classes):,} labeled rows; name in `without` what is known only with the label"
    )


def gives_away(values: AnyArray, classes: IntArray) -> bool:
    """Whether rows have one value in each class, and another in each.

    ``values`` are (n_rows, n_features). Classes of one row are left out; ten rows and two classes
    must remain.
    """
    present, counts = np.unique(classes, return_counts=True)
    present = present[counts > 1]
    if present.size < 2 or np.isin(classes, present).sum() < _LEAST_LABELS:
        return False
    firsts = np.array([values[classes == code][0] for code in present])
    are_alike = all(
        (values[classes == code] == first).all()
        for code, first in zip(present, firsts, strict=True)
    )
    return are_alike and len(np.unique(firsts, axis=0)) == present.size


def _columns_of(shape: SetShape | FeaturesMeta) -> dict[Any, list[Sequence[int]]]:
    """Places of the features of each column, by its name, else number.

    Whether a value is missing is looked at by itself, too.
    """
    if shape.encoding is None:
        names = range(shape.n_columns) if shape.names is None else map(repr, shape.names)
        return {name: [[place]] for place, name in enumerate(names)}
    columns: dict[Any, list[Sequence[int]]] = {}
    start = 0
    for each in Encoding.from_json(shape.encoding).columns:
        stop = start + len(each.features)
        columns[repr(each.name)] = [range(start, stop)]
        if each.may_be_missing:
            columns[repr(each.name)].append([stop - 1])
        start = stop
    return columns


def _labeled_rows(
    path: Path, n_columns: int, classes: Mapping[str, int]
) -> tuple[AnyArray, IntArray]:
    """(n_labeled, n_columns) features of labeled rows, and the class of each."""
    found = list(_labeled_batches(path, n_columns, classes))
    if not found:
        return np.zeros((0, n_columns)), np.zeros(0, np.int64)
    values, of_rows = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(of_rows)


def _labeled_batches(
    path: Path, n_columns: int, classes: Mapping[str, int]
) -> Iterator[tuple[AnyArray, IntArray]]:
    known, codes = pa.array(list(classes), pa.string()), np.array(list(classes.values()))
    for (nodes, _), values in zip(set_owners(path), set_values(path), strict=True):
        place = pc.index_in(nodes.cast(pa.string()), value_set=known)
        where = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
        if not where.size:
            continue
        rows = values[where]
        if not isinstance(rows, np.ndarray):
            rows.resize((where.size, n_columns))
            rows = rows.toarray()
        yield rows, codes[place.drop_null().to_numpy()]
