"""Several label columns by the commands alone."""

import json
from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit
from tests.service.solvable import two_communities


@pytest.fixture
def labels(peewit: Peewit, tmp_path: Path) -> Path:
    """A file with columns hue and size for graph g, which has edges."""
    u, v = two_communities()
    rows = [f"n{a},n{b}" for a, b in zip(u, v, strict=True)]
    (tmp_path / "edges.csv").write_text("\n".join(["src,dst", *rows]))
    peewit("graph", "create", "g")
    assert peewit("ingest", "g", tmp_path / "edges.csv").exit_code == 0
    path = tmp_path / "labels.csv"
    path.write_text("node,hue,size\nn3,red,1\nn33,blue,2\nn5,,1\n")
    return path


BOTH = ("--label-column", "hue", "--label-column", "size")


@pytest.mark.usefixtures("processes")
def test_columns_are_put_solved_and_written(peewit: Peewit, labels: Path, tmp_path: Path) -> None:
    taken = peewit("labels", "put", "g", labels, *BOTH, "--json").json
    assert taken["accepted"] == 5
    shown = peewit("labels", "columns", "g", "--json").json["label_columns"]
    assert [(each["name"], each["n_labeled"]) for each in shown] == [("hue", 2), ("size", 3)]
    assert "labels, hue" in peewit("graph", "show", "g").out

    jobs = peewit("solve", "g", "--model", "hfs", *BOTH, "--json").json["jobs"]
    assert [job["parameters"]["label_column"] for job in jobs] == ["hue", "size"]
    assert [job["status"] for job in jobs] == ["succeeded"] * 2
    assert [job["snapshot"] for job in jobs] == [1, 1]
    assert [job["result"]["warm"] for job in jobs] == [False, True]

    told = peewit("predictions", "g", "--label-column", "hue", "--top", "1", "--json")
    assert json.loads(told.out)["label"] in {"red", "blue"}
    assert peewit("predictions", "g").exit_code == 1
    of_size = jobs[1]["id"]
    by_job = peewit("predictions", "g", "--job", of_size[-8:], "--top", "1", "--json")
    assert json.loads(by_job.out)["label"] in {1, 2}
    other = peewit("predictions", "g", "--job", of_size, "--label-column", "hue")
    assert f"job {of_size} is for label column 'size', not for label column 'hue'" in other.err

    peewit("labels", "remove", "g", "n5", "--label-column", "size")
    exported = peewit("labels", "export", "g", "--label-column", "size").out.splitlines()
    assert exported == [
        '"node","size","origin","annotator","key"',
        '"n3",1,"imported",,',
        '"n33",2,"imported",,',
    ]
    one = peewit("solve", "g", "--model", "hfs", "--label-column", "size", "--json").json
    assert one["result"]["n_labels"] == 2
    assert "label column" in peewit("jobs", "list").out
