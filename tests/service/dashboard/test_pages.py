"""What the pages say, and what their forms do."""

import json
import re
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.dashboard.routes.models import accepted
from peewit.service.graph_settings import AutoSolve
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow
from peewit.service.jobs.job import LANES, JobSpec, JobStatus
from peewit.service.live_sources.contract import Refused
from peewit.service.predictions.prediction_files import labels_path
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import parameter_schema
from peewit.streaming.durable_files import publish_json
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import embed
from peewit.streaming.snapshots.provenance import LastRepair
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.degrees import Damage
from tests.service.api.conftest import (
    ARROW,
    CSV,
    PARQUET,
    Api,
    as_arrow,
    bring_communities,
    community_edges,
)
from tests.service.dashboard.forms import PIECE, look, seen_in, send
from tests.service.repairable import many_edges


def located(api: Api) -> None:
    graph = api.home.catalog.get("g")
    embed(GraphPaths(root=api.home.settings.graphs_directory / graph.id), 1)


def test_the_first_page_says_how_to_begin_and_then_what_there_is(pages: Api) -> None:
    assert "peewit try FILE..." in look(pages, "/")
    bring_communities(pages)
    text = look(pages, "/")
    assert re.search(r'<a href="/graphs/g">g</a>', text)
    assert "idle" in text
    row = text[text.index("<tbody>") :]
    assert re.findall(r'class="number">([\d,]+)<', row) == ["60", "241", "217", "2"]
    piece = look(pages, "/", headers=PIECE)
    assert "<html" not in piece


def test_a_graph_shows_its_figures_and_asks_for_them_again(pages: Api) -> None:
    bring_communities(pages)
    text = look(pages, "/graphs/g")
    for said in ("60", "241", "217", "ε expected", "of memory", "Certify snapshot 1"):
        assert said in text
    live = look(pages, "/graphs/g/live", headers=PIECE)
    seen = seen_in(live)
    assert len(seen) == 16
    again = pages.client.get(f"/graphs/g/live?seen={seen}", headers=PIECE)
    assert (again.status_code, again.content) == (204, b"")
    pages.push(b"src,dst\nn0,new\n", CSV)
    pages.ingest()
    assert seen_in(look(pages, f"/graphs/g/live?seen={seen}", headers=PIECE)) != seen
    growth = pages.client.get("/graphs/g/growth").json()
    assert growth["seen"][-1] == 242
    assert growth["kept"][-1] == 218
    assert len({len(each) for each in growth.values()}) == 1


def test_a_graph_shows_what_ingest_does_beside_its_source(pages: Api) -> None:
    pages.create_graph("g")
    graph_id = pages.home.catalog.get("g").id
    source = pages.home.manifest.sources.add(graph_id, "edges/", follow=True)
    values = {"graph_id": graph_id, "step_seconds": 300.0}
    IngestSteps(pages.home.database).store(
        "ingest:host:1",
        [
            StepNow(
                **values,
                key=source.id,
                source_id=source.id,
                step="listing",
                file=None,
                quiet_seconds=240.0,
            ),
            StepNow(
                **values, key="", source_id=None, step="thinning", file=None, quiet_seconds=1.0
            ),
        ],
    )
    live = look(pages, "/graphs/g/live", headers=PIECE)
    beside = r'edges/</code>.*class="fault">listing: no progress for 4 min<'
    assert re.search(beside, live, re.DOTALL)
    assert '<p class="hint">thinning for 5 min</p>' in live


def test_a_graph_shows_how_far_a_live_source_is_read(pages: Api) -> None:
    pages.create_graph("g")
    manifest = pages.home.manifest
    graph_id = pages.home.catalog.get("g").id
    source = manifest.sources.add(graph_id, "/t", kind="delta", follow=True)
    assert "up to nothing" in look(pages, "/graphs/g/live", headers=PIECE)
    refused = [Refused(place="here", reason="no edge")]
    manifest.live.advance(source, 0, {"version": 41}, refused=refused)
    manifest.live.note_lag(source.id, 3)
    live = look(pages, "/graphs/g/live", headers=PIECE)
    assert '<span class="badge calm">delta</span>' in live
    assert "up to version 41, lag 3, 1 refused" in live
    assert "labels" not in live[live.index("<code>/t<") :].partition("</section>")[0]
    manifest.sources.add(graph_id, "/u", kind="delta", holds="labels", label_column="side")
    assert "labels of side</span>" in look(pages, "/graphs/g/live", headers=PIECE)


