"""What columns that nobody reads held, from one table to the next."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from peewit.streaming.edges.change_columns import UnreadColumns, rows_ended


def looked(*tables: dict[str, list[str]], kept: Mapping[str, Any] | None = None) -> UnreadColumns:
    unread = UnreadColumns(kept)
    for table in tables:
        unread.look({name: pa.array(cells) for name, cells in table.items()}, ["src", *table])
    return unread


def test_what_was_kept_goes_on() -> None:
    first = {"kind": ["I", "u"], "status": ["closed", "open"], "at": ["1", "2"], "op": ["1"]}
    second = {"kind": ["D"], "status": ["closed"], "note": ["Not a word."]}
    once = looked(first, second)
    again = looked(second, kept=json.loads(json.dumps(looked(first).kept)))
    assert once.kept == again.kept
    assert set(once.of("kind") or ()) == {"i", "u", "d"}
    assert (once.of("at"), once.of("note"), once.of("new")) == (None, None, ())
    assert once.operations == {"kind": ["d", "i", "u"], "op": ["1"]}
    assert once.ended == {"status": 2}
    assert looked({}).kept == {}


def test_erased_nodes_are_forgotten_with_and_without_their_kinds() -> None:
    unread = looked({"friend": ["Ann", "bob", "deleted"], "cay": ["x"]})
    unread.forget(["ann", "account:Cay"])
    assert set(unread.of("friend") or ()) == {"bob", "deleted"}
    assert unread.names == ["friend", "src"]
    assert unread.ended == {"friend": 1}


def test_rows_that_do_not_hold_any_more_are_counted() -> None:
    columns = {
        "status": ["open", "Deleted"],
        "is_active": ["true", "false"],
        "is_expired": ["f", "t"],
        "Cancelled": ["0", "1"],
        "post_state": ["draft", "Deleted"],
        "valid_to": ["2020-01-01", ""],
        "dbt_valid_to": ["9999-12-31", "2020-01-01 10:00:00"],
    }
    ended = rows_ended({name: pa.array(cells) for name, cells in columns.items()})
    assert ended == dict.fromkeys(columns, 1)
