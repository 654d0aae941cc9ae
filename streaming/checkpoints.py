"""Checkpoints of one graph's stream: the newest one and the last at a file boundary (clean).

A checkpoint is a directory published whole; ``current.json`` names both and is replaced in one
step, so that a process killed at any line resumes from a matching pair. What the numbers mean is
``records``' and ``pipeline``'s business.
"""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.cards import NodeCards
from streaming.durable import publish_directory, publish_json, remove_unfinished
from streaming.records import Records, SparsifierState

_RECORD_ARRAYS = tuple(item.name for item in fields(Records))
_EMBEDDING = "cards"
_COUNTERS = tuple(
    item.name for item in fields(SparsifierState) if item.name not in ("chunks", _EMBEDDING)
)
_FILE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("version", pa.string()),
        ("digest", pa.string()),
        ("n_rows", pa.int64()),
        ("n_self_loops", pa.int64()),
    ]
)
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsorbedFile:
    """One file whose every part is in the sparsifier.

    Attributes
    ----------
    path, version : str
        Where it came from, and its modification time or entity tag there.
    digest : str
        Digest of the whole content.
    n_rows, n_self_loops : int
        Rows it held, and those of them dropped as self-loops.
    """

    path: str
    version: str
    digest: str
    n_rows: int
    n_self_loops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePosition:
    """A file of which only the first parts are in the sparsifier.

    Attributes
    ----------
    path, digest : str
        The file and its content.
    part_rows : int
        Most rows of a part; part numbers mean nothing without it.
    next_part : int
        Number of the first part that is not absorbed.
    self_loops_before : int
        Self-loops of the stream before the file.
    """

    path: str
    digest: str
    part_rows: int
    next_part: int
    self_loops_before: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """All that a resumed stream needs.

    Attributes
    ----------
    state : SparsifierState
        Records, embedding and counters.
    n_nodes : int
        Length of the node index.
    files : tuple of AbsorbedFile
        Absorbed files, in order.
    position : FilePosition or None
        The file in hand; None at a file boundary (clean).
    """

    state: SparsifierState
    n_nodes: int
    files: tuple[AbsorbedFile, ...] = ()
    position: FilePosition | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the checkpoint lies at a file boundary."""
        return self.position is None


EMPTY = Checkpoint(state=SparsifierState(), n_nodes=0)
"""The checkpoint of a graph that has seen nothing."""


class CheckpointStore:
    """Keeps the newest and the clean checkpoint of one graph in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._pointer = directory / "current.json"

    def newest(self) -> Checkpoint:
        """Return the newest checkpoint; ``EMPTY`` where there is none."""
        return self._load(self._names()["newest"])

    def clean(self) -> Checkpoint:
        """Return the last checkpoint at a file boundary; ``EMPTY`` where there is none."""
        return self._load(self._names()["clean"])

    def n_clean_nodes(self) -> int:
        """Length of the node index at the clean checkpoint, without loading the rest."""
        name = self._names()["clean"]
        return 0 if name is None else int(self._meta(name)["n_nodes"])

    def save(self, checkpoint: Checkpoint, *, guard: Callable[[], None] = lambda: None) -> None:
        """Publish a checkpoint as the newest, and as the clean one when it is clean.

        ``guard`` is called when all is written and nothing yet changed; if it raises, nothing does.
        """
        remove_unfinished(self._directory)
        names = self._names()
        name = f"{self._last_number() + 1:012d}"
        with publish_directory(self._directory / name) as directory:
            _write(checkpoint, directory)
        guard()  # a process that slept while it wrote must not overwrite its successor's state
        self._point(newest=name, clean=name if checkpoint.is_clean else names["clean"])

    def return_to_clean(self) -> Checkpoint:
        """Forget the newest checkpoint in favor of the clean one, and return that."""
        clean = self._names()["clean"]
        self._point(newest=clean, clean=clean)
        return self._load(clean)

    def _point(self, *, newest: str | None, clean: str | None) -> None:
        publish_json(self._pointer, {"format": _FORMAT, "newest": newest, "clean": clean})
        for entry in self._directory.iterdir():
            if entry.is_dir() and entry.name not in (newest, clean):
                shutil.rmtree(entry)

    def _names(self) -> dict[str, str | None]:
        if not self._pointer.exists():
            return {"newest": None, "clean": None}
        names: dict[str, Any] = json.loads(self._pointer.read_text(encoding="utf-8"))
        if names["format"] != _FORMAT:
            raise ValueError(
                f"{self._pointer} has format {names['format']}, this version reads {_FORMAT}"
            )
        return {"newest": names["newest"], "clean": names["clean"]}

    def _last_number(self) -> int:
        numbers = [int(entry.name) for entry in self._directory.iterdir() if entry.name.isdigit()]
        return max(numbers, default=0)

    def _meta(self, name: str) -> dict[str, Any]:
        meta: dict[str, Any] = json.loads(
            (self._directory / name / "meta.json").read_text(encoding="utf-8")
        )
        return meta

    def _load(self, name: str | None) -> Checkpoint:
        if name is None:
            return EMPTY
        directory = self._directory / name
        meta = self._meta(name)
        arrays = {
            item: np.load(directory / f"{item}.npy", allow_pickle=False)
            for item in (*_RECORD_ARRAYS, _EMBEDDING)
        }
        records = Records(**{item: arrays[item] for item in _RECORD_ARRAYS})
        counters: dict[str, Any] = {
            item: math.inf if value is None else value for item, value in meta["counters"].items()
        }
        return Checkpoint(
            state=SparsifierState(
                chunks=(records,) if records.n_records else (),
                cards=NodeCards.restored(arrays[_EMBEDDING], meta["scale"]),
                **counters,
            ),
            n_nodes=meta["n_nodes"],
            files=_read_files(directory / "files.arrow"),
            position=FilePosition(**meta["position"]) if meta["position"] else None,
        )


def _write(checkpoint: Checkpoint, directory: Path) -> None:
    state = checkpoint.state
    records = state.records
    for item in _RECORD_ARRAYS:
        np.save(directory / f"{item}.npy", getattr(records, item), allow_pickle=False)
    np.save(directory / f"{_EMBEDDING}.npy", state.cards.array, allow_pickle=False)
    _write_files(directory / "files.arrow", checkpoint.files)
    position = checkpoint.position
    counters = {item: getattr(state, item) for item in _COUNTERS}
    meta = {
        "n_nodes": checkpoint.n_nodes,
        "scale": state.cards.scale,
        "position": None if position is None else asdict(position),
        # JSON has no infinity: null stands for it.
        "counters": {
            item: None if value == math.inf else value for item, value in counters.items()
        },
    }
    (directory / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def _write_files(path: Path, files: tuple[AbsorbedFile, ...]) -> None:
    table = pa.Table.from_pylist([asdict(file) for file in files], schema=_FILE_SCHEMA)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _FILE_SCHEMA) as writer:
        writer.write_table(table)


def _read_files(path: Path) -> tuple[AbsorbedFile, ...]:
    with pa.OSFile(str(path), "rb") as source:
        table = pa.ipc.open_file(source).read_all()
    return tuple(AbsorbedFile(**row) for row in table.to_pylist())
