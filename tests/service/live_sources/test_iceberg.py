"""An Iceberg table as a live source: the whole, then every snapshot, from any position."""

import bz2
import gzip
import json
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.confinement import is_within
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.live_sources.contract import Access, ChangesLost
from peewit.service.live_sources.kinds import start_of
from peewit.service.live_sources.table_chunks import TableUnavailable, UnreadableTable
from peewit.service.settings import Settings
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from tests.service.live_sources.feeding import edges_after, graph_edges
from tests.service.live_sources.tables import Row, edges, pairs, rows_of

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

import pyiceberg.catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType
from pyiceberg.utils.config import Config

from peewit.service.live_sources import iceberg_unpacking
from peewit.service.live_sources.iceberg import IcebergSource
from peewit.service.live_sources.iceberg_files import ConfinedFiles
from peewit.service.live_sources.iceberg_places import place_of
from peewit.service.live_sources.iceberg_unpacking import MOST_METADATA_BYTES, read_manifest
from tests.service.live_sources.iceberg_tables import (
    SCHEMA,
    catalog_in,
    change,
    chunks,
    compact,
    make_table,
    merge,
    opened,
    rewrite,
    snapshots,
    table_edges,
)

START: list[Row] = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 3.0)]
N_NODES = 9


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[SqlCatalog]:
    with catalog_in(tmp_path / "house") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_changes_from_any_position_lead_to_the_table(warehouse: SqlCatalog, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = make_table(warehouse, [(*pair, 1.0) for pair in pairs(N_NODES)[::2]])
    source = opened(table.location())
    found = list(chunks(source, most_rows=5))
    for _ in range(12):
        change(table, rng, N_NODES)
    found += chunks(source, found[-1].position, most_rows=5)
    assert source.lag(found[-1].position) == 0
    assert edges_after(rows_of(found)) == table_edges(table)
    after = next(n for n, each in enumerate(found) if "snapshot" in each.position)
    for place in range(after, len(found) - 1, 6):
        rest = list(chunks(opened(table.location()), found[place].position, most_rows=5))
        assert rows_of(rest) == rows_of(found[place + 1 :])
        assert rest[-1].position == found[-1].position


def test_deletes_of_a_snapshot_come_before_its_inserts(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START[:1])
    rewrite(table, edges([("a", "z", 1.0)]))
    first, _ = snapshots(table)
    rows = rows_of(list(chunks(opened(table.location()), {"snapshot": first}, most_rows=1)))
    assert rows == [("a", "b", 1.0, "delete"), ("a", "z", 1.0, "insert")]


def test_the_whole_can_be_read_on_while_the_table_changes(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    whole = list(chunks(opened(table.location()), most_rows=1))
    first = next(iter(chunks(opened(table.location()), most_rows=1)))
    merge(table, [("a", "b", 9.0), ("d", "e", 4.0)])
    rest = list(chunks(opened(table.location()), first.position, most_rows=1))
    assert rows_of([first, *rest])[:3] == rows_of(whole)
    assert edges_after(rows_of([first, *rest])) == table_edges(table)


def test_rewriting_files_changes_nothing(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    table.append(edges([("d", "e", 4.0)]))
    compact(table)
    assert table.current_snapshot().summary.operation is Operation.REPLACE
    first, _, last = snapshots(table)
    source = opened(table.location(), takes_changes=False)
    (added, moved) = chunks(source, {"snapshot": first})
    assert rows_of([added]) == [("d", "e", 4.0, "insert")]
    assert (moved.table, moved.position["snapshot"]) == (None, last)
    assert source.lag({"snapshot": first}) == 2


def test_a_graph_that_takes_no_changes_takes_appended_rows_up_to_the_first_change(
    warehouse: SqlCatalog,
) -> None:
    table = make_table(warehouse, START)
    table.append(edges([("d", "e", 4.0)]))
    table.delete(EqualTo("src", "a"))
    first, _, last = snapshots(table)
    read = chunks(opened(table.location(), takes_changes=False), {"snapshot": first})
    assert rows_of([next(read)]) == [("d", "e", 4.0, "insert")]
    with pytest.raises(ChangesLost, match=rf"snapshot {last} .* must only add rows.*--parallel"):
        next(read)


def test_a_column_of_operations_is_read_in_the_order_of_snapshots(warehouse: SqlCatalog) -> None:
    told = pa.table({"src": ["a"], "dst": ["b"], "what": ["insert"]})
    table = warehouse.create_table("people.told", schema=told.schema)
    wanted = ["insert", "delete", "set", "delete", "insert", "set"]
    for operation in wanted:
        table.append(told.set_column(2, "what", [[operation]]))
    (chunk,) = chunks(opened(table.location(), columns=EdgeColumns(op="what")))
    assert chunk.table is not None
    assert chunk.table["op"].to_pylist() == wanted


def test_ends_may_be_partitions(warehouse: SqlCatalog) -> None:
    rows = [("a b", "c/d", 1.0), ("b=%", "c/d", 2.0), ("a b", "e", 3.0)]
    table = make_table(warehouse, [])
    with table.update_spec() as update:
        update.add_identity("src")
    table.append(edges(rows))
    source = opened(table.location())
    whole = list(chunks(source))
    assert sorted(rows_of(whole)) == sorted((*row, "insert") for row in rows)
    table.delete(EqualTo("dst", "e"))
    after = rows_of(list(chunks(source, whole[-1].position)))
    assert edges_after([*rows_of(whole), *after]) == table_edges(table)


def test_files_of_others_are_read_by_name_and_partition(
    warehouse: SqlCatalog, tmp_path: Path
) -> None:
    table = make_table(warehouse, [])
    with table.update_spec() as update:
        update.add_identity("src")
    file = tmp_path / "house" / "people" / "src=a" / "other.parquet"
    file.parent.mkdir(parents=True)
    pa.parquet.write_table(edges([("a", "b", 1.0), ("a", "c", 2.0)]), file)
    table.add_files([str(file)])
    pa.parquet.write_table(edges([("a", "b", 1.0), ("a", "c", 2.0)]).drop(["src"]), file)
    rows = rows_of(list(chunks(opened(table.location()))))
    assert rows == [("a", "b", 1.0, "insert"), ("a", "c", 2.0, "insert")]
    with table.transaction() as told:
        told.remove_properties("schema.name-mapping.default")
    with pytest.raises(UnreadableTable, match="must have ids of its columns"):
        list(chunks(opened(table.location())))


def test_columns_keep_their_ids_when_they_are_renamed_or_come_later(warehouse: SqlCatalog) -> None:
    table = warehouse.create_table("people.t", schema=edges(START).drop(["weight"]).schema)
    table.append(edges(START).drop(["weight"]))
    with table.update_schema() as update:
        update.rename_column("src", "source")
        update.add_column("weight", DoubleType())
    table.append(edges([("d", "e", 4.0)]).rename_columns(["source", "dst", "weight"]))
    rows = rows_of(list(chunks(opened(table.location(), columns=EdgeColumns(src="source")))))
    assert rows == [*((u, v, None, "insert") for u, v, _ in START), ("d", "e", 4.0, "insert")]
    with pytest.raises(BadEdges, match="column 'src' is missing"):
        list(chunks(opened(table.location())))


def test_expired_snapshots_are_told_with_what_to_do(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    for number in range(3):
        table.append(edges([("x", f"y{number}", 1.0)]))
    first, second, third, last = snapshots(table)
    metadata = json.loads(Path(table.metadata_location).read_text())
    metadata["snapshots"] = metadata["snapshots"][2:]  # some engines keep the names of parents
    Path(table.metadata_location).write_text(json.dumps(metadata))
    source = opened(table.location())
    rest = rows_of(list(chunks(source, {"snapshot": second})))
    assert rest == [("x", "y1", 1.0, "insert"), ("x", "y2", 1.0, "insert")]
    cut = rf"snapshot {first} .* has expired.* begins with {third}; .*anew.*--from"
    with pytest.raises(ChangesLost, match=cut):
        list(chunks(source, {"snapshot": first}))
    with pytest.raises(ChangesLost, match=rf"snapshot {first} .* has expired"):
        list(chunks(source, {"table": first}))
    assert source.lag({"snapshot": third}) == 1
    table.refresh().maintenance.expire_snapshots().by_id(third).commit()
    with pytest.raises(ChangesLost, match=rf"snapshot {third} .* begins with {last}"):
        list(chunks(source, {"snapshot": third}))


def test_a_file_that_is_gone_is_told_with_what_to_do(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    (task,) = table.scan().plan_files()
    rewrite(table, edges(START))
    first, last = snapshots(table)
    Path(task.file.file_path).unlink()
    with pytest.raises(ChangesLost, match=rf"snapshot {last} .* needs .* is gone.*--from"):
        list(chunks(opened(table.location()), {"snapshot": first}))


def test_what_was_rolled_back_is_told(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    table.append(edges([("d", "e", 4.0)]))
    source = opened(table.location())
    end = list(chunks(source))[-1].position
    first, _ = snapshots(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(ChangesLost, match=rf"newest of .*, {first}, descends from"):
        list(chunks(source, end))


def test_a_table_that_was_made_anew_is_told(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    end = list(chunks(opened(table.location())))[-1].position
    warehouse.drop_table("people.friends")
    shutil.rmtree(table.location())
    table = make_table(warehouse, START)
    with pytest.raises(ChangesLost, match="was made anew"):
        list(chunks(opened(table.location()), end))


def test_a_table_that_nothing_was_written_to_is_no_loss(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, [])
    source = opened(table.location())
    assert list(chunks(source)) == []
    assert source.lag(None) == 0
    assert not source.holds(pa.array(["a"]))
    table.append(edges(START))
    assert rows_of(list(chunks(source))) == [(*row, "insert") for row in START]


class DeleteWriter(ManifestWriterV2):
    """Writes manifests of files that delete rows of others."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def delete_by_position(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines do that merge on read: another file says which rows are deleted."""
    (task,) = table.scan().plan_files()
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=task.file.file_path.replace(".parquet", "-deletes.parquet"),
        file_format=FileFormat.PARQUET,
        partition=task.file.partition,
        record_count=1,
        file_size_in_bytes=1,
    )
    deletes.spec_id = 0
    with monkeypatch.context() as patched, table.transaction() as change:
        patched.setattr(
            "pyiceberg.table.update.snapshot.write_manifest",
            lambda **options: DeleteWriter(
                **{name: value for name, value in options.items() if name != "format_version"}
            ),
        )
        with change.update_snapshot().fast_append() as snapshot:
            snapshot.append_data_file(deletes)


def test_deletes_that_leave_rows_in_their_files_are_refused(
    warehouse: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(warehouse, START)
    delete_by_position(table, monkeypatch)
    first, last = snapshots(table)
    for position in (None, {"snapshot": first}):
        with pytest.raises(UnreadableTable, match=rf"{last} .*merge on read.*copy-on-write"):
            list(chunks(opened(table.location()), position))


def test_files_of_other_formats_are_refused(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, [])
    orc = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/a.orc",
        file_format=FileFormat.ORC,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
    )
    orc.spec_id = 0
    with table.transaction() as change, change.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(orc)
    with pytest.raises(UnreadableTable, match=r"must be Parquet.*a\.orc.*write\.format\.default"):
        list(chunks(opened(table.location())))


@pytest.mark.parametrize("moved", ["metadata", "data"])
def test_a_confined_source_follows_no_link_out_of_its_place(
    warehouse: SqlCatalog, tmp_path: Path, moved: str
) -> None:
    table = make_table(warehouse, START)
    folder = Path(table.location()) / moved
    folder.rename(tmp_path / "outside")
    folder.symlink_to(tmp_path / "outside")

    def allows(path: str) -> bool:
        return Path(path).resolve().is_relative_to(tmp_path / "house")

    url = table.location()
    source = IcebergSource.open(Access(url=url, columns=PLAIN, takes_changes=True, allows=allows))
    with pytest.raises(UnreadableTable, match="must lie where the source may read"):
        list(chunks(source))
    assert len(rows_of(list(chunks(opened(url))))) == len(START)


@pytest.mark.parametrize(
    "path",
    [
        "file://{secret}?/../../../house/x.parquet",
        "file://{secret}#/../../../house/x.parquet",
        "file://{secret}?",
        "file://{secret};x",
        "{house}/../secret/s.parquet",
        "FILE://{secret}",
        "fi\nle://{secret}",
        " file://{secret}",
        "file://{secret}",
        "file://localhost{secret}",
        "file:{secret}",
        "{secret}",
        "s3://bucket/s.parquet",
    ],
)
@pytest.mark.parametrize("place", ["{house}", "s3://", "iceberg://"])
def test_no_spelling_of_a_path_leads_out_of_the_place_of_a_source(
    tmp_path: Path, path: str, place: str
) -> None:
    house, secret = tmp_path / "house", tmp_path / "secret" / "s.parquet"
    secret.parent.mkdir()
    pa.parquet.write_table(edges(START), secret)
    named = path.format(secret=secret, house=house)
    open_place = place.format(house=house)

    def allows(asked: str) -> bool:
        return is_within(asked, open_place, home=tmp_path / "home")

    access = Access(url="x", columns=PLAIN, takes_changes=True, allows=allows)
    table = str(house) if place == "{house}" else "s3://bucket/table"
    files = ConfinedFiles(PyArrowFileIO(), access, table)
    if named.startswith("s3://") and table.startswith("s3://"):
        assert files.require_allowed(named) == named
        return
    with pytest.raises(UnreadableTable, match="must"):
        files.new_input(named)


def test_a_confined_source_reads_no_added_file_outside_its_place(
    warehouse: SqlCatalog, tmp_path: Path
) -> None:
    table = make_table(warehouse, START)
    secret = tmp_path / "secret" / "s.parquet"
    secret.parent.mkdir()
    pa.parquet.write_table(edges([("not", "yours", 1.0)]), secret)
    table.add_files([f"file://{secret}?/../../house/x.parquet"])

    def allows(path: str) -> bool:
        return is_within(path, str(tmp_path / "house"), home=tmp_path / "home")

    url = table.location()
    source = IcebergSource.open(Access(url=url, columns=PLAIN, takes_changes=True, allows=allows))
    with pytest.raises(UnreadableTable, match=r"no \? # or ;"):
        list(chunks(source))


def test_files_of_a_table_are_only_read(tmp_path: Path) -> None:
    access = Access(url="x", columns=PLAIN, takes_changes=True)
    files = ConfinedFiles(PyArrowFileIO(), access, str(tmp_path))
    with pytest.raises(PermissionError, match="only read"):
        files.new_output(str(tmp_path / "a"))
    with pytest.raises(PermissionError, match="only read"):
        files.delete(str(tmp_path / "a"))


class ForeignFiles(PyArrowFileIO):
    """What a table names for its files, which nobody may make."""

    def __init__(self, properties: dict[str, str]) -> None:
        raise AssertionError(f"made with {properties}")


class OwnFiles(PyArrowFileIO):
    """What a catalog names for files, made by who runs this process."""


def test_files_of_a_table_are_opened_as_its_catalog_says_and_not_as_the_table_does(
    warehouse: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__URI", warehouse.properties["uri"])
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__S3__ENDPOINT", "http://own")
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__PY_IO_IMPL", f"{__name__}.OwnFiles")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    table = make_table(warehouse, START)
    with table.transaction() as change:
        change.set_properties({"s3.endpoint": "http://theirs", "s3.session-token": "given"})
    place = place_of(Access(url="iceberg://test/people.friends", columns=PLAIN, takes_changes=True))
    found = place.look().files
    assert found.properties["s3.endpoint"] == "http://own"
    assert "s3.session-token" not in found.properties
    assert isinstance(found._files, OwnFiles)
    source = opened("iceberg://test/people.friends")
    assert rows_of(list(chunks(source))) == [(*row, "insert") for row in START]


def test_a_table_of_a_catalog_that_names_a_class_is_refused_before_that_is_made(
    warehouse: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__URI", warehouse.properties["uri"])
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    table = make_table(warehouse, START)
    path = Path(table.metadata_location)
    metadata = json.loads(path.read_text())
    metadata["properties"]["py-io-impl"] = f"{__name__}.ForeignFiles"
    path.write_text(json.dumps(metadata))
    with pytest.raises(UnreadableTable, match=r"must name no class .* property py-io-impl"):
        list(chunks(opened("iceberg://test/people.friends")))
    (whole,) = chunks(opened(table.location()))  # nothing of the directory asks the library for it
    assert rows_of([whole]) == [(*row, "insert") for row in START]


def test_a_catalog_over_rest_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rest(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"defaults": {}, "overrides": {}}')

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Rest) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("PYICEBERG_CATALOG__TEST__URI", url)
        monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
        with pytest.raises(UnreadableTable, match=r"catalog test must keep .* rest.* directory"):
            list(chunks(opened("iceberg://test/people.friends")))
        server.shutdown()
        thread.join()


def test_a_directory_in_which_two_files_could_be_the_newest_is_told(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    source = opened(table.location())
    end = list(chunks(source))[-1].position
    newest = Path(table.metadata_location)
    shutil.copy(newest, newest.with_name(f"{newest.name[:5]}-other.metadata.json"))
    with pytest.raises(TableUnavailable, match=r"one newest file of metadata.*by its catalog"):
        list(chunks(source, end))
    table.append(edges([("d", "e", 4.0)]))
    assert rows_of(list(chunks(source, end))) == [("d", "e", 4.0, "insert")]


def test_a_table_is_found_by_its_catalog(
    warehouse: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__URI", warehouse.properties["uri"])
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    table = make_table(warehouse, START)
    source = opened("iceberg://test/people.friends")
    (whole,) = chunks(source)
    newest = Path(table.metadata_location)
    shutil.copy(newest, newest.with_name("99999-never-committed.metadata.json"))
    table.append(edges([("d", "e", 4.0)]))
    assert rows_of(list(chunks(source, whole.position))) == [("d", "e", 4.0, "insert")]
    with pytest.raises(TableUnavailable, match=r"people\.foes must be in the catalog test"):
        list(chunks(opened("iceberg://test/people.foes")))


def test_what_is_no_such_table_or_position_is_told(warehouse: SqlCatalog, tmp_path: Path) -> None:
    table = make_table(warehouse, START)
    with pytest.raises(TableUnavailable, match=r"nowhere/metadata must hold files"):
        list(chunks(opened(str(tmp_path / "nowhere"))))
    for url in ("https://host/t", "iceberg://here/friends", "a::b", "hdfs://host/t"):
        with pytest.raises(ValueError, match=r"url must be iceberg://CATALOG/NAMESPACE.TABLE"):
            start_of("iceberg", url, PLAIN, None)
    with pytest.raises(ValueError, match="number of a snapshot, got 'x'"):
        start_of("iceberg", table.location(), PLAIN, "x")
    assert start_of("iceberg", table.location(), PLAIN, "5") == {"snapshot": 5}


def test_nodes_are_looked_for_in_the_newest_snapshot(warehouse: SqlCatalog) -> None:
    table = make_table(warehouse, START)
    table.delete(EqualTo("src", "a"))
    source = opened(table.location())
    assert source.holds(pa.array(["x", "d"], pa.large_string()))
    assert not source.holds(pa.array(["a", "x"], pa.large_string()))


@pytest.mark.slow
def test_a_graph_follows_a_table_edge_for_edge(
    settings: Settings, manifest: Manifest, graph: GraphRecord, warehouse: SqlCatalog
) -> None:
    rng = np.random.default_rng(7)
    table = make_table(warehouse, [(*pair, 1.0) for pair in pairs(N_NODES)[::2]])
    manifest.sources.add(graph.id, table.location(), kind="iceberg", follow=True)
    ingestor = Ingestor(manifest.live._database, settings)
    for _ in range(4):
        ingestor.ingest_graph(graph.id)
        assert graph_edges(settings, graph) == table_edges(table)
        for _ in range(3):
            change(table, rng, N_NODES)
    (source,) = manifest.sources.list(graph.id)
    assert (source.kind, source.lag) == ("iceberg", 0)


@pytest.mark.parametrize("packed", [False, True])
def test_metadata_that_unpacks_to_too_much_is_refused_before_it_is_parsed(
    warehouse: SqlCatalog, packed: bool
) -> None:
    table = make_table(warehouse, [("a", "b", 1.0)])
    path = Path(table.metadata_location.removeprefix("file://"))
    content = path.read_bytes() + b" " * MOST_METADATA_BYTES
    path = path.with_name(f"00009-far{'.gz' if packed else ''}.metadata.json")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(UnreadableTable, match="must unpack to at most"):
        list(chunks(opened(table.location())))
    path.write_bytes(gzip.compress(content.strip()) if packed else content.strip())
    assert rows_of(list(chunks(opened(table.location())))) == [("a", "b", 1.0, "insert")]


PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda content: zlib.compress(content)[2:-4],
    "zstandard": lambda content: pa.compress(content, "zstd", asbytes=True),
    "bzip2": bz2.compress,
}


@pytest.mark.parametrize("codec", PACKERS)
def test_a_manifest_that_unpacks_to_too_much_is_refused_before_it_is_parsed(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_unpacking, "MOST_MANIFEST_BYTES", most := 200_000)
    marker = bytes(16)
    path = tmp_path / "m.avro"
    for n_bytes in (most // 2 - 1_000, most):
        block = PACKERS[codec](bytes(n_bytes))
        head = b"Obj\x01" + _avro(1) + _text(b"avro.codec") + _text(codec.encode()) + _avro(0)
        path.write_bytes(head + marker + 2 * (_avro(1) + _text(block) + marker))
        file = PyArrowFileIO().new_input(str(path))
        if n_bytes < most // 2:
            assert read_manifest(file).open().read() == path.read_bytes()
        else:
            with pytest.raises(UnreadableTable, match="must unpack to at most 200,000 bytes"):
                read_manifest(file)


def _avro(number: int) -> bytes:
    """A number from 0 as Avro writes it."""
    number, content = 2 * number, b""
    while number >= 0x80:
        number, content = number >> 7, content + bytes([number & 0x7F | 0x80])
    return content + bytes([number])


def _text(content: bytes) -> bytes:
    return _avro(len(content)) + content


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bzip2"])
def test_manifests_of_every_codec_are_read(warehouse: SqlCatalog, codec: str) -> None:
    properties = {"write.avro.compression-codec": codec}
    table = warehouse.create_table("people.packed", schema=SCHEMA, properties=properties)
    table.append(edges([("a", "b", 1.0)]))
    assert rows_of(list(chunks(opened(table.location())))) == [("a", "b", 1.0, "insert")]
