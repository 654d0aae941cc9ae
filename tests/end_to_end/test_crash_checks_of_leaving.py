"""The checks of the crash test find what is wrong where files and nodes have left a graph."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import insert, select, update

from peewit.service.database.tables import erasures, files, label_events
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.solvers.graph import Graph
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.crashing.checks import History, check_edges, check_labels
from tests.end_to_end.crashing.forgetting import Forgetter
from tests.end_to_end.crashing.forgotten import check_forgotten
from tests.end_to_end.crashing.live_edges import check_live_edges
from tests.end_to_end.crashing.load import GRAPH, Answer, Client, parquet_bytes
from tests.end_to_end.crashing.record import (
    FORGETTABLE,
    AskedErasure,
    EdgeBatch,
    LabelBatch,
    Record,
)
from tests.end_to_end.crashing.retracting import Retractor
from tests.service.places import Place

GONE, BORN_AGAIN, STAYS = (f"{FORGETTABLE}{name}" for name in ("gone", "again", "stays"))


@dataclass
class Sound:
    """A home that did all it was asked, what its clients were told, and how it is looked at."""

    place: Place
    record: Record
    history: History

    def faults(self) -> list[str]:
        """What all checks find."""
        database = self.place.database
        return [
            *check_labels(self.record, self.history),
            *check_edges(self.record, self.history, database),
            *check_live_edges(self.record, self.history),
            *check_forgotten(self.record, self.history, database, self.place.settings.home),
        ]

    def execute(self, statement: Any) -> None:
        with self.place.database.write() as connection:
            connection.execute(statement)

    def look_again(self) -> None:
        self.history = History.of(self.place.database, self.place.settings)


class Story:
    """What is asked of a graph, as it is carried out and written down."""

    def __init__(self, place: Place, directory: Path) -> None:
        self.place, self.directory, self.record = place, directory, Record()
        self.graph = place.catalog.create(
            GraphSettings(name=GRAPH, epsilon=0.9, expected_nodes=12, seed=3, deletions="exact")
        )
        directory.mkdir()
        self.source = place.manifest.sources.add(self.graph.id, str(directory), replaces=True)

    def batch(self, *pairs: tuple[str, str], **further: Any) -> EdgeBatch:
        found = EdgeBatch(
            number=self.record.next_number(),
            src=[u for u, _ in pairs],
            dst=[v for _, v in pairs],
            fate="committed",
            **further,
        )
        self.record.edge_batches.append(found)
        return found

    def file(self, name: str, *pairs: tuple[str, str], version: str = "1", **further: Any) -> int:
        """A file is taken in; its id."""
        path = str(self.directory / name)
        batch = self.batch(*pairs, path=path, **further)
        Path(path).write_bytes(parquet_bytes(batch))
        self.place.manifest.register_files(self.graph.id, self.source.id, [(path, version, 1)])
        self.place.ingest(GRAPH)
        return self.place.manifest.retractions.of_path(self.graph.id, path)[0].id

    def push(self, *pairs: tuple[str, str], **further: Any) -> EdgeBatch:
        batch = self.batch(*pairs, push_id="some", **further)
        weight = [batch.weight] * len(pairs)
        columns: dict[str, Any] = {"src": batch.src, "dst": batch.dst}
        if batch.deletes:
            weight[:-1] = [1.0] * (len(pairs) - 1)
            columns["op"] = ["delete"] * (len(pairs) - 1) + ["set"]
        columns["weight"] = pa.array(weight, pa.float32())
        self.place.push(GRAPH, pa.table(columns))
        self.place.ingest(GRAPH)
        return batch

    def label(self, node: str) -> LabelBatch:
        told = self.place.labels.put(self.graph.id, [node], ["red"])
        batch = LabelBatch(
            events=[(node, "red")], labels_seq=told.labels_seq, accepted=told.accepted
        )
        self.record.label_batches.append(batch)
        return batch

    def erase(self, node: str) -> None:
        place = self.place
        asked = Forgetting(
            log=place.manifest.erasures,
            nodes=KnownNodes(place.settings.graphs_directory, place.manifest),
            home=place.settings.home,
            within_seconds=60,
        ).erase(place.catalog.get(GRAPH), [node])
        self.record.n_erasures_sent += 1
        self.record.erasures.append(AskedErasure(id=asked.id, nodes=[node], holding=[]))
        for batch in self.record.edge_batches:
            if node in {*batch.src, *batch.dst}:
                batch.erased[node] = True
        place.ingest(GRAPH)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sound]:
    """Edges of which some were deleted, retracted, replaced, or of nodes that were erased."""
    directory = tmp_path_factory.mktemp("leaving")
    place = Place(directory / "home")
    story = Story(place, directory / "days")
    story.file("mon.parquet", ("a", "b"), ("b", "c"), ("c", "d"), ("a", "a"))
    leaves = story.file("tue.parquet", ("a", "c"), ("d", "e"))
    story.file("wed.parquet", ("a", "d"), ("b", "d"), is_version=True)
    story.record.edge_batches[-1].fate = "retracted"
    story.file("wed.parquet", ("a", "e"), version="2", is_version=True)
    people = ((GONE, "a"), (BORN_AGAIN, "b"), (STAYS, "c"), (GONE, STAYS))
    story.push(*people, ("d", "f"), is_forgettable=True)
    story.file("thu.parquet", *people, ("e", "f"), is_forgettable=True)
    story.push(("c", "b"), ("b", "a"), deletes=True)
    story.label("a")
    story.label(GONE).is_erased = True
    place.manifest.retractions.want(story.graph.id, leaves)
    story.record.edge_batches[1].fate = "retracted"
    place.ingest(GRAPH)
    story.erase(GONE)
    story.erase(BORN_AGAIN)
    story.push((BORN_AGAIN, "d"), ("a", "f"), is_forgettable=True)
    story.record.forgotten.add(GONE)
    yield Sound(place, story.record, History.of(place.database, place.settings))
    place.database.close()


@pytest.fixture
def sound(made: Sound) -> Iterator[Sound]:
    """The same for each test; what it does to the rows and to the newest snapshot is undone."""
    tables = (files, label_events, erasures)
    with made.place.database.read() as connection:
        kept = {table: connection.execute(select(table)).mappings().all() for table in tables}
    yield Sound(
        made.place,
        Record(
            label_batches=deepcopy(made.record.label_batches),
            edge_batches=deepcopy(made.record.edge_batches),
            erasures=deepcopy(made.record.erasures),
            n_erasures_sent=made.record.n_erasures_sent,
            forgotten=set(made.record.forgotten),
        ),
        made.history,
    )
    with made.place.database.write() as connection:
        for table in tables:
            connection.execute(table.delete())
            connection.execute(insert(table), [dict(row) for row in kept[table]])


def test_a_home_that_did_all_it_was_asked_has_no_faults(sound: Sound) -> None:
    assert sound.faults() == []
    assert not sound.history.is_insert_only
    assert sound.history.names.count(None) == 2
    assert sound.history.names.count(BORN_AGAIN) == 1


def _expect_a_retracted_file(sound: Sound) -> None:
    sound.record.edge_batches[1].fate = "committed"


def _expect_no_committed_file(sound: Sound) -> None:
    sound.record.edge_batches[0].fate = "retracted"


def _leave_a_retraction_waiting(sound: Sound) -> None:
    path = sound.record.edge_batches[1].path
    sound.execute(update(files).where(files.c.path == path).values(status="retracting"))


def _commit_both_versions(sound: Sound) -> None:
    path = sound.record.edge_batches[3].path
    sound.execute(update(files).where(files.c.path == path).values(status="committed"))


def _write_an_earlier_version_over(sound: Sound) -> None:
    """As if ingest still had it: the file in the graph is another than that of the path."""
    sound.record.edge_batches[3].number = 99


def _expect_an_erased_node(sound: Sound) -> None:
    for batch in sound.record.edge_batches:
        batch.erased.pop(GONE, None)


def _expect_another_node_erased(sound: Sound) -> None:
    sound.record.edge_batches[4].erased[STAYS] = True


def _expect_no_node_again(sound: Sound) -> None:
    sound.record.edge_batches[-1].erased[BORN_AGAIN] = True


def _name_two_nodes_wrongly(sound: Sound) -> None:
    names = list(sound.history.names)
    b, f = names.index("b"), names.index("f")
    names[b], names[f] = names[f], names[b]
    sound.history = replace(sound.history, names=names)


@pytest.mark.parametrize(
    ("plant", "wrong"),
    [
        (_expect_a_retracted_file, "batch 2 is lost"),
        (_expect_a_retracted_file, "is retracted, should be committed"),
        (_expect_no_committed_file, "batch 1 is there and should be retracted"),
        (_expect_no_committed_file, "is committed, should be retracted"),
        (_leave_a_retraction_waiting, "still waits: retracting"),
        (_commit_both_versions, "is committed in two versions"),
        (_write_an_earlier_version_over, "edges of batch 4 were never sent"),
        (_expect_an_erased_node, "edges should live"),
        (_expect_an_erased_node, "batch 5 is there"),
        (_expect_another_node_erased, "edges live that should not"),
        (_expect_another_node_erased, "batch 5 is there"),
        (_expect_no_node_again, "edges live that should not"),
        (_name_two_nodes_wrongly, "edges live that should not"),
    ],
)
def test_faults_of_edges_are_found(
    sound: Sound, plant: Callable[[Sound], None], wrong: str
) -> None:
    plant(sound)
    assert any(wrong in each for each in sound.faults()), sound.faults()


def test_edges_of_which_nobody_knows_whether_they_were_erased_may_be_there_or_not(
    sound: Sound,
) -> None:
    sound.record.edge_batches[4].erased |= {GONE: None, STAYS: None}
    assert sound.faults() == []


def test_wrong_counts_degrees_and_components_are_found(
    sound: Sound, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SnapshotStore(sound.history.paths.snapshots)
    number = store.numbers()[-1]
    meta, kept = store.meta(number), store.load_relations(number)
    state = CheckpointStore(sound.history.paths.checkpoints).clean()
    with monkeypatch.context() as patch:
        patch.setattr(SnapshotStore, "meta", lambda *_: replace(meta, n_live=0))
        assert any("the snapshot tells" in each for each in sound.faults())
    with monkeypatch.context() as patch:
        few = {name: Graph.from_edges([0], [1], [1.0], n_nodes=meta.n_nodes) for name in kept}
        patch.setattr(SnapshotStore, "load_relations", lambda *_: few)
        assert any("components" in each for each in sound.faults())
    with monkeypatch.context() as patch:
        ones = np.ones(meta.n_nodes)
        wrong = {name: replace(each, degree=ones) for name, each in state.states.items()}
        patch.setattr(CheckpointStore, "clean", lambda _: replace(state, states=wrong))
        assert any("degrees in" in each for each in sound.faults())


def _leave_an_erasure_undone(sound: Sound) -> None:
    sound.execute(update(erasures).values(status="hidden"))


def _lose_an_erasure(sound: Sound) -> None:
    sound.record.erasures[0].id = "0" * 32


def _keep_a_name(sound: Sound) -> None:
    names = [name or GONE for name in sound.history.names]
    sound.history = replace(sound.history, names=names)


def _quote_a_name(sound: Sound) -> None:
    sound.execute(update(files).values(value=f"'{GONE}'"))


@pytest.mark.parametrize(
    ("plant", "wrong"),
    [
        (_leave_an_erasure_undone, "is hidden"),
        (_lose_an_erasure, "is lost"),
        (_keep_a_name, "the node index has"),
        (_quote_a_name, "a row of files has a node"),
        (_quote_a_name, "peewit.db-wal has a node"),
    ],
)
def test_what_is_left_of_a_node_is_found(
    sound: Sound, plant: Callable[[Sound], None], wrong: str
) -> None:
    plant(sound)
    assert any(wrong in each for each in sound.faults()), sound.faults()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_file_that_holds_a_node_is_found(sound: Sound, encoding: str) -> None:
    path = sound.place.settings.home / "graphs" / "left.bin"
    path.write_bytes(b"\0" + GONE.encode(encoding))
    assert any("left.bin has a node" in each for each in sound.faults())
    path.unlink()


def test_a_label_of_an_erased_node_is_found(sound: Sound) -> None:
    with sound.place.database.read() as connection:
        row = dict(connection.execute(select(label_events).limit(1)).mappings().one())
    seq = sound.record.label_batches[1].labels_seq
    sound.execute(insert(label_events).values(row | {"node": GONE, "seq": seq}))
    sound.look_again()
    assert any("its node was erased" in each for each in sound.faults())


def test_labels_that_no_erasure_has_taken_are_found(sound: Sound) -> None:
    sound.record.n_erasures_sent = 0
    assert any("no erasure has taken it" in each for each in sound.faults())
    sound.execute(label_events.delete())
    sound.look_again()
    assert any("is lost: its numbers hold [None]" in each for each in sound.faults())


def _answering(
    client: Client, monkeypatch: pytest.MonkeyPatch, status: int, body: object
) -> list[str]:
    """Violations of a client that is answered always the same."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    monkeypatch.setattr(client, "call", lambda *_, **__: Answer(status, {}, content))
    return client.record.violations


