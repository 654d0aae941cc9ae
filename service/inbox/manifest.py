"""Manifest of a graph: files found in its sources and gathered pushes, and their state.

A file is the unit of commitment: pending until ingest has taken it whole, refused it whole, or met
its content before; `retractions` says which files leave the graph again. `position` is the order
within files and within pushes, which go before files that wait. It grows in the order of the
commits, so nothing ever appears in front of a file that is being read.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)

from peewit.service.catalog import Catalog, GraphProgress, lock_graph, writing
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, confirm
from peewit.service.database.tables import erasures, files, graphs, sources
from peewit.service.inbox.feature_log import FeatureLog, set_waits
from peewit.service.inbox.file_outcomes import insert_files, is_present, offer_again, store_outcome
from peewit.service.inbox.inbox_records import (
    FILE_GONE,
    FILE_STATUSES,
    REPLACED,
    Backlog,
    FileNotListed,
    FileOutcome,
    FileRecord,
    FileStatus,
    ListedFile,
)
from peewit.service.inbox.leaving.erasures import ErasureLog, HiddenNodes
from peewit.service.inbox.leaving.retractions import Retractions, is_leaving
from peewit.service.inbox.leaving.wishes import Wishes
from peewit.service.inbox.live_positions import LivePositions
from peewit.service.inbox.push_log import PushLog, is_ungathered, release_contents, waiting_count
from peewit.service.inbox.source_store import (
    SourceStore,
    live_sources,
    require_path,
    require_source,
)

Work = Literal[
    "files", "pushes", "features", "retract", "horizon", "repair", "strike", "erase", "open"
]
"""Kinds of work for ingest.