@pytest.mark.usefixtures("processes")
def test_a_snapshot_is_certified_from_its_page(pages: Api) -> None:
    bring_communities(pages)
    where = send(pages, "/graphs/g/certify").headers["location"]
    again = send(pages, "/graphs/g/certify").headers["location"]
    assert where == again  # one that waits is enough
    pages.run_job(where.removeprefix("/jobs/"))
    assert "succeeded" in look(pages, where)
    text = look(pages, "/graphs/g")
    assert "holds with probability 0.99" in text
    assert text.count('<line class="end"') == 2  # of the spectrum
    assert "Certify snapshot" not in text


def test_quarantined_files_are_offered_again(pages: Api, tmp_path: Path) -> None:
    pages.create_graph("g")
    bad = tmp_path / "bad<b>.parquet"
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"], "weight": [-1.0]}), bad)
    graph_id = pages.home.catalog.get("g").id
    source = Manifest(pages.home.database).sources.add(graph_id, str(bad))
    pages.ingest()
    text = pages.client.get("/graphs/g").text
    assert "must be finite and &gt;= 0, row 0" in text
    assert "bad&lt;b&gt;.parquet" in text
    assert "1 quarantined" in look(pages, "/")
    (file,) = pages.home.manifest.list_files(graph_id, status="quarantined")
    send(pages, f"/graphs/g/files/{file.id}/retry")
    assert pages.home.manifest.counts(graph_id)["pending"] == 1
    send(pages, f"/graphs/g/files/{file.id}/retry", 404)
    pages.ingest()
    send(pages, f"/graphs/g/sources/{source.id}/retry")
    assert pages.home.manifest.counts(graph_id)["pending"] == 1


def test_files_leave_and_come_again_by_a_button(pages: Api, tmp_path: Path) -> None:
    pages.create_graph("g", deletions="exact")
    path = tmp_path / "one<b>.parquet"
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), path)
    graph_id = pages.home.catalog.get("g").id
    Manifest(pages.home.database).sources.add(graph_id, str(path))
    pages.ingest()
    (file,) = pages.home.manifest.list_files(graph_id)
    button = f'action="/graphs/g/files/{file.id}/retract"'
    text = look(pages, "/graphs/g")
    assert button in text
    assert "one&lt;b&gt;.parquet" in pages.client.get("/graphs/g").text
    send(pages, f"/graphs/g/files/{file.id}/retract")
    text = look(pages, "/graphs/g")
    assert button not in text
    assert "retracting" in text
    assert "ingesting" in look(pages, "/")
    pages.ingest()
    text = look(pages, "/graphs/g")
    assert "0 in the graph" in text
    assert "1 retracted" in text
    assert f'action="/graphs/g/files/{file.id}/retry"' in text
    send(pages, f"/graphs/g/files/{file.id}/retry")
    pages.ingest()
    assert button in look(pages, "/graphs/g")
    send(pages, "/graphs/g/files/99/retract", 404)


