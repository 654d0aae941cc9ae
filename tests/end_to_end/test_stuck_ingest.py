"""A daemon that a store keeps waiting for ever: told in time, by what it does and where."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from tests.end_to_end.object_store import needs_object_store
from tests.end_to_end.processes import Home, Server, eventually
from tests.end_to_end.test_stopped_daemon import SlowStore, store

__all__ = ["store"]

pytestmark = pytest.mark.usefixtures("processes")

STALL_SECONDS = 6.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(
        tmp_path / "home",
        PEEWIT_SETTLE_SECONDS="0",
        PEEWIT_LOG_LEVEL="error",
        PEEWIT_STALL_SECONDS=str(STALL_SECONDS),
    )
    for name in ("stuck", "other"):
        home.run("graph", "create", name, "--expected-nodes", 100, "--seed", 1)
    yield home
    home.end()


@needs_object_store
@pytest.mark.parametrize("doing", ["listing", "reading"])
def test_what_stands_still_is_told_everywhere_with_graph_source_and_time(
    home: Home, store: SlowStore, tmp_path: Path, doing: str
) -> None:
    """While it is only listed, the other graphs go on."""
    store.answers = doing == "reading"
    database = open_database(Settings(home=home.directory).database)
    manifest, catalog = Manifest(database), Catalog(database)
    source = manifest.sources.add(catalog.get("stuck").id, store.url, follow=False)
    running = home.start("ingest", "--follow")
    eventually(lambda: (store.n_sent if doing == "reading" else store.n_asked) > 0, 180.0)
    began = time.monotonic()

    def health() -> tuple[int, str]:
        asked = home.start("health", "ingest", stderr=subprocess.PIPE)
        return asked.wait(timeout=60.0), asked.stderr.read()

    eventually(lambda: health()[0] == 1)
    assert time.monotonic() - began >= STALL_SECONDS - 1.0
    code, told = health()
    assert code == 1
    assert f"graph stuck, source {store.url}: {doing}" in told
    assert "no progress for" in told
    if doing == "listing":
        (tmp_path / "edges.csv").write_text("src,dst\na,b\n")
        manifest.sources.add(catalog.get("other").id, str(tmp_path / "edges.csv"), follow=True)
        eventually(lambda: catalog.get("other").progress.edges_seen == 1)
    found = home.start("doctor", "--json", stdout=subprocess.PIPE)
    findings = json.loads(found.communicate(timeout=60.0)[0])["findings"]
    assert any(each["check"] == "ingest" and each["level"] == "fault" for each in findings)
    code, body = Server(home, "api").get("/readyz")
    assert (code, body["status"]) == (200, "degraded")
    (trouble,) = body["ingest"]
    assert (trouble["graph"], trouble["source_id"]) == ("stuck", source.id)
    assert trouble["doing"].startswith(doing)
    assert trouble["seconds"] >= STALL_SECONDS
    assert running.poll() is None
    database.close()
