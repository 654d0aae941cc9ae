"""What does a table of events cost on its way to a graph, beside polars making its list of edges?

Parquet files of events, each with an account, a device, an address and a card, ids as text, a tenth
of the cells empty. `peewit ingest --entity --via` makes a graph of three relations of them: a
numbered node for each id, the edges within a budget. polars writes the same edges, each pair once
with its number of events, names as they are: what comes before such a graph. Each runs in a process
of its own on one thread.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from docs.benchmarks.feature_tables import run
from docs.benchmarks.frame import installed, options, show

_COLUMNS: Final = {"device": 1.0, "address": 0.4, "card": 0.7}
"""Distinct ids of each, for an account."""

_EVENTS_OF_AN_ACCOUNT: Final = 10
_ROWS_OF_A_FILE: Final = 5_000_000
_ROWS_AT_ONCE: Final = 1 << 19
_POLARS: Final = """
import sys, polars as pl
events = pl.scan_parquet(sys.argv[1] + "/*.parquet")
for name in ("device", "address", "card"):
    pairs = events.select("account", name).drop_nulls().group_by("account", name).len()
    pairs.sink_parquet(sys.argv[2] + f"/{name}.parquet")
"""


def write(directory: Path, n_rows: int) -> None:
    """Accounts of very different activity, each mostly with things of its own."""
    rng = np.random.default_rng(0)
    n_accounts = max(n_rows // _EVENTS_OF_AN_ACCOUNT, 1)
    schema = pa.schema([(name, pa.string()) for name in ("account", *_COLUMNS)])
    for first_of_file in range(0, n_rows, _ROWS_OF_A_FILE):
        n_of_file = min(_ROWS_OF_A_FILE, n_rows - first_of_file)
        path = directory / f"{first_of_file:012}.parquet"
        with pq.ParquetWriter(path, schema) as writer:
            for first in range(0, n_of_file, _ROWS_AT_ONCE):
                n_here = min(_ROWS_AT_ONCE, n_of_file - first)
                writer.write_table(_events(n_here, n_accounts, rng).cast(schema))


def _events(n_rows: int, n_accounts: int, rng: np.random.Generator) -> pa.Table:
    account = (n_accounts * rng.random(n_rows) ** 2).astype(np.int64)
    columns = {"account": _names("account", account)}
    for name, share in _COLUMNS.items():
        own = ((2 * account + rng.integers(0, 2, n_rows)) * share / 2).astype(np.int64)
        others = rng.integers(0, max(int(n_accounts * share), 1), n_rows)
        things = np.where(rng.random(n_rows) < 0.05, others, own)
        is_empty = rng.random(n_rows) < 0.1
        columns[name] = pc.if_else(pa.array(is_empty), None, _names(name, things))
    return pa.table(columns)


def _names(kind: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(kind, pc.cast(pa.array(numbers), pa.string()), "-")


def main() -> None:
    asked = options(
        __doc__,
        quick={"rows": 200_000},
        rows=50_000_000,
        max_edges=(int, "most edges that are kept; by default what the memory affords"),
    )
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        events, out = Path(temporary) / "events", Path(temporary) / "out"
        events.mkdir()
        out.mkdir()
        write(events, asked.rows)
        environment = {"PEEWIT_HOME": str(Path(temporary) / "home"), "PEEWIT_THREADS": "1"}
        peewit = [sys.executable, "-m", "peewit"]
        run([*peewit, "warm"])
        budget = ["--max-edges", str(asked.max_edges)] if asked.max_edges else []
        run([*peewit, "graph", "create", "g", *budget], **environment)
        ends = ["--entity", "account:account", "--via", "device:device,address:address,card:card"]
        seconds, mib, _ = run([*peewit, "ingest", "g", str(events), *ends], **environment)
        rows.append(["peewit ingest", seconds, asked.rows / seconds, mib])
        if installed("polars"):
            threads = {"POLARS_MAX_THREADS": "1"}
            command = [sys.executable, "-c", _POLARS, str(events), str(out)]
            seconds, mib, _ = run(command, **threads)
            rows.append(["polars, the list of edges", seconds, asked.rows / seconds, mib])
    title = f"{asked.rows:,} events with three columns"
    show(title, "way|CPU s {:,.1f}|rows a CPU s {:,.0f}|most MiB {:,.0f}", rows)


if __name__ == "__main__":
    main()
