"""Commitment: which files are in the graph, and the checkpoints that keep them there.

A file counts once it is absorbed whole; it is in the graph for good once a checkpoint at a file
boundary (clean) has it. Within a file, the position says how many of its parts a checkpoint holds.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

from peewit.streaming.edges.change_rules import ParallelEdges
from peewit.streaming.edges.parts import CUTTING, EdgeFile, StagedFile, content_of
from peewit.streaming.edges.windows import Window
from peewit.streaming.nodes.index import Nodes
from peewit.streaming.snapshots.checkpoints import (
    AbsorbedFile,
    Checkpoint,
    CheckpointStore,
    FilePosition,
)
from peewit.streaming.sparsifier.settings_and_state import SparsifierState
from peewit.streaming.steps import Steps

_LEAST_INTERVAL: Final = 20.0
"""Least time between checkpoints before long work, as a multiple of the time that one takes."""


class Commitment:
    """Files of a graph, and its checkpoints.

    ``checkpoints`` is cleared, ``newest`` the one to begin with. A checkpoint is due when the last
    one is older than ``checkpoint_seconds``. ``guard`` is called before every change on disk; it
    raises where this process may no longer write.
    """

    position: FilePosition | None  # absorbed parts of the file in hand; None between files
    is_dirty: bool  # whether the state between files differs from the clean checkpoint
    n_removed_files: int  # how often a file was retracted or replaced

    def __init__(
        self,
        checkpoints: CheckpointStore,
        newest: Checkpoint,
        *,
        part_rows: int,
        parallel_edges: ParallelEdges,
        window: Window | None,
        checkpoint_seconds: float,
        guard: Callable[[], None],
        steps: Steps,
        clock: Callable[[], float],
    ) -> None:
        self._checkpoints = checkpoints
        self._part_rows = part_rows
        self._parallel_edges = parallel_edges
        self._window = window
        self._checkpoint_seconds = checkpoint_seconds
        self._guard = guard
        self._steps = steps
        self._clock = clock
        self._reported: set[tuple[str, str]] = set()
        self._adopt(newest)
        self.is_dirty = not newest.is_clean
        self._checkpoint_time = clock()
        self._save_seconds = 0.0

    def _adopt(self, checkpoint: Checkpoint) -> None:
        self.position = checkpoint.position
        self.is_dirty = False
        self.n_removed_files = checkpoint.n_removed_files
        self._unreported: list[AbsorbedFile] = []
        self._by_path = {file.path: file for file in checkpoint.files}
        self._path_of: dict[str, str] = {}  # by digest, and by that of the content alone
        for file in checkpoint.files:
            self._note_content(file)

    @property
    def files(self) -> tuple[AbsorbedFile, ...]:
        """Absorbed files, in order."""
        return tuple(self._by_path.values())

    def has(self, file: EdgeFile) -> bool:
        """Whether this version of a file is absorbed."""
        absorbed = self._by_path.get(file.path)
        return absorbed is not None and absorbed.version == file.version

    def _note_content(self, file: AbsorbedFile) -> None:
        self._path_of[file.digest] = file.path
        self._path_of.setdefault(content_of(file.digest), file.path)

    def path_of(self, digest: str) -> str | None:
        """Path of an absorbed file with that content, or of the one that was meant again."""
        return self._path_of.get(digest)

    def is_current(self, file: EdgeFile) -> bool:
        """Whether it is the half-absorbed file."""
        return self.position is not None and self.position.path == file.path

    def is_continued(self, staged: StagedFile) -> bool:
        """Whether the parts that the position counts are those of the staged file."""
        if self.position is None:
            return True
        if self.position.reading not in {None, self._reading(staged)}:
            return False
        if self.position.digest not in staged.digests:
            return False
        return (self.position.part_rows, self.position.cutting) == (self._part_rows, CUTTING)

    def _reading(self, staged: StagedFile) -> str:
        file = staged.file
        reading = [file.columns.reading, file.max_bad_rows, self._parallel_edges]
        return json.dumps(reading if self._window is None else [*reading, asdict(self._window)])

    def start(self, staged: StagedFile, state: SparsifierState, *, arrived: int) -> FilePosition:
        """Where to go on in a file: the position, or the first part of a file that is new."""
        return self.position or FilePosition(
            path=staged.file.path,
            digest=staged.digest,
            part_rows=self._part_rows,
            next_part=0,
            left_out_before=state.left_out,
            removals_before=state.n_removals,
            cutting=CUTTING,
            reading=self._reading(staged),
            arrived=arrived,
        )

    def finish(self, file: AbsorbedFile, *, earlier: AbsorbedFile | None) -> None:
        """Count a file as absorbed, in place of an earlier one."""
        if earlier is not None:
            self.remove(earlier)
        self._by_path[file.path] = file
        self._note_content(file)
        self._unreported.append(file)
        self.position = None
        self.is_dirty = True

    def file_of(self, path: str) -> AbsorbedFile | None:
        """The absorbed file of a path."""
        return self._by_path.get(path)

    def earlier_than(self, file: EdgeFile) -> AbsorbedFile | None:
        """The absorbed file of the same path, or else one that this file replaces."""
        earlier = self._by_path.get(file.path)
        if earlier is not None or not file.replaces_siblings:
            return earlier
        return next((other for other in self.files if file.takes_place_of(other.path)), None)

    def remove(self, file: AbsorbedFile) -> None:
        """Count a file as never absorbed."""
        del self._by_path[file.path]
        for digest in {file.digest, content_of(file.digest)}:
            if self._path_of.get(digest) == file.path:
                del self._path_of[digest]
        self.n_removed_files += 1
        self.is_dirty = True

    def begin_run(self) -> None:
        """Forget which files were reported, so that every one is reported again."""
        self._reported.clear()
        self._unreported.clear()

    def begin_pass(self) -> None:
        """Forget which files wait to be reported; the pass will meet them again."""
        self._unreported.clear()

    def report(self, file: EdgeFile) -> None:
        """Queue an absorbed file to be reported, unless it was in this run."""
        if (file.path, file.version) not in self._reported:
            self._unreported.append(self._by_path[file.path])

    def take_unreported(self) -> tuple[AbsorbedFile, ...]:
        """Files to report now, which are durable by now."""
        files = tuple(self._unreported)
        self._unreported.clear()
        self._reported.update((file.path, file.version) for file in files)
        return files

    def is_due(self, *, before_long_work: bool = False) -> bool:
        """Whether the last checkpoint is old; before long work, unless it would cost too much."""
        age = self._clock() - self._checkpoint_time
        enough = _LEAST_INTERVAL * self._save_seconds if before_long_work else math.inf
        return age >= min(self._checkpoint_seconds, enough)

    def save(self, states: Mapping[str, SparsifierState], nodes: Nodes) -> None:
        """Publish the nodes, then a checkpoint that counts them."""
        self._guard()
        self._steps.begin("writing a checkpoint")
        started = self._clock()
        nodes.publish()
        self._checkpoints.save(
            Checkpoint(
                states=states,
                n_nodes=nodes.n_nodes,
                files=self.files,
                position=self.position,
                n_removed_files=self.n_removed_files,
            ),
            guard=self._guard,
            on_flushed=self._steps.move_on,
        )
        self._checkpoint_time = self._clock()
        self._save_seconds = self._checkpoint_time - started
        if self.position is None:
            self.is_dirty = False

    def return_to_clean(self, nodes: Nodes) -> Mapping[str, SparsifierState]:
        """Forget all since the clean checkpoint, and the nodes since; returns its states."""
        self._guard()
        clean = self._checkpoints.return_to_clean()
        nodes.truncate(clean.n_nodes)
        self._adopt(clean)
        return clean.states