@pytest.mark.parametrize(
    ("way", "status", "body"),
    [
        (0, 200, {"prediction": {"node": GONE}}),
        (1, 200, {"unknown": [], "newer": [GONE], "predictions": []}),
        (2, 200, {"accepted": 1}),
        (3, 200, f"node,label\n{GONE},red\n".encode()),
        (4, 200, f"node,label\n{GONE},red\n".encode()),
    ],
)
def test_a_reader_who_is_shown_an_erased_node_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: int, status: int, body: object
) -> None:
    client = Forgetter("someone", 1, Record(forgotten={GONE}), 0, home=tmp_path, inbox=tmp_path)
    monkeypatch.setattr(client.rng, "randrange", lambda _: way)
    violations = _answering(client, monkeypatch, status, body)
    client._look_for([BORN_AGAIN])  # may be seen
    assert violations == []
    client._look_for([GONE])
    assert len(violations) == 1


def test_an_erasure_that_is_called_done_too_early_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Forgetter("someone", 1, Record(forgotten={GONE}), 0, home=tmp_path, inbox=tmp_path)
    violations = _answering(client, monkeypatch, 200, {"status": "hidden", "sources": None})
    client._asked.append(AskedErasure(id="1", nodes=[GONE], holding=["mine.csv"]))
    (tmp_path / "left").write_text(GONE)
    client._look_at_erasures()
    assert violations == []
    told = {"status": "erased", "sources": {"holding": [], "unread": []}}
    _answering(client, monkeypatch, 200, told)
    client._look_at_erasures()
    assert "does not tell of ['mine.csv']" in violations[0]
    assert "left has a node" in violations[1]


def test_a_retraction_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = EdgeBatch(number=1, src=["a"], dst=["b"], fate="retracted", path="x")
    client = Retractor("someone", 1, Record(edge_batches=[batch]), 0)
    client._ids["x"] = 1
    violations = _answering(client, monkeypatch, 200, {"status": "committed"})
    client._take_again()
    assert "was retracted and is committed" in violations[0]


def test_an_erasure_of_what_is_no_id_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Forgetter("someone", 1, Record(), 0, home=tmp_path, inbox=tmp_path)
    violations = _answering(client, monkeypatch, 202, {})
    client._refused([STAYS])
    assert "an erasure of what is no id was answered 202" in violations[0]
