"""Two annotators over HTTP: no node for both at once, blind second opinions, agreement."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import update

from peewit.service.client import Client, Conflict, InvalidArgument
from peewit.service.database.tables import reservations
from peewit.service.database.timestamps import now
from peewit.service.key_store import Scope
from tests.service.api.conftest import Api, bring_communities

SCOPES: tuple[Scope, ...] = ("read", "label")


@pytest.fixture
def served(api_on_any_database: Api) -> Api:
    bring_communities(api_on_any_database)
    return api_on_any_database


@pytest.fixture
def keys(served: Api) -> dict[str, str]:
    """Keys of Ann and Bob, each of that name."""
    return {name: served.home.keys.create(name, SCOPES) for name in ("ann", "bob")}


@pytest.fixture
def people(served: Api, keys: dict[str, str]) -> Iterator[tuple[Client, Client]]:
    """Ann and Bob."""
    url = str(served.client.base_url)
    with Client(url, api_key=keys["ann"]) as first, Client(url, api_key=keys["bob"]) as second:
        yield first, second


def side(node: Any) -> str:
    return "left" if int(str(node)[1:]) < 30 else "right"


@pytest.mark.slow
def test_people_who_label_at_once_are_never_asked_about_one_node(
    served: Api, people: tuple[Client, Client]
) -> None:
    start = Barrier(2)

    def label(client: Client) -> list[Any]:
        start.wait(30)
        asked = []
        for _ in range(10):
            found = client.suggestions("g", "random", 2, reserve=True)
            again = client.suggestions("g", "random", 2, reserve=True)
            assert set(again.nodes) == set(found.nodes)  # his own come back, as after a reload
            assert found.reserved_until is not None
            asked += found.nodes[:1]
            client.put_labels("g", {found.nodes[0]: side(found.nodes[0])}, origin=found.origin)
        client.give_back("g")
        return asked

    with ThreadPoolExecutor(2) as pool:
        by_ann, by_bob = pool.map(label, people)
    assert len({*by_ann, *by_bob}) == 20
    table = people[0].labels("g").to_pylist()
    who = {row["node"]: row["annotator"] for row in table}
    assert {node for node, name in who.items() if name == "ann"} == set(by_ann)
    assert {node for node, name in who.items() if name == "bob"} == set(by_bob)
    # what was put off comes first again, so that the sample is a beginning of the random order
    graph = served.home.catalog.get("g")
    held = served.home.reservations.of_others(graph.id, "nobody")
    assert held == set()
    n_more = 60 - 2 - 20
    rest = people[0].suggestions("g", "random", n_more, reserve=True).nodes
    assert not set(rest) & {*by_ann, *by_bob}
    assert people[1].suggestions("g", "random", 60, reserve=True).nodes == []
    with served.home.database.write() as connection:
        connection.execute(update(reservations).values(expires_at=now(-0.001)))
    assert people[1].suggestions("g", "random", n_more, reserve=True).nodes == rest


@pytest.mark.slow
def test_second_opinions_are_blind_and_tell_how_far_people_agree(
    served: Api, people: tuple[Client, Client], keys: dict[str, str]
) -> None:
    ann, bob = people
    nodes = [f"n{each}" for each in range(10, 50)]
    ann.put_labels("g", {node: side(node) for node in nodes}, origin="suggested")
    assert ann.second_opinions("g", share=1.0).nodes == []
    some = bob.second_opinions("g", 200, share=0.5)
    assert set(bob.second_opinions("g", 200, share=1.0, reserve=False).nodes) == set(nodes)
    assert set(some.nodes) < set(nodes)
    header = {"Authorization": f"Bearer {keys['bob']}"}
    answer = served.call("GET", "/graphs/g/second-opinions?k=3", 200, headers=header).json()
    assert set(answer) == {"nodes", "reserved_until"}  # neither label nor prediction
    bob.give_back("g")
    wrong = {nodes[0]: "right", nodes[1]: "right"}
    said = {node: side(node) for node in nodes if node in some.nodes or node in wrong} | wrong
    bob.put_opinions("g", said)
    bob.put_opinions("g", said)  # sent again: nothing more
    assert bob.opinions("g", withdrawn=True).num_rows == 2 * len(said)
    drawn = bob.agreement("g", share=0.5)
    everything = bob.agreement("g", drawn="all")
    assert (drawn.n_nodes, drawn.n_waiting) == (len(some.nodes), 0)
    assert everything.n_nodes == len(said)
    (pair,) = everything.pairs
    assert (pair.annotators, pair.n_agreed) == (("ann", "bob"), len(said) - 2)
    assert everything.note is not None
    assert "doubtful labels are among them" in everything.note
    assert pair.kappa.value is not None
    assert 0 < pair.kappa.value < 1
    found = ann.disagreements("g")
    assert {each.node for each in found.disagreements} == set(wrong)
    assert {each.label for each in found.disagreements} == {"left"}  # what was given first
    assert {row["node"]: row["label"] for row in ann.labels("g").to_pylist()}["n10"] == "left"
    ann.decide("g", "n10", "right")
    (left,) = ann.disagreements("g").disagreements
    assert left.node == "n11"
    assert [(each.annotator, each.label) for each in left.opinions] == [
        ("ann", "left"),
        ("bob", "right"),
    ]
    rows = {row["node"]: row for row in ann.labels("g").to_pylist()}
    assert (rows["n10"]["label"], rows["n10"]["origin"]) == ("right", "suggested")
    assert ann.delete_labels("g", ["n11"]) == 1
    assert ann.disagreements("g").n_disagreements == 0


def test_the_key_stands_beside_whatever_name_signs(
    served: Api, people: tuple[Client, Client], keys: dict[str, str]
) -> None:
    ann, bob = people
    bob.put_labels("g", {"n5": "left", "n6": "left"}, annotator="ann")
    ann.put_opinions("g", {"n5": "right"}, annotator="cleo")
    said = ann.opinions("g").to_pylist()
    assert [(row["annotator"], row["key"]) for row in said] == [("ann", "bob"), ("cleo", "ann")]
    (open_question,) = ann.disagreements("g").disagreements
    assert [each.key for each in open_question.opinions] == ["bob", "ann"]
    exported = ann.labels("g")
    rows = {row["node"]: row for row in exported.to_pylist()}
    assert (rows["n6"]["annotator"], rows["n6"]["key"]) == ("ann", "bob")
    assert (rows["n3"]["annotator"], rows["n3"]["key"]) == (None, None)
    ann.put_labels("g", exported)  # what was exported is put by whoever puts it
    as_rows, header = {"labels": [rows["n6"]]}, {"Authorization": f"Bearer {keys['bob']}"}
    served.call("PUT", "/graphs/g/labels", 200, json=as_rows, headers=header)
    rows = {row["node"]: row for row in ann.labels("g").to_pylist()}
    assert [rows[node]["annotator"] for node in ("n5", "n6")] == ["ann", "ann"]
    assert [rows[node]["key"] for node in ("n5", "n6")] == ["ann", "bob"]


@pytest.mark.parametrize("name", ["x" * 150, "a\x1b[2Jb"])
def test_names_of_keys_that_nobody_could_have_are_exported_too(served: Api, name: str) -> None:
    key = served.home.keys.create(name, SCOPES)
    with Client(str(served.client.base_url), api_key=key) as client:
        client.put_labels("g", {"n5": "left"})
        exported = client.labels("g")
        client.put_labels("g", exported)
        row = next(each for each in client.labels("g").to_pylist() if each["node"] == "n5")
    assert (row["annotator"], row["key"]) == (key.partition(".")[0], name)


def test_what_cannot_be_asked_or_said_is_refused(
    served: Api, people: tuple[Client, Client], keys: dict[str, str]
) -> None:
    ann, bob = people
    with pytest.raises(Conflict, match="'n5' must have a label"):
        bob.put_opinions("g", {"n3": "left", "n5": "left"})
    assert bob.opinions("g").num_rows == 0  # all or none
    ann.put_labels("g", {"n5": "left"}, annotator="cleo")
    assert {row["node"]: row["annotator"] for row in ann.labels("g").to_pylist()}["n5"] == "cleo"
    with pytest.raises(InvalidArgument, match="annotator must have 1 to 100 characters"):
        ann.put_labels("g", {"n5": "left"}, annotator=" ")
    with pytest.raises(InvalidArgument, match="k must be at most 200 to be reserved, got 201"):
        bob.suggestions("g", "random", 201, reserve=True)
    header, secret = {"Authorization": f"Bearer {keys['bob']}"}, keys["bob"].rpartition(".")[2]
    said = [{"node": "n3", "label": "left"}, {"node": "n3", "label": "right"}]
    for opinions, rule in (
        (said, "a node must have one label in a table, and 1 node has several"),
        ([{"node": "n3", "label": " left"}], "must not begin or end with white space"),
    ):
        body = {"opinions": opinions}
        refused = served.problem("POST", "/graphs/g/opinions", 422, json=body, headers=header)
        assert rule in refused["detail"]
    for path in ("opinions", "labels", "labels:agreement"):
        assert secret not in served.call("GET", f"/graphs/g/{path}", 200, headers=header).text


def test_labels_that_came_since_the_graph_was_looked_at_leave_no_gap(served: Api) -> None:
    home = served.home
    before = home.catalog.get("g")
    first = home.suggester.suggest(before, "random", 6).nodes
    served.put_labels({node: side(node) for node in first[:3]})
    found, reserved = home.questions.suggest(
        home.suggester, before, "random", 3, holder="ann", column=""
    )
    assert found.nodes == reserved.nodes == first[3:6]
