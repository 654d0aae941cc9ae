"""What a notebook shows of a solution."""

import numpy as np

from peewit.solvers.solution import Solution
from peewit.solvers.status import Status


def test_a_notebook_shows_figures_and_nodes_by_class() -> None:
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    solution = Solution(
        scores=scores,
        reachable=np.array([True, True, True, False]),
        status=Status.MAX_ITER,
        stats={"n_iter": 7, "belief": "walks"},
    )
    page = solution._repr_html_()
    assert "reached by labels <b>3</b> · status <b>max-iter</b>" in page
    assert "n_iter</td>" in page
    for name, share, count in (("class 0", "1.000", 2), ("class 1", "0.500", 1)):
        assert f"{name}</td>" in page
        assert f'value="{share}" aria-label="{name}"' in page
        assert f">{count}</td>" in page


def test_numbers_have_no_classes() -> None:
    of_numbers = Solution(
        scores=np.ones((3, 1)), reachable=np.ones(3, bool), status=Status.CONVERGED
    )
    assert "<progress" not in of_numbers._repr_html_()
