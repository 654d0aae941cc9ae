"""What people do with the blocking client, against the real API on a socket."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from peewit.service.client import (
    Client,
    Conflict,
    Forbidden,
    GraphExists,
    GraphNotFound,
    InvalidArgument,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NodeNotFound,
    NotFound,
    NotYet,
    PredictionsNotFound,
    StillWaiting,
    Unauthorized,
    UnknownNodes,
)
from peewit.service.key_store import KeyStore
from peewit.service.settings import Settings
from peewit.service.worker.worker import Worker
from tests.service.api.conftest import Api, as_arrow, serving
from tests.service.client.conftest import edge_table


class Series:
    """What a Series of pandas is to a caller: values, and the nodes that they are of."""

    def __init__(self, values: list[object], index: list[object]) -> None:
        self._values, self.index = values, index

    def __iter__(self) -> Iterator[object]:
        return iter(self._values)


class Frame:
    """A data frame of another library: an Arrow stream for those who ask."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_graphs_come_change_and_go(client: Client) -> None:
    made = client.create_graph("g", epsilon=0.5, seed=3, snapshot_every={"edges": 10})
    assert (made.settings.epsilon, made.settings.seed) == (0.5, 3)
    assert client.graph("g") == made
    assert [graph.name for graph in client.graphs()] == ["g"]
    changed = client.update_graph("g", rename="h", epsilon=0.6, snapshot_every=None)
    assert (changed.name, changed.settings.epsilon) == ("h", 0.6)
    assert changed.settings.snapshot_every is None
    client.create_graph("g")
    with pytest.raises(GraphExists) as conflict:
        client.create_graph("h")
    assert (conflict.value.status, conflict.value.title) == (409, "Graph exists")
    client.delete_graph("h")
    with pytest.raises(GraphNotFound, match="'h'"):
        client.graph("h")
    with pytest.raises(InvalidArgument) as refused:
        client.create_graph("i", epsilon=2.0)
    assert (refused.value.argument, refused.value.value) == ("epsilon", None)
    with pytest.raises(ValueError, match="must not be empty"):
        client.delete_graph("")


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        *("table", "batch", "batches", "iterator", "reader", "frame"),
        *("csv", "arrow", "parquet", "csv.gz", "csv.zst"),
    ],
)
def test_edges_are_pushed_in_any_shape(
    client: Client, api: Api, tmp_path: Path, shape: str
) -> None:
    table = edge_table()
    pa.csv.write_csv(table, tmp_path / "edges.csv")
    pq.write_table(table, tmp_path / "edges.parquet")
    (tmp_path / "edges.arrow").write_bytes(as_arrow(table))
    for suffix in ("gz", "zst"):
        with pa.output_stream(str(tmp_path / f"edges.csv.{suffix}")) as packed:  # by its suffix
            packed.write((tmp_path / "edges.csv").read_bytes())
    edges = {
        "table": table,
        "batch": table.combine_chunks().to_batches()[0],
        "batches": table.to_batches(max_chunksize=50),
        "iterator": iter(table.to_batches(max_chunksize=50)),
        "reader": table.to_reader(50),
        "frame": Frame(table),
    }.get(shape, tmp_path / f"edges.{shape}")
    client.create_graph("g")
    push = client.push_edges("g", edges)
    assert (push.status, push.n_rows) == ("pending", 241)
    assert push.idempotency_key is not None
    assert client.push("g", push.id) == push
    api.ingest()
    assert client.push("g", push.id, wait=10).status == "committed"
    assert client.graph("g").edges_seen == 241
    assert [file.push_id for file in client.files("g", status="committed")] == [push.id]


def test_what_is_no_table_is_refused_before_it_is_sent(client: Client, tmp_path: Path) -> None:
    client.create_graph("g")
    for wrong, error in (
        (b"src,dst", TypeError),
        (7, TypeError),
        ({"src": ["a"]}, TypeError),
        ([("a", "b", 1.0)], TypeError),
        (tmp_path / "edges.xlsx", ValueError),
        (tmp_path / "absent.csv", FileNotFoundError),
        (iter(()), ValueError),
    ):
        with pytest.raises(error):
            client.push_edges("g", wrong)  # type: ignore[arg-type]
    assert list(client.files("g")) == []
    with pytest.raises(InvalidArgument) as refused:
        client.push_edges("g", pa.table({"src": ["a"], "dst": ["b"], "weight": [-1.0]}))
    assert (refused.value.argument, refused.value.row) == ("weight", 0)
    assert (refused.value.value, refused.value.status) == ("-1.0", 422)


