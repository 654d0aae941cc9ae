"""Targets ``y``: which entries are labels, their classes, and what stands where none is known."""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import column_or_1d

from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray, IntArray, frozen
from peewit.solvers.labels import Labels, RealLabels
from peewit.solvers.missing_words import DOUBTFUL_WORDS, MISSING_WORDS, SELDOM_NAMES
from peewit.solvers.models.classes.class_balance import class_text

Marker = str | int | None

LIKE_MARKERS = MISSING_WORDS | DOUBTFUL_WORDS | SELDOM_NAMES | {"", "-1.0"}
"""Names that a file has where no label is known, more often than as a class; in small letters."""


class Targets(Protocol):
    """What estimators know of one column of ``y``."""

    @property
    def labels(self) -> Labels | RealLabels:
        """The labeled entries."""
        ...


def target_columns(y: Any) -> AnyArray:
    """A checked ``y`` as a vector, or as (n_nodes, n_columns) of two columns or more."""
    columns: AnyArray = y.toarray() if issparse(y) else y
    if columns.ndim == 2 and columns.shape[1] == 1:
        columns = column_or_1d(columns, warn=True)
    return columns


def decisions_of_columns(decisions: list[FloatArray]) -> FloatArray | list[FloatArray]:
    """Decision values of columns side by side, where each has two classes."""
    return np.column_stack(decisions) if all(each.ndim == 1 for each in decisions) else decisions


def without_mask(y: Any, marker: Marker) -> Any:
    """``y`` with the marker where a masked array hides what is below."""
    if not isinstance(y, np.ma.MaskedArray):
        return y
    values = y.data.astype(object)
    values[np.ma.getmaskarray(y)] = marker
    return values


def without_nulls(y: Any) -> Any:
    """``y`` with None where it is missing: masked, null in pandas, polars and Arrow, nan, NaT."""
    y = without_mask(y, None)
    if hasattr(y, "to_pylist"):
        y = y.to_pylist()  # Arrow
    elif hasattr(y, "null_count") and hasattr(y, "to_list"):
        y = y.to_list()  # polars
    if hasattr(y, "isna"):
        values, is_missing = np.array(y, dtype=object), np.asarray(y.isna(), bool)
    else:
        values = np.asarray(y)
        if values.dtype.kind == "f":
            is_missing = np.isnan(values)
        elif values.dtype.kind == "O":
            is_missing = np.array([_is_null(value) for value in values.flat], bool)
            is_missing = is_missing.reshape(values.shape)
        else:
            return y
    if not is_missing.any():
        return y
    values = values.astype(object)
    values[is_missing] = None
    return values


def refuse_nan(y: Any) -> None:
    """Raise ValueError where ``y`` has nan or NA, which are no marker but of None."""
    if issparse(y) or (found := without_nulls(y)) is y:
        return
    pairs = zip(np.asarray(found, object).flat, np.asarray(y, object).flat, strict=True)
    if any(one is None and given is not None for one, given in pairs):
        raise ValueError(
            "Input y contains NaN; say unlabeled=None where missing values mark entries without "
            "label"
        )


