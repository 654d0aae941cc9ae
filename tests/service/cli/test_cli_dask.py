"""`peewit ingest NAME --dask MODULE:NAME`: partitions in order, each counted once."""

import csv
import sys
from pathlib import Path

import dask.dataframe  # noqa: F401 - so that no test pays for it
import pytest

from peewit.service.cli.edges import dask_edges
from peewit.streaming.graph_stream import Interrupted
from tests.service.cli.conftest import Peewit

PIPELINE = """
import dask, dask.dataframe as dd, pandas as pd
from pathlib import Path

def part(i):
    with Path("computed").open("a") as told:
        told.write(str(i))
    ends = pd.DataFrame({"a": [f"{i}-{j}" for j in range(4)], "b": ["hub"] * 4})
    if Path("bad").exists() and i == 2:
        ends.loc[1, "a"] = None
    if Path("other").exists() and i == 1:
        ends.loc[1, "a"] = "other"
    return ends

def equal(i):
    return pd.DataFrame({"a": ["x"], "b": ["y"]})

meta = pd.DataFrame({"a": pd.Series([], dtype=str), "b": pd.Series([], dtype=str)})
edges = dd.from_map(part, range(4), meta=meta)
four = 4

def delayed():
    return [dask.delayed(part)(i) for i in range(4)]

wide = edges.assign(c=edges.b)
doubtful = edges.assign(w=1.5)

def shrunk():
    few = [dask.delayed(part)(0), dask.delayed(part)(9)]
    return few if Path("shrunk").exists() else [few[0], dask.delayed(lambda: part(1)[:0])(), few[1]]

def no_table():
    return [dask.delayed(lambda: None)()]

def alike():
    return [dask.delayed(equal)(i) for i in range(3)]
"""
ENDS = ("--src", "a", "--dst", "b")


@pytest.fixture
def folder(tmp_path: Path, peewit: Peewit, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a command runs, with a module of edges."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pipeline.py").write_text(PIPELINE)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "pipeline", raising=False)
    peewit("graph", "create", "g", "--expected-nodes", "50")
    return folder


def computed(folder: Path) -> list[int]:
    """Which partitions were computed since the last look."""
    told = folder / "computed"
    numbers = sorted(map(int, told.read_text())) if told.exists() else []
    told.unlink(missing_ok=True)
    return numbers


def edges_of(peewit: Peewit, folder: Path) -> set[tuple[str, str]]:
    out = folder / "out.csv"
    assert peewit("graph", "export", "g", "-o", out).exit_code == 0
    with out.open(newline="") as exported:
        rows = [row[:2] for row in csv.reader(exported)][1:]
    return {(min(row), max(row)) for row in rows}


def n_rows(peewit: Peewit) -> int:
    seen: int = peewit("graph", "show", "g", "--json").json["edges_seen"]
    return seen


def test_a_frame_is_taken_in_once(folder: Path, peewit: Peewit) -> None:
    first = peewit("ingest", "g", "--dask", "pipeline:edges", *ENDS)
    assert first.exit_code == 0, first.err
    assert "g: 16 rows in, 17 nodes" in first.out
    assert "4 partitions of pipeline:edges, 0 of them in before" in first.err
    expected = {(f"{i}-{j}", "hub") for i in range(4) for j in range(4)}
    assert edges_of(peewit, folder) == expected
    assert computed(folder) == [0, 1, 2, 3]
    again = peewit("ingest", "g", "--dask", "pipeline:edges")  # the graph keeps the columns
    assert again.exit_code == 0, again.err
    assert "4 of them in before" in again.err
    assert computed(folder) == []
    assert n_rows(peewit) == 16


def test_partitions_that_dask_calls_otherwise_are_compared(folder: Path, peewit: Peewit) -> None:
    assert peewit("ingest", "g", "--dask", "pipeline:delayed", *ENDS).exit_code == 0
    again = peewit("ingest", "g", "--dask", "pipeline:delayed", "--json")
    assert again.json["progress"]["edges_seen"] == 16
    assert computed(folder) == [0, 0, 1, 1, 2, 2, 3, 3]
    (folder / "other").touch()
    refused = peewit("ingest", "g", "--dask", "pipeline:delayed")
    assert refused.exit_code == 1
    assert "partition 1 (from 0) of pipeline:delayed came before with other rows" in refused.err


def test_other_columns_are_refused_not_passed_over(folder: Path, peewit: Peewit) -> None:
    assert peewit("ingest", "g", "--dask", "pipeline:wide", *ENDS).exit_code == 0
    for other in (("--src", "b", "--dst", "a"), ("--weight", "c"), ("--relation", "r")):
        refused = peewit("ingest", "g", "--dask", "pipeline:wide", *other)
        assert refused.exit_code == 1
        assert n_rows(peewit) == 16
    assert peewit("ingest", "g", "--dask", "pipeline:wide", *ENDS).exit_code == 0


