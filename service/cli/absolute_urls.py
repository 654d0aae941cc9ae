"""Absolute URLs: locations of edges that mean the same from every directory."""

from pathlib import Path


def absolute_url(url: str) -> str:
    """The URL with a relative local path, or glob, made absolute; other URLs as they are.

    A home directory ``~`` is filled in. ``s3://...`` and chained URLs stay.
    """
    if "://" in url:
        return url
    return str(Path(url).expanduser().absolute())
