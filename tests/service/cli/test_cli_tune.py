"""`peewit tune`, without a server."""

import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from peewit.service.cli.labels.table_files import parsed_settings
from tests.service.cli.conftest import Peewit
from tests.service.featured import clusters, feature_table


@pytest.fixture
def graph(processes: None, peewit: Peewit, tmp_path: Path) -> str:
    pq.write_table(feature_table(clusters()), tmp_path / "features.parquet")
    lines = [f"n{node},{'left' if node < 30 else 'right'}" for node in range(0, 60, 4)]
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *lines]))
    peewit("graph", "create", "g", "--expected-nodes", 60)
    peewit("features", "g", tmp_path / "features.parquet")
    peewit("graph", "knn", "g", "--k", 5)
    assert peewit("labels", "put", "g", tmp_path / "labels.csv").exit_code == 0
    return "g"


def test_the_best_is_told_as_a_command(peewit: Peewit, graph: str) -> None:
    options = ("--grid", "norm_penalty=0.01,100", "--grid", "power=1,2", "--set", "width=30")
    told = peewit("tune", graph, *options)
    assert told.exit_code == 0
    assert "norm_penalty" in told.out
    assert "right for 100.0% of 15 labels left out in 5 folds" in told.err
    command = told.out.splitlines()[-1].split()
    assert command[:3] == ["peewit", "solve", graph]
    assert "width=30" in command
    assert peewit(*command[1:]).exit_code == 0


def test_the_command_reads_back_as_the_values_it_names(peewit: Peewit, graph: str) -> None:
    balance = '{"left": 2, "right": 1}'
    options = ("--model", "poisson-mbo", "--grid", "n_outer=2", "--set", f"class_balance={balance}")
    told = peewit("tune", graph, *options)
    assert told.exit_code == 0, told.err
    command = shlex.split(told.out.splitlines()[-1])
    settings = [word for word in command if word.startswith("class_balance=")]
    assert parsed_settings(settings) == {"class_balance": {"left": 2, "right": 1}}
    assert peewit(*command[1:]).exit_code == 0


def test_json_has_every_trial(peewit: Peewit, graph: str) -> None:
    job = peewit("tune", graph, "--folds", 3, "--json").json
    assert job["status"] == "succeeded"
    assert len(job["result"]["trials"]) == 16
    assert job["result"]["n_folds"] == 3
