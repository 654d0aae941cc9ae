"""`peewit restore`: a backup into an empty home and an empty database.

Files are copied beside their place and checked against their digests. Then one transaction takes
the rows; before it ends the files are moved into place. A mark in the home says that a restore is
under way: whoever finds it may begin anew, since all that is there is the restore's own, or, once
the rows are there, only has to remove it.
"""

import json
import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, bindparam, func, select, text, update

from peewit.service.catalog import GRAPH_ID
from peewit.service.database.engine import SERVE_LOCK, Database, open_private_database
from peewit.service.database.migrations import require_known
from peewit.service.database.tables import feature_sets, files, graphs, pushes, sources
from peewit.service.inbox.leaving.erasure_ledger import LEDGER, Ledger
from peewit.service.inbox.needed_files import GRAPHS, relocated
from peewit.service.jobs.queue import requeue_running
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.settings import COMPILED, Settings
from peewit.service.upkeep.backup_format import (
    DATABASE,
    MANIFEST,
    BackupManifest,
    DamagedBackup,
    Progress,
    carried_tables,
    copy_file,
    copy_rows,
    count_rows,
    files_below,
    read_manifest,
)
from peewit.service.upkeep.erased_again import erase_again
from peewit.streaming.durable_files import (
    TEMPORARY_PREFIX,
    fsync_directory,
    fsync_file,
    publish_json,
)
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.checkpoints import CheckpointStore

MARK: Final = "restore.json"
"""File in the home while a restore is under way."""

_STAGING: Final = f"{TEMPORARY_PREFIX}restore"
_KEPT_ENTRIES: Final = (COMPILED, LEDGER)
_DATABASE_FILES: Final = ("", "-wal", "-shm", SERVE_LOCK)
"""Suffixes of SQLite's files, and of the lock of servers."""


class HomeNotEmpty(ValueError):
    """Home or database hold something; a restore never mixes or overwrites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was restored."""

    home: str
    created_at: str  # moment of the backup
    n_files: int
    n_bytes: int
    rows: dict[str, int]  # by table
    n_requeued: int  # jobs that ran at that moment and wait again
    n_erased: int  # nodes hidden again, as they were erased since


def restore(
    database: Database,
    settings: Settings,
    directory: Path,
    *,
    ledger: Path | None = None,
    progress: Progress = lambda _what, _done, _total: None,
) -> RestoreReport:
    """Restore a backup into an empty home and database, SQLite or PostgreSQL.

    Nodes that were erased since the backup are hidden again; the next ingest erases them. Nothing
    else may run on the home meanwhile. After a crash at any line, the same call begins again, or
    finds that all is there. The backup is not changed.

    The ledger is by default that of the home, where one is left. Home and database must be empty; a
    backup or a ledger that is none, and a schema that is too old or too new, restore nothing.
    """
    manifest = read_manifest(directory)
    require_known(manifest.schema, of=f"the backup {directory}")
    home = settings.home
    home.mkdir(parents=True, exist_ok=True)
    _take_ledger(ledger, home / LEDGER)
    if (home / MARK).exists():
        finished = _earlier_report(database, settings, manifest)
        if finished is not None:
            return finished
    else:
        _require_empty(database, settings)
    page = {"backup": str(directory.absolute()), "created_at": manifest.created_at}
    publish_json(home / MARK, page)
    try:
        report = _restore(database, settings, directory, manifest, progress)
    except BaseException:
        with database.read() as connection:
            is_empty = not _rows_there(connection)
        if is_empty:
            _remove_ours(settings)
        raise
    (home / MARK).unlink()
    fsync_directory(home)
    return report


def _earlier_report(
    database: Database, settings: Settings, manifest: BackupManifest
) -> RestoreReport | None:
    """Report of an earlier call that finished its work; None after one that did not."""
    mark = settings.home / MARK
    page = json.loads(mark.read_text(encoding="utf-8"))
    with database.read() as connection:
        there = _rows_there(connection)
    if not there:
        _remove_ours(settings)
        _require_empty(database, settings)
        return None
    if page["created_at"] != manifest.created_at:
        raise HomeNotEmpty(
            f"{settings.home} must be empty, the restore of {page['backup']} has brought in its "
            f"rows and was killed then; remove {mark} to go on with those"
        )
    shutil.rmtree(settings.home / _STAGING, ignore_errors=True)
    n_erased = erase_again(database, settings)
    mark.unlink()
    return _report(settings, manifest, n_requeued=0, n_erased=n_erased)


