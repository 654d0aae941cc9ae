"""Outcomes of files in the manifest: which status follows which, and what other files they move.

==========  ============  ============  ============  ============
status      committed     kept          retracted     others
==========  ============  ============  ============  ============
pending     committed     committed     retracted     that one
retracting  retracting    committed     retracted     retracted
retracted   (refused)     committed     retracted     retracted
others      same or none  same or none  same or none  same or none
==========  ============  ============  ============  ============

*Same or none*: an outcome may be reported again, any other is refused. *Kept* is a file that is in
the graph though it was to be retracted. A retraction that is requested while ingest reads the file
is carried out once the file is whole.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from peewit.service.database.tables import files, pushes, sources
from peewit.service.database.timestamps import now
from peewit.service.inbox.inbox_records import (
    REPLACED,
    FileNotListed,
    FileOutcome,
    FileStatus,
    ListedFile,
)
from peewit.service.inbox.made_edges import is_made
from peewit.service.inbox.push_log import take_positions, wait_again

_NO_COLUMNS: Final = ("file_id", "status", "is_kept", "has_replaced")


def store_outcome(connection: Connection, graph_id: str, outcome: FileOutcome) -> tuple[bool, int]:
    """Whether an outcome is news, and how many files wait again as content of theirs has left.

    Raises `FileNotListed`, or ValueError where it contradicts an earlier outcome.
    """
    mine = and_(files.c.graph_id == graph_id, files.c.id == outcome.file_id)
    row = connection.execute(select(files).where(mine)).one_or_none()
    if row is None:
        raise FileNotListed(f"no file {outcome.file_id} in the manifest of this graph")
    status = next_status(row.status, outcome)
    if status is None:
        return False, 0
    values = {name: value for name, value in asdict(outcome).items() if name not in _NO_COLUMNS}
    if outcome.status == "committed" and row.push_id is not None:
        of_pushes = select(func.coalesce(func.sum(pushes.c.n_bad_rows), 0)).where(
            pushes.c.file_id == outcome.file_id
        )
        values["n_bad_rows"] += connection.execute(of_pushes).scalar_one()
    if outcome.status != "committed":
        values = {name: value for name, value in values.items() if value is not None}
        values["retractable"] = None
    connection.execute(update(files).where(mine).values(**values, status=status, finished_at=now()))
    if status == "duplicate":
        _forget_earlier(connection, graph_id, outcome)
    if outcome.status == "retracted" and (digest := outcome.digest or row.digest) is not None:
        copies = _copies(graph_id, digest)
        connection.execute(update(files).where(copies).values(status="retracted"))
    if outcome.has_replaced:
        return True, _remove_earlier(connection, graph_id, row.path, row.id)
    return True, 0


def next_status(status: FileStatus, outcome: FileOutcome) -> FileStatus | None:
    """The status of a file after an outcome; None where that changes nothing.

    Raises ValueError where the outcome contradicts an earlier one.
    """
    match status:
        case "pending":
            return outcome.status
        case "retracting" if outcome.status != "committed":
            return "retracted"
        case "retracting":
            return "committed" if outcome.is_kept else "retracting"
        case "retracted" if outcome.is_kept:
            return "committed"
        case "retracted" if outcome.status != "committed":
            return None
        case _ if status == outcome.status:
            return None
    raise ValueError(f"file {outcome.file_id} is {status}, it cannot become {outcome.status}")


def offer_again(
    connection: Connection,
    graph_id: str,
    rule: ColumnElement[bool],
    *,
    statuses: Sequence[FileStatus] = ("quarantined",),
) -> int:
    """Offer files of some statuses again, at the end; how many.

    Versions that gave way to newer ones are not offered but forgotten.
    """
    newer = files.alias()
    is_newer = and_(
        newer.c.graph_id == graph_id, newer.c.path == files.c.path, newer.c.id > files.c.id
    )
    is_chosen = and_(files.c.graph_id == graph_id, files.c.status.in_(statuses), rule)
    connection.execute(delete(files).where(is_chosen, exists().where(is_newer)))
    statement = select(files.c.id).where(is_chosen).order_by(files.c.position)
    chosen = connection.execute(statement).scalars().all()
    if not chosen:
        return 0
    positions = take_positions(connection, graph_id, len(chosen))
    wait_again(connection, graph_id, chosen)
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
            n_rows=None,
            left_out=None,
            n_bad_rows=None,
            inserts_only=False,
            finished_at=None,
        ),
        [
            {"file_id": file_id, "turn": turn}
            for file_id, turn in zip(chosen, positions, strict=True)
        ],
    )
    return len(chosen)


def insert_files(
    connection: Connection, graph_id: str, listing: Sequence[ListedFile], *, source_id: str
) -> None:
    """List files at the end; the caller has locked the row of the graph."""
    origin = {"graph_id": graph_id, "source_id": source_id}
    positions = take_positions(connection, graph_id, len(listing))
    rows = [
        origin | file._asdict() | {"position": position}
        for file, position in zip(listing, positions, strict=True)
    ]
    connection.execute(insert(files), rows)


def is_present() -> ColumnElement[bool]:
    """The condition that the file's source is not removed."""
    return exists().where(sources.c.id == files.c.source_id, sources.c.removed_at.is_(None))


def _copies(graph_id: str, digest: str) -> ColumnElement[bool]:
    return and_(
        files.c.graph_id == graph_id, files.c.digest == digest, files.c.status == "duplicate"
    )


def _remove_earlier(connection: Connection, graph_id: str, path: str, file_id: int) -> int:
    """Note that the version before has left; how many files elsewhere with its content wait."""
    place: ColumnElement[bool] = files.c.path == path
    statuses = ["committed", "retracting"]
    if is_made(path, graph_id):
        place = files.c.path.startswith(f"{Path(path).parent}/", autoescape=True)
        statuses.append("duplicate")
    earlier = and_(
        files.c.graph_id == graph_id, place, files.c.id != file_id, files.c.status.in_(statuses)
    )
    if is_made(path, graph_id):  # each file has a source of its own, which has given what it had
        source_ids = select(files.c.source_id).where(earlier)
        used = update(sources).where(sources.c.id.in_(source_ids))
        connection.execute(used.values(removed_at=now()))
    gone = connection.execute(
        update(files)
        .where(earlier)
        .values(status="retracted", reason=REPLACED, retractable=None, finished_at=now())
        .returning(files.c.digest)
    ).scalars()
    n_offered = 0
    for digest in [each for each in gone if each is not None]:
        copies = _copies(graph_id, digest)
        connection.execute(delete(files).where(copies, place))
        n_offered += offer_again(connection, graph_id, copies, statuses=("duplicate",))
    return n_offered


def _forget_earlier(connection: Connection, graph_id: str, outcome: FileOutcome) -> None:
    """Forget other versions of a duplicate with the same content, so that it counts once."""
    path = select(files.c.path).where(files.c.id == outcome.file_id).scalar_subquery()
    connection.execute(
        delete(files).where(
            files.c.graph_id == graph_id,
            files.c.path == path,
            files.c.id != outcome.file_id,
            files.c.status == "duplicate",
            files.c.digest == outcome.digest,
        )
    )
