"""Commands that only look at or change the stores: graphs, sources, labels, keys."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.cli import _MODULE_OF
from tests.service.cli.conftest import REPOSITORY, Lapwing


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": ["a", "b"], "dst": ["b", "c"]}), path)
    return path


def test_help_lists_every_command_but_hidden_ones(lapwing: Lapwing, home: Path) -> None:
    done = lapwing("--help")
    assert done.exit_code == 0
    for name in _MODULE_OF.keys() - {"warm", "health"}:
        assert f"\n  {name} " in done.out
    assert "warm" not in done.out
    assert not home.exists()


def test_unknown_command_is_wrong_usage(lapwing: Lapwing) -> None:
    done = lapwing("frobnicate")
    assert done.exit_code == 2
    assert "No such command 'frobnicate'" in done.err


def test_graph_is_created_shown_changed_and_deleted(lapwing: Lapwing) -> None:
    created = lapwing("graph", "create", "g", "--epsilon", "0.5", "--seed", "7", "--json")
    assert created.exit_code == 0
    assert created.json["settings"]["epsilon"] == 0.5
    assert lapwing("graph", "set", "g", "--max-edges", "1000").exit_code == 0
    shown = lapwing("graph", "show", "g", "--json").json
    assert shown["settings"]["max_edges"] == 1000
    assert shown["settings"]["seed"] == 7
    assert shown["backlog"]["n_files"] == 0
    assert lapwing("graph", "set", "g", "--max-edges", "0", "--rename", "h").exit_code == 0
    assert [each["settings"]["name"] for each in lapwing("graph", "list", "--json").json] == ["h"]
    assert "epsilon asked" in lapwing("graph", "show", "h").out
    assert lapwing("graph", "delete", "h", "--yes").exit_code == 0
    assert lapwing("graph", "list", "--json").json == []


def test_auto_solve_and_snapshots_are_set_and_taken_back(lapwing: Lapwing) -> None:
    model = ("--auto-solve", "stable-hfs", "--set", "graph_penalty=1")
    lapwing("graph", "create", "g", *model, "--snapshot-edges", "500")
    settings = lapwing("graph", "show", "g", "--json").json["settings"]
    assert settings["auto_solve"] == {"model": "stable-hfs", "parameters": {"graph_penalty": 1}}
    assert settings["snapshot_every"] == {"edges": 500, "seconds": None}
    lapwing("graph", "set", "g", "--auto-solve", "none", "--snapshot-edges", "0")
    settings = lapwing("graph", "show", "g", "--json").json["settings"]
    assert settings["auto_solve"] is None
    assert settings["snapshot_every"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", "1.5"),
        ("--node-ids", "float"),
        ("--auto-solve", "no-such-model"),
        ("--auto-solve", "stable-hfs", "--set", "no_such_parameter=1"),
        ("--auto-solve", "stable-hfs", "--set", "nonsense"),
        ("--set", "graph_penalty=1"),
    ],
)
def test_settings_that_break_a_rule_are_wrong_usage(
    lapwing: Lapwing, arguments: tuple[str, ...]
) -> None:
    assert lapwing("graph", "create", "g", *arguments).exit_code == 2
    assert lapwing("graph", "list", "--json").json == []


def test_fixed_setting_of_a_graph_that_exists_is_an_error_of_one_line(lapwing: Lapwing) -> None:
    lapwing("graph", "create", "g")
    done = lapwing("graph", "create", "g")
    assert done.exit_code == 1
    assert done.err.startswith("lapwing: name must be new, got 'g'")
    assert done.err.count("\n") == 1


def test_missing_graph_is_named(lapwing: Lapwing) -> None:
    done = lapwing("graph", "show", "nowhere")
    assert done.exit_code == 1
    assert "no graph 'nowhere'" in done.err


def test_environment_that_breaks_a_rule_is_named(
    lapwing: Lapwing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPWING_THREADS", "0")
    done = lapwing("graph", "list")
    assert done.exit_code == 1
    assert "LAPWING_THREADS" in done.err


@pytest.mark.parametrize("what", ["a file", "a directory", "garbage"])
def test_a_database_that_cannot_be_opened_is_named_in_one_line(
    lapwing: Lapwing, home: Path, what: str
) -> None:
    if what == "a file":
        home.write_text("not a directory")
    elif what == "a directory":
        (home / "lapwing.db").mkdir(parents=True)
    else:
        home.mkdir()
        (home / "lapwing.db").write_text("no database " * 1000)
    for command in (("graph", "list"), ("serve",), ("worker",), ("ingest", "--follow")):
        done = lapwing(*command)
        assert done.exit_code == 1
        assert done.err.count("\n") == 1
        assert f"the database {home / 'lapwing.db'} must be a SQLite file" in done.err
        assert "LAPWING_HOME" in done.err
    examined = lapwing("doctor", "--json")
    assert (examined.exit_code, examined.json["healthy"]) == (1, False)
    assert "LAPWING_HOME" in examined.json["findings"][0]["text"]


def test_source_is_kept_as_an_absolute_path(
    lapwing: Lapwing, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lapwing("graph", "create", "g")
    monkeypatch.chdir(edges.parent)
    added = lapwing("source", "add", "g", "edges.parquet", "--follow", "--json").json
    assert added["url"] == str(edges)
    listed = lapwing("source", "list", "g", "--json").json
    assert [each["source"]["url"] for each in listed["sources"]] == [str(edges)]
    assert str(edges) in lapwing("source", "list", "g").out
    assert lapwing("source", "retry", "g", added["id"], "--json").json == {"n_files": 0}
    assert lapwing("source", "remove", "g", "edges.parquet").exit_code == 0
    assert lapwing("source", "list", "g", "--json").json["sources"] == []
    assert lapwing("source", "remove", "g", "edges.parquet").exit_code == 1


def test_source_that_is_not_there_is_not_added(lapwing: Lapwing, tmp_path: Path) -> None:
    lapwing("graph", "create", "g")
    done = lapwing("source", "add", "g", tmp_path / "nothing.parquet")
    assert done.exit_code == 1
    assert "nothing.parquet" in done.err
    assert lapwing("source", "list", "g", "--json").json["sources"] == []


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_labels_come_back_as_they_were_put(lapwing: Lapwing, tmp_path: Path, suffix: str) -> None:
    lapwing("graph", "create", "g")
    given = tmp_path / "given.ndjson"
    given.write_text('{"node": "a", "label": 3}\n{"node": "b", "label": 4}\n')
    put = lapwing("labels", "put", "g", given, "--unknown", "keep", "--json").json
    assert put["accepted"] == 2
    copy = tmp_path / f"copy.{suffix}"
    assert lapwing("labels", "export", "g", copy, "--json").json["n_labels"] == 2
    assert lapwing("labels", "put", "g", copy, "--unknown", "keep").exit_code == 0
    assert lapwing("labels", "export", "g").out.replace('"', "") == "node,label\na,3\nb,4\n"


def test_reader_that_stops_early_is_no_failure(lapwing: Lapwing, tmp_path: Path) -> None:
    lapwing("graph", "create", "g")
    given = tmp_path / "given.csv"
    given.write_text("node,label\n" + "".join(f"node-{number},1\n" for number in range(20_000)))
    lapwing("labels", "put", "g", given, "--unknown", "keep")
    export = f"{sys.executable} -m service.cli labels export g | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", export],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, '"node","label"\n', "")


def test_labels_of_unknown_nodes_are_refused_by_name(lapwing: Lapwing, tmp_path: Path) -> None:
    lapwing("graph", "create", "g")
    given = tmp_path / "given.csv"
    given.write_text("node,label\nzebra,1\n")
    done = lapwing("labels", "put", "g", given)
    assert done.exit_code == 1
    assert "unknown node zebra" in done.err
    assert lapwing("graph", "show", "g", "--json").json["labels_seq"] == 0


def test_wrong_label_file_names_the_row(lapwing: Lapwing, tmp_path: Path) -> None:
    lapwing("graph", "create", "g")
    given = tmp_path / "given.ndjson"
    given.write_text('{"node": "a", "label": 1}\n{"node": "b", "label": null}\n')
    done = lapwing("labels", "put", "g", given, "--unknown", "keep")
    assert done.exit_code == 1
    assert "row 1" in done.err
    assert lapwing("labels", "put", "g", tmp_path / "none.csv").exit_code == 2
    other = tmp_path / "labels.xls"
    other.write_text("")
    assert lapwing("labels", "put", "g", other).exit_code == 2


def test_key_is_shown_once_and_can_be_revoked(lapwing: Lapwing) -> None:
    key = lapwing("key", "create", "reader", "--scope", "read").out.strip()
    prefix, _, secret = key.partition(".")
    listed = lapwing("key", "list")
    assert prefix in listed.out
    assert secret not in listed.out
    assert "last used" in listed.out
    assert lapwing("key", "list", "--json").json[0]["last_used_at"] is None
    assert lapwing("key", "revoke", key).exit_code == 0
    assert lapwing("key", "list", "--json").json[0]["revoked_at"] is not None
    assert lapwing("key", "create", "x", "--scope", "everything").exit_code == 2
    assert lapwing("key", "revoke", "lw_none").exit_code == 1


def test_predictions_before_a_solve_say_what_to_do(lapwing: Lapwing, tmp_path: Path) -> None:
    lapwing("graph", "create", "g")
    done = lapwing("predictions", "g")
    assert done.exit_code == 1
    assert "lapwing solve g`" in done.err
    assert "lapwing solve g --model hfs`" in lapwing("predictions", "g", "--model", "hfs").err
    assert "model must be one of" in lapwing("predictions", "g", "--model", "best").err
    assert lapwing("predictions", "g", "-o", tmp_path / "file.xls").exit_code == 2


def test_version_names_what_it_computes_with(lapwing: Lapwing) -> None:
    versions = lapwing("version", "--json").json
    assert {"lapwing", "python", "numba"} <= versions.keys()
