"""A topic that is written while its brokers and the daemon that follows it are killed in turn.

`python -m tests.end_to_end.killed_topics DIRECTORY MESSAGES KILLS SEED` does it and prints figures.
The brokers are librdkafka's mock cluster: what they hold stays while they are down.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import open_database
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.processes import Home, eventually
from tests.service.live_sources.feeding import Edges, edges_after, graph_edges
from tests.service.live_sources.tables import pairs
from tests.service.live_sources.topics import MockCluster, edge, mock_cluster

N_PARTITIONS: Final = 16
LONGEST_WAIT_SECONDS: Final = 1.0
"""From the first chunk of a daemon to a death, and of brokers from that to life, at most."""

SETTLING_SECONDS: Final = 600.0


class Followed(NamedTuple):
    """The graph in the end, what was sent, who died how often, and what the source met.

    ``n_reads`` are chunks; ``counts`` files by status; ``seconds`` from a message that is sent to
    the snapshot that has it, of some messages one after another.
    """

    graph: Edges
    topic: Edges
    n_daemons: int
    n_brokers: int
    n_reads: int
    n_refused: int
    counts: dict[str, int]
    seconds: list[float]


class _Writer:
    """Sends random changes; those of one pair go to one partition, so that their order counts."""

    def __init__(self, cluster: MockCluster, topic: str, chance: random.Random, n_nodes: int):
        self._cluster, self._topic, self._chance = cluster, topic, chance
        self._pairs = pairs(n_nodes)
        self._sent: list[tuple[str, str, float, str]] = []

    @property
    def edges(self) -> Edges:
        """What the changes so far come to."""
        return edges_after(self._sent)

    def send(self, n_messages: int) -> None:
        waiting: dict[int, list[dict[str, str]]] = {}
        for _ in range(n_messages):
            place = self._chance.randrange(len(self._pairs))
            op = self._chance.choice(("set", "set", "delete"))
            weight = self._chance.randrange(1, 100) / 4  # exact in 32 bits
            u, v = self._pairs[place]
            self._sent.append((u, v, weight, op))
            waiting.setdefault(place % N_PARTITIONS, []).append(edge(u, v, weight, op=op))
        for partition, values in waiting.items():
            self._cluster.send(self._topic, values, partition=partition)


class _Followers:
    """The daemon, living or dead, and what it has read."""

    def __init__(self, home: Home, manifest: Manifest, source: SourceRecord) -> None:
        self._home, self._manifest, self._source = home, manifest, source
        self._daemon: subprocess.Popen[str] | None = None

    @property
    def n_reads(self) -> int:
        return self._manifest.live.place(self._source.id).n_reads

    def live(self) -> None:
        if self._daemon is None:
            self._daemon = self._home.start("ingest", "--follow", stderr=subprocess.DEVNULL)

    def die(self, how: signal.Signals) -> int:
        assert self._daemon is not None
        self._daemon.send_signal(how)
        code = self._daemon.wait()
        self._daemon = None
        return code

    def wait_for(self, n_reads: int) -> None:
        eventually(lambda: self.n_reads > n_reads, seconds=SETTLING_SECONDS)


def follow(home: Home, *, n_messages: int, n_kills: int, seed: int) -> Followed:
    """Write a topic in pieces, and kill the daemon that follows it or its brokers at each."""
    chance = random.Random(seed)
    home.run("graph", "create", "g", "--deletions", "exact", "--parallel", "replace", "--seed", 1)
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph = Catalog(database).get("g")
    manifest = Manifest(database)
    n_brokers = 0
    with mock_cluster() as cluster:
        url = cluster.create("changes", N_PARTITIONS)
        home.run("source", "add", "g", url, "--kind", "kafka", "--follow")
        (source,) = manifest.sources.list(graph.id)
        followers = _Followers(home, manifest, source)
        writer = _Writer(cluster, "changes", chance, n_nodes=300)
        for number in range(n_kills):
            before = followers.n_reads
            writer.send(n_messages // n_kills)
            followers.live()
            followers.wait_for(before)
            time.sleep(chance.uniform(0, LONGEST_WAIT_SECONDS))
            if number % 2:
                cluster.set_down(down=True)
                time.sleep(chance.uniform(0, LONGEST_WAIT_SECONDS))
                cluster.set_down(down=False)
                n_brokers += 1
            else:
                followers.die(signal.SIGKILL)
        followers.live()

        def is_settled() -> bool:
            position = manifest.live.place(source.id).position or {"partitions": {}}
            has_all = sum(position["partitions"].values()) == n_messages // n_kills * n_kills
            return has_all and not manifest.work(graph.id)

        eventually(is_settled, seconds=SETTLING_SECONDS)
        reached = graph_edges(settings, graph)
        topic = writer.edges
        seconds = [_seconds_to_snapshot(writer, settings, graph) for _ in range(5)]
        assert followers.die(signal.SIGTERM) == 0
    (source,) = manifest.sources.list(graph.id)
    followed = Followed(
        graph=reached,
        topic=topic,
        n_daemons=n_kills - n_brokers,
        n_brokers=n_brokers,
        n_reads=followers.n_reads,
        n_refused=source.n_refused,
        counts={name: n for name, n in manifest.counts(graph.id).items() if n},
        seconds=seconds,
    )
    database.close()
    return followed


def _seconds_to_snapshot(writer: _Writer, settings: Settings, graph: GraphRecord) -> float:
    snapshots = SnapshotStore(GraphPaths(root=settings.graphs_directory / graph.id).snapshots)
    before = snapshots.numbers()[-1]
    began = time.monotonic()
    writer.send(1)
    eventually(lambda: snapshots.numbers()[-1] > before)
    return time.monotonic() - began


def main() -> None:
    """Follow a topic and print what came of it."""
    home = Home(Path(sys.argv[1]).absolute() / "home", PEEWIT_LIST_SECONDS="0.2")
    n_messages, n_kills, seed = (int(each) for each in sys.argv[2:])
    try:
        followed = follow(home, n_messages=n_messages, n_kills=n_kills, seed=seed)
    finally:
        home.end()
    figures = followed._asdict() | {
        "graph": len(followed.graph),
        "topic": len(followed.topic),
        "are_equal": followed.graph == followed.topic,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
