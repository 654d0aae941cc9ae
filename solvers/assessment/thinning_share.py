"""Share of the labels that the choice of edges decided, told without reading one edge more (B27).

A sparsifier holds each edge (u, v) with a weight w that coins have made, of relative variance q. To
first order they move the lead of the winning class k over a rival j at node v by a random number of
mean 0 and variance

    sigma^2 = sum over its edges w^2 q ((f_k - f_j)_u - (f_k - f_j)_v)^2 / D_v^2,

D_v the diagonal of the system that f solves, for each edge moves the equation of v alone. So j wins
with all edges with probability Phi(-lead / sigma), some rival with 1 - prod_j (1 - that), and the
mean over nodes is the share of labels that other coins would have decided otherwise. It does not
see what shifts a whole class everywhere: it warns and never proves.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, frozen, frozen_all
from peewit.solvers.kernels.coin_variances import add_variances
from peewit.solvers.solution import Decisive

MOST_NODES: Final = 20_000
"""So many nodes are looked at: the mean over all then errs by .0035 at most, one deviation."""

TOO_MUCH: Final = 0.02
"""Share from which on it is warned of."""


class ThinnedEdges(NamedTuple):
    """Some edges of a sparsifier: ends, weights, and their relative variances over the coins."""

    u: Int32Array
    v: Int32Array
    weight: FloatArray
    relative: Float32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinningShare:
    """What other coins would have decided otherwise.

    Attributes
    ----------
    share : float
        Of the labels of reached nodes, in [0, 1].
    n_nodes : int
        Nodes that were looked at.
    column : str
        By what: the scores, or a part of the answer where that is made of several.
    """

    share: float
    n_nodes: int
    column: str

    @property
    def is_much(self) -> bool:
        """Whether it is to be warned of."""
        return self.share > TOO_MUCH


def thinning_share(
    decisive: Decisive, degree: FloatArray, edges: Iterable[ThinnedEdges], *, seed: int
) -> ThinningShare:
    """Expected share of the labels that all edges would change.

    Parameters
    ----------
    decisive : Decisive
        Columns whose largest tells the class of a node.
    degree : (n_nodes,) float64
        Of the sparsifier.
    edges : iterable of ThinnedEdges
        Its edges, each once.
    seed : int
        Draws the nodes that are looked at, where there are many.
    """
    values = decisive.values
    candidates = np.flatnonzero(decisive.is_free & (degree > 0.0))
    if not candidates.size or values.shape[1] < 2:
        return ThinningShare(share=0.0, n_nodes=0, column=decisive.name)
    nodes = candidates
    if nodes.size > MOST_NODES:
        nodes = np.random.default_rng(seed).choice(nodes, MOST_NODES, replace=False)
    place = np.full(degree.size, -1, np.int32)
    place[nodes] = np.arange(nodes.size, dtype=np.int32)
    winner = np.zeros(degree.size, np.int32)
    winner[nodes] = values[nodes].argmax(axis=1)
    variance = np.zeros((nodes.size, values.shape[1]))
    values = frozen(np.ascontiguousarray(values))
    for each in edges:
        u, v, weight, relative = frozen_all(*each)
        add_variances(u, v, weight, relative, place, values, winner, variance)
    own = np.asarray(values[nodes], np.float64)
    lead = own[np.arange(nodes.size), winner[nodes]][:, None] - own
    deviation = np.sqrt(variance) / (degree[nodes] + decisive.shift[nodes])[:, None]
    ratio = np.full_like(lead, -np.inf)  # a rival that no coin moves never wins
    np.divide(-lead, deviation, out=ratio, where=deviation > 0.0)
    # log(1 - Phi(x)) = log Phi(-x), of no meaning for the winner itself
    stays = log_ndtr(-ratio)
    stays[np.arange(nodes.size), winner[nodes]] = 0.0
    flips = -np.expm1(stays.sum(axis=1))
    # the others, whose labels are given, stay
    n_reached = int(np.count_nonzero(decisive.is_reached))
    share = float(flips.mean()) * candidates.size / max(n_reached, 1)
    return ThinningShare(share=share, n_nodes=nodes.size, column=decisive.name)
