"""Files of a followed source are taken once they are whole, and not before."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.inbox.inbox_records import ListedFile
from peewit.service.inbox.settled_files import UnfinishedFiles, has_end_of_format
from peewit.streaming.edges.sources import EdgeFiles

WRITER = """
import sys, time
from pathlib import Path

content, target = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
step = max(len(content) // 6, 1)
with target.open("wb") as file:
    for start in range(0, len(content), step):
        sys.stdin.readline()
        file.write(content[start : start + step])
        file.flush()
        print(start, flush=True)
sys.stdin.readline()
"""


def settling(
    *, whole: bool = True, settle: float = 5.0, unfinished: float = 60.0
) -> UnfinishedFiles:
    return UnfinishedFiles(
        settle_seconds=settle, unfinished_seconds=unfinished, has_end=lambda _file: whole
    )


A1, A2, B1 = (ListedFile(*each) for each in (("a", "1", 9), ("a", "2", 12), ("b", "1", 9)))


def test_a_file_is_taken_when_two_listings_far_enough_apart_show_it_unchanged() -> None:
    waiting = settling()
    assert waiting.take([A1], began=0.0, ended=1.0) == []
    assert waiting.take([A1], began=5.0, ended=5.5) == []
    assert waiting.take([A1, B1], began=6.0, ended=6.5) == [A1]
    assert waiting.take([B1], began=11.5, ended=12.0) == [B1]
    assert len(waiting) == 0


def test_a_file_that_changes_begins_to_wait_anew() -> None:
    waiting = settling()
    for began in range(0, 40, 4):
        file = ListedFile("a", str(began), began)
        assert waiting.take([file], began=float(began), ended=float(began)) == []
    assert waiting.take([file], began=began + 5.0, ended=began + 5.0) == [file]


def test_a_file_that_disappears_is_forgotten() -> None:
    waiting = settling()
    waiting.take([A1], began=0.0, ended=0.0)
    assert waiting.take([], began=3.0, ended=3.0) == []
    assert waiting.take([A1], began=6.0, ended=6.0) == []
    assert waiting.take([A1], began=11.0, ended=11.0) == [A1]


def test_without_settling_a_whole_file_is_taken_at_first_sight() -> None:
    assert settling(settle=0.0).take([A1, B1], began=0.0, ended=0.0) == [A1, B1]


def test_a_file_without_end_is_left_until_it_is_old() -> None:
    waiting = settling(whole=False)
    waiting.take([A1], began=0.0, ended=0.0)
    assert waiting.take([A1], began=59.0, ended=59.0) == []
    assert waiting.take([A2], began=61.0, ended=61.0) == []
    assert waiting.take([A2], began=121.0, ended=121.0) == [A2]


def test_a_file_that_cannot_be_asked_is_asked_again() -> None:
    answers: Iterator[object] = iter([OSError("no route"), True])

    def has_end(_file: ListedFile) -> bool:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return True

    waiting = UnfinishedFiles(settle_seconds=0.0, unfinished_seconds=9.0, has_end=has_end)
    with pytest.raises(OSError, match="no route"):
        waiting.take([A1], began=0.0, ended=0.0)
    assert waiting.take([A1], began=1.0, ended=1.0) == [A1]


def parquet_bytes(n_rows: int = 2_000) -> bytes:
    ids = pa.array(range(n_rows))
    sink = io.BytesIO()
    pq.write_table(pa.table({"src": ids, "dst": ids}), sink)
    return sink.getvalue()


@pytest.mark.parametrize("place", ["local", "memory"])
def test_only_a_whole_file_has_the_end_of_one(tmp_path: Path, place: str) -> None:
    whole = parquet_bytes()
    root = str(tmp_path) if place == "local" else f"memory://settling-{uuid4().hex}"
    for name, content in {
        "whole": whole,
        "half": whole[: len(whole) // 2],
        "one byte short": whole[:-1],
        "only an end": whole[-8:],
        "an end that is too long": b"PAR1" + b"\xff\xff\xff\x7fPAR1",
        "empty": b"",
    }.items():
        path = f"{root}/{name}.parquet"
        with fsspec.open(path, "wb") as file:
            file.write(content)
        assert has_end_of_format(ListedFile(path, "1", len(content))) is (name == "whole"), name
    assert not has_end_of_format(ListedFile(f"{root}/gone.parquet", "1", 100))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"src,dst\na,b\n", True),
        ("a.csv", b"src,dst\na,", False),
        ("a.csv", b"", False),
        ("a::b.ndjson", b"{}\n", True),
        ("a.ndjson", b'{"src":', False),
        ("a.csv.gz", b"\x1f", True),
        ("a.arrow", b"x", True),
    ],
)
def test_text_ends_with_its_line_and_other_formats_have_no_end(
    tmp_path: Path, name: str, content: bytes, expected: bool
) -> None:
    (tmp_path / name).write_bytes(content)
    file = ListedFile(str(tmp_path / name), "1", len(content))
    assert has_end_of_format(file) is expected


@pytest.mark.usefixtures("processes")
def test_a_file_that_a_process_writes_slowly_is_taken_when_its_end_is_there(tmp_path: Path) -> None:
    """The writer goes on when it is told, between two listings: time is told, not waited for."""
    (tmp_path / "content").write_bytes(parquet_bytes())
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    target = inbox / "slow.parquet"
    waiting = UnfinishedFiles(settle_seconds=2.0, unfinished_seconds=1e9, has_end=has_end_of_format)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "content"), str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    taken_at_size = None
    at = 0.0
    try:
        while taken_at_size is None:
            writer.stdin.write("\n")
            writer.stdin.flush()
            if at < 600.0:
                writer.stdout.readline()
            for _ in range(3):  # it pauses for longer than a file takes to settle
                at += 10.0
                listed = [
                    ListedFile(file.path, file.version, file.size)
                    for file in EdgeFiles(inbox).list()
                ]
                for file in waiting.take(listed, began=at, ended=at):
                    taken_at_size = file.size
            assert at < 1_000.0
    finally:
        writer.kill()
        writer.communicate()
    assert taken_at_size == (tmp_path / "content").stat().st_size
