"""A daemon that follows a topic loses nothing and repeats nothing when it or a broker dies."""

from pathlib import Path

import pytest

from tests.end_to_end.killed_topics import follow
from tests.end_to_end.processes import Home


@pytest.mark.slow
def test_the_graph_is_the_topic_edge_for_edge_after_four_deaths(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", PEEWIT_LIST_SECONDS="0.2")
    try:
        followed = follow(home, n_messages=6_000, n_kills=4, seed=3)
    finally:
        home.end()
    assert followed.graph == followed.topic
    assert (followed.n_daemons, followed.n_brokers, followed.n_refused) == (2, 2, 0)
    assert followed.n_reads > 5
    assert set(followed.counts) == {"committed"}
