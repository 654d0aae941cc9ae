"""A Delta table that another process changes while the daemon that follows it is killed.

`python -m tests.end_to_end.killed_followers DIRECTORY KILLS SEED` does it and prints figures;
with `change URL SEED` it is that other process, and changes the table until its stdin ends.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from deltalake import DeltaTable

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.inbox.live_positions import Place
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from tests.end_to_end.processes import REPOSITORY, Home, eventually
from tests.service.live_sources.feeding import Edges, graph_edges
from tests.service.live_sources.tables import change, make_table, pairs, table_edges

N_NODES = 40
PAUSE_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 1.5
"""From the first chunk that a daemon reads to its death, at most."""


class Followed(NamedTuple):
    """The graph and the table in the end, how often the daemon died, and what it met.

    ``n_reads`` are chunks and versions without rows; ``counts`` files by status.
    """

    graph: Edges
    table: Edges
    n_kills: int
    n_versions: int
    n_reads: int
    counts: dict[str, int]


def change_until_told(url: str, seed: int) -> None:
    """Change the table again and again, until stdin ends."""
    rng = np.random.default_rng(seed)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    stop = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)  # ends with our stdin
    while stop.poll() is None:
        change(url, rng, N_NODES)
        time.sleep(PAUSE_SECONDS)


def follow(home: Home, directory: Path, *, n_kills: int, seed: int) -> Followed:
    """Follow a table that changes, and kill the daemon so often at random moments."""
    chance = random.Random(seed)
    weights = [(*pair, 1.0) for pair in pairs(N_NODES)[::2]]
    url = make_table(directory / "table", weights)
    home.run("graph", "create", "g", "--deletions", "exact", "--parallel", "replace", "--seed", 1)
    home.run("source", "add", "g", url, "--kind", "delta", "--follow")
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph = Catalog(database).get("g")
    manifest = Manifest(database)
    (source,) = manifest.sources.list(graph.id)

    def place() -> Place:
        return manifest.live.place(source.id)

    command = [sys.executable, "-m", "tests.end_to_end.killed_followers", "change", url, str(seed)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            for _ in range(n_kills):
                before = place().n_reads
                daemon = home.start("ingest", "--follow", stderr=subprocess.DEVNULL)
                eventually(lambda: place().n_reads > before)  # noqa: B023 - waited for here
                time.sleep(chance.uniform(0, LONGEST_WAIT_SECONDS))
                daemon.send_signal(signal.SIGKILL)
                daemon.wait()
        finally:
            writer.stdin.close()
        writer.wait()
    newest = DeltaTable(url).version()
    daemon = home.start("ingest", "--follow", stderr=subprocess.DEVNULL)
    eventually(
        lambda: (place().position or {}).get("version") == newest and not manifest.work(graph.id),
        seconds=300,
    )
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0
    reached = Followed(
        graph=graph_edges(settings, graph),
        table=table_edges(url),
        n_kills=n_kills,
        n_versions=newest,
        n_reads=place().n_reads,
        counts={name: n for name, n in manifest.counts(graph.id).items() if n},
    )
    database.close()
    return reached


def main() -> None:
    """Change a table, or follow one and print what came of it."""
    if sys.argv[1] == "change":
        change_until_told(sys.argv[2], int(sys.argv[3]))
        return
    directory = Path(sys.argv[1]).absolute()
    home = Home(directory / "home", PEEWIT_LIST_SECONDS="0.2")
    try:
        followed = follow(home, directory, n_kills=int(sys.argv[2]), seed=int(sys.argv[3]))
    finally:
        home.end()
    figures = followed._asdict() | {
        "graph": len(followed.graph),
        "table": len(followed.table),
        "are_equal": followed.graph == followed.table,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
