"""Clients by whom files and nodes leave the graph again: each tells what must be of them then."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.end_to_end.crashing.forgotten import files_with
from tests.end_to_end.crashing.load import (
    GRAPH,
    Client,
    Dropper,
    Pusher,
    edge_batch,
    parquet_bytes,
)
from tests.end_to_end.crashing.record import (
    CLASSES,
    FORGETTABLE,
    N_NODES,
    AskedErasure,
    EdgeBatch,
    LabelBatch,
)

_PATH = f"/v1/graphs/{GRAPH}"
_JSON = {"Content-Type": "application/json"}
_COMMITTED_SECONDS = 20.0


class Retractor(Client):
    """Retracts files of followed directories, takes some in again, and asks for what is refused."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._ids: dict[str, int] = {}
        self._pushed: list[int] = []
        self._last_id = 0

    def work(self, number: int) -> None:
        """One file."""
        if not self._look_at_manifest():
            return
        if number % 5 == 4:
            self._refused()
        elif number % 3 == 2:
            self._take_again()
        else:
            self._retract()

    def _look_at_manifest(self) -> bool:
        """Learn the ids of files that are new in the manifest; whether it was told."""
        answer = self.call("GET", f"{_PATH}/files?page={self._last_id}&limit=1000")
        if answer is None or not self.expect(answer, 200, what="the manifest"):
            return False
        for file in answer.json()["files"]:
            self._last_id = file["id"]
            if file["push_id"] is None:
                self._ids[file["path"]] = file["id"]
            else:
                self._pushed.append(file["id"])
        return True

    def _chosen(self, *fates: str) -> EdgeBatch | None:
        batches = [
            batch
            for batch in self.record.edge_batches
            if batch.path in self._ids and batch.fate in fates and not batch.is_version
        ]
        return self.rng.choice(batches) if batches else None

    def _retract(self) -> None:
        batch = self._chosen("committed")
        if batch is None:
            return
        for each in (batch, *batch.copies):  # copies go with it, unless they are yet to come
            each.fate = "unknown"
        answer = self.until_answered("DELETE", self._file(batch))
        if answer is not None and self.expect(answer, 200, 202, what=f"retracting {batch.path}"):
            batch.fate = "retracted"
            self.record.retractions["retracted"] += 1

    def _take_again(self) -> None:
        batch = self._chosen("retracted")
        if batch is None:
            return
        answer = self.until_answered("GET", self._file(batch))
        if answer is None or not self.expect(answer, 200, what=f"file {batch.path}"):
            return
        status = answer.json()["status"]
        if status not in {"retracting", "retracted"}:
            self.record.violate(f"file {batch.path} was retracted and is {status}")
        if status != "retracted" or batch.copies or batch.is_forgettable:
            return
        batch.fate = "unknown"
        answer = self.call("POST", f"{self._file(batch)}:retry")
        if answer is not None and self.expect(answer, 200, what=f"taking {batch.path} again"):
            batch.fate = "committed"
            self.record.retractions["taken again"] += 1

    def _refused(self) -> None:
        """A file of pushes, one that was refused, or one whose content came with another."""
        batch = self._chosen("quarantined", "duplicate")
        if batch is None or self.rng.random() < 0.3:
            path = f"{_PATH}/files/{self.rng.choice(self._pushed)}"
        else:
            path = self._file(batch)
            answer = self.until_answered("GET", path)
            if answer is None or answer.json()["status"] != batch.fate:
                return  # it waits
        answer = self.call("DELETE", path)
        if answer is None or (batch is not None and batch.fate == "unknown"):
            return
        if self.expect(answer, 409, what=f"retracting {path}"):
            self.record.retractions["refused"] += 1

    def _file(self, batch: EdgeBatch) -> str:
        return f"{_PATH}/files/{self._ids[str(batch.path)]}"


class Replacer(Dropper):
    """Writes new versions of few files, and retracts some between two versions."""

    n_files: ClassVar[int] = 6

    def __init__(self, *given: Any, inbox: Path) -> None:
        super().__init__(*given, inbox=inbox)
        self._newest: dict[Path, EdgeBatch] = {}

    def work(self, number: int) -> None:
        """A new version of one file, or its retraction."""
        path = self._inbox / f"{self.rng.randrange(self.n_files)}.parquet"
        if number % 4 == 3 and path in self._newest:
            self._retract(path)
        else:
            self._write(path)

    def _write(self, path: Path) -> None:
        earlier = self._newest.get(path)
        n_rows = self.rng.randint(20, 400)
        if earlier is not None and len(earlier.src) == n_rows:
            n_rows += 1  # by the number of rows we know which content ingest has met
        batch = edge_batch(self.record, self.rng, n_rows, key=None)
        batch.path, batch.is_version, batch.fate = str(path), True, "committed"
        if earlier is not None:
            earlier.fate = "retracted"
            self.record.retractions["replaced"] += 1
        self.put(path, batch, parquet_bytes(batch))
        self._newest[path] = batch

    def _retract(self, path: Path) -> None:
        batch, found = self._newest[path], None
        answer = self.call("GET", f"{_PATH}/files?status=committed&limit=1000")
        while answer is not None and self.expect(answer, 200, what="the manifest"):
            page = answer.json()
            found = next((each for each in page["files"] if each["path"] == str(path)), found)
            if page["next_page"] is None:
                break
            answer = self.call(
                "GET", f"{_PATH}/files?status=committed&limit=1000&page={page['next_page']}"
            )
        if found is None or found["n_rows"] != len(batch.src):
            return  # ingest has not met this version
        batch.fate = "unknown"
        answer = self.until_answered("DELETE", f"{_PATH}/files/{found['id']}")
        if answer is not None and self.expect(answer, 200, 202, what=f"retracting {path}"):
            batch.fate = "retracted"
            self.record.retractions["retracted"] += 1


