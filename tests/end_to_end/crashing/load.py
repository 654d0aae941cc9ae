"""Clients that work without a pause: each a thread, each writes down what it was told."""

import gzip
import hashlib
import io
import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.end_to_end.crashing.record import (
    CLASSES,
    N_NODES,
    AskedJob,
    EdgeBatch,
    LabelBatch,
    LabelEvent,
    Record,
    TableRead,
    is_forgettable,
)

GRAPH = "g"
PATH = f"/v1/graphs/{GRAPH}"
EXPORTED = {"src": "from_account", "dst": "to_account", "weight": "amount"}
"""What columns of exported files are called."""
ANCHORS = tuple(f"n{number}" for number in range(len(CLASSES)))
"""One node of each class whose label never changes, so that every class always has one."""

RELATIONS = ("", "card", "login")
"""Of pushes, in turn; files name none."""

AUTO_MODEL = "harmonic-mbo"
_EXPLICIT: tuple[dict[str, Any], ...] = (
    {"model": "hfs"},
    {"model": "stable-hfs"},
    {"model": "poisson"},
    {"model": "hfs", "parameters": {"variance": True}},
    {"kind": "certify", "parameters": {"passes": 3}},
)
_IPC = {"Accept": "application/vnd.apache.arrow.stream"}
_REQUEST_SECONDS = 60.0
PAUSE_SECONDS = 0.4


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Client(threading.Thread):
    """Calls ``work`` again and again until told to stop."""

    def __init__(self, name: str, port: int, record: Record, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.record = record
        self.rng = random.Random(f"{seed}-{name}")
        self.must_stop = threading.Event()
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=_REQUEST_SECONDS, trust_env=False
        )
        self._n_done = 0

    def run(self) -> None:
        """Work until told to stop."""
        with self._http:
            while not self.must_stop.is_set():
                try:
                    self.work(self._n_done)
                except Exception as error:  # noqa: BLE001 - a client that dies would be missed
                    self.record.violate(f"{self.name} met what it cannot explain: {error!r}")
                self._n_done += 1
                self.must_stop.wait(self.rng.uniform(0.0, 2.0 * PAUSE_SECONDS))

    def close(self) -> None:
        """Hang up; for one that is used without being started."""
        self._http.close()

    def work(self, number: int) -> None:
        """One piece of work."""
        raise NotImplementedError

    def call(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer | None:
        """The answer; None where there was none, and where the database was out of reach."""
        began = time.monotonic()
        try:
            found = self._http.request(method, path, content=content, headers=headers)
        except httpx.TransportError:
            self.record.broke()
            return None
        self.record.answered(found.status_code)
        if found.status_code == 503 and self.record.was_away(began):
            self.record.n_unavailable += 1
            return None
        if found.status_code >= 500:
            self.record.violate(f"{method} {path} was answered {found.status_code}: {found.text}")
            return None
        return Answer(found.status_code, found.headers, found.content)

    def until_answered(self, method: str, path: str, **request: Any) -> Answer | None:
        """The same request until it is answered; None when this client is told to stop first."""
        while True:
            answer = self.call(method, path, **request)
            if answer is not None or self.must_stop.is_set():
                return answer
            self.must_stop.wait(PAUSE_SECONDS)

    def committed_file(self, path: str) -> dict[str, Any] | None:
        """What the manifest tells of the file of a path that is in the graph; None without one."""
        page: int | None = 0
        while page is not None:
            answer = self.call("GET", f"{PATH}/files?status=committed&limit=1000&page={page}")
            if answer is None or not self.expect(answer, 200, what="the manifest"):
                return None
            told = answer.json()
            for file in told["files"]:
                if file["path"] == path:
                    return dict(file)
            page = told["next_page"]
        return None

    def expect(self, answer: Answer, *statuses: int, what: str) -> bool:
        """Whether the status is one of these; any other is a violation."""
        if answer.status in statuses:
            return True
        self.record.violate(f"{self.name}: {what} was answered {answer.status}: {answer.body!r}")
        return False


class Labeler(Client):
    """Puts labels in batches and takes some back; sometimes asks for what must be refused."""

    def work(self, number: int) -> None:
        """One request, which is not sent again: without an answer it happened or did not."""
        if number % 7 == 3:
            self._refused(number)
        elif number % 5 == 4:
            self._remove()
        else:
            self._put(number)

    def put(self, events: list[LabelEvent], *, unknown: str = "refuse") -> LabelBatch:
        """Labels of some nodes; the batch says whether it was answered."""
        batch = LabelBatch(events=events)
        rows = [{"node": node, "label": label} for node, label in events]
        self._send(batch, "PUT", f"?unknown={unknown}", json.dumps({"labels": rows}).encode())
        return batch

    def _put(self, number: int) -> None:
        nodes = dict.fromkeys(self._node() for _ in range(self.rng.randint(1, 6)))
        events: list[LabelEvent] = [(node, self.rng.choice(CLASSES)) for node in nodes]
        if number % 4 == 0:  # of nodes that never come, and tell which request this was
            events.append((f"{self.name}-{number}", self.rng.choice(CLASSES)))
        self.put(events, unknown="keep" if number % 4 == 0 else "refuse")

    def _remove(self) -> None:
        node = self._node()
        self._send(
            LabelBatch(events=[(node, None)], is_removal=True), "DELETE", f"?node={node}", None
        )

    def _refused(self, number: int) -> None:
        rows = [{"node": node, "label": "never"} for node in (self._node(), f"no-{number}")]
        answer = self.call(
            "PUT",
            f"/v1/graphs/{GRAPH}/labels",
            content=json.dumps({"labels": rows}).encode(),
            headers={"Content-Type": "application/json"},
        )
        if answer is not None:
            self.expect(answer, 422, what="a label of an unknown node")

    def _send(self, batch: LabelBatch, method: str, query: str, content: bytes | None) -> None:
        self.record.label_batches.append(batch)
        answer = self.call(
            method,
            f"/v1/graphs/{GRAPH}/labels{query}",
            content=content,
            headers=None if content is None else {"Content-Type": "application/json"},
        )
        if answer is not None and self.expect(answer, 200, what=f"labels {batch.events}"):
            told = answer.json()
            batch.labels_seq, batch.accepted = told["labels_seq"], told["accepted"]

    def _node(self) -> str:
        return f"n{self.rng.randrange(len(ANCHORS), N_NODES)}"


class Pusher(Client):
    """Pushes edges, some large, most with an Idempotency-Key and then until they are taken."""

    def work(self, number: int) -> None:
        """One push; sometimes one again that was taken, sometimes a bad one."""
        if number % 11 == 5:
            self._bad()
            return
        n_rows = 3_000 if number % 6 == 5 else self.rng.randint(1, 60)
        has_key = number % 3 != 2
        batch = self.batch(n_rows, key=f"{self.name}-{number}" if has_key else None)
        self.push(batch)
        if has_key and number % 4 == 0:
            self.push(batch)

    def batch(self, n_rows: int, *, key: str | None) -> EdgeBatch:
        """Edges mostly inside the communities; one new node in every fourth batch."""
        batch = edge_batch(self.record, self.rng, n_rows, key=key)
        batch.relation = RELATIONS[batch.number % len(RELATIONS)]
        return batch

    def push(self, batch: EdgeBatch) -> None:
        """Send it; until it is answered where it has a key."""
        if batch.push_id is None:
            self.record.edge_batches.append(batch)
        headers = {"Content-Type": "text/csv"}
        request: dict[str, Any] = {"content": csv_body(batch), "headers": headers}
        path = f"/v1/graphs/{GRAPH}/edges"
        if batch.relation or batch.deletes:  # deletes say theirs, be it that it has no name
            path += f"?relation={batch.relation or ''}"
        if batch.key is None:
            answer = self.call("POST", path, **request)
        else:
            headers["Idempotency-Key"] = batch.key
            answer = self.until_answered("POST", path, **request)
        if answer is None or not self.expect(answer, 200, 202, what=f"push {batch.number}"):
            return
        push_id = answer.json()["id"]
        if batch.push_id not in {None, push_id}:
            self.record.violate(
                f"key {batch.key} named push {batch.push_id} and then push {push_id}"
            )
        batch.push_id, batch.fate = push_id, "committed"

    def _bad(self) -> None:
        batch = self.batch(20, key=None)
        batch.fate = "quarantined"
        self.record.edge_batches.append(batch)
        lines = csv_body(batch) + b"n1,n2,nan\n"
        answer = self.call(
            "POST", f"/v1/graphs/{GRAPH}/edges", content=lines, headers={"Content-Type": "text/csv"}
        )
        if answer is not None:
            self.expect(answer, 422, what="a push with a bad weight")


class Deleter(Pusher):
    """Deletes pairs of a batch that was sent before, taken or not, and sets the weight of one."""

    def work(self, number: int) -> None:
        """One push; sometimes one again that was taken."""
        sent = [
            batch
            for batch in self.record.edge_batches
            if not (batch.deletes or batch.is_forgettable)
        ]
        before = self.rng.choice(sent)
        rows = self.rng.sample(range(len(before.src)), min(len(before.src), 25))
        batch = EdgeBatch(
            number=self.record.next_number(),
            src=[before.dst[row] for row in rows],
            dst=[before.src[row] for row in rows],
            key=f"{self.name}-{number}",
            relation=before.relation,
            deletes=True,
        )
        self.push(batch)
        if number % 4 == 0:
            self.push(batch)


class Dropper(Client):
    """Puts files into a followed directory, some of them bad, some of them there already."""

    suffix: ClassVar[str] = "parquet"

    def __init__(self, *given: Any, inbox: Path) -> None:
        super().__init__(*given)
        self._inbox = inbox
        self._outside = inbox.with_name(f"{inbox.name}-written-beside")
        self._outside.mkdir()
        self._good: EdgeBatch | None = None

    def work(self, number: int) -> None:
        """One file, under its name at once."""
        batch = edge_batch(self.record, self.rng, self.rng.randint(20, 800), key=None)
        path = self._inbox / f"{number:06}.{self.suffix}"
        batch.path, batch.fate = str(path), "committed"
        content = self.encoded(batch)
        if number % 8 == 3:
            batch.fate, content = "quarantined", content[: len(content) // 2]
        elif number % 8 == 5:
            batch.fate, content = "quarantined", self.encoded(batch, last_weight=float("nan"))
        elif number % 8 == 7 and self._good is not None:
            batch.fate, content = "duplicate", self.encoded(self._good)
            self._good.copies.append(batch)
            if self._good.fate != "committed":  # its content may be out of the graph
                batch.fate = "unknown"
        elif number % 8 == 0:
            self._good = batch
        self.put(path, batch, content)

    def put(self, path: Path, batch: EdgeBatch, content: bytes) -> None:
        """Let a file appear with its content."""
        beside = self._outside / path.name
        beside.write_bytes(content)
        self.record.edge_batches.append(batch)
        beside.rename(path)
        self.must_stop.wait(self.rng.uniform(0.2, 1.0))

    def encoded(self, batch: EdgeBatch, *, last_weight: float | None = None) -> bytes:
        """A file with the edges."""
        return parquet_bytes(batch, last_weight=last_weight)


class Exporter(Dropper):
    """Puts packed text with columns of other names into a directory that is followed as such."""

    suffix = "csv.gz"

    def encoded(self, batch: EdgeBatch, *, last_weight: float | None = None) -> bytes:
        """A file with the edges."""
        weight = [repr(batch.weight)] * len(batch.src)
        if last_weight is not None:
            weight[-1] = repr(last_weight)
        rows = zip(weight, batch.dst, batch.src, strict=True)
        lines = [f"{w},{v},{u},EUR\n" for w, v, u in rows]
        header = ",".join([*(EXPORTED[name] for name in ("weight", "dst", "src")), "currency"])
        return gzip.compress("".join([f"{header}\n", *lines]).encode(), mtime=0)


class Asker(Client):
    """Submits jobs with an Idempotency-Key, cancels some, waits for the others."""

    def work(self, number: int) -> None:
        """One job to its end."""
        request: dict[str, Any] = {
            "content": json.dumps(self.rng.choice(_EXPLICIT)).encode(),
            "headers": {
                "Content-Type": "application/json",
                "Idempotency-Key": f"{self.name}-{number}",
            },
        }
        job: AskedJob | None = None
        for _ in range(2 if number % 3 == 0 else 1):
            answer = self.until_answered("POST", f"/v1/graphs/{GRAPH}/jobs", **request)
            if answer is not None and answer.status == 409 and self._has_moved_on(answer):
                self.record.retractions["certificates refused"] += 1
                return
            if answer is None or not self.expect(answer, 202, what="a job"):
                return
            job_id = answer.json()["id"]
            if job is None:
                job = AskedJob(id=job_id)
                self.record.jobs.append(job)
            elif job.id != job_id:
                self.record.violate(f"key {self.name}-{number} named jobs {job.id} and {job_id}")
        if job is None:
            return
        if number % 5 == 2:
            self.must_stop.wait(self.rng.uniform(0.0, 0.3))
            answer = self.until_answered("POST", f"/v1/jobs/{job.id}:cancel")
            if answer is not None and self.expect(answer, 200, what="a cancellation"):
                job.is_cancelled = answer.json()["status"] == "cancelled"
        while not self.must_stop.is_set():
            answer = self.until_answered("GET", f"/v1/jobs/{job.id}?wait=2")
            if answer is None or not self.expect(answer, 200, what=f"job {job.id}"):
                return
            if answer.json()["status"] in {"succeeded", "failed", "cancelled"}:
                return

    def _has_moved_on(self, answer: Answer) -> bool:
        """Whether a file has left that the newest snapshot has, which is certified no more."""
        n_left = self.record.retractions["retracted"] + self.record.retractions["replaced"]
        return n_left > 0 and b"raw-edges-moved-on" in answer.body


class Reader(Client):
    """Reads predictions all the time; they must be whole, agree with themselves and never age."""

    _newest = (0, 0)

    def work(self, number: int) -> None:
        """The whole table, one node, or some nodes."""
        (self._table, self._one, self._some)[number % 3]()

    def _table(self) -> None:
        hidden = set(self.record.forgotten)
        answer = self.call("GET", f"/v1/graphs/{GRAPH}/predictions", headers=_IPC)
        if answer is None or not self.expect(answer, 200, what="the predictions"):
            return
        try:
            table = pa.ipc.open_stream(answer.body).read_all()
            table.validate(full=True)
        except pa.ArrowException as error:
            self.record.violate(f"torn predictions of {dict(answer.headers)}: {error}")
            return
        self._check_labels(table["label"].to_pylist())
        nodes = table["node"].to_pylist()
        self.record.n_seen_hidden += bool(hidden)
        if shown := hidden & set(nodes) & self.record.forgotten:
            self.record.violate(f"predictions show {shown}, which were erased")
        left = table.filter(pa.array([not is_forgettable(node) for node in nodes]))
        told = TableRead(
            job=answer.headers["Peewit-Job"],
            snapshot=int(answer.headers["Peewit-Snapshot"]),
            labels_seq=int(answer.headers["Peewit-Labels-Seq"]),
            n_rows=left.num_rows,
            digest=hashlib.blake2b(str(left.to_pydict()).encode()).hexdigest(),
        )
        if len(set(nodes)) != table.num_rows:
            self.record.violate(f"predictions of job {told.job} name a node twice")
        self.record.read(told)
        self._note((told.snapshot, told.labels_seq))

    def _one(self) -> None:
        node = f"n{self.rng.randrange(N_NODES)}"
        answer = self.call("GET", f"/v1/graphs/{GRAPH}/predictions/node?id={node}")
        if answer is not None and self.expect(answer, 200, what=f"the prediction of {node}"):
            told = answer.json()
            found = told["prediction"]
            if found["node"] != node:
                self.record.violate(f"asked for {node}, got {found['node']}")
            self._check_labels([found["label"]])
            self._note((told["snapshot"], told["labels_seq"]))

    def _some(self) -> None:
        nodes = [f"n{number}" for number in self.rng.sample(range(N_NODES), 20)]
        answer = self.call(
            "POST",
            f"/v1/graphs/{GRAPH}/predictions:lookup",
            content=json.dumps({"nodes": nodes}).encode(),
            headers={"Content-Type": "application/json"},
        )
        if answer is not None and self.expect(answer, 200, what="the predictions of some nodes"):
            told = answer.json()
            if [each["node"] for each in told["predictions"]] != nodes:
                self.record.violate(f"asked for {nodes}, got {told}")
            self._check_labels([each["label"] for each in told["predictions"]])
            self._note((told["snapshot"], told["labels_seq"]))

    def _check_labels(self, labels: list[str | None]) -> None:
        strange = set(labels) - {*CLASSES, None}
        if strange:
            self.record.violate(f"labels of no class were predicted: {strange}")

    def _note(self, newest: tuple[int, int]) -> None:
        """What was read may not be older than what this reader has read before."""
        if newest < self._newest:
            self.record.violate(
                f"{self.name} read snapshot and labels {newest} after {self._newest}"
            )
        self._newest = max(newest, self._newest)


def edge_batch(
    record: Record, rng: random.Random, n_rows: int, *, key: str | None = None
) -> EdgeBatch:
    """Edges between nodes of one community, one in ten between any."""
    number = record.next_number()
    src = [rng.randrange(N_NODES) for _ in range(n_rows)]
    step = [
        rng.randrange(1, N_NODES) if rng.random() < 0.1 else 3 * rng.randint(1, 60) for _ in src
    ]
    dst = [(u + each) % N_NODES for u, each in zip(src, step, strict=True)]
    batch = EdgeBatch(
        number=number, src=[f"n{u}" for u in src], dst=[f"n{v}" for v in dst], key=key
    )
    if number % 4 == 0:
        batch.dst[-1] = f"new-{number}"
    return batch


def first_edges(record: Record) -> EdgeBatch:
    """A ring through each community, and one edge between each two."""
    u = [*range(N_NODES), 0, 1, 2]
    v = [(each + 3) % N_NODES for each in range(N_NODES)] + [1, 2, 0]
    return EdgeBatch(
        number=record.next_number(),
        src=[f"n{each}" for each in u],
        dst=[f"n{each}" for each in v],
        key="first",
    )


def read_edges(path: str) -> pa.Table:
    """Columns src, dst and weight of a file that was dropped, exported or pushed."""
    if not path.endswith(f".{Exporter.suffix}"):
        return pq.read_table(path)
    table = pa.csv.read_csv(path).select(list(EXPORTED.values()))
    return table.rename_columns(list(EXPORTED))


def csv_body(batch: EdgeBatch) -> bytes:
    """The edges as text."""
    rows = [f"{u},{v},{batch.weight!r}" for u, v in zip(batch.src, batch.dst, strict=True)]
    header = "src,dst,weight"
    if batch.deletes:
        header = f"{header},op"
        rows = [*(f"{row},delete" for row in rows[:-1]), f"{rows[-1]},set"]
    return "".join(f"{line}\n" for line in [header, *rows]).encode()


def parquet_bytes(batch: EdgeBatch, *, last_weight: float | None = None) -> bytes:
    """The edges as a file of several row groups."""
    weight = [batch.weight] * len(batch.src)
    if last_weight is not None:
        weight[-1] = last_weight
    sink = io.BytesIO()
    columns = {"src": batch.src, "dst": batch.dst, "weight": pa.array(weight, pa.float32())}
    pq.write_table(pa.table(columns), sink, row_group_size=200)
    return sink.getvalue()
