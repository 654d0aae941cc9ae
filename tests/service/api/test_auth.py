"""Keys and scopes; and who may call while there is no key."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI

from peewit.service.api.app import create_app
from peewit.service.key_store import Scope
from peewit.service.settings import Settings
from tests.service.api.conftest import CSV, Api, serving

CALLS: Mapping[tuple[str, str], Scope] = {
    ("GET", "/v1/graphs"): "read",
    ("POST", "/v1/graphs"): "admin",
    ("GET", "/v1/graphs/g"): "read",
    ("PATCH", "/v1/graphs/g"): "admin",
    ("DELETE", "/v1/graphs/g"): "admin",
    ("POST", "/v1/graphs/g/edges"): "ingest",
    ("DELETE", "/v1/graphs/g/edges"): "ingest",
    ("PUT", "/v1/graphs/g/features"): "ingest",
    ("POST", "/v1/graphs/g/features"): "ingest",
    ("GET", "/v1/graphs/g/features"): "read",
    ("GET", "/v1/graphs/g/features/sets/none"): "read",
    ("GET", "/v1/graphs/g/features/filtered"): "read",
    ("GET", "/v1/graphs/g/pushes/p"): "read",
    ("GET", "/v1/graphs/g/sources"): "read",
    ("POST", "/v1/graphs/g/sources"): "ingest",
    ("DELETE", "/v1/graphs/g/sources/s"): "ingest",
    ("POST", "/v1/graphs/g/sources/s:retry"): "ingest",
    ("GET", "/v1/graphs/g/files"): "read",
    ("GET", "/v1/graphs/g/files/1"): "read",
    ("DELETE", "/v1/graphs/g/files/1"): "ingest",
    ("POST", "/v1/graphs/g/files/1:retry"): "ingest",
    ("GET", "/v1/graphs/g/labels"): "read",
    ("GET", "/v1/graphs/g/labels:columns"): "read",
    ("GET", "/v1/graphs/g/labels:agreement"): "read",
    ("GET", "/v1/graphs/g/labels:disagreements"): "read",
    ("POST", "/v1/graphs/g/labels:decide"): "label",
    ("GET", "/v1/graphs/g/opinions"): "read",
    ("POST", "/v1/graphs/g/opinions"): "label",
    ("DELETE", "/v1/graphs/g/opinions?node=a"): "label",
    ("GET", "/v1/graphs/g/second-opinions"): "label",
    ("DELETE", "/v1/graphs/g/reservations?node=a"): "label",
    ("GET", "/v1/graphs/g/map"): "read",
    ("GET", "/v1/graphs/g/map/tiles/0/0/0"): "read",
    ("PUT", "/v1/graphs/g/labels"): "label",
    ("DELETE", "/v1/graphs/g/labels?node=a"): "label",
    ("POST", "/v1/graphs/g/jobs"): "label",
    ("POST", "/v1/graphs/g/jobs:estimate"): "read",
    ("POST", "/v1/graphs/g/jobs:solve"): "label",
    ("GET", "/v1/jobs"): "read",
    ("GET", "/v1/jobs/j"): "read",
    ("GET", "/v1/jobs/j/events"): "read",
    ("POST", "/v1/jobs/j:cancel"): "label",
    ("POST", "/v1/jobs/j:predict"): "read",
    ("GET", "/v1/graphs/g/predictions"): "read",
    ("GET", "/v1/graphs/g/predictions/node?id=a"): "read",
    ("GET", "/v1/graphs/g/predictions/rows"): "read",
    ("POST", "/v1/graphs/g/predictions:lookup"): "read",
    ("POST", "/v1/graphs/g/predictions:evaluate"): "read",
    ("GET", "/v1/graphs/g/predictions/abstention?max_error=.1"): "read",
    ("GET", "/v1/graphs/g/predictions/sets?coverage=.9"): "read",
    ("GET", "/v1/graphs/g/predictions/doubtful-labels"): "read",
    ("GET", "/v1/graphs/g/predictions/node/reasons?id=a"): "read",
    ("GET", "/v1/graphs/g/predictions/threshold?positive=a"): "read",
    ("GET", "/v1/graphs/g/suggestions"): "label",
    ("GET", "/v1/graphs/g/snapshots"): "read",
    ("GET", "/v1/graphs/g/relations"): "read",
    ("GET", "/v1/graphs/g/snapshots/1/edges"): "read",
    ("POST", "/v1/graphs/g/erasures"): "erase",
    ("GET", "/v1/graphs/g/erasures"): "read",
    ("GET", "/v1/graphs/g/erasures/e"): "read",
    ("POST", "/v1/graphs/g/horizon"): "ingest",
    ("POST", "/v1/graphs/g/repairs"): "ingest",
    ("GET", "/v1/graphs/g/horizon"): "read",
    ("GET", "/v1/graphs/g/repairs"): "read",
    ("GET", "/v1/models"): "read",
    ("GET", "/metrics"): "read",
}
ALSO: Mapping[tuple[str, str], Scope] = {
    ("GET", "/v1/jobs"): "label",
    ("GET", "/v1/jobs/j"): "label",
    ("GET", "/v1/jobs/j/events"): "label",
    ("GET", "/v1/graphs/g/pushes/p"): "ingest",
    ("GET", "/v1/graphs/g/features/sets/none"): "ingest",
    ("GET", "/v1/graphs/g/horizon"): "ingest",
    ("GET", "/v1/graphs/g/repairs"): "ingest",
    ("GET", "/v1/graphs/g/erasures"): "erase",
    ("GET", "/v1/graphs/g/erasures/e"): "erase",
}
"""Calls that another scope allows too, of what its key has made."""

OPEN = ["/healthz", "/readyz", "/v1/version", "/openapi.json", "/docs"]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.slow
def test_every_call_needs_a_key_with_its_scope(api: Api) -> None:
    home = api.home
    others: dict[Scope, str] = {
        "read": home.keys.create("all but read", ["label", "ingest"]),
        "label": home.keys.create("all but label", ["read", "ingest"]),
        "ingest": home.keys.create("all but ingest", ["read", "label"]),
        "erase": home.keys.create("all but erase", ["read", "label", "ingest"]),
        "admin": home.keys.create("all but admin", ["read", "label", "ingest", "erase"]),
    }
    admin = home.keys.create("all", ["admin"])
    no_reader = {
        "label": home.keys.create("only ingest", ["ingest"]),
        "ingest": home.keys.create("only label", ["label"]),
        "erase": home.keys.create("neither", ["label", "ingest"]),
    }
    for (method, path), scope in CALLS.items():
        also = ALSO.get((method, path))
        nobody = api.client.request(method, path)
        assert (nobody.status_code, nobody.headers["www-authenticate"]) == (
            401,
            'Bearer realm="peewit"',
        ), path
        refused = others[scope] if also is None else no_reader[also]
        other = api.client.request(method, path, headers=bearer(refused))
        assert other.status_code == 403, path
        assert other.json()["title"] == "Scope missing"
        assert f'scope="{scope}"' in other.headers["www-authenticate"]
        granted = api.client.request(method, path, headers=bearer(admin))
        assert granted.status_code not in {401, 403}, path


def test_who_may_only_write_can_follow_what_it_wrote(api: Api) -> None:
    labels, edges = (api.home.keys.create(scope, [scope]) for scope in ("label", "ingest"))
    admin = api.home.keys.create("all", ["admin"])
    api.call("POST", "/graphs", 201, json={"name": "g"}, headers=bearer(admin))
    body = {"kind": "solve", "model": "stable-hfs"}
    job = api.call("POST", "/graphs/g/jobs", 202, json=body, headers=bearer(labels)).json()
    api.call("GET", f"/jobs/{job['id']}?wait=0.01", 200, headers=bearer(labels))
    api.call("POST", f"/jobs/{job['id']}:cancel", 200, headers=bearer(labels))
    api.call("GET", f"/jobs/{job['id']}/events", 200, headers=bearer(labels))
    for path in ("edges", "features"):
        content = {"edges": b"src,dst\na,b\n", "features": b"node,x\na,1\n"}[path]
        headers = bearer(edges) | {"Content-Type": CSV}
        taken = api.call(
            "POST", f"/graphs/g/{path}", 202, content=content, headers=headers
        ).headers["location"]
        api.call("GET", taken.removeprefix("/v1"), 200, headers=bearer(edges))
        api.call("GET", taken.removeprefix("/v1"), 403, headers=bearer(labels))
    (listed,) = api.call("GET", "/jobs", 200, headers=bearer(labels)).json()["jobs"]
    assert listed["id"] == job["id"]
    api.call("GET", "/jobs", 403, headers=bearer(edges))


@pytest.mark.parametrize("scopes", [["label", "ingest"], ["admin"], None])
def test_who_may_only_write_sees_nothing_of_others(api: Api, scopes: list[Scope] | None) -> None:
    keys = api.home.keys
    api.call("POST", "/graphs", 201, json={"name": "g"})
    owner = {} if scopes is None else bearer(keys.create("owner", scopes))  # nobody without a key
    once, csv = {"Idempotency-Key": "once"}, {"Content-Type": CSV}
    solve = {"json": {"kind": "solve", "model": "stable-hfs"}}
    edges = {"content": b"src,dst\na,b\n"}
    features = {"content": b"node,x\na,1\n"}
    job = api.call("POST", "/graphs/g/jobs", 202, **solve, headers=owner | once).json()["id"]
    push = api.call("POST", "/graphs/g/edges", 202, **edges, headers=owner | once | csv)
    rows = api.call("POST", "/graphs/g/features", 202, **features, headers=owner | csv)
    made = [
        f"/jobs/{job}",
        f"/jobs/{job}/events",
        *(each.headers["location"].removeprefix("/v1") for each in (push, rows)),
    ]
    other = bearer(keys.create("other", ["label", "ingest"]))
    for path in made:
        refused = api.call("GET", path, 404, headers=other).json()
        identifier = path.removesuffix("/events").rpartition("/")[2]
        unknown = api.call("GET", path.replace(identifier, "0"), 404, headers=other).json()
        assert refused["detail"].replace(identifier, "0") == unknown["detail"]
    api.call("POST", f"/jobs/{job}:cancel", 404, headers=other)
    assert api.call("GET", "/jobs", 200, headers=other).json()["jobs"] == []
    api.call("GET", f"/jobs?page={job}", 404, headers=other)
    api.call("POST", "/graphs/g/jobs", 409, **solve, headers=other | once)
    api.call("POST", "/graphs/g/edges", 409, **edges, headers=other | once | csv)
    admin, reader = (bearer(keys.create("one", [scope])) for scope in ("admin", "read"))
    api.call("POST", f"/jobs/{job}:cancel", 200, headers=admin)
    for path in made:
        api.call("GET", path, 200, headers=reader)


def test_every_call_is_in_the_list_above(api: Api) -> None:
    described = api.client.get("/openapi.json").json()["paths"]
    n_calls = sum(len(methods) for path, methods in described.items() if path not in OPEN)
    assert n_calls == len(CALLS)


@pytest.mark.parametrize("key", ["nonsense", "lw_000000000000." + "x" * 43, "ü.ü"])
def test_a_wrong_key_is_refused(api: Api, key: str) -> None:
    api.home.keys.create("one", ["read"])
    refused = api.client.get(
        "/v1/graphs", headers={"Authorization": b"Bearer " + key.encode("latin-1")}
    )
    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    assert refused.headers["content-type"] == "application/problem+json"


def test_a_revoked_key_is_refused(api: Api) -> None:
    key = api.home.keys.create("one", ["read"])
    assert api.client.get("/v1/graphs", headers=bearer(key)).status_code == 200
    api.home.keys.revoke(key.partition(".")[0])
    assert api.client.get("/v1/graphs", headers=bearer(key)).status_code == 401


def test_without_a_key_nobody_enters_once_the_last_is_revoked(api: Api) -> None:
    assert api.client.get("/v1/graphs").status_code == 200
    key = api.home.keys.create("one", ["read"])
    api.home.keys.revoke(key.partition(".")[0])
    assert api.client.get("/v1/graphs").status_code == 401
    api.home.keys.open_again()
    assert api.client.get("/v1/graphs").status_code == 200


def test_a_body_is_not_read_for_nobody(api: Api) -> None:
    api.create_graph("g")
    api.home.keys.create("one", ["read"])
    headers = {"Content-Type": CSV}
    api.problem("POST", "/graphs/g/edges", 401, content=b"src,dst\na,b\n", headers=headers)
    assert api.home.manifest.backlog(api.home.catalog.get("g").id).n_files == 0


def test_some_calls_are_open(api: Api) -> None:
    api.home.keys.create("one", ["read"])
    for path in OPEN:
        assert api.client.get(path).status_code == 200, path


def test_the_key_file_makes_the_first_key(tmp_path: Path) -> None:
    key = "admin." + "0123456789abcdef" * 4
    (tmp_path / "key").write_text(key + "\n")
    settings = Settings(home=tmp_path, database_url=None, admin_key_file=tmp_path / "key")
    with serving(settings) as api:
        assert api.client.get("/v1/graphs").status_code == 401
        assert api.client.get("/v1/graphs", headers=bearer(key)).status_code == 200


def status_from(app: FastAPI, client: str, url: str, **headers: str) -> int:
    """The code that a client at some address gets."""

    async def call() -> int:
        transport = httpx.ASGITransport(app, client=(client, 1234))
        async with httpx.AsyncClient(transport=transport) as http:
            return (await http.get(url, headers=headers)).status_code

    return anyio.run(call)


def test_without_any_key_only_this_machine_may_call(settings: Settings) -> None:
    app = create_app(settings)
    local = "http://localhost:8000/v1/graphs"
    try:
        for client in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
            assert status_from(app, client, local) == 200
        for client in ("10.0.0.7", "::ffff:10.0.0.7", "2001:db8::1", "testclient"):
            assert status_from(app, client, local) == 401
            assert status_from(app, client, "http://localhost:8000/healthz") == 200
        key = app.state.home.keys.create("one", ["read"])
        assert status_from(app, "10.0.0.7", local, **bearer(key)) == 200
    finally:
        app.state.home.database.close()


def test_without_any_key_no_other_site_may_call_through_a_browser(settings: Settings) -> None:
    app = create_app(settings)
    here = "127.0.0.1"
    try:
        assert status_from(app, here, "http://rebound.example:8000/v1/graphs") == 401
        local = "http://127.0.0.1:8000/v1/graphs"
        assert status_from(app, here, local, Origin="http://evil.example") == 401
        assert status_from(app, here, local, Origin="http://127.0.0.1:8000") == 200
    finally:
        app.state.home.database.close()