def test_push_with_its_key_is_sent_once(client: Client) -> None:
    client.create_graph("g")
    first = client.push_edges("g", edge_table(), key="k")
    assert client.push_edges("g", edge_table(), key="k") == first
    with pytest.raises(Conflict):
        client.push_edges("g", edge_table().slice(1), key="k")
    assert client.push_edges("g", edge_table()).id != first.id


def test_push_that_waits_too_short_is_pending(client: Client, api: Api) -> None:
    client.create_graph("g")
    push = client.push_edges("g", edge_table(), wait=0.05)
    assert push.status == "pending"
    threading.Timer(0.1, api.ingest).start()
    assert client.push("g", push.id, wait=None).status == "committed"


def test_labels_are_put_read_and_taken_back(client: Client, tmp_path: Path) -> None:
    client.create_graph("g")
    client.push_edges("g", edge_table())
    receipt = client.put_labels(
        "g", {"n1": 0.5, "n2": 1, "n3": np.int64(7), "é\n": 2.0}, unknown="keep"
    )
    assert receipt.accepted == 4
    nodes, values, origins, annotators, _ = client.labels("g").to_pydict().values()
    assert set(annotators) == {None}
    assert dict(zip(nodes, values, strict=True)) == {"n1": 0.5, "n2": 1.0, "n3": 7.0, "é\n": 2.0}
    assert set(origins) == {"given"}
    client.put_labels("g", {"n1": "1", "n2": "1", "n3": "7", "é\n": "ü"}, unknown="keep")
    (tmp_path / "labels.csv").write_text("node,label\nn4,x\n")
    assert client.put_labels("g", tmp_path / "labels.csv").accepted == 1
    assert client.put_labels("g", pa.table({"node": ["n5"], "label": ["y"]})).accepted == 1
    client.put_labels("g", {"n6": "y"}, origin="suggested")
    assert client.labels("g")["origin"].to_pylist()[-3:] == ["imported", "imported", "suggested"]
    with pytest.raises(UnknownNodes) as refused:
        client.put_labels("g", {"nobody": "x"})
    assert refused.value.refusal.refused == ("nobody",)
    assert client.delete_labels("g", ["n5", "n6", "n7"]) == 2
    assert client.delete_labels("g", [f"n{number}" for number in range(500)]) == 4
    assert client.labels("g").num_rows == 1


