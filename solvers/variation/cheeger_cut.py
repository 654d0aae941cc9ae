"""The Cheeger cut of a graph in two, without labels (section G.4 without the fit).

Steepest descent of the Cheeger ratio (Bresson, Laurent, Uminsky and von Brecht 2012): its energy
falls with every step if the proximal steps are accurate enough. So a step that does not lower it is
rejected; when most functions reject theirs, the next step has a tenth of the gap.

Context: on graphs of digits and citations the quality of a start shows after two of about twenty
steps, which are most of the cost. Decision: starts race; the two best continue after two steps, the
best of those after three more. Consequence: a cut costs a fraction, and its ratio is seldom a
little larger (``docs.benchmarks.total_variation cuts``).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.kernels.total_variation import sweep_cuts
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status
from peewit.solvers.variation.cheeger_ratio import Balances, ratio
from peewit.solvers.variation.proximal_step import TotalVariation

_FIRST_RTOL: Final = 1e-2
_LAST_RTOL: Final = 1e-4
_LEAST_GAIN: Final = 1e-4
_MAX_STEPS: Final = 300
_MAX_PROXIMAL: Final = 300
_FLAT: Final = 1e-9
_RACE: Final = ((2, 2), (3, 1))
"""Steps, and the number of functions that continue after them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SteepestDescent:
    """Result of a steepest descent.

    Converged when a step of a gap of 1e-4, or of 300 proximal steps if a small ratio makes the gap
    take more, lowers no function by more than a ten-thousandth.
    """

    functions: FloatArray  # (n_nodes, n_starts) median 0, root mean square 1
    energies: FloatArray  # (n_starts,) Cheeger ratios
    history: FloatArray  # (n_steps + 1, n_starts) energies after every step, falling
    n_proximal: int  # proximal steps in all
    status: Status


def descend(
    graph: Graph,
    starts: FloatArray,
    weight: FloatArray,
    *,
    parallel: Parallel = map,
    watch: Watch = UNWATCHED,
    max_iter: int = _MAX_STEPS,
) -> SteepestDescent:
    """Minimize TV(f) / sum_i w_i |f_i - med f| from several starts at once, w of mean 1.

    Raises `RunStopped` when ``watch`` is cancelled.

    Parameters
    ----------
    graph : Graph
        Connected, or the ratio falls to 0.
    starts : (n_nodes, n_starts) float64
        None of them constant.
    weight : (n_nodes,) float64
        > 0; its scale does not count.
    """
    weight = weight / weight.mean()
    unit = float(graph.degree.mean())
    variation = TotalVariation(graph, unit=unit, parallel=parallel)
    functions = _normalize(starts, weight)
    balances = Balances.of(functions, weight, 1.0)
    energies = ratio(variation.of(functions), balances.values)
    slopes, history = balances.slopes, [energies]
    rtol, n_proximal, status = _FIRST_RTOL, 0, Status.MAX_ITER
    penalty = np.ones(energies.size)
    for _ in range(max_iter):
        step = variation.nearest(
            functions + slopes,
            penalty=penalty,
            pull=np.where(np.isfinite(energies), energies, 1.0),  # of a constant, anything
            rtol=rtol,
            max_iter=_MAX_PROXIMAL,
            watch=watch,
        )
        n_proximal += step.n_iter
        moved = _normalize(step.values, weight)
        balances = Balances.of(moved, weight, 1.0)
        after = ratio(variation.of(moved), balances.values)
        is_lower = after < energies * (1.0 - _LEAST_GAIN)
        functions = np.where(is_lower, moved, functions)
        slopes = np.where(is_lower, balances.slopes, slopes)
        energies = np.where(is_lower, after, energies)
        history.append(energies)
        if energies.min() == 0.0:
            status = Status.CONVERGED
            break
        if rtol <= _LAST_RTOL and not is_lower.any():
            status = Status.CONVERGED
            break
        if 2 * np.count_nonzero(is_lower) < energies.size:
            rtol = max(0.1 * rtol, _LAST_RTOL)
    return SteepestDescent(
        functions=functions,
        energies=unit * energies,
        history=unit * np.array(history),
        n_proximal=n_proximal,
        status=status,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cut:
    """The nodes on one side of a cut, its Cheeger ratio, and how it was found."""

    above: BoolArray
    ratio: float
    status: Status


def best_cut(
    graph: Graph,
    starts: FloatArray,
    weight: FloatArray,
    *,
    parallel: Parallel = map,
    watch: Watch = UNWATCHED,
) -> Cut:
    """The best threshold of the function that wins the race of steepest descents.

    Arguments as in `descend`.
    """
    functions = starts
    for n_steps, n_kept in _RACE:
        result = descend(graph, functions, weight, parallel=parallel, watch=watch, max_iter=n_steps)
        best = np.argsort(result.energies, kind="stable")[:n_kept]
        functions = result.functions[:, best]
    result = descend(graph, functions, weight, parallel=parallel, watch=watch)
    above, least = best_threshold(graph, result.functions[:, 0], weight)
    return Cut(above=above, ratio=least, status=result.status)


def best_threshold(
    graph: Graph, function: FloatArray, weight: FloatArray
) -> tuple[BoolArray, float]:
    """The nodes above the threshold whose cut has the least Cheeger ratio, and that ratio.

    The ratio is cut / min(w(A), w(not A)), exact to a few roundings. O((m + n) log n); at least one
    side has a node.
    """
    adjacency = graph.adjacency
    order = np.argsort(function, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    cuts = sweep_cuts(adjacency.indptr, adjacency.indices, adjacency.data, rank)
    sorted_weight = weight[order]
    below = np.cumsum(sorted_weight)[:-1]
    above = np.cumsum(sorted_weight[::-1])[::-1][1:]
    ratios = cuts / np.minimum(below, above)
    # between equal values there is no threshold
    ratios[np.diff(function[order]) == 0.0] = np.inf
    place = int(np.argmin(ratios))
    return rank > place, float(ratios[place])


def _normalize(functions: FloatArray, weight: FloatArray) -> FloatArray:
    """Median 0 and root mean square 1; zeros for a constant."""
    centered = functions - Balances.of(functions, weight, 1.0).medians
    size = np.sqrt(np.square(centered).mean(axis=0))
    least = _FLAT * np.abs(functions).max(axis=0)
    return np.asarray(centered / np.where(size > least, size, np.inf))
