"""A first run compiles the kernels that its progress line counts, each for one set of types."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from peewit.service.cli.machine.first_run_kernels import INGEST
from peewit.service.database.engine import open_database
from peewit.service.demo.digits import digit_edges, digit_labels, draw_labels
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from tests.end_to_end.processes import REPOSITORY, Home

TWO_PRECISIONS = {
    f"solvers.kernels.{name}"
    for name in (
        "adjacency.row_sums",
        "laplacian_products._add_products",
        "laplacian_products._all_columns",
        "laplacian_products._four_columns",
        "laplacian_products._one_column",
        "laplacian_products._step",
        "laplacian_products._two_columns",
        "laplacian_products.advance",
        "laplacian_products.column_dots",
        "laplacian_products.component_sums",
        "laplacian_products.laplacian_rows",
        "laplacian_products.redirect_by_rows",
        "laplacian_products.subtract_by_component",
        "multigrid.renumber_rows",
        "multigrid.resize_rows",
    )
}
"""The bounds of a spectrum take float64; resistances, walks and labels are found in float32."""

WEIGHTS_AND_KEYS = {"solvers.kernels.resistance_records.fill_rows"}
"""Puts both into rows: numbers of the same size, but of two types."""

LIST_KEPT = """
import json
import peewit.service.kernel_warmup
from peewit.solvers.kernels.compilation import n_kept
print(json.dumps(n_kept()))
"""


def kept(home: Home) -> dict[str, int]:
    """Kernels with code in the cache of a home, and for how many combinations of types each."""
    out = subprocess.run(
        [sys.executable, "-c", LIST_KEPT],
        env=home.environment,
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    return {name: n_types for name, n_types in json.loads(out).items() if n_types}


def test_a_first_run_compiles_each_kernel_once(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", NUMBA_CACHE_DIR=str(tmp_path / "compiled"))
    edges, labels = tmp_path / "edges.parquet", tmp_path / "labels.parquet"
    pq.write_table(digit_edges(), edges)
    pq.write_table(draw_labels(digit_labels(), 10, seed=0), labels)
    try:
        home.run("graph", "create", "digits", "--epsilon", 0.6, "--expected-nodes", 1797)
        home.run("ingest", "digits", edges)
        assert kept(home).keys() == INGEST
        home.run("labels", "put", "digits", labels)
        assert kept(home).keys() == INGEST
        home.run("solve", "digits")
        twice = {name for name, n_types in kept(home).items() if n_types > 1}
        assert twice == TWO_PRECISIONS | WEIGHTS_AND_KEYS
    finally:
        home.end()
    database = open_database(Settings(home=home.directory).database)
    try:
        queue = JobQueue(database)
        (job,) = queue.list().jobs
        phases = {event.data.get("phase") for event in queue.events(job.id)}
    finally:
        database.close()
    assert "compiling" in phases
