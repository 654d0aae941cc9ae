"""Kafka topics as live sources: messages by offset, from all partitions as they come.

A position is the next offset of every partition, with what columns that nobody reads held. The
graph stores it: brokers hold no position, and partitions are assigned, so that no consumer group
moves them.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from peewit.service.live_sources.contract import UNREAD, Access, ChangesLost, Chunk, Position
from peewit.service.live_sources.kafka_gatherer import Gatherer
from peewit.service.live_sources.kafka_values import Message, ids_of
from peewit.service.redaction import shown_url
from peewit.solvers.arguments import BadArgument

ANSWER_SECONDS: Final = 10.0
"""Time limit of one request."""

SILENCE_SECONDS: Final = 30.0
"""Time limit for brokers to send messages that they say they hold."""

CHUNK_BYTES: Final = 1 << 26
"""Bytes of keys and values at which a chunk ends, too."""

_AT_ONCE: Final = 10_000
_PIECE_SECONDS: Final = 0.1
_URL: Final = re.compile(
    r"kafka://(?P<brokers>(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::\d+)?"
    r"(?:,(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::\d+)?)*)/(?P<topic>[A-Za-z0-9._-]{1,249})"
)
_FROM_ENVIRONMENT: Final = {
    "security.protocol": "PEEWIT_KAFKA_SECURITY_PROTOCOL",
    "sasl.mechanism": "PEEWIT_KAFKA_SASL_MECHANISM",
    "sasl.username": "PEEWIT_KAFKA_SASL_USERNAME",
    "sasl.password": "PEEWIT_KAFKA_SASL_PASSWORD",
    "ssl.ca.location": "PEEWIT_KAFKA_SSL_CA_LOCATION",
}


class TopicUnavailable(OSError):
    """The brokers do not answer, or have no such topic."""


class _Range(NamedTuple):
    """Offsets of a partition: of its first message, and of its next one."""

    first: int
    end: int


class KafkaSource:
    """A topic followed by offset; credentials come from the environment."""

    unit: ClassVar[str] = "messages"

    def __init__(self, access: Access) -> None:
        match = _URL.fullmatch(access.url)
        if match is None:
            raise BadArgument(
                "url",
                "must read kafka://HOST:PORT[,HOST:PORT]/TOPIC for a topic of Kafka, got "
                f"{shown_url(access.url)!r}",
            )
        self._access = access
        self._brokers, self._topic = match["brokers"], match["topic"]
        self._consumer: Consumer | None = None
        self._cause = ""
        self._ranges: Mapping[int, _Range] | None = None

    @classmethod
    def open(cls, access: Access) -> Self:
        """The topic at ``kafka://HOST:PORT[,HOST:PORT]/TOPIC``; raises ValueError for others."""
        return cls(access)

    @classmethod
    def start(cls, start: str) -> Position:
        """The position at the first message, after the last, or at a time."""
        if start in ("earliest", "latest"):
            return {"from": start}
        try:
            moment = datetime.fromisoformat(start)
        except ValueError:
            rule = "must be earliest, latest or a time such as 2026-03-01T12:00:00Z"
            raise BadArgument("start", f"{rule}, got {start!r}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return {"from": moment.astimezone(UTC).isoformat()}

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """Messages that are there when reading begins, and some that come meanwhile.

        Raises `ChangesLost` where the topic dropped the next messages or was made anew, and
        `TopicUnavailable`.
        """
        ranges = self._look()
        at = self._offsets(position, ranges)
        self._require(at, ranges, position)
        known = position or {}
        reached = dict(at)
        if "from" in known:  # fixed from now on
            yield Chunk(position=_position(at), label="start")
        gathered = Gatherer(self._access, known.get(UNREAD))
        for message in self._messages(at, ranges, most_rows, should_stop):
            gathered.add(_message_of(message))
            if gathered.n_rows >= most_rows or gathered.n_bytes >= CHUNK_BYTES:
                reached = dict(at)
                yield _chunk(at, gathered)
        if not should_stop() and at != reached:
            yield _chunk(at, gathered)

    def lag(self, position: Position | None) -> int:
        """Unread messages of all partitions; transaction markers count, too."""
        ranges = self._ranges or self._look()
        self._ranges = None  # a second call without a read looks again
        at = self._offsets(position, ranges)
        return sum(max(0, offsets.end - at[number]) for number, offsets in ranges.items())

    def holds(self, ids: pa.Array) -> bool:
        """Whether any of some nodes is in a message that the topic has now."""
        wanted = {str(node) for node in ids.to_pylist()}
        ranges = self._look()
        at = {number: offsets.first for number, offsets in ranges.items()}
        return any(
            not wanted.isdisjoint(ids_of(_message_of(message), self._access))
            for message in self._messages(at, ranges, _AT_ONCE, lambda: False)
        )

    def close(self) -> None:
        """Release the connections."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def _messages(
        self,
        at: dict[int, int],
        ranges: Mapping[int, _Range],
        most: int,
        should_stop: Callable[[], bool],
    ) -> Iterator[KafkaMessage]:
        """Messages from ``at`` to every partition's end; ``at`` advances past each one."""
        left = {number for number, offsets in ranges.items() if at[number] < offsets.end}
        if not left:
            return
        consumer = self._connect()
        heard_at = time.monotonic()
        with self._errors():
            consumer.assign([TopicPartition(self._topic, number, at[number]) for number in left])
            try:
                while left and not should_stop():
                    got = consumer.consume(min(_AT_ONCE, most), _PIECE_SECONDS)
                    if got:
                        heard_at = time.monotonic()
                    elif time.monotonic() - heard_at > SILENCE_SECONDS:
                        raise self._unavailable(f"no message came for {SILENCE_SECONDS:g} s")
                    for message in got:
                        number, error = message.partition(), message.error()
                        if error is not None:
                            if error.code() != KafkaError._PARTITION_EOF:
                                self._raise(error, at)
                            # transaction markers may follow the last message
                            at[number] = message.offset()
                            left.discard(number)
                            continue
                        at[number] = message.offset() + 1
                        if at[number] >= ranges[number].end:
                            left.discard(number)
                        yield message
            finally:
                if self._consumer is not None:  # else it was closed
                    consumer.unassign()

    def _raise(self, error: KafkaError, at: Mapping[int, int]) -> NoReturn:
        """Raise an error that came in place of a message."""
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # dropped meanwhile
            self._require(at, self._look(), _position(at))
        raise self._unavailable(error.str())

    def _look(self) -> Mapping[int, _Range]:
        """Offset ranges of the partitions now."""
        consumer = self._connect()
        with self._errors():
            topic = consumer.list_topics(self._topic, timeout=ANSWER_SECONDS).topics[self._topic]
            if topic.error is not None:
                raise self._unavailable(topic.error.str())
            ranges = {}
            for number in sorted(topic.partitions):
                partition = TopicPartition(self._topic, number)
                bounds = consumer.get_watermark_offsets(partition, timeout=ANSWER_SECONDS)
                if bounds is None:
                    raise self._unavailable(f"partition {number} is silent")
                ranges[number] = _Range(*bounds)
        self._ranges = ranges
        return ranges

    def _offsets(self, position: Position | None, ranges: Mapping[int, _Range]) -> dict[int, int]:
        """Next offset of each partition by a position; in a new partition, its first message."""
        start = "earliest" if position is None else position.get("from")
        if start == "earliest":
            return {number: offsets.first for number, offsets in ranges.items()}
        if start == "latest":
            return {number: offsets.end for number, offsets in ranges.items()}
        if start is not None:
            return self._at_time(start, ranges)
        known = (position or {})["partitions"]
        return {number: int(known.get(str(number), 0)) for number in ranges}

    def _require(
        self, at: Mapping[int, int], ranges: Mapping[int, _Range], position: Position | None
    ) -> None:
        """Raise `ChangesLost` unless the partitions still have the next messages."""
        for number, (first, end) in ranges.items():
            if at[number] < first:
                what = f"begins at offset {first}, as after its retention"
                raise self._lost(number, at[number], what)
            if at[number] > end:
                raise self._lost(number, at[number], f"ends at offset {end}, so it was made anew")
        for name, offset in (position or {}).get("partitions", {}).items():
            if int(name) not in ranges:
                raise self._lost(int(name), offset, "is gone, so the topic was made anew")

    def _at_time(self, moment: str, ranges: Mapping[int, _Range]) -> dict[int, int]:
        milliseconds = int(datetime.fromisoformat(moment).timestamp() * 1000)
        moments = [TopicPartition(self._topic, number, milliseconds) for number in ranges]
        with self._errors():
            offsets = self._connect().offsets_for_times(moments, timeout=ANSWER_SECONDS)
        return {
            place.partition: place.offset if place.offset >= 0 else ranges[place.partition].end
            for place in offsets
        }

    def _lost(self, number: int, offset: int, what: str) -> ChangesLost:
        return ChangesLost(
            f"offset {offset} of partition {number} of {shown_url(self._access.url)} must "
            f"be there to go on, and the partition {what}; make the graph anew from a topic "
            "that keeps the messages. Or go on with --from earliest, latest or a time, "
            "without the messages between"
        )

    def _unavailable(self, reason: str) -> TopicUnavailable:
        detail = f" ({self._cause})" if self._cause and self._cause not in reason else ""
        return TopicUnavailable(f"{shown_url(self._access.url)} cannot be read: {reason}{detail}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            if self._consumer is not None:
                self._consumer.poll(0)  # delivers connection errors, as a wrong password
            raise self._unavailable(_reason(error)) from error

    def _connect(self) -> Consumer:
        if self._consumer is None:
            self._cause = ""
            try:
                self._consumer = Consumer(_configuration(self._brokers, self._note))
            except KafkaException as error:
                raise self._unavailable(f"PEEWIT_KAFKA_…: {_reason(error)}") from error
        return self._consumer

    def _note(self, error: KafkaError) -> None:
        self._cause = error.str()


def _configuration(brokers: str, on_error: Callable[[KafkaError], None]) -> dict[str, Any]:
    settings = {name: os.environ.get(variable) for name, variable in _FROM_ENVIRONMENT.items()}
    return {
        "bootstrap.servers": brokers,
        "client.id": "peewit",
        "group.id": "peewit",  # required; nothing is stored under it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 50,  # only messages that are there are read
        "log_level": 0,  # errors are shown with the source
        "error_cb": on_error,
        **{name: value for name, value in settings.items() if value},
    }


def _reason(error: KafkaException) -> str:
    cause = error.args[0]
    return str(cause.str() if isinstance(cause, KafkaError) else cause)


def _chunk(at: Mapping[int, int], gathered: Gatherer) -> Chunk:
    table, refused = gathered.take()
    position: dict[str, Any] = _position(at)
    if gathered.kept:
        position[UNREAD] = gathered.kept
    label = f"messages-{sum(at.values())}"
    return Chunk(position=position, label=label, table=table, refused=refused)


def _position(at: Mapping[int, int]) -> dict[str, dict[str, int]]:
    return {"partitions": {str(number): offset for number, offset in sorted(at.items())}}


def _message_of(message: KafkaMessage) -> Message:
    """A message as `kafka_values` takes it."""
    kind, milliseconds = message.timestamp()
    content_type = None
    for name, value in message.headers() or ():
        if name.lower() == "content-type" and value is not None:
            content_type = value.decode(errors="replace")
    return Message(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        content_type=content_type,
        milliseconds=milliseconds if kind else None,
    )
