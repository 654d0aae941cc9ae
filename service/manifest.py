"""What a graph is made of: its sources, the files found there, the blocks pushed, and their fate.

A file is the unit of commitment: pending until ingest has taken it whole, refused it whole, or met
its content before. `position` is the order of ingest; it grows in the order of the commits, so that
nothing ever appears in front of a file that is being read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from service.catalog import Catalog, GraphProgress, lock_graph
from service.database import Database, files, graphs, now, pushes, sources
from service.jobs import MAX_KEY_LENGTH, IdempotencyConflict
from service.leases import Lease, confirm
from service.manifest_records import (
    FILE_STATUSES,
    Backlog,
    FileNotListed,
    FileOutcome,
    FileRecord,
    FileStatus,
    ListedFile,
    PushRecord,
    SourceNotFound,
    SourceRecord,
)

__all__ = [
    "FILE_STATUSES",
    "MAX_PATH_BYTES",
    "Backlog",
    "FileNotListed",
    "FileOutcome",
    "FileRecord",
    "FileStatus",
    "ListedFile",
    "Manifest",
    "PushRecord",
    "SourceNotFound",
    "SourceRecord",
]

MAX_PATH_BYTES: Final = 2000
"""PostgreSQL's indexes take no longer entries."""


class Manifest:
    """Sources, files and pushes of all graphs.

    Every method that writes raises `GraphNotFound` when the graph is not there.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalog = Catalog(database)

    # Sources

    def add_source(self, graph_id: str, url: str, *, follow: bool = False) -> SourceRecord:
        """The source of this URL, added unless it is there; ``follow`` is as given last.

        A source that was removed and is added again goes on where it was.

        Raises
        ------
        ValueError
            The URL is empty or too long.
        """
        _require_path("url", url)
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            mine = and_(sources.c.graph_id == graph_id, sources.c.url == url)
            row = connection.execute(
                update(sources)
                .where(mine)
                .values(follow=follow, removed_at=None)
                .returning(sources)
            ).one_or_none()
            if row is None:
                values = {"id": uuid4().hex, "graph_id": graph_id, "url": url, "follow": follow}
                statement = insert(sources).values(**values).returning(sources)
                row = connection.execute(statement).one()
        return _source(row)

    def list_sources(self, graph_id: str) -> Sequence[SourceRecord]:
        """The sources that are not removed, by URL."""
        statement = (
            select(sources)
            .where(sources.c.graph_id == graph_id, sources.c.removed_at.is_(None))
            .order_by(sources.c.url)
        )
        with self._database.read() as connection:
            return [_source(row) for row in connection.execute(statement)]

    def remove_source(self, graph_id: str, source_id: str) -> None:
        """Read nothing more from a source; what is committed stays in the graph.

        Its pending files are not offered any more, unless another source lists them.

        Raises
        ------
        SourceNotFound
            The graph has no such source.
        """
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            _require_source(connection, graph_id, source_id)
            statement = update(sources).where(sources.c.id == source_id)
            connection.execute(statement.values(removed_at=now()))

    # Files

    def register_files(
        self, graph_id: str, source_id: str, listed: Sequence[ListedFile | tuple[str, str, int]]
    ) -> int:
        """Take notice of a listing; how many files of it are new.

        A known path with a known version is left alone, so that the same listing may come again
        and again (and then nothing is written). Another version is a new pending file: only its
        content can tell whether it changed. Turns are given in the order of the listing.

        Raises
        ------
        SourceNotFound
            The graph has no such source.
        ValueError
            A path is too long.
        """
        listing = list(dict.fromkeys(ListedFile(*each) for each in listed))
        for each in listing:
            _require_path("path", each.path)
        with self._database.read() as connection:
            _require_source(connection, graph_id, source_id)
            if not any(_unknown_or_orphaned(connection, graph_id, listing)):
                return 0
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            _require_source(connection, graph_id, source_id)
            new, orphaned = _unknown_or_orphaned(connection, graph_id, listing)
            if orphaned:
                adopt = update(files).where(files.c.id == bindparam("file_id"))
                connection.execute(
                    adopt.values(source_id=source_id), [{"file_id": each} for each in orphaned]
                )
            if new:
                _insert_files(connection, graph_id, new, source_id=source_id)
        return len(new)

    def pending(
        self, graph_id: str, *, pushed_only: bool = False, limit: int | None = None
    ) -> Sequence[FileRecord]:
        """Files to be ingested, in the order to do it.

        Parameters
        ----------
        graph_id : str
            Which graph.
        pushed_only : bool
            Leave out files of sources.
        limit : int, optional
            Most files to return.
        """
        statement = select(files).where(files.c.graph_id == graph_id, _is_offered())
        if pushed_only:
            statement = statement.where(files.c.push_id.is_not(None))
        return self._files_of(statement.order_by(files.c.position).limit(limit))

    def list_files(
        self,
        graph_id: str,
        *,
        status: FileStatus | None = None,
        source_id: str | None = None,
        after_id: int = 0,
        limit: int = 100,
    ) -> Sequence[FileRecord]:
        """A page of the manifest, oldest first; the next one starts after the last id of this."""
        statement = select(files).where(files.c.graph_id == graph_id, files.c.id > after_id)
        if status is not None:
            statement = statement.where(files.c.status == status)
        if source_id is not None:
            statement = statement.where(files.c.source_id == source_id)
        return self._files_of(statement.order_by(files.c.id).limit(limit))

    def file(self, graph_id: str, file_id: int) -> FileRecord:
        """One file at this moment; raises `FileNotListed`."""
        statement = select(files).where(files.c.graph_id == graph_id, files.c.id == file_id)
        for found in self._files_of(statement):
            return found
        raise FileNotListed(f"no file {file_id} in the manifest of this graph")

    def counts(self, graph_id: str, *, source_id: str | None = None) -> Mapping[FileStatus, int]:
        """Files by status, of the whole graph or of one source."""
        statement = select(files.c.status, func.count().label("n_files")).where(
            files.c.graph_id == graph_id
        )
        if source_id is not None:
            statement = statement.where(files.c.source_id == source_id)
        with self._database.read() as connection:
            rows = connection.execute(statement.group_by(files.c.status)).all()
        return dict.fromkeys(FILE_STATUSES, 0) | {row.status: row.n_files for row in rows}

    def backlog(self, graph_id: str) -> Backlog:
        """How much waits."""
        pushed = func.sum(files.c.size).filter(files.c.push_id.is_not(None))
        statement = select(
            func.count(),
            func.coalesce(func.sum(files.c.size), 0),
            func.coalesce(pushed, 0),
        ).where(files.c.graph_id == graph_id, _is_offered())
        with self._database.read() as connection:
            n_files, n_bytes, pushed_bytes = connection.execute(statement).one()
        return Backlog(n_files=n_files, n_bytes=int(n_bytes), pushed_bytes=int(pushed_bytes))

    def committed_with_digest(self, graph_id: str, digest: str) -> FileRecord | None:
        """The committed file of this content, if there is one."""
        return self._first_committed(graph_id, files.c.digest == digest)

    def committed_at_path(self, graph_id: str, path: str) -> FileRecord | None:
        """The version of this path that is in the graph, if there is one."""
        return self._first_committed(graph_id, files.c.path == path)

    def finish(
        self,
        graph_id: str,
        outcomes: Sequence[FileOutcome],
        *,
        progress: GraphProgress,
        lease: Lease,
        connection: Connection | None = None,
    ) -> None:
        """Store how files ended and how far the graph is, together and only by the lease's holder.

        Telling the same outcome again changes nothing, so that a process which died between its
        checkpoint and this call repeats it.

        Parameters
        ----------
        graph_id : str
            Which graph.
        outcomes : sequence of FileOutcome
            Of pending files; may be empty when only a snapshot was published.
        progress : GraphProgress
            The graph with the committed ones.
        lease : Lease
            The right to ingest this graph; renewed.
        connection : sqlalchemy.Connection, optional
            A writing transaction to join.

        Raises
        ------
        LeaseExpired
            Another process may ingest the graph; nothing is stored.
        FileNotListed
            An outcome is of no file of this graph.
        ValueError
            A file has ended in another way before.
        """
        with self._database.joined(connection) as joined:
            self._catalog.record_progress(graph_id, progress, joined)
            confirm(joined, lease)
            for outcome in outcomes:
                _store_outcome(joined, graph_id, outcome)

    def retry_source(self, graph_id: str, source_id: str) -> int:
        """Offer the quarantined files of a source again, at the end; how many there were.

        Raises
        ------
        SourceNotFound
            The graph has no such source.
        """
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            _require_source(connection, graph_id, source_id)
            return _offer_again(connection, graph_id, files.c.source_id == source_id)

    def retry_file(self, graph_id: str, file_id: int) -> bool:
        """Offer a file again, at the end; False when it is not quarantined."""
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            return _offer_again(connection, graph_id, files.c.id == file_id) == 1

    # Pushes

    def pushed_paths(self, graph_id: str, *, without_committed: bool = False) -> set[str]:
        """Paths of the pushed blocks, of all or of those that are not in the graph yet."""
        statement = select(files.c.path).where(
            files.c.graph_id == graph_id, files.c.push_id.is_not(None)
        )
        if without_committed:
            statement = statement.where(files.c.status != "committed")
        with self._database.read() as connection:
            return set(connection.execute(statement).scalars())

    def add_push(
        self,
        graph_id: str,
        *,
        path: str,
        body_digest: str,
        n_rows: int,
        n_bytes: int,
        idempotency_key: str | None = None,
    ) -> PushRecord:
        """The push of a block that lies on disk, fsynced, as a pending file.

        With an Idempotency-Key that came before it is the earlier push, whose ``path`` then is not
        this one: the caller removes its own block.

        Raises
        ------
        IdempotencyConflict
            The key came before with another body.
        ValueError
            The key is empty or too long.
        """
        if idempotency_key is not None and not 0 < len(idempotency_key) <= MAX_KEY_LENGTH:
            raise ValueError(
                f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} characters, "
                f"got {len(idempotency_key)}"
            )
        _require_path("path", path)
        values = {
            "id": uuid4().hex,
            "graph_id": graph_id,
            "idempotency_key": idempotency_key,
            "body_digest": body_digest,
            "path": path,
            "n_rows": n_rows,
            "n_bytes": n_bytes,
        }
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            earlier = _push_of_key(connection, graph_id, idempotency_key)
            if earlier is not None:
                return _same_body(earlier, body_digest)
            connection.execute(insert(pushes).values(**values))
            block = ListedFile(path, body_digest, n_bytes)
            _insert_files(connection, graph_id, [block], push_id=str(values["id"]))
            return _push(connection, pushes.c.id == values["id"])

    def find_push(self, graph_id: str, idempotency_key: str, body_digest: str) -> PushRecord | None:
        """The earlier push of this key, if there is one; raises `IdempotencyConflict`.

        For asking before the block is written; `add_push` asks again.
        """
        with self._database.read() as connection:
            earlier = _push_of_key(connection, graph_id, idempotency_key)
        return None if earlier is None else _same_body(earlier, body_digest)

    def _files_of(self, statement: Select[Any]) -> Sequence[FileRecord]:
        with self._database.read() as connection:
            return [_file(row) for row in connection.execute(statement)]

    def _first_committed(self, graph_id: str, rule: ColumnElement[bool]) -> FileRecord | None:
        statement = select(files).where(
            files.c.graph_id == graph_id, files.c.status == "committed", rule
        )
        found = self._files_of(statement.order_by(files.c.position).limit(1))
        return found[0] if found else None


def _require_path(name: str, path: str) -> None:
    """Refuse what the database's indexes cannot hold."""
    try:
        length = len(path.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be valid Unicode, got {path!r}") from error
    if not 0 < length <= MAX_PATH_BYTES or "\0" in path:
        raise ValueError(
            f"{name} must have 1 to {MAX_PATH_BYTES} bytes and no NUL, "
            f"got {length} bytes, {path[:80]!r}"
        )


def _require_source(connection: Connection, graph_id: str, source_id: str) -> None:
    statement = select(sources.c.id).where(
        sources.c.id == source_id,
        sources.c.graph_id == graph_id,
        sources.c.removed_at.is_(None),
    )
    if connection.execute(statement).first() is None:
        raise SourceNotFound(f"no source {source_id!r} of this graph")


def _is_present() -> ColumnElement[bool]:
    """The file's source is not removed."""
    return exists().where(sources.c.id == files.c.source_id, sources.c.removed_at.is_(None))


def _is_offered() -> ColumnElement[bool]:
    return and_(files.c.status == "pending", or_(files.c.push_id.is_not(None), _is_present()))


def _unknown_or_orphaned(
    connection: Connection, graph_id: str, listing: Sequence[ListedFile]
) -> tuple[list[ListedFile], list[int]]:
    """Of a listing, the files that are new, and ids of pending ones whose source was removed."""
    is_orphaned = and_(files.c.status == "pending", files.c.source_id.is_not(None), ~_is_present())
    statement = select(files.c.path, files.c.version, files.c.id, is_orphaned)
    rows = connection.execute(statement.where(files.c.graph_id == graph_id))
    known = {(path, version): (file_id, orphaned) for path, version, file_id, orphaned in rows}
    new, orphans = [], []
    for each in listing:
        file_id, orphaned = known.get((each.path, each.version), (None, False))
        if file_id is None:
            new.append(each)
        elif orphaned:
            orphans.append(file_id)
    return new, orphans


def _take_positions(connection: Connection, graph_id: str, n_files: int) -> range:
    """The next turns of a graph, whose row the caller has locked."""
    last = connection.execute(
        update(graphs)
        .where(graphs.c.id == graph_id)
        .values(files_seq=graphs.c.files_seq + n_files)
        .returning(graphs.c.files_seq)
    ).scalar_one()
    return range(last - n_files + 1, last + 1)


def _insert_files(
    connection: Connection,
    graph_id: str,
    listing: Sequence[ListedFile],
    *,
    source_id: str | None = None,
    push_id: str | None = None,
) -> None:
    origin = {"graph_id": graph_id, "source_id": source_id, "push_id": push_id}
    positions = _take_positions(connection, graph_id, len(listing))
    rows = [
        origin | each._asdict() | {"position": position}
        for each, position in zip(listing, positions, strict=True)
    ]
    connection.execute(insert(files), rows)


def _store_outcome(connection: Connection, graph_id: str, outcome: FileOutcome) -> None:
    mine = and_(files.c.graph_id == graph_id, files.c.id == outcome.file_id)
    values = asdict(outcome)
    del values["file_id"]
    stored = connection.execute(
        update(files)
        .where(mine, files.c.status == "pending")
        .values(**values, finished_at=now())
        .returning(files.c.id)
    ).first()
    if stored is not None:
        return
    status = connection.execute(select(files.c.status).where(mine)).scalar()
    if status is None:
        raise FileNotListed(f"no file {outcome.file_id} in the manifest of this graph")
    if status != outcome.status:
        raise ValueError(f"file {outcome.file_id} is {status}, it cannot become {outcome.status}")


def _offer_again(connection: Connection, graph_id: str, rule: ColumnElement[bool]) -> int:
    statement = (
        select(files.c.id)
        .where(files.c.graph_id == graph_id, files.c.status == "quarantined", rule)
        .order_by(files.c.position)
    )
    chosen = connection.execute(statement).scalars().all()
    if not chosen:
        return 0
    positions = _take_positions(connection, graph_id, len(chosen))
    connection.execute(
        update(files)
        .where(files.c.id == bindparam("file_id"))
        .values(
            status="pending",
            position=bindparam("turn"),
            digest=None,
            reason=None,
            row=None,
            value=None,
            finished_at=None,
        ),
        [
            {"file_id": file_id, "turn": turn}
            for file_id, turn in zip(chosen, positions, strict=True)
        ],
    )
    return len(chosen)


def _push_of_key(
    connection: Connection, graph_id: str, idempotency_key: str | None
) -> PushRecord | None:
    if idempotency_key is None:
        return None
    is_it = and_(pushes.c.graph_id == graph_id, pushes.c.idempotency_key == idempotency_key)
    if connection.execute(select(pushes.c.id).where(is_it)).first() is None:
        return None
    return _push(connection, is_it)


def _same_body(earlier: PushRecord, body_digest: str) -> PushRecord:
    if earlier.body_digest != body_digest:
        raise IdempotencyConflict(
            f"Idempotency-Key {earlier.idempotency_key!r} came before with another body; "
            "use a new key for new edges"
        )
    return earlier


def _push(connection: Connection, rule: ColumnElement[bool]) -> PushRecord:
    row = connection.execute(select(pushes).where(rule)).one()
    file = connection.execute(select(files).where(files.c.push_id == row.id)).one()
    values = row._asdict()
    del values["graph_id"]
    return PushRecord(**values, file=_file(file))


def _source(row: Row[Any]) -> SourceRecord:
    return SourceRecord(**{each.name: getattr(row, each.name) for each in fields(SourceRecord)})


def _file(row: Row[Any]) -> FileRecord:
    return FileRecord(**{each.name: getattr(row, each.name) for each in fields(FileRecord)})
