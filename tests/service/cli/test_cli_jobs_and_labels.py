"""Jobs that are waited for, and labels that are listed and taken back."""

from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit


def test_labels_are_listed_and_taken_back(peewit: Peewit, tmp_path: Path) -> None:
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text("src,dst\na,b\nb,c\n")
    labels.write_text("node,label\nc,y\na,x\nb,x\n")
    peewit("graph", "create", "g")
    peewit("ingest", "g", edges)
    peewit("labels", "put", "g", labels)
    listed = peewit("labels", "list", "g", "--json").json
    assert [(each["node"], each["label"]) for each in listed] == [
        ("a", "x"),
        ("b", "x"),
        ("c", "y"),
    ]
    assert len(peewit("labels", "list", "g", "--label", "x", "--json").json) == 2
    some = peewit("labels", "list", "g", "-n", "1")
    assert "and 2 more" in some.err
    taken = peewit("labels", "remove", "g", "a", "nobody", "--json")
    assert taken.json["accepted"] == 1
    assert len(peewit("labels", "list", "g", "--json").json) == 2
    assert peewit("labels", "remove", "g", "").exit_code == 1


@pytest.mark.usefixtures("processes")
def test_a_job_that_has_ended_is_waited_for_no_longer(peewit: Peewit, tmp_path: Path) -> None:
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text("src,dst\na,b\nb,c\n")
    labels.write_text("node,label\na,x\nc,y\n")
    peewit("graph", "create", "g")
    peewit("ingest", "g", edges)
    peewit("labels", "put", "g", labels)
    job = peewit("solve", "g", "--json").json["id"]
    assert peewit("jobs", "list", "--kind", "tune", "--json").json["jobs"] == []
    assert len(peewit("jobs", "list", "--kind", "solve", "--json").json["jobs"]) == 1
    waited = peewit("jobs", "wait", job[-8:], "--json")
    assert (waited.exit_code, waited.json["status"]) == (0, "succeeded")
    assert "no job" in peewit("jobs", "wait", "ffffffff").err


@pytest.fixture
def labeled(peewit: Peewit, tmp_path: Path) -> Path:
    """A file for labels of a graph with the nodes a to e."""
    (tmp_path / "edges.csv").write_text("src,dst\na,b\nb,c\nc,d\nd,e\n")
    peewit("graph", "create", "g")
    peewit("ingest", "g", tmp_path / "edges.csv")
    return tmp_path / "labels.csv"


def test_numbers_among_text_are_refused_and_named(peewit: Peewit, labeled: Path) -> None:
    mixed = labeled.with_suffix(".ndjson")
    rows = ('{"node": "a", "label": "bot"}', '{"node": "b", "label": 3}')
    mixed.write_text("\n".join(rows))
    refused = peewit("labels", "put", "g", mixed)
    assert refused.exit_code == 1
    assert refused.err == (
        "peewit: label of node 'b' must be text: the labels of a graph are all text or all "
        "numbers, and node 'a' has 'bot', got 3 in row 1 (rows count from 0)\n"
    )
    mixed.write_text(rows[0])
    assert peewit("labels", "put", "g", mixed).exit_code == 0
    mixed.write_text(rows[1].replace("3", "3.5"))
    assert "node 'a' has 'bot', got 3.5 in row 0" in peewit("labels", "put", "g", mixed).err
    mixed.write_text('{"node": "a", "label": 3.5}')  # of all labels that there are
    assert peewit("labels", "put", "g", mixed).exit_code == 0
    mixed.write_text('{"node": "b", "label": "human"}')
    assert "must be a number: " in peewit("labels", "put", "g", mixed).err
    peewit("labels", "remove", "g", "a")
    assert peewit("labels", "put", "g", mixed).exit_code == 0


def test_where_labels_come_from_is_said_and_listed(peewit: Peewit, labeled: Path) -> None:
    labeled.write_text("node,label\na,bot\n")
    peewit("labels", "put", "g", labeled)
    labeled.write_text("node,label\nb,human\n")
    peewit("labels", "put", "g", labeled, "--origin", "random")
    listed = peewit("labels", "list", "g", "--json").json
    assert [(each["node"], each["origin"]) for each in listed] == [
        ("a", "imported"),
        ("b", "random"),
    ]
    assert "random" in peewit("labels", "list", "g").out
    refused = peewit("labels", "put", "g", labeled, "--origin", "luck")
    assert refused.exit_code == 2
    assert "--origin" in refused.err
    assert "'luck'" in refused.err
    labeled.write_text("node,label,origin,annotator\na,bot,suggested,Ann\nb,human,,\n")
    peewit("labels", "put", "g", labeled)
    listed = peewit("labels", "list", "g", "--json").json
    assert [(each["origin"], each["annotator"]) for each in listed] == [
        ("suggested", "Ann"),
        ("imported", None),
    ]
    peewit("labels", "put", "g", labeled, "--origin", "given", "--annotator", "Bob")
    listed = peewit("labels", "list", "g", "--json").json
    assert {(each["origin"], each["annotator"]) for each in listed} == {("given", "Bob")}


def test_digits_of_a_csv_are_text_where_the_labels_are(peewit: Peewit, labeled: Path) -> None:
    labeled.write_text("node,label\na,bot\nb,3\n")
    peewit("labels", "put", "g", labeled)
    labeled.write_text("node,label\nc,3\nd,4.5\n")
    assert peewit("labels", "put", "g", labeled).exit_code == 0
    found = peewit("labels", "list", "g", "--json").json
    assert [each["label"] for each in found] == ["bot", "3", "3", "4.5"]
    peewit("labels", "remove", "g", "a", "b", "c", "d")
    assert peewit("labels", "put", "g", labeled).exit_code == 0
    found = peewit("labels", "list", "g", "--json").json
    assert [each["label"] for each in found] == [3.0, 4.5]


def test_labels_are_exported_by_suffix(peewit: Peewit, labeled: Path, tmp_path: Path) -> None:
    labeled.write_text("node,label\na,bot\nb,human\n")
    peewit("labels", "put", "g", labeled)
    for suffix in (".csv", ".ndjson", ".parquet"):
        written = tmp_path / f"out{suffix}"
        told = peewit("labels", "export", "g", "-o", written, "--json").json
        assert (told["path"], told["n_labels"]) == (str(written), 2)
        assert peewit("labels", "put", "g", written).exit_code == 0
    first = (tmp_path / "out.ndjson").read_text().splitlines()[0]
    assert first == '{"node":"a","label":"bot","origin":"imported","annotator":null}'
    both = peewit("labels", "export", "g", tmp_path / "a.csv", "-o", tmp_path / "b.csv")
    assert both.exit_code == 2
