"""Euclidean distances of all rows to all others, by scikit-learn.

Context: every command and every job starts a process, and importing scikit-learn takes a third of
what is left of its start. Decision: modules that such processes import do not import it themselves;
it is imported where it is first called, here for distances.
"""

from typing import Any

from peewit.solvers.arrays import FloatArray


def euclidean_distances(rows: Any, others: Any = None) -> FloatArray:
    """(n_rows, n_others) distances; of the rows to each other where ``others`` is None.

    Parameters
    ----------
    rows, others : (n, n_columns) arrays or scipy sparse
    """
    from sklearn.metrics import pairwise  # noqa: PLC0415 - see above

    distances: FloatArray = pairwise.euclidean_distances(rows, others)
    return distances
