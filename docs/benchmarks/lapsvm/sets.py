"""The data sets of the primal LapSVM paper, and how they are divided (section E.3).

A set is dense rows or CSR with a class for each. Sets of the paper that are not at hand, COIL20 and
FACEMIT, or others, come from files of the same form.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from docs.benchmarks.frame import folder as data_folder
from peewit.solvers.arrays import BoolArray, Int64Array
from peewit.solvers.gram.kernel_functions import KernelName

DrawName = Literal["random", "stratified", "balanced"]

N_FOLDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a set is divided, joined and penalised; points of no named kind are unlabeled.

    ``width`` is sigma in the unit of the features as they are used, None finds it from them;
    ``power`` is p of L^p; ``penalties`` are gamma_A, gamma_I; a macro error is the mean over
    classes of the errors in each.
    """

    n_labeled: int = 50
    n_validation: int = 50
    n_test: int = 0
    kernel: KernelName = "gaussian"
    width: float | None = None
    degree: int = 9
    n_neighbors: int = 10
    power: int = 2
    penalties: tuple[float, float] = (1e-2, 1.0)
    is_macro: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Rows of a set by what is known of them; validation and test are in no graph."""

    labeled: Int64Array
    unlabeled: Int64Array
    validation: Int64Array
    test: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSet:
    """Rows with their classes 0 .. n_classes - 1.

    ``strata`` are what draws may be of equally many of, or in proportion to: the classes, or finer
    ones. Some sets say which rows are tested on, or come with splits.
    """

    name: str
    features: Any
    classes: Int64Array
    strata: Int64Array
    setting: Setting
    is_test: BoolArray | None = None
    published: list[Split] | None = None

    @property
    def n_rows(self) -> int:
        """Number of points."""
        return int(self.classes.size)

    def splits(self, n_splits: int, draw: DrawName = "stratified") -> Iterator[Split]:
        """The first published splits, or else drawn ones.

        Four folds are tested on in turn, then four of another permutation; or always the rows that
        the set marks. Of the rest one of each class and others at random are labeled, or in a
        stratified draw as large a share of each stratum, or in a balanced one equally many of each.
        Points for validation are drawn at random.
        """
        if self.published is not None:
            yield from self.published[:n_splits]
            return
        size = self.setting.n_test
        asked = self.setting.n_labeled + self.setting.n_validation + size
        if asked >= self.n_rows:
            raise ValueError(
                f"{self.name} must have more points than those labeled, held out and tested on, "
                f"got {self.n_rows} points and {asked} of those"
            )
        for number in range(n_splits):
            repetition, fold = divmod(number, N_FOLDS)
            order = np.random.default_rng([0, repetition]).permutation(self.n_rows)
            test = np.roll(order, -fold * size)[:size]
            if self.is_test is not None:
                test = np.flatnonzero(self.is_test)
            yield self._split(test, draw, np.random.default_rng([1, number]))

    def thinned(self, n_rows: int) -> "DataSet":
        """A random part of the set with four folds, for a quick look."""
        if self.n_rows <= n_rows:
            return self
        rows = np.sort(np.random.default_rng(0).choice(self.n_rows, n_rows, replace=False))
        return replace(
            self,
            features=self.features[rows],
            classes=self.classes[rows],
            strata=self.strata[rows],
            setting=replace(self.setting, n_test=n_rows // N_FOLDS),
            is_test=None,
        )

    def _split(self, test: Int64Array, draw: DrawName, rng: np.random.Generator) -> Split:
        rest = rng.permutation(np.setdiff1d(np.arange(self.n_rows), test))
        turn = _turns(self.strata[rest])
        if draw == "random":
            turn = np.minimum(_turns(self.classes[rest]), 1)
        elif draw == "stratified":
            turn = (turn + 0.5) / np.bincount(self.strata[rest])[self.strata[rest]]
        n_labeled, n_held = self.setting.n_labeled, self.setting.n_validation
        is_labeled = np.zeros(rest.size, bool)
        is_labeled[np.argsort(turn, kind="stable")[:n_labeled]] = True
        others = rest[~is_labeled]
        return Split(
            labeled=rest[is_labeled],
            unlabeled=np.sort(others[n_held:]),
            validation=others[:n_held],
            test=np.sort(test),
        )


def _turns(strata: Int64Array) -> Int64Array:
    """Of each place how many earlier ones are of its stratum."""
    turn = np.empty(strata.size, np.int64)
    for each in np.unique(strata):
        own = np.flatnonzero(strata == each)
        turn[own] = np.arange(own.size)
    return turn


def g50c() -> DataSet:
    """Two Gaussians in 50 dimensions, Bayes error 5 %."""
    with np.load(data_folder() / "g50c.npz") as stored:
        features, classes = stored["X"].astype(np.float64), _numbered(stored["y"])
    setting = Setting(n_test=136, width=17.5, n_neighbors=50, power=5, penalties=(1e-1, 10.0))
    return DataSet(name="g50c", features=features, classes=classes, strata=classes, setting=setting)


def g50c_published() -> DataSet:
    """The ten splits that came with it: no validation, no test."""
    data = g50c()
    with np.load(data_folder() / "g50c.npz") as stored:
        pairs = zip(stored["idx_labeled"], stored["idx_unlabeled"], strict=True)
        nothing = np.zeros(0, np.int64)
        splits = [
            Split(
                labeled=labeled.astype(np.int64),
                unlabeled=unlabeled.astype(np.int64),
                validation=nothing,
                test=nothing,
            )
            for labeled, unlabeled in pairs
        ]
    return replace(data, name="g50c-published", published=splits)


def uspst(*, is_test: bool = True) -> DataSet:
    """The 2,007 test digits of USPS, pixels in [-1, 1], or as many random training digits."""
    with np.load(data_folder() / "usps.npz") as stored:
        own = np.flatnonzero(stored["is_test"] == is_test)
        if not is_test:
            own = np.random.default_rng(0).choice(own, 2_007, replace=False)
        features = 2.0 * stored["X"][own].astype(np.float64) - 1.0
        classes = _numbered(stored["y"][own])
    setting = Setting(n_test=498, width=9.4, n_neighbors=10, power=2, penalties=(1e-4, 1.0))
    return DataSet(
        name="uspst", features=features, classes=classes, strata=classes, setting=setting
    )


def uspst_b() -> DataSet:
    """The same, 0 to 4 against 5 to 9; a balanced draw is one of the ten digits."""
    digits = uspst()
    return replace(digits, name="uspst-b", classes=(digits.classes >= 5).astype(np.int64))


def training_digits() -> DataSet:
    """USPS' ten classes as `uspst` has them, of training digits."""
    return replace(uspst(is_test=False), name="usps-train")


