"""A followed prefix of an object store: what comes, changes and goes, and a store that is away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.end_to_end.object_store import ObjectStore, needs_object_store, object_store, parquet
from tests.end_to_end.processes import Home, eventually

pytestmark = [needs_object_store, pytest.mark.slow]

PREFIX = "s3://bucket/edges"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as store:
        yield store


class Followed:
    """A daemon that follows the prefix, and what the command line shows of it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.log = directory / "daemon.log"
        self.home = Home(
            directory / "home",
            **environment,
            LAPWING_LIST_SECONDS="0.5",
            LAPWING_SETTLE_SECONDS="0.2",
            LAPWING_LOG_LEVEL="debug",
        )
        self.home.run("graph", "create", "g", "--expected-nodes", 100, "--seed", 1)
        self.home.run("source", "add", "g", PREFIX, "--follow")
        with self.log.open("w") as log:
            self.daemon = self.home.start("ingest", "--follow", stdout=log, stderr=log)

    def shown(self) -> Any:
        """The source as `lapwing source list` shows it."""
        (entry,) = self.home.json("source", "list", "g")["sources"]
        return entry

    def ends_with(self, **files: int) -> None:
        """Wait until the manifest has so many files, and no other."""
        expected = {"pending": 0, "committed": 0, "quarantined": 0, "duplicate": 0} | files
        eventually(lambda: self.shown()["files"] == expected, 120.0)

    def edges_seen(self) -> int:
        return int(self.home.json("graph", "show", "g")["edges_seen"])


def edges(seed: int, directory: Path) -> bytes:
    """Hundred random edges as the content of an object."""
    ends = np.random.default_rng(seed).integers(50, size=(2, 100)).astype(str)
    return parquet(directory / "object", pa.table({"src": ends[0], "dst": ends[1]}))


def test_a_followed_prefix_gives_what_comes_and_survives_what_happens(
    store: ObjectStore, tmp_path: Path
) -> None:
    content = {name: edges(seed, tmp_path) for seed, name in enumerate("abcde")}
    followed = Followed(tmp_path, store.environment)
    try:
        # objects that come: the first, another one, a copy
        store.put("edges/a.parquet", content["a"])
        followed.ends_with(committed=1)
        store.put("edges/deeper/b.parquet", content["b"])
        store.put("edges/copy.parquet", content["a"])
        store.put("elsewhere/c.parquet", content["c"])
        followed.ends_with(committed=2, duplicate=1)
        # an object that changes, one that is bad and is put right, some that go
        store.put("edges/a.parquet", content["d"])
        store.put("edges/e.parquet", b"PAR1 this is no Parquet file PAR1")
        followed.ends_with(committed=2, duplicate=1, quarantined=2)
        store.put("edges/e.parquet", content["e"])
        followed.ends_with(committed=3, duplicate=1, quarantined=2)
        refused = followed.home.json("source", "list", "g")["quarantined"]
        reasons = {Path(file["path"]).stem: file["reason"] for file in refused}
        assert "an earlier version" in reasons["a"]
        assert "not a readable Parquet file" in reasons["e"]
        store.delete("edges/a.parquet")
        store.delete("edges/deeper/b.parquet")
        # the endpoint goes away: an error of the source, nothing against its files
        store.stop()
        eventually(lambda: followed.shown()["source"]["n_failures"] >= 2, 180.0)
        source = followed.shown()["source"]
        assert "Could not connect" in source["error"]
        assert source["error_at"] is not None
        text = followed.home.run("source", "list", "g")
        assert "failed at" in text
        assert "Could not connect" in text
        followed.ends_with(committed=3, duplicate=1, quarantined=2)
        assert followed.daemon.poll() is None
        # and comes back with an object that was there and one that is new
        store.start()
        store.put("edges/deeper/b.parquet", content["b"])
        store.put("edges/f.parquet", content["c"])
        followed.home.run("source", "retry", "g", PREFIX)
        eventually(lambda: followed.edges_seen() == 400, 180.0)
        eventually(lambda: followed.shown()["source"]["error"] is None)
        secret = store.environment["AWS_SECRET_ACCESS_KEY"]
        assert secret not in followed.log.read_text()
        assert secret not in followed.home.run("source", "list", "g", "--json")
    finally:
        followed.home.end()


def test_wrong_credentials_are_told_and_put_right(tmp_path: Path) -> None:
    with object_store(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="1") as store:
        followed = Followed(tmp_path, store.environment)
        try:
            eventually(lambda: followed.shown()["source"]["n_failures"] >= 1, 120.0)
            source = followed.shown()["source"]
            assert "PermissionError" in source["error"]
            assert store.environment["AWS_SECRET_ACCESS_KEY"] not in source["error"]
            assert store.environment["AWS_SECRET_ACCESS_KEY"] not in followed.log.read_text()
            assert followed.shown()["files"]["quarantined"] == 0
            store.stop()
            store.start()  # asks for no credentials
            store.put("edges/a.parquet", edges(0, tmp_path))
            followed.home.run("source", "retry", "g", PREFIX)
            followed.ends_with(committed=1)
            assert followed.shown()["source"]["error"] is None
        finally:
            followed.home.end()
