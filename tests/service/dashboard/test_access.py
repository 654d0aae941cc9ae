"""Signing in, sessions, scopes, and forms of other sites."""

import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from itsdangerous import TimestampSigner

from peewit.service.dashboard import sessions
from peewit.service.dashboard.api_with_dashboard import BEHIND_SIGN_IN, create_app
from peewit.service.dashboard.sessions import COOKIE, MAX_AGE_SECONDS, Sessions
from peewit.service.jobs.job import JobStatus
from peewit.service.key_store import KeyStore
from peewit.service.settings import Settings
from tests.service.api.conftest import CSV, Api, serving
from tests.service.dashboard.forms import PIECE, look, send

PAGES = [
    "/",
    "/jobs",
    "/models",
    "/models/auto",
    "/graphs/g",
    "/graphs/g/next-step",
    "/graphs/g/edges",
    "/graphs/g/start",
    "/help",
    "/graphs/g/features",
    "/graphs/g/live",
    "/graphs/g/growth",
    "/graphs/g/map",
    "/graphs/g/map/section",
    "/graphs/g/map/notes",
    "/graphs/g/map/tiles/0/0/0",
    "/graphs/g/labels",
    "/graphs/g/labels/counts",
    "/graphs/g/labels/doubtful",
    "/graphs/g/labels/agreement",
    "/graphs/g/jobs",
    "/graphs/g/predictions",
    "/graphs/g/predictions/summary",
    "/graphs/g/predictions/sets",
    "/graphs/g/predictions/abstention",
    "/graphs/g/predictions/download?format=csv",
    "/graphs/g/suspects",
    "/graphs/g/suspects/download?format=csv",
    "/graphs/g/suspects/reasons?id=a&positive=x",
    "/graphs/g/node?id=a",
    "/graphs/g/node/reasons?id=a",
    "/graphs/g/item?id=a",
    "/jobs/none",
]
READING = [("POST", "/graphs/g/card-columns")]
LABELING = [
    ("GET", "/graphs/g/label-next"),
    ("GET", "/graphs/g/label-next/card"),
    ("GET", "/graphs/g/label-next/effect"),
    ("POST", "/graphs/g/label-next"),
    ("POST", "/graphs/g/label-next/embedding"),
    ("POST", "/graphs/g/suspects"),
    ("POST", "/graphs/g/labels"),
    ("POST", "/graphs/g/labels/remove"),
    ("POST", "/graphs/g/labels/files"),
    ("GET", "/graphs/g/labels/files/x"),
    ("GET", "/graphs/g/labels/files/x/look"),
    ("POST", "/graphs/g/labels/files/x"),
    ("POST", "/graphs/g/labels/files/x/remove"),
    ("POST", "/models/auto"),
    ("POST", "/graphs/g/labels/decide"),
    ("POST", "/graphs/g/jobs"),
    ("POST", "/graphs/g/certify"),
    ("POST", "/graphs/g/map"),
    ("POST", "/jobs/none/cancel"),
]
INGESTING = [
    ("POST", "/graphs/g/sources/s/retry"),
    ("POST", "/graphs/g/files/1/retry"),
    ("POST", "/graphs/g/files/1/retract"),
    ("POST", "/graphs/g/repair"),
    ("POST", "/graphs/g/edges/files"),
    ("GET", "/graphs/g/edges/files/x"),
    ("GET", "/graphs/g/edges/files/x/look"),
    ("POST", "/graphs/g/edges/files/x"),
    ("POST", "/graphs/g/edges/files/x/remove"),
    ("POST", "/graphs/g/features/files"),
    ("GET", "/graphs/g/features/files/x"),
    ("GET", "/graphs/g/features/files/x/look"),
    ("POST", "/graphs/g/features/files/x"),
    ("POST", "/graphs/g/features/files/x/remove"),
    ("GET", "/graphs/g/edges/place?url=/nowhere"),
    ("GET", "/graphs/g/edges/place/look?url=/nowhere"),
    ("POST", "/graphs/g/edges/place"),
]
ADMINISTERING = [
    ("POST", "/graphs/g/label-next/auto-solve"),
    ("GET", "/new-graph"),
    ("POST", "/new-graph"),
    ("GET", "/start"),
    ("POST", "/start/files"),
    ("GET", "/start/tables"),
    ("GET", "/start/script"),
    ("POST", "/start/run"),
    ("POST", "/start/remove"),
    ("POST", "/graphs/g/edges/files/x/node-ids"),
]


@pytest.fixture
def keyed(pages: Api) -> Api:
    """A server that has keys, with a graph."""
    pages.create_graph("g")
    pages.push(b"src,dst\na,b\nb,c\n", CSV)
    pages.ingest()
    pages.home.keys.create("somebody", ["read"])
    return pages


def sign_in(api: Api, *scopes: Any, path: str = "/") -> None:
    key = api.home.keys.create("tester", scopes)
    answer = send(api, "/sign-in", key=key, next=path)
    assert answer.headers["location"] == path


