"""Kinds of edges from the command line: of all rows, of each row, or of each column of events."""

from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit

EVENTS = "who,device,ip,kind\n1,x,7,login\n2,,7,card\n3,x,8,login\n1,NULL,8,card\n"


@pytest.fixture
def events(tmp_path: Path, peewit: Peewit) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(EVENTS)
    peewit("graph", "create", "g", "--expected-nodes", "20")
    return path


def test_events_are_ingested_as_stars(events: Path, peewit: Peewit) -> None:
    options = ("--entity", "account:who", "--via", "device:device,ip:ip")
    dry = peewit("ingest", "g", events, *options, "--dry-run")
    assert dry.exit_code == 0, dry.err
    lines = [line.split() for line in dry.out.splitlines()]
    assert ["device", "2"] in [line[-2:] for line in lines]
    assert ["ip", "4"] in [line[-2:] for line in lines]
    told = peewit("ingest", "g", events, *options, "--dry-run", "--json").json
    assert told["files"][0]["relations"] == {"device": 2, "ip": 4}
    read = peewit("ingest", "g", events, *options)
    assert read.exit_code == 0, read.err
    shown = peewit("graph", "show", "g").out.splitlines()
    assert ["empty", "cells", "of", "via", "columns", "dropped", "2"] in map(str.split, shown)
    assert peewit("graph", "show", "g", "--json").json["settings"]["columns"] == {}
    named = "--entity", "account:who", "--via", "device:device,ip"  # of a kind of its own name
    told = peewit("ingest", "g", events, *named, "--dry-run", "--json").json
    assert told["files"][0]["relations"] == {"device": 2, "ip": 4}
    named = "--entity", "account:who", "--via", "device:device"
    added = peewit("source", "add", "g", events.parent, *named, "--follow", "--json").json
    assert added["columns"] == {"entity": "account:who", "via": "device:device"}


def test_an_entity_that_is_in_another_column_is_told(tmp_path: Path, peewit: Peewit) -> None:
    peewit("graph", "create", "g", "--node-ids", "int64")
    (tmp_path / "e.csv").write_text("who,device,ip\n1,,7\n2,1,\n")
    read = peewit("ingest", "g", tmp_path / "e.csv", "--entity", "who", "--via", "ip,device")
    assert read.exit_code == 0, read.err
    assert "1 is in 'who' and in 'device': one node" in read.err
    assert "as --entity KIND:who" in read.err


def test_relations_of_rows_and_files_are_told(events: Path, peewit: Peewit) -> None:
    ends = ("--src", "who", "--dst", "ip")
    column = ("--relation-column", "kind")
    told = peewit("ingest", "g", events, *ends, *column, "--dry-run", "--json").json
    assert told["files"][0]["relations"] == {"login": 2, "card": 2}
    one = ("--relation", "login")
    told = peewit("ingest", "g", events, *ends, *one, "--dry-run", "--json").json
    assert told["files"][0]["relations"] == {"login": 4}
    read = peewit("ingest", "g", events, *ends, *column)
    assert read.exit_code == 0, read.err
    assert peewit("graph", "show", "g", "--json").json["edges_seen"] == 4


def test_other_columns_of_a_file_that_was_read_are_told_not_to_be_read(
    events: Path, peewit: Peewit
) -> None:
    for column, told in (("device", False), ("device", False), ("ip", True)):
        ends = ("--src", "account:who", "--dst", f"{column}:{column}", "--relation", column)
        read = peewit("ingest", "g", events, *ends, "--skip-bad-rows", 9)
        assert read.exit_code == 0, read.err
        assert (
            "is not read again with others: name all columns at once by --via" in read.err
        ) == told


@pytest.mark.thinned(2)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_exported_comes_in_again_with_its_relations(
    tmp_path: Path, peewit: Peewit, suffix: str
) -> None:
    rows = "src,dst,weight,kind\na,b,1,login\nb,c,2,login\nb,a,3,card\nc,d,4,card\n"
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "plain.csv").write_text("src,dst\na,d\n")
    peewit("graph", "create", "g")
    column = ("--relation-column", "kind")
    assert peewit("ingest", "g", tmp_path / "rows.csv", *column).exit_code == 0
    shown = peewit("graph", "show", "g").out
    assert "4 rows, 3 different pairs, counted once over all relations, all kept" in shown
    assert peewit("ingest", "g", tmp_path / "plain.csv").exit_code == 0
    paths = {name: tmp_path / f"{name}.{suffix}" for name in "gh"}
    assert peewit("graph", "export", "g", "-o", paths["g"]).exit_code == 0
    peewit("graph", "create", "h")
    again = ("--relation-column", "relation", "--missing-ids", "keep")
    read = peewit("ingest", "h", paths["g"], *again)
    assert read.exit_code == 0, read.err
    assert peewit("graph", "export", "h", "-o", paths["h"]).exit_code == 0
    assert paths["h"].read_bytes() == paths["g"].read_bytes()
    listed = [
        [
            (each["name"], each["n_edges"], each["volume"])
            for each in peewit("graph", "relations", name, "--json").json["relations"]
        ]
        for name in paths
    ]
    assert listed[0] == listed[1] == [("login", 2, 6.0), ("card", 2, 14.0), ("", 1, 2.0)]
    if suffix == "csv":
        assert paths["g"].read_text().splitlines()[:2] == [
            '"src","dst","weight","relation"',
            '"a","b",1,"login"',
        ]
