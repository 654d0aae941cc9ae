"""Checkpoints of one graph's stream: the newest one and the last at a file boundary (clean).

A checkpoint is a directory published whole; ``current.json`` names both and is replaced in one
step, so that a process killed at any line resumes from a matching pair. What two checkpoints share
is written once and linked: records, embedding, and the list of absorbed files, which has the format
of node index segments. `settings_and_state` and `graph_stream` define what the numbers mean.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray
from peewit.streaming.durable_files import (
    link_file,
    naming,
    publish_directory,
    publish_json,
    remove_unfinished,
    write_flushed,
    write_json,
)
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.left_out import NO_ROWS, LeftOut
from peewit.streaming.nodes.segments import (
    CorruptSegment,
    list_segments,
    publish_ids,
    read_ids,
    truncate_ids,
)
from peewit.streaming.snapshots.record_segments import (
    ArrayIdentity,
    SavedRecords,
    read_records,
    write_records,
)
from peewit.streaming.sparsifier.merge_tree import united
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.runs import Runs
from peewit.streaming.sparsifier.settings_and_state import SparsifierState

_CARDS = "cards.npy"
_NODE_ARRAYS = ("surplus", "degree", "struck_variance", "lost", "peak", "torn")
"""Arrays that may be None, each in a file of its name."""

_ARRAYS = ("chunks", "cards", "runs", *_NODE_ARRAYS)
_COUNTERS = tuple(item.name for item in fields(SparsifierState) if item.name not in _ARRAYS)
_STORED_ROWS_SEEN = "n_edges"
"""What `SparsifierState.n_rows_seen` is called in a checkpoint."""
_FILE_TYPE = pa.large_string()  # one line of JSON for each absorbed file
_FORMAT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsorbedFile:
    """One file whose every part is in the sparsifier."""

    path: str
    version: str  # modification time or entity tag at the source
    digest: str  # of the whole content
    n_rows: int  # taken, those without an edge included
    left_out: LeftOut = NO_ROWS  # of these
    n_bad_rows: int = 0  # left out because they break a rule
    columns: EdgeColumns = PLAIN
    max_bad_rows: int = 0  # most rows that could be left out
    has_removals: bool = False  # rows deleted edges of other files, or set their weights
    last_bucket: int | None = None  # of its edges, or of others' that it deletes; window only
    relations: tuple[str, ...] = ("",)  # of its edges

    def lives(self, horizon: int) -> bool:
        """Whether edges of it may live in a graph whose window begins at bucket ``horizon``."""
        return self.last_bucket is None or self.last_bucket >= horizon

    @property
    def edges_key(self) -> str:
        """Key of its edges among those of all files: the content, and how that was read."""
        if self.columns == PLAIN and not self.max_bad_rows:
            return self.digest
        reading = json.dumps([self.columns.reading, self.max_bad_rows])
        return f"{self.digest}-{hashlib.sha256(reading.encode()).hexdigest()[:16]}"


def living(files: Sequence[AbsorbedFile], horizon: int, relation: str = "") -> list[str]:
    """Digests of the files of which edges of a relation may live, in order."""
    return [file.digest for file in files if relation in file.relations and file.lives(horizon)]


class FilesMovedOn(ValueError):
    """Files of a snapshot were retracted or replaced since; others may have come in their place."""


def digest_of_files(files: Sequence[AbsorbedFile]) -> str:
    """Digest of files in their order, by which a snapshot knows its own."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.edges_key.encode() + b"\n")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePosition:
    """A file of which only the first parts are in the sparsifier.

    Part numbers mean nothing without ``part_rows`` and ``cutting``. ``arrived`` is when the file
    was listed or pushed, ``reached`` the latest time of its rows so far in graphs with a window:
    both in microseconds since 1970, `NEVER` where unknown.
    """

    path: str
    digest: str
    part_rows: int  # most rows of a part
    next_part: int  # first one that is not absorbed
    left_out_before: LeftOut  # of the stream before the file
    cutting: int = 1  # how files are cut into parts, see `parts.CUTTING`
    removals_before: int = 0  # pairs that rows removed, of the stream before the file
    reading: str | None = None  # how rows are read; None in checkpoints that do not say
    arrived: int = NEVER
    reached: int = NEVER


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """All that a resumed stream needs; ``states`` by the names of the relations, in their order."""

    states: Mapping[str, SparsifierState]
    n_nodes: int  # length of the node index
    files: tuple[AbsorbedFile, ...] = ()  # absorbed, in order
    position: FilePosition | None = None  # in the half-absorbed file; None if clean
    n_removed_files: int = 0  # how often a file was retracted or replaced

    @property
    def is_clean(self) -> bool:
        """Whether the checkpoint lies at a file boundary."""
        return self.position is None

    @property
    def state(self) -> SparsifierState:
        """The state of all relations together, see `united`."""
        return united(list(self.states.values()))


