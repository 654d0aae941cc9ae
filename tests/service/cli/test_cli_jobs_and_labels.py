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
    assert peewit("jobs", "list", "--kind", "tune", "--json").json == []
    assert len(peewit("jobs", "list", "--kind", "solve", "--json").json) == 1
    waited = peewit("jobs", "wait", job[-8:], "--json")
    assert (waited.exit_code, waited.json["status"]) == (0, "succeeded")
    assert "no job" in peewit("jobs", "wait", "ffffffff").err