def test_partitions_without_rows_count_as_partitions(folder: Path, peewit: Peewit) -> None:
    assert peewit("ingest", "g", "--dask", "pipeline:shrunk", *ENDS).exit_code == 0
    assert n_rows(peewit) == 8
    again = peewit("ingest", "g", "--dask", "pipeline:shrunk")
    assert "3 of them in before" in again.err
    (folder / "shrunk").touch()
    refused = peewit("ingest", "g", "--dask", "pipeline:shrunk")
    assert refused.exit_code == 1
    assert "must have as many partitions as before, got 2, and 1 more are in" in refused.err
    assert n_rows(peewit) == 8


def test_a_partition_that_is_no_table_is_told_in_a_line(folder: Path, peewit: Peewit) -> None:
    refused = peewit("ingest", "g", "--dask", "pipeline:no_table")
    assert refused.exit_code == 1
    assert "partition 0 (from 0): edges must be" in refused.err


def test_columns_that_may_be_weights_are_told(folder: Path, peewit: Peewit) -> None:
    read = peewit("ingest", "g", "--dask", "pipeline:doubtful", *ENDS)
    assert read.exit_code == 0, read.err
    assert "note: " in read.err
    assert "'w'" in read.err


def test_the_daemon_takes_no_collection(folder: Path, peewit: Peewit) -> None:
    refused = peewit("ingest", "--follow", "--dask", "pipeline:edges")
    assert refused.exit_code == 2
    assert "takes no --dask" in " ".join(refused.err.split())


def test_equal_partitions_count_each(folder: Path, peewit: Peewit) -> None:
    assert peewit("ingest", "g", "--dask", "pipeline:alike", *ENDS).exit_code == 0
    assert n_rows(peewit) == 3


def test_a_refused_partition_keeps_those_before_it(folder: Path, peewit: Peewit) -> None:
    (folder / "bad").touch()
    refused = peewit("ingest", "g", "--dask", "pipeline:edges", *ENDS)
    assert refused.exit_code == 1
    assert "partition 2 (from 0): " in refused.err
    assert "column 'a' must not be null, got null in row 1" in refused.err
    assert n_rows(peewit) == 8
    computed(folder)
    left_out = peewit("ingest", "g", "--dask", "pipeline:edges", *ENDS, "--skip-bad-rows", "1")
    assert left_out.exit_code == 0, left_out.err
    assert "1 bad rows left out" in left_out.out
    assert computed(folder) == [2, 3]
    assert n_rows(peewit) == 15


def test_a_stopped_command_goes_on(
    folder: Path, peewit: Peewit, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = dask_edges.PartitionIntake._taken

    def stopped(intake, body, digest, key, *rest):
        if key.endswith(":2"):
            raise Interrupted
        return taken(intake, body, digest, key, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(dask_edges.PartitionIntake, "_taken", stopped)
        patch.setattr("peewit.service.cli.edges.reading.end_now", sys.exit)
        stopped_one = peewit("ingest", "g", "--dask", "pipeline:edges", *ENDS)
    assert stopped_one.exit_code == 130
    assert "stopped; the same command goes on from here" in stopped_one.err
    computed(folder)
    assert peewit("ingest", "g", "--dask", "pipeline:edges", *ENDS).exit_code == 0
    assert computed(folder) == [2, 3]
    assert n_rows(peewit) == 16


def test_a_full_backlog_is_taken_in_meanwhile(
    folder: Path, peewit: Peewit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEEWIT_MAX_BACKLOG_BYTES", "1")
    read = peewit("ingest", "g", "--dask", "pipeline:edges", *ENDS)
    assert read.exit_code == 0, read.err
    assert n_rows(peewit) == 16
    assert computed(folder) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("pipeline", "must be MODULE:NAME"),
        ("nothing:edges", "a module that is installed or lies here"),
        ("pipeline:nothing", "which is NoneType"),
        ("pipeline:four", "which is int"),
        ("pipeline:meta", "which is DataFrame"),
    ],
)
def test_what_is_no_collection_is_refused(
    folder: Path, peewit: Peewit, said: str, message: str
) -> None:
    refused = peewit("ingest", "g", "--dask", said)
    assert refused.exit_code == 2
    assert message in " ".join(refused.err.split())


@pytest.mark.parametrize("option", ["edges.csv", "--dry-run", "--replace", "--again"])
def test_options_of_files_are_refused(folder: Path, peewit: Peewit, option: str) -> None:
    refused = peewit("ingest", "g", option, "--dask", "pipeline:edges")
    assert refused.exit_code == 2
    assert "must stand without a PATH" in " ".join(refused.err.split())


def test_what_a_module_lacks_is_its_own_error(folder: Path, peewit: Peewit) -> None:
    (folder / "lacking.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        dask_edges.collection_named("lacking:edges")


def test_kinds_and_relations_are_named_as_of_files(folder: Path, peewit: Peewit) -> None:
    ends = ("--src", "account:a", "--dst", "device:b", "--relation", "login")
    read = peewit("ingest", "g", "--dask", "pipeline:edges", *ends)
    assert read.exit_code == 0, read.err
    assert ("account:0-0", "device:hub") in edges_of(peewit, folder)
    shown = peewit("graph", "relations", "g", "--json").json
    assert "login" in str(shown)
