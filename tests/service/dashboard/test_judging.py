"""Pages say how far predictions can be trusted: sets, abstention, doubtful labels, calibration."""

import csv
import io
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.jobs.job import JobStatus
from peewit.service.settings import Settings
from tests.service.api.conftest import Api, bring_communities, serving
from tests.service.dashboard.forms import PIECE, look, send

ROOT = "/graphs/g"
PREDICTIONS, DOUBTFUL = f"{ROOT}/predictions", f"{ROOT}/labels/doubtful"
ODD = "<b>left"


def judged(api: Api) -> dict[str, str]:
    """A graph with a wrong label, at n1; job ids of solves by what they kept."""
    parameters: dict[str, Any]
    bring_communities(api)
    sides = {f"n{node}": ODD if node < 30 else "right" for node in range(0, 60, 5)}
    api.put_labels({"n3": ODD} | sides | {"n1": "right"})
    found = {}
    for name, model, parameters in (
        ("sets", "auto", {"sets": "marginal"}),
        ("calibrated", "stable-hfs", {"probabilities": True}),
        ("own", "hfs", {"cross_validate": 3}),
        ("real", "hfs", {"target": "real", "label_column": "size"}),
        ("rare", "hfs", {"sets": "by-class", "label_column": "kind"}),
        ("promised", "hfs", {"sets": "marginal", "label_column": "kind"}),
        ("plain", "stable-hfs", {"graph_penalty": 0.5}),
        ("proven", "stable-hfs", {"prove": 0.01}),
        ("default", "auto", {"label_column": "drawn"}),
        ("random", "stable-hfs", {"probabilities": True, "label_column": "drawn"}),
    ):
        if column := parameters.get("label_column"):
            step = 1 if column == "drawn" else 5
            kinds = {
                node: "rare" if (column, node) == ("kind", 50) else f"k{node // 30}"
                for node in range(0, 60, step)
            }
            rows = [
                {"node": f"n{node}", column: node if column == "size" else kinds[node]}
                for node in kinds
            ]
            origin = "random" if column == "drawn" else "given"
            address = f"/graphs/g/labels?label_column={column}&origin={origin}"
            api.call("PUT", address, 200, json={"labels": rows})
        job = api.solve(model, **parameters)
        assert job["status"] == "succeeded", name
        found[name] = job["id"]
    return found


@pytest.fixture(scope="module")
def trusted(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, dict[str, str]]]:
    """A server with the graph of `judged`; tests only look at it."""
    home = tmp_path_factory.mktemp("trusted")
    settings = Settings(home=home, database_url=None, admin_key_file=None)
    with serving(settings, create=create_app) as api:
        yield api, judged(api)


