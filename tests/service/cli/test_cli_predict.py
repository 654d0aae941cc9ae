"""`peewit solve` on features, and `peewit predict` of new points."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.settings import Settings
from tests.service.cli.conftest import Peewit
from tests.service.solvable import Solvable, parity_features, two_communities

pytestmark = pytest.mark.usefixtures("processes")

POINTS = parity_features(60)


@pytest.fixture
def database(home: Path) -> Iterator[Database]:
    database = open_database(Settings(home=home, database_url=None).database)
    yield database
    database.close()


@pytest.fixture
def labeled(peewit: Peewit, home: Path, database: Database, tmp_path: Path) -> Peewit:
    """A graph of 60 nodes with four labels; 57 nodes have features."""
    u, v = two_communities()
    pa.parquet.write_table(pa.table({"src": u, "dst": v}), tmp_path / "edges.parquet")
    (tmp_path / "labels.csv").write_text("node,label\n4,even\n36,even\n7,odd\n33,odd\n")
    assert peewit("graph", "create", "g", "--node-ids", "dense").exit_code == 0
    assert peewit("ingest", "g", tmp_path / "edges.parquet").exit_code == 0
    assert peewit("labels", "put", "g", tmp_path / "labels.csv").exit_code == 0
    graph = Catalog(database).get("g")
    settings = Settings(home=home, database_url=None)
    Solvable(database=database, settings=settings, graph_id=graph.id).features(1, POINTS[:57])
    return peewit


def test_points_are_predicted_by_the_freshest_solve_on_features(
    labeled: Peewit, tmp_path: Path
) -> None:
    solved = labeled("solve", "g", "--model", "svm", "--details")
    assert "used features_version 1; 3 nodes have none and get no label" in solved.err
    assert labeled("solve", "g", "--model", "hfs").exit_code == 0
    rows = ["a,b,c", *(",".join(map(repr, row.tolist())) for row in POINTS)]
    (tmp_path / "points.csv").write_text("\n".join(rows))
    told = labeled("predict", "g", tmp_path / "points.csv")
    assert told.out.splitlines()[0] == '"label","score","margin","score:even","score:odd"'
    labels = [line.split(",")[0] for line in told.out.splitlines()[1:]]
    assert labels == ['"even"', '"odd"'] * 30
    assert "predicted by svm (job " in told.err
    output = tmp_path / "out.parquet"
    wrote = labeled("predict", "g", tmp_path / "points.csv", "-o", output)
    assert "wrote 60 predictions of svm" in wrote.err
    assert pa.parquet.read_table(output)["label"].to_pylist() == ["even", "odd"] * 30


def test_what_cannot_be_predicted_says_why(labeled: Peewit, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("a,b\n1,2\n")
    none = labeled("predict", "g", path)
    assert none.exit_code == 1
    assert (
        "give its nodes features and solve with --model, one of cheeger-rls, cheeger-svm"
        in none.err
    )
    graph_only = labeled("solve", "g", "--model", "hfs", "--json").json["id"]
    refused = labeled("predict", "g", path, "--job", graph_only)
    assert refused.exit_code == 1
    assert "which is a solve by hfs" in refused.err
    assert labeled("solve", "g", "--model", "svm").exit_code == 0
    short = labeled("predict", "g", path)
    assert short.exit_code == 1
    assert "must hold 3 numbers, as those the model was trained on, got 2 in row 0" in short.err
    assert labeled("predict", "g", path, "--job", "none").exit_code == 1
    assert labeled("predict", "g", tmp_path / "labels.csv", "-o", "x.txt").exit_code == 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("points.npz", ()),
        ("points.txt", ("--from-libsvm",)),
        ("zero.txt", ("--from-libsvm", "--zero-based")),
    ],
)
def test_matrices_of_new_points_are_predicted(
    labeled: Peewit, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    assert labeled("solve", "g", "--model", "linear-svm").exit_code == 0
    if options:
        first = 0 if "--zero-based" in options else 1
        rows = (
            " ".join(["0", *(f"{first + k}:{float(value)!r}" for k, value in enumerate(row))])
            for row in POINTS
        )
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    else:
        sp.save_npz(tmp_path / name, sp.csr_array(POINTS))
    told = labeled("predict", "g", tmp_path / name, *options)
    labels = [line.split(",")[0] for line in told.out.splitlines()[1:]]
    assert labels == ['"even"', '"odd"'] * 30
    sp.save_npz(tmp_path / "wide.npz", sp.csr_array(np.ones((2, 4))))
    refused = labeled("predict", "g", tmp_path / "wide.npz")
    assert refused.exit_code == 1
    assert "'indices' must lie in [0, 2], as those the model was trained on" in refused.err
