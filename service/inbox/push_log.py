"""Pushes of all graphs: stored together, gathered into files of the manifest, forgotten in time.

A push waits until ingest gathers it with its neighbors into one file, which then says what becomes
of it. Its content, in the database or in its own file, stays until that file has ended, so that a
gathered file with a fault can be taken apart again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from peewit.service.catalog import lock_graph, writing
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease
from peewit.service.database.tables import files, graphs, pushes
from peewit.service.database.timestamps import now
from peewit.service.inbox.inbox_records import (
    BacklogFull,
    FileRecord,
    NewPush,
    PushLimits,
    PushNotFound,
    PushRecord,
)
from peewit.service.jobs.job import IdempotencyConflict

_AT_ONCE: Final = 200
"""Rows with content, or values of a query, that are handled together."""

_LISTED: Final = [column for column in pushes.c if column.name not in {"content", "is_alone"}]


@dataclass(frozen=True, slots=True, kw_only=True)
class UngatheredPush:
    """What gathering needs of a push; fields as in `PushRecord`.

    ``is_alone`` keeps it from its neighbors: a file that held it had a fault.
    """

    id: str
    position: int
    path: str
    n_rows: int
    n_bytes: int
    is_alone: bool


class PushLog:
    """Pushes by graph. Every method that writes raises `GraphNotFound` for a graph that is gone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, graph_id: str, new: Sequence[NewPush], limits: PushLimits
    ) -> list[PushRecord | IdempotencyConflict | BacklogFull]:
        """Store pushes in one transaction; answers are in the order of the pushes.

        Where an Idempotency-Key came before, the answer is the earlier push. Its ``path`` is then
        not the new one's, and the caller removes the new block. A push that finds nothing waiting
        is taken whatever its size; else one above the limit could never come in.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            earlier = _of_keys(connection, graph_id, [push.idempotency_key for push in new])
            waiting = graph.pushed_bytes
            total = connection.execute(select(func.sum(graphs.c.pushed_bytes))).scalar_one()
            rows: list[dict[str, Any]] = []
            answers: list[PushRecord | IdempotencyConflict | BacklogFull] = []
            for push in new:
                key = push.idempotency_key
                before = earlier.get(key) if key is not None else None
                if before is not None:
                    answers.append(_same_body(before, push.body_digest))
                elif (full := _full(waiting, total, push.n_bytes, limits)) is not None:
                    answers.append(full)
                else:
                    waiting, total = waiting + push.n_bytes, total + push.n_bytes
                    position = graph.files_seq + len(rows) + 1
                    place = {"id": uuid4().hex, "graph_id": graph_id, "position": position}
                    rows.append(asdict(push) | place)
                    record = _record(rows[-1], None)
                    answers.append(record)
                    if key is not None:
                        earlier[key] = record
            if rows:
                n_bytes = sum(row["n_bytes"] for row in rows)
                take_positions(connection, graph_id, len(rows), pushed_bytes=n_bytes)
                connection.execute(insert(pushes), rows)
        return answers

    def find(self, graph_id: str, idempotency_key: str, body_digest: str) -> PushRecord | None:
        """The earlier push of this key, if there is one; raises `IdempotencyConflict`.

        For a check before the block is written; `add` checks again.
        """
        with self._database.read() as connection:
            record = _of_keys(connection, graph_id, [idempotency_key]).get(idempotency_key)
        if record is None:
            return None
        answer = _same_body(record, body_digest)
        if isinstance(answer, IdempotencyConflict):
            raise answer
        return answer

    def of_prefix(self, graph_id: str, prefix: str) -> dict[str, PushRecord]:
        """The pushes of a graph whose Idempotency-Keys begin alike, by key."""
        key = pushes.c.idempotency_key
        is_one = and_(pushes.c.graph_id == graph_id, key.startswith(prefix, autoescape=True))
        found: list[PushRecord] = []
        with self._database.read() as connection:
            ids = list(connection.execute(select(pushes.c.id).where(is_one)).scalars())
            for start in range(0, len(ids), _AT_ONCE):
                found += _records(connection, pushes.c.id.in_(ids[start : start + _AT_ONCE]))
        return {record.idempotency_key or "": record for record in found}

    def file_digests(self, graph_id: str) -> frozenset[str]:
        """Digests of files that came as pushes and are in the graph, or wait to be."""
        has_left = exists().where(
            files.c.id == pushes.c.file_id, files.c.status.in_(("quarantined", "retracted"))
        )
        came = and_(pushes.c.graph_id == graph_id, pushes.c.file_digest.is_not(None), ~has_left)
        with self._database.read() as connection:
            return frozenset(connection.execute(select(pushes.c.file_digest).where(came)).scalars())

    def get(self, graph_id: str, push_id: str, *, owner: str | None = None) -> PushRecord:
        """One push, of an owner or of anybody; raises `PushNotFound`."""
        with self._database.read() as connection:
            is_it = and_(pushes.c.id == push_id, pushes.c.graph_id == graph_id)
            if owner is not None:
                is_it &= pushes.c.owner == owner
            for record in _records(connection, is_it):
                return record
        raise PushNotFound(f"no push {push_id!r} of this graph, or it went in long ago")

    def backlog_bytes(self, graph_id: str) -> tuple[int, int]:
        """Bytes of pushes that are not in the graph yet: of this graph, and of all graphs."""
        mine = func.sum(graphs.c.pushed_bytes).filter(graphs.c.id == graph_id)
        statement = select(mine, func.sum(graphs.c.pushed_bytes))
        with self._database.read() as connection:
            of_graph, of_all = connection.execute(statement).one()
        return int(of_graph or 0), int(of_all or 0)

    def ungathered(self, graph_id: str, *, limit: int | None = None) -> Sequence[UngatheredPush]:
        """Pushes that are in no file yet, in order."""
        columns = [pushes.c[column.name] for column in fields(UngatheredPush)]
        statement = (
            select(*columns).where(is_ungathered(graph_id)).order_by(pushes.c.position).limit(limit)
        )
        with self._database.read() as connection:
            return [UngatheredPush(**row._mapping) for row in connection.execute(statement)]

    def contents(self, push_ids: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """Ids and content of pushes in the order given; only some at a time are in memory."""
        for start in range(0, len(push_ids), _AT_ONCE):
            some = push_ids[start : start + _AT_ONCE]
            statement = select(pushes.c.id, pushes.c.content).where(pushes.c.id.in_(some))
            with self._database.read() as connection:
                contents = {row.id: row.content for row in connection.execute(statement)}
            yield from ((push_id, contents.get(push_id)) for push_id in some)

    def gather(
        self,
        graph_id: str,
        gathered: Sequence[UngatheredPush],
        *,
        path: str,
        version: str,
        n_bytes: int,
        lease: Lease,
    ) -> None:
        """Make consecutive waiting pushes one pending file, which is on disk and flushed.

        Raises `LeaseExpired`, and stores nothing, where another process may ingest the graph.
        """
        first, last = gathered[0], gathered[-1]
        values = {
            "graph_id": graph_id,
            "position": first.position,
            "push_id": first.id,
            "path": path,
            "version": version,
            "size": n_bytes,
        }
        with writing(self._database, graph_id, lease) as connection:
            file_id = connection.execute(
                insert(files).values(**values).returning(files.c.id)
            ).scalar_one()
            between = pushes.c.position.between(first.position, last.position)
            connection.execute(
                update(pushes).where(is_ungathered(graph_id), between).values(file_id=file_id)
            )

    def take_apart(self, graph_id: str, file_id: int, *, lease: Lease) -> bool:
        """Make the pushes of a pending file wait again, each for a file of its own.

        False for a single push, which then has the fault itself. Raises `LeaseExpired`.
        """
        mine = and_(pushes.c.graph_id == graph_id, pushes.c.file_id == file_id)
        with writing(self._database, graph_id, lease) as connection:
            n_pushes = connection.execute(select(func.count()).where(mine)).scalar_one()
            if n_pushes < 2:
                return False
            connection.execute(update(pushes).where(mine).values(file_id=None, is_alone=True))
            connection.execute(
                delete(files).where(files.c.graph_id == graph_id, files.c.id == file_id)
            )
        return True

    def merged_paths(self, graph_id: str, file_id: int) -> list[str]:
        """Paths of blocks on disk that were copied into a file."""
        statement = select(pushes.c.path).where(
            pushes.c.graph_id == graph_id,
            pushes.c.file_id == file_id,
            pushes.c.path != "",
            ~exists().where(files.c.id == file_id, files.c.path == pushes.c.path),
        )
        with self._database.read() as connection:
            return list(connection.execute(statement).scalars())

    def forget(self, graph_id: str, *, older_than_seconds: float, keyed_seconds: float) -> int:
        """Forget pushes that were ingested long ago; those with an Idempotency-Key later. How many.

        The first push of each file stays, as the file names it.
        """

        def ended(seconds: float) -> ColumnElement[bool]:
            return exists().where(
                files.c.id == pushes.c.file_id,
                files.c.status.in_(("committed", "duplicate")),
                files.c.finished_at < now(-seconds),
                or_(files.c.push_id.is_(None), files.c.push_id != pushes.c.id),
            )

        is_old = or_(
            and_(pushes.c.idempotency_key.is_(None), ended(older_than_seconds)),
            ended(keyed_seconds),
        )
        mine = and_(pushes.c.graph_id == graph_id, pushes.c.file_id.is_not(None), is_old)
        with self._database.read() as connection:
            old = list(connection.execute(select(pushes.c.id).where(mine)).scalars())
        for start in range(0, len(old), _AT_ONCE):
            with self._database.write() as connection:
                some = old[start : start + _AT_ONCE]
                connection.execute(delete(pushes).where(pushes.c.id.in_(some)))
        return len(old)


def take_positions(
    connection: Connection, graph_id: str, n_turns: int, *, pushed_bytes: int = 0
) -> range:
    """The next turns of a graph, whose row the caller has locked; adds to its waiting bytes."""
    last = connection.execute(
        update(graphs)
        .where(graphs.c.id == graph_id)
        .values(
            files_seq=graphs.c.files_seq + n_turns,
            pushed_bytes=graphs.c.pushed_bytes + pushed_bytes,
        )
        .returning(graphs.c.files_seq)
    ).scalar_one()
    return range(last - n_turns + 1, last + 1)


def release_contents(connection: Connection, graph_id: str, file_ids: Sequence[int]) -> None:
    """Note that the pushes of files that have ended wait no more; their content can go."""
    for start in range(0, len(file_ids), _AT_ONCE):
        mine = and_(
            pushes.c.graph_id == graph_id, pushes.c.file_id.in_(file_ids[start : start + _AT_ONCE])
        )
        n_bytes = connection.execute(select(func.sum(pushes.c.n_bytes)).where(mine)).scalar()
        if n_bytes is not None:
            take_positions(connection, graph_id, 0, pushed_bytes=-int(n_bytes))
            connection.execute(
                update(pushes).where(mine, pushes.c.content.is_not(None)).values(content=None)
            )


def wait_again(connection: Connection, graph_id: str, file_ids: Sequence[int]) -> None:
    """Note that the pushes of files that are offered again wait once more."""
    statement = select(func.sum(pushes.c.n_bytes)).where(
        pushes.c.graph_id == graph_id, pushes.c.file_id.in_(file_ids)
    )
    n_bytes = connection.execute(statement).scalar() or 0
    if n_bytes:
        take_positions(connection, graph_id, 0, pushed_bytes=int(n_bytes))


def waiting_count(connection: Connection, graph_id: str) -> tuple[int, int]:
    """Number and bytes of the pushes that are in no file yet."""
    statement = select(func.count(), func.coalesce(func.sum(pushes.c.n_bytes), 0))
    n_pushes, n_bytes = connection.execute(statement.where(is_ungathered(graph_id))).one()
    return n_pushes, int(n_bytes)


def is_ungathered(graph_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a push of the graph is in no file yet."""
    return and_(pushes.c.graph_id == graph_id, pushes.c.file_id.is_(None))


