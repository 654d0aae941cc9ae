"""A table of one graph with its provenance, kept in one file and replaced whole.

For what takes long to make and outlives its snapshot, such as an embedding or a map.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from peewit.streaming.durable_files import naming, publish_file

_META_KEY: Final = b"peewit"


class ReplacedTable:
    """An Arrow file of one batch, memory-mapped by readers.

    ``version_of_format`` is the one that this release writes and reads.
    """

    def __init__(self, path: Path, version_of_format: int) -> None:
        self._path = path
        self._format = version_of_format

    def version(self) -> tuple[int, int] | None:
        """Version, which every replacement changes; None while there is no file."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    def _read(self) -> tuple[dict[str, Any], pa.RecordBatch] | None:
        """Provenance and columns; None while there are none, or none of this format."""
        try:
            source = pa.memory_map(str(self._path))
        except FileNotFoundError:
            return None
        reader = pa.ipc.open_file(source)
        values = json.loads(reader.schema.metadata[_META_KEY])
        if values.pop("format") != self._format:
            return None
        return values, reader.get_batch(0)

    def _publish(self, provenance: Mapping[str, Any], columns: Mapping[str, pa.Array]) -> None:
        """Replace the file, whole or not at all; raises OSError."""
        meta = {_META_KEY: json.dumps({"format": self._format, **provenance})}
        batch = pa.record_batch(dict(columns)).replace_schema_metadata(meta)

        def write(path: Path) -> None:
            with (
                naming(path),
                pa.OSFile(str(path), "wb") as sink,
                pa.ipc.new_file(sink, batch.schema) as writer,
            ):
                writer.write_batch(batch)

        self._path.parent.mkdir(parents=True, exist_ok=True)
        publish_file(self._path, write)
