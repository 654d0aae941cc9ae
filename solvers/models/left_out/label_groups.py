"""Labels in groups: columns of a linear map, summed so that folds can be left out of them.

A model that is linear in its labels needs one column for each label, or for each class of each
fold: leaving a fold out is then a difference of sums, and no solve.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    Int64Array,
    IntArray,
    UInt64Array,
)
from peewit.solvers.labels import Labels

_MAX_FOLDS: Final = 5
_MOST_WITH_ALL_FOLDS: Final = 32
"""Most classes for which smaller graphs have all folds: with two folds the accuracy of 25 classes
is estimated several points too low. On larger graphs that takes nearly twice as long, and two folds
judge ten classes as well (`python -m docs.benchmarks.left_out interval --sets mnist_knn10`)."""

_GROUPS: Final = 30
_GROUPS_OF_LARGE: Final = 20
_LARGE: Final = 1 << 15
"""Columns worth their solves; fewer from this number of nodes on. More classes have fewer folds, at
least two."""

_HELD_OUT_LABELS: Final = 10_000
_HELD_OUT_OF_CLASS: Final = 250
"""Labels, and those of every class, from which on large graphs a fifth of them is left out alone:
it judges arms as well as all do. Of 2,000 it does not: how many nodes are right is told worse then,
and of 600 fewer are (`python -m docs.benchmarks.left_out large`)."""

_HELD_OUT: Final = 0
"""The fold of five that is left out where one is."""

_MOST_STAND_INS: Final = 20_000
_LEAST_STAND_INS: Final = 1_000
_STAND_IN_ENTRIES: Final = 1_000_000
"""Limits on the nodes that stand for all, and on the entries of their scores."""

_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD_BITS: Final = np.uint64(24)


def most_groups(n_nodes: int, n_classes: int) -> int:
    """Most groups of labels of this many classes, however many labels there are."""
    return max(_n_folds(n_nodes, n_classes) * n_classes, _n_columns(n_nodes))


def most_stand_ins(n_nodes: int, n_classes: int) -> int:
    """Number of nodes that stand for all."""
    fitting = max(_STAND_IN_ENTRIES // n_classes, _LEAST_STAND_INS)
    return min(n_nodes, _MOST_STAND_INS, fitting)


def _n_folds(n_nodes: int, n_classes: int) -> int:
    if n_nodes < _LARGE and n_classes <= _MOST_WITH_ALL_FOLDS:
        return _MAX_FOLDS
    return int(np.clip(_n_columns(n_nodes) // n_classes, 2, _MAX_FOLDS))


def _n_columns(n_nodes: int) -> int:
    return _GROUPS if n_nodes < _LARGE else _GROUPS_OF_LARGE


def node_hash(nodes: IntArray) -> UInt64Array:
    """(n_nodes,) pseudo-random numbers, the same for a node in every label set."""
    hashed = nodes.astype(np.uint64) * _HASH_FACTOR
    hashed ^= hashed >> np.uint64(29)
    return np.asarray(hashed * _HASH_FACTOR)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelGroups:
    """Folds of labels, and groups of labels whose columns give the effect of each fold's absence.

    Labels have a group each where they are few, else one for each class and fold. Stand-ins are
    nodes drawn at random that stand for all, and are predicted without a fold, as labels are.
    """

    labels: Labels
    fold: Int64Array  # (n_labeled,), -1 for the only label of a class
    group: Int64Array  # (n_labeled,)
    n_folds: int  # 0 if no label can be left out, or one fold would hold them all
    n_nodes: int
    stand_ins: Int64Array  # (n_stand_ins,) nodes, labeled ones among them
    stand_in_fold: Int64Array  # (n_stand_ins,), -1 of labeled ones

    @classmethod
    def of(cls, labels: Labels, n_nodes: int) -> "LabelGroups":
        """Folds dealt within each class in the order of a hash of the node.

        Where labels share groups, the hash alone names the fold in classes that it deals fairly:
        one more label then changes one group. Of many labels of a large graph one fold is left out
        alone, a fifth.
        """
        counts = np.bincount(labels.classes, minlength=labels.n_classes)
        is_many = labels.n_labeled >= _HELD_OUT_LABELS and counts.min() >= _HELD_OUT_OF_CLASS
        holds_out = bool(is_many) and n_nodes >= _LARGE
        n_folds = _MAX_FOLDS if holds_out else _n_folds(n_nodes, labels.n_classes)
        fold = _ranks(labels, n_folds)
        shares_groups = labels.n_labeled > most_groups(n_nodes, labels.n_classes)
        if shares_groups:
            drawn, is_fair = _drawn_folds(labels, n_folds)
            fold = np.where((fold >= 0) & is_fair[labels.classes], drawn, fold)
        if holds_out:
            fold = np.where(fold == _HELD_OUT, fold, -1)
        key = labels.classes * (n_folds + 1) + fold
        return cls._group(labels, fold, key, n_nodes, shares_groups=shares_groups)

    @classmethod
    def of_folds(cls, labels: Labels, fold: Int64Array, n_nodes: int) -> "LabelGroups":
        """Groups that each lie in one of the given folds, or in none.

        Labels in no fold, -1, are dealt to the folds as `of` does, in groups of their own: `rest`
        of a fold keeps them.
        """
        n_folds = int(fold.max()) + 1
        own = np.where(fold >= 0, fold, _ranks(labels, n_folds))
        shares_groups = labels.n_labeled > max(
            most_groups(n_nodes, labels.n_classes), n_folds * labels.n_classes
        )
        key = (labels.classes * (n_folds + 1) + own) * 2 + (fold >= 0)
        return cls._group(labels, own, key, n_nodes, shares_groups=shares_groups)

    @classmethod
    def _group(
        cls, labels: Labels, fold: Int64Array, key: Int64Array, n_nodes: int, *, shares_groups: bool
    ) -> "LabelGroups":
        """Folds without gaps, and groups of equal keys where labels share them."""
        used = np.unique(fold[fold >= 0])
        in_none = np.bincount(labels.classes[fold < 0], minlength=labels.n_classes)
        n_used = used.size if used.size > 1 or in_none.all() else 0
        dealt = np.where(fold >= 0, np.searchsorted(used, fold), -1)
        if n_used == 0:
            dealt = np.full(labels.n_labeled, -1)
        group = np.arange(labels.n_labeled)
        if shares_groups:
            _, group = np.unique(key, return_inverse=True)
        stand_ins, stand_in_fold = _stand_ins(labels, n_used, n_nodes)
        return cls(
            labels=labels,
            fold=dealt,
            group=group.astype(np.int64),
            n_folds=n_used,
            n_nodes=n_nodes,
            stand_ins=stand_ins,
            stand_in_fold=stand_in_fold,
        )

    def rest(self, left_out: BoolArray) -> "LabelGroups":
        """The labels that are not ``left_out``, (n_labeled,) bool, in the same groups."""
        labels = self.labels.subset(np.flatnonzero(~left_out))
        counts = np.bincount(labels.classes, minlength=labels.n_classes)
        fold = np.where(counts[labels.classes] > 1, self.fold[~left_out], -1)
        own = self.group[~left_out]
        return self._group(labels, fold, own, self.n_nodes, shares_groups=True)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1

    @property
    def is_single(self) -> bool:
        """Whether each label is a group of its own."""
        return self.n_groups == self.labels.n_labeled

    @property
    def usable(self) -> Int64Array:
        """Places of the labels that are left out once each."""
        return np.flatnonzero(self.fold >= 0)

    @property
    def left_out_nodes(self) -> Int64Array:
        """(n_left_out,) nodes predicted without a fold: the labeled ones, then the stand-ins."""
        return np.concatenate([self.labels.nodes, self.stand_ins])

    @property
    def left_out_folds(self) -> Int64Array:
        """(n_left_out,) the fold that each is predicted without, -1 for none."""
        return np.concatenate([self.fold, self.stand_in_fold])

    def reached(self, component: Int32Array) -> BoolArray:
        """(n_left_out,) whether each lies in a component with a label of another fold."""
        n_keys = self.n_folds + 1
        own = component[self.labels.nodes].astype(np.int64)
        n_together = np.bincount(own, minlength=int(component.max(initial=-1)) + 1)
        keys, counts = np.unique(own * n_keys + self.fold, return_counts=True)
        at, fold = component[self.left_out_nodes].astype(np.int64), self.left_out_folds
        key = at * n_keys + fold
        place = np.minimum(np.searchsorted(keys, key), keys.size - 1)
        n_own = np.where(keys[place] == key, counts[place], 0)
        return np.asarray((fold >= 0) & (n_together[at] > n_own))

    def members(self) -> list[Int64Array]:
        """Nodes of every group."""
        return [self.labels.nodes[self.group == group] for group in range(self.n_groups)]

    def keys(self) -> list[bytes]:
        """The bytes of each group's nodes, which identify it among other label sets."""
        return [nodes.tobytes() for nodes in self.members()]

    def without(self, fold: int) -> Labels:
        """The labels of the other folds."""
        return self.labels.subset(np.flatnonzero(self.fold != fold))

    def class_sums(self, keeps: BoolArray | None = None) -> FloatArray:
        """(n_classes, n_groups) 1 for each group of a class, of the labels that are kept."""
        chosen = slice(None) if keeps is None else keeps
        sums = np.zeros((self.labels.n_classes, self.n_groups))
        sums[self.labels.classes[chosen], self.group[chosen]] = 1.0
        return sums


