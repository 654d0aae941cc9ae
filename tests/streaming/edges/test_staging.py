"""Staging one file ahead: what it saves, and that it leaves nothing behind."""

import os
import threading
from concurrent.futures import wait
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from peewit.streaming.edges import staging as staging_module
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import Abandoned, Staging, stage

ORIGINAL = staging_module._copy_and_digest


def write(path: Path, n_rows: int = 10) -> Path:
    pq.write_table(pa.table({"src": np.arange(n_rows), "dst": np.arange(n_rows) + 1}), path)
    return path


def local_files(directory: Path, n_files: int) -> list[EdgeFile]:
    for number in range(n_files):
        write(directory / f"{number}.parquet", 10 + number)
    return EdgeFiles(directory).list()


def remote_files(directory: Path, n_files: int) -> list[EdgeFile]:
    memory = fsspec.filesystem("memory")
    for file in local_files(directory, n_files):
        memory.pipe(f"/{directory.name}/{Path(file.path).name}", Path(file.path).read_bytes())
    return EdgeFiles(f"memory://{directory.name}").list()


def wait_for_the_one_ahead(staging: Staging) -> None:
    assert staging._ahead is not None
    wait([staging._ahead.result], timeout=60)


def test_the_digest_is_that_of_the_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"src": rng.integers(0, 9, 10**6), "dst": np.arange(10**6)}), path)
    assert path.stat().st_size > 2 << 20  # read in several pieces
    [file] = EdgeFiles(path).list()
    assert stage(file, tmp_path).digest == f"blake3:{blake3(path.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("n_rows", [1, 400_000])
def test_line_ends_and_a_byte_order_mark_make_no_other_content(tmp_path: Path, n_rows: int) -> None:
    text = b"src,dst\n" + b"".join(b"%d,b\n" % row for row in range(n_rows))
    crlf = text.replace(b"\n", b"\r\n")
    contents = [text, crlf, b"\xef\xbb\xbf" + text, b"\xef\xbb\xbf" + crlf]
    others = [text + b"\r", text.replace(b"0", b"2"), b"\n" + text]
    digests = []
    for number, content in enumerate([*contents, *others]):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(content)
        [file] = EdgeFiles(path).list()
        both = staging_module._digest_local(file.path, lambda: False)[1]
        digests.append(both[0])
        assert both[1] == f"blake3:{blake3(content).hexdigest()}"
    assert digests[:4] == [f"blake3:{blake3(text).hexdigest()}"] * 4
    assert len(set(digests)) == 1 + len(others)


def test_files_staged_ahead_are_those_staged_one_by_one(tmp_path: Path) -> None:
    files = remote_files(tmp_path, 4)
    expected = [(10 + number, file) for number, file in enumerate(files)]
    with Staging(tmp_path / "staging") as staging:
        for (n_rows, file), following in zip(expected, [*files[1:], None], strict=True):
            with staging.take(file, following) as staged:
                assert (staged.n_rows, staged.file) == (n_rows, file)
    assert list((tmp_path / "staging").iterdir()) == []


def test_the_next_file_is_staged_while_the_caller_has_one(tmp_path: Path) -> None:
    first, second, third = remote_files(tmp_path, 3)
    with Staging(tmp_path / "staging") as staging:
        with staging.take(first, second):
            wait_for_the_one_ahead(staging)
            assert len(list((tmp_path / "staging").iterdir())) == 2
        fsspec.filesystem("memory").rm(second.path)  # its copy is there
        assert staging.take(second, third).n_rows == 11


def test_what_was_staged_ahead_and_is_not_taken_leaves_no_copy(tmp_path: Path) -> None:
    first, second, third = remote_files(tmp_path, 3)
    with Staging(tmp_path / "staging") as staging:
        with staging.take(first, second):
            pass
        with staging.take(third, second):
            wait_for_the_one_ahead(staging)
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_file_that_changed_after_it_was_staged_ahead_is_staged_again(tmp_path: Path) -> None:
    first, second = local_files(tmp_path, 2)
    with Staging(tmp_path / "staging") as staging:
        staging.take(first, second)
        wait_for_the_one_ahead(staging)
        write(tmp_path / "1.parquet", 99)
        os.utime(tmp_path / "1.parquet", ns=(1, 1))
        staged = staging.take(second)
    assert staged.n_rows == 99
    assert staged.is_unchanged()


def test_a_fault_found_ahead_is_looked_at_again_in_its_turn(tmp_path: Path) -> None:
    first, second = local_files(tmp_path, 2)
    whole = Path(second.path).read_bytes()
    Path(second.path).write_bytes(whole[:50])
    with Staging(tmp_path / "staging") as staging:
        staging.take(first, second)
        wait_for_the_one_ahead(staging)
        with pytest.raises(BadEdges, match="not a readable Parquet file"):
            staging.take(second, first)
        staging.take(first, second)
        wait_for_the_one_ahead(staging)
        Path(second.path).write_bytes(whole)
        assert staging.take(second).n_rows == 11
        Path(second.path).unlink()
        with pytest.raises(FileNotFoundError):
            staging.take(second)


def test_a_path_is_never_staged_twice_at_once(tmp_path: Path) -> None:
    [file] = remote_files(tmp_path, 1)
    with Staging(tmp_path / "staging") as staging, staging.take(file, file) as staged:
        assert staging._ahead is None
        assert Path(staged.local_path).exists()


def test_waiting_ends_when_the_check_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def slow_copy(*arguments: object) -> tuple[str, str]:
        release.wait(30)
        return ORIGINAL(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(staging_module, "_copy_and_digest", slow_copy)
    (file,) = local_files(tmp_path, 1)

    def check() -> None:
        release.set()
        raise InterruptedError("asked to stop")

    with (
        Staging(tmp_path / "staging", check=check) as staging,
        pytest.raises(InterruptedError, match="asked to stop"),
    ):
        staging.take(file)


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    for path in (tmp_path / "pipe.parquet", Path("/dev/zero")):
        file = EdgeFile(path=str(path), size=1, version="1")
        with pytest.raises(BadEdges, match="must be a regular file"):
            stage(file, tmp_path / "staging")


def test_an_abandoned_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    [file] = remote_files(tmp_path, 1)
    with pytest.raises(Abandoned):
        stage(file, tmp_path / "staging", is_abandoned=lambda: True)
    assert list((tmp_path / "staging").iterdir()) == []
