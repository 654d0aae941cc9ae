"""What may be left of nodes that were erased: nothing, in the home and in the database."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import select

from peewit.service.database.engine import Database
from peewit.service.database.tables import metadata
from peewit.service.inbox.leaving.erasures import ErasureLog
from tests.end_to_end.crashing.checks import History
from tests.end_to_end.crashing.record import Record


def check_forgotten(
    record: Record, history: History, database: Database, home: Path
) -> Iterator[str]:
    """Every erasure is done; nothing is left of nodes that did not come again."""
    status = {each.id: each.status for each in ErasureLog(database).list(history.graph.id)}
    for asked in record.erasures:
        if status.get(asked.id) != "erased":
            yield f"erasure {asked.id} is {status.get(asked.id, 'lost')}"
    gone = sorted(record.forgotten)
    if shown := record.forgotten.intersection(filter(None, history.names)):
        yield f"the node index has {sorted(shown)}, which were erased"
    for path in files_with(home, gone):
        yield f"{path} has a node that was erased"
    for table in rows_with(database, gone):
        yield f"a row of {table} has a node that was erased"


def files_with(home: Path, nodes: Sequence[str]) -> list[Path]:
    """Files of a home that hold one of some ids, in any form that we write."""
    forms = [form for node in nodes for form in (node.encode(), node.encode("utf-16-le"))]
    found = []
    for directory, _, names in os.walk(home):  # passes over directories that go meanwhile
        for path in map(Path(directory).joinpath, names):
            with suppress(FileNotFoundError):
                content = path.read_bytes()
                if any(form in content for form in forms):
                    found.append(path)
    return found


def rows_with(database: Database, nodes: Sequence[str]) -> list[str]:
    """Names of the tables a row of which holds one of some ids."""
    found = []
    with database.read() as connection:
        for table in metadata.sorted_tables:
            text = str(connection.execute(select(table)).all())
            if any(node in text for node in nodes):
                found.append(table.name)
    return found
