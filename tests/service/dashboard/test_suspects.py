"""Suspects: the unlabeled nodes most probably of a class, why, how many are right, and labels."""

import csv
import io
import re
from collections.abc import Iterator
from html import unescape

import pyarrow as pa
import pytest

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.dashboard.class_colors import rarest_class
from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.suspects import precision_above, suspects
from peewit.service.settings import Settings
from peewit.solvers.arguments import BadArgument
from peewit.solvers.assessment.agreement import wilson_interval
from tests.service.api.conftest import PARQUET, Api, as_parquet, bring_communities, serving
from tests.service.dashboard.forms import PIECE, look, send
from tests.service.solvable import two_communities

SUSPECTS = "/graphs/g/suspects"
LABELED = {f"n{node}": "fine" for node in range(0, 27, 3)} | {
    f"n{node}": "fraud" for node in range(33, 60, 8)
}
"""They replace the labels that `bring_communities` puts at n3 and n33."""


def bring(api: Api) -> dict[str, str]:
    """Two communities, one of frauds with few labels, and jobs by what they did."""
    bring_communities(api)
    api.put_labels(LABELED)
    sizes = {f"n{node}": node / 2 for node in range(0, 60, 9)}
    rows = [{"node": node, "size": value} for node, value in sizes.items()]
    api.call("PUT", "/graphs/g/labels?label_column=size", 200, json={"labels": rows})
    solves = {
        "value": {"target": "real", "label_column": "size"},
        "plain": {},
        "judged": {"cross_validate": 3},
    }
    own = {"auto": api.solve("auto")["id"]}
    return own | {name: api.solve("hfs", **each)["id"] for name, each in solves.items()}


@pytest.fixture(scope="module")
def suspected(
    processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, dict[str, str]]]:
    """A server with the graph of `bring`; tests only look at it."""
    home = tmp_path_factory.mktemp("suspected")
    settings = Settings(home=home, database_url=None, admin_key_file=None)
    with serving(settings, create=create_app) as api:
        yield api, bring(api)


def nodes_in(text: str) -> list[str]:
    """The suspects of a page, in its order."""
    return re.findall(r'<tr data-row><th scope="row"><a [^>]*>(.*?)</a>', text)


