"""Elimination: Laplacian systems solved without a subtraction, each entry with an error bound.

Context: where weights lie far apart a small residual says nothing of the nodes that only light
edges reach, and factors lose light weights beside heavy ones. Decision: small components are
eliminated as Grassmann, Taksar and Heyman do it: a degree is summed from its edges and sources are
split by sign, so that only positive numbers are added, multiplied and divided, and every one is
exact to a few roundings whatever the weights. Potentials are relative to a node, the ground or the
heaviest, whichever loses fewer digits. Consequence: only the difference of the two signs loses
digits, and their sum bounds the loss, entry by entry.

References
----------
Grassmann, Taksar and Heyman (1985), Operations Research 33. Alfa, Xue and Ye (2002), Mathematics of
Computation 71: entrywise accuracy for diagonally dominant M-matrices.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.elimination import eliminate, potentials
from peewit.solvers.status import Status

MAX_ELIMINATED: Final = 600
"""Most nodes of a component that is eliminated."""

_MOST_NODES: Final = 10_000
_FAR_APART: Final = 1e4
"""Spread of weights up to which iterations are accurate (measured on 300 small graphs)."""

_ROUNDINGS: Final = 4.0  # times n; measured errors are below a tenth of it
_BALANCED: Final = 1e-8
"""Part of the sources up to which their sum counts as rounding."""


BLIND_RATIO: Final = 1e8
"""Spread of weights from which a residual says too little of a graph that is not eliminated."""


def is_eliminated(graph: Graph) -> bool:
    """Whether a graph is solved by elimination: weights far apart, components small."""
    return can_be_eliminated(graph) and graph.weight_spread >= _FAR_APART


def can_be_eliminated(graph: Graph) -> bool:
    """Whether all components are small, whatever the weights."""
    largest = graph.component_sizes().max(initial=0) if graph.n_nodes <= _MOST_NODES else np.inf
    return bool(largest <= MAX_ELIMINATED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Potentials:
    """Solutions, and what rounding may have done to them."""

    x: FloatArray  # (n_nodes, k)
    bound: FloatArray  # (n_nodes, k) on each entry's error; infinite if a weight was lost

    @property
    def relative(self) -> FloatArray:
        """(k,) largest bound of each column over its largest entry; 0 if both are."""
        worst, largest = (np.abs(part).max(axis=0, initial=0.0) for part in (self.bound, self.x))
        none = np.where(worst > 0, np.inf, 0.0)
        return np.asarray(np.divide(worst, largest, out=none, where=largest > 0))

    def status(self, rtol: float) -> Status:
        """Converged if no column's relative bound exceeds ``rtol``."""
        is_exact = bool((self.relative <= rtol).all())
        return Status.CONVERGED if is_exact else Status.ILL_CONDITIONED


