"""Parquet sources: which files are listed, how they are cut, and what damage does."""

import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges import reader as reading
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.columns import values_of
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import EdgeFile, StagedFile, open_parquet
from peewit.streaming.edges.reader import read_part, read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage


def table(n_rows: int = 10, **columns: object) -> pa.Table:
    return pa.table({"src": np.arange(n_rows), "dst": np.arange(n_rows) + 1} | columns)


def write(path: Path, content: pa.Table | None = None, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table() if content is None else content, path, **options)
    return path


def staged(path: Path, part_rows: int = 1 << 20) -> StagedFile:
    [file] = EdgeFiles(path).list()
    return stage(file, path.parent / "staging", part_rows=part_rows)


def results(file: StagedFile, kind: NodeKind = "int64", n_threads: int = 2) -> list[RawBlock]:
    parts = [(file, part) for part in file.parts]
    return list(read_parts(parts, node_kind=kind, max_nodes=1000, n_threads=n_threads))


def listed(source: EdgeFiles, root: Path) -> list[str]:
    return [os.path.relpath(file.path, root) for file in source.list()]


# -------------------------------------------------------------------------------------- listing


def test_directories_give_their_parquet_files_and_nothing_unfinished(tmp_path: Path) -> None:
    for name in (
        *("b.parquet", "a.PARQUET", "deep/er/c.parquet", "._hidden.parquet", ".x.parquet"),
        *("_temporary/0/d.parquet", ".staging/e.parquet", "_SUCCESS", "readme.txt"),
        *("f.parquet.tmp", "g.parquet.crc", "h.parquet~", "i.parquet._COPYING_"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.parquet").mkdir()
    expected = ["a.PARQUET", "b.parquet", "deep/er/c.parquet"]
    source = EdgeFiles(tmp_path)
    assert listed(source, tmp_path) == expected
    assert source.unlike_tables == [str(tmp_path / "readme.txt")]
    assert listed(EdgeFiles(f"{tmp_path}/"), tmp_path) == expected


def test_hidden_directories_above_the_source_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path / ".cache" / "_data" / "a.parquet")
    root = tmp_path / ".cache" / "_data"
    assert listed(EdgeFiles(root), root) == ["a.parquet"]
    assert listed(EdgeFiles(f"{root}/*.parquet"), root) == ["a.parquet"]


def test_globs_give_every_finished_file_they_match(tmp_path: Path) -> None:
    for name in ("part-0", "part-1.parquet", "part-2.tmp", "_part-3", "other", "sub/part-4"):
        write(tmp_path / name)
    (tmp_path / "part-dir").mkdir()
    assert listed(EdgeFiles(f"{tmp_path}/part-*"), tmp_path) == ["part-0", "part-1.parquet"]
    assert listed(EdgeFiles(f"{tmp_path}/*/part-?"), tmp_path) == ["sub/part-4"]
    assert listed(EdgeFiles(f"{tmp_path}/nothing-*"), tmp_path) == []


def test_a_file_that_is_named_is_taken_whatever_its_name(tmp_path: Path) -> None:
    for name in ("_edges.bin", "edges[1].parquet"):
        path = write(tmp_path / name)
        assert [file.path for file in EdgeFiles(path).list()] == [str(path)]


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in EdgeFiles(".").list()] == [str(tmp_path / "a.parquet")]


def test_a_listing_tells_when_a_file_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    source = EdgeFiles(tmp_path)
    [before] = source.list()
    assert before.size == path.stat().st_size
    os.utime(path, ns=(1, before_ns := 1_700_000_000_123_456_789))
    [after] = source.list()
    assert after != before
    assert after.version == str(before_ns)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match=f"nothing is there: '{missing}'"):
        EdgeFiles(missing).list()
    with pytest.raises(FileNotFoundError, match="memory://nowhere"):
        EdgeFiles("memory://nowhere/at-all").list()


def test_unknown_protocols_are_refused() -> None:
    with pytest.raises(ValueError, match="Protocol not known"):
        EdgeFiles("nosuch://bucket/path")


def test_entity_tags_and_times_are_versions() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/versions/a.parquet", b"x")
    [file] = EdgeFiles("memory://versions/a.parquet").list()
    assert datetime.fromisoformat(file.version).tzinfo == UTC
    memory.pipe("/versions/a.parquet", b"y")
    [later] = EdgeFiles("memory://versions/a.parquet").list()
    assert later.version != file.version


def test_storage_options_are_no_part_of_what_a_file_is() -> None:
    one, two = (
        EdgeFile(path="s3://b/a", size=1, version="v", storage_options={"secret": secret})
        for secret in ("first", "second")
    )
    assert one == two
    assert "first" not in repr(one)