def _full(waiting: int, total: int, n_bytes: int, limits: PushLimits) -> BacklogFull | None:
    if waiting and waiting + n_bytes > limits.graph_bytes:
        return backlog_full("of one graph", limits.graph_bytes, waiting)
    if total and total + n_bytes > limits.total_bytes:
        return backlog_full("of all graphs", limits.total_bytes, total)
    return None


def backlog_full(whose: str, limit: int, waiting: int) -> BacklogFull:
    """The error that names the limit and what waits."""
    return BacklogFull(
        f"pushes {whose} that wait for ingest must stay below {limit} bytes, got {waiting}; try "
        "again in a moment, and see that ingest is running"
    )


def _of_keys(
    connection: Connection, graph_id: str, keys: Sequence[str | None]
) -> dict[str, PushRecord]:
    named = [key for key in keys if key is not None]
    if not named:
        return {}
    is_one = and_(pushes.c.graph_id == graph_id, pushes.c.idempotency_key.in_(named))
    records = _records(connection, is_one)
    return {record.idempotency_key: record for record in records if record.idempotency_key}


def _records(connection: Connection, rule: ColumnElement[bool]) -> list[PushRecord]:
    rows = connection.execute(select(*_LISTED).where(rule)).all()
    file_ids = {row.file_id for row in rows if row.file_id is not None}
    file_of = {
        row.id: FileRecord.of(row)
        for row in (
            connection.execute(select(files).where(files.c.id.in_(file_ids))) if file_ids else ()
        )
    }
    return [_record(row._asdict(), file_of.get(row.file_id)) for row in rows]


def _record(row: Mapping[str, Any], file: FileRecord | None) -> PushRecord:
    names = {column.name for column in fields(PushRecord)} - {"file", "is_repeated"}
    return PushRecord(file=file, **{name: row[name] for name in names})


def _same_body(earlier: PushRecord, body_digest: str) -> PushRecord | IdempotencyConflict:
    if earlier.body_digest != body_digest:
        return IdempotencyConflict(
            f"Idempotency-Key {earlier.idempotency_key!r} came before with another body; "
            "use a new key for new edges"
        )
    return replace(earlier, is_repeated=True)