def test_what_cannot_be_a_label_is_told_with_the_way_out(client: Client) -> None:
    client.create_graph("g")
    with pytest.raises(InvalidArgument, match=r"no_label=''") as refused:
        client.put_labels("g", {"n1": "x", "n2": np.float64("nan")}, unknown="keep")
    assert refused.value.row == 1
    put = client.put_labels("g", {"n1": "x", "n2": float("nan")}, unknown="keep", no_label="")
    assert (put.accepted, put.left_out) == (1, {"": 1})
    client.create_graph("h")
    twice = pa.table({"node": ["a", "a"], "label": [-1, 1]})
    said = {"keep_word": ["-1"], "contradictions": "last", "quote": "none"}
    assert client.put_labels("h", twice, unknown="keep", **said).accepted == 1
    with pytest.raises(TypeError, match="numbers or text, got b'x'"):
        client.put_labels("g", {"n1": b"x"}, unknown="keep")  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"columns, each of one type .* an index of nodes"):
        client.put_labels("g", pa.chunked_array([["x"]]), unknown="keep")
    with pytest.raises(TypeError, match=r"an iterable of str; give labels as a mapping by node"):
        client.put_labels("g", ["x"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="must name each node once, got 'a' twice; give a table"):
        client.put_labels("g", Series(["x", "y"], ["a", "a"]))


def test_labels_of_a_series_are_of_the_nodes_of_its_index(client: Client) -> None:
    client.create_graph("g")
    assert client.put_labels("g", Series(["x", "y"], ["n1", "n2"]), unknown="keep").accepted == 2
    rows = client.labels("g").to_pylist()
    found = {row["node"]: (row["label"], row["origin"]) for row in rows}
    assert found == {"n1": ("x", "given"), "n2": ("y", "given")}


def test_labels_of_pandas_are_of_the_nodes_of_their_index(client: Client) -> None:
    pandas = pytest.importorskip("pandas")
    client.create_graph("g")
    client.put_labels("g", pandas.Series({"n1": 1, "n2": 2}), unknown="keep")
    assert client.labels("g").to_pydict()["label"] == [1, 2]


@pytest.mark.usefixtures("processes")
@pytest.mark.filterwarnings("ignore:job .* each class has one label")
def test_label_columns_are_put_solved_and_read_by_name(client: Client, api: Api) -> None:
    client.create_graph("g", seed=1)
    client.push_edges("g", edge_table())
    api.ingest()
    rows = {"n3": {"hue": "red", "size": 1}, "n33": {"hue": "blue"}, "n40": {"size": 2}}
    assert client.put_labels("g", rows, label_columns=["hue", "size"]).accepted == 4
    told = [(each.name, each.n_labeled) for each in client.label_columns("g")]
    assert told == [("hue", 2), ("size", 2)]
    columns = client.labels("g", label_column="size").column_names
    assert columns == ["node", "size", "origin", "annotator", "key"]
    with pytest.raises(ValueError, match="must be a mapping by column for each node"):
        client.put_labels("g", {"n3": "red"}, label_columns=["hue", "size"])
    with pytest.raises(NotFound, match="got 'nope'"):
        client.submit_solve_columns("g", ["hue", "nope"], "hfs")
    stop = threading.Event()
    worker = Worker(api.home.database, api.home.settings)
    thread = threading.Thread(target=worker.run, args=(stop.is_set, str))
    thread.start()
    try:
        found = client.solve_columns("g", ["hue", "size"], "hfs", timeout=60)
    finally:
        stop.set()
        thread.join()
    assert set(found["hue"].table["label"].to_pylist()) == {"red", "blue"}
    assert set(found["size"].table["label"].to_pylist()) == {1, 2}
    assert client.prediction("g", "n7", label_column="size").label_column == "size"
    warm = [client.job(each.job).result for each in found.values()]
    assert [each["warm"] for each in warm if each is not None] == [False, True]
    assert client.delete_labels("g", ["n3"], label_column="size") == 1


@pytest.mark.usefixtures("processes")
def test_job_is_watched_and_its_predictions_read(client: Client, api: Api, tmp_path: Path) -> None:
    client.create_graph("g", seed=1)
    client.push_edges("g", edge_table())
    with pytest.raises(NotYet):
        client.estimate("g")
    with pytest.raises(PredictionsNotFound):
        client.predictions("g")
    api.ingest()
    client.put_labels("g", {"n3": "left", "n33": "right"})
    assert client.estimate("g").fits
    job = client.submit_solve("g", "stable-hfs", {"graph_penalty": 1.0}, key="monday")
    assert client.submit_solve("g", "stable-hfs", {"graph_penalty": 1.0}, key="monday") == job
    assert (job.status, job.is_final) == ("queued", False)
    with pytest.raises(StillWaiting, match="not ended within") as late:
        client.wait(job, timeout=0.05)
    assert isinstance(late.value, TimeoutError)
    running = threading.Timer(0.1, api.run_job, [job.id])
    running.start()
    seen: list[str] = []
    kinds = [event.kind for event in client.events(job.id)]
    ended = client.wait(job.id, progress=lambda each: seen.append(each.status))
    running.join()
    assert (ended.status, seen[-1]) == ("succeeded", "succeeded")
    assert kinds[-1] == "succeeded"
    assert list(client.events(job.id, after=len(kinds))) == []
    assert [each.id for each in client.jobs(graph="g", status="succeeded")] == [job.id]

    found = client.predictions("g", model="stable-hfs")
    assert (found.job, found.snapshot, found.labels_seq) == (job.id, 1, 2)
    assert found.etag is not None
    assert client.predictions_if_changed("g", found.etag) is None
    again = client.predictions_if_changed("g", '"other"')
    assert again is not None
    assert again.table.equals(found.table)
    for suffix, read in (("parquet", pq.read_table), ("csv", pa.csv.read_csv)):
        target = client.download_predictions("g", tmp_path / f"out.{suffix}")
        assert read(target)["label"].to_pylist() == found.table["label"].to_pylist()
    raw = client.download_predictions("g", tmp_path / "out", table_format="arrow").read_bytes()
    assert pa.ipc.open_stream(io.BytesIO(raw)).read_all().equals(found.table)
    assert sorted(path.name for path in tmp_path.glob("*out*")) == ["out", "out.csv", "out.parquet"]
    with pytest.raises(ValueError, match="must end in"):
        client.download_predictions("g", tmp_path / "out.txt")


@pytest.mark.usefixtures("processes")
def test_jobs_that_end_otherwise_say_so(client: Client, api: Api) -> None:
    client.create_graph("g")
    client.push_edges("g", edge_table())
    api.ingest()
    waiting = client.submit_certify("g", {"passes": 3})
    assert client.cancel(waiting.id).status == "cancelled"
    with pytest.raises(JobCancelled) as cancelled:
        client.wait(waiting)
    assert cancelled.value.job.id == waiting.id
    unlabeled = client.submit_solve("g")
    api.run_job(unlabeled.id)
    with pytest.raises(JobFailed, match="label") as failed:
        client.wait(unlabeled)
    assert not isinstance(failed.value, JobCancelled)
    unconnected = client.submit_knn("g", {"k": 3})
    api.run_job(unconnected.id)
    with pytest.raises(JobFailed, match="features"):
        client.wait(unconnected)
    with pytest.raises(InvalidArgument, match="no-such-model"):
        client.submit_tune("g", "no-such-model")
    with pytest.raises(JobNotFound):
        client.job("nobody")


def test_predictions_are_read_piece_by_piece(reader: Client) -> None:
    table = reader.predictions("g").table
    assert pa.Table.from_batches(reader.stream_predictions("g")).equals(table)
    begun = reader.stream_predictions("g")
    assert next(begun).num_rows > 0
    begun.close()  # type: ignore[attr-defined]  # a generator, as every such method gives
    one = reader.prediction("g", "n0")
    assert (one.prediction.node, one.prediction.label) == ("n0", "left")
    with pytest.raises(NodeNotFound):
        reader.prediction("g", "nobody")
    nodes = [f"n{number % 60}" for number in range(10_000)] + ["nobody"]
    first, second = reader.look_up("g", nodes)
    assert (len(first.predictions), second.predictions, second.unknown) == (10_000, (), ("nobody",))
    (snapshot,) = reader.snapshots("g")
    edges = reader.snapshot_edges("g", snapshot.number)
    assert edges.num_rows == snapshot.edges_kept
    assert pa.Table.from_batches(reader.stream_snapshot_edges("g", 1)).equals(edges)
    newest = reader.sparsifier("g")
    assert (newest.graph, newest.snapshot) == ("g", snapshot.number)
    assert newest.to_arrow().equals(edges)
    graph = newest.to_networkx(reader.predictions("g"))
    assert graph.number_of_nodes() == snapshot.n_nodes
    assert {graph.nodes[node]["label"] for node in ("n3", "n33")} == {"left", "right"}


@pytest.mark.usefixtures("processes")
def test_large_integers_keep_their_kind(client: Client, api: Api) -> None:
    first = 2**62
    client.create_graph("g", node_ids="int64")
    client.push_edges("g", pa.table({"src": [first, first + 1], "dst": [first + 1, first + 2]}))
    api.ingest()
    client.put_labels("g", {first: 0, np.int64(first + 2): 1})
    job = client.submit_solve("g", "stable-hfs")
    api.run_job(job.id)
    (found,) = client.look_up("g", [first, np.int64(first + 2), 5], job=job.id)
    assert [(each.node, each.label) for each in found.predictions] == [(first, 0), (first + 2, 1)]
    assert found.unknown == (5,)
    assert client.prediction("g", first).prediction.node == first


@pytest.mark.usefixtures("processes")
def test_new_points_are_predicted_in_their_order(client: Client, api: Api) -> None:
    client.create_graph("g", node_ids="dense")
    values = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(40)[:, None] % 2 * 8
    client.put_features("g", pa.table({"node": np.arange(40), "features": values.tolist()}))
    api.ingest()
    client.put_labels("g", {0: "even", 1: "odd", 2: "even", 3: "odd"})
    job = client.submit_solve("g", "rlsc")
    api.run_job(job.id)
    found = client.predict(job.id, pa.table({"features": [[8.0] * 3, [0.0] * 3]}))
    assert found.table["label"].to_pylist() == ["odd", "even"]
    assert (found.job, found.model, found.etag) == (job.id, "rlsc", None)
    with pytest.raises(InvalidArgument, match="rlsc predicts new points by their features alone"):
        client.predict(job.id, [{"features": [8.0] * 3, "edges": [{"node": 0}]}])


@pytest.mark.usefixtures("processes")
def test_new_points_have_edges_to_nodes(client: Client, api: Api) -> None:
    client.create_graph("g", node_ids="dense")
    values = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(40)[:, None] % 2 * 8
    client.put_features("g", pa.table({"node": np.arange(40), "features": values.tolist()}))
    client.push_edges("g", pa.table({"src": np.arange(38), "dst": np.arange(2, 40)}))
    api.ingest()
    client.put_labels("g", {0: "even", 1: "odd", 2: "even", 3: "odd"})
    job = client.submit_solve("g", "filtered-ridge", {"teleport": 0.1})
    api.run_job(job.id)
    between = np.full(3, 4.0)
    points = [{"features": between, "edges": [{"node": np.int64(at)}]} for at in (30, 31)]
    found = client.predict(job.id, points)
    assert found.table["label"].to_pylist() == ["even", "odd"]
    with pytest.raises(InvalidArgument, match="must lead to nodes of graph g"):
        client.predict(job.id, [{"features": between, "edges": [{"node": 40}]}])


@pytest.mark.usefixtures("processes")
def test_smoothed_features_are_asked_for_and_read(client: Client, api: Api, tmp_path: Path) -> None:
    client.create_graph("g", node_ids="dense")
    client.push_edges("g", pa.table({"src": [0, 1], "dst": [1, 2]}))
    api.ingest()
    with pytest.raises(NotYet):
        client.submit_filter("g")
    client.put_features("g", pa.table({"node": [0, 1], "features": [[1.0, 2.0], [3.0, 4.0]]}))
    api.ingest()
    with pytest.raises(NotFound):
        client.filtered_features("g")
    own, mixed = (client.submit_filter("g", {"teleport": each}) for each in (1.0, 0.2))
    for job in (own, mixed):
        api.run_job(job.id)
    assert client.filtered_features("g", job=own.id)["features"].to_pylist() == [
        [1.0, 2.0],
        [3.0, 4.0],
        [0.0, 0.0],
    ]
    table = client.filtered_features("g")
    assert min(table["features"].to_pylist()[2]) > 0
    assert pa.Table.from_batches(client.stream_filtered_features("g", job=mixed.id)).equals(table)
    flat = pa.csv.read_csv(client.download_filtered_features("g", tmp_path / "out.csv"))
    assert flat.column_names == ["node", "f0", "f1"]


def test_server_tells_of_itself(reader: Client) -> None:
    assert {"harmonic-mbo", "lapsvm"} <= {model.name for model in reader.models()}
    assert reader.version().name == "peewit"
    assert reader.is_alive()
    assert reader.is_ready()
    assert "peewit_kept_edges" in reader.metrics()


@pytest.fixture
def locked(settings: Settings) -> Iterator[tuple[str, dict[str, str]]]:
    """Address of a server with keys, and a key of each scope."""
    with serving(settings) as api:
        keys = KeyStore(api.home.database)
        made = {scope: keys.create(scope, [scope]) for scope in ("read", "admin")}  # type: ignore[list-item]
        yield str(api.client.base_url), made


def test_key_opens_what_it_is_for(
    locked: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = locked
    with Client(url) as stranger, pytest.raises(Unauthorized):
        stranger.graphs()
    with Client(url, api_key="no.key") as stranger, pytest.raises(Unauthorized):
        stranger.graphs()
    monkeypatch.setenv("PEEWIT_URL", url)
    monkeypatch.setenv("PEEWIT_API_KEY", keys["read"])
    with Client() as reader:
        assert reader.graphs() == []
        with pytest.raises(Forbidden, match="admin"):
            reader.create_graph("g")
        assert keys["read"] not in repr(reader)
    with Client(api_key=keys["admin"]) as admin:
        assert admin.create_graph("g").name == "g"


@pytest.mark.parametrize("url", ["http://h/v1", "http://h/v1/"])
def test_an_address_may_have_the_version(url: str) -> None:
    with Client(url) as client:
        assert client.url == "http://h"


def test_a_file_counts_once_however_often_it_is_pushed(client: Client, tmp_path: Path) -> None:
    client.create_graph("g")
    path = tmp_path / "edges.csv"
    path.write_text("src,dst\na,b\nb,c\n")
    first = client.push_edges("g", path)
    with pytest.warns(UserWarning, match=f"was pushed to g before, as push {first.id}"):
        assert client.push_edges("g", str(path)) == first
    assert client.push_edges("g", path, key="again").id != first.id
    path.write_text("src,dst\na,b\nb,d\n")
    assert client.push_edges("g", path).id != first.id


def test_edges_leave_by_pairs_and_by_rows(client: Client, api: Api) -> None:
    client.create_graph("g", deletions="exact")
    client.push_edges("g", pa.table({"src": ["a", "b", "c"], "dst": ["b", "c", "d"]}))
    changes = pa.table({"src": ["a", "x"], "dst": ["b", "a"], "what": ["delete", "insert"]})
    client.push_edges("g", changes, op="what")
    assert client.delete_edges("g", [("c", "b"), ("nobody", "a")]).n_rows == 2
    api.ingest()
    assert client.graph("g").edges_kept == 2
    assert client.snapshots("g")[0].n_deletes == 3
    client.create_graph("plain")
    with pytest.raises(InvalidArgument, match="deletions are off"):
        client.delete_edges("plain", [("a", "b")])