Strike: edges of nodes to be erased are still in the graph. Open: a process died before it had noted
all, settings or files have changed since, or a live source may have more.
"""

_PATHS_AT_ONCE: Final = 500
"""SQLite takes only a few thousand values in one statement."""

_WAS_MEANT: Final = files.c.digest.contains("+")
"""The condition that a file was read to count again."""


class Manifest:
    """Files of all graphs, with the stores of all else that comes in.

    Every method that writes raises `GraphNotFound` when the graph is not there.
    """

    def __init__(self, database: Database) -> None:
        self.sources = SourceStore(database)
        self.live = LivePositions(database)
        self.push_log = PushLog(database)
        self.retractions = Retractions(database)
        self.wishes = Wishes(database)
        self.feature_log = FeatureLog(database)
        self.erasures = ErasureLog(database)
        self.hidden = HiddenNodes(database)
        self._database = database
        self._catalog = Catalog(database)

    def register_files(
        self,
        graph_id: str,
        source_id: str,
        listed: Sequence[ListedFile | tuple[str, str, int]],
        *,
        is_asked_for: bool = False,
    ) -> int:
        """Add the files of a listing to the manifest; returns how many are new or offered again.

        A known path with a known version is left alone, so the same listing may come again and
        again without a write; it is offered again if it was gone when it was to be read. Another
        version is a new pending file: only its content can tell whether it changed. A source that
        sets its own columns, bad rows or replacing takes over refused files of an older source,
        which are offered again. With ``is_asked_for`` somebody asked for these very files, so
        retracted ones come again. Of a source that means its files again, duplicates do.

        Turns follow the order of the listing. The cost is that of the listing, however many files
        the manifest holds. Raises `SourceNotFound`, or a ValueError for a path that is too long.
        """
        listing = list(dict.fromkeys(ListedFile(*each) for each in listed))
        for file in listing:
            require_path("path", file.path)
        with self._database.read() as connection:
            require_source(connection, graph_id, source_id)
            if not any(_listing_changes(connection, graph_id, listing, source_id, is_asked_for)):
                return 0
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            require_source(connection, graph_id, source_id)
            changes = _listing_changes(connection, graph_id, listing, source_id, is_asked_for)
            if adopted := [*changes.orphaned, *changes.returned]:
                adopt = update(files).where(files.c.id == bindparam("file_id"))
                connection.execute(
                    adopt.values(source_id=source_id), [{"file_id": file_id} for file_id in adopted]
                )
            if changes.forgiven:
                connection.execute(delete(files).where(files.c.id.in_(changes.forgiven)))
            if changes.returned:
                offer_again(
                    connection,
                    graph_id,
                    files.c.id.in_(changes.returned),
                    statuses=("quarantined", "retracted", "duplicate"),
                )
            if changes.new:
                insert_files(connection, graph_id, changes.new, source_id=source_id)
        return len(changes.new) + len(changes.returned)

    def pending(
        self, graph_id: str, *, skipped_sources: Sequence[str] = ()
    ) -> Sequence[FileRecord]:
        """Files to ingest, in order: gathered pushes, then files of sources.

        Files of the sources ``skipped_sources`` are left out.
        """
        statement = select(files).where(files.c.graph_id == graph_id, _is_pending(skipped_sources))
        return self._files_of(statement.order_by(files.c.push_id.is_(None), files.c.position))

    def work(
        self,
        graph_id: str,
        *,
        skipped_sources: Sequence[str] = (),
        failed_repairs: bool = True,
        state: str | None = None,
    ) -> frozenset[Work]:
        """What there is to do for a graph, asked in one statement; empty where all is done.

        Files of ``skipped_sources`` count for nothing, and a repair whose last try failed only with
        ``failed_repairs``. With the ``state`` of the graph (`state_of`) it is told whether only an
        open graph can tell.
        """
        statement = _work(tuple(skipped_sources), failed_repairs, state is not None)
        asked = {"graph": graph_id} | ({} if state is None else {"state": state})
        with self._database.read() as connection:
            row = connection.execute(statement, asked).one()
        return frozenset(kind for kind, is_there in row._mapping.items() if is_there)

    def busy_graphs(self) -> frozenset[str]:
        """Graphs that have something to do, whatever rests, asked in one statement for all."""
        with self._database.read() as connection:
            return frozenset(connection.scalars(_BUSY))

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

    def latest_files(
        self, graph_id: str, statuses: Sequence[FileStatus], *, limit: int
    ) -> Sequence[FileRecord]:
        """Files of sources with these statuses, the newest first."""
        is_one = and_(
            files.c.graph_id == graph_id, files.c.push_id.is_(None), files.c.status.in_(statuses)
        )
        return self._files_of(select(files).where(is_one).order_by(files.c.id.desc()).limit(limit))

    def file(self, graph_id: str, file_id: int) -> FileRecord:
        """One file; raises `FileNotListed`."""
        statement = select(files).where(files.c.graph_id == graph_id, files.c.id == file_id)
        for record in self._files_of(statement):
            return record
        raise FileNotListed(f"no file {file_id} in the manifest of this graph")

    def add_file(self, graph_id: str, file: ListedFile, connection: Connection) -> None:
        """List a file that we have made ourselves, as the only file of a new source."""
        require_path("path", file.path)
        lock_graph(connection, graph_id)
        source_id = uuid4().hex
        source = {"id": source_id, "graph_id": graph_id, "url": file.path, "follow": False}
        connection.execute(insert(sources).values(**source))
        insert_files(connection, graph_id, [file], source_id=source_id)

    def files_in(
        self, graph_id: str, directory: Path, connection: Connection | None = None
    ) -> Sequence[FileRecord]:
        """Files directly in a local directory that are in the graph or wait; oldest first."""
        is_below = files.c.path.startswith(f"{directory}/", autoescape=True)
        counts = or_(files.c.status.in_(("committed", "duplicate", "retracting")), _is_pending())
        statement = (
            select(files).where(files.c.graph_id == graph_id, is_below, counts).order_by(files.c.id)
        )
        if connection is None:
            return self._files_of(statement)
        return [FileRecord.of(row) for row in connection.execute(statement)]

    def has_files(self, source_id: str) -> bool:
        """Whether a file of the source is listed."""
        statement = select(files.c.id).where(files.c.source_id == source_id).limit(1)
        with self._database.read() as connection:
            return connection.execute(statement).first() is not None

    def unknown_files(
        self, graph_id: str, listed: Sequence[ListedFile]
    ) -> tuple[list[ListedFile], list[ListedFile]]:
        """The files of a listing that are not in the manifest, and those that are."""
        with self._database.read() as connection:
            new = set(_listing_changes(connection, graph_id, listed).new)
        return [file for file in listed if file in new], [
            file for file in listed if file not in new
        ]

    def counts(self, graph_id: str, *, source_id: str | None = None) -> Mapping[FileStatus, int]:
        """Files by status, of one source or of the whole graph with its pushes in no file yet."""
        statement = select(files.c.status, func.count().label("n_files")).where(
            files.c.graph_id == graph_id
        )
        if source_id is not None:
            statement = statement.where(files.c.source_id == source_id)
        with self._database.read() as connection:
            rows = connection.execute(statement.group_by(files.c.status)).all()
            n_pushes, _ = waiting_count(connection, graph_id) if source_id is None else (0, 0)
        counts = dict.fromkeys(FILE_STATUSES, 0) | {row.status: row.n_files for row in rows}
        counts["pending"] += n_pushes
        return counts

    def path_of_content(self, graph_id: str, digest: str) -> str | None:
        """Path of a source's file of this content in the graph; None where there is none."""
        statement = select(files.c.path).where(
            files.c.graph_id == graph_id,
            or_(files.c.digest == digest, files.c.digest.startswith(f"{digest}+")),
            files.c.source_id.is_not(None),
            files.c.status.in_(("committed", "retracting")),
        )
        with self._database.read() as connection:
            return connection.execute(statement.limit(1)).scalar()

    def n_read_once(self, graph_id: str, paths: Collection[str]) -> int:
        """How many files of some paths are in the graph without having been meant again."""
        came = and_(
            files.c.graph_id == graph_id,
            files.c.status.in_(("committed", "retracting")),
            ~_WAS_MEANT,
        )
        with self._database.read() as connection:
            rows = connection.execute(select(files.c.path).where(came)).scalars()
            return len(set(paths).intersection(rows))

    def n_bad_rows(self, graph_id: str) -> int:
        """Rows of committed files that were left out, and those that live sources refused."""
        of_files = select(func.sum(files.c.n_bad_rows)).where(files.c.graph_id == graph_id)
        of_live = select(func.sum(sources.c.n_refused)).where(
            sources.c.graph_id == graph_id, sources.c.holds == "edges"
        )
        with self._database.read() as connection:
            return sum(connection.execute(each).scalar() or 0 for each in (of_files, of_live))

    def backlog(self, graph_id: str) -> Backlog:
        """Files and bytes that wait."""
        statement = select(func.count(), func.coalesce(func.sum(files.c.size), 0))
        pushed = select(graphs.c.pushed_bytes).where(graphs.c.id == graph_id)
        with self._database.read() as connection:
            offered = and_(files.c.graph_id == graph_id, _is_pending())
            n_files, n_bytes = connection.execute(statement.where(offered)).one()
            n_pushes, push_bytes = waiting_count(connection, graph_id)
            pushed_bytes = connection.execute(pushed).scalar() or 0
        return Backlog(
            n_files=n_files + n_pushes,
            n_bytes=int(n_bytes) + push_bytes,
            pushed_bytes=int(pushed_bytes),
        )

    def note_rest(self, graph_id: str, state: str, *, lease: Lease) -> None:
        """Note the state of a graph that has nothing left to do, until its progress changes."""
        with writing(self._database, graph_id, lease) as connection:
            mine = update(graphs).where(graphs.c.id == graph_id)
            connection.execute(mine.values(at_rest=state))

    def finish(
        self,
        graph_id: str,
        outcomes: Sequence[FileOutcome],
        *,
        progress: GraphProgress,
        lease: Lease,
        connection: Connection | None = None,
    ) -> int:
        """Store how files ended and the graph's progress in one transaction, under the lease.

        The same outcome may be told again, as by a process that died between its checkpoint and
        this call. ``outcomes`` may be empty when only a snapshot was published. The lease is
        renewed. Returns how many files wait again, since the content that they share with another
        has left. Raises `FileNotListed`, `LeaseExpired` (nothing is stored), or a ValueError where
        a file ended otherwise before.
        """
        with self._database.joined(connection) as joined:
            self._catalog.record_progress(graph_id, progress, joined)
            confirm(joined, lease)
            ended, n_offered = [], 0
            for outcome in outcomes:
                is_news, n_more = store_outcome(joined, graph_id, outcome)
                n_offered += n_more
                if is_news:
                    ended.append(outcome.file_id)
            release_contents(joined, graph_id, ended)
        return n_offered

    def retry_source(self, graph_id: str, source_id: str) -> int:
        """Offer the quarantined files of a source again, at the end; how many there were.

        Refused versions of files that have newer ones are forgotten. A source that could not be
        listed is tried again at once. Raises `SourceNotFound`.
        """
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            require_source(connection, graph_id, source_id)
            forgive = update(sources).where(sources.c.id == source_id)
            connection.execute(forgive.values(error=None, error_at=None, n_failures=0))
            return offer_again(connection, graph_id, files.c.source_id == source_id)

    def retry_file(self, graph_id: str, file_id: int) -> bool:
        """Offer a file again, at the end; False when it is neither quarantined nor retracted."""
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            newer = files.alias()
            is_newest = ~exists().where(
                newer.c.graph_id == graph_id, newer.c.path == files.c.path, newer.c.id > files.c.id
            )
            is_refused = files.c.status == "quarantined"
            rule = and_(files.c.id == file_id, or_(is_refused, is_newest))
            statuses: Sequence[FileStatus] = ("quarantined", "retracted")
            return offer_again(connection, graph_id, rule, statuses=statuses) == 1

    def _files_of(self, statement: Select[Any]) -> Sequence[FileRecord]:
        with self._database.read() as connection:
            return [FileRecord.of(row) for row in connection.execute(statement)]


