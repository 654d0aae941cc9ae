"""Labels of live sources are events once each, wherever the process that reads them dies."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import AutoSolve, GraphSettings
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.live_reading import live_reader
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.live_sources.contract import Access, Refused
from peewit.service.live_sources.delta import DeltaSource
from peewit.service.live_sources.node_columns import NodeColumns
from peewit.service.settings import Settings
from peewit.streaming.edges.bad_table import BadUpload
from tests.fresh_databases import fresh
from tests.service.live_sources.node_rows import NODE_VALUES, NodeHolds, labels
from tests.service.live_sources.scripted import changes, script
from tests.service.live_sources.test_live_reader import dying_at
from tests.service.live_sources.topics import mock_cluster

WATCHED: Final = (
    "service/inbox/live_reader.py",
    "service/inbox/live_positions.py",
    "service/labels/event_rows.py",
    "service/labels/live_labels.py",
    "service/labels/store.py",
    "tests/service/live_sources/scripted.py",
)
N_DEATHS: Final = 15
"""Of the lines so many are tried, evenly."""

EVENTS: Final = [
    ("a", "west"),
    ("b", "east"),
    ("c", "west"),
    ("a", None),
    ("b", "west"),
    ("d", "east"),
    ("a", "east"),
]
"""What `entries` come to, two rows at a time."""


def entries() -> list[pa.Table | Refused | Exception]:
    return [
        labels(("a", "west"), ("b", "east"), ("c", "north"), ("c", "west")),
        Refused(place="here", reason="it must be a label"),
        labels(("a", "west", "delete"), ("b", "west"), ("b", "west"), ("e", None)),
        labels(("c", "west"), ("d", " east"), ("d", "east"), ("a", "east")),
    ]


def add(
    manifest: Manifest, graph: GraphRecord, url: str, *, kind: str = "scripted", **options: Any
) -> SourceRecord:
    return manifest.sources.add(graph.id, url, kind=kind, follow=True, holds="labels", **options)


def source_of(manifest: Manifest, graph: GraphRecord) -> SourceRecord:
    (found,) = (each for each in manifest.sources.list(graph.id) if each.holds == "labels")
    return found


def history(
    database: Database, graph: GraphRecord, column: str = ""
) -> list[tuple[str, str | int | float | None]]:
    """All events in order; each has its number, and none is left out."""
    events = LabelStore(database).history(graph.id, column=column, limit=1_000)
    assert [event.seq for event in events] == list(range(len(events), 0, -1))
    assert Catalog(database).get_by_id(graph.id).labels_seq == len(events)
    return [(event.node, event.label) for event in reversed(events)]


def refusals(manifest: Manifest, graph: GraphRecord) -> list[tuple[str, str]]:
    found = manifest.live.refusals(graph.id, limit=100)
    assert source_of(manifest, graph).n_refused == len(found)
    return [(each.place, each.reason) for each in reversed(found)]


@pytest.mark.slow
def test_labels_come_once_wherever_the_reading_dies(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    url, _ = script(monkeypatch, entries())
    source = add(manifest, graph, url)
    untouched = tmp_path / "untouched"
    shutil.copytree(settings.home, untouched)
    unbroken = live_reader(Home(database, settings), chunk_rows=2)
    n_lines = dying_at(-1, lambda: unbroken.read(source), watched=WATCHED)
    assert history(database, graph) == EVENTS
    assert n_lines > 100
    for line in sorted({*range(1, n_lines + 1, n_lines // N_DEATHS), n_lines}):
        mine = Settings(home=tmp_path / f"home-{line}", threads=1)
        shutil.copytree(untouched, mine.home)
        here = open_database(fresh(mine.database))
        reader = live_reader(Home(here, mine), chunk_rows=2)
        dying_at(line, lambda: reader.read(source), watched=WATCHED)  # noqa: B023 - runs at once
        manifest_here = Manifest(here)
        again = live_reader(Home(here, mine), chunk_rows=2)
        assert again.read(source_of(manifest_here, graph))
        assert history(here, graph) == EVENTS, f"died at line {line}"
        assert [place for place, _ in refusals(manifest_here, graph)] == ["here", "entry-3-0 row 1"]
        assert source_of(manifest_here, graph).lag == 0
        here.close()
        shutil.rmtree(mine.home)


@pytest.fixture
def told(
    settings: Settings,
    database: Database,
    manifest: Manifest,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> "Told":
    return Told(settings, database, manifest, catalog, monkeypatch)


class Told:
    """A graph whose labels a script tells."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        manifest: Manifest,
        catalog: Catalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.settings, self.database, self.manifest = settings, database, manifest
        self.catalog, self.monkeypatch = catalog, monkeypatch

    def make(self, label_column: str | None = None, **options: Any) -> None:
        self.graph = self.catalog.create(
            GraphSettings(name="told", expected_nodes=40, seed=1, **options)
        )
        url, self.script = script(self.monkeypatch, [])
        add(self.manifest, self.graph, url, label_column=label_column)

    def tell(self, *tables: pa.Table) -> None:
        self.script.entries += tables
        reader = live_reader(Home(self.database, self.settings))
        assert reader.read(source_of(self.manifest, self.graph))
        reader.close()

    def labels(self, column: str = "") -> dict[str, Any]:
        current = LabelStore(self.database).current(self.graph.id, column=column)
        return dict(zip(current.nodes.to_pylist(), current.labels, strict=True))

    def refusals(self) -> list[tuple[str, str]]:
        return refusals(self.manifest, self.graph)