def test_a_graph_tells_what_deletes_have_done(pages: Api) -> None:
    bring_communities(pages)
    assert "<h2>Deletions</h2>" not in look(pages, "/graphs/g")
    for deletions in ("off", "exact"):
        pages.create_graph(deletions, deletions=deletions)
        assert "<h2>Deletions</h2>" not in look(pages, f"/graphs/{deletions}")  # nothing is in it
        pages.push(b"src,dst\na,b\nb,c\nc,d\n", CSV, deletions)
        pages.ingest(deletions)
    pages.call("DELETE", "/graphs/exact/edges?src=a&src=a&dst=b&dst=d", 202)
    pages.ingest("exact")
    assert "<h2>Deletions</h2>" not in look(pages, "/graphs/off")
    text = look(pages, "/graphs/exact")
    assert "<dt>Edges that live</dt><dd>2</dd>" in text
    assert '<dt>Edges deleted</dt><dd>1 <span class="hint">1 deleted pairs had none</span>' in text
    assert "<dt>Damaged nodes</dt><dd>0</dd>" in text
    assert "<dt>Last repair</dt>" not in text
    button = 'action="/graphs/exact/repair"'
    assert button in text
    send(pages, "/graphs/exact/repair")
    text = look(pages, "/graphs/exact")
    assert button not in text
    assert "asked to sample what deletes have spoiled anew" in text
    pages.ingest("exact")
    assert button in look(pages, "/graphs/exact")
    send(pages, "/graphs/off/repair", 409)
    graph = pages.home.catalog.get("exact")
    paths = GraphPaths(root=pages.home.settings.graphs_directory / graph.id)
    store = SnapshotStore(paths.snapshots)
    newest = store.newest()
    assert newest is not None
    told = replace(
        newest,
        damage=Damage(n_nodes=1_200, weight_share=0.034, largest=0.28),
        last_repair=LastRepair(kind="part", n_edges=9_876, seconds=1.25, snapshot=2),
    )
    publish_json(store.directory(newest.number) / "meta.json", asdict(told))
    text = look(pages, "/graphs/exact")
    assert "<dt>Largest damage</dt><dd>28.0 % <span" in text
    assert '<dt>Damaged nodes</dt><dd>1,200 <span class="hint">3.4 % of the weight' in text
    assert '9,876 edges in 1.2 s <span class="hint">part, snapshot 2</span>' in text


def test_a_graph_tells_why_edges_could_not_be_read_again(pages: Api) -> None:
    pages.create_graph("g", node_ids="dense", expected_nodes=40, seed=1, max_edges=100)
    for part in range(2):
        pages.push(as_arrow(many_edges(part)), ARROW)
        pages.ingest()
    assert "could not be read again" not in look(pages, "/graphs/g")
    (pushes,) = pages.home.settings.graphs_directory.glob("*/pushes")
    for path in pushes.iterdir():
        path.unlink()
    graph = pages.home.catalog.get("g")
    pages.home.manifest.wishes.want_repair(graph.id, "all")
    pages.ingest()
    text = unescape(look(pages, "/graphs/g"))
    assert "Edges could not be read again, so that those of before are kept: " in text
    assert "it is missing" in text


def test_a_graph_says_since_when_its_edges_live(pages: Api) -> None:
    pages.create_graph("w", window={"length": "5d", "buckets": 5})
    assert "no edges yet" not in look(pages, "/graphs/w")  # nor a snapshot
    pages.push(b"src,dst,time\na,b,2026-01-03\nb,c,2026-01-10T12:00:00Z\n", CSV, "w")
    pages.ingest("w")
    text = look(pages, "/graphs/w")
    assert "<h2>Window</h2>" in text
    assert '<time datetime="2026-01-05T00:00:00+00:00">2026-01-05 00:00:00 UTC</time>' in text
    assert "<dt>Edges expired</dt><dd>1</dd>" in text
    assert "<dt>Came too late</dt><dd>0</dd>" in text


def test_labels_are_put_changed_found_and_taken_back(pages: Api) -> None:
    bring_communities(pages)
    assert send(pages, "/graphs/g/labels", node="n5", label="left").headers["location"] == (
        "/graphs/g/labels"
    )
    send(pages, "/graphs/g/labels", node="n6", label="<b>odd</b>")
    text = pages.client.get("/graphs/g/labels").text
    assert "&lt;b&gt;odd&lt;/b&gt;" in text
    assert "<b>odd" not in text
    table = text[text.index("Labeled nodes") : text.index("History")]
    assert re.findall(r">(n\d+)</a></th>", table) == ["n6", "n5", "n33", "n3"]
    send(pages, "/graphs/g/labels", node="n6", label="right", back="node?id=n6")
    beside = send(pages, "/graphs/g/labels", 422, node="n6", label="3" * 2000, back="node?id=n6")
    assert 'class="fault" role="alert"' in beside.text
    assert 'name="back" value="node?id=n6"' in beside.text
    send(pages, "/graphs/g/labels/remove", node="n3")
    found = look(pages, "/graphs/g/labels?node=n3")
    table = found[found.index("Labeled nodes") : found.index("History")]
    assert re.findall(r">(n\d+)</a></th>", table) == ["n33"]
    assert "taken back" in found
    by_label = look(pages, "/graphs/g/labels?label=right")
    table = by_label[by_label.index("Labeled nodes") : by_label.index("History")]
    assert re.findall(r">(n\d+)</a></th>", table) == ["n6", "n33"]
    counts = look(pages, "/graphs/g/labels/counts", headers=PIECE)
    assert "3 nodes have a label" in counts
    assert "label must have" in send(pages, "/graphs/g/labels", 422, node="n5", label="").text
    before = pages.home.catalog.get("g").labels_seq
    send(pages, "/graphs/g/labels/remove", node="n1")  # has none
    assert pages.home.catalog.get("g").labels_seq == before