@lru_cache(maxsize=256)  # built for each graph again and again
def _work(skipped_sources: tuple[str, ...], failed_repairs: bool, has_state: bool) -> Select[Any]:
    """Which kinds of work there are, of the parameter ``graph`` in the parameter ``state``."""
    graph_id: ColumnElement[str] = bindparam("graph")
    rules = _rules(graph_id, skipped_sources, failed_repairs)
    if has_state:
        is_live = exists().where(live_sources(graph_id))
        is_new = graphs.c.at_rest.is_distinct_from(bindparam("state"))
        rules["open"] = and_(graphs.c.id == graph_id, or_(is_new, is_live))
    columns: list[ColumnElement[Any]] = [
        exists().where(rule).label(kind) for kind, rule in rules.items()
    ]
    return select(*columns)


def _rules(
    graph_id: ColumnElement[str], skipped_sources: Sequence[str] = (), failed_repairs: bool = True
) -> dict[Work, ColumnElement[bool]]:
    """When there is work of each kind for a graph."""
    graph = graphs.c.id == graph_id
    is_tried = true() if failed_repairs else graphs.c.repair_fault.is_(None)
    hidden = and_(erasures.c.graph_id == graph_id, erasures.c.status == "hidden")
    return {
        "files": and_(files.c.graph_id == graph_id, _is_pending(skipped_sources)),
        "pushes": is_ungathered(graph_id),
        "features": set_waits(graph_id),
        "retract": is_leaving(graph_id),
        "horizon": and_(graph, graphs.c.horizon_wanted.is_not(None)),
        "repair": and_(graph, graphs.c.repair_wanted.is_not(None), is_tried),
        "strike": and_(hidden, erasures.c.struck_at.is_(None)),
        "erase": hidden,
    }


