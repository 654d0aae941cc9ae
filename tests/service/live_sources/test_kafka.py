"""A topic of Kafka as a live source, on librdkafka's mock cluster."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.table_notes import source_note
from peewit.service.inbox.confinement import SourceRefused, SourceRules, is_within
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor, LiveSourceUnread
from peewit.service.live_sources import kafka
from peewit.service.live_sources.contract import Access, ChangesLost, Chunk, shown_position
from peewit.service.live_sources.kafka import KafkaSource, TopicUnavailable
from peewit.service.live_sources.kafka_gatherer import Gatherer
from peewit.service.live_sources.kafka_values import Message
from peewit.service.live_sources.kinds import start_of
from peewit.service.settings import Settings
from peewit.streaming.edges.column_mapping import CHANGES, PLAIN, EdgeColumns
from peewit.streaming.edges.windows import Window
from tests.service.live_sources.feeding import edges_after, graph_edges
from tests.service.live_sources.tables import rows_of
from tests.service.live_sources.test_live_reader import WATCHED as READING
from tests.service.live_sources.topics import MockCluster, chunks, edge, mock_cluster, opened

MODULES = ("kafka", "kafka_edges", "kafka_gatherer", "kafka_nodes", "kafka_values")
WATCHED = (*READING, *(f"service/live_sources/{name}.py" for name in MODULES))
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as made:
        yield made


@pytest.fixture
def topic(tmp_path: Path) -> str:
    return tmp_path.name


def refused(found: list[Chunk]) -> dict[str, str]:
    return {each.place: each.reason for chunk in found for each in chunk.refused}


def test_partitions_are_read_each_in_its_order_and_from_any_position(
    cluster: MockCluster, topic: str
) -> None:
    url = cluster.create(topic, 3)
    rng = np.random.default_rng(1)
    sent: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for number in range(60):
        partition = int(rng.integers(3))
        cluster.send(topic, [edge(f"u{number}", "v")], partition=partition)
        sent[partition].append(f"u{number}")
    found = chunks(opened(url), most_rows=7)
    assert [chunk.table.num_rows for chunk in found if chunk.table] == [7] * 8 + [4]
    for place in (0, 3, 8):
        first = [row[0] for row in rows_of(found[: place + 1])]
        rest = [row[0] for row in rows_of(chunks(opened(url), found[place].position))]
        assert sorted(first + rest) == sorted(name for names in sent.values() for name in names)
        for names in sent.values():
            assert [name for name in first + rest if name in names] == names
    ends = {str(partition): len(names) for partition, names in sent.items()}
    assert found[-1].position == {"partitions": ends}
    assert shown_position(found[-1].position).startswith(f"partitions 0:{ends['0']} 1:")


def arrow(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


TWO = [("a", "b", 2.0, "insert"), ("b", "c", 3.0, "delete")]
COLUMNS = {"src": ["a", "b"], "dst": ["b", "c"], "weight": [2.0, 3.0], "op": ["insert", "delete"]}


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        ([edge("a", "b", 2.0, op="insert"), edge("b", "c", 3.0, op="delete")], None),
        (b"a,b,2\nb,c,3,delete\n", None),
        (b"op,dst,src,weight\n,b,a,2\ndelete,c,b,3", None),
        (b'"a",b,2\r\nb,c,3,delete', {"content-type": "text/csv; charset=utf-8"}),
        (arrow(pa.table(COLUMNS)), None),
        (arrow(pa.table(COLUMNS), compression="zstd"), {"Content-Type": "any/thing"}),
    ],
    ids=["json", "csv", "csv with header", "csv by header", "arrow", "arrow zstd"],
)
def test_values_are_json_csv_or_arrow(
    cluster: MockCluster, topic: str, value: Any, headers: dict[str, str] | None
) -> None:
    url = cluster.create(topic)
    cluster.send(topic, [value], headers=headers)
    (found,) = chunks(opened(url))
    assert list(found.refused) == []
    assert [(u, v, 3.0 if op == "delete" else w, op) for u, v, w, op in rows_of([found])] == TWO


def test_a_header_counts_more_than_how_a_value_begins(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic)
    cluster.send(topic, [b"[a],{b}"], headers={"content-type": "text/csv"})
    cluster.send(topic, [b"[a],{b}"])
    (found,) = chunks(opened(url))
    assert rows_of([found]) == [("[a]", "{b}", 1.0, "insert")]
    assert "must be JSON" in refused([found])[f"{topic} partition 0 offset 1"]


POISON: list[tuple[Any, str]] = [
    (b"{bad", "must be JSON"),
    (7, "a line of CSV must have the fields"),
    ([1], "a JSON object, or an array of objects"),
    ({"src": "a"}, "column 'dst' is missing"),
    (edge("", "b"), "at least one character"),
    ({"src": 5, "dst": "b"}, "'src' must be a string in this graph"),
    (edge("a", "b", -1.0), "must be finite and >= 0"),
    (edge("a", "b", op="merge"), "must hold operations"),
    ({**edge("a", "b"), "weight": "x"}, "must hold numbers"),
    (b"a,b,heavy", "must hold numbers"),
    (b"a\xff,b", "CSV in UTF-8"),
    (b"\x00\x00\x00\x00\x07{}", "plain CSV or an Arrow stream"),
    (arrow(pa.table(COLUMNS))[:-40], "whole Arrow IPC stream"),
    (2 * arrow(pa.table(COLUMNS)), "bytes follow its end"),
    (b"<e>a,b</e>", "plain CSV or an Arrow stream"),
    (b"user,item\n1,2", "plain CSV or an Arrow stream"),
    ({"before": None, "after": edge("a", "b")}, "ExtractNewRecordState"),
    ({**edge("a", "b"), "__deleted": True}, "asks for deletes"),
    ({"src": "a", "dst": "b", "Op": "D"}, "say op='Op'"),
    ([edge("a", "b", 2.0), {"src": "b", "dst": "c"}], "'weight' must stand in every row"),
    (arrow(pa.table({"src": ["a"], "dst": ["b"], "kind": ["delete"]})), "asks for deletes"),
    ({"src": "a", "dst": "b", "Weight": 5}, "weight='Weight'"),
    (arrow(pa.table({"src": ["a"]})), "column 'dst' is missing"),
    (b"src,dst\n", "at least one row"),
    (b"src,dst\na,b\nsrc,dst\nc,d", "must not name the columns again"),
    (b"src, src,dst\na,b,c", "'src' must stand once"),
    (b"src,dst,weight\na,b,", "'weight' must not be null"),
    (b'\x1e{"src":"a","dst":"b"}', "plain CSV or an Arrow stream"),
    ("\u200bsrc,dst,weight\na,b,x".encode(), "must hold numbers"),
    (arrow(pa.table(COLUMNS).slice(0, 0)), "at least one row"),
    (arrow(pa.table(COLUMNS)) + b"\0", "bytes follow its end"),
    (arrow(pa.table({f"c{number}": ["a"] for number in range(1025)})), "at most 1024 columns"),
    (None, "the key must name the pair"),
]


def test_poison_is_refused_with_its_place_and_the_rest_goes_on(
    cluster: MockCluster, topic: str
) -> None:
    url = cluster.create(topic, 2)
    for number, (value, _) in enumerate(POISON):
        cluster.send(topic, [edge(f"before{number}", "x"), value], partition=1)
    cluster.send(topic, [edge("last", "x")], partition=1)
    found = chunks(opened(url), most_rows=6)
    told = refused(found)
    assert list(told) == [f"{topic} partition 1 offset {2 * n + 1}" for n in range(len(POISON))]
    for (_, rule), reason in zip(POISON, told.values(), strict=True):
        assert rule in reason
    names = [row[0] for row in rows_of(found)]
    assert names == [*(f"before{number}" for number in range(len(POISON))), "last"]


def test_a_column_asks_for_deletes_by_its_words_in_all_messages(
    cluster: MockCluster, topic: str
) -> None:
    url = cluster.create(topic)
    known = [{**edge("a", "b"), "crud": "I", "size": "M", "mood": "deleted"}] * 2
    known[0]["mood"] = "fine"
    cluster.send(topic, known)
    (found,) = chunks(opened(url))
    assert not found.refused
    assert shown_position(found.position) == "partitions 0:2"
    stored = json.loads(json.dumps(found.position))  # another process goes on
    deletes = [{**edge("b", "c"), name: "D"} for name in ("crud", "size")]
    cluster.send(topic, [*deletes, {**edge("c", "d"), "mood": "deleted"}])
    (more,) = chunks(opened(url), stored)
    assert list(refused([more])) == [f"{topic} partition 0 offset 2"]
    assert "column 'crud' asks for deletes" in more.refused[0].reason
    assert [row[:2] for row in rows_of([more])] == [("b", "c"), ("c", "d")]


def test_whole_decimals_are_integers(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic)
    ids = [pa.array([Decimal(number)], pa.decimal128(38, 2)) for number in ("7", "8.5")]
    cluster.send(topic, [arrow(pa.table({"src": each, "dst": ids[0]})) for each in ids])
    (found,) = chunks(opened(url, node_kind="int64"))
    assert [row[:2] for row in rows_of([found])] == [(7, 7)]
    assert "got 8.50" in found.refused[0].reason


def test_an_arrow_value_that_comes_to_too_much_is_not_decoded(
    cluster: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.create(topic)
    long = pa.array(["x" * 1_000] * 500)
    shared = pa.table({"src": long.dictionary_encode(), "dst": long.dictionary_encode()})
    packed = arrow(pa.table({"src": long, "dst": long}), compression="zstd")
    assert max(len(arrow(shared)), len(packed)) < 10_000
    cluster.send(topic, [arrow(shared), packed])
    monkeypatch.setattr("peewit.service.live_sources.kafka_values.MAX_DECODED_BYTES", 100_000)
    (found,) = chunks(opened(url))
    assert found.table is None
    assert ["once it is decoded" in each.reason for each in found.refused] == [True, True]


@pytest.mark.slow
def test_whatever_a_message_holds_it_stops_no_other() -> None:
    rng = np.random.default_rng(5)
    times = pa.array([2**62, -(2**62)], pa.timestamp("s"))
    whole = [
        arrow(pa.table(COLUMNS)),
        arrow(pa.table(COLUMNS), compression="lz4"),
        arrow(pa.table({**COLUMNS, "time": times})),
        arrow(pa.Table.from_arrays([pa.array(["a"])] * 3, ["src", "src", "dst"])),
        arrow(pa.table({"src": [["a"]], "dst": [{"b": 1}], "op": [b"x"]})),
        arrow(pa.table({"src": pa.array(["a"]).dictionary_encode(), "dst": [True]})),
        b'[{"src": "a", "dst": "b", "weight": 1, "op": "set", "time": 1e300}]',
        b'{"src": 99999999999999999999, "dst": [[]], "weight": 1e999, "time": {}}',
        b'"a","b",1,set,2026-03-01\nc,d',
    ]
    columns = EdgeColumns(op="op", time="time")
    for kind in ("string", "int64"):
        access = Access(url="", columns=columns, takes_changes=True, node_kind=kind)
        gathered = Gatherer(access)
        for number in range(3_000):
            value = bytearray(whole[number % len(whole)])
            for _ in range(int(rng.integers(4))):
                value[int(rng.integers(len(value)))] = int(rng.integers(256))
            gathered.add(Message("t", 0, number, None, bytes(value), None, 1_700_000_000_000))
            gathered.add(Message("t", 1, number, bytes(value), None, None, 1_700_000_000_000))
        gathered.add(Message("t", 2, 0, None, b"1,2", None, 1_700_000_000_000))
        table, refused = gathered.take()
        assert table is not None
        assert str(table.column("src")[-1]) == "1"
        assert len(refused) > 1_000


@pytest.mark.parametrize(
    "key",
    [
        *(b"a,b", b'{"src": "a", "dst": "b", "more": 1}', b'"a",b', b"\xef\xbb\xbfa,b"),
        *(b'["a", "b"]', b'"[\\"a\\", \\"b\\"]"'),
    ],
)
def test_a_tombstone_deletes_the_pair_of_its_key(
    cluster: MockCluster, topic: str, key: bytes
) -> None:
    url = cluster.create(topic)
    cluster.send(topic, [None], key=key)
    (found,) = chunks(opened(url))
    assert rows_of([found]) == [("a", "b", 1.0, "delete")]
    (found,) = chunks(opened(url, columns=PLAIN))
    assert found.table is None
    assert "the graph takes no deletes" in found.refused[0].reason


@pytest.mark.parametrize("key", [b"a", b"a,b,c", b'{"src": "a"}', b"[1]", b"\xff,a", b'{"src"'])
def test_a_tombstone_whose_key_names_no_pair_is_refused(
    cluster: MockCluster, topic: str, key: bytes
) -> None:
    url = cluster.create(topic)
    cluster.send(topic, [None], key=key)
    (found,) = chunks(opened(url))
    assert found.table is None
    assert len(found.refused) == 1


def test_columns_have_the_names_of_the_graph_and_ids_its_kind(
    cluster: MockCluster, topic: str
) -> None:
    url = cluster.create(topic)
    cluster.send(topic, [{"from": 1, "to": "2", "amount": 3}, b"3,4,5", b"from,to\n5,6", b"a,7"])
    columns = EdgeColumns(src="from", dst="to", weight="amount")
    (found,) = chunks(opened(url, columns=columns, node_kind="int64"))
    assert found.table is not None
    assert found.table.to_pydict() == {"src": [1, 3, 5], "dst": [2, 4, 6], "weight": [3, 5, 1]}
    assert len(found.refused) == 1
    places = EdgeColumns(src="#2", dst="#1", weight="#4")
    cluster.send(topic, [b"u,v,skipped,9"])
    (found,) = chunks(opened(url, columns=places), found.position)
    assert rows_of([found]) == [("v", "u", 9.0, "insert")]


def test_times_are_those_of_values_else_of_messages(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic)
    written = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    stamp = int(written.timestamp() * 1000)
    moment = pa.array([datetime(2026, 3, 4, tzinfo=UTC)], pa.timestamp("ms", "UTC"))
    cluster.send(
        topic,
        [
            edge("a", "b", time="2026-03-02T00:00:00Z"),
            edge("b", "c"),
            edge("c", "d", time=1_772_496_000),
            b"d,e,1,,\ne,f,1",
            arrow(pa.table({"src": ["f"], "dst": ["g"], "time": moment})),
            edge("g", "h", time="soon"),
        ],
        timestamp=stamp,
    )
    cluster.send(topic, [None], key=b"a,b", timestamp=stamp)
    columns = EdgeColumns(op="op", time="time", time_unit="s")
    (found,) = chunks(opened(url, columns=columns))
    assert found.table is not None
    days = [datetime(2026, 3, day) for day in (2, 3, 4)]  # noqa: DTZ001 - Arrow's are of UTC
    plain = written.replace(tzinfo=None)
    wanted = [days[0], plain, days[1], plain, plain, days[2], plain]
    assert found.table.column("time").to_pylist() == wanted
    assert "ISO 8601" in refused([found])[f"{topic} partition 0 offset 5"]


def test_a_window_leaves_by_the_time_of_messages(
    cluster: MockCluster, topic: str, database: Database, settings: Settings
) -> None:
    window = Window.of(3_600.0, buckets=2)
    graph = Catalog(database).create(
        GraphSettings(
            name="w",
            expected_nodes=40,
            seed=1,
            deletions="exact",
            parallel="replace",
            window=window,
        )
    )
    manifest = Manifest(database)
    url = cluster.create(topic)
    now = int(datetime.now(UTC).timestamp() * 1000)
    manifest.sources.add(graph.id, url, kind="kafka", follow=True)
    cluster.send(topic, [edge("old", "x")], timestamp=now - 7_200_000)
    cluster.send(topic, [edge("new", "x")], timestamp=now)
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == {("new", "x"): 1.0}


def test_a_topic_leads_to_the_graph_and_its_poison_to_the_refusals(
    cluster: MockCluster, topic: str, database: Database, settings: Settings, graph: GraphRecord
) -> None:
    manifest = Manifest(database)
    url = cluster.create(topic)
    rows = [("a", "b", 1.0, "insert"), ("b", "c", 2.0, "insert"), ("a", "b", 3.0, "set")]
    cluster.send(topic, [edge(u, v, weight, op=op) for u, v, weight, op in rows])
    cluster.send(topic, [b"{no"])
    source = manifest.sources.add(graph.id, url, kind="kafka", follow=True)
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == edges_after(rows)
    cluster.send(topic, [None], key=b"b,c")
    cluster.send(topic, [edge("c", "d", 4.0)])
    reader = LiveReader(manifest, Catalog(database), settings, chunk_rows=1)
    (source,) = manifest.sources.list(graph.id)
    assert (source.n_refused, source.lag) == (1, 0)
    assert reader.read(source)
    reader.close()
    Ingestor(database, settings).ingest_graph(graph.id)
    changed = [*rows, ("b", "c", 0.0, "delete"), ("c", "d", 4.0, "insert")]
    assert graph_edges(settings, graph) == edges_after(changed)
    (told,) = manifest.live.refusals(graph.id, limit=9)
    assert told.place == f"{topic} partition 0 offset 3"
    assert {file.status for file in manifest.list_files(graph.id)} == {"committed"}


def test_columns_of_a_topic_that_nobody_reads_are_told_as_those_of_files(
    cluster: MockCluster, topic: str, database: Database, settings: Settings, graph: GraphRecord
) -> None:
    manifest = Manifest(database)
    url = cluster.create(topic)
    pair = {"from": "a", "to": "b"}
    manifest.sources.add(
        graph.id, url, kind="kafka", follow=True, columns={"src": "from", "dst": "to"}
    )
    cluster.send(topic, [{**pair, "Op": "I", "amount": 3, "valid_to": "2020-01-01", "x": [1]}])
    gone = pa.table({"from": ["b"], "to": ["c"], "status": ["gone"]})
    cluster.send(topic, [arrow(gone)])
    cluster.send(topic, [{**pair, "Op": "u", "status": "closed"}])
    reader = LiveReader(manifest, Catalog(database), settings, chunk_rows=1)
    (source,) = manifest.sources.list(graph.id)
    reader.read(source)
    reader.close()
    (source,) = manifest.sources.list(graph.id)
    note = source_note(Catalog(database).get_by_id(graph.id), source, door="command")
    assert note == (
        "column 'Op' is passed over, as it asks for no delete in the first rows ('i', 'u'): every "
        "row counts as an edge; column 'amount' is passed over, and every edge counts 1; say "
        "--weight amount where it is the weight; column 'valid_to' is passed over, and says that 1 "
        "of the first rows does not hold any more: every row counts as an edge; take such rows out "
        "where they should not; column 'status' is passed over, and says that 1 of the first rows "
        "does not hold any more: every row counts as an edge; take such rows out where they should "
        "not"
    )


def test_what_a_topic_has_dropped_stops_the_source_and_tells_where_it_begins(
    cluster: MockCluster, topic: str, database: Database, settings: Settings, graph: GraphRecord
) -> None:
    manifest = Manifest(database)
    url = cluster.create(topic)
    cluster.send(topic, [edge(*pair) for pair in PAIRS])
    manifest.sources.add(graph.id, url, kind="kafka", start={"partitions": {"0": 1}})
    cluster.drop_before(topic, 0, 3)
    with pytest.raises(LiveSourceUnread):
        Ingestor(database, settings).ingest_graph(graph.id)
    (source,) = manifest.sources.list(graph.id)
    assert source.position == {"partitions": {"0": 1}}
    assert "offset 1 of partition 0" in str(source.error)
    assert "begins at offset 3" in str(source.error)
    manifest.sources.add(graph.id, url, kind="kafka", start=KafkaSource.start("earliest"))
    Ingestor(database, settings).ingest_graph(graph.id)
    assert graph_edges(settings, graph) == {("d", "e"): 1.0}


def test_messages_that_are_dropped_while_they_are_read_are_missed_aloud(
    cluster: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.create(topic)
    cluster.send(topic, [edge(*pair) for pair in PAIRS])
    source = opened(url)
    look = source._look
    seen = look()

    def late() -> Any:
        monkeypatch.setattr(source, "_look", look)
        cluster.drop_before(topic, 0, 2)
        return seen

    monkeypatch.setattr(source, "_look", late)
    with pytest.raises(ChangesLost, match="begins at offset 2"):
        chunks(source)


def test_a_topic_that_was_made_anew_is_told(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic, 2)
    cluster.send(topic, [edge(*pair) for pair in PAIRS])
    end = chunks(opened(url))[-1].position
    cluster.drop(topic)
    cluster.create(topic)
    with pytest.raises(ChangesLost, match=r"offset 4 of partition 0 .* ends at offset 0"):
        chunks(opened(url), end)
    with pytest.raises(ChangesLost, match=r"partition 1 .* is gone"):
        chunks(opened(url), {"partitions": {"0": 0, "1": 0}})


def test_partitions_that_are_new_are_read_from_their_beginning(
    cluster: MockCluster, topic: str
) -> None:
    url = cluster.create(topic, 2)
    cluster.send(topic, [edge("a", "b")], partition=0)
    cluster.send(topic, [edge("b", "c")], partition=1)
    source = opened(url)
    (found,) = chunks(source, {"partitions": {"0": 1}})
    assert rows_of([found]) == [("b", "c", 1.0, "insert")]
    assert found.position == {"partitions": {"0": 1, "1": 1}}
    assert source.lag({"partitions": {"0": 1}}) == 1


def test_it_begins_where_it_is_told_to(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic, 2)
    cluster.send(topic, [edge(f"day{day}", "x") for day in range(3)])

    def names(start: str) -> list[str]:
        first, *rest = chunks(opened(url), KafkaSource.start(start))
        assert (first.table, "from" in first.position) == (None, False)
        again = chunks(opened(url), first.position)
        assert rows_of(again) == rows_of(rest)
        return [row[0] for row in rows_of(rest)]

    assert names("earliest") == ["day0", "day1", "day2"]
    assert names("latest") == []
    behind = chunks(opened(url), KafkaSource.start("latest"))[-1].position
    cluster.send(topic, [edge("day3", "x")])
    assert rows_of(chunks(opened(url), behind)) == [("day3", "x", 1.0, "insert")]
    with pytest.raises(ValueError, match="must be earliest, latest or a time"):
        KafkaSource.start("soon")


@pytest.mark.parametrize(
    "start", ["2026-03-02T00:00:00Z", "2026-03-02T02:00:00+02:00", "2026-03-02", "2026-03-02T00:00"]
)
def test_a_time_is_asked_of_the_brokers_in_milliseconds_of_utc(
    cluster: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """The mock cluster looks up no times, so its answer is made here."""
    url = cluster.create(topic, 2)
    cluster.send(topic, [edge(*pair) for pair in PAIRS])
    asked = {}

    class Told:
        def __init__(self, consumer: Any) -> None:
            self._consumer = consumer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._consumer, name)

        def offsets_for_times(self, times: list[TopicPartition], **_: Any) -> list[TopicPartition]:
            asked.update({each.partition: each.offset for each in times})
            return [TopicPartition(topic, 0, 2), TopicPartition(topic, 1, OFFSET_END)]

    source = opened(url)
    consumer = Told(source._connect())
    monkeypatch.setattr(source, "_connect", lambda: consumer)
    first, rest = chunks(source, KafkaSource.start(start))
    moment = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
    assert asked == {0: moment, 1: moment}
    assert first.position == {"partitions": {"0": 2, "1": 0}}
    assert [row[0] for row in rows_of([rest])] == ["c", "d"]


@pytest.mark.parametrize(
    "url",
    [
        "host:9092/topic",
        "kafka://host:9092",
        "kafka://host:9092/",
        "kafka:///topic",
        "kafka://me:hidden@host:9092/topic",
        "kafka://host:9092/a/b",
        "kafka://host:9092/topic?x=1",
        "s3://bucket/topic",
    ],
)
def test_other_urls_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(ValueError, match="kafka://HOST:PORT") as told:
        start_of("kafka", url, PLAIN, None)
    assert "hidden" not in str(told.value)


def test_brokers_that_are_away_are_told_and_read_on_from_once_they_are_back(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 1.0)
    with mock_cluster() as cluster:
        url = cluster.create(topic)
        with pytest.raises(TopicUnavailable, match=r"(?i)unknown topic"):
            chunks(opened(f"{url}-other"))
        cluster.send(topic, [edge(*pair) for pair in PAIRS])
        source = opened(url)
        (first, *_) = chunks(source, most_rows=2)
        cluster.set_down(down=True)
        with pytest.raises(TopicUnavailable, match=r"cannot be read: .*\(.*(?i:connect|brokers)"):
            chunks(source, first.position)
        cluster.set_down(down=False)
        monkeypatch.setattr(kafka, "ANSWER_SECONDS", 30.0)
        rest = chunks(source, first.position)
        assert rows_of([first, *rest]) == [(*pair, 1.0, "insert") for pair in PAIRS]
        source.close()


def test_brokers_that_fall_silent_while_they_are_read_are_told(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "SILENCE_SECONDS", 0.5)
    with mock_cluster() as cluster:
        url = cluster.create(topic)
        cluster.send(topic, [edge(*pair) for pair in PAIRS])
        source = opened(url)
        reading = source.read(None, most_rows=1, should_stop=lambda: False)
        look = source._look

        def away() -> Any:
            found = look()
            cluster.set_down(down=True)
            return found

        monkeypatch.setattr(source, "_look", away)
        with pytest.raises(TopicUnavailable, match=r"no message came for 0.5 s"):
            next(reading)
        source.close()


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    def consumer(configuration: dict[str, Any]) -> Any:
        told.append(configuration)
        raise kafka.KafkaException("no")

    monkeypatch.setattr(kafka, "Consumer", consumer)
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "hidden",
        "ssl.ca.location": "/ca.pem",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"PEEWIT_KAFKA_{name.upper().replace('.', '_')}", value)
    with pytest.raises(TopicUnavailable, match="PEEWIT_KAFKA_"):
        chunks(opened("kafka://b:9092,c/topic"))
    assert given.items() <= told[0].items()
    assert told[0]["bootstrap.servers"] == "b:9092,c"
    assert not told[0]["enable.auto.commit"]


def test_settings_that_do_not_fit_are_told_without_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PEEWIT_KAFKA_SECURITY_PROTOCOL", "nonsense")
    monkeypatch.setenv("PEEWIT_KAFKA_SASL_PASSWORD", "hidden")
    with pytest.raises(TopicUnavailable, match=r"security.protocol") as told:
        chunks(opened("kafka://localhost:1/topic"))
    assert "hidden" not in str(told.value)


def test_over_http_every_broker_must_be_an_open_host(tmp_path: Path) -> None:
    rules = SourceRules(
        roots=(),
        home=tmp_path,
        schemes=frozenset({"kafka", "s3"}),
        hosts=frozenset({"b:9092", "c:9092"}),
    )
    place = rules.place_of("kafka://B:9092,c:9092/topic")
    assert place == "kafka://b:9092,c:9092"
    assert is_within("kafka://b:9092,c:9092/other", place, home=tmp_path)
    assert not is_within("kafka://b:9092/other", place, home=tmp_path)
    assert not is_within("kafka://b:9092/other", "s3://", home=tmp_path)
    for url in ("kafka://b:9092,d:9092/t", "kafka://b/t", "kafka://me:x@b:9092/t", "kafka:///t"):
        with pytest.raises(SourceRefused, match="PEEWIT_SOURCE_HOSTS"):
            rules.place_of(url)


def test_nodes_are_found_in_values_and_keys(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic, 2)
    cluster.send(topic, [b"{bad", b"csv,x", arrow(pa.table(COLUMNS)), [edge("deep", "y")]])
    cluster.send(topic, [None], key=b"gone,b", partition=1)
    source = opened(url, columns=PLAIN)
    for node in ("csv", "c", "deep", "gone"):
        assert source.holds(pa.array(["no", node], pa.large_string()))
    assert not source.holds(pa.array(["no", "bad"], pa.large_string()))


def test_changes_in_arrays_count_in_their_order(cluster: MockCluster, topic: str) -> None:
    url = cluster.create(topic)
    operations = ["insert", "delete", "insert"]
    cluster.send(topic, [[edge("a", "b", op=op) for op in operations], []])
    (found,) = chunks(opened(url, columns=CHANGES))
    assert [row[3] for row in rows_of([found])] == operations
    assert list(found.refused) == []
