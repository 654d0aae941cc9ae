"""Chunks of a version that writes files anew: what it sets again is not taken back meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from peewit.service.live_sources import table_chunks
from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.node_columns import NodeColumns
from peewit.service.live_sources.table_chunks import ROW, Effect, read_chunks
from peewit.streaming.edges.change_columns import UnreadColumns

ACCESS = Access(url="/t", columns=NodeColumns(holds="labels"), takes_changes=True)


@dataclass
class Rows:
    """A piece: nodes, all with one label."""

    effect: Effect
    nodes: list[Any]
    name: str = "file"


@dataclass
class Reader:
    """Reads two rows at once, and notes which pieces were read how often."""

    id: str = "made"
    schema: pa.Schema = field(default_factory=lambda: pa.schema({"node": "str", "label": "str"}))
    read: list[Effect] = field(default_factory=list)

    def batches(
        self,
        piece: Rows,
        version: int,
        columns: Sequence[str],
        *,
        first_row: int,
        most_rows: int = 2,
    ) -> Iterator[tuple[int, pa.Table]]:
        assert version == 5
        self.read.append(piece.effect)
        whole = {"node": piece.nodes, "label": ["x"] * len(piece.nodes)}
        for row in range(first_row, len(piece.nodes), 2):
            stop = min(row + 2, len(piece.nodes))
            held = {name: whole[name][row:stop] for name in columns}
            yield stop, pa.table({**held, ROW: range(row, stop)})


def told(
    reader: Reader, pieces: list[Rows], at: Mapping[str, int] | None = None
) -> list[tuple[Any, str]]:
    """Nodes and what is done to them."""
    chunks = read_chunks(
        reader,
        pieces,
        ACCESS,
        unread=UnreadColumns(),
        at=at or {},
        within={"version": 4},
        done={"version": 5},
        most_rows=3,
        should_stop=lambda: False,
    )
    rows = [row for chunk in chunks if chunk.table for row in chunk.table.to_pylist()]
    return [(row["node"], row["op"]) for row in rows]


PIECES = [
    Rows("delete", ["a", "b", "c", None]),
    Rows("delete", ["d"]),
    Rows("insert", ["a", "c", "e", None]),
]


def test_deletes_of_what_a_version_sets_again_do_not_count() -> None:
    reader = Reader()
    sets = [(node, "insert") for node in ("a", "c", "e", None)]
    assert told(reader, PIECES) == [("b", "delete"), ("d", "delete"), *sets]
    assert reader.read == ["insert", "delete", "delete", "insert"]


def test_what_is_set_is_not_read_twice_where_no_deletes_follow() -> None:
    reader = Reader()
    assert told(reader, PIECES, {"file": 2, "row": 2}) == [("e", "insert"), (None, "insert")]
    assert reader.read == ["insert"]


def test_of_a_version_that_sets_too_much_deletes_count_and_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_chunks, "MOST_ANEW", 3)
    deletes = [(node, "delete") for node in ("a", "b", "c", None, "d")]
    sets = [(node, "insert") for node in ("a", "c", "e", None)]
    assert told(Reader(), PIECES) == [*deletes, *sets]
