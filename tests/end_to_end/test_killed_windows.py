"""A daemon that dies while edges come and leave a window loses none and keeps none too long."""

from pathlib import Path

import pytest

from tests.end_to_end.killed_windows import follow
from tests.end_to_end.processes import Home


@pytest.mark.slow
def test_what_lives_is_what_came_since_the_horizon_after_two_deaths(tmp_path: Path) -> None:
    """`killed_windows` does it for longer."""
    home = Home(tmp_path / "home", PEEWIT_LIST_SECONDS="0.2")
    try:
        kept = follow(home, n_files=14, n_kills=2, seed=2)
    finally:
        home.end()
    assert kept.graph == kept.expected
    assert kept.n_by_hand == 1
    assert kept.since["card"] < kept.since["login"] < kept.since["message"]
    told = kept.window
    assert told["n_live"] == kept.expected.total()
    assert told["n_live"] + told["n_expired"] + told["n_late"] == kept.n_edges
    assert min(told["n_expired"], told["n_late"]) > 0
