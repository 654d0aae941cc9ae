"""Second opinions: which label stands, what is kept, and what ends with the label or the node."""

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.service.catalog import GraphRecord
from peewit.service.graph_settings import AutoSolve, GraphSettings
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.labels.label_entry import LabeledMeanwhile, Labeling, LabelsRefused
from peewit.service.labels.opinions import OpinionStore, random_part, standing
from peewit.service.labels.reservations import Reservations
from peewit.service.labels.second_opinions import NoFirstOpinion, SecondOpinions
from peewit.service.labels.store import BadLabels
from peewit.service.tables.uploads import LabelColumns, LabelValue, UploadedLabels, read_labels
from peewit.service.tables.uploads.givers import GIVER_COLUMNS
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.table_formats import Format
from tests.service.places import Place


class Annotated:
    """A graph whose node ``n`` is to be labeled, by people with names."""

    def __init__(self, place: Place) -> None:
        self.place = place
        auto = AutoSolve(model="hfs")
        self.graph: GraphRecord = place.catalog.create(GraphSettings(name="g", auto_solve=auto))
        self.nodes = KnownNodes(place.settings.graphs_directory, place.manifest)
        self.labeling = Labeling(database=place.database, labels=place.labels, nodes=self.nodes)
        self.store = OpinionStore(place.database)
        self.second = SecondOpinions(
            database=place.database, labeling=self.labeling, store=self.store
        )

    def put(
        self, who: str | None, label: LabelValue, node: str = "n", origin: str = "given"
    ) -> None:
        rows = UploadedLabels(nodes=[node], labels=[label])
        self.labeling.put(self.graph, {"": rows}, unknown="keep", annotator=who, origin=origin)  # type: ignore[arg-type]

    def answer(self, who: str | None, label: LabelValue, node: str = "n") -> None:
        rows = UploadedLabels(nodes=[node], labels=[label])
        self.second.answer(self.graph, rows, annotator=who)

    def stands(self, node: str = "n") -> LabelValue | None:
        return self.place.labels.of_nodes(self.graph.id, [node]).get(node)

    def said(self, *, withdrawn: bool = False) -> list[tuple[str | None, LabelValue]]:
        found = self.store.all(self.graph.id, withdrawn=withdrawn)
        return [(each.annotator, each.label) for each in found]


@pytest.fixture
def told(database_url: str, tmp_path: Path) -> Iterator[Annotated]:
    place = Place(tmp_path / "home", database_url)
    yield Annotated(place)
    place.database.close()


def test_a_label_that_somebody_gave_meanwhile_is_not_overwritten(told: Annotated) -> None:
    rows = UploadedLabels(nodes=["n"], labels=["x"])
    told.labeling.put(told.graph, {"": rows}, unknown="keep", annotator="Ann", after_seq=0)
    seen = told.place.labels.history(told.graph.id, node="n", limit=1)[0].seq
    late = UploadedLabels(nodes=["n"], labels=["y"])
    with pytest.raises(LabeledMeanwhile):
        told.labeling.put(told.graph, {"": late}, unknown="keep", annotator="Bob", after_seq=0)
    assert told.stands() == "x"
    told.labeling.put(told.graph, {"": rows}, unknown="keep", annotator="Bob", after_seq=seen)


def test_who_is_renamed_holds_no_node_under_the_old_name(told: Annotated) -> None:
    reservations = Reservations(told.place.database)
    told.labeling.put(
        told.graph,
        {"": UploadedLabels(nodes=["n"], labels=["x"])},
        unknown="keep",
        annotator="Ann",
        key="Ann",
    )
    reservations.reserve(told.graph.id, ["m"], holder="page k Ann", strategy="margin", seconds=60)
    told.store.rename(told.graph.id, "Ann", "A1")
    assert reservations.own(told.graph.id, "page k Ann") == []
    (event,) = told.place.labels.history(told.graph.id)
    assert (event.annotator, event.key) == ("A1", "A1")


@given(st.lists(st.sampled_from("xyz"), max_size=12))
def test_the_label_that_stands_is_one_that_most_have_given(answers: list[str]) -> None:
    found, counts = standing(answers), Counter(answers)
    if not answers:
        assert found is None
        return
    assert found is not None
    assert counts[found] == max(counts.values())
    before = standing(answers[:-1])
    assert found in {before, answers[-1]}
    if before is not None and counts[before] == counts[found]:
        assert found == before  # a tie changes nothing


def test_the_first_label_stands_until_most_say_another(told: Annotated) -> None:
    told.put("ann", "x", origin="random")
    told.answer("bob", "y")
    assert (told.stands(), told.said()) == ("x", [("ann", "x"), ("bob", "y")])
    (open_one,) = told.store.disagreements(told.graph.id)
    assert (open_one.node, open_one.label, open_one.origin) == ("n", "x", "random")
    told.answer("cleo", "y")
    assert told.stands() == "y"
    last = told.place.labels.history(told.graph.id, node="n")[0]
    assert (last.annotator, last.by_majority, last.origin) == ("cleo", True, "random")
    told.second.take_back(told.graph, "n", annotator="cleo")
    assert told.stands() == "x"
    told.answer("bob", "x")  # who answers again withdraws what was before
    assert told.said() == [("ann", "x"), ("bob", "x")]
    assert len(told.said(withdrawn=True)) == 4
    assert told.store.disagreements(told.graph.id) == []
    assert [each.label for each in told.place.labels.history(told.graph.id)] == ["x", "y", "x"]


