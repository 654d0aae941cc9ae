"""A Delta table in an object store is followed with the keys that the environment has."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.settings import Settings
from tests.end_to_end.object_store import needs_object_store, object_store
from tests.end_to_end.processes import Home
from tests.service.live_sources.feeding import graph_edges

URL = "s3://bucket/some table"


@needs_object_store
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_table_in_a_store_is_followed(tmp_path: Path) -> None:
    with object_store(tmp_path) as store:
        environment = store.environment
        options = environment | {"aws_allow_http": "true", "aws_conditional_put": "etag"}
        edges = {"src": ["a", "b", "c"], "dst": ["b", "c", "d"], "weight": [1.0, 2.0, 3.0]}
        feed: dict[str, str | None] = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(URL, pa.table(edges), storage_options=options, configuration=feed)
        home = Home(tmp_path / "home", **environment)
        try:
            graph = ("graph", "create", "g", "--deletions", "exact", "--parallel", "replace")
            home.run(*graph)
            home.run("source", "add", "g", URL, "--kind", "delta", "--follow")
            home.run("ingest", "g")
            table = DeltaTable(URL, storage_options=options)
            table.update(predicate="src = 'a'", updates={"weight": "9.0"})
            table.delete("src = 'b'")
            home.run("ingest", "g")
            store.stop()
            home.run("ingest", "g", exit_code=1)
            (source,) = home.json("source", "list", "g")["sources"]
        finally:
            home.end()
    assert source["position"]["version"] == 2
    error = source["error"]
    assert error.startswith(f"TableUnavailable: {URL} cannot be opened: ")
    assert "Connection refused" in error
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    found = graph_edges(settings, Catalog(database).get("g"))
    database.close()
    assert found == {("a", "b"): 9.0, ("c", "d"): 3.0}
    secret = environment["AWS_SECRET_ACCESS_KEY"].encode()
    kept = [path for path in home.directory.rglob("*") if path.is_file()]
    assert not [path for path in kept if secret in path.read_bytes()]