def test_a_file_is_found_by_the_key_that_sent_it(keyed: Api) -> None:
    origin = str(keyed.client.base_url).rstrip("/")
    for holds in ("edges", "labels"):
        sign_in(keyed, "read", "ingest", "label")
        sent = keyed.client.post(
            f"/graphs/g/{holds}/files?name=t.csv",
            content=b"src,dst\na,b\n",
            headers={"Origin": origin, "Content-Type": CSV, **PIECE},
        )
        address = sent.json()["location"]
        look(keyed, address)
        sign_in(keyed, "read", "ingest", "label")
        look(keyed, address, 404)
        send(keyed, address, 404)
        send(keyed, f"{address}/remove", 404)


@pytest.mark.slow
def test_who_has_no_session_is_sent_to_sign_in_and_back(keyed: Api) -> None:
    for path in PAGES:
        answer = keyed.client.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in?next=%2F")
        piece = keyed.client.get(path, headers=PIECE)
        assert (piece.status_code, piece.headers["hx-redirect"]) == (401, "/sign-in")
    for method, path in READING + LABELING + INGESTING + ADMINISTERING:
        origin = str(keyed.client.base_url).rstrip("/")
        answer = keyed.client.request(method, path, headers={"Origin": origin})
        assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
    text = look(keyed, "/sign-in?next=/graphs/g")
    assert 'value="/graphs/g"' in text
    sign_in(keyed, "read", path="/graphs/g")
    for path in PAGES:
        assert keyed.client.get(path).status_code in {200, 404}, path
    send(keyed, "/sign-out")
    assert keyed.client.get("/").status_code == 303


