"""Full disk: whether an error of a file, SQLite or PostgreSQL says so."""

import errno
from typing import Final

from sqlalchemy.exc import DBAPIError

_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}
_SQLITE: Final = {"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"}
"""The second one comes where the index of the write-ahead log cannot grow."""

_POSTGRESQL: Final = "53100"
"""SQL's disk_full."""


def is_disk_failure(error: DBAPIError) -> bool:
    """Whether SQLite could not write or read its file, for want of room or otherwise."""
    name = getattr(error.orig, "sqlite_errorname", "")
    return name in _SQLITE or name.startswith("SQLITE_IOERR")


def is_disk_full(error: BaseException) -> bool:
    """Whether an error means that the disk is full, so that nothing was written."""
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM
    if not isinstance(error, DBAPIError):
        return False
    name = getattr(error.orig, "sqlite_errorname", None)
    return name in _SQLITE or getattr(error.orig, "sqlstate", None) == _POSTGRESQL
