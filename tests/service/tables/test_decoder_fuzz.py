"""Thousands of damaged tables: each is taken whole or refused with a reason, and none does harm.

PEEWIT_FUZZ_INPUTS is how many bodies are decoded; 100,000 make a long run. What a body was is told
by its seed and number, see `tests.service.damaged`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore
from tests.fresh_databases import fresh
from tests.service.damaged import broken, damaged, edge_files

SEED: Final = 5
N_INPUTS: Final = int(os.environ.get("PEEWIT_FUZZ_INPUTS", "10000"))
N_PER_PROCESS: Final = 20_000
N_FILES: Final = 300
MAX_GROWN_BYTES: Final = 64 << 20
"""More than the allocator keeps for itself, less than a kilobyte lost with each body takes."""

ROOT: Final = Path(__file__).parents[3]


def decoded(first: int, count: int, directory: Path) -> dict[str, Any]:
    """What a process saw that decoded some bodies; the one it died of is saved and named."""
    state = directory / "state"
    command = [sys.executable, "-m", "tests.service.decoding", str(SEED), str(first), str(count)]
    done = subprocess.run(
        [*command, str(state)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        number = int(state.read_text()) if state.exists() else first
        saved = directory / f"{SEED}-{number}-{damaged(SEED, number).name}"
        saved.write_bytes(damaged(SEED, number).content)
        pytest.fail(f"the decoder ended with {done.returncode} at {saved}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.usefixtures("processes")
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_damaged_body_is_taken_or_refused_with_a_reason(tmp_path: Path) -> None:
    outcomes: dict[str, int] = {}
    for first in range(0, N_INPUTS, N_PER_PROCESS):
        seen = decoded(first, min(N_PER_PROCESS, N_INPUTS - first), tmp_path)
        assert seen["n_faults"] == 0, "\n".join(seen["faults"])
        assert seen["arrow_bytes"] == 0
        assert seen["grown_bytes"] < MAX_GROWN_BYTES
        for outcome, count in seen["outcomes"].items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    assert sum(outcomes.values()) == N_INPUTS
    for use in ("edges", "features", "labels", "points"):
        # neither is the corpus damaged beyond reading nor does damage go unseen
        assert outcomes[f"{use} taken"] > N_INPUTS // 200
        assert outcomes[f"{use} refused"] > N_INPUTS // 20


def _graph(database: Database, name: str, source: Path) -> GraphRecord:
    record = Catalog(database).create(GraphSettings(name=name, expected_nodes=100, seed=3))
    Manifest(database).sources.add(record.id, str(source))
    return record


def _edges(settings: Settings, graph: GraphRecord) -> list[tuple[int, int, float]]:
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    snapshots = SnapshotStore(paths.snapshots)
    number = snapshots.latest()
    assert number is not None
    u, v, weight = snapshots.load(number).graph.edges()
    return sorted(zip(u.tolist(), v.tolist(), weight.tolist(), strict=True))


@pytest.mark.slow
def test_damaged_files_of_a_source_are_as_if_they_had_never_come(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    whole = edge_files()
    suffixes = sorted(whole)
    every, sound = tmp_path / "every", tmp_path / "sound"
    for directory in (every, sound):
        directory.mkdir()
    for number in range(N_FILES):
        suffix = suffixes[number % len(suffixes)]
        alike = whole[suffix]
        content = alike[rng.integers(len(alike))]
        if number % 50:
            content = broken(content, suffix, alike, rng)
        (every / f"{number:04}{suffix}").write_bytes(content)
    settings = Settings(home=tmp_path / "home", threads=1, settle_seconds=0.0)
    settings.home.mkdir()
    database = open_database(fresh(settings.database))
    graph = _graph(database, "every", every)
    report = Ingestor(database, settings).ingest_graph(graph.id)
    files = Manifest(database).list_files(graph.id, limit=2 * N_FILES)
    assert len(files) == N_FILES
    assert report.n_quarantined > N_FILES // 2
    for file in files:
        assert file.status in {"committed", "quarantined", "duplicate"}
        if file.status == "quarantined":
            assert file.reason, file.path
        else:
            (sound / Path(file.path).name).write_bytes(Path(file.path).read_bytes())
    undisturbed = _graph(database, "sound", sound)
    report = Ingestor(database, settings).ingest_graph(undisturbed.id)
    assert report.n_quarantined == 0
    assert _edges(settings, graph) == _edges(settings, undisturbed)
    database.close()
