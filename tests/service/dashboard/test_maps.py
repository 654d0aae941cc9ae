"""The map on the page of a graph: what is said where there is none, and what is drawn by whom."""

import pytest

from tests.service.api.conftest import CSV, Api, bring_communities
from tests.service.dashboard.forms import look, send
from tests.service.map_tiles import decoded


def test_a_graph_without_a_map_says_what_to_do_next(pages: Api) -> None:
    pages.create_graph("g")
    empty = look(pages, "/graphs/g")
    assert "No edges yet." in empty
    assert '<a href="/graphs/g/edges">bring some</a>' in empty
    assert "Draw the map" not in empty
    pages.push(b"src,dst\na,b\nb,c\n", CSV)
    pages.ingest()
    unlabeled = look(pages, "/graphs/g")
    assert 'hx-trigger="load, submit"' in unlabeled  # a small one is drawn unasked
    assert "Draw the map" in unlabeled
    assert "No labels yet." in unlabeled
    pages.put_labels({"a": "x"})
    assert "No predictions yet." in look(pages, "/graphs/g")
    reader = pages.home.keys.create("reader", ["read"])
    send(pages, "/sign-in", key=reader)
    read_only = look(pages, "/graphs/g")
    assert "Draw the map" not in read_only
    assert "Somebody who may label can have it drawn" in read_only
    send(pages, "/graphs/g/map", 403)


@pytest.mark.usefixtures("processes")
def test_a_map_is_drawn_once_and_told_to_be_old(pages: Api) -> None:
    bring_communities(pages)
    assert pages.client.get("/graphs/g/map").status_code == 404
    for _ in range(2):
        send(pages, "/graphs/g/map")
    (job,) = pages.home.jobs.list(kind="map").jobs
    assert job.lane == "fast", "a small map waits for no process to start"
    assert "Drawing 60 nodes" in look(pages, "/graphs/g")
    pages.run_job(job.id)
    assert job.id[-8:] in look(pages, "/graphs/g/jobs")  # whose result is none of a solve
    drawn = look(pages, "/graphs/g")
    assert 'data-map="/graphs/g/map"' in drawn
    assert "Draw " not in drawn
    about = pages.client.get("/graphs/g/map")
    same = {"If-None-Match": about.headers["etag"]}
    assert about.json()["n_labeled"] == 2
    assert about.json()["palette"] == [1, 2]  # nobody looks for one of them: no red
    assert pages.client.get("/graphs/g/map", headers=same).status_code == 304
    tile = pages.client.get("/graphs/g/map/tiles/0/0/0").content
    assert tile == pages.call("GET", "/graphs/g/map/tiles/0/0/0", 200).content
    doubtful = pages.client.get("/graphs/g/map/tiles/0/0/0?doubtful=true").content
    assert (decoded(tile).n_nodes, decoded(doubtful).n_nodes) == (60, 0)  # nothing is predicted
    pages.push(b"src,dst\nn1,later\n", CSV)
    pages.ingest()
    newer = look(pages, "/graphs/g")
    assert "It shows snapshot 1; the newest is 2" in newer
    assert "Draw snapshot 2" in newer
    send(pages, "/graphs/g/map")
    again = pages.home.jobs.list(kind="map", limit=1).jobs[0]
    pages.home.jobs.cancel(again.id)
    cancelled = look(pages, "/graphs/g")
    assert "The last drawing cancelled" in cancelled
    assert "It shows snapshot 1; the newest is 2" in cancelled
    assert "Draw snapshot 2" in cancelled
    assert pages.client.get("/graphs/g/map", headers=same).json()["newest_snapshot"] == 2
