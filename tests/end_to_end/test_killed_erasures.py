"""An erasure that is killed at any line goes on, and nothing is left of the node."""

import io
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.pushes import PushStore
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.prediction_files import PredictionFile, write_predictions
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.killed import killed_homes, open_home
from tests.service.api.test_erasures import WHO, files_with
from tests.service.ingest.test_feature_commit import Home
from tests.service.predictions.test_prediction_files import META

N_DEATHS: Final = 12
EDGES: Final = f"src,dst\n{WHO},a\na,b\nb,c\nc,d\n{WHO},d\n".encode()


def push(home: Home, content: bytes) -> None:
    settings = home.settings
    store = PushStore(
        manifest=Manifest(home.database),
        graphs_directory=settings.graphs_directory,
        max_backlog_bytes=settings.max_backlog_bytes,
        max_total_backlog_bytes=settings.max_total_backlog_bytes,
    )
    store.add(home.graph, io.BytesIO(content), Format.CSV, body_digest=str(len(content)))


def prepare(home: Home) -> None:
    """The node is in the home in many ways, waits in its inbox, and is to be forgotten."""
    push(home, EDGES)
    home.give({WHO: [1.0], "a": [2.0]})
    home.ingest()
    LabelStore(home.database).put(home.graph_id, [WHO, "a"], ["x", "y"])
    ids = pa.array([WHO, "a", "b", "c", "d"], pa.large_string())
    scores = np.full((5, 3), 0.5)
    write_predictions(
        home.paths.predictions, META, nodes=ids, scores=scores, reachable=np.ones(5, bool)
    )
    push(home, f"src,dst\n{WHO},b\nb,e\n".encode())
    home.give({WHO: [3.0], "b": [4.0]}, "add")
    nodes = KnownNodes(home.settings.graphs_directory, Manifest(home.database))
    Forgetting(
        log=Manifest(home.database).erasures,
        nodes=nodes,
        home=home.settings.home,
        within_seconds=60,
    ).erase(home.graph, [WHO])


def outcome(home: Home) -> tuple[object, ...]:
    """What is in the graph, but for moments."""
    snapshots = SnapshotStore(home.paths.snapshots)
    newest = snapshots.latest()
    assert newest is not None
    edges = snapshots.edges(newest).to_pydict()
    graph = home.graph
    state = CheckpointStore(home.paths.checkpoints).clean().state
    names = KnownNodes(home.settings.graphs_directory, Manifest(home.database)).external_ids(
        graph, graph.progress.n_nodes
    )
    (predicted,) = home.paths.predictions.glob("[!.]*.arrow")  # what a killed one left goes later
    return (
        str(edges),
        names.to_pylist(),
        home.rows(),
        (state.n_erased, state.n_records, graph.progress.n_nodes),
        PredictionFile(predicted).table().column("node").to_pylist(),
    )


@pytest.mark.slow
def test_nothing_is_left_of_a_node_wherever_its_erasure_was_killed(tmp_path: Path) -> None:
    whole, homes = killed_homes("erasures", tmp_path, prepare, N_DEATHS)
    expected = outcome(open_home(whole))
    assert expected[1] == [None, "a", "b", "c", "d", "e"]
    assert expected[2] == {"a": [2.0], "b": [4.0]}
    assert expected[3] == (1, 4, 6)
    stages = set()
    for directory in homes:
        home = open_home(directory)
        (asked,) = Manifest(home.database).erasures.list(home.graph_id)
        stages.add((asked.status, asked.struck_at is not None))
        nodes = KnownNodes(home.settings.graphs_directory, Manifest(home.database))
        assert nodes.lookup(home.graph, pa.array([WHO], pa.large_string())).tolist() == [-1]
        home.ingest()
        (asked,) = Manifest(home.database).erasures.list(home.graph_id)
        assert asked.status == "erased"
        assert files_with(directory) == []
        assert outcome(home) == expected
        home.database.close()
    assert stages == {("hidden", False), ("hidden", True), ("erased", True)}, "deaths everywhere"