EMPTY = Checkpoint(states={"": SparsifierState()}, n_nodes=0)
"""The checkpoint of a graph that has seen nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SavedState:
    """What a directory holds of one relation's state, for the next checkpoint to link."""

    directory: Path
    records: SavedRecords = field(default_factory=SavedRecords)
    cards: ArrayIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _CheckpointContent:
    """Content of a checkpoint on disk, for the next one to link; no name before the first one."""

    name: str | None = None
    states: tuple["_SavedState", ...] = ()
    files: tuple[AbsorbedFile, ...] = ()


class CheckpointStore:
    """Keeps the newest and the clean checkpoint of one graph in a directory.

    One process writes; others may call `n_nodes`, `n_clean_nodes` and `first_files` meanwhile.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._pointer = directory / "current.json"
        self._on_disk = _CheckpointContent()

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

    def n_nodes(self) -> int:
        """Length of the node index at the newest checkpoint, without loading the rest."""
        name = self._names()["newest"]
        return 0 if name is None else int(self._meta(name)["n_nodes"])

    def digest(self) -> str:
        """Digest of what the checkpoints say of themselves, which every change changes."""
        names = self._names()
        said = [name and self._meta(name) for name in names.values()]
        return hashlib.sha256(json.dumps([names, said]).encode()).hexdigest()

    def rename_files(self, renamed: Callable[[str], str]) -> None:
        """Change the paths of the files in the checkpoints, as when the graph has moved.

        Changed in place: for a copy that nobody reads yet. ``renamed`` maps a path to the new one.
        """
        for name in {name for name in self._names().values() if name is not None}:
            directory, meta = self._directory / name, self._meta(name)
            files = tuple(
                replace(file, path=renamed(file.path))
                for file in _read_files(directory, meta["n_files"])
            )
            for segment in list_segments(directory):
                segment.path.unlink()
            _write_files(directory, files, self._directory, ())
            if meta["position"]:
                meta["position"]["path"] = renamed(meta["position"]["path"])
                publish_json(directory / "meta.json", meta)

    def first_files(self, n_files: int, digest: str | None = None) -> tuple[AbsorbedFile, ...]:
        """Return the first absorbed files of the clean checkpoint, without loading the rest.

        Looks again when the writer replaces the checkpoint meanwhile. Their `digest_of_files` must
        be ``digest``; without one they count as those of a snapshot while no file was ever removed.
        Raises `FilesMovedOn` where they are other files, ValueError where fewer are there, as when
        the graph's state was lost.
        """
        while True:
            name = self._names()["clean"]
            try:
                meta = {"n_files": 0, "n_removed_files": 0} if name is None else self._meta(name)
                n_known, n_removed = int(meta["n_files"]), int(meta["n_removed_files"])
                files: tuple[AbsorbedFile, ...] = ()
                if name is not None and n_files <= n_known:
                    files = _read_files(self._directory / name, n_files)
            except (OSError, ValueError, CorruptSegment):
                if self._names()["clean"] == name:
                    raise
                continue
            is_there = n_files <= n_known
            if is_there and (digest_of_files(files) == digest if digest else not n_removed):
                return files
            if is_there or n_removed:
                raise FilesMovedOn("of files that are all in the graph; some were retracted since")
            raise ValueError(
                f"the checkpoint must know the first {n_files} files of the graph, "
                f"it knows {n_known}"
            )

    def clear(self) -> None:
        """Remove what a killed process left unfinished or behind; for the writer, before it begins.

        Raises ValueError where the checkpoints have a format of another version.
        """
        remove_unfinished(self._directory)
        self._retire(self._names())

    def save(
        self,
        checkpoint: Checkpoint,
        *,
        guard: Callable[[], None] = lambda: None,
        on_flushed: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish a checkpoint as the newest, and as the clean one when it is clean.

        Takes the time and room of what is not in the checkpoint saved or loaded last. Arrays are
        compared by identity with those saved before, so nobody may change them. ``guard`` is called
        when all is written and nothing yet changed; if it raises, nothing changes. ``on_flushed``
        is called whenever some of it has reached the disk. An OSError names the file that cannot be
        written, and the checkpoints before stay.
        """
        remove_unfinished(self._directory)
        names = self._names()
        name = f"{self._last_number() + 1:012d}"
        linkable = self._on_disk if self._on_disk.name in names.values() else _CheckpointContent()
        with publish_directory(self._directory / name, on_flushed=on_flushed) as directory:
            on_disk = self._write(checkpoint, directory, name, linkable, on_flushed)
        guard()  # a process that slept while it wrote must not overwrite its successor's state
        self._point(newest=name, clean=name if checkpoint.is_clean else names["clean"])
        self._on_disk = on_disk

    def return_to_clean(self) -> Checkpoint:
        """Drop the newest checkpoint in favor of the clean one, and return that."""
        clean = self._names()["clean"]
        self._point(newest=clean, clean=clean)
        return self._load(clean)

    def _point(self, *, newest: str | None, clean: str | None) -> None:
        publish_json(self._pointer, {"format": _FORMAT, "newest": newest, "clean": clean})
        self._retire({"newest": newest, "clean": clean})

    def _retire(self, names: dict[str, str | None]) -> None:
        for entry in self._directory.iterdir():
            if entry.is_dir() and entry.name not in names.values():
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
            self._on_disk = _CheckpointContent()
            return EMPTY
        directory = self._directory / name
        meta = self._meta(name)
        files = _read_files(directory, meta["n_files"])
        states, saved = {}, []
        for number, relation in enumerate(meta.get("relations", [""])):
            states[relation], held = _read_state(_state_directory(directory, number))
            saved.append(held)
        self._on_disk = _CheckpointContent(name=name, states=tuple(saved), files=files)
        return Checkpoint(
            states=states,
            n_nodes=meta["n_nodes"],
            files=files,
            position=_position(meta["position"]) if meta["position"] else None,
            n_removed_files=meta["n_removed_files"],
        )

    def _write(
        self,
        checkpoint: Checkpoint,
        directory: Path,
        name: str,
        linkable: _CheckpointContent,
        on_flushed: Callable[[], None],
    ) -> _CheckpointContent:
        """Fill the directory of a checkpoint, linking what is on disk already."""
        before = self._directory / (linkable.name or "")
        position = checkpoint.position
        meta: dict[str, Any] = {
            "n_nodes": checkpoint.n_nodes,
            "n_files": len(checkpoint.files),
            "n_removed_files": checkpoint.n_removed_files,
            "position": None if position is None else asdict(position),
        }
        if list(checkpoint.states) != [""]:
            meta["relations"] = list(checkpoint.states)
        saved = []
        for number, state in enumerate(checkpoint.states.values()):
            own = _state_directory(directory, number)
            own.mkdir(exist_ok=True)
            nothing = _SavedState(directory=before)
            held = linkable.states[number] if number < len(linkable.states) else nothing
            written, described = _write_state(state, own, held, on_flushed)
            saved.append(
                replace(written, directory=_state_directory(self._directory / name, number))
            )
            write_json(own / "meta.json", described if number else meta | described)
        _write_files(directory, checkpoint.files, before, linkable.files)
        return _CheckpointContent(name=name, states=tuple(saved), files=checkpoint.files)


