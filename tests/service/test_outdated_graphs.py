"""Graphs of before, whose kind there is no more, at every door; and the others beside them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from peewit.service.catalog import Catalog, GraphNotFound, GraphOutdated
from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.leaving.erasure_ledger import LEDGER, Ledger
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.jobs.job import JobSpec, JobStatus
from peewit.service.settings import Settings
from peewit.service.upkeep.doctor import Level, Patient, examine
from peewit.service.worker.run_one_job import run_until_finished
from peewit.service.worker.worker import Worker
from peewit.streaming.edges.windows import Window
from tests.service.api.conftest import CSV, Api, serving
from tests.service.cli.conftest import Peewit, home, peewit
from tests.service.dashboard.forms import PIECE, look, send
from tests.service.lasting_children import lasting_child
from tests.service.outdated_home import MONDAY, copy_to, monday_file
from tests.service.places import Place

__all__ = ["home", "peewit"]

OUTDATED = ("calls", "visits")
OTHERS = ["friends", "plain", "recent"]
REASONS = {
    "visits": "its deletions are approximate, and they are off or exact now",
    "calls": "its window keeps no log of edges, and edges leave a window by that now",
}
WAYS_OUT = {
    "visits": "`peewit graph create NAME --deletions exact`",
    "calls": "`peewit graph create NAME --window 2592000s --window-by time`",
}


@pytest.fixture
def earlier(home: Path) -> Path:
    """The home of the commands of the test."""
    copy_to(home)
    return home


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The same home, open."""
    copy_to(tmp_path / "home")
    place = Place(tmp_path / "home")
    yield place
    place.database.close()


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Api]:
    """The same home, served."""
    copy_to(tmp_path / "home")
    settings = Settings(home=tmp_path / "home", database_url=None, admin_key_file=None)
    with serving(settings, create=create_app) as api:
        yield api


@pytest.mark.parametrize(
    "stored", [{"deletions": "approximate"}, {"deletions": "off", "window": Window.of(60.0)}]
)
def test_either_database_tells_them_from_the_others(
    database: Database, stored: dict[str, object]
) -> None:
    catalog = Catalog(database)
    for name in ("a", "b", "c"):
        catalog.create(GraphSettings(name=name, deletions="exact", window=Window.of(60.0)))
    values = {"window": None, **stored}
    if isinstance(window := values["window"], Window):
        values["window"] = {"length": window.length, "by": "arrival", "width": window.width}
    with database.write() as connection:
        connection.execute(update(graphs).where(graphs.c.name == "b").values(**values))
    assert [each.settings.name for each in catalog.list()] == ["a", "c"]
    (fault,) = catalog.outdated()
    graph_id = catalog.id_of("b")
    assert (fault.name, fault.graph_id) == ("b", graph_id)
    for touch in (
        lambda: catalog.get("b"),
        lambda: catalog.get_by_id(graph_id),
        lambda: catalog.update(graph_id, lambda settings: replace(settings, epsilon=0.5)),
    ):
        with pytest.raises(GraphOutdated, match="graph 'b' is of an earlier version"):
            touch()
    catalog.delete(graph_id, cancel_jobs=lambda _graph, _connection: None)
    assert catalog.outdated() == []
    with pytest.raises(GraphNotFound):
        catalog.get("b")
    catalog.create(GraphSettings(name="b"))


@pytest.mark.parametrize("name", OUTDATED)
def test_commands_refuse_such_a_graph_and_say_what_to_do(
    earlier: Path, peewit: Peewit, tmp_path: Path, name: str
) -> None:
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text(MONDAY)
    labels.write_text("node,label\nann,x\neve,y\n")
    for command in (
        ("graph", "show", name),
        ("graph", "set", name, "--epsilon", 0.5),
        ("graph", "export", name, "-o", tmp_path / "kept.csv"),
        ("ingest", name, edges),
        ("ingest", name, edges, "--dry-run"),
        ("delete", name, "bob", "cay"),
        ("retract", name, edges),
        ("erase", name, "--node", "ann"),
        ("labels", "put", name, labels),
        ("solve", name),
        ("source", "list", name),
    ):
        refused = peewit(*command)
        assert refused.exit_code == 1, command
        assert f"graph '{name}' is of an earlier version: {REASONS[name]}" in refused.err
        assert WAYS_OUT[name] in refused.err
        assert f"`peewit graph delete {name}`" in refused.err
    told = peewit("graph", "show", name, "--json").err
    assert '"type": "urn:peewit:problem:graph-of-an-earlier-version"' in told


