"""Nodes that somebody asks to be forgotten while their graph is ingested, and that come again."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete

from peewit.service.database.tables import pushes
from peewit.service.ingest.erasing import Eraser
from peewit.service.ingest.ingestor import Ingestor
from peewit.streaming.durable_files import TEMPORARY_PREFIX
from peewit.streaming.events import Committed, IngestEvent, Progress, Retracted
from peewit.streaming.graph_paths import GraphPaths
from tests.service.api.conftest import CSV, Api
from tests.service.api.test_erasures import OTHER, WHO, erase, put_features


def ingest_and(api: Api, kind: type[IngestEvent], do: Callable[[], object]) -> None:
    """Ingest, and do something at the first event of a kind."""
    done: list[object] = []

    def take(event: IngestEvent) -> None:
        if isinstance(event, kind) and not done:
            done.append(event)
            do()

    graph_id = api.home.catalog.get("g").id
    Ingestor(api.home.database, api.home.settings).ingest_graph(graph_id, on_event=take)
    assert done


def edges(api: Api) -> set[tuple[str, ...]]:
    """Edges of the newest snapshot."""
    return {tuple(sorted(line.replace('"', "").split(",")[:2])) for line in api.edges()}


def add_source(api: Api, name: str, content: str) -> None:
    source = api.home.settings.source_roots[0] / name
    source.write_text(content)
    api.call("POST", "/graphs/g/sources", 201, json={"url": str(source)})


def test_what_is_pushed_after_an_erasure_stays_though_ingest_had_looked_for_one(api: Api) -> None:
    api.create_graph("g", deletions="exact")
    add_source(api, "mine.csv", "src,dst\nc,d\n")
    api.push(f"src,dst\n{WHO},a\na,b\n".encode(), CSV)
    api.ingest()
    file = api.call("GET", "/graphs/g/files?status=committed", 200).json()["files"]
    (listed,) = [each["id"] for each in file if each["push_id"] is None]
    api.call("DELETE", f"/graphs/g/files/{listed}", 202)
    api.push(f"src,dst\n{WHO},a\nb,e\n".encode(), CSV)  # goes

    def ask() -> None:
        erase(api, WHO)
        api.push(f"src,dst\n{WHO},b\nb,c\n".encode(), CSV)  # stays

    ingest_and(api, Retracted, ask)
    assert edges(api) == {("a", "b"), ("b", WHO), ("b", "c"), ("b", "e")}
    (told,) = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert told["status"] == "erased"


def test_nodes_leave_between_two_files_of_one_pass(api: Api) -> None:
    api.create_graph("g")
    add_source(api, "1.csv", f"src,dst\n{WHO},a\na,b\n")
    add_source(api, "2.csv", f"src,dst\n{WHO},b\n")
    ingest_and(api, Progress, lambda: erase(api, WHO))
    assert edges(api) == {("a", "b"), ("b", WHO)}, "the second was not in the graph yet"


def test_features_that_come_after_an_erasure_wait_for_it(api: Api) -> None:
    api.create_graph("g")
    api.push(f"src,dst\n{WHO},a\n".encode(), CSV)
    api.ingest()
    erase(api, WHO)
    put_features(api, WHO, "a")
    ingestor = Ingestor(api.home.database, api.home.settings)
    graph_id = api.home.catalog.get("g").id
    with ingestor.open_graph(graph_id, should_stop=lambda: False) as graph:
        graph.commit_features()  # as they come between the erasures and the features of a pass
        graph.ingest_pending()
    assert api.call("GET", "/graphs/g/features", 200).json()["n_rows"] == 2


@pytest.mark.slow
def test_erasures_that_wait_together_take_each_what_came_before_it(api: Api) -> None:
    api.create_graph("g")
    api.push(f"src,dst\n{WHO},a\n{OTHER},b\na,b\n".encode(), CSV)
    api.ingest()
    erase(api, WHO)
    put_features(api, WHO, OTHER)
    api.push(f"src,dst\n{WHO},c\n{OTHER},c\nb,c\n".encode(), CSV)
    erase(api, OTHER)
    api.push(f"src,dst\n{OTHER},d\nc,d\n".encode(), CSV)
    api.ingest()
    assert edges(api) == {("a", "b"), ("c", WHO), ("b", "c"), ("d", OTHER), ("c", "d")}
    assert api.call("GET", "/graphs/g/features", 200).json()["n_rows"] == 1


@pytest.mark.slow
def test_what_is_new_comes_in_however_often_somebody_asks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    erase(api, WHO)
    order: list[str] = []
    strike = Eraser.strike

    def strike_and_be_asked(eraser: Eraser) -> bool:
        done = strike(eraser)
        if done:
            order.append("strike")
            if len(order) < 8:
                erase(api, WHO)
        return done

    monkeypatch.setattr(Eraser, "strike", strike_and_be_asked)
    ingest_and(api, Committed, lambda: order.append("push"))
    assert order[:4] == ["strike", "strike", "push", "strike"], "one at the begin of the pass"
    assert edges(api) == {("a", "b")}


def test_blocks_that_a_killed_process_stored_no_row_of_forget_too(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    api.ingest()
    rows = "".join(f"x{number},y{number}\n" for number in range(6_000))
    for _ in range(2):
        api.push(f"src,dst\n{WHO},a\n{rows}".encode(), CSV)
    with api.home.database.write() as connection:
        gone = delete(pushes).where(pushes.c.path != "").returning(pushes.c.path)
        left, younger = map(Path, connection.execute(gone).scalars())
    erase(api, WHO)
    later = time.time() + 60.0
    os.utime(younger, (later, later))  # of a push that comes after it, and is stored yet
    api.ingest()
    (told,) = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert told["status"] == "erased"
    assert WHO.encode() not in left.read_bytes()
    assert pq.read_metadata(left).num_rows == 6_000
    assert pq.read_metadata(younger).num_rows == 6_001


def test_what_was_left_half_written_between_two_strikes_goes(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever overwrote files without the first node was killed, and the second was in them."""
    api.create_graph("g")
    api.push(f"src,dst\n{WHO},a\n{OTHER},a\n".encode(), CSV)
    api.ingest()
    erase(api, WHO)
    with monkeypatch.context() as patch:
        patch.setattr(Eraser, "_overwrite", lambda *_: False)
        api.ingest()
    paths = GraphPaths(root=api.home.settings.graphs_directory / api.home.catalog.get("g").id)
    paths.predictions.mkdir(exist_ok=True)
    left = paths.features / f"{TEMPORARY_PREFIX}1-some.arrow"
    left.parent.mkdir(exist_ok=True)
    left.write_text(OTHER)
    younger = paths.predictions / f"{TEMPORARY_PREFIX}1-some.arrow"
    younger.write_text(WHO)
    os.utime(younger, (time.time() + 60.0,) * 2)  # of a solve that was killed after the strikes
    erase(api, OTHER)
    api.ingest()
    listed = api.call("GET", "/graphs/g/erasures", 200).json()["erasures"]
    assert [each["status"] for each in listed] == ["erased", "erased"]
    assert not left.exists()
    assert not younger.exists()
