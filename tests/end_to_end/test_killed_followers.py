"""A daemon that follows a Delta table loses nothing and repeats nothing when it is killed."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.needed_files import remove_unneeded
from tests.end_to_end.killed import killed_homes, open_home
from tests.end_to_end.killed_followers import follow
from tests.end_to_end.processes import Home
from tests.service.ingest.test_feature_commit import Home as Stores
from tests.service.live_sources.tables import Row, append, make_table

N_DEATHS: Final = 23
VERSIONS: Final[list[list[Row]]] = [
    [("a", "b", 1.0), ("b", "c", 2.0)],
    [("a", "b", 4.0)],
    [("a", "b", 8.0), ("c", "d", 16.0)],
]


@pytest.mark.slow
def test_the_graph_is_the_table_edge_for_edge_after_three_kills(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", PEEWIT_LIST_SECONDS="0.2")
    try:
        followed = follow(home, tmp_path, n_kills=3, seed=3)
    finally:
        home.end()
    assert followed.graph == followed.table
    assert followed.n_versions > 3
    assert set(followed.counts) == {"committed"}


def weights(home: Stores) -> Counter[tuple[str, str]]:
    """Weight of each pair in the newest snapshot of a graph whose parallel edges sum."""
    newest = home.snapshots.latest()
    assert newest is not None
    edges = home.snapshots.edges(newest)
    known = KnownNodes(home.settings.graphs_directory, Manifest(home.database))
    names = known.external_ids(home.graph, home.graph.progress.n_nodes).to_pylist()
    found: Counter[tuple[str, str]] = Counter()
    for u, v, weight in zip(
        *(edges[name].to_pylist() for name in ("u", "v", "weight")), strict=True
    ):
        found[min(names[u], names[v]), max(names[u], names[v])] += weight
    return found


@pytest.mark.slow
def test_every_row_counts_once_wherever_its_reading_was_killed(tmp_path: Path) -> None:
    """Weights sum, so that a chunk that is lost or comes twice shows in them."""
    url = make_table(tmp_path / "table", VERSIONS[0])

    def prepare(home: Stores) -> None:
        source = Manifest(home.database).sources
        source.add(home.graph_id, url, kind="delta", start={"version": -1})

    for rows in VERSIONS[1:]:
        append(url, rows)
    wanted: Counter[tuple[str, str]] = Counter()
    for rows in VERSIONS:
        for u, v, weight in rows:
            wanted[u, v] += weight
    _, homes = killed_homes("reading", tmp_path, prepare, N_DEATHS)
    n_listed = set()
    for directory in homes:
        home = open_home(directory)
        manifest = Manifest(home.database)
        n_listed.add(len(manifest.list_files(home.graph_id)))
        home.ingest()
        assert weights(home) == wanted
        files = manifest.list_files(home.graph_id)
        assert [file.status for file in files] == ["committed"] * len(VERSIONS)
        root = home.paths.root
        remove_unneeded(home.database, home.graph_id, root, older_than_seconds=-1)
        kept = {str(path) for path in home.paths.pushes.iterdir() if path.suffix == ".parquet"}
        assert kept == {file.path for file in files}
        home.database.close()
    assert n_listed == {0, 1, 2, 3}, "deaths everywhere"
