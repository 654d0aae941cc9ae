"""An Iceberg table in an object store is read with the keys that the environment has."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.end_to_end.object_store import needs_object_store, object_store
from tests.service.live_sources.tables import edges, rows_of


@needs_object_store
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_table_in_a_store_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason="needs the extra iceberg")
    tables = import_module("tests.service.live_sources.iceberg_tables")
    with object_store(tmp_path) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        catalog = sql.SqlCatalog(
            "test",
            uri=f"sqlite:///{tmp_path}/c.db",
            warehouse="s3://bucket/house",
            **{"s3.endpoint": store.url, "s3.region": "us-east-1"},
        )
        catalog.create_namespace("people")
        table = tables.make_table(catalog, [("a", "b", 1.0), ("b", "c", 2.0)])
        source = tables.opened("s3://bucket/house/people/friends")
        whole = list(tables.chunks(source))
        table.append(edges([("c", "d", 3.0)]))
        rest = list(tables.chunks(source, whole[-1].position))
        catalog.close()
        store.stop()
        with pytest.raises(OSError, match="bucket"):
            list(tables.chunks(source, rest[-1].position))
    assert rows_of(whole) == [("a", "b", 1.0, "insert"), ("b", "c", 2.0, "insert")]
    assert rows_of(rest) == [("c", "d", 3.0, "insert")]
