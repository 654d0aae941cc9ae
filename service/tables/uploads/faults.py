"""Fault of a table that is too large."""

from peewit.streaming.edges.bad_table import BadUpload


class TableTooLarge(BadUpload):
    """The decoded table is larger than the server allows."""

    status = 413
    title = "Table too large"