def _is_null(value: object) -> bool:
    is_nan = isinstance(value, float) and value != value  # noqa: PLR0124 - nan is not itself
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassTargets:
    """The classes in ``y``; build it with `of_vector`.

    Attributes
    ----------
    labels : Labels
        The labeled entries; class names are places in ``classes``.
    classes : (n_classes,) array
        Distinct classes, sorted, in the type of ``y``.
    unlabeled : str, int or None
        What stands for "no label".
    """

    labels: Labels
    classes: AnyArray
    unlabeled: Marker

    @classmethod
    def of_vector(
        cls, y: AnyArray, unlabeled: Marker, weights: FloatArray | None = None
    ) -> "ClassTargets":
        """Classes of the entries of ``y`` that are not ``unlabeled``.

        Parameters
        ----------
        y : (n_nodes,) array
            Strings, integers, booleans or whole floats; an object array may mix strings with the
            marker.
        unlabeled : str, int or None
            The marker. In strings ``-1`` is found as ``"-1"``, which numpy makes of it.
        weights : (n_nodes,) float64 or None
            How much each label counts, >= 0; those of 0 are no labels.

        Raises
        ------
        TypeError
            ``unlabeled`` is of another type, or classes mix strings and numbers.
        ValueError
            No label, one class only, or real numbers.

        Warns
        -----
        UserWarning
            A class is named as where no label is known, such as ``"?"``; it stays a class.
        """
        if isinstance(unlabeled, bool) or not isinstance(unlabeled, str | int | None):
            raise TypeError(f"unlabeled must be an integer, a string or None, got {unlabeled!r}")
        known = ~find_markers(y, unlabeled)
        if weights is not None:
            known &= weights > 0.0
        nodes: IntArray = np.flatnonzero(known)
        classes, codes = np.unique(_of_one_kind(y[known]), return_inverse=True)
        if classes.size < 2:
            raise ValueError(_too_few(classes.tolist(), bool(known.all()), unlabeled))
        _warn_of_markers(classes, unlabeled)
        labels = Labels(
            nodes=frozen(nodes.astype(np.int64)),
            classes=frozen(codes.astype(np.int64)),
            class_names=tuple(class_text(name) for name in classes.tolist()),
            weights=None if weights is None else frozen(weights[nodes]),
        )
        return cls(labels=labels, classes=classes.astype(y.dtype), unlabeled=unlabeled)

    def named(self, codes: IntArray, known: BoolArray) -> AnyArray:
        """Classes of the codes, the marker where not ``known``; in the type of ``classes``."""
        names: AnyArray = self.classes[codes]
        if not known.all():
            is_text = names.dtype.kind == "U"
            names[~known] = str(self.unlabeled) if is_text else self.unlabeled
        return names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberTargets:
    """The numbers in ``y``; build it with `of_vector`.

    Attributes
    ----------
    labels : RealLabels
        The known entries.
    """

    labels: RealLabels

    @classmethod
    def of_vector(cls, y: AnyArray) -> "NumberTargets":
        """Numbers of the entries that are not nan.

        Raises
        ------
        TypeError
            Entries are no real numbers.
        ValueError
            All are nan.
        """
        nodes = np.flatnonzero(are_known(y))
        if nodes.size == 0:
            raise ValueError("every entry of y is nan, which marks unknown numbers; give one")
        return cls(labels=RealLabels.from_pairs(nodes, y[nodes]))


def are_known(numbers: AnyArray) -> BoolArray:
    """Which entries are not nan."""
    if numbers.dtype.kind not in "fc":
        return np.ones(numbers.shape, bool)
    return ~np.isnan(numbers)


def find_markers(y: AnyArray, unlabeled: Marker) -> BoolArray:
    """Whether each entry is the marker, in the shape of ``y``."""
    if y.dtype.kind == "O":
        as_text = None if unlabeled is None else str(unlabeled)
        is_marker = (
            value is None if as_text is None else value in (unlabeled, as_text)
            for value in y.ravel().tolist()
        )
        return np.fromiter(is_marker, bool, y.size).reshape(y.shape)
    if unlabeled is None:
        return np.zeros(y.shape, bool)
    if y.dtype.kind == "U":
        return np.asarray(y == str(unlabeled))
    if isinstance(unlabeled, str):
        return np.zeros(y.shape, bool)
    return np.asarray(y == unlabeled)


def _of_one_kind(values: AnyArray) -> AnyArray:
    """The labels as an array of strings, or of whole numbers."""
    if values.dtype.kind == "O":
        entries = values.tolist()
        if all(isinstance(entry, str) for entry in entries):
            return values
        if not all(isinstance(entry, Real) for entry in entries):
            kinds = sorted({type(entry).__name__ for entry in entries})
            raise TypeError(
                "Unknown label type: classes in y must be all strings or all numbers, got "
                f"{' and '.join(kinds)}; if missing values mark entries without label, say "
                "unlabeled=None"
            )
        values = np.asarray(entries)
    if values.dtype.kind not in "biufU":
        raise TypeError(f"Unknown label type: classes in y cannot be of type {values.dtype}")
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        value = values[np.argmax(values != np.floor(values))]
        raise ValueError(f"y must hold classes, got the continuous value {value}")
    return values


def _warn_of_markers(classes: AnyArray, unlabeled: Marker) -> None:
    """Tell of classes that look as if they stood for no label."""
    markers = [
        name
        for name in classes.tolist()
        if isinstance(name, str) and name.strip().lower() in LIKE_MARKERS
    ]
    if markers:
        warnings.warn(
            f"y has the class {markers[0]!r}, learned like the others. If it stands for entries "
            f"without label, say unlabeled={markers[0]!r} (it is {unlabeled!r})",
            stacklevel=2,
        )


def _too_few(classes: list[str | int], all_known: bool, unlabeled: Marker) -> str:
    """Why ``classes``, none or one, pose no problem."""
    if not classes:
        return f"every entry of y is the marker {unlabeled!r}; at least two classes need a label"
    if all_known:
        return f"y holds one class only ({classes[0]!r}); at least two needed"
    return (
        f"y holds one class only ({classes[0]!r}) beside the marker {unlabeled!r} of entries "
        f"without label; at least two needed. If {unlabeled!r} is a class, name another marker, "
        "such as unlabeled=None"
    )