# -------------------------------------------------------------------------------------- staging


def test_local_files_are_read_in_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    with staged(path) as file:
        assert file.local_path == str(path)
        assert not file.is_copy
    assert path.exists()
    assert not (tmp_path / "staging").exists()


def test_remote_files_are_copied_once_and_deleted_when_released(tmp_path: Path) -> None:
    content = write(tmp_path / "a.parquet").read_bytes()
    fsspec.filesystem("memory").pipe("/remote/a.parquet", content)
    [remote] = EdgeFiles("memory://remote").list()
    with stage(remote, tmp_path / "staging") as file:
        assert Path(file.local_path).read_bytes() == content
        assert file.is_copy
        assert file.file == remote
        assert [block.n_rows for block in results(file)] == [10]
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_bad_remote_file_leaves_no_copy(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe("/remote-bad/a.parquet", b"PAR1 but no more")
    [remote] = EdgeFiles("memory://remote-bad").list()
    with pytest.raises(BadEdges, match=r"memory:///remote-bad/a\.parquet is not a readable"):
        stage(remote, tmp_path / "staging")
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_file_that_vanished_is_no_fault_of_its_content(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    [file] = EdgeFiles(path).list()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        stage(file, tmp_path / "staging")
    fsspec.filesystem("memory").pipe("/vanishing/a.parquet", b"x")
    [remote] = EdgeFiles("memory://vanishing").list()
    fsspec.filesystem("memory").rm("/vanishing/a.parquet")
    with pytest.raises(FileNotFoundError):
        stage(remote, tmp_path / "staging")


def test_changes_while_a_file_is_read_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    file = staged(path)
    assert file.is_unchanged()
    os.utime(path, ns=(1, 1))
    assert not file.is_unchanged()
    file = staged(path)
    other = write(tmp_path / "other.parquet")
    os.utime(other, ns=(1, 1))
    other.replace(path)  # same size and time, another file
    assert not file.is_unchanged()
    path.unlink()
    assert not file.is_unchanged()


def test_a_file_that_changed_since_it_was_listed_is_staged_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    [before] = EdgeFiles(path).list()
    write(path, table(99))
    file = stage(before, tmp_path / "staging")
    assert file.n_rows == 99
    assert file.file.version != before.version


def test_staged_files_survive_pickling(tmp_path: Path) -> None:
    file = staged(write(tmp_path / "a.parquet"))
    assert pickle.loads(pickle.dumps(file)) == file


# ---------------------------------------------------------------------------------------- parts


def cut(tmp_path: Path, row_groups: list[int], part_rows: int) -> list[tuple[int, int, int, int]]:
    path = tmp_path / "cut.parquet"
    content = table(sum(row_groups))
    with pq.ParquetWriter(path, content.schema) as writer:
        start = 0
        for n_rows in row_groups:
            writer.write_table(content.slice(start, n_rows), row_group_size=max(n_rows, 1))
            start += n_rows
    file = staged(path, part_rows)
    assert [(part.first_row, part.number) for part in file.parts] == [
        (sum(earlier.n_rows for earlier in file.parts[:number]), number)
        for number in range(len(file.parts))
    ]
    blocks = results(file)
    ids = [block.src.to_numpy() for block in blocks]
    assert np.array_equal(np.concatenate([*ids, []]), np.arange(sum(row_groups)))
    return [(part.row_group, part.n_groups, part.skipped_rows, part.n_rows) for part in file.parts]


def test_small_row_groups_are_read_together(tmp_path: Path) -> None:
    assert cut(tmp_path, [4, 3, 3, 5, 5, 1], 10) == [(0, 3, 0, 10), (3, 2, 0, 10), (5, 1, 0, 1)]


def test_large_row_groups_are_cut_into_even_slices(tmp_path: Path) -> None:
    assert cut(tmp_path, [25, 2], 10) == [
        *((0, 1, 0, 9), (0, 1, 9, 9), (0, 1, 18, 7)),
        (1, 1, 0, 2),
    ]


def test_slices_and_whole_row_groups_are_never_mixed(tmp_path: Path) -> None:
    assert cut(tmp_path, [2, 11, 1, 10, 10], 10) == [
        (0, 1, 0, 2),
        *((1, 1, 0, 6), (1, 1, 6, 5)),
        (2, 1, 0, 1),
        *((3, 1, 0, 10), (4, 1, 0, 10)),
    ]


def test_files_without_rows_have_no_parts(tmp_path: Path) -> None:
    assert cut(tmp_path, [], 10) == []
    empty = staged(write(tmp_path / "empty.parquet", table(0)))
    assert (empty.parts, empty.n_rows, results(empty)) == ((), 0, [])


def test_long_strings_make_parts_smaller(tmp_path: Path) -> None:
    names = pa.array([f"{number:0400}" for number in range(2000)])
    content = pa.table({"src": names, "dst": names})
    path = write(tmp_path / "a.parquet", content, use_dictionary=False)
    few = staged(path)
    assert len(few.parts) == 1
    n_bytes = few.parts[0].n_bytes
    assert 2 * 2000 * 400 < n_bytes < 2.2 * 2000 * 400
    many = staged(
        write(tmp_path / "b.parquet", pa.concat_tables([content] * 100), use_dictionary=False)
    )
    assert len(many.parts) > 1
    assert max(part.n_bytes for part in many.parts) <= 1.01 * 2**27


@pytest.mark.parametrize("start", range(5))
def test_slices_are_read_from_any_on(tmp_path: Path, start: int) -> None:
    file = staged(write(tmp_path / "a.parquet", table(45)), part_rows=10)
    for part in file.parts[start:]:
        block = read_part(file, part, node_kind="int64", max_nodes=10)
        assert block.src.to_pylist() == list(range(part.first_row, part.first_row + part.n_rows))


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_slices_are_read_in_turn_each_row_group_once(
    tmp_path: Path, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def open_and_note(*arguments: Any, **options: Any) -> pq.ParquetFile:
        opened.append(arguments)
        return open_parquet(*arguments, **options)

    monkeypatch.setattr(reading, "open_parquet", open_and_note)
    path = write(tmp_path / "a.parquet", table(1000), row_group_size=400)
    file = staged(path, part_rows=7)
    blocks = results(file, n_threads=n_threads)
    ids = [block.src.to_numpy() for block in blocks]
    assert np.array_equal(np.concatenate(ids), np.arange(1000))
    assert len(opened) <= 1 + 3  # for the footer, and one for each row group


@pytest.mark.parametrize("row_group_size", [10, 100])
def test_abandoned_reading_leaves_nothing_open(tmp_path: Path, row_group_size: int) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    path = write(tmp_path / "a.parquet", table(100), row_group_size=row_group_size)
    file = staged(path, part_rows=10)
    blocks = read_parts(
        [(file, part) for part in file.parts], node_kind="int64", max_nodes=10, n_threads=2
    )
    next(blocks)
    blocks.close()
    open_files = [os.path.realpath(descriptor) for descriptor in descriptors.iterdir()]
    assert str(path) not in open_files


def test_at_most_two_windows_of_parts_are_read_ahead(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table(100), row_group_size=10)
    file = staged(path, part_rows=10)
    parts = [(file, part) for part in file.parts]
    blocks = read_parts(parts, node_kind="int64", max_nodes=10, n_threads=2)
    assert isinstance(next(blocks), RawBlock)
    path.unlink()  # parts 0 to 3 may have been read by now, the others not
    with pytest.raises(FileNotFoundError):
        list(blocks)


def test_a_path_whose_content_changed_is_read_by_its_new_footer(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for n_rows in (40, 70):
        write(path, table(n_rows), row_group_size=20)
        blocks = results(staged(path, part_rows=20))
        assert sum(block.n_rows for block in blocks) == n_rows


def test_blocks_of_parts_are_theirs_alone(tmp_path: Path) -> None:
    content = table(60, weight=np.arange(1, 61, dtype=np.float32))
    for row_group_size in (10, 60):
        path = write(tmp_path / "a.parquet", content, row_group_size=row_group_size)
        seen = []
        for block in results(staged(path, part_rows=10), kind="dense"):
            assert block.is_owned
            seen.append((block.src.to_pylist(), block.weight.tolist()))
            for column in (values_of(block.src), values_of(block.dst), block.weight):
                column[:] = 0  # must not show in the others
        assert [number for ids, _ in seen for number in ids] == list(range(60))
        assert [number for _, weight in seen for number in weight] == list(range(1, 61))


# --------------------------------------------------------------------------------------- damage


def test_a_bad_part_is_reported_in_its_place(tmp_path: Path) -> None:
    weight = np.ones(60)
    weight[25] = np.nan
    weight[41] = -2
    path = write(tmp_path / "a.parquet", table(60, weight=weight), row_group_size=10)
    file = staged(path, part_rows=10)
    parts = [(file, part) for part in file.parts]
    for n_threads in (1, 2, 7):
        blocks = read_parts(parts, node_kind="int64", max_nodes=100, n_threads=n_threads)
        assert [next(blocks).first_row for _ in range(2)] == [0, 10]
        with pytest.raises(BadEdges) as raised:
            next(blocks)
        assert (raised.value.row, raised.value.value) == (25, "nan")


def test_a_bad_slice_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    weight = np.ones(30)
    weight[15] = -1
    file = staged(write(tmp_path / "a.parquet", table(30, weight=weight)), part_rows=10)
    first, second, third = file.parts
    assert read_part(file, first, node_kind="int64", max_nodes=100).n_rows == 10
    with pytest.raises(BadEdges) as raised:
        read_part(file, second, node_kind="int64", max_nodes=100)
    assert raised.value.row == 15
    block = read_part(file, third, node_kind="int64", max_nodes=100)
    assert block.src.to_pylist() == list(range(20, 30))


def test_a_missing_column_is_noticed_when_staging(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"source": [1], "dst": [2]}))
    with pytest.raises(BadEdges, match="column 'src' is missing; the file has source, dst"):
        staged(path)


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    content = table(5, note=[[{"a": 1}]] * 5, weight=pa.array([1, 2, 3, 4, 5], pa.int8()))
    [block] = results(staged(write(tmp_path / "a.parquet", content)))
    assert block.weight.tolist() == [1, 2, 3, 4, 5]


def test_wrong_types_are_named(tmp_path: Path) -> None:
    file = staged(write(tmp_path / "a.parquet"))
    with pytest.raises(BadEdges, match="'src' must hold strings in this graph, got type int64"):
        results(file, "string")


def test_dictionary_columns_are_read(tmp_path: Path) -> None:
    names = pa.array(["a", "b", "a"]).dictionary_encode()
    path = write(tmp_path / "a.parquet", pa.table({"src": names, "dst": names}))
    [block] = results(staged(path), "string")
    assert block.src.to_pylist() == ["a", "b", "a"]


def string_file(path: Path) -> bytes:
    names = pa.array([f"node {number % 37}" for number in range(400)])
    content = pa.table({"src": names, "dst": names[::-1], "weight": np.linspace(1, 2, 400)})
    return write(path, content, row_group_size=100, write_page_checksum=True).read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = string_file(tmp_path / "whole.parquet")
    path = tmp_path / "cut.parquet"
    for length in [*range(12), *np.linspace(12, len(content) - 1, 120).astype(int)]:
        path.write_bytes(content[:length])
        with pytest.raises(BadEdges, match=r"cut\.parquet is not a readable Parquet file"):
            staged(path)


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"src,dst\n1,2\n", b"PAR1" + b"." * 200):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(BadEdges, match="is not a readable Parquet file"):
            staged(tmp_path / "a.parquet")


def test_a_damaged_page_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    content = bytearray(string_file(path))
    chunk = pq.ParquetFile(path).metadata.row_group(2).column(2)
    content[chunk.dictionary_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    file = staged(path, part_rows=100)
    with pytest.raises(BadEdges) as raised:
        results(file, "string")
    assert f"row group 2 of {path} cannot be decoded" in raised.value.reason


def test_damage_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    content = string_file(tmp_path / "whole.parquet")
    path = tmp_path / "damaged.parquet"
    rng = np.random.default_rng(11)
    n_refused = 0
    for position in rng.integers(0, len(content), size=300):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(0, 8)
        path.write_bytes(damaged)
        try:
            file = staged(path, part_rows=150)
            found = [read_part(file, part, node_kind="string", max_nodes=10) for part in file.parts]
            assert sum(block.n_rows for block in found) == file.n_rows
        except BadEdges:
            n_refused += 1
    assert n_refused > 150


def test_a_file_that_shrinks_while_it_is_read_kills_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    content = string_file(path)
    file = staged(path, part_rows=100)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BadEdges):
        results(file, "string")
    assert not file.is_unchanged()


# ------------------------------------------------------------------------------------------ dask


@pytest.mark.usefixtures("processes")
def test_reading_in_threads_does_not_load_the_cluster_code(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from peewit.streaming.edges.reader import read_parts\n"
        "from peewit.streaming.edges.sources import EdgeFiles\n"
        "from peewit.streaming.edges.staging import stage\n"
        "[file] = EdgeFiles(sys.argv[1]).list()\n"
        "staged = stage(file, Path('.'))\n"
        "parts = [(staged, part) for part in staged.parts]\n"
        "blocks = read_parts(parts, node_kind='int64', max_nodes=9, n_threads=2)\n"
        "assert sum(block.n_rows for block in blocks) == 10\n"
        "assert 'distributed' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="part_rows must be at least 1, got 0"):
        staged(path, part_rows=0)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        results(staged(path), n_threads=0)
