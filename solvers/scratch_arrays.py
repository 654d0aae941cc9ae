"""Scratch arrays: large arrays in unnamed files, whose memory the system may take back.

A graph in the numbering of its user is read once, to be put in an order that is near in memory, and
seldom afterwards. In a file it costs the process nothing that others would need more.
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
    """A new array of any values.

    Parameters
    ----------
    n_entries : int
    dtype : type
    directory : Path or None
        Where its file lies, if it is large. It has no name, and ends with the array. In memory for
        None, and where the directory takes no such file: it is full, or may not be written to.
    """
    n_bytes = n_entries * np.dtype(dtype).itemsize
    if directory is None or n_bytes < LEAST_BYTES:
        return np.empty(n_entries, dtype)
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            if hasattr(os, "posix_fallocate"):  # on a full disk, whoever fills a map is killed
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.asarray(np.memmap(file, dtype, "w+", shape=n_entries))
    except OSError:
        return np.empty(n_entries, dtype)
