"""Numbers from labels to evaluation by the commands alone."""

from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit

N_NODES = 60


def written(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.usefixtures("processes")
def test_numbers_are_predicted_and_judged_and_words_are_none(
    peewit: Peewit, tmp_path: Path
) -> None:
    path_edges = [f"{node},{node + 1}" for node in range(N_NODES - 1)]
    edges = written(tmp_path / "edges.csv", "src,dst", path_edges)
    peewit("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", 100)
    assert peewit("ingest", "g", edges).exit_code == 0
    words = written(tmp_path / "words.ndjson", '{"node": 3, "label": "low"}', [])
    assert peewit("labels", "put", "g", words).exit_code == 0
    refused = peewit("solve", "g", "--model", "hfs", "--set", "target=real")
    assert refused.exit_code == 1
    assert "node '3' has 'low'" in refused.err
    peewit("labels", "remove", "g", 3)

    truth = [f"{node},{node / 4}" for node in range(N_NODES)]
    labels = written(tmp_path / "labels.csv", "node,label", [*truth[::3], "1,nan"])
    assert "left out 1 row: 1 'nan'" in peewit("labels", "put", "g", labels).err
    assert peewit("solve", "g", "--model", "hfs", "--set", "target=real").exit_code == 0
    every = written(tmp_path / "truth.csv", "node,label", truth)
    judged = peewit("evaluate", "g", every, "--json").json["of_numbers"]
    assert judged["n_judged"] == N_NODES - len(truth[::3])
    assert judged["rmse"] < 0.5
    shown = peewit("evaluate", "g", every).out
    assert "RMSE" in shown
    assert "accuracy" not in shown
