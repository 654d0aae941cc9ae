"""Files that an Iceberg table leads to, each opened at the place that was looked at.

The library reads a path as a URL, of which it drops what follows ``?`` or ``#`` and some characters
that nobody sees. So a path is taken apart as there, and refused unless all of it counts.
"""

import re
from typing import Final, NoReturn

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.stores import store_of
from peewit.service.live_sources.table_chunks import UnreadableTable
from peewit.service.redaction import shown_url

_DROPPED: Final = re.compile(r"^\s|[\x00-\x1f\x7f?#;]|(?:^|/)\.\.(?:/|$)")


class ConfinedFiles(FileIO):  # type: ignore[misc]  # the library has no types here
    """Reads files of one table, where its source may read, in the store that the table is in.

    Parameters
    ----------
    files : pyiceberg.io.FileIO
        Opens them.
    access : Access
        Says where the source may read.
    table : str
        A path or URL of the table itself.
    """

    def __init__(self, files: FileIO, access: Access, table: str) -> None:
        super().__init__(files.properties)
        self._files = files
        self._access = access
        self._store = store_of(PyArrowFileIO.parse_location(table)[0])

    def require_allowed(self, location: str) -> str:
        """What is opened for a path; raises `UnreadableTable` unless it may be read."""
        if _DROPPED.search(location):
            raise UnreadableTable(
                f"{shown_url(location)!r} must have no '..', no ? # or ; and no control characters"
            )
        scheme, host, path = PyArrowFileIO.parse_location(location)
        is_plain = ":" not in location.partition("/")[0] or location.startswith(f"{scheme}:/")
        if not is_plain or store_of(scheme) != self._store:
            raise UnreadableTable(f"{shown_url(location)!r} must lie in the store of its table")
        is_local = scheme == "file"
        opened = path if is_local else location
        if (is_local and host) or not self._access.allows(opened):
            raise UnreadableTable(f"{shown_url(location)!r} must lie where the source may read")
        return opened

    def new_input(self, location: str) -> InputFile:
        """A file to read; raises `UnreadableTable` for one that may not be."""
        return self._files.new_input(self.require_allowed(location))

    def new_output(self, location: str) -> OutputFile:
        """No file: a source writes nothing."""
        _refuse_writing(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Nothing is deleted: a source writes nothing."""
        _refuse_writing(location)


def _refuse_writing(location: object) -> NoReturn:
    raise PermissionError(f"tables of sources are only read, got {location}")
