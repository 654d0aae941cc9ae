"""What others can do to a server: wrong clocks, odd tables, names that speak to terminals.

All of it by real processes: what is told, and that whatever else the server does goes on.
"""

import gzip
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest
from blake3 import blake3
from deltalake import DeltaTable, write_deltalake

from peewit.service.client import Client
from peewit.service.upkeep.backup_format import DATABASE, MANIFEST
from tests.end_to_end.processes import Home, Server, eventually
from tests.service.live_sources.tables import append, edges, make_table

CONFIRM = "`peewit graph set g --clock-right`"
EVIL = "\x1b[31m\x1b[2Jn\x9b1m"
CSV = {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def served(compiled: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that looks for changes all the time."""
    directory = tmp_path_factory.mktemp("others") / "home"
    home = Home(directory, PEEWIT_LIST_SECONDS="1", PEEWIT_SETTLE_SECONDS="0.1")
    yield Server(home)
    home.end()


def push(server: Server, graph: str, lines: str) -> str:
    status, answer = server.call("POST", f"/v1/graphs/{graph}/edges", lines.encode(), CSV)
    assert status in {200, 202}, answer
    return str(answer["id"])


def source_of(server: Server, graph: str) -> Any:
    (source,) = server.client.sources(graph)
    return source


# ------------------------------------------------------------------------------------ the clock
@contextmanager
def clock_ahead(home: Home) -> Iterator[None]:
    """Files arrive 40 days ahead, as the database's clock tells."""
    path = home.directory / "peewit.db"
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        connection.executescript(
            "CREATE TRIGGER ahead AFTER INSERT ON files BEGIN UPDATE files SET created_at = "
            "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+40 days') WHERE id = new.id; END"
        )
    try:
        yield
    finally:
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute("DROP TRIGGER ahead")


def test_an_arrival_ahead_waits_through_a_restart_until_the_clock_is_said_to_be_right(
    compiled: None, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    try:
        server = Server(home)
        server.client.create_graph("g", window={"length": "30d", "by": "arrival"})
        early = push(server, "g", "src,dst\nann,hub\n")

        def is_in(push_id: str) -> bool:
            return bool(server.get(f"/v1/graphs/g/pushes/{push_id}")[1]["status"] == "committed")

        def note() -> str:
            return server.get(f"/v1/graphs/g/pushes/{ahead}")[1]["note"] or ""

        eventually(lambda: is_in(early))
        with clock_ahead(home):
            ahead = push(server, "g", "src,dst\nbob,hub\n")
            eventually(lambda: CONFIRM in note())
        server.process.terminate()
        server.process.wait(timeout=60)
        server = Server(home)
        later = push(server, "g", "src,dst\ncay,hub\n")
        eventually(lambda: is_in(later))
        assert not is_in(ahead)
        assert CONFIRM in note()
        ready = str(server.get("/readyz")[1]["ingest"])
        assert CONFIRM in ready
        assert "40 d after all before them" in ready
        assert CONFIRM in home.run("doctor")
        home.run("graph", "set", "g", "--clock-right")
        eventually(lambda: is_in(ahead))
        last = push(server, "g", "src,dst\neve,hub\n")
        eventually(lambda: is_in(last))
        window = server.client.graph("g").window
        assert window is not None
        assert (window.n_live, window.n_expired, window.n_late) == (4, 0, 0)
    finally:
        home.end()


# -------------------------------------------------------------------------------- odd tables
def test_packed_metadata_is_refused_and_others_go_on(served: Server, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
    from peewit.service.live_sources.iceberg_unpacking import MOST_METADATA_BYTES
    from tests.service.live_sources.iceberg_tables import catalog_in
    from tests.service.live_sources.iceberg_tables import make_table as make_iceberg

    with catalog_in(served.home.directory.parent / "house") as catalog:
        table = make_iceberg(catalog, [("a", "b", 1.0)])
    path = Path(table.metadata_location.removeprefix("file://"))
    packed = path.with_name("00009-far.gz.metadata.json")
    packed.write_bytes(gzip.compress(path.read_bytes() + b" " * (4 * MOST_METADATA_BYTES), 1))
    assert packed.stat().st_size < MOST_METADATA_BYTES // 20
    served.client.create_graph("packed")
    served.client.create_graph("beside")
    served.client.add_source("packed", table.location(), kind="iceberg", follow=True)
    eventually(lambda: source_of(served, "packed").error is not None)
    assert "must unpack to at most" in source_of(served, "packed").error
    ingest = served.roles()["ingest"]
    served.client.push_edges("beside", edges([("a", "b", 1.0)]), wait=60)
    assert served.client.graph("beside").nodes == 2
    assert served.roles()["ingest"].pid == ingest.pid, "it goes on"


def test_a_source_whose_reading_kills_the_daemon_has_failed(served: Server) -> None:
    """A daemon that is killed while it reads a table, as for want of memory."""
    directory = served.home.directory.parent / "stuck"
    url = make_table(directory, [("a", "b", 1.0)], feed=False)
    (file,) = directory.glob("*.parquet")
    file.unlink()
    os.mkfifo(file)  # whoever opens it waits
    served.client.create_graph("stuck")
    served.client.add_source("stuck", url, kind="delta", follow=True)
    reading = served.home.directory / "reading" / source_of(served, "stuck").id
    eventually(lambda: reading.exists() and reading.stat().st_size > 0)
    served.roles()["ingest"].send_signal(signal.SIGKILL)
    eventually(
        lambda: (
            "was killed, perhaps because memory ran out" in (source_of(served, "stuck").error or "")
        )
    )
    served.client.remove_source("stuck", source_of(served, "stuck").id)
    served.client.create_graph("after")
    served.client.push_edges("after", edges([("a", "b", 1.0)]), wait=60)


def test_columns_that_were_renamed_and_are_back_stop_the_source_visibly(served: Server) -> None:
    url = make_table(served.home.directory.parent / "renamed", [("a", "b", 1.0)], feed=False)
    served.client.create_graph("renamed", deletions="exact")
    served.client.add_source("renamed", url, kind="delta", follow=True)
    eventually(lambda: served.client.graph("renamed").nodes == 2)
    rows = edges([("x", "y", 9.0)])
    other = rows.rename_columns(["a", "dst", "weight"])
    write_deltalake(url, other, mode="overwrite", schema_mode="overwrite")
    write_deltalake(url, rows, mode="overwrite", schema_mode="overwrite")
    append(url, [("x", "z", 1.0)])
    assert DeltaTable(url).version() == 3
    eventually(lambda: source_of(served, "renamed").error is not None)
    time.sleep(2.5)  # tried again meanwhile
    source = source_of(served, "renamed")
    assert "version 1" in source.error
    assert source.lag > 0
    assert "renamed" in served.home.run("doctor")


# ------------------------------------------------------------------------- followed sources
def test_a_new_file_of_one_of_200_followed_sources_is_soon_taken(served: Server) -> None:
    root = served.home.directory.parent / "many"
    served.client.create_graph("many")
    for number in range(200):
        (root / f"{number:03}").mkdir(parents=True)
        served.client.add_source("many", str(root / f"{number:03}"), follow=True)
    first = root / "199" / "e.csv"
    first.write_text("src,dst\na,b\n")
    eventually(lambda: served.client.graph("many").nodes == 2)  # all were listed once
    started = time.monotonic()
    (root / "137" / "e.csv").write_text("src,dst\nc,d\n")
    eventually(lambda: served.client.graph("many").nodes == 4, pause_seconds=0.1)
    assert time.monotonic() - started < 10.0


# --------------------------------------------------------------------- names that others give
def test_controls_of_others_reach_no_terminal(home: Home, tmp_path: Path) -> None:
    evil = tmp_path / f"{EVIL}.ndjson"
    evil.write_text(json.dumps({"src": EVIL, "dst": "b"}) + "\n")
    bad = tmp_path / f"{EVIL}bad.ndjson"
    bad.write_text(json.dumps({"src": EVIL, "dst": "b", "weight": EVIL}) + "\n")
    labels = tmp_path / "l.ndjson"
    row = {"node": EVIL, "label": EVIL, "annotator": None}
    labels.write_text(json.dumps(row) + "\n")
    commands: tuple[tuple[object, ...], ...] = (
        ("graph", "create", "g"),
        ("ingest", "g", evil),
        ("ingest", "g", bad),
        ("labels", "put", "g", labels, "--annotator", "ann"),
        ("labels", "list", "g"),
        ("labels", "list", "g", "--json"),
        ("source", "list", "g"),
        ("graph", "show", "g"),
        ("graph", "show", EVIL),
        ("graph", "watch", "g"),
        ("labels", "remove", "g", f"{EVIL}x"),
        ("why", "g", EVIL),
        ("doctor",),
    )
    shown = ""
    for command in commands:
        _, out = home.said(*command)
        assert not any(word in out for word in ("\x1b", "\x9b", "Traceback")), command
        shown += out
    assert r"\x1b[31m\x1b[2Jn\x9b1m" in shown
    assert json.loads(home.run("labels", "list", "g", "--json"))[0]["node"] == EVIL


# ---------------------------------------------------------------------------- a changed backup
@pytest.mark.parametrize("graph_id", ["../../x", "../outside"])
def test_a_changed_backup_touches_nothing_outside(
    home: Home, tmp_path: Path, graph_id: str
) -> None:
    home.run("graph", "create", "g")
    home.run("backup", tmp_path / "backup")
    with closing(sqlite3.connect(tmp_path / "backup" / DATABASE)) as connection:
        connection.execute("UPDATE graphs SET id = ?", (graph_id,))
        connection.commit()
    content = (tmp_path / "backup" / DATABASE).read_bytes()
    page = json.loads((tmp_path / "backup" / MANIFEST).read_text())
    for file in page["files"]:
        if file["path"] == DATABASE:
            file |= {"size": len(content), "digest": blake3(content).hexdigest()}
    (tmp_path / "backup" / MANIFEST).write_text(json.dumps(page))
    kept = tmp_path / "x"
    kept.mkdir()
    (kept / "file").write_text("mine")
    other = Home(tmp_path / "other", program=home.program)
    try:
        code, told = other.said("restore", tmp_path / "backup")
        assert code == 1
        assert "32 hexadecimal digits" in told
        other.run("graph", "create", "h")
        other.run("graph", "delete", "h", "--yes")
        (tmp_path / "backup" / MANIFEST).write_text("[" * 100_000)
        code, told = other.said("restore", tmp_path / "backup")
        assert code == 1
        assert "no page of a backup" in told
    finally:
        other.end()
    assert (kept / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home", "other", "x"]


# -------------------------------------------------------------------------------- odd tasks
def test_one_odd_task_of_many_is_refused_alone(home: Home, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(f"n{i},hub\n" for i in range(33)))
    home.run("graph", "create", "g")
    home.run("ingest", "g", tmp_path / "e.csv")

    def task(number: int, choices: object) -> dict[str, Any]:
        result = [{"from_name": "label", "type": "choices", "value": {"choices": choices}}]
        said = {"id": number, "completed_by": 1, "result": result, "was_cancelled": False}
        data = {"node": f"n{number}", "graph": "g"}
        return {"id": number, "data": data, "annotations": [said]}

    tasks = [task(number, 5 if number == 17 else ["xy"[number % 2]]) for number in range(33)]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    answer = home.json("labelstudio", "labels", "g", tmp_path / "export.json")
    assert answer["accepted"] == 32
    assert [each["task"] for each in answer["refused"]] == ["17"]


# --------------------------------------------------------------------------- whoever labels
def test_a_key_stands_beside_its_labels_and_its_uploads_are_its_own(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    try:
        server = Server(home)
        server.client.create_graph("g")
        server.client.push_edges("g", edges([("a", "b", 1.0), ("b", "c", 1.0)]), wait=60)
        names = ["bob", "x" * 150]
        bob, long = (
            home.run("key", "create", name, "--scope", "read", "--scope", "label").strip()
            for name in names
        )
        told: list[tuple[Any, Any]] = []
        for key, node, annotator in ((bob, "a", "ann"), (long, "b", None)):
            client = home.closing(Client(server.url, api_key=key))
            client.put_labels("g", {node: "x"}, annotator=annotator)
            exported = client.labels("g")
            client.put_labels("g", exported)  # ready to be put again
            row = next(each for each in exported.to_pylist() if each["node"] == node)
            told.append((row["annotator"], row["key"]))
        assert told == [("ann", "bob"), (long.partition(".")[0], "x" * 150)]
        rows = home.json("labels", "list", "g")
        assert {each["key"] for each in rows} == {"x" * 150}
        browser, other = signed_in(server, bob), signed_in(server, long)
        sent = f"/graphs/g/labels/files?{urlencode({'name': 'l.csv'})}"
        headers = {"Content-Type": "text/csv", "Origin": server.url, "HX-Request": "true"}
        with browser(sent, b"node,label\nc,y\n", headers) as answer:
            address = json.loads(answer.read())["location"]
        browser(address).close()
        for path, code in ((address, 404), ("/v1/graphs", 401)):
            with pytest.raises(HTTPError) as refused:
                other(path)
            assert refused.value.code == code
            assert refused.value.headers["X-Content-Type-Options"] == "nosniff"
            refused.value.close()
    finally:
        home.end()


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


def signed_in(server: Server, key: str) -> Any:
    """A browser with the cookie of a key: asks for a path, or sends a body there."""
    opener = build_opener(_Stay())
    form = Request(
        f"{server.url}/sign-in",
        data=urlencode({"key": key}).encode(),
        headers={"Origin": server.url},
    )
    with pytest.raises(HTTPError) as answer:
        opener.open(form, timeout=60)
    cookie = answer.value.headers["Set-Cookie"].partition(";")[0]
    answer.value.close()

    def ask(path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
        told = {"Cookie": cookie, **(headers or {})}
        return opener.open(Request(server.url + path, data=body, headers=told), timeout=60)

    return ask
