"""Places of Iceberg tables: a catalog that knows the table, or its directory.

A catalog says which metadata file is the newest; in a directory it is the one with the highest
number. The library would import classes and call endpoints that a table's properties name, and
whoever writes a table is not who runs this process. So metadata is checked before the library sees
it, which is impossible for catalogs that send it by REST.
"""

import os
import re
from typing import Final, NamedTuple, Protocol

import pyarrow.fs
from pyiceberg.catalog import MetastoreCatalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadata

from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.iceberg_files import (
    ConfinedFiles,
    own_properties,
    read_metadata_first,
)
from peewit.service.live_sources.table_chunks import TableUnavailable, UnreadableTable
from peewit.service.redaction import shown_url
from peewit.solvers.arguments import BadArgument

_IN_CATALOG: Final = re.compile(r"iceberg://(?P<catalog>[^/]+)/(?P<table>[^/.]+(?:\.[^/.]+)+)")
_DIRECTORY: Final = re.compile(r"(?:file|s3|s3a|gs)://.+|(?![A-Za-z0-9+.-]+:).+")
_METADATA: Final = re.compile(r"v?(?P<number>[0-9]+)(?:-[^/]+)?(?:\.gz)?\.metadata\.json")


class LoadedTable(NamedTuple):
    """A table as it is now, and the reader of its files."""

    metadata: TableMetadata
    files: ConfinedFiles


class Place(Protocol):
    """Where a table is found."""

    def look(self) -> LoadedTable:
        """The table as it is now.

        Raises `TableUnavailable` where there is none or its newest metadata file is unclear, and
        whatever the store or the catalog raises.
        """


def place_of(access: Access) -> Place:
    """The place that a URL names; raises ValueError for none."""
    if match := _IN_CATALOG.fullmatch(access.url):
        return CatalogPlace(access, match["catalog"], match["table"])
    if "::" in access.url or not _DIRECTORY.fullmatch(access.url):
        raise BadArgument(
            "url",
            "must be iceberg://CATALOG/NAMESPACE.TABLE, or a directory as a local path, s3:// or "
            f"gs:// for an Iceberg table, got {shown_url(access.url)!r}",
        )
    return DirectoryPlace(access)


class CatalogPlace:
    """A table of a catalog that the library's own environment or settings file describes."""

    def __init__(self, access: Access, catalog: str, table: str) -> None:
        self._access = access
        self._name = catalog
        self._table = table
        self._catalog: MetastoreCatalog | None = None

    def look(self) -> LoadedTable:
        """The table as the catalog has it now; raises `UnreadableTable` where it is refused."""
        self._catalog = self._catalog or _catalog_of_files(self._name)
        try:
            table = self._catalog.load_table(self._table)
        except NoSuchTableError as error:
            raise TableUnavailable(
                f"table {self._table} must be in the catalog {self._name}, where it is not"
            ) from error
        opened = load_file_io(own_properties(self._catalog.properties), table.metadata_location)
        files = ConfinedFiles(opened, self._access, table.metadata_location)
        files.require_allowed(table.metadata_location)
        return LoadedTable(table.metadata, files)


class DirectoryPlace:
    """A table whose metadata files are in the folder ``metadata`` of a directory."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = PyArrowFileIO(_store_properties())
        self._files = ConfinedFiles(self._store, access, access.url)
        self._loaded: tuple[str, LoadedTable] | None = None

    def look(self) -> LoadedTable:
        """The table as of its newest metadata file."""
        location = self._newest()
        if self._loaded is None or self._loaded[0] != location:
            self._loaded = location, LoadedTable(self._files.metadata(location), self._files)
        return self._loaded[1]

    def _newest(self) -> str:
        directory = f"{self._access.url.rstrip('/')}/metadata"
        scheme, host, path = PyArrowFileIO.parse_location(directory)
        selector = pyarrow.fs.FileSelector(path, allow_not_found=True)
        by_number: dict[int, list[str]] = {}
        for info in self._store.fs_by_scheme(scheme, host).get_file_info(selector):
            if match := _METADATA.fullmatch(info.base_name):
                by_number.setdefault(int(match["number"]), []).append(info.base_name)
        shown = shown_url(directory)
        if not by_number:
            raise TableUnavailable(f"{shown} must hold files *.metadata.json, there is none")
        newest = sorted(by_number[max(by_number)])
        if len(newest) > 1:
            raise TableUnavailable(
                f"{shown} must have one newest file of metadata, several writers left "
                f"{', '.join(newest)}; wait for its next change, or name the table by its "
                "catalog, iceberg://CATALOG/NAMESPACE.TABLE"
            )
        return f"{directory}/{newest[0]}"


def _catalog_of_files(name: str) -> MetastoreCatalog:
    """A catalog with metadata in files, each checked before the library reads it."""
    catalog = load_catalog(name)
    if not isinstance(catalog, MetastoreCatalog):
        raise UnreadableTable(
            f"catalog {name} must keep the metadata of tables in files, as the types sql, "
            "glue, hive, dynamodb and bigquery do. With others, as rest, the library "
            "imports what a table names before it can be checked. Name the directory of "
            "the table instead: a local path, s3:// or gs://"
        )
    read_metadata_first(catalog.properties)
    return catalog


def _store_properties() -> dict[str, str]:
    """Properties of an object store that the library does not read from the environment itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint and not region:
        region = "us-east-1"  # else the library asks Amazon for the bucket's
    properties = {"s3.endpoint": endpoint, "s3.region": region}
    return {name: value for name, value in properties.items() if value}
