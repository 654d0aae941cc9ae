"""Typed graphs: a node is a kind and an id, and kinds never share nodes."""

import io

import pyarrow as pa
import pytest

from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.csv.tables import csv_edges
from peewit.streaming.edges.json_tables import json_edges
from peewit.streaming.edges.node_ids import in_kind, node_id
from peewit.streaming.edges.node_kinds import split_column

LOGINS = EdgeColumns(src="account:who", dst="device:what")


def ends(batch: pa.RecordBatch, columns: EdgeColumns = LOGINS) -> list[tuple[str, str]]:
    block = read_columns(batch, node_kind="typed", max_nodes=100, columns=columns)
    return list(zip(block.src.to_pylist(), block.dst.to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("account:who", ("account", "who")),
        ("who", ("", "who")),
        (":START_ID", ("", ":START_ID")),
        (":person:ID", ("", "person:ID")),
        ("a b:c", ("", "a b:c")),
        ("#1", ("", "#1")),
        ("account:#1", ("account", "#1")),
        ("account:", ("", "account:")),
        ("a:b:c", ("a", "b:c")),
    ],
)
def test_a_column_names_the_kind_of_its_nodes(name: str, parts: tuple[str, str]) -> None:
    assert split_column(name) == parts


def test_reading_is_the_same_when_it_is_stored() -> None:
    for columns in (LOGINS, EdgeColumns(src=":p:ID", dst="to"), EdgeColumns(src="a", dst="b")):
        assert EdgeColumns(**columns.reading) == columns  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "who",
    [
        pa.array([1, 17], pa.int64()),
        pa.array([1, 17], pa.uint8()),
        pa.array([1.0, 17.0]),
        pa.array(["1", "17"]),
        pa.array(["1", "17"]).dictionary_encode(),
        pa.array(["1", "17"], pa.large_string()),
    ],
)
def test_ids_of_any_type_become_nodes_of_their_kind(who: pa.Array) -> None:
    batch = pa.record_batch({"who": who, "what": ["17", "a:b"]})
    assert ends(batch) == [("account:1", "device:17"), ("account:17", "device:a:b")]


def test_text_is_read_alike_in_every_format() -> None:
    text, objects = b"who,what\n01,17\n1,x\n", b'{"who":"01","what":17}\n{"who":1,"what":"x"}\n'
    expected = [("account:01", "device:17"), ("account:1", "device:x")]
    for batches in (
        csv_edges(io.BytesIO(text), "typed", LOGINS),
        json_edges(io.BytesIO(objects), "typed", LOGINS),
    ):
        assert [each for batch in batches for each in ends(batch)] == expected


def test_a_table_may_name_the_kind_of_each_node() -> None:
    named = EdgeColumns(src="src", dst="dst")
    batch = pa.record_batch({"src": ["account:1", "page:2"], "dst": ["device:9", "account:1"]})
    assert ends(batch, named) == [("account:1", "device:9"), ("page:2", "account:1")]
    bare = pa.record_batch({"src": ["account:1", "2"], "dst": ["device:9", "account:1"]})
    with pytest.raises(BadEdges, match=r"KIND:ID .* KIND:src, got '2' in row 1"):
        ends(bare, named)


def test_a_kind_is_said_once() -> None:
    for who in ("account:1", "Account:1"):
        twice = pa.record_batch({"who": ["17", who], "what": ["a", "b"]})
        with pytest.raises(
            BadEdges, match=r"without the kind .* in place of account:who"
        ) as caught:
            ends(twice)
        assert (caught.value.row, caught.value.value) == (1, repr(who))
    other = pa.record_batch({"who": ["accounts:1"], "what": ["a"]})
    assert ends(other) == [("account:accounts:1", "device:a")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_ids_in_a_kind_are_what_joining_text_makes(kind: pa.DataType) -> None:
    ids = pa.array(["z", "a", None, "é", "x:y", ""], kind)
    for some in (ids, ids.slice(1, 3), ids.slice(0, 0), pa.chunked_array([ids, ids.slice(2)])):
        named = in_kind(some, "who")
        named.validate(full=True)
        assert named.type == kind
        assert named.to_pylist() == [None if x is None else f"who:{x}" for x in some.to_pylist()]


def test_words_for_nothing_are_no_ids_of_a_kind() -> None:
    batch = pa.record_batch({"who": ["1", "NULL"], "what": ["x", "y"]})
    with pytest.raises(BadEdges, match=r"words for a missing value.*'NULL' in row 1"):
        ends(batch)
    with pytest.raises(BadEdges, match="at least one character"):
        ends(pa.record_batch({"who": [""], "what": ["x"]}))


def test_kinds_need_a_typed_graph_and_both_ends() -> None:
    batch = pa.record_batch({"who": ["1"], "what": ["x"]})
    with pytest.raises(BadEdges, match=r"must not have a kind, 'account', in a graph of string"):
        read_columns(batch, node_kind="string", max_nodes=9, columns=LOGINS)
    rule = r"dst must name the kind .* KIND:what, or dst_kind_column .* got 'what'"
    with pytest.raises(BadArgument, match=rule):
        EdgeColumns(src="account:who", dst="what")


def test_a_node_that_somebody_names_has_a_kind() -> None:
    assert node_id("account:17", "typed") == "account:17"
    for wrong in ("17", ":17", "account:", "a b:c", 17):
        with pytest.raises(BadTable):
            node_id(wrong, "typed")