def _stand_ins(labels: Labels, n_folds: int, n_nodes: int) -> tuple[Int64Array, Int64Array]:
    """Nodes drawn with a fixed seed, and the fold that each is predicted without (K11)."""
    if n_folds == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rng = np.random.default_rng(0)
    drawn_from = n_nodes if labels.among is None else np.flatnonzero(labels.among)
    n_asked = n_nodes if labels.among is None else np.count_nonzero(labels.among)
    nodes = rng.choice(drawn_from, most_stand_ins(int(n_asked), labels.n_classes), replace=False)
    fold = rng.integers(0, n_folds, nodes.size)
    return nodes, np.where(np.isin(nodes, labels.nodes), -1, fold)


def _ranks(labels: Labels, n_folds: int) -> Int64Array:
    """(n_labeled,) folds dealt in turn within each class by a hash; -1 of a class's only label."""
    counts = np.bincount(labels.classes, minlength=labels.n_classes)
    order = np.lexsort((node_hash(labels.nodes), labels.classes))
    starts = np.cumsum(counts) - counts
    rank = np.empty(labels.n_labeled, np.int64)
    rank[order] = np.arange(labels.n_labeled) - starts[labels.classes[order]]
    return np.where(counts[labels.classes] > 1, (rank + labels.classes) % n_folds, -1)


