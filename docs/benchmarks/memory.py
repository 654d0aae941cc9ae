"""How much memory does a node take, in an ingest and in a first solve by commands?

A Parquet file of a family of graphs, ids and weights as strangers have them, is brought in by
``peewit ingest`` and solved by ``peewit solve`` in a home of its own. Memory is what all processes
of a command have beside files (``RssAnon``), which the system cannot take back, every .1 seconds.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from docs.benchmarks.edge_families import FAMILIES
from docs.benchmarks.frame import options, show
from docs.benchmarks.from_file import write
from docs.benchmarks.peak_memory import anonymous_bytes

_PAUSE = 0.1
_LABELS = 2_000


def held(process: psutil.Process) -> int:
    """Bytes of a process and its children that no file stands for."""
    every = [process, *process.children(recursive=True)]
    return sum(anonymous_bytes(each.pid) for each in every)


def measured(*words: str, home: Path) -> tuple[float, int]:
    """CPU seconds of a command, and the most that it held."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PEEWIT_HOME": str(home)}
    running = subprocess.Popen(
        [sys.executable, "-m", "peewit", *words], env=environment, stdout=subprocess.DEVNULL
    )
    process, most = psutil.Process(running.pid), 0
    while running.poll() is None:
        try:
            most = max(most, held(process))
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue  # one ended in between
        time.sleep(_PAUSE)
    if running.returncode:
        raise SystemExit(f"peewit {' '.join(words)} exited with {running.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most


def main() -> None:
    asked = options(
        __doc__,
        family=("communities", FAMILIES),
        nodes=1_000_000,
        model="auto",
        directory=(Path, "on a disk with room; a temporary one"),
    )
    with tempfile.TemporaryDirectory(dir=asked.directory) as temporary:
        home, files = Path(temporary) / "home", Path(temporary) / "files"
        files.mkdir()
        title = write(asked.family, files, asked.nodes, _LABELS)
        edges, labels = files / "edges.parquet", files / "labels.parquet"
        kind = "string" if pq.read_schema(edges).field("src").type == "string" else "int64"
        measured("graph", "create", "g", "--node-ids", kind, home=home)
        rows = []
        for words in (
            ("ingest", "g", str(edges)),
            ("labels", "put", "g", str(labels), "--node", "id", "--label", "class"),
            ("solve", "g", "--model", asked.model),
        ):
            seconds, most = measured(*words, home=home)
            rows.append((f"peewit {words[0]}", seconds, most / 2**30, most / asked.nodes))
    show(title, "|CPU s {:.1f}|GiB {:.2f}|bytes a node {:,.0f}", rows)


if __name__ == "__main__":
    main()
    main()
