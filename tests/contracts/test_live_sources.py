"""Every kind of live source keeps the contract: positions, chunks, ends."""

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from peewit.service.live_sources.chunk_rows import places_of
from peewit.service.live_sources.contract import Access, Chunk, LiveSource, Position
from peewit.service.live_sources.kinds import KINDS, live_source
from peewit.service.live_sources.node_columns import NodeColumns
from peewit.streaming.edges.column_mapping import CHANGES, PLAIN
from tests.service.live_sources import topics
from tests.service.live_sources.feeding import Edges, edges_after
from tests.service.live_sources.node_rows import (
    NODE_VALUES,
    NodeHolds,
    nodes_after,
    put_nodes,
    sent_nodes,
)
from tests.service.live_sources.scripted import changes, script
from tests.service.live_sources.tables import append, edges, make_table, merge, rows_of, table_edges

ROWS = [(f"n{number}", f"n{number + 1}", 1.0) for number in range(6)]


class World(NamedTuple):
    """A source of a kind, something that happens to it, and the edges that it comes to."""

    access: Access
    happen: Callable[[], None]
    edges: Callable[[], Edges]


def scripted(monkeypatch: pytest.MonkeyPatch, _: Path, __: topics.MockCluster) -> World:
    told = [changes(*((*row, "insert") for row in ROWS))]
    url, play = script(monkeypatch, told)
    more = changes(("n0", "n1", 5.0, "set"), ("n1", "n2", 1.0, "delete"), ("n8", "n9", 2.0, "set"))

    def edges() -> Edges:
        tables = [entry for entry in play.entries if isinstance(entry, pa.Table)]
        return edges_after(tuple(row.values()) for each in tables for row in each.to_pylist())

    access = Access(url=url, columns=CHANGES, takes_changes=True)
    return World(access, lambda: play.entries.append(more), edges)


def delta(_: pytest.MonkeyPatch, directory: Path, __: topics.MockCluster) -> World:
    url = make_table(directory / "table", ROWS)

    def happen() -> None:
        merge(url, [("n0", "n1", 5.0), ("n8", "n9", 2.0)])
        append(url, [("n9", "n99", 3.0)])

    access = Access(url=url, columns=PLAIN, takes_changes=True)
    return World(access, happen, lambda: table_edges(url))


def iceberg(_: pytest.MonkeyPatch, directory: Path, __: topics.MockCluster) -> World:
    pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
    tables = import_module("tests.service.live_sources.iceberg_tables")
    with tables.catalog_in(directory / "house") as catalog:
        table = tables.make_table(catalog, ROWS)

    def happen() -> None:
        tables.merge(table, [("n0", "n1", 5.0), ("n8", "n9", 2.0)])
        table.append(edges([("n9", "n99", 3.0)]))

    access = Access(url=table.location(), columns=PLAIN, takes_changes=True)
    return World(access, happen, lambda: tables.table_edges(table))


def kafka(_: pytest.MonkeyPatch, directory: Path, cluster: topics.MockCluster) -> World:
    sent = [topics.edge(*row) for row in ROWS]
    url = cluster.create(directory.name)
    cluster.send(directory.name, sent)

    def happen() -> None:
        more = [topics.edge("n0", "n1", 5.0, op="set"), topics.edge("n8", "n9", 2.0)]
        cluster.send(directory.name, more)
        cluster.send(directory.name, [None], key=b"n1,n2")
        sent.extend([*more, topics.edge("n1", "n2", op="delete")])

    def edges() -> Edges:
        return edges_after(
            (row["src"], row["dst"], row["weight"], row.get("op", "insert")) for row in sent
        )

    access = Access(url=url, columns=CHANGES, takes_changes=True)
    return World(access, happen, edges)


WORLDS = {"scripted": scripted, "delta": delta, "iceberg": iceberg, "kafka": kafka}


class NodeWorld(NamedTuple):
    """A source of a kind that holds rows of nodes, and something that happens to it.

    Before that `NODES` have their values, by the numbers of `NODE_VALUES`, then those of
    `MORE_NODES`, where one is None if the node has none any more.
    """

    access: Access
    happen: Callable[[], None]


def scripted_nodes(
    monkeypatch: pytest.MonkeyPatch, _: Path, __: topics.MockCluster, holds: NodeHolds
) -> NodeWorld:
    url, play = script(monkeypatch, [sent_nodes(holds, NODES)])
    more = sent_nodes(holds, MORE_NODES, ["set", "delete", "insert"])
    return NodeWorld(node_access(url, holds), lambda: play.entries.append(more))


def delta_nodes(
    _: pytest.MonkeyPatch, directory: Path, __: topics.MockCluster, holds: NodeHolds
) -> NodeWorld:
    url = str(directory / "nodes")
    put_nodes(url, holds, NODES)

    def happen() -> None:
        DeltaTable(url).delete("node = 'n1'")
        put_nodes(url, holds, {node: value for node, value in MORE_NODES.items() if node != "n1"})

    return NodeWorld(node_access(url, holds), happen)


def kafka_nodes(
    _: pytest.MonkeyPatch, directory: Path, cluster: topics.MockCluster, holds: NodeHolds
) -> NodeWorld:
    topic = f"{directory.name}-{holds}"
    url = cluster.create(topic)

    def send(values: Mapping[str, int | None]) -> None:
        for node, value in values.items():
            told = None if value is None else {"node": node, **NODE_VALUES[holds][value]}
            cluster.send(topic, [told], key=node.encode())

    send(NODES)
    return NodeWorld(node_access(url, holds), lambda: send(MORE_NODES))