def test_what_is_wrong_with_a_label_is_said_beside_its_form_and_can_be_mended_there(
    pages: Api,
) -> None:
    bring_communities(pages)
    typed = {"node": " nobody ", "label": "left", "origin": "random"}
    text = unescape(send(pages, "/graphs/g/labels", 422, **typed).text)
    form = text[text.index("Add or change") : text.index("A file of labels")]
    assert "The graph does not know the node 'nobody'." in form
    for kept in ('value=" nobody "', 'value="left"', 'value="random" selected'):
        assert kept in form
    assert 'name="unknown" value="keep"' in form
    send(pages, "/graphs/g/labels", **typed, unknown="keep")
    (put,) = pages.home.labels.page(pages.home.catalog.get("g").id, prefix="nobody")
    assert (put.label, put.origin) == ("left", "random")
    assert 'name="unknown"' not in look(pages, "/graphs/g/labels")
    assert (
        "origin must be one of"
        in send(pages, "/graphs/g/labels", 422, node="n5", origin="luck", label="x").text
    )


def test_blanks_around_a_node_that_is_typed_are_left_out(pages: Api) -> None:
    pages.create_graph("g")
    pages.push(b'src,dst\na,b\n" b ",a\n', CSV)
    pages.ingest()
    send(pages, "/graphs/g/labels", node=" a\t", label="left")
    send(pages, "/graphs/g/labels", node=" b ", label="right")
    labeled = pages.home.labels.page(pages.home.catalog.get("g").id)
    assert [each.node for each in labeled] == [" b ", "a"]
    assert "<h1>a</h1>" in look(pages, "/graphs/g/node?id=+a+")
    assert "<h1> b </h1>" in look(pages, "/graphs/g/node?id=+b+")
    assert "has no node 'c'" in look(pages, "/graphs/g/node?id=+c", 404)
    assert ">a</a></th>" in look(pages, "/graphs/g/labels?node=a+")
    assert "begin with “c”" in look(pages, "/graphs/g/labels?node=+c")


def test_numbers_stay_numbers(pages: Api) -> None:
    pages.create_graph("g", node_ids="int64")
    pages.push(b"src,dst\n1,2\n2,3\n", CSV)
    pages.ingest()
    send(pages, "/graphs/g/labels", node="1", label="7")
    send(pages, "/graphs/g/labels", node="2", label="8")
    graph_id = pages.home.catalog.get("g").id
    assert pages.home.labels.current(graph_id).labels == [7, 8]
    send(pages, "/graphs/g/labels", node="3", label="2.5")
    assert pages.home.labels.current(graph_id).labels[-1] == 2.5
    assert "must be a number" in send(pages, "/graphs/g/labels", 422, node="3", label="x").text
    send(pages, "/graphs/g/labels", node="3", label="3.5")
    assert pages.home.labels.current(graph_id).labels[-1] == 3.5
    assert "must be" in send(pages, "/graphs/g/labels", 422, node="x", label="7").text


def test_pages_of_labels_follow_each_other(pages: Api) -> None:
    bring_communities(pages)
    pages.put_labels({f"n{each}": "left" for each in range(60)})
    shown: list[str] = []
    path = "/graphs/g/labels"
    while path:
        text = look(pages, path)
        table = text[text.index("Labeled nodes") : text.index("History")]
        shown += re.findall(r">(n\d+)</a></th>", table)
        following = re.search(r'href="([^"]+)">Earlier labels', text)
        path = following[1] if following else ""
    assert sorted(shown) == sorted(f"n{each}" for each in range(60))


