"""How fast small pushes are taken in, and how long until their edges are in the graph.

Real `peewit api` and `peewit ingest --follow` processes on a fresh home, SQLite, every push
durable before its answer. Beside it stands what the disk allows: as many appends of the same bytes
to one file, each flushed, by one thread.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pyarrow as pa

from docs.benchmarks.frame import options
from docs.benchmarks.load import cpu_seconds
from peewit.streaming.edges.table_formats import Format
from tests.end_to_end.processes import Home, Server

N_NODES = 20_000
LIMIT_SECONDS = 900.0


def body(seed: int, n_edges: int) -> bytes:
    """Random edges with integer ids as an Arrow stream."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(N_NODES, size=(2, n_edges))
    table = pa.table({"src": u, "dst": v, "weight": np.ones(n_edges, np.float32)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def push_all(port: int, bodies: Sequence[bytes]) -> int:
    """Push one after the other over one connection; how many had to be sent again."""
    n_refused = 0
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": Format.ARROW.media_type}
    for content in bodies:
        while True:
            connection.request("POST", "/v1/graphs/g/edges", content, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 202:
                break
            if answer.status != 429:
                raise RuntimeError(f"push refused with {answer.status}: {text!r}")
            n_refused += 1
            time.sleep(float(answer.headers["Retry-After"]))
    connection.close()
    return n_refused


def flushed_appends_per_second(directory: Path, content: bytes, n_times: int) -> float:
    """Appends of these bytes to one file, each flushed to the disk."""
    started = time.perf_counter()
    with (directory / "appends").open("wb") as file:
        for _ in range(n_times):
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    return n_times / (time.perf_counter() - started)


def measure(n_pushes: int, n_edges: int, n_clients: int) -> None:
    bodies = [body(seed, n_edges) for seed in range(n_pushes)]
    with tempfile.TemporaryDirectory(prefix="peewit-pushes-") as name:
        home = Home(Path(name) / "home", PEEWIT_LOG_LEVEL="warning")
        appends = flushed_appends_per_second(Path(name), bodies[0], min(n_pushes, 1000))
        try:
            home.run("warm")
            home.run("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", N_NODES)
            server = Server(home, "api")
            ingest = home.start("ingest", "--follow")
            started = time.perf_counter()
            with ThreadPoolExecutor(n_clients) as clients:
                shares = [bodies[number::n_clients] for number in range(n_clients)]
                n_refused = sum(clients.map(lambda share: push_all(server.port, share), shares))
            taken = time.perf_counter() - started
            while server.client.graph("g").edges_seen < n_pushes * n_edges:
                if time.perf_counter() - started > LIMIT_SECONDS:
                    raise RuntimeError(f"not committed within {LIMIT_SECONDS:g} s")
                time.sleep(0.05)
            committed = time.perf_counter() - started
            files = server.client.graph("g").files
            figures = {
                "pushes": n_pushes,
                "edges in each": n_edges,
                "clients": n_clients,
                "pushes/s": n_pushes / taken,
                "flushed appends/s": appends,
                "ratio": n_pushes / taken / appends,
                "sent again after 429": n_refused,
                "s until all are taken": taken,
                "s until all are committed": committed,
                "CPU s of api": cpu_seconds(server.process.pid),
                "CPU s of ingest": cpu_seconds(ingest.pid),
                "files of the manifest": sum(files.values()),
            }
        finally:
            home.end()
    for label, value in figures.items():
        print(f"{label:28}{value:>14,.6g}")  # noqa: T201 - the answer


def main() -> None:
    asked = options(__doc__, quick={"pushes": 300}, pushes=10_000, edges=100, clients=8)
    measure(asked.pushes, asked.edges, asked.clients)


if __name__ == "__main__":
    main()
