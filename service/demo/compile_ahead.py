"""A process beside the demo that compiles what its solve needs, while the demo reads edges.

It solves a small graph of the same images. The code is kept for the user, so the demo loads it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from sklearn.datasets import load_digits

from peewit.service.demo.digits import WIDTH_NEIGHBOR, neighbor_edges
from peewit.service.process_lifetime import stop_when_stdin_ends
from peewit.service.settings import Settings
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.compilation import n_kept
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE, DEFAULT_MODEL

_LAST_KERNEL: Final = "solvers.kernels.laplacian_products.mean_rows"


@contextmanager
def compiling_ahead(settings: Settings) -> Iterator[None]:
    """Compile for the default model in another process until the block ends, unless it is kept."""
    if settings.n_threads < 2 or n_kept().get(_LAST_KERNEL) != 0:  # none if nothing can be kept
        yield
        return
    ahead = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    with ahead:
        try:
            yield
        finally:
            ahead.kill()  # what it has not compiled, the solve compiles


def solve_small() -> None:
    """Solve as the demo does: the same nodes and types, and fewer edges."""
    digits = load_digits()
    u, v, weight = neighbor_edges(digits.data, WIDTH_NEIGHBOR)
    ends = u.astype(np.int32), v.astype(np.int32)
    graph = Graph.from_edges(
        *ends, weight.astype(np.float32), n_nodes=len(digits.data), dtype=np.float32
    )
    model = CATALOGUE[DEFAULT_MODEL]()
    labeled = np.arange(100)
    labels = Labels.from_pairs(labeled, digits.target[labeled].tolist())
    model.solve(model.prepare(graph), labels)


if __name__ == "__main__":
    stop_when_stdin_ends()
    solve_small()