@pytest.mark.usefixtures("processes")
def test_jobs_are_submitted_compared_and_cancelled(pages: Api) -> None:
    bring_communities(pages)
    assert "No job yet" in look(pages, "/graphs/g/jobs")
    pages.put_labels({"n4": "left", "n34": "right"})
    where = send(
        pages,
        "/graphs/g/jobs",
        model="stable-hfs",
        parameters="graph_penalty = 0.5\n\nmax_iter=500",
        folds="2",
    ).headers["location"]
    job_id = where.partition("job=")[2]
    job = pages.home.jobs.get(job_id)
    assert job.parameters == {"graph_penalty": 0.5, "max_iter": 500, "cross_validate": 2}
    assert job.lane == "heavy"
    pages.run_job(job_id)
    text = look(pages, "/graphs/g/jobs")
    runs = text[text.index("Runs side by side") :]
    assert re.search(r"\d+\.\d %", runs), runs
    assert "graph_penalty=0.5" in runs
    assert "cross_validation=" in look(pages, f"/jobs/{job_id}")
    waiting = send(pages, "/graphs/g/jobs").headers["location"].partition("job=")[2]
    assert "Cancel" in look(pages, f"/jobs/{waiting}")
    send(pages, f"/jobs/{waiting}/cancel")
    assert pages.home.jobs.get(waiting).status is JobStatus.CANCELLED
    assert "Cancel job" not in look(pages, "/jobs")
    listed = look(pages, "/jobs?status=cancelled", headers=PIECE)
    assert waiting[-8:] in listed
    assert job_id[-8:] not in listed
    for wrong, said in (
        ({"parameters": "speed"}, "name=value"),
        ({"parameters": "speed=3"}, "speed"),
        ({"model": "luck"}, "luck"),
        ({"folds": "1"}, "cross_validate"),
    ):
        assert said in send(pages, "/graphs/g/jobs", 422, **wrong).text
    send(pages, "/jobs/nobody/cancel", 404)
    look(pages, "/jobs/nobody", 404)


def test_a_running_job_tells_its_phase_and_when_it_ends(pages: Api) -> None:
    bring_communities(pages)
    jobs = pages.home.jobs
    graph_id = pages.home.catalog.get("g").id
    asked = jobs.submit(JobSpec(graph_id=graph_id, model="hfs", parameters={}))
    job = jobs.claim("somebody", LANES)
    assert job is not None
    assert job.id == asked.id
    jobs.progress(job.id, job.attempt, phase="solving", fraction=0.25, seconds_left=90.0)
    for path in (f"/jobs/{job.id}", "/jobs", "/graphs/g/jobs", "/graphs/g/label-next"):
        text = look(pages, path)
        assert re.search(r'solving</span>\s*<progress max="1" value="0.25"', text), path
        assert re.search(r'ends <time datetime="20\d\d-', text), path


def test_pages_of_jobs_follow_each_other(pages: Api) -> None:
    bring_communities(pages)
    graph_id = pages.home.catalog.get("g").id
    for _ in range(60):
        pages.home.jobs.submit(JobSpec(graph_id=graph_id, model="hfs", parameters={}))
    first = look(pages, "/jobs")
    following = re.search(r'href="(\?[^"]+)">Earlier jobs', first)
    assert following is not None
    rest = look(pages, "/jobs" + following[1])
    ids = re.findall(r'href="/jobs/([0-9a-f-]+)"', first + rest)
    assert len(ids) == len(set(ids)) == 60


def test_predictions_are_filtered_found_and_downloaded(shown: Api) -> None:
    text = look(shown, "/graphs/g/predictions")
    assert "stable-hfs" in text
    rows = re.findall(r"node\?id=(n\d+)\"", text)
    assert len(rows) == 50
    following = re.search(r'href="([^"]+)">More nodes', text)
    assert following is not None
    rest = re.findall(r"node\?id=(n\d+)\"", look(shown, following[1]))
    assert sorted(rows + rest) == sorted(f"n{each}" for each in range(60))
    left = look(shown, "/graphs/g/predictions?label=left&margin_below=0.01")
    assert len(re.findall(r"node\?id=(n\d+)\"", left)) < 30
    left = look(shown, "/graphs/g/predictions?label=left&margin_below=")  # as the form sends it
    assert len(re.findall(r"node\?id=(n\d+)\"", left)) == 30
    assert "No node is predicted so" in look(shown, "/graphs/g/predictions?label=nobody")
    summary = look(shown, "/graphs/g/predictions/summary", headers=PIECE)
    bins = re.search(r'data-bins="([^"]+)"', summary)
    assert bins is not None
    assert sum(json.loads(bins[1])) == 60
    assert (
        shown.client.get(
            f"/graphs/g/predictions/summary?seen={seen_in(summary)}", headers=PIECE
        ).status_code
        == 204
    )
    assert shown.client.get("/graphs/g/predictions?job=nobody").status_code == 404
    assert shown.client.get("/graphs/g/predictions?margin_below=-1").status_code == 422


