"""Where compiled kernels are kept; loads nothing, for those who ask before numba is imported."""

import os
from pathlib import Path


def cache_directory() -> Path | None:
    """``NUMBA_CACHE_DIR`` if it is set, else a place in the user's cache directory.

    None where the user has no home directory, and nothing is kept.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named).absolute()
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        return None
    return caches.absolute() / "peewit" / "numba"