def _is_pending(skipped_sources: Sequence[str] = ()) -> ColumnElement[bool]:
    is_of_read_source = and_(is_present(), files.c.source_id.not_in(skipped_sources))
    return and_(files.c.status == "pending", or_(files.c.push_id.is_not(None), is_of_read_source))


_EACH: Final = graphs.alias("each")
_BUSY: Final = select(_EACH.c.id).where(
    or_(*(exists().where(rule) for rule in _rules(_EACH.c.id).values()))
)


class _ListingChanges(NamedTuple):
    """New files of a listing, and ids of known files that need a change.

    ``orphaned``: pending, and their source was removed. ``returned``: were gone when they were to
    be read, or are asked for or meant again. ``forgiven``: other versions, retracted, of paths
    asked for.
    """

    new: list[ListedFile]
    orphaned: list[int]
    returned: list[int]
    forgiven: list[int]


def _listing_changes(
    connection: Connection,
    graph_id: str,
    listing: Sequence[ListedFile],
    source_id: str | None = None,
    is_asked_for: bool = False,
) -> _ListingChanges:
    is_orphaned = and_(files.c.status == "pending", files.c.source_id.is_not(None), ~is_present())
    is_gone = and_(
        files.c.status == "quarantined",
        or_(files.c.reason == FILE_GONE, _is_read_otherwise(source_id)),
    )
    is_meant = and_(
        files.c.status == "duplicate",
        ~_WAS_MEANT,
        exists().where(sources.c.id == source_id, sources.c.again),
    )
    is_retracted = and_(
        files.c.status == "retracted",
        files.c.reason.is_distinct_from(REPLACED),
        literal(is_asked_for),
    )
    columns = select(
        files.c.path, files.c.version, files.c.id, is_orphaned, or_(is_gone, is_meant), is_retracted
    )
    changes = _ListingChanges([], [], [], [])
    for start in range(0, len(listing), _PATHS_AT_ONCE):
        some = listing[start : start + _PATHS_AT_ONCE]
        paths = {file.path for file in some}
        rows = connection.execute(
            columns.where(files.c.graph_id == graph_id, files.c.path.in_(paths))
        )
        known = {(path, version): rest for path, version, *rest in rows}
        for file in some:
            file_id, orphaned, gone, retracted = known.pop(
                (file.path, file.version), (None, False, False, False)
            )
            if file_id is None:
                changes.new.append(file)
            elif orphaned:
                changes.orphaned.append(file_id)
            elif gone or retracted:
                changes.returned.append(file_id)
        changes.forgiven.extend(file_id for file_id, *_, retracted in known.values() if retracted)
    return changes


def _is_read_otherwise(source_id: str | None) -> ColumnElement[bool]:
    """The file's source is older than this one, which sets how its own files are read."""
    this, other = sources.alias(), sources.alias()
    return exists().where(
        this.c.id == source_id,
        or_(this.c.columns.is_not(None), this.c.max_bad_rows > 0, this.c.replaces),
        other.c.id == files.c.source_id,
        other.c.created_at < this.c.created_at,
    )
