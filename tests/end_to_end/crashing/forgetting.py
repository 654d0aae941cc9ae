"""Clients by whom nodes are erased, who look whether anybody is shown them."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.end_to_end.crashing.forgotten import files_with
from tests.end_to_end.crashing.load import PATH, PAUSE_SECONDS, Pusher, parquet_bytes
from tests.end_to_end.crashing.record import (
    CLASSES,
    FORGETTABLE,
    N_NODES,
    AskedErasure,
    EdgeBatch,
    LabelBatch,
)

_JSON: Final = {"Content-Type": "application/json"}
_COMMITTED_SECONDS: Final = 20.0


class Forgetter(Pusher):
    """Brings nodes, has them erased, looks whether anybody sees them, and brings some again."""

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
        answer = self.call("PUT", f"{PATH}/labels?unknown=keep", content=body, headers=_JSON)
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
            answer = self.call("POST", f"{PATH}/erasures", content=body, headers=_JSON)
            if answer is None:
                self.must_stop.wait(PAUSE_SECONDS)
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
        deadline = time.monotonic() + _COMMITTED_SECONDS
        while time.monotonic() < deadline:
            if self.committed_file(str(file.path)) is not None:
                return True
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
        answer = self.call("POST", f"{PATH}/erasures", content=body, headers=_JSON)
        if answer is not None and self.expect(answer, 422, what="an erasure of what is no id"):
            self.record.retractions["erasures refused"] += 1

    def _look_for(self, nodes: list[str]) -> None:
        """Ask for nodes that nobody may be shown, in one of several ways."""
        nodes = [node for node in nodes if node in self.record.forgotten]
        if not nodes:
            return
        way = self.rng.randrange(6)
        if way == 0:
            answer = self.call("GET", f"{PATH}/predictions/node?id={nodes[0]}")
            if answer is not None:
                self.expect(answer, 404, what=f"the prediction of {nodes[0]}")
        elif way == 1:
            body = json.dumps({"nodes": [*nodes, "n0"]}).encode()
            answer = self.call("POST", f"{PATH}/predictions:lookup", content=body, headers=_JSON)
            if answer is not None and self.expect(answer, 200, what="a lookup"):
                told = answer.json()
                if told["unknown"] != nodes:
                    self.record.violate(f"a lookup of {nodes} tells {told}")
        elif way == 2:
            rows = [{"node": node, "label": CLASSES[0]} for node in nodes]
            body = json.dumps({"labels": rows}).encode()
            answer = self.call("PUT", f"{PATH}/labels", content=body, headers=_JSON)
            if answer is not None:
                self.expect(answer, 422, what=f"a label of {nodes}")
        else:
            path = self._table(way)
            answer = self.call("GET", path)
            if answer is not None and self.expect(answer, 200, 404, what=path):
                for node in nodes:
                    if node.encode() in answer.body:
                        self.record.violate(f"{path} shows {node}, which was erased")
        if answer is not None:
            self.record.n_seen_hidden += 1

    def _table(self, way: int) -> str:
        if way == 3:
            return f"{PATH}/labels?format=csv"
        if way == 4:
            return f"{PATH}/predictions?format=csv"
        answer = self.call("GET", PATH)
        number = None if answer is None else answer.json()["snapshot"]
        return f"{PATH}/snapshots/{number or 1}/edges?format=csv"

    def _look_at_erasures(self) -> None:
        """See which are done by now; then nothing may be left of their nodes."""
        for asked in list(self._asked):
            answer = self.call("GET", f"{PATH}/erasures/{asked.id}")
            if answer is None or not self.expect(answer, 200, what=f"erasure {asked.id}"):
                continue
            told = answer.json()
            if told["status"] != "erased":
                continue
            self._asked.remove(asked)
            asked.is_erased = True
            if not set(asked.holding) <= set(told["sources"]["holding"]):
                self.record.violate(f"erasure {asked.id} does not tell of {asked.holding}: {told}")
            again = {node for each in self._asked for node in each.nodes}  # may have come between
            if gone := [node for node in asked.nodes if node in self.record.forgotten - again]:
                self.record.n_searched += 1
                for path in files_with(self._home, gone):
                    self.record.violate(f"{path} has a node of erasure {asked.id}, which is done")