def test_head_of_a_page_is_that_of_the_page(shown: Api) -> None:
    for path in ("/", "/graphs/g", "/graphs/g/predictions", "/static/app.js", "/sign-in"):
        got, head = (shown.client.request(method, path) for method in ("GET", "HEAD"))
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"]


def test_a_node_shows_scores_neighbors_and_its_label(shown: Api) -> None:
    text = look(shown, "/graphs/g/node?id=n3")
    assert re.search(r'class="verdict">left<', text)
    assert re.search(r'<th scope="row">right</th>', text)
    start = text.index('class="neighbors"')
    drawing = text[start : text.index("</svg>", start)]
    n_neighbors = drawing.count("<a href=")
    table = text[text.index('aria-label="Neighbors"') :]
    assert table.count("<tr>") == n_neighbors + 1
    assert n_neighbors >= 2
    look(shown, "/graphs/g/node?id=nobody", 404)
    assert shown.client.get("/graphs/g/node?id=").status_code == 303


@pytest.mark.parametrize(
    ("page", "tab"),
    [
        ("/node?id=n7", "Predictions"),
        ("/predictions", "Predictions"),
        ("/labels/agreement", "Labels"),
        ("", "Graph"),
    ],
)
def test_every_page_of_a_graph_marks_one_tab(shown: Api, page: str, tab: str) -> None:
    text = look(shown, f"/graphs/g{page}")
    tabs = text[text.index('<nav class="tabs"') : text.index("</nav>", text.index('class="tabs"'))]
    assert re.findall(r'aria-current="(?:page|true)">(.*?)<', tabs) == [tab]


def test_a_node_says_which_labels_speak_for_it(shown: Api) -> None:
    text = look(shown, "/graphs/g/node?id=n7")
    address = re.search(r'hx-get="(/graphs/g/node/reasons[^"]+)"', text)
    assert address is not None
    piece = look(shown, address[1].replace("&amp;", "&"), headers=PIECE)
    assert "<html" not in piece
    assert "of what speaks for left" in piece
    assert re.search(r"For left</h3>.*>n3</a>.*For other labels</h3>.*>n33</a>", piece, re.DOTALL)
    assert ">n30</a>" in piece  # on the way to the other side
    look(shown, "/graphs/g/node/reasons?id=nobody", 404)


def test_numbers_have_no_reasons_on_their_page(pages: Api, processes: None) -> None:
    bring_communities(pages)
    numbers = {"labels": [{"node": node, "size": 1.5} for node in ("n3", "n33", "n40")]}
    pages.call("PUT", "/graphs/g/labels?label_column=size", 200, json=numbers)
    job = pages.solve("hfs", target="real", label_column="size")["id"]
    assert "node/reasons" not in look(pages, f"/graphs/g/node?id=n7&job={job}")


def test_reasons_that_were_not_kept_are_missed(pages: Api, processes: None) -> None:
    bring_communities(pages)
    pages.solve("hfs")
    graph = pages.home.catalog.get("g")
    file = pages.home.predictions.open(pages.home.predictions.find(graph))
    labels_path(file.path).unlink()
    assert "solve again" in look(pages, "/graphs/g/node/reasons?id=n7", headers=PIECE)


