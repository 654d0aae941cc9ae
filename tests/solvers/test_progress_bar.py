"""Bars of what calls tell, in a terminal; the notebook among the pages shows one there."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from peewit import HFSRegressor, LapSVM, LinearSVM, ProgressBar, StableHFS, sparsify
from peewit.solvers.iteration_loop import ProgressReport
from peewit.streaming.calls import sparsify_call
from peewit.streaming.edges.parts import PART_ROWS


def shown(reports: list[Any]) -> str:
    page = io.StringIO()
    with ProgressBar(Console(file=page, force_terminal=True, width=90)) as bar:
        for report in reports:
            bar(report)
            bar._bar._progress.refresh()
    return page.getvalue()


def test_reports_and_jobs_are_shown_with_their_phase() -> None:
    report = ProgressReport(phase="edges", n_iter=1, max_iter=4, fraction=0.25)
    job = SimpleNamespace(phase=None, status="queued", progress=None)
    page = shown([report, job])
    assert "edges" in page
    assert "25%" in page
    assert "queued" in page
    assert "done" in page
    assert "100%" in page


def test_a_call_that_fails_is_not_done() -> None:
    page = io.StringIO()
    bar = ProgressBar(Console(file=page, force_terminal=True))
    with pytest.raises(ValueError, match="epsilon"), bar:
        sparsify([("a", "b")], epsilon=2.0, progress=bar)
    assert "done" not in page.getvalue()


@pytest.mark.parametrize("method", ["dependent", "kelner-levin"])
def test_sparsify_tells_how_many_edges_are_done(method: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(sparsify_call, "PART_ROWS", 100)
    told: list[ProgressReport] = []
    u, v = np.triu_indices(70, 1)
    result = sparsify((u, v), 0.7, method=method, progress=told.append)
    assert {report.phase for report in told} == {"edges"}
    done = [report.n_iter for report in told]
    assert (done[0], done[-1], told[-1].fraction) == (0, u.size, 1.0)
    assert done == sorted(done)
    assert len(done) > (3 if method == "dependent" else 1)
    assert result.edges_kept == sparsify((u, v), 0.7, method=method).edges_kept


def test_sparsify_tells_which_file_it_reads(tmp_path: Any) -> None:
    for name in ("a", "b"):
        u = np.arange(500)
        table = pa.table({"src": u, "dst": u + (1 if name == "a" else 2)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    told: list[ProgressReport] = []
    sparsify(tmp_path, progress=told.append)
    assert PART_ROWS > 500
    assert [(each.phase, each.n_iter, each.max_iter) for each in told] == [
        ("edges of file 1 of 2", 0, 500),
        ("edges of file 1 of 2", 500, 500),
        ("edges of file 2 of 2", 0, 500),
        ("edges of file 2 of 2", 500, 500),
    ]


@pytest.mark.parametrize(
    "model",
    [StableHFS(probabilities=True), HFSRegressor(), LapSVM(sets=True), LinearSVM()],
    ids=lambda model: type(model).__name__,
)
def test_estimators_tell_how_far_a_fit_is(model: Any) -> None:
    told: list[ProgressReport] = []
    points = np.random.default_rng(0).normal(size=(60, 3)) + 3 * (np.arange(60) % 2)[:, None]
    y = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    if isinstance(model, HFSRegressor | StableHFS):
        model.set_params(affinity="knn")
    model.fit(points, y, progress=told.append)
    assert told
    assert max(each.fraction for each in told) > 0.0
