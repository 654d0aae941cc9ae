"""What small things cost: five commands on a thousand nodes, and imports, beside other programs.

CPU seconds, user and system and those of children, the median of so many draws that take turns.
The five commands are README's: create a graph, ingest 5,000 edges of CSV, put ten labels, solve,
write the predictions. Beside them: datasette's command line on a SQLite file of the same edges, and
scikit-network and networkit, imported and spreading the same ten labels or finding communities of
the same edges. ``--peers`` is a Python that has these three, this one by default; one that is
missing is left out. ``--beside`` is a Python with another version of this package, which takes
turns with this one. Kernels are compiled before.
"""

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from docs.benchmarks.frame import CONSOLE, options

N_NODES: Final = 1_000
N_CLASSES: Final = 5
EDGES_OF_A_NODE: Final = 5
NEAR: Final = 0.9
N_LABELS: Final = 10

NAMES: Final = ("Auto", "sparsify", "Client")
IMPORTS: Final = ("sknetwork", "networkit")

DIFFUSION: Final = """
import sys
from sknetwork.classification import DiffusionClassifier
from sknetwork.data import from_csv
graph = from_csv(sys.argv[1], delimiter=",")
place = {name: row for row, name in enumerate(graph.names)}
labels = {}
for line in open(sys.argv[2]).readlines()[1:]:
    name, label = line.split(",")
    labels[place[name]] = int(label)
DiffusionClassifier().fit_predict(graph.adjacency, labels)
"""

COMMUNITIES: Final = """
import sys
import networkit
reader = networkit.graphio.EdgeListReader(",", 0, continuous=False)
networkit.community.PLM(reader.read(sys.argv[1])).run()
"""

Commands = Mapping[str, list[str]]


def write_files(directory: Path) -> dict[str, Path]:
    """Edges with a header and without, in SQLite, and labels."""
    rng = np.random.default_rng(0)
    u = np.repeat(np.arange(N_NODES), EDGES_OF_A_NODE)
    near = rng.integers(0, N_NODES // N_CLASSES, u.size) * N_CLASSES + u % N_CLASSES
    v = np.where(rng.random(u.size) < NEAR, near, rng.integers(0, N_NODES, u.size))
    rows = [f"node-{a},node-{b}\n" for a, b in zip(u, v, strict=True) if a != b]
    files = {name: directory / name for name in ("edges.csv", "bare.csv", "labels.csv", "edges.db")}
    files["edges.csv"].write_text("src,dst\n" + "".join(rows))
    files["bare.csv"].write_text("".join(rows))
    labels = (f"node-{node},{node % N_CLASSES}\n" for node in range(N_LABELS))
    files["labels.csv"].write_text("node,label\n" + "".join(labels))
    connection = sqlite3.connect(files["edges.db"])
    connection.execute("CREATE TABLE edges (src TEXT, dst TEXT)")
    connection.executemany(
        "INSERT INTO edges VALUES (?, ?)", (row.strip().split(",") for row in rows)
    )
    connection.commit()
    connection.close()
    return files


def cpu_seconds(command: list[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=dict(environment), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def five_commands(python: str, files: Mapping[str, Path], home: Path) -> Commands:
    run = [python, "-m", "peewit"]
    out = str(home / "predictions.csv")
    return {
        "graph create": [*run, "graph", "create", "mine"],
        "ingest": [*run, "ingest", "mine", str(files["edges.csv"])],
        "labels put": [*run, "labels", "put", "mine", str(files["labels.csv"])],
        "solve": [*run, "solve", "mine"],
        "predictions": [*run, "predictions", "mine", "-o", out],
    }


def own_draw(python: str, files: Mapping[str, Path]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        environment = {**os.environ, "PEEWIT_HOME": str(home / "home")}
        found = {
            each: cpu_seconds(command, environment)
            for each, command in five_commands(python, files, home).items()
        }
        found["all five"] = sum(found.values())
        for each in NAMES:
            command = [python, "-c", f"from peewit import {each}"]
            found[f"from peewit import {each}"] = cpu_seconds(command, environment)
    return found


def peer_commands(python: str, files: Mapping[str, Path]) -> Commands:
    """By name, of the peers that are there."""
    bare = str(files["bare.csv"])
    database, labels = str(files["edges.db"]), str(files["labels.csv"])
    datasette = [python, "-m", "datasette"]
    commands = {
        "datasette --help": [*datasette, "--help"],
        "datasette inspect": [*datasette, "inspect", database],
        "datasette --get /edges/edges.json": [*datasette, database, "--get", "/edges/edges.json"],
        **{f"import {each}": [python, "-c", f"import {each}"] for each in IMPORTS},
        "scikit-network, diffusion": [python, "-c", DIFFUSION, bare, labels],
        "networkit, communities": [python, "-c", COMMUNITIES, bare],
    }
    there = {
        each
        for each in ("datasette", *IMPORTS)
        if subprocess.run(
            [python, "-c", f"import {each}"], capture_output=True, check=False
        ).returncode
        == 0
    }
    package = {"scikit-network,": "sknetwork", "networkit,": "networkit", "datasette": "datasette"}
    return {
        name: command
        for name, command in commands.items()
        if package.get(name.split()[0], name.split()[-1]) in there
    }


def medians(draw: Callable[[], Mapping[str, float]], n_draws: int) -> dict[str, float]:
    draws = [draw() for _ in range(n_draws)]
    return {name: median(each[name] for each in draws) for name in draws[0]}


def main() -> None:
    beside = str, "a Python with another version of this package"
    asked = options(__doc__, draws=5, peers=sys.executable, beside=beside)
    with tempfile.TemporaryDirectory() as directory:
        files = write_files(Path(directory))
        own_draw(sys.executable, files)  # compiles
        if asked.beside:
            own_draw(asked.beside, files)

        def draw() -> dict[str, float]:
            found = own_draw(sys.executable, files)
            if asked.beside:
                beside = own_draw(asked.beside, files)
                found |= {f"{name}, beside": seconds for name, seconds in beside.items()}
            return found

        own = medians(draw, asked.draws)
        for name, seconds in own.items():
            if not name.endswith(", beside"):
                other = own.get(f"{name}, beside")
                ratio = "" if other is None else f"{other:8.2f}  ratio {seconds / other:.2f}"
                CONSOLE.print(f"{name:36} {seconds:6.2f}{ratio}")
        peers = peer_commands(asked.peers, files)
        found = medians(
            lambda: {name: cpu_seconds(each, os.environ) for name, each in peers.items()},
            asked.draws,
        )
        for name, seconds in found.items():
            CONSOLE.print(f"{name:36} {seconds:6.2f}")


if __name__ == "__main__":
    main()
