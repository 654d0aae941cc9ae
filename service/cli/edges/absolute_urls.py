"""Absolute URLs: locations of edges that mean the same from every directory."""

import os.path
from pathlib import Path
from typing import Final

_LOCAL: Final = "file://"


def absolute_url(url: str) -> str:
    """The URL with a relative local path or glob made absolute; other URLs as they are.

    ``~`` is expanded and ``..`` removed, so that a file has one name. ``s3://...`` and chained URLs
    stay.
    """
    if url.startswith(f"{_LOCAL}/"):
        return _LOCAL + _without_parents(url.removeprefix(_LOCAL))
    if "://" in url:
        return url
    return _without_parents(str(Path(url).expanduser().absolute()))


def _without_parents(path: str) -> str:
    """The path without ``..``, links not followed; as it is if a link before ``..`` matters."""
    plain = os.path.normpath(path)
    return plain if os.path.realpath(plain) == os.path.realpath(path) else path