@pytest.mark.usefixtures("processes")
def test_the_list_and_other_graphs_go_on(earlier: Path, peewit: Peewit, tmp_path: Path) -> None:
    listed = peewit("graph", "list", "--json").json
    assert [each["name"] for each in listed["graphs"]] == OTHERS
    assert [each["name"] for each in listed["outdated"]] == list(OUTDATED)
    said = peewit("graph", "list").err
    for name in OUTDATED:
        assert f"note: graph '{name}' is of an earlier version" in said
    path = tmp_path / "more.csv"
    path.write_text("src,dst\neve,fay\n")
    late = tmp_path / "may.csv"
    late.write_text("src,dst,time\ndan,eve,2026-05-02\n")
    for name, file, summary in (
        ("friends", path, ["5 rows in", "all 4 edges kept"]),
        ("plain", path, ["5 rows in", "all 5 edges kept"]),
        ("recent", late, ["4 rows in", "all 2 edges kept"]),
    ):
        told = peewit("ingest", name, file).out
        assert all(each in told for each in summary), told
    shown = peewit("graph", "show", "friends", "--json").json
    assert (shown["deleted"]["n_live"], shown["deleted"]["n_deleted"]) == (4, 1)
    assert peewit("retract", "friends", monday_file()).exit_code == 0
    assert peewit("graph", "show", "friends", "--json").json["deleted"]["n_live"] == 1


@pytest.mark.usefixtures("processes")
def test_such_a_graph_is_made_anew_of_its_files_and_deleted(
    earlier: Path, peewit: Peewit, tmp_path: Path
) -> None:
    outdated = peewit("graph", "show", "visits").err
    pushes = earlier / next(word for word in outdated.split() if word.endswith("/pushes"))
    assert [path.suffix for path in pushes.iterdir()] == [".parquet"]
    monday = tmp_path / "mon.csv"
    monday.write_text(MONDAY)
    assert peewit("graph", "create", "anew", "--deletions", "exact").exit_code == 0
    done = peewit("ingest", "anew", monday, pushes)
    assert done.exit_code == 0, done.err
    assert "anew: 4 rows in" in done.out
    assert "all 3 edges kept" in done.out
    for name in OUTDATED:
        assert peewit("graph", "delete", name, "--yes").err == f"deleted {name}\n"
    assert peewit("graph", "list").err == ""
    assert peewit("graph", "create", "visits").exit_code == 0


def test_the_api_answers_with_a_problem(pages: Api) -> None:
    listed = pages.call("GET", "/graphs", 200).json()
    assert [each["name"] for each in listed["graphs"]] == OTHERS
    assert [each["name"] for each in listed["outdated"]] == list(OUTDATED)
    csv = {"content": b"src,dst\na,b\n", "headers": {"Content-Type": CSV}}
    for name, told in zip(OUTDATED, listed["outdated"], strict=True):
        for method, path, options in (
            ("GET", "", {}),
            ("PATCH", "", {"json": {"epsilon": 0.5}}),
            ("POST", "/edges", csv),
            ("PUT", "/labels", {"json": {"labels": [{"node": "ann", "label": "x"}]}}),
            ("POST", "/jobs", {"json": {"kind": "solve", "model": "auto"}}),
            ("GET", "/predictions", {}),
            ("GET", "/snapshots", {}),
            ("POST", "/repairs", {"json": {}}),
        ):
            problem = pages.problem(method, f"/graphs/{name}{path}", 409, **options)
            assert problem["type"] == "urn:peewit:problem:graph-of-an-earlier-version"
            assert problem["detail"] == told["reason"]
        assert REASONS[name] in told["reason"]
        pages.call("DELETE", f"/graphs/{name}", 204)
        pages.problem("GET", f"/graphs/{name}", 404)
    assert pages.call("GET", "/graphs", 200).json()["outdated"] == []
    pages.push(b"src,dst\neve,fay\n", CSV, "plain")
    pages.ingest("plain")
    assert pages.call("GET", "/graphs/plain", 200).json()["edges_seen"] == 5