def training_digits_b() -> DataSet:
    """The same, 0 to 4 against 5 to 9."""
    digits = training_digits()
    classes = (digits.classes >= 5).astype(np.int64)
    return replace(digits, name="usps-train-b", classes=classes)


def pcmac() -> DataSet:
    """Two newsgroups, TF-IDF; another count of the words than the paper's."""
    data = from_file(data_folder() / "pcmac_tfidf.npz", Setting())
    setting = Setting(n_test=488, width=2.7, n_neighbors=50, power=5, penalties=(1e-6, 1e-2))
    return replace(data, name="pcmac", setting=setting)


def mnist3vs8() -> DataSet:
    """Threes and eights of MNIST, rows of length 1."""
    with np.load(data_folder() / "mnist.npz") as stored:
        classes = stored["y"]
        own = np.flatnonzero((classes == 3) | (classes == 8))
        features, classes = stored["X"][own].astype(np.float64), _numbered(classes[own])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    setting = Setting(
        n_labeled=80,
        n_validation=80,
        n_test=1984,
        kernel="polynomial",
        width=1.0,
        degree=9,
        n_neighbors=20,
        power=3,
        penalties=(1e-6, 1e-2),
    )
    return DataSet(
        name="mnist3vs8",
        features=features,
        classes=classes,
        strata=classes,
        setting=setting,
        is_test=own >= 60_000,
    )


SETS: dict[str, Callable[[], DataSet]] = {
    "g50c": g50c,
    "g50c-published": g50c_published,
    "uspst": uspst,
    "uspst-b": uspst_b,
    "usps-train": training_digits,
    "usps-train-b": training_digits_b,
    "pcmac": pcmac,
    "mnist3vs8": mnist3vs8,
}

DEFAULT_SPLITS = {"g50c-published": 10, "mnist3vs8": 6}
"""Of the others the paper's twelve: four folds, three times."""


def from_file(path: Path, setting: Setting) -> DataSet:
    """A set of a user: ``X`` and ``y``, or a CSR matrix with ``y`` in ``NAME_labels.npz``."""
    with np.load(path) as stored:
        is_dense = "X" in stored
        features = stored["X"].astype(np.float64) if is_dense else None
        classes = stored["y"] if is_dense else None
    if features is None:
        features = sp.csr_array(sp.load_npz(path), dtype=np.float64)
        with np.load(path.with_name(f"{path.stem}_labels.npz")) as stored:
            classes = stored["y"]
    numbered = _numbered(classes)
    if features.shape[0] != numbered.size or numbered.max() < 1:
        raise ValueError(
            f"{path.name} must have a class for each row and two classes at least, got "
            f"{features.shape[0]} rows, {numbered.size} labels, {numbered.max() + 1} classes"
        )
    return DataSet(
        name=path.stem, features=features, classes=numbered, strata=numbered, setting=setting
    )


def _numbered(labels: Any) -> Int64Array:
    """Classes from 0 on, in the order of their labels."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
