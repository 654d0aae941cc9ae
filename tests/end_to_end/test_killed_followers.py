"""A daemon that follows a Delta table loses nothing and repeats nothing when it is killed."""

from pathlib import Path

from tests.end_to_end.killed_followers import follow
from tests.end_to_end.processes import Home


def test_the_graph_is_the_table_edge_for_edge_after_five_kills(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", PEEWIT_LIST_SECONDS="0.2")
    try:
        followed = follow(home, tmp_path, n_kills=5, seed=3)
    finally:
        home.end()
    assert followed.graph == followed.table
    assert followed.n_versions > 5
    assert set(followed.counts) == {"committed"}
