"""Jobs that are waited for, and labels that are listed and taken back."""

from contextlib import closing
from pathlib import Path

import pytest

from peewit.service.home import Home
from peewit.service.jobs.job import JobSpec
from peewit.service.settings import Settings
from tests.service.cli.conftest import Peewit


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


@pytest.mark.usefixtures("labeled")
def test_a_running_job_is_asked_to_stop_and_the_command_says_so(peewit: Peewit, home: Path) -> None:
    with closing(Home.open(Settings(home=home))) as stores:
        waiting, running = (
            stores.jobs.submit(
                JobSpec(graph_id=stores.catalog.get("g").id, model=model, parameters={})
            )
            for model in ("hfs", "poisson")
        )
        assert stores.jobs.claim("w", ("fast", "heavy"), job_id=running.id) is not None
    assert peewit("jobs", "cancel", waiting.id).err.endswith(f"{waiting.id} cancelled\n")
    asked = peewit("jobs", "cancel", running.id).err
    assert f"{running.id} running, asked to stop; `peewit jobs wait " in asked