def test_the_most_probable_nodes_of_the_rarest_class_are_listed_and_downloaded(
    suspected: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = suspected
    file = api.home.predictions.open(api.home.jobs.get(jobs["judged"]))
    assert rarest_class(file) == "fraud"
    scores = {
        row["node"]: row["probability:fraud"]
        for row in file.table().to_pylist()
        if not row["labeled"]
    }
    best = sorted(scores, key=lambda node: -scores[node])
    text = look(api, f"{SUSPECTS}?k=7")
    assert '<option value="fraud" selected>' in text
    shown = nodes_in(text)
    assert [scores[node] for node in shown] == [scores[node] for node in best[:7]]
    assert LABELED.keys().isdisjoint(nodes_in(look(api, f"{SUSPECTS}?k=1000")))
    links = re.findall(r'href="([^"]*suspects/download[^"]*format=csv)"', text)
    rows = list(csv.DictReader(io.StringIO(api.client.get(unescape(links[0])).text)))
    assert [row["node"] for row in rows] == shown
    (whole,) = re.findall(r'href="([^"]*predictions[^"]*unlabeled=1)#nodes"', text)
    listed = re.findall(r'<th scope="row"><a [^>]*>(n\d+)</a>', look(api, whole))
    assert listed[:7] == shown
    fine = nodes_in(look(api, f"{SUSPECTS}?positive=fine&k=7"))
    assert set(fine).isdisjoint(shown)


def test_precision_is_told_by_the_left_out_labels_above_the_last_suspect(
    suspected: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = suspected
    file = api.home.predictions.open(api.home.jobs.get(jobs["judged"]))
    numbers = suspects(file, "fraud", 20)
    score = float(file.lookup(numbers)[-1]["scores"]["fraud"])  # type: ignore[index]
    told = precision_above(file, "fraud", score)
    assert told.n_above > 0
    assert told.share == told.n_right / told.n_above
    low, high = wilson_interval(told.n_right, told.n_above, confidence=0.9)
    alarms = told.alarms
    assert alarms.n_wrong == told.n_above - told.n_right
    assert alarms.n_found == 20
    rate = wilson_interval(alarms.n_wrong, alarms.n_others, confidence=0.9)[1]
    assert alarms.most == min(int(rate * len(suspects(file, "fraud", 10_000))), 20)
    assert (told.low, told.high) == (min(low, 1 - alarms.most / 20), high)
    text = look(api, f"{SUSPECTS}?k=20")
    assert f"{told.n_right} of the {told.n_above} left-out labels" in text
    assert f"{100 * told.low:.0f} % to {100 * told.high:.0f} %" in text
    rarer = precision_above(file, "fraud", -1.0, positive_share=0.01)
    assert rarer.share == pytest.approx(0.01)  # every node is found
    assert precision_above(file, "fraud", 2.0).share is None


def test_labels_that_the_model_left_out_itself_judge_suspects_and_thresholds(
    suspected: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = suspected
    record = api.home.jobs.get(jobs["auto"])
    left_out = read_left_out(api.home.predictions.open(record))
    assert left_out.nodes.size > 5
    assert left_out.nodes.size == record.result["judged"]["n_left_out"]  # type: ignore[index]
    text = look(api, f"{SUSPECTS}?job={jobs['auto']}&k=40")
    assert "left no labels out" not in text
    assert "left-out labels of other classes also score as much" in text


def test_a_threshold_is_chosen_by_precision_or_by_costs(
    suspected: tuple[Api, dict[str, str]],
) -> None:
    api, _ = suspected
    by_cost = look(api, f"{SUSPECTS}?cost_fn=10&cost_fp=1&positive_share=&min_precision=")
    found = re.search(r"<strong>(\d+)</strong> nodes without a label", by_cost)
    assert found is not None
    assert "at a mean cost of" in by_cost
    (these,) = re.findall(r'href="([^"]*)#suspects"', by_cost)
    assert len(nodes_in(look(api, these))) == int(found[1])
    assert "recall" in look(api, f"{SUSPECTS}?min_precision=0.5")
    both = look(api, f"{SUSPECTS}?min_precision=0.5&cost_fn=2")
    assert "must stand without" in both
    look(api, f"{SUSPECTS}?min_precision=2", 422)


def test_what_is_missing_is_said_with_the_button_that_brings_it(
    suspected: tuple[Api, dict[str, str]],
) -> None:
    api, jobs = suspected
    plain = look(api, f"{SUSPECTS}?job={jobs['plain']}&min_precision=0.5")
    assert "Solve again with labels left out" in plain
    assert len(nodes_in(plain)) > 10
    assert "predicts numbers" in look(api, f"{SUSPECTS}?label_column=size")
    assert "positive" in look(api, f"{SUSPECTS}?positive=nobody", 422)
    look(api, f"{SUSPECTS}?k=0", 422)
    file = api.home.predictions.open(api.home.jobs.get(jobs["plain"]))
    with pytest.raises(BadArgument, match="positive must be one of"):
        suspects(file, "nobody", 3)


def test_reasons_speak_for_the_class_and_name_what_is_shared(
    suspected: tuple[Api, dict[str, str]],
) -> None:
    api, _ = suspected
    text = look(api, SUSPECTS)
    addresses = re.findall(r'hx-get="([^"]*suspects/reasons[^"]*)"', text)
    assert len(addresses) == len(nodes_in(text))
    lines = [look(api, each, headers=PIECE) for each in addresses]
    of_frauds = {node for node, label in LABELED.items() if label == "fraud"}
    for line in lines[:5] + lines[-2:]:  # the last ones are predicted to be fine
        first = line.partition("shares")[0]
        named = set(re.findall(r"/node\?id=(n\d+)", first))
        assert named
        assert named <= of_frauds
    assert any("shares" in line for line in lines)


@pytest.mark.usefixtures("processes")
def test_suspects_are_labeled_and_taken_back_with_and_without_script(pages: Api) -> None:
    bring(pages)
    first, second, *_ = nodes_in(look(pages, SUSPECTS))
    form = {"positive": "fraud", "back": "suspects?k=5", "node": first, "label": "fraud"}
    where = send(pages, SUSPECTS, **form).headers["location"]
    assert where == f"{SUSPECTS}?k=5&done={first}"
    text = look(pages, where)
    assert nodes_in(text)[0] == second
    assert len(nodes_in(text)) == 5
    assert "1 labeled since is left out" in text
    assert f"<strong>{first}</strong> is" in text
    send(pages, SUSPECTS, **form, undo="1")
    assert nodes_in(look(pages, where))[0] == first
    origin = {"Origin": str(pages.client.base_url).rstrip("/")}
    answer = pages.client.post(SUSPECTS, data=form, headers=PIECE | origin)
    assert "Undo" in answer.text
    (newest,) = pages.home.labels.page(pages.home.catalog.get("g").id, limit=1)
    assert (newest.node, newest.label, newest.origin) == (first, "fraud", "suggested")
    answer = pages.client.post(SUSPECTS, data=form | {"undo": "1"}, headers=PIECE | origin)
    assert 'value="fine"' in answer.text
    refused = pages.client.post(SUSPECTS, data=form | {"undo": "1"}, headers=PIECE | origin)
    assert refused.status_code == 422
    for scopes, may_label in ((["read"], False), (["read", "label"], True)):
        send(pages, "/sign-in", key=pages.home.keys.create("somebody", scopes))
        text = look(pages, SUSPECTS)
        assert nodes_in(text)
        assert ('name="label"' in text) == may_label


@pytest.mark.usefixtures("processes")
def test_only_answer_kinds_are_suspected_and_reasons_name_relations(pages: Api) -> None:
    pages.create_graph("g", seed=1, answers=["account"], node_ids="typed")
    u, v = two_communities()
    table = pa.table({"account": [f"a{each}" for each in u], "card": [f"c{each}" for each in v]})
    query = "src=account:account&dst=card:card&relation=pays"
    headers = {"Content-Type": PARQUET}
    content = as_parquet(table)
    pages.call("POST", f"/graphs/g/edges?{query}", 202, content=content, headers=headers)
    pages.ingest()
    pages.put_labels({"account:a3": "fraud", "account:a4": "fine", "account:a33": "fine"})
    pages.solve("hfs")
    text = look(pages, f"{SUSPECTS}?k=100")
    assert "for nodes of kind account" in text
    shown = nodes_in(text)
    assert shown
    assert {node.partition(":")[0] for node in shown} == {"account"}
    addresses = re.findall(r'hx-get="([^"]*suspects/reasons[^"]*)"', text)
    lines = [look(pages, each, headers=PIECE) for each in addresses]
    beside = [line for line in lines if "2 steps by pays" in line]
    assert beside
    shares = r"shares <strong><a [^>]*>card:c\d+</a></strong>.*account:a3"
    assert all(re.search(shares, line, re.DOTALL) for line in beside)
    assert any("4 steps by pays" in line and "shares" not in line for line in lines)


def test_a_graph_without_predictions_says_how_to_come_by_them(pages: Api) -> None:
    pages.create_graph("g")
    assert "No predictions yet" in look(pages, SUSPECTS)
