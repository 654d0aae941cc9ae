"""A followed prefix of an object store: what comes, changes and goes, and a store that is away."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.inbox.inbox_records import FILE_STATUSES, SourceRecord
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from tests.end_to_end.object_store import ObjectStore, needs_object_store, object_store, parquet
from tests.end_to_end.processes import Home, eventually

pytestmark = [needs_object_store, pytest.mark.slow]

PREFIX = "s3://bucket/edges"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as store:
        yield store


class Followed:
    """A daemon that follows the prefix, and what the stores say of it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.log = directory / "daemon.log"
        self.home = Home(
            directory / "home",
            **environment,
            AWS_MAX_ATTEMPTS="1",
            PEEWIT_LIST_SECONDS="0.5",
            PEEWIT_SETTLE_SECONDS="0.2",
            PEEWIT_LOG_LEVEL="debug",
        )
        self.home.run("graph", "create", "g", "--expected-nodes", 100, "--seed", 1)
        self.home.run("source", "add", "g", PREFIX, "--follow")
        with self.log.open("w") as log:
            self.daemon = self.home.start("ingest", "--follow", stdout=log, stderr=log)
        self._database = open_database(Settings(home=self.home.directory).database)
        self.manifest = Manifest(self._database)
        self.graph_id = Catalog(self._database).get("g").id

    @property
    def source(self) -> SourceRecord:
        (found,) = self.manifest.sources.list(self.graph_id)
        return found

    def ends_with(self, **files: int) -> None:
        """Wait until the manifest has so many files, and no other."""
        expected = dict.fromkeys(FILE_STATUSES, 0) | files
        eventually(lambda: dict(self.manifest.counts(self.graph_id)) == expected, 120.0)

    def edges_seen(self) -> int:
        return Catalog(self._database).get("g").progress.edges_seen

    def retry(self) -> None:
        """What `peewit source retry` does."""
        self.manifest.retry_source(self.graph_id, self.source.id)

    def end(self) -> None:
        self.home.end()
        self._database.close()


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
        refused = followed.manifest.list_files(followed.graph_id, status="quarantined")
        reasons = {Path(file.path).stem: file.reason or "" for file in refused}
        assert "an earlier version" in reasons["a"]
        assert "not a readable Parquet file" in reasons["e"]
        store.delete("edges/a.parquet")
        store.delete("edges/deeper/b.parquet")
        # the endpoint goes away: an error of the source, nothing against its files
        store.stop()
        eventually(lambda: followed.source.n_failures > 0, 180.0)
        assert "Could not connect" in (followed.source.error or "")
        assert followed.source.error_at is not None
        text = followed.home.run("source", "list", "g")
        assert "failed at" in text
        assert "Could not connect" in text
        followed.ends_with(committed=3, duplicate=1, quarantined=2)
        assert followed.daemon.poll() is None
        # and comes back with an object that was there and one that is new
        store.start()
        store.put("edges/deeper/b.parquet", content["b"])
        store.put("edges/f.parquet", content["c"])
        eventually(lambda: followed.edges_seen() == 400, 180.0)
        eventually(lambda: followed.source.error is None)
        secret = store.environment["AWS_SECRET_ACCESS_KEY"]
        assert secret not in followed.log.read_text()
    finally:
        followed.end()


def test_wrong_credentials_are_told_and_put_right(tmp_path: Path) -> None:
    with object_store(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="1") as store:
        followed = Followed(tmp_path, store.environment)
        try:
            eventually(lambda: followed.source.n_failures > 0, 120.0)
            error = followed.source.error or ""
            assert "PermissionError" in error
            secret = store.environment["AWS_SECRET_ACCESS_KEY"]
            assert secret not in error
            assert secret not in followed.log.read_text()
            followed.ends_with(committed=0)
            store.stop()
            store.start()  # asks for no credentials
            store.put("edges/a.parquet", edges(0, tmp_path))
            followed.retry()
            followed.ends_with(committed=1)
            assert followed.source.error is None
        finally:
            followed.end()