def _state_directory(directory: Path, number: int) -> Path:
    """Where a checkpoint keeps the state of a relation: the first one beside the rest."""
    return directory / f"relation-{number}" if number else directory


def _read_state(directory: Path) -> tuple[SparsifierState, _SavedState]:
    """The state in a directory, and what the next checkpoint may link of it."""
    meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
    chunks, records = read_records(directory, [(start, stop) for start, stop in meta["records"]])
    array = np.load(directory / _CARDS, allow_pickle=False)
    arrays = {
        name: np.load(directory / f"{name}.npy", allow_pickle=False) for name in meta["arrays"]
    }
    runs = meta["runs"]
    cards = NodeCards.restored(array, meta["scale"], meta["total_degree"])
    counters: dict[str, Any] = {
        item: math.inf if value is None else value for item, value in meta["counters"].items()
    }
    counters["left_out"] = LeftOut(**counters["left_out"])
    counters["n_rows_seen"] = counters.pop(_STORED_ROWS_SEEN)
    state = SparsifierState(
        chunks=chunks,
        cards=cards,
        runs=None if runs is None else Runs.of(runs["keys"], runs["counts"], runs.get("buckets")),
        **arrays,
        **counters,
    )
    cards_held = ArrayIdentity([cards.array])
    return state, _SavedState(directory=directory, records=records, cards=cards_held)


