"""Files of an Iceberg table, each opened at exactly the location that was checked.

The library reads a path as a URL, of which it drops what follows ``?`` or ``#`` and some invisible
characters. So a path is parsed the same way, and refused unless all of it counts.
"""

import re
from collections.abc import Mapping
from typing import Final, NoReturn

from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, OutputFile, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.iceberg_unpacking import read_manifest, read_metadata
from peewit.service.live_sources.stores import store_of
from peewit.service.live_sources.table_chunks import UnreadableTable
from peewit.service.redaction import shown_url

_DROPPED: Final = re.compile(r"^\s|[\x00-\x1f\x7f?#;]|(?:^|/)\.\.(?:/|$)")


_OWN_IMPL: Final = f"peewit.{PY_IO_IMPL}"
"""Catalog property that keeps the class which its own properties named for files."""


class _ReadFiles(FileIO):  # type: ignore[misc]  # the library has no types here
    """Files of tables, read only."""

    def new_output(self, location: str) -> OutputFile:
        """Refuse: a source writes nothing."""
        _refuse_writing(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: a source deletes nothing."""
        _refuse_writing(location)


class MetadataFiles(_ReadFiles):
    """Reads metadata files for a catalog, and refuses a table that names a class for its files.

    The library imports and calls that class when it loads the table, whoever wrote the table.
    """

    def new_input(self, location: str) -> InputFile:
        """A metadata file as it was checked; raises `UnreadableTable` where it is refused."""
        own = own_properties(self.properties)
        read = read_metadata(load_file_io(own, location).new_input(location))
        if PY_IO_IMPL in FromInputFile.table_metadata(read).properties:
            raise UnreadableTable(
                f"{shown_url(location)!r} must name no class to read its files with; unset the "
                f"property {PY_IO_IMPL} of the table"
            )
        return read


def read_metadata_first(properties: dict[str, str]) -> None:
    """Set the properties of a catalog so that `MetadataFiles` reads its metadata files."""
    if PY_IO_IMPL in properties:
        properties[_OWN_IMPL] = properties[PY_IO_IMPL]
    properties[PY_IO_IMPL] = f"{MetadataFiles.__module__}.{MetadataFiles.__qualname__}"


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of a catalog as before `read_metadata_first`."""
    own = {name: value for name, value in properties.items() if name != PY_IO_IMPL}
    if _OWN_IMPL in own:
        own[PY_IO_IMPL] = own.pop(_OWN_IMPL)
    return own


class ConfinedFiles(_ReadFiles):
    """Reads files of one table, only where ``access`` allows and in the store of the table."""

    def __init__(self, files: FileIO, access: Access, table: str) -> None:
        super().__init__(files.properties)
        self._files = files
        self._access = access
        self._store = store_of(PyArrowFileIO.parse_location(table)[0])

    def require_allowed(self, location: str) -> str:
        """What to open for a path; raises `UnreadableTable` unless it may be read."""
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
        """A manifest for the library; raises `UnreadableTable` unless it may be read."""
        return read_manifest(self.data_file(location))

    def metadata(self, location: str) -> TableMetadata:
        """What a metadata file says; raises `UnreadableTable` unless it may be read."""
        return FromInputFile.table_metadata(read_metadata(self.data_file(location)))

    def data_file(self, location: str) -> InputFile:
        """A file of any size; raises `UnreadableTable` unless it may be read."""
        return self._files.new_input(self.require_allowed(location))


def _refuse_writing(location: object) -> NoReturn:
    raise PermissionError(f"tables of sources are only read, got {location}")
