"""How much memory does a node take, in an ingest and in a first solve by commands?

Run ``python -m docs.benchmarks.memory [--family communities] [--nodes 1_000_000]``. A Parquet file
of a family of graphs, ids and weights as strangers have them, is brought in by ``peewit ingest``
and solved by ``peewit solve`` in a home of its own. Memory is what all processes of a command have
beside files (``RssAnon``), which the system cannot take back, every tenth of a second.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.edge_families import FAMILIES
from docs.benchmarks.from_file import write

_PAUSE = 0.1
_LABELS = 2_000


def held(process: psutil.Process) -> int:
    """Bytes of a process and its children that no file stands for."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        status = Path(f"/proc/{each.pid}/status")
        lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
    return total


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
    """Print CPU seconds, GiB and bytes a node of an ingest, a solve and one with a label more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=FAMILIES, default="communities")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--directory", type=Path, help="on a disk with room; a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as temporary:
        home, files = Path(temporary) / "home", Path(temporary) / "files"
        files.mkdir()
        table = Table(title=write(options.family, files, options.nodes, _LABELS))
        for name in ("", "CPU s", "GiB", "bytes a node"):
            table.add_column(name, justify="left" if not name else "right")
        edges, labels = files / "edges.parquet", files / "labels.parquet"
        kind = "string" if pq.read_schema(edges).field("src").type == "string" else "int64"
        measured("graph", "create", "g", "--node-ids", kind, home=home)
        for words in (
            ("ingest", "g", str(edges)),
            ("labels", "put", "g", str(labels), "--node", "id", "--label", "class"),
            ("solve", "g", "--model", options.model),
        ):
            seconds, most = measured(*words, home=home)
            told = f"{seconds:.1f}", f"{most / 2**30:.2f}", f"{most / options.nodes:,.0f}"
            table.add_row(f"peewit {words[0]}", *told)
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
