"""`peewit backup`: a copy of rows and files of one moment, while all processes go on.

A lock that every writer of a graph needs fixes the moment: checkpoints and snapshots are published
only after their lease is confirmed in the database, so none appears while leases cannot be written.
Under the lock one reading transaction begins and every file gets a second name (hard link), which
takes milliseconds; rows and bytes are copied afterwards.

What is published between the last confirmation and the lock puts a checkpoint at most one step
ahead of the rows, as a process that dies there does; ingest then writes the rows again.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version as version_of
from pathlib import Path
from time import sleep
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from peewit.service.database.disk_full_errors import is_disk_failure, is_disk_full
from peewit.service.database.engine import Database, open_private_database
from peewit.service.database.lease_holders import holder_name, is_dead
from peewit.service.database.migrations import NEWEST
from peewit.service.database.tables import files, graphs, sources
from peewit.service.database.timestamps import now
from peewit.service.inbox.needed_files import GRAPHS, needed_files, path_below
from peewit.service.redaction import shown_url
from peewit.service.settings import Settings
from peewit.service.upkeep.backup_format import (
    DATABASE,
    MANIFEST,
    BackupFile,
    BackupManifest,
    Progress,
    copy_file,
    copy_rows,
    digest_of,
    files_below,
)
from peewit.streaming.durable_files import (
    TEMPORARY_PREFIX,
    fsync_directory,
    fsync_file,
    link_file,
    publish_directory,
    write_json,
)
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.segments import CorruptSegment, require_ids
from peewit.streaming.snapshots.checkpoints import CheckpointStore

WORK_DIRECTORIES: Final = (
    "staging",
    "uploads",
    "knn_work",
    "certify",
    "refine",
    "embedding",
    "counts",
    "map",
    "filtered_features",
)
"""Directories of a graph that are not backed up: work of a run, and what can be made again."""

STAGING_PREFIX: Final = f"{TEMPORARY_PREFIX}backup-"
"""Prefix of the directories below ``graphs`` that hold second names of files."""

_HOLDER: Final = "holder"
_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 0.05


class BackupRefused(ValueError):
    """The directory cannot receive a backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideFiles:
    """Files of a source outside the home, which a backup does not hold."""

    graph: str  # name
    url: str  # without passwords
    n_pending: int
    n_committed: int  # files that are in the graph


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What was backed up."""

    directory: str
    created_at: str  # moment of the copy
    n_files: int
    n_bytes: int
    rows: dict[str, int]  # by table
    outside: tuple[OutsideFiles, ...]  # must stay where they are
    missing: tuple[str, ...]  # files in the home that rows name and that were gone


def back_up(
    database: Database,
    settings: Settings,
    directory: Path,
    *,
    progress: Progress = lambda _what, _done, _total: None,
) -> BackupReport:
    """Copy all graphs and keys of a home, which may be in use, into a new directory.

    Leases, workers and deleted graphs are left out. The directory must be empty or not exist, and
    is published whole or not at all. Raises `BackupRefused` where it holds something or lies in the
    home, and OSError where the disk is full or fails; then nothing of the backup stays.
    """
    target = directory.absolute()
    _require_free(target, settings)
    target.parent.mkdir(parents=True, exist_ok=True)
    with publish_directory(target) as unfinished:
        with _moment(database, settings) as (reader, staging):
            created_at = reader.execute(select(now())).scalar_one().isoformat()
            outside = tuple(_outside(reader))
            missing = tuple(_missing(reader, settings.graphs_directory, staging))
            rows = _copy_rows(reader, unfinished / DATABASE, progress)
            copied = _copy_files(staging, unfinished, progress)
        whole = _describe(unfinished / DATABASE, name=DATABASE)
        manifest = BackupManifest(
            peewit=version_of("peewit"),
            schema=NEWEST,
            created_at=created_at,
            rows=rows,
            files=(whole, *copied),
        )
        write_json(unfinished / MANIFEST, manifest.to_json())
        for below in unfinished.rglob("*"):
            if below.is_dir():
                fsync_directory(below)
    return BackupReport(
        directory=str(target),
        created_at=created_at,
        n_files=len(manifest.files),
        n_bytes=manifest.n_bytes,
        rows=rows,
        outside=outside,
        missing=missing,
    )


def abandoned_stagings(graphs_directory: Path) -> list[Path]:
    """Directories of second names left by a killed backup; removing them loses nothing."""
    stagings = graphs_directory.glob(f"{STAGING_PREFIX}*")
    return [staging for staging in sorted(stagings) if _is_abandoned(staging)]


def _is_abandoned(staging: Path) -> bool:
    with suppress(FileNotFoundError):
        return is_dead((staging / _HOLDER).read_text())
    return False


def _require_free(target: Path, settings: Settings) -> None:
    if target.is_dir() and any(target.iterdir()):
        names = ", ".join(sorted(path.name for path in target.iterdir())[:5])
        raise BackupRefused(f"DIR must be empty or not exist, {target} holds {names}")
    if target.exists() and not target.is_dir():
        raise BackupRefused(f"DIR must be a directory, got the file {target}")
    if target.resolve().is_relative_to(settings.home.resolve()):
        raise BackupRefused(f"DIR must not lie in PEEWIT_HOME, which it copies, got {target}")


@contextmanager
def _moment(database: Database, settings: Settings) -> Iterator[tuple[Connection, Path]]:
    """A reading transaction, and a directory with the files that belong to it."""
    root = settings.graphs_directory
    root.mkdir(parents=True, exist_ok=True)
    for left in abandoned_stagings(root):
        shutil.rmtree(left)
    staging = root / f"{STAGING_PREFIX}{uuid4().hex}"
    staging.mkdir()
    try:
        (staging / _HOLDER).write_text(holder_name())
        with database.read() as reader:
            with database.write() as fence:
                _stop_writers(fence)
                active = select(graphs.c.id, graphs.c.node_ids).where(graphs.c.state == "active")
                for graph_id, kind in reader.execute(active).all():  # begins the snapshot
                    _link_graph(root / graph_id, staging / GRAPHS / graph_id, kind)
            yield reader, staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _stop_writers(fence: Connection) -> None:
    """Block lease confirmations until this transaction ends; SQLite has one writer anyway."""
    if fence.dialect.name == "postgresql":
        fence.execute(text("LOCK TABLE leases IN EXCLUSIVE MODE"))


def _link_graph(root: Path, target: Path, kind: NodeKind) -> None:
    """Give the files of one graph second names; repeat where some were replaced meanwhile."""
    for _ in range(_ATTEMPTS):
        target.mkdir(parents=True)
        if not root.exists():
            return
        before = pointer_of(GraphPaths(root=root))
        _link_below(root, target)
        if pointer_of(GraphPaths(root=root)) == before and _is_whole(target, kind):
            return
        shutil.rmtree(target)
        sleep(_PAUSE_SECONDS)
    raise RuntimeError(
        f"{root} must hold the node index of its checkpoint, some of it is missing or is replaced "
        "all the time; `peewit doctor` says what"
    )


def pointer_of(paths: GraphPaths) -> bytes | None:
    """Identity of a graph's checkpoint, which changes with each replacement; None without one."""
    with suppress(FileNotFoundError):
        return (paths.checkpoints / "current.json").read_bytes()
    return None