def test_pages_show_them_with_what_to_do(pages: Api) -> None:
    shown = pages.client.get("/").text
    for name in OTHERS:
        assert f'<a href="/graphs/{name}">' in shown
    for name in OUTDATED:
        assert f'<a href="/graphs/{name}">' not in shown
        assert REASONS[name] in shown
        page = pages.client.get(f"/graphs/{name}")
        assert page.status_code == 409
        assert REASONS[name] in page.text


def test_the_daemon_leaves_them_alone_and_says_so_once(place: Place) -> None:
    place.push("friends", pa.table({"src": ["eve"], "dst": ["fay"]}))
    daemon = IngestDaemon(place.database, place.settings)
    with capture_logs() as lines:
        assert daemon.serve_once(lambda: False) == 1
        daemon._clean_at = 0.0
        daemon.serve_once(lambda: False)
    daemon.close()
    assert place.catalog.get("friends").progress.edges_seen == 5
    told = {
        each["graph"]: each["reason"] for each in lines if each["event"] == "graph not ingested"
    }
    assert told == {each.name: str(each) for each in place.catalog.outdated()}
    assert [each["event"] for each in lines].count("graph not ingested") == len(OUTDATED)


def test_a_job_that_waited_fails_with_the_reason(place: Place) -> None:
    spec = JobSpec(graph_id=place.catalog.id_of("visits"), model="auto", parameters={})
    job = place.queue.submit(spec)
    child = lasting_child(place.settings)
    Worker(place.database, place.settings).run_one(job.id, child=child)
    ended = place.queue.get(job.id)
    assert ended.status is JobStatus.FAILED
    assert REASONS["visits"] in (ended.error or "")


def test_a_job_that_a_command_waits_for_fails_with_the_reason(place: Place) -> None:
    spec = JobSpec(graph_id=place.catalog.id_of("calls"), model="auto", parameters={})
    job = place.queue.submit(spec)
    ended = run_until_finished(place.database, place.settings, job.id)
    assert ended.status is JobStatus.FAILED
    assert REASONS["calls"] in (ended.error or "")


def test_a_restore_erases_in_the_other_graphs_before_it_refuses_them(
    earlier: Path, peewit: Peewit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, ledger, out = tmp_path / "backup", earlier / LEDGER, tmp_path / "out.csv"
    ids = {name: peewit("graph", "show", name).err.split("graphs/")[1][:32] for name in OUTDATED}
    assert peewit("backup", backup).exit_code == 0
    assert peewit("erase", "plain", "--node", "eve").exit_code == 0
    for number, graph_id in enumerate(ids.values()):
        Ledger(ledger).append(
            erasure=f"{number:032x}", graph=graph_id, position=1, at="2026-11-02", nodes=["eve"]
        )
    monkeypatch.setenv("PEEWIT_HOME", str(tmp_path / "other"))
    refused = peewit("restore", backup, "--erasures", ledger)
    assert refused.exit_code == 1
    assert "run `peewit restore` again" in refused.err
    for name in OUTDATED:
        assert f"graph '{name}' is of an earlier version: {REASONS[name]}" in refused.err
        assert f"`peewit graph delete {name}`" in refused.err
    assert peewit("graph", "export", "plain", "-o", out).exit_code == 0
    assert "eve" not in out.read_text()
    for name in OUTDATED:
        assert peewit("graph", "delete", name, "--yes").exit_code == 0
    assert peewit("restore", backup).exit_code == 0


def test_pages_of_their_jobs_give_the_reason_and_cancel(pages: Api) -> None:
    home = pages.home
    spec = JobSpec(graph_id=home.catalog.id_of("visits"), model="auto", parameters={})
    job = home.jobs.submit(spec)
    page = f"/jobs/{job.id}"
    assert f"graph 'visits' is of an earlier version: {REASONS['visits']}" in look(pages, page)
    assert "queued" in look(pages, page, headers=PIECE)
    assert send(pages, f"{page}/cancel", back="graph").headers["location"] == page
    assert home.jobs.get(job.id).status is JobStatus.CANCELLED


def test_doctor_names_them(place: Place) -> None:
    patient = Patient(database=place.database, settings=place.settings, now=0.0)
    faults = [each for each in examine(patient) if each.level is Level.FAULT]
    assert [each.text for each in faults if each.check == "graphs"] == [
        str(each) for each in place.catalog.outdated()
    ]
    assert {each.check for each in faults} == {"graphs"}
