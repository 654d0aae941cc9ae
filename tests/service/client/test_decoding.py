"""Streams of batches and of events come out the same however the network cuts them."""

from collections.abc import Iterator

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.service.client.calls.events import EventDecoder
from peewit.service.client.tables import ArrowDecoder, table_body
from peewit.service.tables.formats import encode
from peewit.streaming.edges.table_formats import Format

TABLES = st.builds(
    lambda rows, n_chunk: (
        pa.table({"node": [row[0] for row in rows], "score": [row[1] for row in rows]})
        .cast(pa.schema({"node": pa.string(), "score": pa.float32()}))
        .add_column(0, "label", pa.array([row[2] for row in rows], pa.string()).dictionary_encode())
        .to_reader(n_chunk)
    ),
    st.lists(st.tuples(st.text(max_size=5), st.floats(width=32), st.sampled_from("abc"))),
    st.integers(1, 4),
)
CUTS = st.lists(st.integers(1, 400), min_size=1)


def pieces(content: bytes, cuts: list[int]) -> Iterator[bytes]:
    """The content in pieces of these sizes, the last again and again."""
    position, number = 0, 0
    while position < len(content):
        n_bytes = cuts[min(number, len(cuts) - 1)]
        yield content[position : position + n_bytes]
        position, number = position + n_bytes, number + 1


@pytest.mark.slow
@given(TABLES, CUTS)
def test_batches_come_whole_from_any_pieces(reader: pa.RecordBatchReader, cuts: list[int]) -> None:
    batches = list(reader)
    content = b"".join(encode(reader.schema, batches, Format.ARROW))
    decoder = ArrowDecoder()
    found = [batch for piece in pieces(content, cuts) for batch in decoder.feed(piece)]
    assert decoder.is_ended
    assert decoder.schema == reader.schema
    assert len(found) == len(batches)
    for batch, expected in zip(found, batches, strict=True):
        assert str(batch.to_pylist()) == str(expected.to_pylist())  # nan is no other nan


@given(TABLES, st.integers(1, 30))
def test_stream_that_is_cut_has_not_ended(reader: pa.RecordBatchReader, n_missing: int) -> None:
    batches = list(reader)
    content = b"".join(encode(reader.schema, batches, Format.ARROW))
    decoder = ArrowDecoder()
    found = list(decoder.feed(content[:-n_missing]))
    assert not decoder.is_ended
    assert len(found) <= len(batches)


@given(st.lists(st.tuples(st.sampled_from(["queued", "phase"]), st.text("a\né", max_size=4))), CUTS)
def test_events_come_whole_from_any_pieces(told: list[tuple[str, str]], cuts: list[int]) -> None:
    content = b"".join(
        b": still waiting\n\nid: %d\nevent: %b\ndata: %b\n\n"
        % (seq, kind.encode(), orjson.dumps({"text": text}))
        for seq, (kind, text) in enumerate(told, 1)
    )
    decoder = EventDecoder()
    found = [event for piece in pieces(content, cuts) for event in decoder.feed(piece)]
    assert [(event.kind, event.data["text"]) for event in found] == told
    assert [event.seq for event in found] == list(range(1, len(told) + 1))


def test_table_is_encoded_a_batch_at_a_time() -> None:
    n_rows = 1 << 20
    table = pa.table({"src": pa.array(range(n_rows)), "dst": pa.array(range(n_rows))})
    sizes = [len(piece) for piece in table_body(table).pieces()]
    assert sum(sizes) > table.nbytes
    assert max(sizes) < table.nbytes / 8


def test_batches_are_taken_only_as_they_are_sent() -> None:
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            taken.append(number)
            yield pa.record_batch({"src": [number], "dst": [number + 1]})

    sending = table_body(batches()).pieces()
    next(sending)
    assert len(taken) < 4
    assert sum(1 for _ in sending) > 5
    assert len(taken) == 10