class Elimination:
    """The systems of `peewit.solvers.laplacian.solver.LaplacianSolver`, by elimination.

    Components must be small, see `can_be_eliminated`: cubic time and quadratic memory in each.
    """

    def __init__(self, graph: Graph, *, scale: float, shift: FloatArray, zero_mean: bool) -> None:
        order = np.argsort(graph.component, kind="stable")
        parts = np.split(order, np.cumsum(graph.component_sizes())[:-1])
        self._shape = graph.n_nodes
        self._zero_mean = zero_mean
        self._parts = [
            (nodes, _Network.of(graph, nodes, scale, shift[nodes], zero_mean)) for nodes in parts
        ]

    def solve(self, rhs: FloatArray, mass: FloatArray | None = None) -> Potentials:
        """Solve for ``rhs`` (n_nodes, k).

        Parameters
        ----------
        rhs : (n_nodes, k) float64
            Where x is free up to a constant the sum of ``rhs`` is projected out; a sum that is only
            rounding goes to the heaviest node.
        mass : (n_nodes,) float64 or None
            On components without shift, and with zero sums, x has the mean 0 under these weights;
            None for equal ones.
        """
        potentials = Potentials(x=np.zeros_like(rhs), bound=np.full_like(rhs, np.inf))
        for nodes, networks in self._parts:
            own = np.ones(nodes.size) if mass is None else mass[nodes]
            for network in networks:
                if not network.is_whole:
                    continue
                with np.errstate(over="ignore", invalid="ignore"):  # then no bound is better
                    x, size = self._solve(network, rhs[nodes], own)
                    bound = network.rounding * size
                is_better = bound < potentials.bound[nodes]
                potentials.x[nodes] = np.where(is_better, x, potentials.x[nodes])
                potentials.bound[nodes] = np.where(is_better, bound, potentials.bound[nodes])
        return potentials

    def _solve(
        self, network: "_Network", rhs: FloatArray, mass: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """A component's solution, and the sum of the sizes of its positive and negative part."""
        if not network.has_ground:
            total, size = rhs.sum(axis=0), np.abs(rhs).sum(axis=0)
            is_off = np.abs(total) > _BALANCED * size
            return _center(*network.potentials(rhs - np.where(is_off, total / len(rhs), 0)), mass)
        value, size = network.potentials(rhs)
        if not self._zero_mean:
            return value[:-1] - value[-1], size[:-1] + size[-1]
        # (D4) f = value - c one, both above their means; the ground is at the mean by its equation
        one, one_size = network.potentials(np.ones((len(rhs), 1)))
        slope = one[:-1].mean() - one[-1]
        c = (value[:-1].mean(axis=0) - value[-1]) / slope
        c_size = size[:-1].mean(axis=0) + size[-1]
        c_size += np.abs(c) * (one_size[:-1].mean() + one_size[-1])
        x, size = _center(value[:-1] - c * one[:-1], size[:-1] + np.abs(c) * one_size[:-1], mass)
        return x, size + c_size / slope * np.abs(one[:-1] - one[:-1].mean())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Network:
    """A component, with the ground (C2) as one more node if it has a shift.

    ``order`` lists nodes as they are eliminated, the lightest first; the last one has potential 0.
    ``share`` and ``pivot`` are those of `eliminate` for weights over 2^unit.
    """

    order: IntArray
    share: FloatArray
    pivot: FloatArray
    unit: int
    has_ground: bool

    @classmethod
    def of(
        cls, graph: Graph, nodes: IntArray, scale: float, shift: FloatArray, zero_mean: bool
    ) -> list[Self]:
        """The network of these nodes: above the ground and, for zero mean, the heaviest node."""
        has_ground = bool((shift > 0).any())
        size = nodes.size + has_ground
        weight = np.zeros((size, size))
        rows = graph.adjacency[nodes]
        inside = np.repeat(np.arange(nodes.size), np.diff(rows.indptr))
        weight[inside, np.searchsorted(nodes, rows.indices)] = scale * rows.data
        if has_ground:
            weight[-1, :-1] = weight[:-1, -1] = shift
        _, unit = np.frexp(weight.max(initial=0.0))
        weight = np.ldexp(weight, -int(unit))
        order = np.argsort(weight.sum(axis=1), kind="stable")
        orders = [order] if zero_mean or not has_ground else []
        if has_ground:
            ground = size - 1
            orders.append(np.append(order[order != ground], ground))
        networks = []
        for order in orders:
            share, pivot = np.ascontiguousarray(weight[np.ix_(order, order)]), np.empty(size)
            eliminate(share, pivot)
            networks.append(
                cls(order=order, share=share, pivot=pivot, unit=int(unit), has_ground=has_ground)
            )
        return networks

    @property
    def is_whole(self) -> bool:
        """Whether no weight was lost beside the heaviest."""
        return bool((self.pivot[:-1] > 0).all())

    @property
    def rounding(self) -> float:
        """Relative error of a number made by additions, products and quotients alone."""
        return float(_ROUNDINGS * self.pivot.size * np.finfo(np.float64).eps)

    def potentials(self, sources: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Potentials relative to the last node, and sums of the positive and negative parts.

        The sum of the sources flows out at the ground, if there is one.
        """
        n_columns = sources.shape[1]
        signed = np.concatenate([np.maximum(sources, 0.0), np.maximum(-sources, 0.0)], axis=1)
        if self.has_ground:
            total = signed.sum(axis=0)
            signed = np.vstack([signed, np.roll(total, n_columns)])
        block = np.ascontiguousarray(signed[self.order])
        potentials(self.share, self.pivot, block)
        signed[self.order] = np.ldexp(block, -self.unit)
        positive, negative = signed[:, :n_columns], signed[:, n_columns:]
        return positive - negative, positive + negative


def _center(value: FloatArray, size: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minus the mean under ``mass``; 0 at an isolated node."""
    share = mass / (mass.sum() or 1.0)
    return value - share @ value, size + share @ size
