"""Topics of Kafka for tests, on librdkafka's mock cluster, which has real sockets and no disk."""

import ctypes
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Producer

from peewit.service.live_sources.contract import Access, Chunk, Position
from peewit.service.live_sources.kafka import KafkaSource
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns

_PRODUCER: Final = 0
_FLUSH_SECONDS: Final = 30.0


def _library() -> ctypes.CDLL:
    """The copy of librdkafka that the package brings."""
    beside = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    (path,) = beside.glob("librdkafka*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """Brokers of this process; each partition keeps its last 5 MB, or 100 000 messages."""

    def __init__(self, n_brokers: int = 1) -> None:
        self._library = _library()
        self._n_brokers = n_brokers
        quiet = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(quiet, b"log_level", b"0", None, 0)
        client = self._library.rd_kafka_new(_PRODUCER, quiet, None, 0)
        self._client = ctypes.c_void_p(client)
        cluster = self._library.rd_kafka_mock_cluster_new(self._client, n_brokers)
        self._cluster = ctypes.c_void_p(cluster)
        self.servers = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0}
        )

    def create(self, topic: str, n_partitions: int = 1) -> str:
        """The address of a new topic."""
        name = topic.encode()
        assert not self._library.rd_kafka_mock_topic_create(self._cluster, name, n_partitions, 1)
        return f"kafka://{self.servers}/{topic}"

    def drop(self, topic: str) -> None:
        assert not self._library.rd_kafka_mock_topic_delete(self._cluster, topic.encode())

    def drop_before(self, topic: str, partition: int, offset: int) -> None:
        """What retention does."""
        partition_, offset_ = ctypes.c_int32(partition), ctypes.c_int64(offset)
        assert not self._library.rd_kafka_mock_partition_delete_records(
            self._cluster, topic.encode(), partition_, offset_
        )

    def send(
        self, topic: str, values: Sequence[Any], *, partition: int = 0, **options: Any
    ) -> None:
        """Messages with these values, bytes as they are and all else as JSON."""
        for value in values:
            is_ready = value is None or isinstance(value, bytes)
            content = value if is_ready else json.dumps(value).encode()
            self._producer.produce(topic, content, partition=partition, **options)
            self._producer.poll(0)
        assert self._producer.flush(_FLUSH_SECONDS) == 0

    def set_down(self, *, down: bool) -> None:
        """End all connections and take no new ones, or take them again."""
        name = f"rd_kafka_mock_broker_set_{'down' if down else 'up'}"
        for broker in range(1, 1 + self._n_brokers):
            assert not getattr(self._library, name)(self._cluster, ctypes.c_int32(broker))

    def close(self) -> None:
        del self._producer
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    """Brokers that end with the block."""
    cluster = MockCluster()
    try:
        yield cluster
    finally:
        cluster.close()


def edge(src: str, dst: str, weight: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"src": src, "dst": dst, "weight": weight, **more}


def opened(url: str, *, columns: EdgeColumns = CHANGES, **options: Any) -> KafkaSource:
    return KafkaSource.open(Access(url=url, columns=columns, takes_changes=True, **options))


def chunks(
    source: KafkaSource, position: Position | None = None, *, most_rows: int = 1_000
) -> list[Chunk]:
    return list(source.read(position, most_rows=most_rows, should_stop=lambda: False))
