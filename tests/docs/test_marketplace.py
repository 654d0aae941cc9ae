"""The files of the marketplace: made alike by a seed, with rings that share what they should."""

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

N_ACCOUNTS = 2_400
N_FRAUDS = N_ACCOUNTS // 40
PROGRAM = """
import sys
from pathlib import Path

import numpy as np

from docs.benchmarks.marketplace_files import marketplace

for folder, seed in (("a", 3), ("same", 3), ("other", 4)):
    directory = Path(sys.argv[1]) / folder
    directory.mkdir()
    made = marketplace(int(sys.argv[2]), seed)
    made.write(directory)
    np.save(directory / "ring.npy", made.ring)
"""
"""In a process of its own: programs of docs.benchmarks set threads for all of theirs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Path:
    """Files of a seed, of the same seed again, and of another."""
    directory = tmp_path_factory.mktemp("marketplace")
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory), str(N_ACCOUNTS)],
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    return directory


def sharing(account: np.ndarray, thing: np.ndarray) -> set[tuple[int, int]]:
    """Pairs of accounts that have a thing in common."""
    pairs: set[tuple[int, int]] = set()
    for one in np.unique(thing):
        pairs.update(combinations(np.unique(account[thing == one]).tolist(), 2))
    return pairs


def test_a_seed_makes_the_same_files_and_another_makes_others(folder: Path) -> None:
    files = sorted(path.name for path in (folder / "a").iterdir())
    assert len(files) == 8
    for name in files:
        first = (folder / "a" / name).read_bytes()
        assert first == (folder / "same" / name).read_bytes()
        assert first != (folder / "other" / name).read_bytes()


def test_rings_have_their_sizes_and_share_devices_and_cards(folder: Path) -> None:
    ring = np.load(folder / "a" / "ring.npy")
    sizes = np.bincount(ring[ring >= 0])
    assert ring.size == N_ACCOUNTS
    assert sizes.sum() == N_FRAUDS
    assert 5 <= sizes.min() <= sizes.max() <= 40
    logins = pa.csv.read_csv(folder / "a" / "logins.csv.gz")
    cards = pq.read_table(folder / "a" / "cards.parquet")
    for table, column in ((logins, "device_id"), (cards, "card_hash")):
        account = table["account_id"].to_numpy() - 1
        thing = table[column].to_numpy(zero_copy_only=False)
        is_kiosk = np.char.startswith(thing.astype(str), "kiosk")
        of_frauds = (ring[account] >= 0) & ~is_kiosk
        pairs = sharing(account[of_frauds], thing[of_frauds])
        own = [ring[one] == ring[other] for one, other in pairs]
        assert len(own) > N_FRAUDS / 2
        assert np.mean(own) > 0.9


def test_tables_are_as_messy_as_they_should_be(folder: Path) -> None:
    accounts = pq.read_table(folder / "a" / "accounts.parquet")
    assert accounts["account_id"].to_pylist() == list(range(1, N_ACCOUNTS + 1))
    assert accounts["rating"].null_count > N_ACCOUNTS / 10
    wifi = pa.csv.read_csv(folder / "a" / "logins.csv.gz")["wifi"].to_pylist()
    largest = max(set(wifi) - {""}, key=wifi.count)
    assert wifi.count(largest) > N_ACCOUNTS / 20
    assert "" in wifi
    listing = pa.csv.read_csv(folder / "a" / "offers.csv")["listing_id"].to_pylist()
    assert set(listing) <= set(range(1, N_ACCOUNTS + 1))
    decisions = pa.csv.read_csv(folder / "a" / "decisions.csv")
    truth = np.load(folder / "a" / "ring.npy")[decisions["account"].to_numpy() - 1] >= 0
    assert decisions["label"].to_pylist() == np.where(truth, "FRAUD", "HONEST").tolist()
    assert truth.sum() > N_FRAUDS / 16
    assert (~truth).sum() > N_ACCOUNTS / 80
