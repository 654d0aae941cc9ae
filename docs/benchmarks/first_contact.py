"""A stranger's bank, from messy files to evaluated predictions, with no conversion by hand.

negative and unreadable amounts in one row of a hundred; devices as tab-separated text in two files,
one of which comes while the daemon runs; frauds as Parquet with booleans. Accounts lie in rings of
some twenty, of which one in ten is of fraud; 2 % of the transfers go anywhere. With --busy so many
processes compute beside everything. Each step prints its seconds: what the files hold (dry run),
ingest, labels, solve and evaluation by command line; then the daemon and HTTP bring what comes
later. Printed beside the accuracy: that of "nobody is a fraud".
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from docs.benchmarks.frame import CONSOLE, options
from tests.end_to_end.processes import Home, Server

RING: Final = 20
FRAUDS: Final = 0.1
FAR: Final = 0.02
DIRTY: Final = 0.01
LABELED: Final = 0.02
CHUNK: Final = 1_000_000
TRANSFERS: Final = ("--src", "from_account", "--dst", "to_account", "--weight", "amount")
FRAUD_COLUMNS: Final = ("--node", "account_id", "--label", "is_fraud")


def names(kind: str, numbers: np.ndarray) -> np.ndarray:
    return np.char.add(kind, np.char.zfill(numbers.astype(str), 8))


def transfers(path: Path, n_accounts: int, n_edges: int) -> int:
    """Transfers as packed CSV; how many rows are bad."""
    rng = np.random.default_rng(0)
    n_bad = 0
    with pa.CompressedOutputStream(str(path), "gzip") as file:
        file.write(b"from_account,to_account,amount,currency,ts\n")
        for first in range(0, n_edges, CHUNK):
            n_rows = min(CHUNK, n_edges - first)
            src = rng.integers(0, n_accounts, n_rows)
            near = src // RING * RING + rng.integers(0, RING, n_rows)
            is_far = rng.random(n_rows) < FAR
            dst = np.where(is_far, rng.integers(0, n_accounts, n_rows), near)
            dst = np.minimum(dst, n_accounts - 1)
            amount = np.char.mod("%.2f", rng.lognormal(0.0, 0.5, n_rows) + 0.01).astype("<U12")
            dirty = rng.permutation(n_rows)[: int(DIRTY * n_rows)]
            source = names("acc-", src)
            amount[dirty[0::3]] = "N/A"
            amount[dirty[1::3]] = "-5.00"
            source[dirty[2::3]] = ""
            n_bad += len(dirty)
            table = pa.table(
                {
                    "from_account": source,
                    "to_account": names("acc-", dst),
                    "amount": amount,
                    "currency": np.full(n_rows, "EUR"),
                    "ts": np.full(n_rows, "2026-11-01T12:00:00Z"),
                }
            )
            sink = pa.BufferOutputStream()
            options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
            pa.csv.write_csv(table, sink, options)
            file.write(sink.getvalue())
    return n_bad


def devices(path: Path, n_accounts: int, start: int) -> None:
    """Which accounts share a device: one device for each half of a ring, some of another ring."""
    rng = np.random.default_rng(start + 1)
    account = np.arange(start, n_accounts, 2)
    device = account // (RING // 2)
    strays = rng.random(account.size) < FAR
    device[strays] = rng.integers(0, n_accounts // (RING // 2), int(strays.sum()))
    table = pa.table({"Source": names("acc-", account), "Target": names("dev-", device)})
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter="\t", quoting_style="none"))


def frauds(directory: Path, n_accounts: int) -> tuple[Path, Path, float]:
    """Some accounts with their truth, all others to judge by, and the share that is honest."""
    rng = np.random.default_rng(7)
    ring = rng.random(n_accounts // RING + 1) < FRAUDS
    account = np.arange(n_accounts)
    truth = ring[account // RING]
    known = rng.random(n_accounts) < LABELED
    for name, rows in (("known", known), ("others", ~known)):
        columns = {"account_id": names("acc-", account[rows]), "is_fraud": truth[rows]}
        pq.write_table(pa.table(columns), directory / f"{name}.parquet")
    honest = float(1.0 - truth[~known].mean())
    return directory / "known.parquet", directory / "others.parquet", honest


@contextmanager
def busy(n_processes: int) -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(n_processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def step(name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    CONSOLE.print(f"{name:<34} {time.monotonic() - started:8.1f} s")


def run(home: Home, *arguments: object, refused: bool = False) -> Any:
    """The JSON that a command prints; ``refused`` where it should end with 1."""
    done = subprocess.run(
        [sys.executable, "-m", "peewit", *map(str, arguments), "--json"],
        env=home.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != int(refused):
        raise SystemExit(
            f"{' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return json.loads(done.stdout) if done.stdout.strip() else None


def tour(directory: Path, n_accounts: int, n_edges: int) -> None:
    """Everything, in the order in which a stranger meets it."""
    home = Home(directory / "home", PEEWIT_LOG_LEVEL="warning")
    with step("make the bank"):
        n_bad = transfers(directory / "transfers.csv.gz", n_accounts, n_edges)
        known, others, honest = frauds(directory, n_accounts)
        inbox = directory / "devices"
        inbox.mkdir()
        devices(inbox / "first.tsv", n_accounts, 0)
    table = directory / "transfers.csv.gz"
    run(home, "graph", "create", "bank", "--expected-nodes", n_accounts)
    with step("dry run without column names"):
        looked = run(home, "ingest", "bank", table, "--dry-run", refused=True)
    CONSOLE.print(f"    {looked['files'][0]['refusal']}")
    with step("dry run"):
        looked = run(home, "ingest", "bank", table, *TRANSFERS, "--dry-run", refused=True)
    CONSOLE.print(f"    {looked['files'][0]['refusal']}")
    with step("ingest"):
        taken = run(home, "ingest", "bank", table, *TRANSFERS, "--skip-bad-rows", n_bad)
    if taken["bad_rows"] != n_bad:
        raise SystemExit(f"{n_bad} bad rows were made, {taken['bad_rows']} were left out")
    CONSOLE.print(f"    {taken['progress']}")
    with step("devices"):
        run(home, "ingest", "bank", inbox, "--src", "Source", "--dst", "Target")
    with step("labels"):
        run(home, "labels", "put", "bank", known, *FRAUD_COLUMNS)
    with step("solve"):
        run(home, "solve", "bank")
    with step("evaluate"):
        judged = run(home, "evaluate", "bank", others)
    CONSOLE.print(f"    accuracy {judged['accuracy']:.4f}; nobody is a fraud: {honest:.4f}")
    try:
        with step("serve, until it is ready"):
            server = Server(home)
        with step("a growing directory, by the daemon"):
            named = ("--src", "Source", "--dst", "Target")
            run(home, "source", "add", "bank", inbox, "--follow", *named)
            devices(directory / "second.tsv", n_accounts, 1)
            (directory / "second.tsv").rename(inbox / "second.tsv")
            while not is_committed(server, inbox / "second.tsv"):
                time.sleep(0.5)
        with step("a push, by the client"):
            pushed = pa.table(
                {"from_account": ["acc-00000000"], "to_account": ["acc-new"], "amount": [1.5]}
            )
            server.client.push_edges("bank", pushed, wait=None)
        with step("solve and one prediction, by HTTP"):
            server.client.solve("bank")
            label = server.client.prediction("bank", "acc-new").prediction.label
            CONSOLE.print(f"    acc-new: {label}")
    finally:
        home.end()


def is_committed(server: Server, path: Path) -> bool:
    files = server.client.files("bank", status="committed")
    return any(file.path == str(path) for file in files)


if __name__ == "__main__":
    chosen = options(__doc__, accounts=1_000_000, edges=10_000_000, busy=0)
    with tempfile.TemporaryDirectory() as made, busy(chosen.busy):
        tour(Path(made), chosen.accounts, chosen.edges)