class Forgetter(Pusher):
    """Brings nodes, has them erased, looks whether anybody sees them, and brings some again.

    Parameters
    ----------
    home, inbox : Path
        The home, which is searched for what should be nowhere; and a followed directory.
    """

    def __init__(self, *given: Any, home: Path, inbox: Path) -> None:
        super().__init__(*given)
        self._home = home
        self._inbox = inbox
        self._asked: list[AskedErasure] = []

    def work(self, number: int) -> None:
        """Two nodes, of which one or both are erased, some of them twice."""
        self._look_at_erasures()
        nodes = [f"{FORGETTABLE}{self.name}-{self.rng.getrandbits(64):016x}" for _ in range(2)]
        self._bring(nodes, number, "first")
        file = self._drop(nodes, number) if number % 4 == 1 else None
        if file is not None and not self._is_committed(file):
            return  # what it brings after an erasure would be a new node
        self._live(nodes, number)
        leaving = nodes if number % 3 == 0 else nodes[:1]
        self._erase(leaving, file)
        if number % 6 == 2:
            self._refused(nodes[1:])
        if number % 2 == 0:  # at once: before ingest has taken the erasure in hand
            self._look_for(leaving)
            self._bring_again(leaving, number)
        for _ in range(3):
            self._look_for(leaving)
            self.must_stop.wait(self.rng.uniform(0.0, 0.5))

    def _live(self, nodes: list[str], number: int) -> None:
        """What may happen to nodes before somebody asks: a label, deleted edges, more edges."""
        if self.rng.random() < 0.5:
            self.must_stop.wait(self.rng.uniform(0.0, 3.0))  # in the graph by then
        if self.rng.random() < 0.6:
            batch = LabelBatch(events=[(nodes[0], self.rng.choice(CLASSES))])
            self._put(batch)
        if self.rng.random() < 0.5:
            self._bring(nodes, number, "changes", deletes=True)
        if self.rng.random() < 0.5:
            self._bring(nodes, number, "more")

    def _bring(
        self, nodes: Sequence[str], number: int, what: str, *, deletes: bool = False
    ) -> EdgeBatch:
        batch = self._batch(nodes, key=f"{self.name}-{number}-{what}", deletes=deletes)
        self.push(batch)
        return batch

    def _batch(self, nodes: Sequence[str], *, key: str | None, deletes: bool = False) -> EdgeBatch:
        """Edges of the nodes with each other and others, and some without them."""
        ends = [f"n{each}" for each in self.rng.sample(range(N_NODES), 6)]
        pairs = [(node, self.rng.choice(ends)) for node in nodes for _ in range(3)]
        pairs += [(ends[0], ends[1]), (nodes[-1], nodes[0])] if len(nodes) > 1 else []
        self.rng.shuffle(pairs)
        return EdgeBatch(
            number=self.record.next_number(),
            src=[u for u, _ in pairs],
            dst=[v for _, v in pairs],
            key=key,
            deletes=deletes,
            is_forgettable=True,
        )

    def _drop(self, nodes: Sequence[str], number: int) -> EdgeBatch:
        """A file with the nodes, which ingest has taken in, if it does not take long."""
        batch = self._batch(nodes, key=None)
        path = self._inbox / f"{self.name}-{number}.parquet"
        batch.path, batch.fate = str(path), "committed"
        beside = self._inbox.with_name(f"{self.name}-{path.name}")
        beside.write_bytes(parquet_bytes(batch))
        self.record.edge_batches.append(batch)
        beside.rename(path)
        return batch

    def _put(self, batch: LabelBatch) -> None:
        self.record.label_batches.append(batch)
        ((node, label),) = batch.events
        body = json.dumps({"labels": [{"node": node, "label": label}]}).encode()
        answer = self.call("PUT", f"{_PATH}/labels?unknown=keep", content=body, headers=_JSON)
        if answer is not None and self.expect(answer, 200, what=f"labels {batch.events}"):
            told = answer.json()
            batch.labels_seq, batch.accepted = told["labels_seq"], told["accepted"]

    def _erase(self, nodes: list[str], file: EdgeBatch | None) -> None:
        named = [
            batch
            for batch in self.record.edge_batches
            if batch.is_forgettable and not {*batch.src, *batch.dst}.isdisjoint(nodes)
        ]
        labels = [batch for batch in self.record.label_batches if batch.events[0][0] in nodes]
        for batch in named:
            batch.erased = dict.fromkeys(nodes) | batch.erased
        for label in labels:
            label.is_erased = label.is_erased or None
        body = json.dumps({"nodes": nodes}).encode()
        answer = None
        while answer is None and not self.must_stop.is_set():
            self.record.n_erasures_sent += 1
            answer = self.call("POST", f"{_PATH}/erasures", content=body, headers=_JSON)
        if answer is None or not self.expect(answer, 202, what="an erasure"):
            return
        for batch in named:
            batch.erased |= dict.fromkeys(nodes, True)
        for label in labels:
            label.is_erased = True
        self.record.forgotten.update(nodes)
        holding = [] if file is None else [str(file.path)]
        asked = AskedErasure(id=answer.json()["id"], nodes=nodes, holding=holding)
        self.record.erasures.append(asked)
        self._asked.append(asked)

    def _is_committed(self, file: EdgeBatch) -> bool:
        """Whether a file is in the graph; waits a while for it."""
        for _ in range(int(_COMMITTED_SECONDS)):
            answer = self.call("GET", f"{_PATH}/files?limit=1000&status=committed")
            while answer is not None and answer.status == 200:
                page = answer.json()
                if any(each["path"] == file.path for each in page["files"]):
                    return True
                if page["next_page"] is None:
                    break
                following = f"{_PATH}/files?limit=1000&status=committed&page={page['next_page']}"
                answer = self.call("GET", following)
            if self.must_stop.wait(1.0):
                break
        return False

    def _bring_again(self, nodes: list[str], number: int) -> None:
        """Edges of nodes that were erased: new nodes of the same ids."""
        self.record.forgotten.difference_update(nodes)
        batch = self._bring(nodes, number, "again")
        if batch.push_id is None:
            return
        self.record.n_reborn += len(nodes)
        if number % 4 == 0:
            self.must_stop.wait(self.rng.uniform(0.0, 1.0))
            self._erase(nodes, None)

    def _refused(self, nodes: list[str]) -> None:
        """An erasure of a node that stays, which one bad id makes void."""
        body = json.dumps({"nodes": [*nodes, 3]}).encode()
        answer = self.call("POST", f"{_PATH}/erasures", content=body, headers=_JSON)
        if answer is not None and self.expect(answer, 422, what="an erasure of what is no id"):
            self.record.retractions["erasures refused"] += 1

    def _look_for(self, nodes: list[str]) -> None:
        """Ask for nodes that nobody may be shown, in one of several ways."""
        nodes = [node for node in nodes if node in self.record.forgotten]
        if not nodes:
            return
        way = self.rng.randrange(6)
        if way == 0:
            answer = self.call("GET", f"{_PATH}/predictions/node?id={nodes[0]}")
            if answer is not None:
                self.expect(answer, 404, what=f"the prediction of {nodes[0]}")
        elif way == 1:
            body = json.dumps({"nodes": [*nodes, "n0"]}).encode()
            answer = self.call("POST", f"{_PATH}/predictions:lookup", content=body, headers=_JSON)
            if answer is not None and self.expect(answer, 200, what="a lookup"):
                told = answer.json()
                if told["unknown"] != nodes:
                    self.record.violate(f"a lookup of {nodes} tells {told}")
        elif way == 2:
            rows = [{"node": node, "label": CLASSES[0]} for node in nodes]
            body = json.dumps({"labels": rows}).encode()
            answer = self.call("PUT", f"{_PATH}/labels", content=body, headers=_JSON)
            if answer is not None:
                self.expect(answer, 422, what=f"a label of {nodes}")
        else:
            answer = self.call("GET", self._table(way))
            if answer is not None and self.expect(answer, 200, 404, what="a table"):
                for node in nodes:
                    if node.encode() in answer.body:
                        self.record.violate(f"{self._table(way)} shows {node}, which was erased")
        if answer is not None:
            self.record.n_seen_hidden += 1

    def _table(self, way: int) -> str:
        if way == 3:
            return f"{_PATH}/labels?format=csv"
        if way == 4:
            return f"{_PATH}/predictions?format=csv"
        answer = self.call("GET", _PATH)
        number = None if answer is None else answer.json()["snapshot"]
        return f"{_PATH}/snapshots/{number or 1}/edges?format=csv"

    def _look_at_erasures(self) -> None:
        """See which are done by now; then nothing may be left of their nodes."""
        for asked in list(self._asked):
            answer = self.call("GET", f"{_PATH}/erasures/{asked.id}")
            if answer is None or not self.expect(answer, 200, what=f"erasure {asked.id}"):
                continue
            told = answer.json()
            if told["status"] != "erased":
                continue
            self._asked.remove(asked)
            asked.is_erased = True
            if not set(asked.holding) <= set(told["sources"]["holding"]):
                self.record.violate(f"erasure {asked.id} does not tell of {asked.holding}: {told}")
            if gone := [node for node in asked.nodes if node in self.record.forgotten]:
                self.record.n_searched += 1
                for path in files_with(self._home, gone):
                    self.record.violate(f"{path} has a node of erasure {asked.id}, which is done")
