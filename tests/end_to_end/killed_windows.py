"""Files that come while the daemon that follows them is killed, into a graph with windows.

`python -m tests.end_to_end.killed_windows DIRECTORY FILES KILLS SEED` does it and prints figures.
"""

import csv
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.inbox.leaving.wishes import Wishes
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from tests.end_to_end.processes import Home, eventually

N_NODES: Final = 60
ROWS: Final = 200
"""Of a file."""

LENGTH: Final = 10
"""Seconds; files are one apart, and rows come up to twelve late."""

RELATIONS: Final = ("login", "message", "card")
"""Logins live that long, messages half as long, and cards for ever."""

BEGIN: Final = 1_700_000_000
LONGEST_WAIT_SECONDS: Final = 1.5
SETTLING_SECONDS: Final = 300.0

Edge = tuple[str, str, str]
"""Relation and ends."""

Row = tuple[str, str, int, str]
"""Ends, second and relation."""


class Kept(NamedTuple):
    """Edges of the graph in the end and those that should be, and what the graph says of itself."""

    graph: Counter[Edge]
    expected: Counter[Edge]
    since: dict[str, float]
    window: dict[str, Any]
    n_edges: int
    n_kills: int
    n_by_hand: int


def write(path: Path, number: int, chance: random.Random) -> list[Row]:
    """A file, published whole; its rows."""
    rows: list[Row] = []
    for _ in range(ROWS):
        late = chance.randrange(LENGTH + 3) if chance.random() < 0.2 else chance.randrange(2)
        u, v = chance.sample(range(N_NODES), 2)
        rows.append((f"n{u}", f"n{v}", BEGIN + number - late, chance.choice(RELATIONS)))
    rows[0] = (*rows[0][:2], BEGIN + number, rows[0][3])
    hidden = path.with_suffix(".part")
    with hidden.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("src", "dst", "time", "kind"))
        writer.writerows(rows)
    hidden.rename(path)
    return rows


def follow(home: Home, *, n_files: int, n_kills: int, seed: int) -> Kept:
    """Have files come one by one, the daemon die now and then, and edges expire by hand."""
    chance = random.Random(seed)
    inbox = home.directory.parent / "inbox"
    inbox.mkdir()
    options = ("--epsilon", 0.05, "--seed", 1)  # keeps every edge
    lasting = ("--window", f"{LENGTH}s", "--buckets", LENGTH, "--time-unit", "s")
    own = ("--relation-windows", f"message={LENGTH / 2}s,card=none")
    home.run("graph", "create", "g", *options, *lasting, *own)
    home.run("source", "add", "g", inbox / "*.csv", "--follow", "--relation-column", "kind")
    database = open_database(Settings(home=home.directory).database)
    graph, manifest = Catalog(database).get("g"), Manifest(database)
    wishes = Wishes(database)
    rows: list[Row] = []
    n_by_hand = 0
    deaths = set(chance.sample(range(n_files), n_kills))
    daemon = _start(home)
    for number in range(n_files):
        rows += write(inbox / f"{number:05d}.csv", number, chance)
        time.sleep(chance.uniform(0.0, LONGEST_WAIT_SECONDS if number in deaths else 0.05))
        if number in deaths:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            daemon = _start(home)
            if n_by_hand < (n_kills + 1) // 3:
                latest = BEGIN + number
                wishes.want_horizon(graph.id, latest - LENGTH / 2, latest=latest)
                n_by_hand += 1

    def is_settled() -> bool:
        n_committed = manifest.counts(graph.id)["committed"]
        return n_committed == n_files and wishes.of(graph.id).horizon_wanted is None

    eventually(is_settled, seconds=SETTLING_SECONDS)
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0
    database.close()
    window = home.json("graph", "show", "g")["window"]
    since = {
        each["name"]: -1.0
        if each["horizon"] is None
        else datetime.fromisoformat(each["horizon"]).timestamp()
        for each in home.json("graph", "relations", "g")["relations"]
    }
    table = home.directory.parent / "left.csv"
    home.run("graph", "export", "g", "-o", table)
    with table.open(encoding="utf-8", newline="") as lines:
        found = {
            _edge(each["src"], each["dst"], each["relation"]): float(each["weight"])
            for each in csv.DictReader(lines)
        }
    return Kept(
        graph=Counter({edge: round(weight) for edge, weight in found.items()}),
        expected=Counter(_edge(src, dst, of) for src, dst, at, of in rows if at >= since[of]),
        since=since,
        window=window,
        n_edges=len(rows),
        n_kills=n_kills,
        n_by_hand=n_by_hand,
    )


def _start(home: Home) -> subprocess.Popen[str]:
    return home.start("ingest", "--follow", stderr=subprocess.DEVNULL)


def _edge(u: str, v: str, relation: str) -> Edge:
    return (relation, *sorted((u, v)))


def main() -> None:
    """Follow files and print what came of it."""
    home = Home(Path(sys.argv[1]).absolute() / "home", PEEWIT_LIST_SECONDS="0.2")
    n_files, n_kills, seed = (int(each) for each in sys.argv[2:])
    try:
        kept = follow(home, n_files=n_files, n_kills=n_kills, seed=seed)
    finally:
        home.end()
    figures = kept._asdict() | {
        "graph": kept.graph.total(),
        "expected": kept.expected.total(),
        "are_equal": kept.graph == kept.expected,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