def _require_empty(database: Database, settings: Settings) -> None:
    with database.read() as connection:
        there = _rows_there(connection)
    if there:
        counts = ", ".join(f"{n_rows} rows in {name}" for name, n_rows in there.items())
        raise HomeNotEmpty(f"the database must be empty, it has {counts}; restore into another one")
    alive = WorkerRegistry(database).alive()
    if alive:
        raise HomeNotEmpty(f"nothing may run on the home, {alive[0].id} does; stop it first")
    own = {
        *_KEPT_ENTRIES,
        *(f"{Path(database.engine.url.database or '').name}{end}" for end in _DATABASE_FILES),
    }
    names = sorted(path.name for path in settings.home.iterdir() if path.name not in own)
    if names == [GRAPHS] and not any(settings.graphs_directory.iterdir()):
        names = []
    if names:
        raise HomeNotEmpty(
            f"{settings.home} must be empty, it has {', '.join(names[:5])}; "
            "restore into another PEEWIT_HOME"
        )


def _rows_there(connection: Connection) -> dict[str, int]:
    """Number of rows of tables that have any."""
    counts = {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in carried_tables()
    }
    return {name: n_rows for name, n_rows in counts.items() if n_rows}


def _remove_ours(settings: Settings) -> None:
    """Remove what an earlier restore put into the empty home."""
    shutil.rmtree(settings.home / _STAGING, ignore_errors=True)
    if settings.graphs_directory.exists():
        shutil.rmtree(settings.graphs_directory)
    (settings.home / MARK).unlink(missing_ok=True)


def _restore(
    database: Database,
    settings: Settings,
    directory: Path,
    manifest: BackupManifest,
    progress: Progress,
) -> RestoreReport:
    staging = settings.home / _STAGING
    staging.mkdir()
    _copy_files(directory, manifest, staging, progress)
    with closing(open_private_database(staging / DATABASE)) as backup, backup.read() as source:
        moved = staging / GRAPHS
        moved.mkdir(exist_ok=True)
        _require_own_ids(source)
        for graph_id in source.execute(select(graphs.c.id)).scalars():
            _relocate_files(moved, settings.graphs_directory, graph_id)
        _flush(moved)
        with database.write() as target:
            _copy_checked(source, target, manifest, progress)
            _relocate_rows(target, settings.graphs_directory)
            n_requeued = requeue_running(target, reason="the home was restored from a backup")
            if settings.graphs_directory.exists():
                settings.graphs_directory.rmdir()
            moved.rename(settings.graphs_directory)
            fsync_directory(settings.home)
    shutil.rmtree(staging)
    n_erased = erase_again(database, settings)
    return _report(settings, manifest, n_requeued=n_requeued, n_erased=n_erased)


