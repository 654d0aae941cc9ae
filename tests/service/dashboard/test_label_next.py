"""Label next says what is so: why there is no node, what predictions know, and the switch."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape

import httpx
import pytest

from peewit.service.graph_settings import AutoSolve
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import embed
from tests.service.api.conftest import CSV, Api, bring_communities
from tests.service.dashboard.forms import PIECE, look, send

CARD, EFFECT = "/graphs/g/label-next/card", "/graphs/g/label-next/effect"
SWITCH = "/graphs/g/label-next/auto-solve"


def effect(api: Api) -> str:
    """What the panel beside the card says."""
    return look(api, EFFECT, headers=PIECE)


def bring_edges(api: Api, edges: bytes = b"src,dst\na,b\nb,c\nc,d\nd,a\n") -> None:
    api.create_graph("g", seed=1)
    api.push(edges, CSV)
    api.ingest()


def locate(api: Api) -> None:
    """What the job of kind embed does."""
    graph = api.home.catalog.get("g")
    assert graph.progress.snapshot is not None
    embed(GraphPaths(root=api.home.settings.graphs_directory / graph.id), graph.progress.snapshot)


def waiting(api: Api, kind: str = "solve") -> Sequence[Job]:
    jobs = api.home.jobs.list(status=JobStatus.QUEUED).jobs
    return [job for job in jobs if job.kind == kind]


# ------------------------------------------------------------------------------ no node, and why
def test_a_graph_without_edges_says_what_it_waits_for(pages: Api) -> None:
    pages.create_graph("g")
    for strategy in ("coverage", "margin"):
        card = look(pages, f"{CARD}?strategy={strategy}")
        assert "The graph has no edges" in card
        assert "peewit ingest g FILE" in card
        assert 'hx-trigger="refresh' in card  # the first node comes by itself
    pages.push(b"src,dst\na,b\n", CSV)
    assert "1 file waits to be read" in look(pages, CARD)


def test_a_card_without_node_is_sent_again_only_when_it_says_something_else(pages: Api) -> None:
    pages.create_graph("g")
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', look(pages, CARD))
    assert seen is not None
    assert pages.client.get(f"{CARD}?seen={seen[1]}").status_code == 204
    bring = b"src,dst\na,b\n"
    pages.push(bring, CSV)
    assert "waits to be read" in look(pages, f"{CARD}?seen={seen[1]}")


def test_a_graph_whose_files_were_refused_says_so(pages: Api) -> None:
    pages.create_graph("g")
    source = pages.home.settings.home.parent / "bad.csv"
    source.write_bytes(b"src,dst,weight\na,b,-1\n")
    pages.call("POST", "/graphs/g/sources", 201, json={"url": str(source)})
    pages.ingest()
    assert "1 file was refused" in look(pages, CARD)


def test_margins_need_predictions_and_are_not_offered_without(pages: Api) -> None:
    bring_edges(pages)
    card = look(pages, f"{CARD}?strategy=margin")
    assert "nothing is predicted yet" in card
    assert "strategy=coverage" in card
    card = look(pages, CARD)
    assert "The nodes are not located yet" in card
    assert "strategy=margin" not in card


def test_a_look_starts_no_job_and_a_button_does(pages: Api) -> None:
    bring_edges(pages)
    look(pages, "/graphs/g/label-next")
    assert "Locate the nodes" in look(pages, CARD)
    assert waiting(pages, "embed") == []
    send(pages, "/graphs/g/label-next/embedding")
    assert len(waiting(pages, "embed")) == 1
    assert "Locating the nodes" in look(pages, CARD)


def test_a_graph_that_has_grown_is_located_again_by_a_button(pages: Api) -> None:
    bring_edges(pages)
    locate(pages)
    assert "Locate the nodes again" not in look(pages, CARD)
    pages.push(b"src,dst\na,e\ne,f\nf,g\n", CSV)
    pages.ingest()
    assert "Locate the nodes again" in look(pages, CARD)
    assert waiting(pages, "embed") == []
    send(pages, "/graphs/g/label-next/embedding")
    assert "Locate the nodes again" not in look(pages, CARD)  # it is under way


def test_who_waits_for_a_job_is_told_when_nobody_can_run_it(pages: Api) -> None:
    bring_edges(pages)
    pages.put_labels({"a": "x", "b": "y"})
    send(pages, "/graphs/g/jobs", model="hfs")
    send(pages, "/graphs/g/label-next/embedding")
    assert "No worker is running" in look(pages, CARD)
    assert "No worker is running" in effect(pages)
    WorkerRegistry(pages.home.database).register("w", ("fast", "heavy"))
    assert "No worker is running" not in look(pages, CARD)
    assert "No worker is running" not in effect(pages)


def test_nodes_that_could_not_be_located_are_located_again_on_demand(pages: Api) -> None:
    bring_edges(pages)
    send(pages, "/graphs/g/label-next/embedding")
    job = pages.home.jobs.claim("w", ["heavy"])
    assert job is not None
    pages.home.jobs.capture(job.id, job.attempt, snapshot=1, labels_seq=0, features_version=0)
    pages.home.jobs.fail(job.id, job.attempt, "the disk is full")
    card = look(pages, CARD)
    assert "the disk is full" in card
    assert "Try again" in card
    assert waiting(pages, "embed") == []
    send(pages, "/graphs/g/label-next/embedding", strategy="variance")
    assert len(waiting(pages, "embed")) == 1
    assert "Locating the nodes" in look(pages, CARD)


def test_only_a_graph_whose_nodes_all_have_labels_is_said_to(pages: Api) -> None:
    bring_edges(pages)
    locate(pages)
    pages.put_labels(dict.fromkeys("abc", "x"))
    assert "Every node has a label" not in look(pages, CARD)
    skipped = look(pages, f'{CARD}?skipped=["d"]')
    assert "Only skipped nodes are left" in skipped
    assert "1 node has no label" in skipped
    assert "data-unskip" in skipped
    pages.put_labels({"d": "x"})
    assert "Every node has a label" in look(pages, CARD)
    assert "Every node has a label" in look(pages, f'{CARD}?skipped=["d"]')


def test_nodes_that_a_strategy_does_not_choose_among_are_not_said_to_be_done(pages: Api) -> None:
    large = b"".join(b"a%d,a%d\n" % (each, (each + 1) % 300) for each in range(300))
    bring_edges(pages, b"src,dst\n" + large + b"far,off\n")
    locate(pages)
    body = {"labels": [{"node": f"a{each}", "label": "x"} for each in range(300)]}
    pages.call("PUT", "/graphs/g/labels?origin=random", 200, json=body)
    card = look(pages, CARD)
    assert "No suggestion by coverage" in card
    assert "2 nodes have no label" in card
    assert "Every node has a label" not in card


@pytest.mark.usefixtures("processes")
def test_nodes_out_of_reach_are_not_said_to_be_labeled(pages: Api) -> None:
    bring_edges(pages, b"src,dst\na,b\nb,c\nfar,off\n")
    pages.put_labels({"a": "x", "c": "y"})
    pages.solve("stable-hfs")
    pages.put_labels({"b": "x"})
    card = look(pages, f"{CARD}?strategy=margin")
    assert "No suggestion by margin" in card
    assert "2 nodes have no label" in card
    locate(pages)
    card = look(pages, CARD)  # of the nodes without label, all out of reach
    assert "No label reaches it yet" in card


@pytest.mark.usefixtures("processes")
def test_numbers_have_no_margins(pages: Api) -> None:
    bring_edges(pages)
    pages.put_labels({"a": 1.5, "c": 2.5})
    pages.solve("stable-hfs", target="real")
    assert "Numbers are predicted" in look(pages, f"{CARD}?strategy=margin")


# -------------------------------------------------------------------------- what predictions know
def test_what_is_missing_for_a_prediction_is_said(pages: Api) -> None:
    pages.create_graph("g")
    assert "before the graph has edges" in effect(pages)
    pages.push(b"src,dst\na,b\nb,c\nc,d\nd,a\n", CSV)
    pages.ingest()
    assert "No node has a label" in effect(pages)
    pages.put_labels({"a": "x", "b": "x"})
    said = effect(pages)
    assert "of one class, <strong>x</strong>" in said
    assert "Predict now" not in said
    pages.put_labels({"c": "y"})
    said = effect(pages)
    assert "Nothing is predicted yet" in said
    assert "Predict now" in said
    send(pages, "/graphs/g/label-next", 200, node="c", label="y", undo="1")
    assert "of one class, <strong>x</strong>" in effect(pages)


@pytest.mark.usefixtures("processes")
def test_predictions_know_every_label_only_where_they_do(pages: Api) -> None:
    bring_edges(pages)
    pages.put_labels({"a": "x", "c": "y"})
    pages.solve("stable-hfs")
    assert "They know every label." in effect(pages)
    pages.put_labels({"b": "x"})
    assert "They do not know the last change of labels." in effect(pages)
    pages.call(
        "PUT",
        "/graphs/g/labels?unknown=keep",
        200,
        json={"labels": [{"node": "later", "label": "y"}]},
    )
    assert "the last 2 changes" in effect(pages)
    pages.solve("stable-hfs")
    said = effect(pages)
    assert "They know every label but 1, of nodes that snapshot 1 does not have." in said
    pages.push(b"src,dst\nlater,a\n", CSV)
    pages.ingest()
    said = effect(pages)
    assert "They do not know the edges after snapshot 1." in said
    assert "Predict now" in said
    pages.solve("stable-hfs")
    said = effect(pages)
    assert "They know every label." in said
    assert "They do not know" not in said


# ------------------------------------------------------------------------------ after every label
def test_the_switch_holds_from_the_first_label_on(pages: Api) -> None:
    bring_edges(pages)
    assert 'value="1" checked' not in effect(pages)
    assert 'value="1" checked' in send(pages, SWITCH, 200, on="1").text
    assert 'value="1" checked' in look(pages, "/graphs/g/label-next")
    assert pages.home.catalog.get("g").settings.auto_solve == AutoSolve(model=DEFAULT_MODEL)

    def label(node: str, value: str, **fields: str) -> int:
        send(pages, "/graphs/g/label-next", 200, node=node, label=value, **fields)
        return len(waiting(pages))

    assert label("a", "x") == 0  # of one class nothing can be predicted
    assert "of one class, <strong>x</strong>" in effect(pages)
    assert label("b", "x") == 0
    assert label("c", "y") == 1
    assert label("c", "y", undo="1") == 1
    (job,) = waiting(pages)
    pages.home.jobs.cancel(job.id)
    assert label("b", "x", undo="1") == 0  # of one class again
    assert label("c", "y") == 1
    assert label("d", "y") == 1  # one solve takes what has come so far


def test_labels_that_come_while_a_solve_runs_lead_to_one_more(pages: Api) -> None:
    bring_edges(pages)
    send(pages, SWITCH, 200, on="1")
    pages.put_labels({"a": "x", "c": "y"})
    (first,) = waiting(pages)
    assert pages.home.jobs.claim("w", [first.lane], job_id=first.id) is not None
    assert waiting(pages) == []
    for node in ("b", "d"):  # two tabs
        send(pages, "/graphs/g/label-next", 200, node=node, label="x", strategy="margin")
    (following,) = waiting(pages)
    assert following.id != first.id
    assert "once more for what has changed since" in effect(pages)


def test_the_switch_solves_what_is_there_and_keeps_what_was_chosen(pages: Api) -> None:
    bring_communities(pages)
    chosen = {"model": "hfs", "parameters": {"graph_penalty": 0.5}}
    assert waiting(pages) == []
    send(pages, SWITCH, 200, on="1")
    assert len(waiting(pages)) == 1
    pages.call("PATCH", "/graphs/g", 200, json={"auto_solve": chosen})
    send(pages, SWITCH, 200, on="1")  # another tab
    kept = pages.home.catalog.get("g").settings.auto_solve
    assert kept == AutoSolve(model="hfs", parameters={"graph_penalty": 0.5})
    assert "(hfs)" in effect(pages)
    assert 'value="1" checked' not in send(pages, SWITCH, 200).text
    assert pages.home.catalog.get("g").settings.auto_solve is None
    n_waiting = len(waiting(pages))
    pages.put_labels({"n4": "left"})
    assert len(waiting(pages)) == n_waiting


def test_undo_gives_back_what_was_there_and_leaves_what_others_did(pages: Api) -> None:
    bring_edges(pages)
    graph_id = pages.home.catalog.get("g").id
    locate(pages)
    pages.put_labels({"a": "x"})
    taken = send(pages, "/graphs/g/label-next", 200, node="a", label="y").text
    assert "is y now, and was x" in taken
    fields = {"node": "a", "label": "y", "before": "x", "undo": "1"}
    send(pages, "/graphs/g/label-next", 200, **fields)
    assert pages.home.labels.of_nodes(graph_id, ["a"]) == {"a": "x"}
    refused = send(pages, "/graphs/g/label-next", 422, **fields).text
    assert "a is x by now" in refused
    assert pages.home.labels.of_nodes(graph_id, ["a"]) == {"a": "x"}


# ----------------------------------------------------------------------- where labels come from
def asked(card: str) -> tuple[str, str]:
    """The node and the origin that the form of a card would send."""
    node, origin = (
        re.search(rf'type="hidden" name="{name}" value="([^"]*)"', card)
        for name in ("node", "origin")
    )
    assert node is not None
    assert origin is not None
    return node[1], origin[1]


def origins_of(api: Api) -> list[tuple[str, str]]:
    """Present labels in the order of their events: nodes and origins."""
    current = api.home.labels.current(api.home.catalog.get("g").id)
    return list(zip(current.nodes.to_pylist(), current.origins.to_pylist(), strict=True))


@pytest.mark.slow
def test_every_tenth_question_is_a_random_node(pages: Api) -> None:
    bring_communities(pages)
    locate(pages)
    api, graph = pages, pages.home.catalog.get("g")
    card = look(pages, CARD)
    for _ in range(28):  # two nodes have a label
        node, origin = asked(card)
        first_random = api.home.suggester.suggest(api.home.catalog.get("g"), "random", 1).nodes
        assert ("drawn at random" in card) == (origin == "random")
        assert origin == "suggested" or [node] == first_random
        fields = {"node": node, "label": "x", "origin": origin}
        card = send(pages, "/graphs/g/label-next", 200, **fields).text
    stored = [origin for _, origin in origins_of(pages)]
    assert stored == ["given"] * 2 + ["suggested"] * 7 + (["random"] + ["suggested"] * 9) * 2 + [
        "random"
    ]
    assert api.home.labels.page(graph.id, limit=1)[0].origin == "random"
    card = look(pages, f"{CARD}?strategy=random")
    assert asked(card)[1] == "random"


@pytest.mark.slow
def test_a_random_node_that_is_skipped_or_undone_is_asked_at_random_again(pages: Api) -> None:
    bring_communities(pages)
    locate(pages)
    pages.put_labels({f"n{number}": "x" for number in range(9)})
    node, origin = asked(look(pages, CARD))
    assert origin == "random"
    other, origin = asked(look(pages, f'{CARD}?skipped=["{node}"]'))
    assert (other != node, origin) == (True, "random")
    fields = {"node": node, "label": "x", "origin": "random"}
    assert asked(send(pages, "/graphs/g/label-next", 200, **fields).text)[1] == "suggested"
    assert asked(send(pages, "/graphs/g/label-next", 200, **fields, undo="1").text) == (
        node,
        "random",
    )
    assert asked(look(pages, CARD)) == (node, "random")


@pytest.mark.usefixtures("processes")
def test_what_is_predicted_for_a_random_node_is_not_shown(pages: Api) -> None:
    bring_communities(pages)
    pages.solve("stable-hfs")
    card = look(pages, f"{CARD}?strategy=margin")
    for shown in ("Predicted <strong>", 'class="bars scores"', 'class="neighbors"'):
        assert shown in card
    card = look(pages, f"{CARD}?strategy=random")
    node, origin = asked(card)
    assert origin == "random"
    assert "What is predicted for it is not shown" in card
    assert "Its strongest neighbors: <a" in card
    for hidden in ("Predicted <strong>", "margin", "scores", "<svg", f"node?id={node}"):
        assert hidden not in card


def test_undo_gives_back_the_label_with_its_origin(pages: Api) -> None:
    bring_edges(pages)
    locate(pages)
    pages.call(
        "PUT", "/graphs/g/labels?origin=random", 200, json={"labels": [{"node": "a", "label": "x"}]}
    )
    labeled = {"node": "a", "label": "y", "origin": "suggested"}
    card = unescape(send(pages, "/graphs/g/label-next", 200, **labeled).text)
    assert origins_of(pages) == [("a", "suggested")]
    undo = next(
        json.loads(each) for each in re.findall(r'hx-vals="(\{.*?\})"', card) if '"undo"' in each
    )
    send(pages, "/graphs/g/label-next", 200, **undo)
    assert origins_of(pages) == [("a", "random")]
    assert "random" in look(pages, "/graphs/g/labels")
    refused = send(pages, "/graphs/g/label-next", 422, **labeled | {"origin": "luck"}).text
    assert "origin must be one of given, random, suggested, imported" in refused


# ------------------------------------------------------------------------------ several people
@contextmanager
def signed_in(api: Api, key: str, name: str) -> Iterator[httpx.Client]:
    """A browser of somebody who shares the key with others."""
    with httpx.Client(base_url=api.client.base_url, timeout=60) as browser:
        browser.headers["Origin"] = str(api.client.base_url).rstrip("/")
        answer = browser.post("/sign-in", data={"key": key, "name": name})
        assert answer.status_code == 303
        yield browser


@pytest.mark.slow
def test_two_people_are_shown_different_nodes_and_then_each_others(pages: Api) -> None:
    bring_communities(pages)
    locate(pages)
    key = pages.home.keys.create("team", ["read", "label"])
    refused = httpx.post(
        pages.client.base_url.join("/sign-in"),
        data={"key": key, "name": "a\u200bb"},
        headers={"Origin": str(pages.client.base_url).rstrip("/")},
    )
    assert refused.status_code == 422
    assert "name must have 1 to 100 characters that can be shown" in unescape(refused.text)
    with signed_in(pages, key, "Ann") as ann, signed_in(pages, key, "Bob") as bob:
        shown, _ = asked(ann.get(CARD).text)
        assert asked(ann.get(CARD).text)[0] == shown  # a reload
        other, _ = asked(bob.get(CARD).text)
        assert other != shown
        skipped = {"skipped": json.dumps([shown])}
        assert asked(ann.get(CARD, params=skipped).text)[0] not in {shown, other}
        assert asked(bob.get(CARD, params={"skipped": json.dumps([other])}).text)[0] == shown
        for number in range(10, 20):
            ann.post("/graphs/g/label-next", data={"node": f"n{number}", "label": "left"})
        text = unescape(ann.get("/graphs/g/labels?annotator=Ann").text)
        assert text.count('<th scope="row"><a href="/graphs/g/node') == 10

        # a share of them is asked of Bob, between his own; here the queue itself
        graph = pages.home.catalog.get("g")
        due = pages.home.questions.due(graph, "Bob", share=1.0)
        assert sorted(due) == sorted(f"n{number}" for number in range(10, 20))
        answer = {"node": due[1], "label": "left", "second": "1"}
        bob.post("/graphs/g/label-next", data=answer)
        agreement = unescape(bob.get("/graphs/g/labels/agreement?drawn=all").text)
        assert "alpha is not defined where all answers are the same label" in agreement
        assert "Krippendorff" not in agreement
        bob.post("/graphs/g/label-next", data={**answer, "undo": "1"})
        node = due[0]
        holder = pages.home.reservations
        form = {"node": node, "label": "right", "second": "1"}
        said = unescape(bob.post("/graphs/g/label-next", data=form).text)
        assert f"Your opinion of <strong>{node}</strong> is right" in said
        assert pages.home.labels.of_nodes(graph.id, [node]) == {node: "left"}
        agreement = unescape(bob.get("/graphs/g/labels/agreement?drawn=all").text)
        assert "Ann and Bob" in agreement
        assert f'Decide right<span class="sr-only"> for {node}' in agreement
        again = unescape(bob.post("/graphs/g/label-next", data={**form, "undo": "1"}).text)
        assert "A second opinion" in again
        assert '"second":"1"' in again
        assert "Predicted" not in again
        assert f"node?id={node}" not in again  # its page would tell the label
        assert [each.node for each in holder.own(graph.id, f"page {key.split('.')[0]} Bob")] == [
            node
        ]
        # what Ann has labeled meanwhile is not overwritten by Bob's answer to the same question
        bob.post("/graphs/g/label-next", data={"node": "n15", "label": "right"})
        assert pages.home.labels.of_nodes(graph.id, ["n15"]) == {"n15": "left"}
        assert [each.node for each in pages.home.opinions.disagreements(graph.id)] == ["n15"]
        decided = {"node": "n15", "label": "right"}
        assert bob.post("/graphs/g/labels/decide", data=decided).status_code == 303
        assert pages.home.labels.of_nodes(graph.id, ["n15"]) == {"n15": "right"}
        assert "Nothing is to be decided" in bob.get("/graphs/g/labels/agreement").text
