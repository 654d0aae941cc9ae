"""Clients by whom files leave the graph again: each tells what must be of them then."""

from pathlib import Path
from typing import Any, ClassVar

from tests.end_to_end.crashing.load import PATH, Client, Dropper, edge_batch, parquet_bytes
from tests.end_to_end.crashing.record import EdgeBatch


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
        answer = self.call("GET", f"{PATH}/files?page={self._last_id}&limit=1000")
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
            path = f"{PATH}/files/{self.rng.choice(self._pushed)}"
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
        return f"{PATH}/files/{self._ids[str(batch.path)]}"


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
        batch, found = self._newest[path], self.committed_file(str(path))
        if found is None or found["n_rows"] != len(batch.src):
            return  # ingest has not met this version
        batch.fate = "unknown"
        answer = self.until_answered("DELETE", f"{PATH}/files/{found['id']}")
        if answer is not None and self.expect(answer, 200, 202, what=f"retracting {path}"):
            batch.fate = "retracted"
            self.record.retractions["retracted"] += 1