def test_nodes_have_their_sets(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    text = look(api, f"{PREDICTIONS}?job={jobs['sets']}")
    assert "Set at 90 %" in text
    assert "one label" in text
    n_certain = {}
    for coverage in (0.8, 0.99):
        address = f"{PREDICTIONS}?job={jobs['sets']}&coverage={coverage}&certainty="
        for certainty in ("certain", "uncertain"):
            text = look(api, address + certainty)
            rows = re.findall(r"/node\?id=(n\d+)", text)
            assert '<span class="badge">certain' not in text  # sets hold in the mean alone
            n_certain[coverage, certainty] = len(rows)
            table = api.client.get(
                f"{PREDICTIONS}/download?format=csv&job={jobs['sets']}"
                f"&coverage={coverage}&certainty={certainty}"
            )
            told = list(csv.DictReader(io.StringIO(table.text)))
            assert len(told) >= len(rows)
            assert {row["certain"] for row in told} <= {str(certainty == "certain").lower()}
    assert n_certain[0.99, "certain"] == 0  # 15 labels leave nothing out at that coverage
    assert n_certain[0.8, "certain"] > 0
    node = look(api, f"{ROOT}/node?id=n7&job={jobs['sets']}&coverage=0.99")
    assert f"<dt>Set at 99 %</dt><dd>{ODD}, right <span" in node
    assert ">uncertain<" in node
    assert "Set at" not in look(api, f"{ROOT}/node?id=n7&job={jobs['plain']}")
    assert ODD not in api.client.get(f"{ROOT}/node?id=n7&job={jobs['sets']}").text


def test_nodes_say_whether_their_label_is_proven(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    address = f"{PREDICTIONS}?job={jobs['proven']}"
    text = look(api, f"{address}&sort=proven")
    assert "<td>proven</td>" in text
    assert 'aria-sort="ascending"' in text
    (reverse,) = re.findall(r'href="([^"]*sort=proven[^"]*reverse=1[^"]*)"', text)
    assert "<td>proven</td>" in look(api, unescape(reverse).split("#")[0])
    assert "No node is predicted so." in look(api, f"{address}&unproven=1")
    assert "<td>proven</td>" not in look(api, f"{PREDICTIONS}?job={jobs['plain']}")
    refused = look(api, f"{PREDICTIONS}?job={jobs['plain']}&sort=proven", 422)
    assert "needs a job with prove=.01" in refused


def test_a_card_says_what_sets_promise(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    card = look(api, f"{PREDICTIONS}/sets?job={jobs['sets']}&coverage=0.8", headers=PIECE)
    assert "with a chance of about 80 %" in card
    assert f'<th scope="row">{ODD}, right</th><td class="number">15</td>' in card
    assert "too few" not in card
    few = look(api, f"{PREDICTIONS}/sets?job={jobs['sets']}&coverage=0.95", headers=PIECE)
    assert "15 labels are too few to leave them out" in few
    kept = f'<input type="hidden" name="job" value="{jobs["sets"]}">'
    assert kept in card  # the form changes the coverage alone
    rare = look(api, f"{PREDICTIONS}/sets?job={jobs['rare']}", headers=PIECE)
    assert "rare: labels that could be left out are too few" in rare
    promised = look(api, f"{PREDICTIONS}/sets?job={jobs['promised']}", headers=PIECE)
    assert "classes of which no label could be left out: rare" in promised
    assert "k0: 6 labels are too few to leave it out" in rare
    raw = api.client.get(f"{PREDICTIONS}/sets?job={jobs['sets']}").text
    assert ODD not in raw


def test_surest_nodes_are_listed_and_downloaded(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    address = f"{PREDICTIONS}/abstention?job={jobs['sets']}&max_error=0.4"
    card = look(api, address, headers=PIECE)
    assert "at most 40 % are wrong, with a confidence of 90 %" in card
    assert 'data-curve="[' in card
    assert card.count("<tr>") > 5  # the curve as a table
    share = re.search(r"<strong>([\d.]+) %</strong> of the nodes", card)
    assert share is not None
    links = re.findall(rf'href="({PREDICTIONS}[^"]+score_from[^"]+)"', card)
    listed, downloaded = (unescape(each) for each in links)
    answer = api.client.get(downloaded)
    assert answer.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) / 60 == pytest.approx(float(share[1]) / 100, abs=1e-3)
    shown = re.findall(r"/node\?id=(n\d+)", look(api, listed))
    assert shown == [row["node"] for row in rows][:50]
    few = look(api, f"{PREDICTIONS}/abstention?job={jobs['sets']}&max_error=0.01", headers=PIECE)
    assert "too few, or too often wrong" in few
    assert "List these nodes" not in few


def test_the_score_is_explained(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    said = {
        name: look(api, f"{PREDICTIONS}/summary?job={job}", headers=PIECE)
        for name, job in jobs.items()
    }
    for name in ("default", "random"):
        assert "calibrated probability" in said[name]
        assert "On 60 labels that were left out, the probability was off by" in said[name]
    for name in ("sets", "calibrated"):
        assert "a <strong>score</strong> between 0 and 1" in said[name]
        assert "choose random, and label 200" in said[name]
        assert "On 15 labels that were left out" in said[name]
        assert "Brier score" in said[name]
        assert "Solve again" not in said[name]
    assert "probability that is not calibrated" in said["own"]
    assert "Expected calibration error" in said["own"]
    assert "plain <strong>class score" in said["plain"]
    for name in ("own", "plain"):
        assert "Solve again with probabilities" in said[name]
    assert "What the score means" not in said["real"]


def test_what_a_job_did_not_keep_is_said_and_solved_for(
    trusted: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = trusted
    sets = look(api, f"{PREDICTIONS}/sets?job={jobs['plain']}", headers=PIECE)
    assert "kept no sets" in sets
    assert 'value="graph_penalty=0.5\nsets="auto"\n"' in sets  # the job's own, and the option
    assert "class scores, which cannot tell" in look(
        api, f"{PREDICTIONS}/abstention?job={jobs['plain']}", headers=PIECE
    )
    doubtful = look(api, f"{DOUBTFUL}?job={jobs['plain']}")
    assert "left no labels out" in doubtful
    assert "cross_validate=5" in doubtful
    assert "predicts numbers" in look(api, f"{DOUBTFUL}?label_column=size")
    numbers = look(api, f"{PREDICTIONS}?job={jobs['real']}")
    assert "/predictions/sets" not in numbers
    assert "the others contradict" not in numbers


def test_wrong_arguments_lead_to_a_clear_page(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    for name in ("coverage", "max_error", "confidence"):
        for value in ("2", "0", "nan", "x"):
            text = look(api, f"{PREDICTIONS}?job={jobs['sets']}&{name}={value}", 422)
            assert name in text[text.index("<main") :]
    look(api, f"{PREDICTIONS}?job={jobs['sets']}&coverage=&certainty=&score_from=")
    refused = look(api, f"{PREDICTIONS}?job={jobs['plain']}&certainty=certain", 409)
    assert "sets=auto" in refused
    look(api, f"{DOUBTFUL}?job=nobody", 404)
    look(api, f"{DOUBTFUL}?k=0", 422)


def test_a_doubtful_label_is_ranked(trusted: tuple[Api, dict[str, str]]) -> None:
    api, jobs = trusted
    for name, column in (("sets", "Chance of the label"), ("calibrated", "Chance of the label")):
        text = look(api, f"{DOUBTFUL}?job={jobs[name]}")
        assert column in text
        rows = text[text.index("<tbody>") :]
        assert re.findall(r"/node\?id=(n\d+)", rows)[0] == "n1"
        assert f"<td>right</td><td>{ODD}</td>" in rows
        assert "Change to" in rows
    assert ODD not in api.client.get(f"{DOUBTFUL}?job={jobs['sets']}").text
    assert "of label column <strong>kind" in look(api, f"{DOUBTFUL}?label_column=kind")
    for page in (f"{ROOT}/labels", f"{PREDICTIONS}?job={jobs['sets']}"):
        assert f'href="{DOUBTFUL}?' in look(api, page)


@pytest.mark.usefixtures("processes")
def test_a_doubtful_label_is_changed_and_solved_again(pages: Api) -> None:
    bring_communities(pages)
    assert "Nothing is predicted from these labels yet" in look(pages, DOUBTFUL)
    send(pages, f"{ROOT}/jobs", parameters="cross_validate=5\n")
    (asked,) = pages.home.jobs.list(status=JobStatus.QUEUED).jobs
    assert asked.parameters == {"cross_validate": 5}
    pages.home.jobs.cancel(asked.id)
    sides = {f"n{node}": "left" if node < 30 else "right" for node in range(0, 60, 5)}
    pages.put_labels(sides | {"n1": "right"})
    form = {"model": "stable-hfs", "parameters": 'cross_validate=3\nsets="auto"\n'}
    where = send(pages, f"{ROOT}/jobs", **form).headers["location"]
    pages.run_job(where.partition("job=")[2])
    text = look(pages, DOUBTFUL)
    assert "Behind by" in text  # of class scores
    assert "Change to left" in text
    back = {"node": "n1", "label_column": "", "back": "labels/doubtful?k=50"}
    moved = send(pages, f"{ROOT}/labels", label="left", **back).headers["location"]
    assert moved == f"{DOUBTFUL}?k=50"
    assert "left by now" in look(pages, moved)
    send(pages, f"{ROOT}/labels/remove", **back)
    assert "taken back since" in look(pages, moved)


def test_only_who_may_label_has_buttons(pages: Api, processes: None) -> None:
    jobs = judged(pages)
    for scopes, is_shown in ((["read"], False), (["read", "label"], True)):
        key = pages.home.keys.create("somebody", scopes)
        send(pages, "/sign-in", key=key)
        doubtful = look(pages, f"{DOUBTFUL}?job={jobs['sets']}")
        assert ("Take back" in doubtful) == is_shown
        for piece in ("sets", "abstention", "summary"):
            text = look(pages, f"{PREDICTIONS}/{piece}?job={jobs['plain']}", headers=PIECE)
            assert ("Solve again" in text) == is_shown
