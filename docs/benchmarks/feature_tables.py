"""What does a table of mixed columns cost on its way to features, beside skrub and pandas?

A Parquet table of accounts, a million rows of sixty columns: numbers of several scales, a tenth of
them missing, words of few and of many kinds, truth values and times. `peewit features` encodes and
keeps them; ``TableVectorizer`` of skrub makes an array of them that pandas has read. Each runs in a
process of its own; printed are processor seconds, the most memory, and features.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.frame import installed, options, show

_ROWS_AT_ONCE: Final = 1 << 16
_SKRUB: Final = """
import sys, pandas as pd
from skrub import TableVectorizer
rows = TableVectorizer().fit_transform(pd.read_parquet(sys.argv[1]).drop(columns="node"))
print(rows.shape[1])
"""


def write(path: Path, n_rows: int, n_columns: int) -> None:
    """Half of the columns are numbers, a fifth few words, a tenth each many words, truth, times."""
    rng = np.random.default_rng(0)
    kinds = [place % 10 for place in range(n_columns)]
    writer = None
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        n_here = min(_ROWS_AT_ONCE, n_rows - first)
        columns = {"node": pa.array(np.arange(first, first + n_here))}
        for place, kind in enumerate(kinds):
            is_missing = rng.random(n_here) < 0.1
            columns[f"c{place}"] = _column(kind, place, n_here, is_missing, rng)
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _column(
    kind: int, place: int, n_rows: int, is_missing: np.ndarray, rng: np.random.Generator
) -> pa.Array:
    if kind < 5:
        return pa.array(rng.lognormal(place % 7, 1.0, n_rows), mask=is_missing)
    if kind < 7:
        words = np.array([f"word {number}" for number in range(12)])
        return pa.array(words[rng.integers(0, 12, n_rows)], mask=is_missing)
    if kind == 7:
        return pa.array([f"name {number}" for number in rng.integers(0, 5_000, n_rows)])
    if kind == 8:
        return pa.array(rng.random(n_rows) < 0.3, mask=is_missing)
    seconds = 1_600_000_000 + rng.integers(0, 10**8, n_rows)
    return pa.array(seconds.astype("datetime64[s]"), mask=is_missing)


def run(command: list[str], **environment: str) -> tuple[float, float, str]:
    """CPU seconds, the most MiB, and the output of a command."""
    with tempfile.TemporaryFile("w+") as told:
        started = subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdout=told,
            stderr=told,
        )
        _, status, spent = os.wait4(started.pid, 0)
        told.seek(0)
        text = told.read()
    if status:
        raise RuntimeError(text)
    return spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024, text


def main() -> None:
    asked = options(__doc__, quick={"rows": 5_000, "columns": 20}, rows=1_000_000, columns=60)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "accounts.parquet"
        write(path, asked.rows, asked.columns)
        home = {"PEEWIT_HOME": str(Path(temporary) / "home")}
        peewit = [sys.executable, "-m", "peewit"]
        run([*peewit, "graph", "create", "g", "--node-ids", "int64"], **home)
        seconds, mib, told = run([*peewit, "features", "g", str(path)], **home)
        n_features = next(word for word in told.split("became ")[1].split())
        rows.append(["peewit features", seconds, mib, n_features])
        if installed("skrub"):
            seconds, mib, told = run([sys.executable, "-c", _SKRUB, str(path)])
            rows.append(["skrub and pandas", seconds, mib, told.split()[0]])
    title = f"{asked.rows:,} rows of {asked.columns} columns"
    show(title, "way|CPU s {:.1f}|most MiB {:,.0f}|features", rows)


if __name__ == "__main__":
    main()
