"""Directory of compiled kernels; loads nothing, for callers before numba is imported."""

import os
from pathlib import Path


def cache_directory() -> Path | None:
    """``NUMBA_CACHE_DIR`` if it is set, else a folder in the user's cache directory.

    None if the user has no home directory; then nothing is kept.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named).absolute()
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        return None
    return caches.absolute() / "peewit" / "numba"