def _copy_files(
    directory: Path, manifest: BackupManifest, staging: Path, progress: Progress
) -> None:
    """Copy all files with their times, each compared with its digest."""
    done = 0
    for file in manifest.files:
        source, place = directory / file.path, staging / file.path
        is_inside = source.resolve().is_relative_to(directory.resolve())
        if not (is_inside and place.resolve().is_relative_to(staging.resolve())):
            raise DamagedBackup(f"{directory / MANIFEST} names a file outside of it: {file.path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            copied = copy_file(source, place)
        except FileNotFoundError as error:
            raise DamagedBackup(f"{source} is missing; use another backup") from error
        if (copied.size, copied.digest) != (file.size, file.digest):
            raise DamagedBackup(
                f"{source} must have {file.size} bytes of digest {file.digest[:16]}, it has "
                f"{copied.size} of {copied.digest[:16]}; use another backup"
            )
        os.utime(place, ns=(file.modified_ns, file.modified_ns))
        done += file.size
        progress("bytes", done, manifest.n_bytes)


def _require_own_ids(source: Connection) -> None:
    """Raise DamagedBackup for an id that no catalog makes, or a file outside its graph's folder."""
    for graph_id in source.execute(select(graphs.c.id)).scalars():
        if not GRAPH_ID.fullmatch(graph_id):
            raise DamagedBackup(
                f"the id of a graph must be 32 hexadecimal digits, got {graph_id[:80]!r}; somebody "
                "changed the backup, use another one"
            )
    for column in (pushes.c.path, feature_sets.c.path):
        rows = select(column, column.table.c.graph_id).where(column != "")
        for path, graph_id in source.execute(rows):
            inside = relocated(path, graph_id, Path(GRAPHS))
            if inside == path or ".." in Path(inside).parts:
                raise DamagedBackup(
                    f"a row of {column.table.name} must name a file of its graph, got "
                    f"{path[:80]!r}; somebody changed the backup, use another one"
                )


def _relocate_files(graphs_root: Path, new_root: Path, graph_id: str) -> None:
    """Rewrite the paths in a graph's checkpoints to where its files will be."""
    checkpoints = GraphPaths(root=graphs_root / graph_id).checkpoints
    if checkpoints.exists():
        root = new_root / graph_id
        CheckpointStore(checkpoints).rename_files(lambda path: relocated(path, graph_id, root))


def _flush(directory: Path) -> None:
    for path in files_below(directory):
        fsync_file(path)
    for path in [directory, *directory.rglob("*")]:
        if path.is_dir():
            fsync_directory(path)


def _copy_checked(
    source: Connection, target: Connection, manifest: BackupManifest, progress: Progress
) -> None:
    there = _rows_there(target)  # again, in the writing transaction
    if there:
        raise HomeNotEmpty(f"the database must be empty, rows came into {next(iter(there))}")
    copy_rows(source, target, progress)
    counts = count_rows(target)
    for name, n_rows in manifest.rows.items():
        if counts[name] != n_rows:
            raise DamagedBackup(f"{name} must have {n_rows} rows, {counts[name]} came in")
    if target.dialect.name == "postgresql":  # explicit ids do not advance sequences
        target.execute(
            text(
                "SELECT setval(pg_get_serial_sequence('files', 'id'), "
                "(SELECT COALESCE(MAX(id), 0) + 1 FROM files), false)"
            )
        )


def _relocate_rows(connection: Connection, graphs_directory: Path) -> None:
    """Rewrite paths below ``graphs`` in rows to where files will be."""
    for column in (pushes.c.path, files.c.path, feature_sets.c.path, sources.c.url):
        table = column.table
        is_below = column.contains(f"/{GRAPHS}/", autoescape=True)
        rows = connection.execute(
            select(table.c.id, table.c.graph_id, column).where(is_below)
        ).all()
        changes = [
            {"row_id": row_id, "new_path": relocated(path, graph_id, graphs_directory / graph_id)}
            for row_id, graph_id, path in rows
        ]
        if changes:
            statement = update(table).where(table.c.id == bindparam("row_id"))
            connection.execute(statement.values({column: bindparam("new_path")}), changes)


def _take_ledger(ledger: Path | None, place: Path) -> None:
    """Copy the ledger into the home, which continues it."""
    if ledger is None:
        return
    for _ in Ledger(ledger).entries():  # raises BadLedger
        pass
    if not (place.exists() and place.samefile(ledger)):
        if place.exists():
            raise HomeNotEmpty(f"{place} must not exist where another ledger is given; put it away")
        copy_file(ledger, place)


def _report(
    settings: Settings, manifest: BackupManifest, *, n_requeued: int, n_erased: int
) -> RestoreReport:
    return RestoreReport(
        home=str(settings.home),
        created_at=manifest.created_at,
        n_files=len(manifest.files),
        n_bytes=manifest.n_bytes,
        rows=manifest.rows,
        n_requeued=n_requeued,
        n_erased=n_erased,
    )
