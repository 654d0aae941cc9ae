"""What every edge source promises: a fixed order, parts cut by content alone, exact resumption."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges.blocks import RawBlock
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.edges.reader import read_part, read_parts
from peewit.streaming.edges.sources import EdgeFiles, EdgeSource
from peewit.streaming.edges.staging import stage

PART_ROWS = 40
ROW_GROUPS = {"b": [10, 10, 30, 90, 5], "a": [100], "c/d": [], "c/e": [0, 40, 0, 1]}

Rows = list[tuple[int, int, float]]


def edges_of(name: str) -> list[pa.Table]:
    """Row groups of one file."""
    rng = np.random.default_rng(ord(name[-1]))
    return [
        pa.table(
            {
                "src": rng.integers(0, 50, n_rows),
                "weight": rng.random(n_rows) + 0.5,
                "dst": rng.integers(0, 50, n_rows),
            }
        )
        for n_rows in ROW_GROUPS[name]
    ]


def write(root: Path) -> None:
    for name in ROW_GROUPS:
        path = root / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([("src", pa.int64()), ("weight", pa.float64()), ("dst", pa.int64())])
        with pq.ParquetWriter(path, schema) as writer:
            for group in edges_of(name):
                writer.write_table(group)


def local(root: Path) -> EdgeSource:
    return EdgeFiles(root)


def local_url(root: Path) -> EdgeSource:
    return EdgeFiles(root.as_uri())


def local_glob(root: Path) -> EdgeSource:
    return EdgeFiles(f"{root}/**/*.parquet")


def in_memory(root: Path) -> EdgeSource:
    url = f"memory://{uuid4().hex}"
    fsspec.filesystem("memory").put(str(root), url.removeprefix("memory:/"), recursive=True)
    return EdgeFiles(url)


@pytest.fixture(params=[local, local_url, local_glob, in_memory])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> EdgeSource:
    write(tmp_path / "edges")
    make: Callable[[Path], EdgeSource] = request.param
    return make(tmp_path / "edges")


@pytest.fixture
def staged_files(source: EdgeSource, tmp_path: Path) -> Iterator[list[StagedFile]]:
    staged = [stage(file, tmp_path / "staging", part_rows=PART_ROWS) for file in source.list()]
    yield staged
    for file in staged:
        file.release()
    assert not list((tmp_path / "staging").glob("*"))


def rows_of(block: RawBlock) -> Rows:
    weights = block.weight.tolist()
    return list(zip(block.src.to_pylist(), block.dst.to_pylist(), weights, strict=True))


def read_rows(parts: list[tuple[StagedFile, Part]], n_threads: int = 2) -> list[Rows]:
    blocks = read_parts(parts, node_kind="int64", max_nodes=50, n_threads=n_threads)
    return [rows_of(block) for block in blocks]


def test_files_are_listed_in_a_fixed_order(source: EdgeSource) -> None:
    files = source.list()
    assert [Path(file.path).stem for file in files] == ["a", "b", "d", "e"]
    assert [file.path for file in files] == sorted(file.path for file in files)
    assert source.list() == files
    assert len({file.path for file in files}) == len(files)
    assert all(file.size > 0 and file.version for file in files)


def test_parts_are_numbered_and_cover_every_row(staged_files: list[StagedFile]) -> None:
    for staged in staged_files:
        assert [part.number for part in staged.parts] == list(range(len(staged.parts)))
        stops = [part.first_row + part.n_rows for part in staged.parts]
        assert [part.first_row for part in staged.parts] == [0, *stops][:-1]
        assert sum(part.n_rows for part in staged.parts) == staged.n_rows
        assert all(0 < part.n_rows <= PART_ROWS for part in staged.parts)
        assert all(part.n_bytes > 0 for part in staged.parts)
    assert [staged.n_rows for staged in staged_files] == [100, 145, 0, 41]
    assert [len(staged.parts) for staged in staged_files] == [3, 6, 0, 2]


def test_all_rows_come_in_order(staged_files: list[StagedFile]) -> None:
    for staged, name in zip(staged_files, ["a", "b", "c/d", "c/e"], strict=True):
        expected = [
            (row["src"], row["dst"], np.float32(row["weight"]))
            for group in edges_of(name)
            for row in group.to_pylist()
        ]
        found = read_rows([(staged, part) for part in staged.parts])
        assert [row for rows in found for row in rows] == expected


def test_the_number_of_threads_changes_nothing(staged_files: list[StagedFile]) -> None:
    parts = [(staged, part) for staged in staged_files for part in staged.parts]
    expected = read_rows(parts, n_threads=1)
    assert len(expected) == len(parts)
    for n_threads in (2, 3, 20):
        assert read_rows(parts, n_threads=n_threads) == expected


def test_reading_goes_on_from_any_part(source: EdgeSource, tmp_path: Path) -> None:
    for file in source.list():
        with stage(file, tmp_path / "staging", part_rows=PART_ROWS) as staged:
            whole = read_rows([(staged, part) for part in staged.parts])
        for position in range(len(whole) + 1):
            with stage(file, tmp_path / "staging", part_rows=PART_ROWS) as again:
                rest = read_rows([(again, part) for part in again.parts[position:]])
                assert rest == whole[position:]
                assert (again.digest, again.parts) == (staged.digest, staged.parts)


def test_parts_are_read_in_any_order(staged_files: list[StagedFile]) -> None:
    for staged in staged_files:
        expected = read_rows([(staged, part) for part in staged.parts])
        for part in reversed(staged.parts):
            block = read_part(staged, part, node_kind="int64", max_nodes=50)
            assert rows_of(block) == expected[part.number]
            assert block.first_row == part.first_row


def test_the_digest_is_that_of_the_content(source: EdgeSource, tmp_path: Path) -> None:
    digests = set()
    for file in source.list():
        with stage(file, tmp_path / "staging") as staged:
            digests.add(staged.digest)
            assert staged.is_unchanged()
            assert staged.file == file
            copy = tmp_path / "copy.parquet"
            copy.write_bytes(Path(staged.local_path).read_bytes())
        [other] = EdgeFiles(copy).list()
        assert stage(other, tmp_path / "staging").digest == staged.digest
    assert len(digests) == 4


def test_several_files_may_be_read_at_once(staged_files: list[StagedFile]) -> None:
    parts = [(staged, part) for staged in staged_files for part in staged.parts]
    alternating = sorted(parts, key=lambda pair: pair[1].number)
    expected = dict(zip(map(repr, parts), read_rows(parts), strict=True))
    found = read_rows(alternating, n_threads=3)
    assert found == [expected[repr(pair)] for pair in alternating]