def test_no_page_is_left_out_of_these_tests() -> None:
    routes = {
        (method, route.path_regex)
        for each in BEHIND_SIGN_IN
        for route in each.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    asked = [
        *(("GET", path.partition("?")[0]) for path in PAGES),
        *(
            (method, path.partition("?")[0])
            for method, path in READING + LABELING + INGESTING + ADMINISTERING
        ),
    ]
    for method, pattern in routes:
        assert any(verb == method and pattern.match(path) for verb, path in asked), pattern


def test_a_wrong_key_is_refused_and_slowed_down(keyed: Api) -> None:
    wrong = "lw_000000000000." + "x" * 43
    text = send(keyed, "/sign-in", 401, key=wrong).text
    assert "unknown, wrong or revoked" in text
    assert COOKIE not in keyed.client.cookies
    assert wrong not in text
    for _ in range(12):
        status = keyed.client.post(
            "/sign-in", data={"key": wrong}, headers={"Origin": str(keyed.client.base_url)}
        ).status_code
    assert status == 429


def test_the_cookie_is_for_this_server_only_and_holds_no_key(keyed: Api) -> None:
    key = keyed.home.keys.create("tester", ["read"])
    answer = send(keyed, "/sign-in", key=key)
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie  # plain http, as on this machine
    assert key.partition(".")[2] not in cookie
    over_tls = keyed.client.post(
        "/sign-in", data={"key": key}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert over_tls.status_code == 303


@pytest.mark.parametrize("where", ["https://evil.example/", "//evil.example", "/\\evil", "x"])
def test_signing_in_leads_to_no_other_site(keyed: Api, where: str) -> None:
    key = keyed.home.keys.create("tester", ["read"])
    assert send(keyed, "/sign-in", key=key, next=where).headers["location"] == "/"


def test_a_session_ends_with_its_key_and_with_the_day(
    keyed: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(keyed, "read")
    (key,) = [each for each in keyed.home.keys.list() if each.name == "tester"]
    kept = keyed.client.cookies[COOKIE]
    assert keyed.client.get("/").status_code == 200
    keyed.home.keys.revoke(key.prefix)
    assert keyed.client.get("/").status_code == 303
    store = Sessions(keyed.home.settings.home, keyed.home.keys)
    other = keyed.home.keys.create("other", ["read"])
    record = keyed.home.keys.verify(other)
    assert record is not None
    cookie = store.issue(record)
    found = store.session_of(cookie)
    assert found is not None
    assert (found.key.prefix, found.key.scopes) == (record.prefix, ("read",))
    assert found.said_name is None
    named = store.session_of(store.issue(record, "Zoë of / group 2"))
    assert named is not None
    assert (named.key.prefix, named.said_name) == (record.prefix, "Zoë of / group 2")
    for forged in (
        kept,
        cookie[:-9] + "xxxxxxxxx",
        other,
        "",
        "a.b.c",
        cookie.replace("lw_", "lx_"),
    ):
        assert store.session_of(forged) is None
    later = datetime.now(UTC) + timedelta(seconds=MAX_AGE_SECONDS + 2)
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _self: int(later.timestamp()))
    assert store.session_of(cookie) is None


def test_sessions_outlive_a_restart_and_the_secret_is_for_its_owner(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", database_url=None, admin_key_file=None)
    with serving(settings, create=create_app) as api:
        sign_in(api, "read")
        cookie = api.client.cookies[COOKIE]
    path = settings.home / "session-secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with serving(settings, create=create_app, cookies={COOKIE: cookie}) as api:
        assert api.client.get("/").status_code == 200
        path.unlink()
        assert Sessions(settings.home, api.home.keys).session_of(cookie) is None


def test_an_admin_key_with_a_new_secret_is_another_key(tmp_path: Path, pages: Api) -> None:
    keys = KeyStore(pages.home.database)
    store = Sessions(pages.home.settings.home, keys)
    cookie = store.issue(keys.ensure_admin_key("admin." + "a" * 40))
    assert store.session_of(cookie) is not None
    keys.ensure_admin_key("admin." + "b" * 40)
    assert store.session_of(cookie) is None


def test_processes_that_start_at_once_share_one_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sessions._secret_of(tmp_path / "session-secret")
    # as if the file came between two looks at it
    monkeypatch.setattr(Path, "exists", lambda _path: False)
    assert sessions._secret_of(tmp_path / "session-secret") == first
    assert [path.name for path in tmp_path.iterdir()] == ["session-secret"]


def test_a_secret_that_was_overwritten_signs_nothing(pages: Api) -> None:
    (pages.home.settings.home / "session-secret").write_bytes(b"")
    with pytest.raises(ValueError, match="session-secret must hold 32 bytes, got 0; delete it"):
        Sessions(pages.home.settings.home, pages.home.keys)


def test_every_button_needs_its_scope_and_is_shown_with_it_only(keyed: Api) -> None:
    origin = str(keyed.client.base_url).rstrip("/")
    sign_in(keyed, "read")
    for method, path in LABELING + INGESTING + ADMINISTERING:
        answer = keyed.client.request(method, path, headers={"Origin": origin})
        assert answer.status_code == 403, path
        assert "Scope missing" in answer.text
    assert "Put label" not in look(keyed, "/graphs/g/labels")
    sign_in(keyed, "read", "label")
    for method, path in INGESTING + ADMINISTERING:
        answer = keyed.client.request(method, path, headers={"Origin": origin})
        assert answer.status_code == 403, path
    assert "Put label" in look(keyed, "/graphs/g/labels")
    said = look(keyed, "/graphs/g/label-next")
    assert "Not predicted after every label" in said
    assert 'id="auto-solve"' not in said
    assert keyed.home.catalog.get("g").settings.auto_solve is None
    sign_in(keyed, "admin")
    assert 'id="auto-solve"' in look(keyed, "/graphs/g/label-next")


@pytest.mark.slow
def test_who_may_not_look_cancels_their_own_jobs_only(keyed: Api) -> None:
    sign_in(keyed, "read", "label")
    send(keyed, "/graphs/g/jobs")
    (others,) = keyed.home.jobs.list().jobs
    sign_in(keyed, "label")
    send(keyed, f"/jobs/{others.id}/cancel", 404)
    send(keyed, "/graphs/g/certify")
    (own,) = keyed.home.jobs.list(kind="certify").jobs
    send(keyed, f"/jobs/{own.id}/cancel")
    assert keyed.home.jobs.get(own.id).status is JobStatus.CANCELLED
    assert keyed.home.jobs.get(others.id).status is JobStatus.QUEUED


def test_who_may_not_look_sees_no_labels_beside_a_fault(keyed: Api) -> None:
    for scopes, is_shown in ((("label",), False), (("read", "label"), True)):
        sign_in(keyed, *scopes)
        refused = send(keyed, "/graphs/g/labels", 422, node="n5", label="", back="node?id=n5")
        assert "label must have" in refused.text
        assert ("Labeled nodes" in refused.text) is is_shown


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_a_form_of_another_site_changes_nothing(pages: Api, headers: dict[str, str]) -> None:
    pages.create_graph("g")
    pages.push(b"src,dst\na,b\n", CSV)
    pages.ingest()
    for path in ("/graphs/g/labels", "/sign-in", "/sign-out", "/graphs/g/jobs"):
        answer = pages.client.post(path, data={"node": "a", "label": "x"}, headers=headers)
        assert answer.status_code == 403
        assert "page of this server" in answer.text
    assert pages.home.labels.current(pages.home.catalog.get("g").id).labels == []


def test_without_any_key_only_this_machine_may_look(pages: Api) -> None:
    assert pages.client.get("/").status_code == 200
    answer = pages.client.get("/", headers={"Host": "rebound.example:8000"})
    assert answer.status_code == 303
    text = look(pages, "/sign-in")
    assert "peewit key create NAME" in text
    assert 'type="password"' not in text


def test_pages_may_be_framed_by_nobody_and_load_nothing_of_others(shown: Api) -> None:
    answer = shown.client.get("/graphs/g")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', answer.text)
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", answer.text)
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
        asset = shown.client.get(address)
        assert asset.status_code == 200
        assert "immutable" in asset.headers["cache-control"]
    assert shown.client.get("/static/app.js").headers["cache-control"] == "no-cache"
    assert shown.client.get("/static/../app.py").status_code == 404
    assert shown.client.get("/static/nothing.js").status_code == 404
