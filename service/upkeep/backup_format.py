"""Format of a backup: rows in a SQLite file, files of the graphs, and a manifest.

Rows of every table but ``workers``, ``leases``, ``ingest_steps`` and ``reservations`` are copied
through the tables of `peewit.service.database.tables`, so that a backup does not depend on the kind
of database. Its paths are those of the home it was made of; `needed_files.relocated` maps them to
another home.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from blake3 import blake3
from sqlalchemy import Connection, Select, Table, func, insert, select

from peewit.service.database.tables import graphs, jobs, metadata
from peewit.streaming.durable_files import naming

MANIFEST: Final = "manifest.json"
DATABASE: Final = "database.sqlite"

FORMAT: Final = 1
_ROWS_AT_ONCE: Final = 500
_COPY_BYTES: Final = 1 << 20
_TRANSIENT: Final = ("workers", "leases", "ingest_steps", "reservations")

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is."""


class NotABackup(ValueError):
    """The directory holds no backup that this version can read."""


class DamagedBackup(RuntimeError):
    """A file of the backup is missing or differs from what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """One file of a backup."""

    path: str  # relative to the backup
    size: int  # bytes
    digest: str  # hexadecimal BLAKE3 of the content
    modified_ns: int  # since the epoch; identifies versions of files


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """List of the files and rows of a backup."""

    peewit: str  # version of the program
    schema: str  # revision of the tables
    created_at: str  # when rows were read, by the database's clock, in ISO 8601
    rows: dict[str, int]  # by table
    files: tuple[BackupFile, ...]  # all but the manifest itself

    @property
    def n_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Content of the manifest file."""
        return {"format": FORMAT, **asdict(self)}


def read_manifest(directory: Path) -> BackupManifest:
    """The manifest of a backup; raises `NotABackup` without one, or for another version's."""
    path = directory / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("format") != FORMAT:
            raise NotABackup(f"{path} has another format than {FORMAT}; install the newer version")
        files = tuple(BackupFile(**file) for file in values.pop("files"))
        return BackupManifest(**values, files=files)
    except (FileNotFoundError, NotADirectoryError):
        raise NotABackup(f"{directory} must hold a backup, it has no {MANIFEST}") from None
    except RecursionError:
        raise NotABackup(f"{path} is no page of a backup: its lists stand too deep") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NotABackup(f"{path} is no page of a backup: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise NotABackup(f"{path} is no page of a backup: {error}") from error


def carried_tables() -> list[Table]:
    """The tables of a backup, referenced ones first."""
    return [table for table in metadata.sorted_tables if table.name not in _TRANSIENT]


def copy_rows(source: Connection, target: Connection, progress: Progress) -> dict[str, int]:
    """Copy the keys and the rows of all graphs that are not deleted; number of rows by table."""
    rows = count_rows(source)
    total, done = sum(rows.values()), 0
    for table in carried_tables():
        result = source.execution_options(yield_per=_ROWS_AT_ONCE).execute(_selection(table))
        for some in result.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in some])
            done += len(some)
            progress("rows", done, total)
    return rows


def count_rows(connection: Connection) -> dict[str, int]:
    """Number of rows that a backup of this database would have, by table."""
    return {
        f"{table.name}": int(
            connection.execute(
                select(func.count()).select_from(_selection(table).subquery())
            ).scalar_one()
        )
        for table in carried_tables()
    }


def _selection(table: Table) -> Select[Any]:
    active = select(graphs.c.id).where(graphs.c.state == "active")
    if table is graphs:
        return select(table).where(graphs.c.state == "active")
    if "graph_id" in table.c:
        return select(table).where(table.c.graph_id.in_(active))
    if "job_id" in table.c:
        job_ids = select(jobs.c.id).where(jobs.c.graph_id.in_(active))
        return select(table).where(table.c.job_id.in_(job_ids))
    return select(table)


def copy_file(source: Path, target: Path) -> BackupFile:
    """Copy one file to the disk with its modification time; ``path`` is the target's name.

    Raises OSError that names the file where the disk is full or fails.
    """
    digest = blake3()
    with naming(target), source.open("rb") as reader, target.open("wb") as writer:
        while piece := reader.read(_COPY_BYTES):
            digest.update(piece)
            writer.write(piece)
        writer.flush()
        os.fsync(writer.fileno())
        status = os.fstat(reader.fileno())
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
    return BackupFile(
        path=target.name,
        size=target.stat().st_size,
        digest=digest.hexdigest(),
        modified_ns=status.st_mtime_ns,
    )


def digest_of(path: Path) -> str:
    """Hexadecimal BLAKE3 of a file."""
    return str(blake3().update_mmap(path).hexdigest())


def files_below(directory: Path) -> Iterator[Path]:
    """All files below a directory, in order."""
    return (path for path in sorted(directory.rglob("*")) if path.is_file())
