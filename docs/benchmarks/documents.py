"""Made-up documents: sparse rows of two classes that share their words and lean to some of them.

Words are drawn by Zipf's law. Each leans to one class or the other, by a normal amount in the
logarithm of its frequency, so that a document tells its class by many weak hints, and few labels
show few of them. Some documents bear the other class.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, Int64Array

_BLOCK_ROWS = 20_000
_DRAWN_FOR_EACH = 1.33
"""Words drawn for each distinct one: Zipf's law repeats itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What is drawn from; equal seeds give equal documents.

    Documents have about ``n_distinct`` words; ``lean`` is the standard deviation of the logarithm
    of a word's frequency ratio; a share of ``mislabeled`` bears the other class.
    """

    n_words: int = 20_000
    n_distinct: int = 53
    lean: float = 0.4
    mislabeled: float = 0.08
    seed: int = 0

    def blocks(self, n_rows: int) -> Iterator[tuple[sp.csr_array, Int64Array]]:
        """Rows of unit length, float32, and the classes they bear, 0 or 1; some at a time."""
        rng = np.random.default_rng(self.seed)
        chances = self._chances(rng)
        rarity = -np.log(np.maximum(chances.mean(axis=0) * self.n_distinct, 1e-12))
        weight = np.maximum(rarity, 0.1).astype(np.float32)
        totals = np.cumsum(chances, axis=1)
        for start in range(0, n_rows, _BLOCK_ROWS):
            yield self._block(rng, min(_BLOCK_ROWS, n_rows - start), totals, weight)

    def documents(self, n_rows: int) -> tuple[sp.csr_array, Int64Array]:
        rows, classes = zip(*self.blocks(n_rows), strict=True)
        return _narrow(sp.csr_array(sp.vstack(rows))), np.concatenate(classes)

    def _chances(self, rng: np.random.Generator) -> FloatArray:
        """(2, n_words) how often each word comes in a document of each class."""
        common = 1.0 / np.arange(1.0, self.n_words + 1)
        lean = rng.normal(0.0, self.lean / 2, self.n_words)
        chances = common * np.exp(np.outer([-1.0, 1.0], lean))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _block(
        self, rng: np.random.Generator, n_rows: int, totals: FloatArray, weight: FloatArray
    ) -> tuple[sp.csr_array, Int64Array]:
        classes = rng.integers(0, 2, n_rows)
        lengths = np.maximum(1, rng.poisson(_DRAWN_FOR_EACH * self.n_distinct, n_rows))
        owner = np.repeat(np.arange(n_rows), lengths)
        chance, words = rng.random(owner.size), np.empty(owner.size, np.int64)
        for value in (0, 1):
            own = classes[owner] == value
            words[own] = np.searchsorted(totals[value], chance[own])
        words = np.minimum(words, self.n_words - 1)
        ones = np.ones(owner.size, np.float32)
        rows = sp.csr_array((ones, (owner, words)), shape=(n_rows, self.n_words))
        rows.sum_duplicates()
        rows.data = (1.0 + np.log(rows.data)) * weight[rows.indices]
        squares = np.add.reduceat(np.square(rows.data, dtype=np.float64), rows.indptr[:-1])
        rows.data /= np.repeat(np.sqrt(squares), np.diff(rows.indptr)).astype(np.float32)
        borne = np.where(rng.random(n_rows) < self.mislabeled, 1 - classes, classes)
        return _narrow(rows), borne


def _narrow(rows: sp.csr_array) -> sp.csr_array:
    """The same with 32-bit indices, which scikit-learn asks for."""
    indices, starts = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sp.csr_array((rows.data, indices, starts), shape=rows.shape)