def _drawn_folds(labels: Labels, n_folds: int) -> tuple[Int64Array, BoolArray]:
    """A fold of each label by a hash, and classes of which each fold has half its even share."""
    drawn = ((node_hash(labels.nodes) >> _FOLD_BITS) % np.uint64(n_folds)).astype(np.int64)
    place = labels.classes * n_folds + drawn
    sizes = np.bincount(place, minlength=labels.n_classes * n_folds).reshape(-1, n_folds)
    return drawn, 2 * n_folds * sizes.min(axis=1) >= sizes.sum(axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Starts:
    """First iterates of the columns of some groups."""

    columns: Float32Array  # (n_some, n_nodes), sums of kept columns
    changed: list[Int64Array]  # nodes in which each group differs from those of its sum


Maker: TypeAlias = Callable[[list[Int64Array], Starts | None], Float32Array]
"""Makes the columns, (n_some, n_nodes) float32, of groups from their nodes and first iterates."""


@dataclass(slots=True, kw_only=True, eq=False)
class GroupColumns:
    """Columns of the groups solved for last; a group with the same nodes is not solved again.

    Columns are linear in their groups: the columns of groups that lie mostly in a new one add up to
    the first iterate of its solve.
    """

    kept_bytes: int  # columns that take more are not kept
    by_nodes: dict[bytes, Float32Array] = field(default_factory=dict)  # (n_nodes,) of each group

    @classmethod
    def holding(cls, groups: LabelGroups, columns: Float32Array) -> "GroupColumns":
        """With columns of ``groups``, (n_groups, n_nodes), that were made elsewhere."""
        by_nodes = dict(zip(groups.keys(), columns, strict=True))
        return cls(kept_bytes=columns.nbytes, by_nodes=by_nodes)

    def holds(self, groups: LabelGroups) -> bool:
        """Whether the columns of all groups are kept."""
        return self.by_nodes.keys() >= set(groups.keys())

    def of(self, groups: LabelGroups, make: Maker) -> Float32Array:
        """(n_groups, n_nodes) columns of all groups; missing ones are made."""
        members, keys = groups.members(), groups.keys()
        missing = [key not in self.by_nodes for key in keys]
        if not any(missing):  # drop no others: folds that are left out in turn need them next
            return np.stack([self.by_nodes[key] for key in keys])
        fresh = [nodes for nodes, lacks in zip(members, missing, strict=True) if lacks]
        new_columns = make(fresh, self._starts(fresh))
        columns = new_columns
        if not all(missing):
            new = iter(new_columns)
            columns = np.stack(
                [
                    next(new) if lacks else self.by_nodes[key]
                    for key, lacks in zip(keys, missing, strict=True)
                ]
            )
        fits = columns.nbytes <= self.kept_bytes
        self.by_nodes = dict(zip(keys, columns, strict=True)) if fits else {}
        return columns

    def _starts(self, members: list[Int64Array]) -> Starts | None:
        """For each group the sum of the kept columns of groups that lie mostly in it."""
        if not self.by_nodes or not members:
            return None
        pairs = [(np.frombuffer(key, np.int64), column) for key, column in self.by_nodes.items()]
        columns = np.zeros((len(members), pairs[0][1].size), np.float32)
        changed = []
        for place, nodes in enumerate(members):
            differing = nodes
            for own, column in pairs:
                if 2 * np.count_nonzero(np.isin(own, nodes)) > own.size:
                    columns[place] += column
                    differing = np.setxor1d(differing, own)
            changed.append(differing)
        return Starts(columns=columns, changed=changed)
