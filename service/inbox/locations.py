"""Locations of edges as paths that mean the same everywhere, and of what waits for ingest."""

from pathlib import Path

from peewit.streaming.durable import fsync_directory


def absolute_url(url: str) -> str:
    """The URL with a relative local path, or glob, made absolute; other URLs as they are.

    A home directory ``~`` is filled in. ``s3://...`` and chained URLs (``::``) stay.
    """
    if "://" in url or "::" in url:
        return url
    return str(Path(url).expanduser().absolute())


def make_durable_directory(directory: Path) -> None:
    """Make a directory of a graph that survives a power failure once files in it do."""
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        for parent in directory.parents[:3]:  # graph, graphs, home
            fsync_directory(parent)
