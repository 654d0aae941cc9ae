"""Labels: which nodes are known, and their class or their number.

Class names are strings or integers, kept as given; models see only codes and one-hot targets.
Real-valued labels are one column of targets. `Targets` is the common interface of both kinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    Int64Array,
    IntArray,
    checked_nodes,
    frozen,
)

ClassName = str | int


class Targets(Protocol):
    """Known nodes with a row of numbers each: `Labels` or `RealLabels`."""

    @property
    def nodes(self) -> Int64Array:
        """(n_labeled,) dense node ids, increasing."""
        ...

    @property
    def n_labeled(self) -> int:
        """Number of labeled nodes."""
        ...

    @property
    def n_columns(self) -> int:
        """Numbers per node: the classes, or 1."""
        ...

    def targets(self) -> FloatArray:
        """(n_labeled, n_columns) one-hot rows, or the values."""
        ...

    def mean_target(self) -> FloatArray:
        """(n_columns,) mean row; zeros without labels."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """Known nodes and their classes; build it with `from_pairs`.

    ``classes`` are (n_labeled,) indices into ``class_names``. Models without weights refuse labels
    that have some. Nodes that are not ``among`` those asked about carry labels to others, and count
    neither for class sizes nor for tests of the labels' sample. Raises ValueError for nodes that do
    not increase, codes outside the names, or a class without labeled node.
    """

    nodes: Int64Array  # (n_labeled,) dense node ids, increasing
    classes: Int64Array
    class_names: tuple[ClassName, ...]  # in order: integers by value, then strings alphabetically
    weights: FloatArray | None = None  # (n_labeled,) > 0; None: all count the same
    among: BoolArray | None = None  # (n_nodes,) nodes asked about; None: all

    def __post_init__(self) -> None:
        if self.nodes.shape != self.classes.shape or self.nodes.ndim != 1:
            raise ValueError(
                "nodes and classes must be one-dimensional and of equal length, "
                f"got shapes {self.nodes.shape} and {self.classes.shape}"
            )
        if self.weights is not None and self.weights.shape != self.nodes.shape:
            raise ValueError(
                f"weights must have shape {self.nodes.shape}, got {self.weights.shape}"
            )
        if self.weights is not None and not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise ValueError("weights of labels must be finite and > 0; drop labels of weight 0")
        if (np.diff(self.nodes) <= 0).any():
            raise ValueError("nodes must be increasing; use Labels.from_pairs to sort them")
        if self.classes.size and not 0 <= self.classes.min() <= self.classes.max() < self.n_classes:
            raise ValueError(
                f"classes must lie in [0, {self.n_classes}), "
                f"got {self.classes.min()} to {self.classes.max()}"
            )
        counts = np.bincount(self.classes, minlength=self.n_classes)
        if (counts == 0).any():
            name = self.class_names[int(np.argmin(counts))]
            raise ValueError(f"class {name!r} has no labeled node; every class needs one")

    @classmethod
    def from_pairs(cls, nodes: npt.ArrayLike, values: Sequence[ClassName] | AnyArray) -> "Labels":
        """Labels of the given nodes, dense ids >= 0 in any order.

        TypeError for ids that are not integers, or a value that is neither a string nor an integer;
        ValueError for unequal lengths, a negative id, or a node labeled twice.
        """
        names = [_class_name(value) for value in values]
        ids, order = _sorted_nodes(nodes, len(names))
        class_names = tuple(sorted(set(names), key=lambda name: (isinstance(name, str), name)))
        code = {name: index for index, name in enumerate(class_names)}
        codes = np.fromiter((code[name] for name in names), dtype=np.int64, count=len(names))
        return cls(nodes=ids, classes=frozen(codes[order]), class_names=class_names)

    @property
    def n_labeled(self) -> int:
        """Number of labeled nodes."""
        return int(self.nodes.size)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def n_columns(self) -> int:
        """Number of classes, for `Targets`."""
        return self.n_classes

    @property
    def n_usable(self) -> int:
        """Labels that may be left out: a class keeps its last one."""
        counts = np.bincount(self.classes)
        return int(counts[counts > 1].sum())

    def targets(self) -> FloatArray:
        """One-hot rows, (n_labeled, n_classes)."""
        one_hot = np.zeros((self.n_labeled, self.n_classes))
        one_hot[np.arange(self.n_labeled), self.classes] = 1.0
        return one_hot

    def class_prior(self) -> FloatArray:
        """(n_classes,) share of each class among the labeled nodes."""
        return self.targets().mean(axis=0) if self.n_labeled else np.zeros(0)

    def mean_target(self) -> FloatArray:
        """The class prior, for `Targets`."""
        return self.class_prior()

    def asked_of(self, is_counted: BoolArray) -> BoolArray:
        """(n_nodes,) which of some nodes are asked about."""
        return is_counted if self.among is None else is_counted & self.among

    def others(self, is_counted: BoolArray) -> BoolArray:
        """(n_nodes,) which of some nodes are asked about and have no label."""
        is_other = self.asked_of(is_counted).copy()
        is_other[self.nodes] = False
        return is_other

    def subset(self, rows: IntArray) -> "Labels":
        """The labels at some positions, increasing, with the same class names.

        ValueError if a class would lose its last labeled node.
        """
        weights = None if self.weights is None else frozen(self.weights[rows])
        return replace(
            self,
            nodes=frozen(self.nodes[rows]),
            classes=frozen(self.classes[rows]),
            weights=weights,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RealLabels:
    """Known nodes and their numbers, for regression; build it with `from_pairs`.

    Raises ValueError for nodes that do not increase, unequal lengths, or a value that is not
    finite.
    """

    nodes: Int64Array  # (n_labeled,) dense ids, increasing
    values: FloatArray  # (n_labeled,) finite

    def __post_init__(self) -> None:
        if self.nodes.shape != self.values.shape or self.nodes.ndim != 1:
            raise ValueError(
                "nodes and values must be one-dimensional and of equal length, "
                f"got shapes {self.nodes.shape} and {self.values.shape}"
            )
        if (np.diff(self.nodes) <= 0).any():
            raise ValueError("nodes must be increasing; use RealLabels.from_pairs to sort them")
        is_finite = np.isfinite(self.values)
        if not is_finite.all():
            row = int(np.argmin(is_finite))
            raise ValueError(
                f"values must be finite, got {self.values[row]} at node {self.nodes[row]}"
            )

    @classmethod
    def from_pairs(cls, nodes: npt.ArrayLike, values: npt.ArrayLike) -> "RealLabels":
        """Finite values of the given nodes, dense ids >= 0 in any order.

        TypeError for ids that are not integers, or values that are not real numbers; ValueError for
        unequal lengths, a negative id, a node labeled twice, or a value that is not finite.
        """
        numbers = np.asarray(values)
        if numbers.size and numbers.dtype.kind not in "iuf":
            raise TypeError(f"values must be real numbers, got an array of {numbers.dtype}")
        if numbers.ndim != 1:
            raise ValueError(f"values must be one-dimensional, got shape {numbers.shape}")
        ids, order = _sorted_nodes(nodes, numbers.size)
        return cls(nodes=ids, values=frozen(numbers[order].astype(np.float64)))

    @property
    def n_labeled(self) -> int:
        """Number of labeled nodes."""
        return int(self.nodes.size)

    @property
    def n_columns(self) -> int:
        """One: the number to predict."""
        return 1

    def targets(self) -> FloatArray:
        """The values as a column, (n_labeled, 1)."""
        return self.values[:, None].copy()

    def mean_target(self) -> FloatArray:
        """(1,) mean of the values; 0 without labels."""
        return self.targets().mean(axis=0) if self.n_labeled else np.zeros(1)

    def subset(self, rows: IntArray) -> "RealLabels":
        """The labels at some positions, increasing."""
        return RealLabels(nodes=frozen(self.nodes[rows]), values=frozen(self.values[rows]))


def one_against_rest(labels: Labels) -> FloatArray:
    """(n_labeled, n_functions) targets: 1 for the function's own class, else -1.

    Two classes have one function, of the second.
    """
    targets = 2.0 * labels.targets() - 1.0
    return targets[:, 1:] if labels.n_classes == 2 else targets


def class_scores(values: FloatArray) -> FloatArray:
    """(n_rows, n_classes) scores of functions: a single one becomes its negative and itself."""
    return np.hstack([-values, values]) if values.shape[1] == 1 else values


def can_be_left_out(
    labels: Labels | RealLabels, may_leave_out: BoolArray | None = None
) -> BoolArray:
    """(n_labeled,) whether each label may be left out: all, but a class's only one.

    Of a class whose labels lie in several folds each may be left out. ``may_leave_out`` restricts
    the labels.
    """
    allowed = np.ones(labels.n_labeled, bool) if may_leave_out is None else may_leave_out
    if isinstance(labels, RealLabels):
        return allowed
    is_single = np.bincount(labels.classes, minlength=labels.n_classes) == 1
    is_usable: BoolArray = allowed & ~is_single[labels.classes]
    return is_usable


def deal_folds(
    labels: Labels | RealLabels, n_folds: int, seed: int, may_leave_out: BoolArray | None = None
) -> tuple[Int64Array, tuple[ClassName, ...]]:
    """(n_labeled,) fold of each label, -1 for those never left out; and classes with only those.

    Labels are dealt out in the order of their classes or numbers, at random within a class, so no
    fold holds a class whole. Labels outside ``may_leave_out``, (n_labeled,) bool, are in no fold.
    """
    if n_folds < 2:
        raise ValueError(f"the number of folds must be at least 2, got {n_folds}")
    always_kept: tuple[ClassName, ...] = ()
    may_leave = can_be_left_out(labels, may_leave_out)
    groups: FloatArray | Int64Array
    if isinstance(labels, Labels):
        is_kept = np.bincount(labels.classes[may_leave], minlength=labels.n_classes) == 0
        always_kept = tuple(labels.class_names[code] for code in np.flatnonzero(is_kept))
        groups = labels.classes
    else:
        groups = labels.values
    n_usable = int(np.count_nonzero(may_leave))
    if n_folds > n_usable:
        raise ValueError(
            "the number of folds must be at most that of the labels that can be left out, "
            f"{n_usable} (each class keeps one), got {n_folds}"
        )
    mixed = np.random.default_rng(seed).permutation(labels.n_labeled)
    dealt = mixed[np.argsort(groups[mixed], kind="stable")]
    dealt = dealt[may_leave[dealt]]
    fold = np.full(labels.n_labeled, -1)
    fold[dealt] = np.arange(dealt.size) % n_folds
    return fold, always_kept


def _sorted_nodes(nodes: npt.ArrayLike, n_values: int) -> tuple[Int64Array, IntArray]:
    """Node ids in increasing order, and the order that sorts them."""
    ids = checked_nodes("nodes", nodes, np.iinfo(np.int64).max).astype(np.int64)
    if ids.size != n_values:
        raise ValueError(f"nodes and values must have equal lengths, got {ids.size} and {n_values}")
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    twice = np.flatnonzero(np.diff(ids) == 0)
    if twice.size:
        raise ValueError(f"node {ids[twice[0]]} is labeled twice; give each node one label")
    return frozen(ids), order


def _class_name(value: object) -> ClassName:
    """The class name as a plain str or int."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(
            f"a label must be a string or an integer, got {value!r} of type {type(value).__name__}"
        )
    return value
