"""The line that ingest shows, with the clock passed in."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from peewit.service.cli.progress import CompileProgress, IngestProgress, shown_time
from peewit.service.inbox.inbox_records import FileRecord
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.events import Duplicate, Progress, Quarantined, StreamSummary
from peewit.streaming.left_out import NO_ROWS


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def file_record(path: Path) -> FileRecord:
    return FileRecord(
        id=1,
        position=1,
        source_id="s",
        push_id=None,
        path=str(path),
        version="1",
        size=path.stat().st_size,
        digest=None,
        status="pending",
        reason=None,
        row=None,
        value=None,
        n_rows=None,
        left_out=None,
        n_bad_rows=None,
        created_at=datetime.now(UTC),
        finished_at=None,
        retractable=None,
        inserts_only=False,
    )


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": range(100), "dst": range(1, 101)}), path)
    return path


def advance(path: Path, n_rows: int) -> Progress:
    summary = StreamSummary(
        n_nodes=12_345,
        edges_seen=n_rows,
        left_out=NO_ROWS,
        n_records=n_rows // 2,
        n_resparsifications=0,
        snapshot=None,
    )
    return Progress(path=str(path), n_rows=n_rows, n_bytes=8 * n_rows, summary=summary)


def test_line_tells_speed_and_time_left(edges: Path) -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, highlight=False, markup=False)
    with IngestProgress(console, [file_record(edges)], clock=clock) as progress:
        clock.seconds = 10.0
        progress(advance(edges, 25))
    line = out.getvalue()
    for part in ("25 edges in", "2 edges/s", "12 kept", "12,345 nodes", "MB", "30 s left"):
        assert part in line


def test_whoever_waits_for_the_compiler_sees_it_count(edges: Path) -> None:
    for is_terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=is_terminal, width=100)
        with IngestProgress(console, [file_record(edges)]) as ingest:
            ingest.compiling("m.a")
        with CompileProgress(console, lambda: ["m.a", "m.b", "m.c"]) as progress:
            progress("m.a")
            progress("m.b")
            progress("m.b")  # for other types
            progress("m.unexpected")
        told = "compiling, once for this installation: "
        for count, total in ((1, 1), (1, 3), (2, 3), (3, 4)):
            assert (f"{told}{count} of {total} kernels" in out.getvalue()) == is_terminal
        assert f"{told}4 of" not in out.getvalue()


def test_a_line_of_compilations_makes_room_for_others_and_comes_back() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with CompileProgress(console, lambda: ["m.a", "m.b"]) as progress:
        progress("m.a")
        progress.clear()
        at = out.tell()
        progress("m.b")
        assert "2 of 2 kernels" in out.getvalue()[at:]


def test_nothing_is_printed_more_often_than_every_few_seconds(edges: Path) -> None:
    clock, out = Clock(), io.StringIO()
    with IngestProgress(Console(file=out), [file_record(edges)], clock=clock) as progress:
        for _ in range(5):
            clock.seconds += 1.5
            progress(advance(edges, 1))
    assert out.getvalue().count("edges/s") == 1


def test_refused_files_are_named_with_the_reason(edges: Path) -> None:
    out = io.StringIO()
    file = EdgeFile(path="bad.parquet", size=1, version="1")
    with IngestProgress(Console(file=out), []) as progress:
        progress(Quarantined(file=file, reason="[rule] broken", row=3, value="nan"))
        progress(Duplicate(file=file, digest="d", original="first.parquet\x1b[31m"))
    assert "quarantined bad.parquet: [rule] broken, got nan in row 3" in out.getvalue()
    assert r"the same content as first.parquet\x1b[31m" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(48.4, "48 s"), (187.0, "3:07 min"), (8100.0, "2:15 h")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert shown_time(seconds) == text
