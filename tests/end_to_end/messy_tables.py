"""Three files as strangers publish them, for `peewit try`: made up, in the columns of public sets.

The schema is that of the Elliptic transactions (Weber and others, arXiv:1908.02591): an edge list,
classes `1` (illicit), `2` (licit) and `unknown`, 165 features under the names of Elliptic++. What
makes such files messy is added: packing, a byte order mark, ends of lines of Windows, rows twice,
empty cells.
"""

import csv
import gzip
import io
from pathlib import Path
from typing import Final

import numpy as np

N_NODES: Final = 6_000
N_FEATURES: Final = 165
GROUP: Final = 20
"""Transactions near each other; those of one group in ten are illicit."""

KNOWN: Final = 0.23
"""Share of transactions with a class, as in the original."""


def write(directory: Path, seed: int = 0) -> dict[str, str]:
    """Write the three files; the class of every transaction, by its id."""
    rng = np.random.default_rng(seed)
    ids = rng.choice(400_000_000, N_NODES, replace=False)
    illicit = (np.arange(N_NODES) // GROUP) % 10 == 0
    start = rng.integers(0, N_NODES, 8 * N_NODES // 5)
    near = start // GROUP * GROUP + rng.integers(0, GROUP, start.size)
    end = np.where(rng.random(start.size) < 0.1, rng.integers(0, N_NODES, start.size), near)
    edges = [(ids[u], ids[v]) for u, v in zip(start, end, strict=True)]
    edges += edges[:50]
    truth = np.where(illicit, "1", "2")
    told = np.where(rng.random(N_NODES) < KNOWN, truth, "unknown")
    values = rng.normal(size=(N_NODES, N_FEATURES - 1))
    values[:, :10] += 0.3 * illicit[:, None]
    steps = 1 + np.arange(N_NODES) // GROUP % 49
    rows = [
        [node, step, *np.char.mod("%.4f", row)]
        for node, step, row in zip(ids, steps, values, strict=True)
    ]
    for row in rows[::100]:
        row[7] = ""
    names = (f"Local_feature_{number}" for number in range(1, N_FEATURES))
    _write(directory / "elliptic_txs_features.csv.gz", [["txId", "Time step", *names], *rows])
    edge_rows: list[tuple[object, ...]] = [("txId1", "txId2"), *edges]
    _write(directory / "elliptic_txs_edgelist.csv", edge_rows, newline="\r\n")
    classes = [("txId", "class"), *zip(ids, told, strict=True)]
    _write(directory / "elliptic_txs_classes.csv", classes, start="\ufeff")
    return dict(zip(map(str, ids), truth.tolist(), strict=True))


def _write(path: Path, rows: list, newline: str = "\n", start: str = "") -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=newline).writerows(rows)
    content = (start + text.getvalue()).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