def test_what_is_so_already_makes_no_event(told: Told) -> None:
    told.make()
    told.tell(labels(("a", 1), ("b", 2)))
    told.tell(labels(("a", 1), ("b", 2), ("b", 3), ("b", 2), ("c", None)))
    assert history(told.database, told.graph) == [("a", 1), ("b", 2)]
    told.tell(labels(("a", 1.0)))  # whole, as 1 is
    assert told.labels() == {"a": 1, "b": 2}
    told.tell(labels(("a", 1.5)))
    assert history(told.database, told.graph)[2:] == [("a", 1.5)]
    current = LabelStore(told.database).current(told.graph.id)
    assert current.origins.to_pylist() == ["imported", "imported"]


def test_a_row_that_breaks_a_rule_is_refused_alone(told: Told) -> None:
    told.make()
    bad: Sequence[tuple[Any, ...]] = [
        (5, "x"),
        ("", "x"),
        (None, "x"),
        ("n" * 10_000, "x"),
        ("a", ""),
        ("a", "y" * 1001),
        ("a", float("nan")),
        ("a", ["x"]),
        ("a", 2**63),
        ("a", "x", "upsert"),
    ]
    told.tell(labels(("a", "x"), *bad, ("b", True)))
    assert told.labels() == {"a": "x", "b": "true"}
    assert [place for place, _ in told.refusals()] == [
        f"entry-0-0 row {row}" for row in range(1, 1 + len(bad))
    ]
    reasons = " ".join(reason for _, reason in told.refusals())
    rules = ("must be a string", "at least one", "1000 bytes", "means no label", "64-bit")
    for rule in (*rules, "'op' must"):
        assert rule in reasons
    assert "row 0" not in reasons


def test_text_and_numbers_are_not_mixed_but_may_replace_each_other(told: Told) -> None:
    told.make()
    told.tell(labels(("a", "x"), ("b", "y"), ("a", 1)))
    told.tell(labels(("b", 2), ("c", "z")))
    told.tell(labels(("c", 3)))
    assert told.labels() == {"a": "x", "b": "y", "c": "z"}
    assert [place for place, _ in told.refusals()] == [
        "entry-0-0 row 2",
        "entry-1-0 row 0",
        "entry-2-0 row 0",
    ]
    assert "label of node 'c' must be text" in told.refusals()[-1][1]
    told.tell(labels(("a", 1), ("b", 2), ("c", 3, "delete")))
    assert told.labels() == {"a": 1, "b": 2}
    assert len(told.refusals()) == 3


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [("int64", [7, "8", -9], ["x", 2**63, 1.5]), ("dense", [0, "8"], [-1, 1_000, "x"])],
)
def test_nodes_are_those_of_the_graph(
    told: Told, kind: Any, taken: list[Any], refused: list[Any]
) -> None:
    told.make(node_ids=kind, max_nodes=100)
    told.tell(labels(*((node, "x") for node in [*refused, *taken])))
    assert told.labels() == {str(node): "x" for node in taken}
    assert len(told.refusals()) == len(refused)