def test_a_decision_stands_whatever_is_answered_after_it(told: Annotated) -> None:
    told.put("ann", "x", origin="suggested")
    told.answer("bob", "y")
    told.second.decide(told.graph, "n", "x", annotator="dora")  # the same label, decided
    assert told.store.disagreements(told.graph.id) == []
    told.answer("cleo", "y")
    assert told.stands() == "x"
    last = told.place.labels.history(told.graph.id, node="n")[0]
    assert (last.annotator, last.origin, last.by_majority) == ("dora", "suggested", False)
    assert told.said() == [("ann", "x"), ("bob", "y"), ("cleo", "y")]
    told.put("eve", "z", node="m")
    with pytest.raises(NoFirstOpinion, match="'m' must have several opinions"):
        told.second.decide(told.graph, "m", "z", annotator="dora")


def test_a_label_that_is_taken_back_takes_opinions_with_it_and_the_next_begins_anew(
    told: Annotated,
) -> None:
    told.put("ann", "x")
    told.answer("bob", "y")
    told.labeling.delete(told.graph, ["n"], annotator="ann")
    assert told.said() == []
    assert told.said(withdrawn=True) == [("ann", "x"), ("bob", "y")]
    assert told.place.labels.history(told.graph.id)[0].annotator == "ann"
    told.put("bob", "y")
    told.answer("ann", "z")
    assert told.said() == [("bob", "y"), ("ann", "z")]
    forgetting = Forgetting(
        log=told.place.manifest.erasures,
        nodes=told.nodes,
        home=told.place.settings.home,
        within_seconds=60,
    )
    forgetting.erase(told.graph, ["n"])
    assert told.said(withdrawn=True) == []


def test_a_second_opinion_is_of_another_person_with_a_name(told: Annotated) -> None:
    with pytest.raises(NoFirstOpinion, match="'n' must have a label"):
        told.answer("bob", "y")
    told.put("ann", "x")
    with pytest.raises(NoFirstOpinion, match="must come from somebody else than 'ann'"):
        told.answer("ann", "y")
    with pytest.raises(BadArgument, match="annotator must have a name"):
        told.answer(None, "y")
    with pytest.raises(BadLabels, match="must be text"):
        told.answer("bob", 3)
    assert told.said() == []
    told.put(None, "x", node="m")  # of which nobody knows who gave it
    told.answer("bob", "y", node="m")
    assert told.said() == [(None, "x"), ("bob", "y")]
    with pytest.raises(NoFirstOpinion, match="'cleo' must have given a second opinion"):
        told.second.take_back(told.graph, "m", annotator="cleo")


def test_who_is_asked_are_others_and_what_is_asked_was_given_by_hand(told: Annotated) -> None:
    told.put("ann", "x", node="a")
    told.put("bob", "x", node="b")
    told.put("ann", "x", node="c", origin="imported")
    told.put(None, "x", node="d")
    told.put("ann", "y", node="e")
    told.labeling.delete(told.graph, ["e"])
    waiting = told.store.awaiting
    assert waiting(told.graph.id, "bob") == ["a"]
    assert waiting(told.graph.id, "cleo") == ["a", "b"]
    told.answer("cleo", "x", node="a")
    assert waiting(told.graph.id, "cleo") == ["b"]
    unanswered = told.store.unanswered(told.graph.id, list("abcde"), "cleo")
    assert unanswered == ["b", "c", "d"]


@pytest.mark.slow
@given(st.integers(0, 2**63 - 1))
def test_a_share_of_the_nodes_is_drawn_and_a_smaller_one_is_within_it(seed: int) -> None:
    parts = [random_part(f"n{each}", seed=seed) for each in range(2_000)]
    assert abs(sum(each < 0.3 for each in parts) / 2_000 - 0.3) < 0.06  # 5.8 standard errors
    assert parts == [random_part(f"n{each}", seed=seed) for each in range(2_000)]
    assert parts != [random_part(f"n{each}", seed=seed, column="size") for each in range(2_000)]


def rows(text: str) -> UploadedLabels:
    columns = LabelColumns(givers=GIVER_COLUMNS, contradictions="opinions")
    return read_labels(io.BytesIO(text.encode()), Format.CSV, "string", columns)[""]


def test_rows_of_a_node_are_opinions_of_those_the_table_names(told: Annotated) -> None:
    table = "node,label,annotator\nn,x,ann\nm,y,ann\nn,y,bob\nn,y,cleo\nk,x,\nm,y,bob\nn,x,bob\n"
    receipt = told.labeling.put(told.graph, {"": rows(table)}, unknown="keep", annotator="key")
    assert receipt.accepted == 6  # of bob the last answer about n counts
    assert told.said() == [("ann", "y"), ("bob", "y"), ("ann", "x"), ("cleo", "y"), ("bob", "x")]
    assert [told.stands(node) for node in "nmk"] == ["x", "y", "x"]
    told.answer("dora", "y")
    told.answer("eve", "y")
    assert told.stands() == "y"  # as if they had all answered one by one
    (differs,) = told.store.disagreements(told.graph.id)
    assert differs.node == "n"


def test_rows_without_names_are_opinions_of_their_own(told: Annotated) -> None:
    told.put("ann", "z")
    told.answer("bob", "x")
    table = "node,label\nn,x\nn,y\nn,y\nk,x\n"
    receipt = told.labeling.put(told.graph, {"": rows(table)}, unknown="keep", annotator="key")
    assert receipt.accepted == 4
    assert told.said() == [("opinion 1", "x"), ("opinion 2", "y"), ("opinion 3", "y")]
    assert (told.stands(), told.stands("k")) == ("y", "x")
    with pytest.raises(LabelsRefused):
        told.labeling.put(told.graph, {"": rows(table)})
    with pytest.raises(BadLabels, match="must be text"):
        told.labeling.put(told.graph, {"": rows("node,label\nn,1\nn,2\n")}, unknown="keep")
    assert told.stands() == "y"