def iceberg_nodes(
    _: pytest.MonkeyPatch, directory: Path, __: topics.MockCluster, holds: NodeHolds
) -> NodeWorld:
    pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
    tables = import_module("tests.service.live_sources.iceberg_tables")
    rows = sent_nodes(holds, NODES)
    with tables.catalog_in(directory / "nodes") as catalog:
        table = catalog.create_table("people.nodes", schema=rows.schema)
        table.append(rows)

    def happen() -> None:
        tables.rewrite(table, rows.filter(pc.not_equal(rows["node"], "n1")))
        more = {node: value for node, value in MORE_NODES.items() if value is not None}
        table.upsert(sent_nodes(holds, more), ["node"])

    return NodeWorld(node_access(table.location(), holds), happen)


NODES = {"n0": 0, "n1": 1, "n2": 0, "n3": 0}
MORE_NODES = {"n0": 2, "n1": None, "n9": 1}
NODE_WORLDS = {
    "scripted": scripted_nodes,
    "delta": delta_nodes,
    "iceberg": iceberg_nodes,
    "kafka": kafka_nodes,
}


def node_access(url: str, holds: NodeHolds) -> Access:
    return Access(url=url, columns=NodeColumns(holds=holds), takes_changes=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[topics.MockCluster]:
    with topics.mock_cluster() as made:
        yield made


@pytest.fixture(params=WORLDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: topics.MockCluster
) -> World:
    return WORLDS[kind](monkeypatch, tmp_path, cluster)


def opened(kind: str, world: World) -> LiveSource:
    return live_source(kind).open(world.access)


def read(source: LiveSource, position: Position | None, most_rows: int = 2) -> list[Chunk]:
    return list(source.read(position, most_rows=most_rows, should_stop=lambda: False))


def test_every_kind_has_a_world() -> None:
    assert set(KINDS) <= set(WORLDS)
    assert set(KINDS) <= set(NODE_WORLDS)


@pytest.mark.parametrize("holds", ["labels", "features"])
def test_every_kind_holds_rows_of_nodes(
    kind: str,
    holds: NodeHolds,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cluster: topics.MockCluster,
) -> None:
    world = NODE_WORLDS[kind](monkeypatch, tmp_path, cluster, holds)
    source = live_source(kind).open(world.access)
    found = read(source, None)
    assert nodes_after(holds, found) == NODES
    world.happen()
    found += read(source, found[-1].position)
    kept = {node: value for node, value in (NODES | MORE_NODES).items() if value is not None}
    assert nodes_after(holds, found) == kept
    places = [place for chunk in found if chunk.table for place in places_of(chunk.table, "")]
    assert len(places) == sum(chunk.table.num_rows for chunk in found if chunk.table)
    assert kind == "scripted" or len(set(places)) == len(places)
    assert source.holds(pa.array(["no", "n9"], pa.large_string()))
    assert not source.holds(pa.array(["no"], pa.large_string()))


@pytest.mark.slow
def test_reading_on_from_any_chunk_gives_the_rest(kind: str, world: World) -> None:
    source = opened(kind, world)
    found = read(source, None)
    world.happen()
    found += read(source, found[-1].position)
    assert edges_after(rows_of(found)) == world.edges()
    for place, chunk in enumerate(found):
        rest = read(opened(kind, world), chunk.position)
        assert rows_of(rest) == rows_of(found[place + 1 :])
        assert [each.position for each in rest] == [each.position for each in found[place + 1 :]]


def test_chunks_end_at_so_many_rows(kind: str, world: World) -> None:
    chunks = read(opened(kind, world), None, most_rows=2)
    assert [each.table.num_rows for each in chunks if each.table is not None] == [2, 2, 2]


def test_nothing_is_left_once_all_is_read(kind: str, world: World) -> None:
    source = opened(kind, world)
    end = read(source, None)[-1].position
    assert source.lag(end) == 0
    assert source.lag(None) > 0
    assert read(source, end) == []
    world.happen()
    before = read(source, end)
    assert opened(kind, world).lag(end) > 0
    assert source.lag(before[-1].position) == 0


def test_a_reading_that_is_stopped_can_go_on(kind: str, world: World) -> None:
    source = opened(kind, world)
    stops = iter([False, False, True])
    first = list(source.read(None, most_rows=2, should_stop=lambda: next(stops, True)))
    rest = read(source, first[-1].position if first else None)
    assert rows_of([*first, *rest]) == rows_of(read(source, None))


def test_positions_are_json_and_labels_are_names(kind: str, world: World) -> None:
    for chunk in read(opened(kind, world), None):
        assert json.loads(json.dumps(dict(chunk.position))) == dict(chunk.position)
        assert all(part.isalnum() for part in chunk.label.split("-"))


def test_nodes_are_found_in_what_is_there_now(kind: str, world: World) -> None:
    source = opened(kind, world)
    assert source.holds(pa.array(["no", "n3"], pa.large_string()))
    assert not source.holds(pa.array(["no"], pa.large_string()))


def test_a_source_can_be_left_in_the_middle_and_closed(kind: str, world: World) -> None:
    source = opened(kind, world)
    (chunk,) = islice(source.read(None, most_rows=2, should_stop=lambda: False), 1)
    source.close()
    assert rows_of([chunk]) == rows_of(read(opened(kind, world), None))[:2]