def test_labels_of_a_column_start_its_solve_alone_and_only_once(told: Told) -> None:
    told.make(label_column="side", auto_solve=AutoSolve(model="hfs"))
    edges, _ = script(told.monkeypatch, [changes(("a", "b", 1.0, "insert"))])
    told.manifest.sources.add(told.graph.id, edges, kind="scripted")
    queue = JobQueue(told.database)

    def n_jobs_after(*rows: tuple[str, str]) -> int:
        told.script.entries.append(labels(*rows))
        Ingestor(told.database, told.settings).ingest_graph(told.graph.id)
        found = queue.list(graph_id=told.graph.id).jobs
        for job in found:
            assert job.parameters == {"label_column": "side"}
            queue.cancel(job.id)
        return len(found)

    assert n_jobs_after(("a", "x"), ("b", "y"), ("later", "y")) == 1
    assert told.labels("side") == {"a": "x", "b": "y", "later": "y"}
    assert n_jobs_after(("a", "x")) == 1
    assert n_jobs_after(("b", "x")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["string", "dense"])
def test_an_erased_node_has_no_label_until_it_comes_anew(told: Told, kind: Any) -> None:
    who, other = ("somebody-who-leaves", "b") if kind == "string" else (7, 8)
    told.make(node_ids=kind, max_nodes=100)
    edges, _ = script(told.monkeypatch, [changes((who, other, 1.0, "insert"))])
    told.manifest.sources.add(told.graph.id, edges, kind="scripted")
    ingestor = Ingestor(told.database, told.settings)
    ingestor.ingest_graph(told.graph.id)
    told.tell(labels((who, "x"), (other, "y")))
    forgetting = Forgetting(
        log=told.manifest.erasures,
        nodes=KnownNodes(told.settings.graphs_directory, told.manifest),
        home=told.settings.home,
        within_seconds=60,
    )
    erasure = forgetting.erase(told.catalog.get("told"), [who])
    told.tell(labels((who, "z")))  # while it is hidden
    for _ in range(3):
        ingestor.ingest_graph(told.graph.id)
    done = told.manifest.erasures.get(told.graph.id, erasure.id)
    assert done.status == "erased"
    assert told.labels() == {str(other): "y"}
    assert edges in (done.sources or {})["holding"]
    if kind == "string":
        files = [path for path in told.settings.home.rglob("*") if path.is_file()]
        assert not [path for path in files if who.encode() in path.read_bytes()]
    told.tell(labels((who, "z")))  # as an edge that comes later, it is a new node
    assert told.labels() == {str(other): "y"} | ({who: "z"} if kind == "string" else {})


@pytest.mark.parametrize("holds", ["labels", "features"])
def test_an_erasure_while_a_source_is_read_counts_for_what_follows(
    told: Told, holds: NodeHolds
) -> None:
    told.make(node_ids="dense", max_nodes=100)
    edges, _ = script(told.monkeypatch, [changes((7, 8, 1.0, "insert"))])
    told.manifest.sources.add(told.graph.id, edges, kind="scripted")
    ingestor = Ingestor(told.database, told.settings)
    ingestor.ingest_graph(told.graph.id)
    value = {"label": ["x"], "features": [[1.0]]}
    (name,) = NODE_VALUES[holds][0]
    url, _ = script(
        told.monkeypatch, [pa.table({"node": [node], name: value[name]}) for node in (8, 7)]
    )
    source = told.manifest.sources.add(
        told.graph.id, url, kind="scripted", follow=True, holds=holds
    )
    forgetting = Forgetting(
        log=told.manifest.erasures,
        nodes=KnownNodes(told.settings.graphs_directory, told.manifest),
        home=told.settings.home,
        within_seconds=60,
    )
    reader = live_reader(Home(told.database, told.settings))
    after_one = iter([lambda: forgetting.erase(told.catalog.get("told"), [7])])
    assert not reader.read(source, on_chunk=lambda: next(after_one)() and None)
    assert told.manifest.live.place(source.id).n_reads == 1
    assert reader.read(source)
    (refused,) = told.manifest.live.refusals(told.graph.id, limit=9)
    assert (refused.place, "not have been erased" in refused.reason) == ("entry-1-0 row 0", True)