def _link_below(root: Path, target: Path) -> None:
    for directory, names, file_names in os.walk(root):
        here = Path(directory)
        if here == root:
            names[:] = [name for name in names if name not in WORK_DIRECTORIES]
        names[:] = [name for name in names if not name.startswith(TEMPORARY_PREFIX)]
        place = target / here.relative_to(root)
        place.mkdir(exist_ok=True)
        for name in file_names:
            if not name.startswith(TEMPORARY_PREFIX):
                with suppress(FileNotFoundError):  # replaced or removed
                    link_file(here / name, place / name)


def _is_whole(target: Path, kind: NodeKind) -> bool:
    """Whether the index has the checkpoint's nodes; its segments may be merged at any time."""
    paths = GraphPaths(root=target)
    if kind == "dense" or not paths.checkpoints.exists():
        return True
    try:
        require_ids(paths.nodes, CheckpointStore(paths.checkpoints).n_nodes())
    except (ValueError, CorruptSegment):
        return False
    return True


def _outside(reader: Connection) -> Iterator[OutsideFiles]:
    pending = func.count().filter(files.c.status == "pending")
    committed = func.count().filter(files.c.status == "committed")
    statement = (
        select(graphs.c.id, graphs.c.name, sources.c.url, pending, committed)
        .join(sources, sources.c.graph_id == graphs.c.id)
        .join(files, files.c.source_id == sources.c.id)
        .where(graphs.c.state == "active")
        .group_by(graphs.c.id, graphs.c.name, sources.c.url)
        .order_by(graphs.c.name, sources.c.url)
    )
    for graph_id, name, url, n_pending, n_committed in reader.execute(statement):
        if path_below(url, graph_id) is None:
            yield OutsideFiles(
                graph=name, url=shown_url(url), n_pending=n_pending, n_committed=n_committed
            )


def _missing(reader: Connection, root: Path, staging: Path) -> Iterator[str]:
    """Waiting files below the home that are not there."""
    for graph_id, path in needed_files(reader):
        copied = staging / GRAPHS / graph_id
        if copied.exists() and not (copied / path).exists():
            yield str(root / graph_id / path)


def _copy_rows(reader: Connection, path: Path, progress: Progress) -> dict[str, int]:
    try:
        with closing(open_private_database(path)) as target, target.write() as connection:
            return copy_rows(reader, connection, progress)
    except DBAPIError as error:
        if is_disk_failure(error):
            number = errno.ENOSPC if is_disk_full(error) else errno.EIO
            raise OSError(number, f"cannot copy rows, {error.orig}", str(path)) from error
        raise


def _copy_files(staging: Path, target: Path, progress: Progress) -> list[BackupFile]:
    """Copy the linked files; those with two names, as checkpoints share them, only once."""
    files = list(files_below(staging / GRAPHS))
    total, done = sum(path.stat().st_size for path in files), 0
    first: dict[tuple[int, int], BackupFile] = {}
    copied = []
    (target / GRAPHS).mkdir()
    for path in files:
        place = target / path.relative_to(staging)
        place.parent.mkdir(parents=True, exist_ok=True)
        status = path.stat()
        known = first.get((status.st_dev, status.st_ino))
        if known is None:
            known = copy_file(path, place)
        else:
            link_file(target / known.path, place)
        file = replace(known, path=str(place.relative_to(target)))
        first.setdefault((status.st_dev, status.st_ino), file)
        copied.append(file)
        done += status.st_size
        progress("bytes", done, total)
    return copied


def _describe(path: Path, *, name: str) -> BackupFile:
    """Record of a file that exists, after flushing it."""
    fsync_file(path)
    status = path.stat()
    return BackupFile(
        path=name, size=status.st_size, digest=digest_of(path), modified_ns=status.st_mtime_ns
    )
