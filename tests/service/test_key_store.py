"""Bearer keys, on SQLite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from peewit.service.database.engine import Database
from peewit.service.database.tables import keys
from peewit.service.database.timestamps import now
from peewit.service.key_store import KeyNotFound, KeysInUse, KeyStore

ADMIN = "admin." + "0123456789abcdef" * 4


@pytest.fixture
def store(database: Database) -> KeyStore:
    return KeyStore(database)


def prefix(key: str) -> str:
    return key.partition(".")[0]


def test_a_key_is_recognized_with_its_name_and_scopes(store: KeyStore) -> None:
    key = store.create("the label tool", ["label", "read"])
    record = store.verify(key)
    assert record is not None
    assert (record.name, record.scopes) == ("the label tool", ("read", "label"))
    assert record.prefix == prefix(key)


def test_a_key_allows_its_scopes_and_an_admin_key_allows_all(store: KeyStore) -> None:
    reader, admin = store.verify(store.create("r", ["read"])), store.ensure_admin_key(ADMIN)
    assert reader is not None
    assert [reader.allows(scope) for scope in ("read", "label", "ingest", "erase", "admin")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert all(admin.allows(scope) for scope in ("read", "label", "ingest", "erase", "admin"))


def test_the_secret_is_nowhere_in_the_database(database: Database, store: KeyStore) -> None:
    secret = store.create("k", ["read"]).partition(".")[2]
    with database.read() as connection:
        assert secret not in str(connection.execute(select(keys)).all())
    assert len(secret) >= 43


def test_anything_but_the_key_is_refused(store: KeyStore) -> None:
    key = store.create("k", ["read"])
    wrong = [key[:-1], key + "x", key.replace("lw_", "lw-"), key.partition(".")[2], "." + key]
    strange = [key + "\n", key + "\0", key + "é", "\udc80" + key, "", "." * 1000]
    assert [store.verify(each) for each in wrong + strange] == [None] * 11
    assert store.verify(key) is not None


def test_a_revoked_key_is_refused(store: KeyStore) -> None:
    first, second = store.create("a", ["read"]), store.create("b", ["read"])
    store.revoke(prefix(first))
    store.revoke(prefix(first))
    assert store.verify(first) is None
    assert store.verify(second) is not None
    revoked = {record.name: record.revoked_at is not None for record in store.list()}
    assert revoked == {"a": True, "b": False}


def test_an_unknown_key_cannot_be_revoked(store: KeyStore) -> None:
    with pytest.raises(KeyNotFound, match="no key 'lw_none'"):
        store.revoke("lw_none")


def test_keys_are_needed_once_one_was_made_until_the_door_is_opened(store: KeyStore) -> None:
    assert not store.are_needed()
    key = store.create("a", ["read"])
    assert store.are_needed()
    with pytest.raises(KeysInUse, match=f"no key may be valid, got {prefix(key)}; revoke it"):
        store.open_again()
    store.revoke(prefix(key))
    assert store.are_needed()
    store.open_again()
    assert not store.are_needed()
    assert store.list() == []


def test_scopes_must_be_known_and_not_none(store: KeyStore) -> None:
    refused: list[Any] = [[], ["write"], ["read", "all"]]
    for scopes in refused:
        with pytest.raises(
            ValueError, match="scopes must be some of read, label, ingest, erase, admin"
        ):
            store.create("k", scopes)


def test_a_key_needs_a_name(store: KeyStore) -> None:
    with pytest.raises(ValueError, match="name must say what the key is for"):
        store.create(" ", ["read"])


def test_the_time_of_use_is_noted_once_a_minute(database: Database, store: KeyStore) -> None:
    key = store.create("k", ["read"])
    assert store.list()[0].last_used_at is None
    store.verify(key)
    first = store.list()[0].last_used_at
    store.verify(key)
    assert first is not None
    assert store.list()[0].last_used_at == first
    with database.write() as connection:
        connection.execute(update(keys).values(last_used_at=now(-61.0)))
    store.verify(key)
    last = store.list()[0].last_used_at
    assert last is not None
    assert last >= first - timedelta(seconds=1)


def test_a_wrong_secret_is_no_use(store: KeyStore) -> None:
    store.verify(prefix(store.create("k", ["read"])) + "." + "x" * 43)
    assert store.list()[0].last_used_at is None


def test_the_admin_key_of_a_file_is_made_valid_once(store: KeyStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        texts = [f"  {ADMIN}\n"] * 4
        prefixes = {each.prefix for each in pool.map(store.ensure_admin_key, texts, timeout=60)}
    assert prefixes == {"admin"}
    record = store.verify(ADMIN)
    assert record is not None
    assert record.scopes == ("admin",)
    assert len(store.list()) == 1


def test_a_new_secret_in_the_file_replaces_the_old_one(store: KeyStore) -> None:
    changed = "admin." + "f" * 64
    store.ensure_admin_key(ADMIN)
    store.ensure_admin_key(changed)
    assert store.verify(ADMIN) is None
    assert store.verify(changed) is not None


def test_a_revoked_admin_key_stays_revoked_until_the_file_changes(store: KeyStore) -> None:
    store.ensure_admin_key(ADMIN)
    store.revoke("admin")
    with pytest.raises(ValueError, match="admin key must be valid, got admin, which was revoked"):
        store.ensure_admin_key(ADMIN)
    store.ensure_admin_key("admin." + "f" * 64)
    assert store.active("admin") is not None


def test_an_admin_key_of_another_form_is_refused_without_being_shown(store: KeyStore) -> None:
    for text in ("", "hush", "admin.short", "a b." + "x" * 64):
        with pytest.raises(ValueError, match=f"got a text of {len(text)}; make one") as refusal:
            store.ensure_admin_key(text)
        assert not text or text not in str(refusal.value)