def test_a_row_whose_node_or_label_is_no_text_is_refused_alone(told: Told) -> None:
    told.make()
    odd = pa.chunked_array([[b"ann", b"\xff\xfe", b"bob", b"cid"]])
    label = pa.chunked_array([[b"x", b"x", b"\xff", b"y"]])
    told.tell(
        pa.table({"node": odd, "label": ["x", "y", "y", "x"]}),
        pa.table({"node": pa.array([["dan"], ["eve"]]), "label": ["x", "y"]}),
        pa.table({"node": pa.array([{"name": "fay"}]), "label": ["x"]}),
        pa.table({"node": ["gus", "hal", "ivy", "jon"], "label": label.cast(pa.binary())}),
    )
    assert told.labels() == {"ann": "x", "bob": "y", "cid": "x"}
    refused = told.refusals()
    assert len(refused) == 8
    assert refused[0] == (
        "entry-0-0 row 1",
        "'node' must be a string in this graph, got b'\\xff\\xfe'",
    )
    assert refused[1][1] == "'node' must be a string in this graph, got ['dan']"


def test_labels_that_are_no_utf8_are_refused_alone(told: Told) -> None:
    told.make()
    odd = pa.array([b"x", b"\xff"])
    text = pa.Array.from_buffers(pa.string(), 2, odd.buffers())  # as files hold that nobody checks
    told.tell(pa.table({"node": ["a", "b"], "label": text}))
    assert told.labels() == {"a": "x"}
    assert told.refusals() == [
        ("entry-0-0 row 1", "'label' must be text or a number, got b'\\xff'")
    ]


