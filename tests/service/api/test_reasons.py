"""Reasons of a prediction over HTTP."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from pydantic import TypeAdapter

from peewit.service.predictions.prediction_files import shares_path
from peewit.service.settings import Settings
from peewit.service.wire.predictions import NodeReasons, PredictionReasons
from tests.service.api.conftest import CSV, Api, bring_communities, serving

pytestmark = pytest.mark.usefixtures("processes")

REASONS = "/graphs/g/predictions/node/reasons"
LABELS = {"n3": "left", "n33": "right", "n10": "left", "n50": "right"}


def reasons(api: Api, query: str) -> NodeReasons:
    answer = api.call("GET", f"{REASONS}?{query}", 200).content
    return TypeAdapter(PredictionReasons).validate_json(answer, extra="forbid").reasons


@pytest.fixture(scope="module")
def told(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A graph solved by two models; tests only look at it."""
    home = tmp_path_factory.mktemp("told")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        bring_communities(api)
        api.put_labels(LABELS)
        api.solve("auto")
        api.solve("stable-hfs")
        yield api


def test_labels_of_the_nodes_own_side_speak_for_it(told: Api) -> None:
    found = reasons(told, "id=n7&model=auto")
    assert (found.node, found.label, found.is_whole) == ("n7", "left", True)
    assert found.note is not None
    assert "of the answer is what kind of neighbors the node has" in found.note
    assert {each.node for each in found.labels} == {"n3", "n10"}
    assert sum(each.part for each in found.labels) == pytest.approx(found.carried)
    assert found.carried == pytest.approx(1.0, abs=0.02)
    assert found.followed > 0.99
    assert [each.label for each in found.classes] == ["left", "right"]
    assert found.classes[0].support > 1.0 > found.classes[1].support
    assert {each.node for each in found.against} == {"n33", "n50"}
    for each in found.labels:
        assert each.way is not None
        assert (each.way[0], each.way[-1]) == ("n7", each.node)
    crossing = found.against[0].way
    assert crossing is not None
    assert ("n0", "n30") in pairwise(crossing)


def test_as_many_labels_are_told_as_were_asked_for(told: Api) -> None:
    found = reasons(told, "id=n7&model=auto&k=1")
    assert (len(found.labels), len(found.against)) == (1, 1)
    assert found.labels[0].part == max(
        each.part for each in reasons(told, "id=n7&model=auto").labels
    )
    for k in (0, 101):
        assert told.problem("GET", f"{REASONS}?id=n7&k={k}", 422)


def test_other_models_say_that_they_weigh_labels_otherwise(told: Api) -> None:
    found = reasons(told, "id=n7&model=stable-hfs")
    assert found.note is not None
    assert "stable-hfs weighs labels in its own way" in found.note
    assert "label_shares=true" in found.note
    assert not found.is_whole
    assert found.label == "left"
    assert {each.label for each in found.labels} == {"left"}


def test_shares_that_a_job_kept_are_told(told: Api) -> None:
    for model, others in (("hfs", {"class_mass": "none"}), ("poisson", {})):
        job = told.solve(model, label_shares=True, **others)
        assert job["result"]["stats"]["label_shares"]["largest_miss"] < 1e-4
        found = reasons(told, f"id=n7&model={model}&k=4")
        assert (found.by, found.label, found.is_whole, found.note) == ("shares", "left", True, None)
        assert {each.node for each in found.labels} == {"n3", "n10"}
        assert sum(each.part for each in found.labels) == pytest.approx(found.carried)
        assert found.carried == pytest.approx(1.0)
        assert found.classes[0].label == "left"
        assert found.classes[0].support > found.classes[1].support
        if model == "hfs":
            assert sum(each.support for each in found.classes) == pytest.approx(1.0)
            assert found.classes[0].support == pytest.approx(found.score, rel=1e-5)


def test_shares_are_refused_where_there_are_none(told: Api) -> None:
    for model, others in (("auto", {}), ("hfs", {"refine": True}), ("hfs", {"target": "real"})):
        body = {"kind": "solve", "model": model, "parameters": {"label_shares": True, **others}}
        assert told.problem("POST", "/graphs/g/jobs", 422, json=body)["argument"] == "label_shares"


def test_what_nothing_is_known_of_is_refused(told: Api) -> None:
    assert told.problem("GET", f"{REASONS}?id=n999", 404)["type"].endswith("node-not-found")
    assert told.problem("GET", f"{REASONS}?id=n7&model=harmonic-mbo", 404)["type"].endswith(
        "predictions-not-found"
    )


def test_an_erased_label_is_told_by_nobody(api: Api) -> None:
    bring_communities(api)
    api.put_labels(LABELS)
    api.solve("auto")
    assert "n10" in {each.node for each in reasons(api, "id=n7").labels}
    api.call("POST", "/graphs/g/erasures", 202, json={"nodes": ["n10"]})
    before = reasons(api, "id=n7")
    assert {each.node for each in before.labels} == {"n3"}
    assert all("n10" not in (each.way or ()) for each in (*before.labels, *before.against))
    api.ingest()
    left = reasons(api, "id=n7")
    assert {each.node for each in left.labels} == {"n3"}
    assert {each.node for each in left.against} == {"n33", "n50"}
    assert left.note is not None
    assert "nodes were erased since the solve" in left.note
    api.solve("auto")
    anew = reasons(api, "id=n7")
    assert {each.node for each in anew.labels} == {"n3"}
    assert "erased" not in (anew.note or "")


def test_shares_of_an_erased_label_go(api: Api) -> None:
    bring_communities(api)
    api.put_labels(LABELS)
    api.solve("hfs", label_shares=True)
    kept = api.home.predictions.open(api.home.predictions.find(api.home.catalog.get("g")))
    assert shares_path(kept.path).exists()
    api.call("POST", "/graphs/g/erasures", 202, json={"nodes": ["n10"]})
    before = reasons(api, "id=n7")
    assert {each.node for each in before.labels} == {"n3"}
    api.ingest()
    left = reasons(api, "id=n7")
    assert ({each.node for each in left.labels}, left.by) == ({"n3"}, "shares")
    (of_n3,) = left.labels
    assert of_n3.part == pytest.approx(1.0), "the share of the other is gone"
    assert before.labels[0].part < 1.0
    shares = np.load(shares_path(kept.path))
    assert (not shares[10].any(), shares.any(axis=0).sum()) == (True, len(LABELS) - 1)


def test_a_node_that_no_label_reaches_has_no_reasons(api: Api) -> None:
    bring_communities(api)
    api.push(b"src,dst\nfar,away\n", CSV)
    api.ingest()
    api.solve("auto")
    found = reasons(api, "id=far")
    assert (found.label, found.labels, found.against) == (None, (), ())
    assert found.note == "no label reaches the node"


def test_numbers_have_no_reasons(api: Api) -> None:
    bring_communities(api)
    numbers = {"labels": [{"node": node, "size": 1.5} for node in LABELS]}
    api.call("PUT", "/graphs/g/labels?label_column=size", 200, json=numbers)
    api.solve("hfs", target="real", label_column="size")
    problem = api.problem("GET", f"{REASONS}?id=n7&label_column=size", 422)
    assert problem["argument"] == "model"
