"""Fault of a table that was sent: it is too large."""

from peewit.streaming.edges.bad_table import BadUpload


class TableTooLarge(BadUpload):
    """The table takes more once it is decoded than the server allows."""
