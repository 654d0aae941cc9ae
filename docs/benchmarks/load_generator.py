"""Requests over kept connections, each sent when the last one of its connection is answered.

Prints JSON: answers per second, percentiles of the seconds from the first byte of a request to the
last one of its answer, and how many answers were not 200. A protocol of its own on uvloop, since a
client library would take more of the processor than the server; it runs apart from the server, and
what it takes itself is in the figures.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import cast

import numpy as np
import uvloop

from peewit.solvers.arrays import AnyArray

BATCH = 1000


def requests(kind: str, graph: str, nodes: AnyArray, seed: int) -> Iterator[bytes]:
    """Requests without end, about nodes drawn at random."""
    rng = np.random.default_rng(seed)
    path = f"/v1/graphs/{graph}"
    while True:
        for drawn in rng.choice(nodes, (64, BATCH if kind == "batch" else 1)).tolist():
            match kind:
                case "single":
                    yield _request("GET", f"{path}/predictions/node?id={drawn[0]}")
                case "batch":
                    yield _request("POST", f"{path}/predictions:lookup", {"nodes": drawn})
                case _:
                    labels = [{"node": drawn[0], "label": f"class-{rng.integers(10)}"}]
                    yield _request("PUT", f"{path}/labels", {"labels": labels})


def _request(method: str, path: str, body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}Content-Length: {len(content)}"
    return head.encode() + b"\r\n\r\n" + content


class Connection(asyncio.Protocol):
    """Sends one request after the other until the time is over."""

    def __init__(self, requests: Iterator[bytes], until: float) -> None:
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._until = until
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        self._send()

    def data_received(self, data: bytes) -> None:
        """Note an answer once it is whole, and send the next request."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        start = head.index(b"content-length:") + len(b"content-length:")
        length = int(head[start:].split(b"\r\n", 1)[0])
        if len(self._received) < end + 4 + length:
            return
        self.seconds.append(perf_counter() - self._sent_at)
        self.statuses[int(head[9:12])] += 1
        self._received.clear()
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _send(self) -> None:
        self._sent_at = perf_counter()
        if self._sent_at > self._until:
            self._transport.close()
        else:
            self._transport.write(next(self._requests))


async def measure(
    port: int, each: list[Iterator[bytes]], seconds: float
) -> dict[str, float | dict[str, int]]:
    """Figures of one run."""
    loop = asyncio.get_running_loop()
    began = perf_counter()
    connections = [
        (
            await loop.create_connection(
                lambda requests=requests: Connection(requests, began + seconds), "127.0.0.1", port
            )
        )[1]
        for requests in each
    ]
    await asyncio.gather(*(connection.ended for connection in connections))
    took = np.array([value for connection in connections for value in connection.seconds])
    statuses: Counter[int] = Counter()
    for connection in connections:
        statuses += connection.statuses
    p50, p99 = np.percentile(took, [50, 99])
    return {
        "per_second": len(took) / (perf_counter() - began),
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "longest_ms": 1e3 * took.max(),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("port", int), ("nodes", str), ("kind", str)):
        parser.add_argument(name, type=kind)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--graph", default="g")
    asked = parser.parse_args()
    nodes = np.load(asked.nodes)
    each = [requests(asked.kind, asked.graph, nodes, number) for number in range(asked.connections)]
    print(json.dumps(uvloop.run(measure(asked.port, each, asked.seconds))))  # noqa: T201


if __name__ == "__main__":
    main()