def test_a_table_whose_column_of_nodes_holds_no_ids_is_refused(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    manifest, url = Manifest(database), str(tmp_path / "t")
    write_deltalake(url, pa.table({"who": [["a"], ["b"]], "label": ["x", "y"]}))
    add(manifest, graph, url, kind="delta", columns={"node": "who"})
    said = r"column 'who' must hold ids, as text or integers, got type (large_)?list"
    with pytest.raises(BadUpload, match=said):
        live_reader(Home(database, settings)).read(source_of(manifest, graph))


def test_a_table_of_bytes_is_followed_where_they_are_text(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path
) -> None:
    manifest, url = Manifest(database), str(tmp_path / "t")
    write_deltalake(url, pa.table({"node": [b"ann", b"\xff\xfe"], "label": ["x", "y"]}))
    add(manifest, graph, url, kind="delta")
    reader = live_reader(Home(database, settings))
    reader.read(source_of(manifest, graph))
    DeltaTable(url).update(predicate="label = 'x'", updates={"label": "'y'"})  # file by file
    assert reader.read(source_of(manifest, graph))
    assert history(database, graph) == [("ann", "x"), ("ann", "y")]
    assert {reason for _, reason in refusals(manifest, graph)} == {
        "'node' must be a string in this graph, got b'\\xff\\xfe'"
    }
    source = DeltaSource.open(
        Access(url=url, columns=NodeColumns(holds="labels"), takes_changes=True)
    )
    assert source.holds(pa.array(["ann"]))
    assert not source.holds(pa.array(["bob"]))


def decisions(url: str, rows: Sequence[tuple[str, Any]], *, feed: bool = True) -> None:
    """Rows of (account, decision) in a Delta table, which is made if need be."""
    names, values = zip(*rows, strict=True)
    configuration = {"delta.enableChangeDataFeed": str(feed).lower()}
    table = pa.table({"account": names, "decision": values, "note": ["n"] * len(rows)})
    write_deltalake(url, table, mode="append", configuration=configuration)


@pytest.mark.parametrize("feed", [True, False])
def test_a_table_of_labels_is_followed(
    settings: Settings, database: Database, graph: GraphRecord, tmp_path: Path, *, feed: bool
) -> None:
    manifest, url = Manifest(database), str(tmp_path / "t")
    columns = {"node": "account", "label": "decision"}
    decisions(url, [("a", "ok"), ("b", "fraud"), ("c", " ok")], feed=feed)
    add(manifest, graph, url, kind="delta", columns=columns)
    reader = live_reader(Home(database, settings), chunk_rows=1)  # deletes come alone
    reader.read(source_of(manifest, graph))
    DeltaTable(url).update(predicate="account = 'a'", updates={"decision": "'fraud'"})
    DeltaTable(url).update(predicate="account = 'c'", updates={"decision": "NULL"})
    DeltaTable(url).delete("account = 'b'")
    decisions(url, [("d", "ok")], feed=feed)
    DeltaTable(url).optimize.compact()
    assert reader.read(source_of(manifest, graph))
    assert history(database, graph) == [
        ("a", "ok"),
        ("b", "fraud"),
        ("a", "fraud"),
        ("b", None),
        ("d", "ok"),
    ]
    (place, reason), *rest = refusals(manifest, graph)
    assert place.startswith("version 0 row 2 of part-")
    assert "white space" in reason
    assert len(rest) == (0 if feed else 1)  # files that are written anew bring the row again
    manifest.sources.remove(graph.id, source_of(manifest, graph).id)
    add(manifest, graph, url, kind="delta", columns=columns, label_column="again")
    assert reader.read(source_of(manifest, graph))
    (left,) = LabelStore(database).described_columns(graph.id)[1:]
    assert (left.name, left.n_labeled) == ("again", 2)
    with pytest.raises(ValueError, match="holds must be 'labels' as the source was added"):
        manifest.sources.add(graph.id, url, kind="delta")


def test_a_topic_of_labels_is_followed(
    settings: Settings, database: Database, graph: GraphRecord
) -> None:
    manifest = Manifest(database)
    with mock_cluster() as cluster:
        url = cluster.create("decisions")
        arrow = pa.table({"node": ["f", "g"], "label": pa.array(["x", None])})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, arrow.schema) as writer:
            writer.write_table(arrow)
        sent = [
            {"node": "a", "label": "x"},
            [{"node": "b", "label": "x"}, {"node": 5, "label": "x"}, {"node": "c", "label": "y"}],
            b"d,y\ne,x\n",
            sink.getvalue().to_pybytes(),
            b"node,op,label\na,,y\nb,delete,\n",
            {"node": "c", "label": None},
            {"node": "h"},
            {"node": "h", "op": "delete"},
            b"i,5\n",
            b"alone\n",
            {"node": "i", "label": 1 << 70},
        ]
        cluster.send("decisions", sent)
        for key in ("d", '{"node": "e"}', '"x, y"', ""):
            cluster.send("decisions", [None], key=key.encode())
        add(manifest, graph, url, kind="kafka")
        reader = live_reader(Home(database, settings), chunk_rows=3)
        assert reader.read(source_of(manifest, graph))
        reader.close()
    current = LabelStore(database).current(graph.id)
    assert dict(zip(current.nodes.to_pylist(), current.labels, strict=True)) == {"a": "y", "f": "x"}
    refused = refusals(manifest, graph)
    assert [int(place.split()[-1]) for place, _ in refused] == [1, 6, 8, 9, 10, 14]
    assert refused[0] == (
        "decisions partition 0 offset 1",
        "'node' must be a string in this graph, got 5",
    )
    assert "'label' is missing" in refused[1][1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "files"}, "holds must be edges for a source of files, got 'labels'"),
        ({"label_column": " x"}, "label_column must be printable"),
        ({"holds": "features", "label_column": "x"}, "label_column must be left out"),
        ({"holds": "nodes"}, "holds must be one of edges, labels, features"),
        ({"max_bad_rows": 1}, "max_bad_rows must be 0 for a source of labels"),
    ],
)
def test_what_no_source_holds_is_refused(
    manifest: Manifest, graph: GraphRecord, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        manifest.sources.add(graph.id, "/t", **{"kind": "delta", "holds": "labels"} | options)
