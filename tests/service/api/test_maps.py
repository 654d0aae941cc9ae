"""Maps over HTTP: made by a job, joined with predictions and labels, gone with erased nodes."""

from typing import Any

import pytest

from tests.service.api.conftest import Api, bring_communities
from tests.service.map_tiles import Tile, decoded

pytestmark = pytest.mark.usefixtures("processes")
TILE = "/graphs/g/map/tiles/0/0/0"


def run(api: Api, **body: Any) -> Any:
    """A job after its end."""
    job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()
    api.run_job(job["id"])
    ended = api.call("GET", f"/jobs/{job['id']}", 200).json()
    assert ended["status"] == "succeeded", ended["error"]
    return ended


def tile(api: Api, query: str = "") -> Tile:
    return decoded(api.call("GET", TILE + query, 200).content)


def marked_in(drawn: Tile) -> set[str]:
    """Nodes whose label is contradicted."""
    return {drawn.names[row] for row in drawn.is_contradicted.nonzero()[0]}


def test_a_map_is_made_once_and_shows_what_is_predicted_now(api: Api) -> None:
    bring_communities(api)
    problem = api.problem("GET", "/graphs/g/map", 404)
    assert problem["type"] == "urn:peewit:problem:map-not-found"
    assert "submit a job of kind map" in problem["detail"]
    job = run(api, kind="map")
    assert (job["result"]["snapshot"], job["result"]["n_nodes"]) == (1, 60)
    about = api.call("GET", "/graphs/g/map", 200).json()
    assert (about["predicts"], about["job"], about["snapshot"]) == ("nothing", None, 1)
    assert about["n_labeled"] == len([True for each in tile(api).is_labeled if each]) > 0
    before = api.call("GET", TILE, 200)
    same = {"If-None-Match": before.headers["etag"]}
    assert api.call("GET", TILE, 304, headers=same).content == b""

    solved = run(api, kind="solve", model="hfs", parameters={"cross_validate": 0})
    after = api.call("GET", TILE, 200, headers=same)
    drawn, places = decoded(after.content), decoded(before.content)
    assert drawn.names == places.names
    assert (drawn.x == places.x).all()  # the same map in other colors
    about = api.call("GET", "/graphs/g/map", 200).json()
    assert (about["predicts"], about["job"]) == ("classes", solved["id"])
    labels = [each["label"] for each in about["classes"]]
    for name, color, score in zip(drawn.names, drawn.color, drawn.score, strict=True):
        found = api.call("GET", f"/graphs/g/predictions/node?id={name}", 200).json()["prediction"]
        assert labels[color] == str(found["label"])
        assert score == pytest.approx(found["score"])
    assert sum(each["n_nodes"] for each in about["classes"]) == 60

    few = tile(api, "?min_doubt=0.9")
    assert few.n_nodes == (drawn.doubt >= 0.9 * 255).sum() < 60
    asked = api.call("GET", f"{TILE}?job={solved['id']}", 200)
    assert decoded(asked.content).names == drawn.names
    detail = api.problem("GET", "/graphs/g/map/tiles/1/2/0", 422)["detail"]
    assert detail == "x must lie in [0, 2) at zoom 1, got 2"
    api.problem("GET", "/graphs/g/map?job=abc", 404)

    (row, *_) = [row for row, each in enumerate(drawn.is_labeled) if not each]
    api.put_labels({drawn.names[row]: labels[0]})  # is ringed at once
    ringed = tile(api)
    assert (ringed.is_labeled[row], ringed.color[row]) == (True, 0)
    assert ringed.is_labeled.sum() == drawn.is_labeled.sum() + 1
    api.put_labels({drawn.names[row]: "new"})  # a class that nothing is predicted of
    about = api.call("GET", "/graphs/g/map", 200).json()
    assert about["classes"][-1] == {"label": "new", "n_nodes": 0}
    assert tile(api).color[row] == len(labels)


def test_labels_that_the_others_contradict_are_marked(api: Api) -> None:
    bring_communities(api)
    api.put_labels({f"n{node}": "left" if node < 30 else "right" for node in range(0, 60, 3)})
    api.put_labels({"n6": "right"})  # a mistake
    run(api, kind="map")
    run(api, kind="solve", model="hfs", parameters={"cross_validate": 4})
    answer = api.call("GET", "/graphs/g/predictions/doubtful-labels", 200).json()
    found = answer["doubtful"]["labels"]
    contradicted = {each["node"] for each in found if each["label"] != each["predicted"]}
    drawn = tile(api)
    marked = marked_in(drawn)
    assert marked == contradicted
    assert "n6" in marked
    about = api.call("GET", "/graphs/g/map", 200).json()
    assert about["n_contradicted"] == len(marked)
    api.put_labels({"n6": "left"})  # mended: nothing is known of this label
    assert "n6" not in marked_in(tile(api))


def test_a_label_that_is_a_number_has_the_color_of_its_range(api: Api) -> None:
    bring_communities(api)
    sizes = {"n3": 1.0, "n33": 9.0, "n10": 1.5, "n50": 8.0}
    rows = [{"node": node, "size": size} for node, size in sizes.items()]
    api.call("PUT", "/graphs/g/labels?label_column=size", 200, json={"labels": rows})
    run(api, kind="map")
    run(api, kind="solve", model="hfs", parameters={"target": "real", "label_column": "size"})
    about = api.call("GET", "/graphs/g/map?label_column=size", 200).json()
    assert about["predicts"] == "numbers"
    drawn = tile(api, "?label_column=size")
    color = dict(zip(drawn.names, drawn.color.tolist(), strict=True))
    assert (color["n3"], color["n33"]) == (0, len(about["classes"]) - 1)
    assert sum(drawn.is_labeled) == len(sizes)


def test_an_erased_node_leaves_the_map_at_once_and_the_map_leaves_the_disk(api: Api) -> None:
    bring_communities(api)
    run(api, kind="map")
    name = tile(api).names[7]
    api.call("POST", "/graphs/g/erasures", 202, json={"nodes": [name]})
    hidden = tile(api)
    assert name not in hidden.names
    assert len(hidden.names) == 59
    directory = api.home.paths(api.home.catalog.get("g")).map
    assert list(directory.iterdir())
    api.ingest()
    assert not directory.exists()
    api.problem("GET", TILE, 404)


def test_a_key_without_read_sees_no_map(api: Api) -> None:
    bring_communities(api)
    key = api.home.keys.create("pusher", ["ingest"])
    for path in ("/graphs/g/map", TILE):
        api.problem("GET", path, 401)
        api.problem("GET", path, 403, headers={"Authorization": f"Bearer {key}"})
