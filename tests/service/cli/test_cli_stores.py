"""Commands that only look at or change the stores: graphs, sources, labels, keys."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.cli import _MEMBERS
from peewit.service.cli.edges.absolute_urls import absolute_url
from peewit.service.database.engine import open_database
from peewit.service.jobs.job import JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from tests.service.cli.conftest import REPOSITORY, Peewit


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": ["a", "b"], "dst": ["b", "c"]}), path)
    return path


def test_help_lists_every_command_but_hidden_ones(peewit: Peewit, no_home: Path) -> None:
    done = peewit("--help")
    assert done.exit_code == 0
    words = set(done.out.replace(",", " ").split())
    assert set(_MEMBERS) - words == {"warm", "health"}
    assert len(done.out.splitlines()) < 40  # a terminal shows it whole
    assert "..." not in done.out.partition("main way")[2]
    assert not no_home.exists()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["frobnicate"], "."),
        (["solv"], ". Did you mean `peewit solve`?"),
        (["create"], ". Did you mean `peewit graph create` or `peewit key create`?"),
        (["graph", "shwo"], ". Did you mean `peewit graph show`?"),
    ],
)
def test_unknown_command_is_wrong_usage(peewit: Peewit, typed: list[str], meant: str) -> None:
    done = peewit(*typed)
    assert done.exit_code == 2
    assert done.err.strip().endswith(f"No such command '{typed[-1]}'{meant}")


@pytest.mark.parametrize("what", ["a file", "a directory", "garbage"])
def test_a_database_that_cannot_be_opened_is_named_in_one_line(
    peewit: Peewit, no_home: Path, what: str
) -> None:
    if what == "a file":
        no_home.write_text("not a directory")
    elif what == "a directory":
        (no_home / "peewit.db").mkdir(parents=True)
    else:
        no_home.mkdir()
        (no_home / "peewit.db").write_text("no database " * 1000)
    for command in (("graph", "list"), ("serve",), ("worker",), ("ingest", "--follow")):
        done = peewit(*command)
        assert done.exit_code == 1
        assert done.err.count("\n") == 1
        assert f"the database {no_home / 'peewit.db'} must be a SQLite file" in done.err
        assert "PEEWIT_HOME" in done.err
    examined = peewit("doctor", "--json")
    assert (examined.exit_code, examined.json["healthy"]) == (1, False)
    assert "PEEWIT_HOME" in examined.json["findings"][0]["text"]


def test_a_file_has_one_source_however_its_path_is_written(
    peewit: Peewit, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peewit("graph", "create", "g")
    below = edges.parent / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    for written in (f"..{os.sep}{edges.name}", f"{below}/.././{edges.name}", str(edges)):
        assert peewit("source", "add", "g", written, "--json").json["url"] == str(edges)
    (listed,) = peewit("source", "list", "g", "--json").json["sources"]
    assert listed["url"] == str(edges)
    assert absolute_url(f"file://{below}/../x") == f"file://{edges.parent}/x"
    assert absolute_url("s3://bucket/a/../b") == "s3://bucket/a/../b"
    assert absolute_url("../*.parquet") == f"{edges.parent}/*.parquet"


def test_a_parent_of_what_a_link_names_is_not_that_of_the_link(tmp_path: Path) -> None:
    """And the links of a path stay in it."""
    (tmp_path / "far" / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inside")
    assert absolute_url(f"{tmp_path}/link/../x") == f"{tmp_path}/link/../x"
    assert absolute_url(f"{tmp_path}/link/y/../x") == f"{tmp_path}/link/x"


def test_a_refused_file_is_named_once(peewit: Peewit, edges: Path) -> None:
    peewit("graph", "create", "g")
    cut = edges.parent / "cut.parquet"
    cut.write_bytes(edges.read_bytes()[:-100])
    told = peewit("ingest", "g", cut)
    assert told.exit_code == 1
    assert f"quarantined {cut}: the file is not a readable Parquet file" in told.err
    assert told.err.count(str(cut)) == 1


def test_source_is_kept_as_an_absolute_path(
    peewit: Peewit, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peewit("graph", "create", "g")
    monkeypatch.chdir(edges.parent)
    added = peewit("source", "add", "g", "edges.parquet", "--follow", "--json").json
    assert added["url"] == str(edges)
    listed = peewit("source", "list", "g", "--json").json
    assert [each["url"] for each in listed["sources"]] == [str(edges)]
    assert str(edges) in peewit("source", "list", "g").out
    assert peewit("source", "retry", "g", added["id"], "--json").json == {"n_files": 0}
    assert peewit("source", "remove", "g", "edges.parquet").exit_code == 0
    assert peewit("source", "list", "g", "--json").json["sources"] == []
    assert peewit("source", "remove", "g", "edges.parquet").exit_code == 1


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_labels_come_back_as_they_were_put(peewit: Peewit, tmp_path: Path, suffix: str) -> None:
    peewit("graph", "create", "g")
    given = tmp_path / "given.ndjson"
    given.write_text('{"node": "a", "label": 3}\n{"node": "b", "label": 4}\n')
    put = peewit("labels", "put", "g", given, "--unknown", "keep", "--json").json
    assert put["accepted"] == 2
    copy = tmp_path / f"copy.{suffix}"
    assert peewit("labels", "export", "g", copy, "--json").json["n_labels"] == 2
    assert peewit("labels", "put", "g", copy, "--unknown", "keep").exit_code == 0
    assert peewit("labels", "export", "g").out.replace('"', "") == (
        "node,label,origin,annotator,key\na,3,imported,,\nb,4,imported,,\n"
    )


@pytest.mark.usefixtures("processes")
def test_reader_that_stops_early_is_no_failure(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    given = tmp_path / "given.csv"
    given.write_text("node,label\n" + "".join(f"node-{number},1\n" for number in range(20_000)))
    peewit("labels", "put", "g", given, "--unknown", "keep")
    export = f"{sys.executable} -m peewit labels export g | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", export],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        '"node","label","origin","annotator","key"\n',
        "",
    )


def test_key_is_shown_once_and_can_be_revoked(peewit: Peewit) -> None:
    key = peewit("key", "create", "reader", "--scope", "read").out.strip()
    prefix, _, secret = key.partition(".")
    listed = peewit("key", "list")
    assert prefix in listed.out
    assert secret not in listed.out
    assert "last used" in listed.out
    assert peewit("key", "list", "--json").json[0]["last_used_at"] is None
    assert peewit("key", "open").exit_code == 1
    revoked = peewit("key", "revoke", key)
    assert revoked.exit_code == 0
    assert "nobody can call now" in revoked.err
    assert peewit("key", "list", "--json").json[0]["revoked_at"] is not None
    assert "without a key" in peewit("key", "open").err
    assert peewit("key", "list", "--json").json == []
    assert peewit("key", "create", "x", "--scope", "everything").exit_code == 2
    assert peewit("key", "revoke", "lw_none").exit_code == 1


def test_predictions_before_a_solve_say_what_to_do(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    done = peewit("predictions", "g")
    assert done.exit_code == 1
    assert "peewit solve g`" in done.err
    assert "peewit solve g --model hfs`" in peewit("predictions", "g", "--model", "hfs").err
    assert "model must be one of" in peewit("predictions", "g", "--model", "best").err
    assert peewit("predictions", "g", "-o", tmp_path / "file.xls").exit_code == 2


def test_version_names_what_it_computes_with(peewit: Peewit) -> None:
    versions = peewit("version", "--json").json
    assert {"peewit", "python", "numba"} <= versions.keys()


def test_a_file_in_no_directory_is_refused(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    done = peewit("labels", "export", "g", tmp_path / "none" / "x.csv")
    assert done.exit_code == 1
    assert f"no directory {tmp_path / 'none'}" in done.err
    assert not (tmp_path / "none").exists()


def test_jobs_are_listed_shown_and_cancelled(peewit: Peewit, home: Path) -> None:
    graph = peewit("graph", "create", "g", "--json").json["id"]
    database = open_database(Settings(home=home).database)
    other, job = (
        JobQueue(database).submit(JobSpec(graph_id=graph, model="hfs", parameters={}))
        for _ in range(2)
    )
    database.close()
    listed = peewit("jobs", "list", "g", "--json").json
    assert peewit("jobs", "list", "--graph", "g", "--json").json == listed
    assert peewit("jobs", "list", "g", "--graph", "g").exit_code == 2
    assert [each["id"] for each in listed["jobs"]] == [job.id, other.id]
    assert peewit("jobs", "list", "--status", "failed", "--json").json["jobs"] == []
    assert job.short_id in peewit("jobs", "list").out.split()
    assert "queued" in peewit("jobs", "show", job.id[-8:]).out
    for short in ("", job.id[-5:]):
        assert "at least 6 characters" in peewit("jobs", "cancel", short).err
    assert peewit("jobs", "cancel", job.id, "--json").json["status"] == "cancelled"
    assert "no job 'xxxxxx'" in peewit("jobs", "cancel", "xxxxxx").err


def test_an_end_of_several_jobs_names_them_all(
    peewit: Peewit, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = peewit("graph", "create", "g", "--json").json["id"]
    made = iter(("1234567890abcdef", "fedcba1234abcdef"))
    monkeypatch.setattr("peewit.service.jobs.queue.token_hex", lambda _bytes: next(made))
    database = open_database(Settings(home=home).database)
    ids = [
        JobQueue(database).submit(JobSpec(graph_id=graph, model="hfs", parameters={})).id
        for _ in range(2)
    ]
    database.close()
    unclear = peewit("jobs", "show", "abcdef").err
    assert all(each in unclear for each in ids)


def test_a_snapshot_is_shown_with_the_epsilon_that_it_was_asked(
    peewit: Peewit, tmp_path: Path
) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst\na,b\n")
    peewit("graph", "create", "g", "--epsilon", 0.7)
    peewit("ingest", "g", edges)
    peewit("graph", "set", "g", "--epsilon", 0.5)
    assert "0.5 (snapshot 1: 0.7)" in peewit("graph", "show", "g").out
    peewit("ingest", "g", edges)
    assert "(snapshot" not in peewit("graph", "show", "g").out


@pytest.mark.parametrize("place", ["", "/*.csv"])
def test_files_whose_names_are_no_text_are_told(peewit: Peewit, tmp_path: Path, place: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("src,dst\na,b\n")
    Path(os.fsdecode(os.fsencode(data) + b"/\xff.csv")).write_text("src,dst\na,b\n")
    line = f"passed over {data}/\\xff.csv: the name of a file must be UTF-8\n"
    peewit("graph", "create", "g")
    dry = peewit("ingest", "g", f"{data}{place}", "--dry-run", "--json")
    assert dry.err == line
    assert dry.json["passed_over"] == [f"{data}/\\xff.csv"]
    assert len(dry.json["files"]) == 1
    assert line in peewit("ingest", "g", f"{data}{place}").err
