"""Files that leave a stream again, against a dictionary; and what snapshots are made of."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.operations import INSERT, SET
from peewit.streaming.edges.parts import EdgeFile, FileUnreadable
from peewit.streaming.events import Committed, Duplicate, IngestEvent, Quarantined, Retracted
from peewit.streaming.events import Withheld as LeftOut
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import NotRetractable, Stream
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.passes.raw_edge_passes import RawEdgesMovedOn, snapshot_edges, snapshot_files
from peewit.streaming.snapshots.checkpoints import (
    AbsorbedFile,
    CheckpointStore,
    FilesMovedOn,
    digest_of_files,
)
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.steps import Step, Steps
from tests.streaming.test_changes import Crash, Twin, files_of, inserts, live_of, settings, table_of


def write(folder: Path, name: str, seed: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(table_of(inserts(seed), "string"), path, row_group_size=200)
    return path


def replacing(folder: Path) -> list[EdgeFile]:
    return [replace(file, replaces=True) for file in files_of(folder)]


def weights_of(seeds: set[int]) -> dict[frozenset[str], float]:
    twin = Twin("sum")
    for seed in seeds:
        twin.play(inserts(seed))
    return twin.weights


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_what_a_dictionary_of_files_holds(tmp_path: Path, seed: int) -> None:
    chosen = settings()
    rng = np.random.default_rng(seed)
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    events: list[IngestEvent] = []
    stream = Stream(paths, chosen, on_event=events.append)
    there: dict[str, int] = {}  # contents of the directory, by name
    for _ in range(30):
        match rng.choice(["write", "write", "retract", "reopen"]):
            case "write":
                name, content = str(rng.choice(list("abcd"))), int(rng.integers(0, 5))
                there[name] = content
                write(folder, name, content)
                stream.ingest(replacing(folder))
                stream.ingest(replacing(folder))  # what a replaced file shared with one before it
            case "retract":
                present = {Path(file.path).stem: file.path for file in stream.files}
                if not present:
                    continue
                name = str(rng.choice(sorted(present)))
                stream.retract(present[name])
                for copy in [each for each in there if there[each] == there[name] and each != name]:
                    del there[copy]  # the twin takes the content out wherever it lies
                    (folder / f"{copy}.parquet").unlink()
                del there[name]
                (folder / f"{name}.parquet").unlink()
            case _:
                stream = Stream(paths, chosen, on_event=events.append)
        if stream.files:
            assert live_of(paths, "string") == pytest.approx(weights_of(set(there.values())))
    told = Counter(type(event) for event in events)
    assert min(told[Duplicate], told[Retracted], told[Committed]) > 0
    assert told[Quarantined] == 0


def test_a_new_version_that_equals_another_file_takes_the_earlier_one_out(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    write(folder, "a", 0)
    write(folder, "b", 1)
    events: list[IngestEvent] = []
    stream = Stream(paths, settings(), on_event=events.append)
    stream.ingest(files_of(folder))
    (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes())
    stream.ingest(files_of(folder))
    (duplicate,) = (event for event in events if isinstance(event, Duplicate))
    assert duplicate.replaced is None  # nobody asked
    assert live_of(paths, "string") == pytest.approx(weights_of({0, 1}))
    stream.ingest(replacing(folder))
    _, duplicate = (event for event in events if isinstance(event, Duplicate))
    assert duplicate.replaced is not None
    assert Path(duplicate.replaced.path).stem == "b"
    assert live_of(paths, "string") == pytest.approx(weights_of({0}))
    assert len(Stream(paths, settings()).files) == 1
    # the same content under a newer time is the same file
    (folder / "a.parquet").touch()
    stream.ingest(replacing(folder))
    assert live_of(paths, "string") == pytest.approx(weights_of({0}))


def test_one_file_of_a_directory_is_in_the_graph_whatever_it_is_called(tmp_path: Path) -> None:
    paths = GraphPaths(root=tmp_path / "graph")
    others, made = tmp_path / "others", tmp_path / "made"
    events: list[IngestEvent] = []

    def ingest() -> set[str]:
        stream = Stream(paths, settings(), on_event=events.append)
        alone = [replace(file, replaces_siblings=True) for file in files_of(made)]
        stream.ingest([*files_of(others), *alone[-1:]])
        return {Path(file.path).stem for file in stream.files}

    write(others, "a", 0)
    write(made, "1", 1)
    assert ingest() == {"a", "1"}
    write(made, "2", 1)
    assert ingest() == {"a", "1"}
    assert [event.replaced for event in events if isinstance(event, Duplicate)] == [None]
    write(made, "3", 2)
    assert ingest() == {"a", "3"}
    assert live_of(paths, "string") == pytest.approx(weights_of({0, 2}))
    n_snapshots = len(SnapshotStore(paths.snapshots).list())
    (made / "4.parquet").write_bytes((others / "a.parquet").read_bytes())
    assert ingest() == {"a"}
    *_, duplicate = (event for event in events if isinstance(event, Duplicate))
    assert duplicate.has_replaced
    assert live_of(paths, "string") == pytest.approx(weights_of({0}))
    assert len(SnapshotStore(paths.snapshots).list()) == n_snapshots + 1


def test_a_content_that_is_withheld_stays_out_and_another_comes(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    path = write(folder, "a", 0)
    write(folder, "b", 1)
    events: list[IngestEvent] = []
    stream = Stream(paths, settings(), on_event=events.append)
    stream.ingest(files_of(folder))
    gone = stream.retract(str(path))
    events.clear()
    withheld = [
        replace(file, withheld=gone.digest if file.path == gone.path else None)
        for file in files_of(folder)
    ]
    stream.ingest(withheld)
    (left,) = (event for event in events if isinstance(event, LeftOut))
    assert (left.file.path, left.digest) == (gone.path, gone.digest)
    assert live_of(paths, "string") == pytest.approx(weights_of({1}))
    write(folder, "a", 2)
    stream.ingest([replace(file, withheld=gone.digest) for file in files_of(path)])
    assert live_of(paths, "string") == pytest.approx(weights_of({1, 2}))


@pytest.mark.parametrize("deletions", ["off", "exact"])
def test_a_file_that_is_meant_again_counts_by_itself_and_leaves_alone(
    tmp_path: Path, deletions: Deletions
) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    write(folder, "a", 0)
    events: list[IngestEvent] = []
    chosen = settings(deletions=deletions)
    stream = Stream(paths, chosen, on_event=events.append)
    stream.ingest(files_of(folder))
    copy, further = write(folder, "b", 0), write(folder, "c", 0)
    stream.ingest([replace(file, again=True) for file in files_of(copy)])
    twice = {pair: 2 * weight for pair, weight in weights_of({0}).items()}
    assert live_of(paths, "string") == pytest.approx(twice)
    copy.touch()
    stream = Stream(paths, chosen, on_event=events.append)
    stream.ingest(
        [replace(file, again=path == copy) for path in (copy, further) for file in files_of(path)]
    )
    told = [event for event in events if isinstance(event, Duplicate)]
    assert [Path(event.original).stem for event in told] == ["b", "a"]
    assert "again" not in told[0].reason
    assert "again" in told[1].reason
    stream.repair(everything=True)
    assert live_of(paths, "string") == pytest.approx(twice)
    if deletions == "exact":
        stream.retract(str(folder / "a.parquet"))
        assert live_of(paths, "string") == pytest.approx(weights_of({0}))
        stream.ingest([replace(file, again=True) for file in files_of(further)])
        assert live_of(paths, "string") == pytest.approx(twice)


def test_a_pass_ends_between_files_where_it_is_enough(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    for name, seed in (("a", 0), ("b", 1), ("c", 2)):
        write(folder, name, seed)
    stream = Stream(paths, settings())
    n_asked = 0

    def is_enough() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > 2

    stream.ingest(files_of(folder), is_enough=is_enough)
    assert [Path(file.path).stem for file in stream.files] == ["a", "b"]
    assert live_of(paths, "string") == pytest.approx(weights_of({0, 1}))
    stream.ingest(files_of(folder))
    assert live_of(paths, "string") == pytest.approx(weights_of({0, 1, 2}))


def test_several_files_leave_with_one_snapshot_and_those_that_stay_say_why(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    kept, rows = write(folder, "a", 0), [*inserts(0), ("n1", "n2", 2.0, SET)]
    pq.write_table(table_of(rows, "string"), kept)
    others = [write(folder, name, seed) for name, seed in (("b", 1), ("c", 2), ("d", 3))]
    events: list[IngestEvent] = []
    stream = Stream(paths, settings(), on_event=events.append)
    stream.ingest(files_of(folder))
    n_before = len(SnapshotStore(paths.snapshots).numbers())
    wanted = {str(path): False for path in (others[0], kept, others[2])}
    first, second, third = stream.retract_all(wanted)
    assert isinstance(second, NotRetractable)
    assert [each.path for each in (first, third) if isinstance(each, AbsorbedFile)] == [
        str(others[0]),
        str(others[2]),
    ]
    assert len(SnapshotStore(paths.snapshots).numbers()) == n_before + 1
    (retracted,) = (event for event in events if isinstance(event, Retracted))
    assert [file.path for file in retracted.files] == [str(others[0]), str(others[2])]
    twin = Twin("sum")
    twin.play(rows)
    twin.play(inserts(2))
    assert live_of(paths, "string") == pytest.approx(twin.weights)


class DyingSteps(Steps):
    """Dies when it is told of anything, which work is all the time."""

    def __init__(self, live: Callable[[], None]) -> None:
        self._live = live

    def begin(self, step: Step, path: str | None = None) -> None:
        self._live()

    def move_on(self) -> None:
        self._live()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["retract", "replace", "duplicate"])
def test_killed_anywhere_a_file_leaves_once_and_nothing_else_does(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "edges"
    for name, seed in (("a", 0), ("b", 1), ("c", 2)):
        write(folder, name, seed)
    path = folder / "b.parquet"
    chosen = settings(epsilon=0.95)
    base = tmp_path / "base"
    Stream(GraphPaths(root=base), chosen).ingest(files_of(folder))
    match how:
        case "replace":
            write(folder, "b", 7)
        case "duplicate":
            path.write_bytes((folder / "a.parquet").read_bytes())

    def act(stream: Stream) -> None:
        """What ingest does, as often as it must."""
        if how != "retract":
            stream.ingest(replacing(folder))
        elif not stream.is_between_files:
            raise AssertionError("half a file")
        elif any(file.path == str(path) for file in stream.files):
            stream.retract(str(path))
        else:
            stream.ingest([])

    unbroken = tmp_path / "unbroken"
    shutil.copytree(base, unbroken)
    act(Stream(GraphPaths(root=unbroken), chosen))
    expected = CheckpointStore(GraphPaths(root=unbroken).checkpoints).newest()
    snapshot = live_of(GraphPaths(root=unbroken), "string")
    for allowed in range(200):
        killed, n_told = GraphPaths(root=tmp_path / f"killed-{allowed}"), 0
        shutil.copytree(base, killed.root)

        def live(allowed: int = allowed) -> None:
            nonlocal n_told
            n_told += 1
            if n_told > allowed:
                raise Crash

        def told(_event: IngestEvent, live: Callable[[], None] = live) -> None:
            live()

        try:
            act(Stream(killed, chosen, steps=DyingSteps(live), guard=live, on_event=told))
        except (Crash, FileUnreadable):  # staging tells of any trouble so
            act(Stream(killed, chosen))
        else:
            break
        found = CheckpointStore(killed.checkpoints).newest()
        assert found.files == expected.files
        assert found.n_removed_files == expected.n_removed_files == 1
        for name in ("u", "v", "weight", "keep_probability", "key"):
            np.testing.assert_array_equal(
                getattr(found.state.records, name), getattr(expected.state.records, name)
            )
        assert live_of(killed, "string") == snapshot
        meta = SnapshotStore(killed.snapshots).list()[-1]
        assert snapshot_files(killed, meta) == found.files
        shutil.rmtree(killed.root)
    assert allowed > 5


def snapshots_of(stream: Stream, folder: Path, names: str) -> None:
    """A snapshot after each file."""
    for file in files_of(folder):
        if Path(file.path).stem in names:
            stream.ingest([file])


def test_snapshots_know_their_files_and_say_where_these_are_gone(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    for name, seed in (("a", 0), ("b", 1), ("c", 2)):
        write(folder, name, seed)
    stream = Stream(paths, settings())
    snapshots_of(stream, folder, "abc")
    store = SnapshotStore(paths.snapshots)
    first, second, third = (store.meta(number) for number in (1, 2, 3))
    assert [Path(file.path).stem for file in snapshot_files(paths, second)] == ["a", "b"]
    stream.retract(str(folder / "b.parquet"))
    fourth = store.meta(4)
    assert [Path(file.path).stem for file in snapshot_files(paths, first)] == ["a"]
    assert [Path(file.path).stem for file in snapshot_files(paths, fourth)] == ["a", "c"]
    for gone in (second, third):
        with pytest.raises(RawEdgesMovedOn, match="newest such snapshot is 4") as error:
            snapshot_files(paths, gone)
        assert (error.value.snapshot, error.value.newest) == (gone.number, 4)
    # as many files as snapshot 3 has, and others
    write(folder, "d", 3)
    snapshots_of(stream, folder, "d")
    assert store.meta(5).n_files == third.n_files
    with (
        pytest.raises(RawEdgesMovedOn),
        snapshot_edges(paths, third, spool=tmp_path / "spool", staging=paths.staging, n_threads=1),
    ):
        pass
    assert len(snapshot_files(paths, store.meta(5))) == 3
    # snapshots of earlier versions have no digest: good as long as nothing was removed
    old = replace(first, files_digest=None)
    with pytest.raises(RawEdgesMovedOn, match="is 5"):
        snapshot_files(paths, old)


def test_a_snapshot_that_names_no_files_is_trusted_while_none_left(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    write(folder, "a", 0)
    stream = Stream(paths, settings())
    stream.ingest(files_of(folder))
    old = replace(SnapshotStore(paths.snapshots).meta(1), files_digest=None)
    assert snapshot_files(paths, old) == stream.files
    checkpoints = CheckpointStore(paths.checkpoints)
    with pytest.raises(ValueError, match="it knows 1"):
        checkpoints.first_files(2)
    stream.retract(str(folder / "a.parquet"))
    for n_files in (0, 1):
        with pytest.raises(FilesMovedOn):
            checkpoints.first_files(n_files)
    assert checkpoints.first_files(0, digest_of_files(())) == ()
    with pytest.raises(RawEdgesMovedOn, match="newest such snapshot is 2"):
        snapshot_files(paths, old)


def test_a_file_without_edges_leaves_with_a_snapshot_that_can_be_certified(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    write(folder, "a", 0)
    pq.write_table(table_of(inserts(1), "string").slice(0, 0), folder / "b.parquet")
    stream = Stream(paths, settings())
    stream.ingest(files_of(folder))
    stream.retract(str(folder / "b.parquet"))
    meta = SnapshotStore(paths.snapshots).list()[-1]
    assert (meta.number, meta.n_removed_files) == (2, 1)
    assert [Path(file.path).stem for file in snapshot_files(paths, meta)] == ["a"]
    Stream(paths, settings()).ingest(files_of(folder / "a.parquet"))
    assert SnapshotStore(paths.snapshots).latest() == 2


def test_the_same_content_read_in_another_way_is_spooled_anew(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    rows = [("n1", "n2", 1.0, INSERT), ("n2", "n3", 1.0, INSERT)]
    table = table_of(rows, "string").drop_columns("op")
    pq.write_table(table.append_column("other", table.column("src")), folder / "a.parquet")
    path = folder / "a.parquet"
    read = [replace(file, columns=EdgeColumns(), version="1") for file in files_of(path)]
    otherwise = [
        replace(read[0], columns=EdgeColumns(src="dst", dst="other", weight="weight"), version="2")
    ]
    degrees = []
    for name, files in (("read", read), ("otherwise", otherwise)):
        paths = GraphPaths(root=tmp_path / name)
        Stream(paths, settings(deletions="off")).ingest(files)
        meta = SnapshotStore(paths.snapshots).list()[-1]
        with snapshot_edges(
            paths, meta, spool=tmp_path / "spool", staging=paths.staging, n_threads=1
        ) as edges:
            edges.open()
            degrees.append(edges.degrees().weight.tolist())
    assert len(list((tmp_path / "spool").iterdir())) == 2
    keys = {
        AbsorbedFile(
            path="p", version="1", digest="d", n_rows=1, left_out=NO_ROWS, columns=columns
        ).edges_key
        for columns in (EdgeColumns(), EdgeColumns(src="dst", dst="other"))
    }
    assert len(keys) == 2