def test_a_page_of_nothing_says_what_to_do(pages: Api) -> None:
    pages.create_graph("g")
    for path in ("", "/labels", "/jobs", "/label-next", "/predictions"):
        look(pages, f"/graphs/g{path}")
    assert "Predict with the default model" in look(pages, "/graphs/g/predictions")
    pages.push(b"src,dst\na,b\n", CSV)
    pages.ingest()
    assert "Nothing is predicted yet" in look(pages, "/graphs/g/node?id=a")
    assert "No predictions yet" in look(pages, "/graphs/g/label-next/card?strategy=margin")
    for path in ("/graphs/nobody", "/graphs/nobody/labels", "/jobs/nobody"):
        text = look(pages, path, 404)
        assert "<h1>" in text
    assert pages.client.get("/nothing").status_code == 404


def test_names_cannot_put_markup_into_pages(pages: Api) -> None:
    odd = "<script>alert(1)</script>\"'&"
    pages.create_graph("g")
    body = json.dumps({"src": odd, "dst": "b"}).encode() + b"\n"
    pages.push(body, "application/x-ndjson")
    pages.ingest()
    pages.put_labels({odd: odd, "b": "x"})
    located(pages)
    for path in ("/graphs/g/labels", "/graphs/g/labels/counts", "/graphs/g/label-next/card"):
        assert "<script>alert" not in pages.client.get(path).text
    answer = pages.client.get("/graphs/g/node", params={"id": odd})
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;" in answer.text


def test_label_next_refuses_what_it_cannot_do(pages: Api) -> None:
    bring_communities(pages)
    located(pages)
    look(pages, "/graphs/g/label-next/card?skipped=all", 422)
    refused = send(pages, "/graphs/g/label-next", 422, node="nobody", label="left")
    assert "must be known" in refused.text


@pytest.mark.usefixtures("processes")
def test_label_next_tells_what_has_changed(pages: Api) -> None:
    bring_communities(pages)
    effect = look(pages, "/graphs/g/label-next/effect", headers=PIECE)
    assert "Predict now" in effect
    where = send(pages, "/graphs/g/jobs", model="stable-hfs", back="label-next").headers["location"]
    assert where.startswith("/graphs/g/label-next")
    job_id = where.partition("job=")[2]
    assert "queued" in look(pages, "/graphs/g/label-next/effect", headers=PIECE)
    pages.run_job(job_id)
    effect = look(pages, "/graphs/g/label-next/effect", headers=PIECE)
    assert "They know every label" in effect
    send(pages, "/graphs/g/label-next/auto-solve", 200, on="1")
    assert pages.home.catalog.get("g").settings.auto_solve == AutoSolve(model="stable-hfs")
    (after_switch,) = pages.home.jobs.list(status=JobStatus.QUEUED).jobs
    pages.run_job(after_switch.id)
    send(pages, "/graphs/g/label-next", 200, node="n0", label="right", strategy="margin")
    (waiting,) = pages.home.jobs.list(status=JobStatus.QUEUED).jobs
    pages.run_job(waiting.id)
    effect = look(pages, "/graphs/g/label-next/effect", headers=PIECE)
    assert "Every node is predicted as before the last label came or went." in effect

    def solve_again() -> str:
        where = send(pages, "/graphs/g/jobs", model="stable-hfs", back="label-next")
        pages.run_job(where.headers["location"].partition("job=")[2])
        return look(pages, "/graphs/g/label-next/effect", headers=PIECE)

    pages.put_labels({f"n{number}": "right" for number in range(4, 24)})
    changed = r"<strong[^>]*>[1-9]\d*</strong> of 60 nodes are predicted otherwise than before"
    assert re.search(f"{changed} the last 20 labels came or went", solve_again())
    effect = solve_again()
    assert "predicted otherwise" not in effect
    assert "predicted as before" not in effect  # which tells nothing of labels


def test_classes_that_are_digits_have_themselves_as_keys(pages: Api) -> None:
    bring_communities(pages)
    pages.put_labels({"n3": 0, "n33": 4})
    located(pages)
    card = look(pages, "/graphs/g/label-next/card")
    assert re.findall(r'data-key="(\d)"', card) == ["0", "4"]
    pages.put_labels({"n3": 10})
    card = look(pages, "/graphs/g/label-next/card")
    assert re.findall(r'data-key="(\d)"', card) == ["1", "2"]


