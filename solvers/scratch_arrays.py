"""Scratch arrays: large arrays in unnamed files, whose memory the system may reclaim.

A graph in the numbering of its user is read once, to be put in memory order, and seldom afterwards.
In a file it takes no memory that others need more.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import AnyArray

LEAST_BYTES: Final = 1 << 26
"""Smaller arrays are not worth a file."""


def scratch_array(n_entries: int, dtype: npt.DTypeLike, directory: Path | None) -> AnyArray:
    """A new array of arbitrary values.

    A large one lies in an unnamed file in ``directory``, which vanishes with the array. It lies in
    memory if ``directory`` is None, full or not writable.
    """
    n_bytes = n_entries * np.dtype(dtype).itemsize
    if directory is None or n_bytes < LEAST_BYTES:
        return np.empty(n_entries, dtype)
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            if hasattr(os, "posix_fallocate"):  # on a full disk, filling a map kills the process
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.asarray(np.memmap(file, dtype, "w+", shape=n_entries))
    except OSError:
        return np.empty(n_entries, dtype)
