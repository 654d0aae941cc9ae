"""Sources that were added over HTTP read what the settings open, and nothing else."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import fsspec.config
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.core import url_to_fs

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.confinement import (
    SourceRefused,
    SourceRules,
    confine_redirects,
    is_within,
)
from peewit.service.inbox.inbox_records import TooManySources
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.source_lister import list_files
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from tests.fresh_databases import fresh


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "open").mkdir()
    (tmp_path / "secret").mkdir()
    return Settings(
        home=tmp_path / "open" / "home",
        database_url=None,
        source_roots=(tmp_path / "open",),
        source_hosts=("data.example", "127.0.0.1:8443"),
    )


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = open_database(fresh(settings.database))
    yield database
    database.close()


@pytest.fixture
def graph(database: Database) -> GraphRecord:
    return Catalog(database).create(GraphSettings(name="g", expected_nodes=100))


def write_edges(path: Path, *nodes: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"src": list(nodes[:-1]), "dst": list(nodes[1:])}), path)
    return path


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("{open}", "{open}"),
        ("{open}/a/b.parquet", "{open}"),
        ("{open}/*.parquet", "{open}"),
        ("{open}/in-[0-9]/*.parquet", "{open}"),
        ("file://{open}/a", "{open}"),
        ("s3://bucket/prefix", "s3://"),
        ("abfs://container/prefix", "abfs://"),
        ("https://data.example/a.parquet", "https://data.example"),
        ("https://DATA.example/a.parquet?sig=x", "https://data.example"),
        ("http://127.0.0.1:8443/a", "http://127.0.0.1:8443"),
    ],
)
def test_what_the_settings_open_is_taken(
    settings: Settings, tmp_path: Path, url: str, place: str
) -> None:
    opened = str((tmp_path / "open").resolve())
    rules = SourceRules.of(settings)
    assert rules.place_of(url.format(open=opened)) == place.format(open=opened)


@pytest.mark.parametrize(
    "url",
    [
        "/etc/passwd",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "FILE:///etc/passwd",
        "local:///etc/passwd",
        "/",
        "/*/*.parquet",
        "{open}/../secret",
        "file://{open}/../secret",
        "{open}/*/../../secret/*.parquet",
        "{open}-not",
        "{own}",
        "{own}/graphs/*/pushes",
        "{open}/link",
        "{open}/link/a.parquet",
        "{open}/a\0b",
        "inbox",
        "~/inbox",
        "http://169.254.169.254/latest/meta-data",
        "http://localhost/",
        "http://[::1]/",
        "http://data.example:8080/",
        "http://data.example@169.254.169.254/",
        "http://me:password@data.example/",
        "http://169.254.169.254\\@data.example/",
        "http://data.example.evil.example/",
        "https:///x",
        "memory://x",
        "ftp://data.example/x",
        "sftp://data.example/x",
        "github://owner:repository@main/x",
        "reference://x",
        "data:text/plain,x",
        "jupyter://x",
        "simplecache::http://data.example/x",
        "zip://x::file:///etc/passwd",
        "{open}/x::file:///etc/passwd",
        "s3://bucket::file:///etc",
        "unheard://x",
        "iceberg://catalog/people.friends",
        "",
    ],
)
def test_what_they_do_not_open_is_refused(settings: Settings, tmp_path: Path, url: str) -> None:
    (tmp_path / "open" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(SourceRefused, match=r"^url must"):
        SourceRules.of(settings).place_of(url.format(open=tmp_path / "open", own=settings.home))


def test_an_answer_does_not_tell_whether_a_file_is_there(
    settings: Settings, tmp_path: Path
) -> None:
    there = write_edges(tmp_path / "secret" / "there.parquet", "a", "b")
    told = []
    for path in (there, there.with_name("other.parquet")):
        with pytest.raises(SourceRefused) as refused:
            SourceRules.of(settings).place_of(str(path))
        told.append(str(refused.value).replace(path.name, ""))
    assert told[0] == told[1]
    assert "PEEWIT_SOURCE_ROOTS" in told[0]


def test_a_link_out_of_the_place_is_not_listed(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    inbox = tmp_path / "open" / "in"
    write_edges(inbox / "good.parquet", "a", "b")
    (inbox / "link.parquet").symlink_to(write_edges(tmp_path / "secret" / "x.parquet", "x", "y"))
    for name in ("[a].parquet", "*.parquet", "?.parquet"):
        (inbox / name).symlink_to(tmp_path / "secret" / "x.parquet")
    (inbox / "linked").symlink_to(tmp_path / "secret")
    (inbox / "linked[0]").symlink_to(tmp_path / "secret")
    write_edges(settings.home / "graphs" / "other.parquet", "p", "q")
    (inbox / "home").symlink_to(settings.home)
    manifest = Manifest(database)
    place = SourceRules.of(settings).place_of(str(inbox))
    source = manifest.sources.add(graph.id, str(inbox), confined_to=place)
    assert [Path(file.path).name for file in list_files(source, home=settings.home)[0]] == [
        "good.parquet"
    ]
    Ingestor(database, settings).ingest_graph(graph.id)
    assert [Path(file.path).name for file in manifest.list_files(graph.id)] == ["good.parquet"]


def test_a_link_that_changed_since_it_was_listed_is_quarantined(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    path = write_edges(tmp_path / "open" / "in" / "a.parquet", "a", "b")
    manifest = Manifest(database)
    source = manifest.sources.add(
        graph.id, str(path), confined_to=SourceRules.of(settings).place_of(str(path))
    )
    ingestor = Ingestor(database, settings)
    assert ingestor.list_source(graph.id, source) == 1
    path.unlink()
    path.symlink_to(write_edges(tmp_path / "secret" / "a.parquet", "x", "y"))
    with ingestor.open_graph(graph.id, should_stop=lambda: False) as opened:
        report = opened.ingest_pending()
    assert (report.n_committed, report.n_quarantined) == (0, 1)
    (file,) = manifest.list_files(graph.id)
    assert file.reason is not None
    assert "path must stay in" in file.reason


def test_other_settings_of_ingest_change_nothing_about_a_source(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    path = write_edges(tmp_path / "open" / "a.parquet", "a", "b")
    Manifest(database).sources.add(
        graph.id, str(path), confined_to=SourceRules.of(settings).place_of(str(path))
    )
    elsewhere = settings.model_copy(update={"source_roots": (), "source_schemes": ()})
    assert Ingestor(database, elsewhere).ingest_graph(graph.id).n_committed == 1


def test_the_owner_of_the_machine_is_not_confined(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    path = write_edges(tmp_path / "secret" / "a.parquet", "a", "b")
    Manifest(database).sources.add(graph.id, str(path))
    assert Ingestor(database, settings).ingest_graph(graph.id).n_committed == 1


def test_a_directory_that_holds_the_home_gives_none_of_its_files(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    write_edges(settings.home.parent / "mine" / "a.parquet", "a", "b")
    pushed = write_edges(settings.home / "graphs" / "g" / "pushes" / "p.parquet", "x", "y")
    manifest = Manifest(database)
    source = manifest.sources.add(graph.id, str(settings.home.parent))
    assert Ingestor(database, settings).list_source(graph.id, source) == 1
    assert [Path(file.path).name for file in manifest.list_files(graph.id)] == ["a.parquet"]
    own = manifest.sources.add(graph.id, str(pushed))
    assert Ingestor(database, settings).list_source(graph.id, own) == 1, "as k-NN edges are"
    followed, _ = list_files(source, home=settings.home)
    assert [Path(file.path).name for file in followed] == ["a.parquet"], "as daemons list it"


def test_adding_again_over_http_neither_frees_nor_binds_a_source(
    database: Database, graph: GraphRecord
) -> None:
    manifest = Manifest(database)
    owned = manifest.sources.add(graph.id, "/a")
    assert manifest.sources.add(graph.id, "/a", confined_to="/").confined_to is None
    manifest.sources.remove(graph.id, owned.id)
    assert manifest.sources.add(graph.id, "/a", confined_to="/").confined_to == "/"
    assert manifest.sources.add(graph.id, "/a", confined_to="/a").confined_to == "/a"
    assert manifest.sources.add(graph.id, "/a").confined_to is None


def test_sources_of_a_graph_are_counted(database: Database, graph: GraphRecord) -> None:
    manifest = Manifest(database)
    first = manifest.sources.add(graph.id, "/a", max_sources=1)
    assert manifest.sources.add(graph.id, "/a", follow=True, max_sources=1).id == first.id
    with pytest.raises(TooManySources, match="PEEWIT_MAX_SOURCES"):
        manifest.sources.add(graph.id, "/b", max_sources=1)
    manifest.sources.remove(graph.id, first.id)
    manifest.sources.add(graph.id, "/b", max_sources=1)
    with pytest.raises(TooManySources):
        manifest.sources.add(graph.id, "/a", max_sources=1)


@pytest.mark.parametrize(
    ("url", "place", "stays"),
    [
        ("s3://bucket/a", "s3a://", True),
        ("/etc/passwd", "s3://", False),
        ("http://x/a", "s3://", False),
        ("http://data.example/a", "http://data.example", True),
        ("https://data.example/a", "http://data.example", False),
        ("http://data.example.evil/a", "http://data.example", False),
        ("/etc/passwd", "http://data.example", False),
        ("s3://bucket/etc", "/etc", False),
        ("s3://bucket/table/data/a.parquet", "iceberg://", True),
        ("/house/table/data/a.parquet", "iceberg://", False),
        ("s3n://bucket/a", "s3://", True),
        ("gcs://bucket/a", "gs://", True),
        ("gs://bucket/a", "s3://", False),
        ("FILE:///etc/passwd", "s3://", False),
        ("fi\nle:///etc/passwd", "s3://", False),
        (" file:///etc/passwd", "s3://", False),
        ("file:/etc/passwd", "s3://", False),
        ("local:///etc/passwd", "s3://", False),
        ("FILE:///etc/passwd", "iceberg://", False),
        ("memory://a", "iceberg://", False),
    ],
)
def test_files_stay_in_the_place_of_their_source(
    tmp_path: Path, url: str, place: str, stays: bool
) -> None:
    assert is_within(url, place, home=tmp_path) is stays


class Redirecting(BaseHTTPRequestHandler):
    """Sends every caller to the address that the path names."""

    reached: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        header, mark, target = self.path.removeprefix("/").partition("/to/")
        if mark:
            self.send_response(302)
            self.send_header(header, target)
            self.end_headers()
            return
        Redirecting.reached.append(self.headers["Host"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(fsspec.config, "conf", {})
    Redirecting.reached.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_redirect_leads_to_no_host_that_nobody_has_named(port: int) -> None:
    here = f"http://127.0.0.1:{port}"
    other = f"http://localhost:{port}/x"
    confine_redirects([])
    file_system, _ = url_to_fs(here, skip_instance_cache=True)
    for header in ("Location", "URI"):
        with pytest.raises(PermissionError, match="PEEWIT_SOURCE_HOSTS"):
            file_system.cat_file(f"{here}/{header}/to/{other}")
    with pytest.raises(PermissionError, match="PEEWIT_SOURCE_HOSTS"):
        file_system.cat_file(f"{here}/Location/to///localhost:{port}/x")
    assert Redirecting.reached == []
    assert file_system.cat_file(f"{here}/Location/to//x") == b"ok"
    confine_redirects([f"localhost:{port}"])
    file_system, _ = url_to_fs(here, skip_instance_cache=True)
    assert file_system.cat_file(f"{here}/Location/to/{other}") == b"ok"
    assert Redirecting.reached == [f"127.0.0.1:{port}", f"localhost:{port}"]
