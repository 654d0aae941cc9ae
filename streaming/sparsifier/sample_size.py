"""Sample size: number of records that an accuracy asks for.

An edge of leverage ``w R`` is kept with probability ``min(1, c w R)``, ``c = ln(n) / epsilon^2``
(B10'). The logarithm is the price of independence: some node of n has bad luck with all of its
coins. Coins that even out degrees avoid it. What noise they leave between neighbors is a symmetric
matrix of independent entries, of norm ``2 / sqrt(k)`` where nodes keep k edges, whatever n is (the
semicircle; for entries of unequal variance Bandeira and van Handel, arXiv:1408.6185). So the part
of a resistance that degrees tell, ``1/d_u + 1/d_v``, needs only ``c = k/2`` with
``k = 4 / (theta epsilon)^2`` (B19), theta a margin below 1; the rest, which tells of bottlenecks,
keeps the logarithm.
"""

import math

from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState

AIM = 0.7
"""Share of epsilon that evened-out coins may use up, theta above."""

ROOM = 3.0
"""Multiple of what is due that is kept where edges leave (B25): of all edges of a graph with a
window, and of those sampled anew after deletes. What is published is thinned, with even degrees."""

SPARE_COPIES = 2.0
"""Added to k/2: evened-out degrees still stray, by a part of epsilon where k is small."""


def target_epsilon(settings: SparsifierSettings, n_nodes: int) -> float:
    """Epsilon that is asked; without one, that of which ``max_edges`` is the expected size.

    It may be 1 and more: a budget that is too small for any error.
    """
    if settings.epsilon is not None:
        return settings.epsilon
    if settings.max_edges is None:
        raise AssertionError("settings hold a budget or an epsilon")
    copies = settings.max_edges / (settings.oversampling * max(n_nodes, 1))
    epsilon = math.sqrt(_log_nodes(settings, n_nodes) / copies)
    if settings.coins == "independent" or copies <= SPARE_COPIES:
        return epsilon
    return min(epsilon, math.sqrt(2.0 / (copies - SPARE_COPIES)) / AIM)


def sampling_constant(settings: SparsifierSettings, n_nodes: int) -> float:
    """Copies per unit of leverage that `target_epsilon` asks for, ``ln(n) / epsilon^2`` (B14)."""
    return _log_nodes(settings, n_nodes) / target_epsilon(settings, n_nodes) ** 2


def present_constant(state: SparsifierState, settings: SparsifierSettings) -> float:
    """Constant for the next edges: what epsilon asks, unless ``max_edges`` has set another.

    With an epsilon ``max_edges`` can only lower it; without one it is what the budget affords.
    """
    if settings.epsilon is None and math.isfinite(state.constant):
        return state.constant
    return min(state.constant, sampling_constant(settings, state.n_nodes))


def local_factor(settings: SparsifierSettings, n_nodes: int) -> float:
    """Part of the sampling constant that suffices for what degrees tell of a resistance."""
    if settings.coins == "independent":
        return 1.0
    copies = 2.0 / (AIM * target_epsilon(settings, n_nodes)) ** 2 + SPARE_COPIES
    return min(1.0, copies / sampling_constant(settings, n_nodes))


def expected_size(settings: SparsifierSettings, n_nodes: int) -> float:
    """Estimate of the records kept, where degrees tell the resistances: leverages sum to n (B3).

    Without an epsilon, the budget.
    """
    if settings.epsilon is None and settings.max_edges is not None:
        return float(settings.max_edges)
    copies = local_factor(settings, n_nodes) * sampling_constant(settings, n_nodes)
    size = settings.oversampling * copies * max(n_nodes, 1)
    return size if settings.max_edges is None else min(size, float(settings.max_edges))


def _log_nodes(settings: SparsifierSettings, n_nodes: int) -> float:
    return math.log(max(settings.expected_nodes, n_nodes, 2))
