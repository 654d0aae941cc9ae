"""Who may be let in: loopback without a key, every address with one."""

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.api.port import allow_open_files, check_binding, is_loopback
from peewit.service.database.engine import Database, open_database
from peewit.service.key_store import KeyStore
from peewit.service.settings import Settings
from tests.fresh_databases import fresh


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = open_database(fresh(settings.database))
    yield database
    database.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_what_others_may_reach_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_loopback_needs_no_key(settings: Settings, database: Database) -> None:
    check_binding("127.0.0.1", 0, settings=settings, database=database)


def test_wider_address_without_key_is_refused(settings: Settings, database: Database) -> None:
    with pytest.raises(PermissionError, match="peewit key create"):
        check_binding("0.0.0.0", 0, settings=settings, database=database)


def test_a_key_allows_a_wider_address_even_once_revoked(
    settings: Settings, database: Database
) -> None:
    keys = KeyStore(database)
    key = keys.create("new", ["read"])
    check_binding("0.0.0.0", 0, settings=settings, database=database)
    keys.revoke(key.partition(".")[0])
    check_binding("0.0.0.0", 0, settings=settings, database=database)  # nobody enters
    keys.open_again()
    with pytest.raises(PermissionError):
        check_binding("0.0.0.0", 0, settings=settings, database=database)


def test_admin_key_file_allows_a_wider_address(tmp_path: Path, database: Database) -> None:
    settings = Settings(home=tmp_path, admin_key_file=tmp_path / "key")
    check_binding("0.0.0.0", 0, settings=settings, database=database)


def test_port_in_use_is_named(settings: Settings, database: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}"):
            check_binding("127.0.0.1", port, settings=settings, database=database)


def test_as_many_files_may_be_open_as_streams_need() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        allow_open_files(1000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (2024, hard)
        allow_open_files(10)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (2024, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