@pytest.mark.slow
def test_every_model_is_listed_once_and_has_a_page_of_its_parameters(pages: Api) -> None:
    text = look(pages, "/models")
    listed = re.findall(r'<li><a href="/models/([a-z-]+)">', text)
    assert sorted(listed) == sorted(CATALOGUE)
    for name, model in CATALOGUE.items():
        section = look(pages, f"/models/{name}")
        for parameter in (*parameter_schema(model)["properties"], "cross_validate"):
            assert f'name="set.{parameter}"' in section
    assert "no model 'nothing'" in look(pages, "/models/nothing", 404)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 1001}, "integer ≥ 1 < 1001"),
        ({"type": "string", "enum": ["auto", "dense"]}, "auto, dense"),
        ({"type": "boolean"}, "true or false"),
        (
            {"anyOf": [{"type": "number", "exclusiveMinimum": 0.0}, {"enum": ["auto"]}]},
            "number > 0, or auto",
        ),
    ],
)
def test_what_a_parameter_may_be_is_said_in_words(schema: dict[str, Any], said: str) -> None:
    assert accepted(schema) == said


def test_what_a_node_is_can_be_seen(pages: Api) -> None:
    bring_communities(pages)
    assert 'class="item"' not in look(pages, "/graphs/g/node?id=n1")
    directory = pages.home.settings.home / "items" / "g"
    directory.mkdir(parents=True)
    (directory / "n1.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (directory / "n2.txt").write_text("Dear <b>friend</b>")
    assert 'src="/graphs/g/item?id=n1"' in look(pages, "/graphs/g/node?id=n1")
    assert "Dear &lt;b&gt;friend" in pages.client.get("/graphs/g/node?id=n2").text
    assert 'href="/graphs/g/item?id=n1"' in look(pages, f"/graphs/g/node?id={neighbor(pages)}")
    picture = pages.client.get("/graphs/g/item?id=n1")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.headers["content-security-policy"].endswith("sandbox")
    assert picture.headers["x-content-type-options"] == "nosniff"
    look(pages, "/graphs/g/item?id=n3", 404)
    look(pages, "/graphs/g/item?id=../g/n1", 404)


def neighbor(api: Api) -> str:
    """A node beside n1."""
    found = re.search(
        r'aria-label="Neighbors".*?node\?id=(n\d+)', look(api, "/graphs/g/node?id=n1"), re.DOTALL
    )
    assert found is not None
    return found[1]


def test_erasures_stand_on_the_page_of_their_graph_without_ids(pages: Api) -> None:
    bring_communities(pages)
    assert "Erasures" not in pages.client.get("/graphs/g").text
    pages.call("POST", "/graphs/g/erasures", 202, json={"nodes": ["n3"]})
    shown = pages.client.get("/graphs/g").text
    assert "Erasures" in shown
    assert "hidden" in shown
    assert pages.client.get("/graphs/g/node?id=n3").status_code == 404
    pages.ingest()
    assert "erased" in pages.client.get("/graphs/g").text
    assert ">n3<" not in pages.client.get("/graphs/g/node?id=n4").text


@pytest.mark.usefixtures("processes")
def test_relations_are_shown_with_their_weights_where_a_table_names_them(pages: Api) -> None:
    bring_communities(pages)
    assert 'id="relations"' not in look(pages, "/graphs/g")
    pages.create_graph("named", seed=1)
    for relation in ("card", "login"):
        path, headers = f"/graphs/named/edges?relation={relation}", {"Content-Type": PARQUET}
        pages.call("POST", path, 202, content=community_edges(PARQUET), headers=headers)
    pages.ingest("named")
    text = look(pages, "/graphs/named")
    assert '<th scope="row">card</th>' in text
    assert "Loss alone" not in text
    pages.put_labels({"n3": "left", "n33": "right"}, name="named")
    body = {"kind": "solve", "model": "hfs", "parameters": {"relations": "card=3"}}
    job = pages.call("POST", "/graphs/named/jobs", 202, json=body).json()["id"]
    pages.run_job(job)
    table = look(pages, "/graphs/named/live", headers=PIECE)
    assert f'Weights are those of <a href="/jobs/{job}">hfs</a>' in table
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>.*?</tr>', table, re.DOTALL)
    assert rows[:2] == ["card", "login"]
    card = table[table.index('"row">card') : table.index('"row">login')]
    assert '<td class="number">3</td><td>given</td>' in card