def _write_state(
    state: SparsifierState, directory: Path, before: _SavedState, on_flushed: Callable[[], None]
) -> tuple[_SavedState, dict[str, Any]]:
    """Write a state, linking what ``before`` holds; what is held now, and its description."""
    records = write_records(
        directory,
        state.chunks,
        before=before.directory,
        saved=before.records,
        on_flushed=on_flushed,
    )
    array, path = state.cards.array, directory / _CARDS
    if before.cards is not None and before.cards.is_of([array]):
        link_file(before.directory / path.name, path)
    else:
        _write_array(path, array, on_flushed)
    arrays = {name: getattr(state, name) for name in _NODE_ARRAYS}
    held = {name: content for name, content in arrays.items() if content is not None}
    for item, values in held.items():
        _write_array(directory / f"{item}.npy", values, on_flushed)
    counters = {item: getattr(state, item) for item in _COUNTERS}
    counters[_STORED_ROWS_SEEN] = counters.pop("n_rows_seen")
    described = {
        "scale": state.cards.scale,
        "arrays": list(held),
        "runs": state.runs and state.runs.stored,
        "total_degree": state.cards.total_degree,
        "records": records.bounds,
        # JSON has no infinity: null stands for it.
        "counters": {item: None if value == math.inf else value for item, value in counters.items()}
        | {"left_out": asdict(state.left_out)},
    }
    saved = _SavedState(directory=directory, records=records, cards=ArrayIdentity([array]))
    return saved, described


def _write_array(path: Path, array: AnyArray, on_flushed: Callable[[], None]) -> None:
    """Write as numpy.save does, which would not say why a write failed."""
    values = np.ascontiguousarray(array)
    with naming(path), path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(values)
        np.lib.format.write_array_header_1_0(file, header)
        write_flushed(file, values.reshape(-1).data, on_flushed)


def _write_files(
    directory: Path, files: tuple[AbsorbedFile, ...], before: Path, known: tuple[AbsorbedFile, ...]
) -> None:
    """Keep the list of files as segments, linking those of ``before``, which hold ``known``."""
    for segment in list_segments(before) if known else ():
        link_file(segment.path, directory / segment.path.name)
    n_common = _n_common(files, known)
    if n_common < len(known):
        truncate_ids(directory, _FILE_TYPE, n_common)
    if n_common < len(files):
        lines = [json.dumps(asdict(file)) for file in files[n_common:]]
        published = read_ids(directory, _FILE_TYPE, start=0, stop=n_common, verify=False)
        publish_ids(directory, pa.array(lines, _FILE_TYPE), start=n_common, published=published)


def _n_common(files: tuple[AbsorbedFile, ...], known: tuple[AbsorbedFile, ...]) -> int:
    """Length of the longest common prefix; at once where one is a prefix of the other."""
    shorter = min(len(files), len(known))
    if files[:shorter] == known[:shorter]:
        return shorter
    return next(row for row in range(shorter) if files[row] != known[row])


def _read_files(directory: Path, n_files: int) -> tuple[AbsorbedFile, ...]:
    segments = read_ids(directory, _FILE_TYPE, start=0, stop=n_files, verify=True)
    return tuple(
        _absorbed_file(json.loads(line)) for segment in segments for line in segment.ids.to_pylist()
    )


def _absorbed_file(stored: dict[str, Any]) -> AbsorbedFile:
    columns, left_out = EdgeColumns(**stored.pop("columns")), LeftOut(**stored.pop("left_out"))
    relations = tuple(stored.pop("relations", ("",)))
    return AbsorbedFile(columns=columns, left_out=left_out, relations=relations, **stored)


def _position(stored: dict[str, Any]) -> FilePosition:
    return FilePosition(left_out_before=LeftOut(**stored.pop("left_out_before")), **stored)
