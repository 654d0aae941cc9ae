"""Cut, then name: clusters that the graph alone makes, and labels that only name them.

Decision: below five labels per class the models of total variation start from here. Context: they
minimize nearly a ratio of cut and balance, whose minima are clusters, and an atypical label to
start from leads to another minimum in one of five draws (section G.8). Consequence: the graph is
cut in two by its least Cheeger ratio, the classes are divided between the sides, and a side that
got several is cut again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.spectral_embedding import spectral_embedding
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status, first_failure
from peewit.solvers.variation.cheeger_cut import best_cut

N_STARTS: Final = 5
"""Functions that a cut begins with."""

_N_EIGENVECTORS: Final = 3
_MAX_KNOWN: Final = 256

Cuts = dict[bytes, tuple[npt.NDArray[np.uint8], Status]]
"""Sides of cuts as bits and their statuses, by a digest of the nodes that were cut."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedCut:
    """Named clusters."""

    classes: Int64Array  # (n_nodes,); -1 in components without label
    n_cuts: int  # cuts in two that it took
    n_missed: int  # labels that lie in a cluster of another name
    status: Status  # of the first eigenvectors or descent that failed


def cut_then_name(
    graph: Graph,
    labels: Labels,
    harmonic: FloatArray,
    known: Cuts,
    *,
    parallel: Parallel = map,
    watch: Watch,
) -> NamedCut:
    """Cut every component with labels into as many clusters as it has classes, and name them.

    ``harmonic``, (n_nodes, n_classes), is a harmonic function of the labels (D1): it names sides
    whose labels do not decide. ``known`` holds earlier cuts of this graph and grows: labels choose
    what is cut, not how, so that most solves find their cuts there. Raises `RunStopped`.

    Notes
    -----
    Each cut is the best, by Cheeger ratio with nodes weighted by degree, of the `cut_starts`. By
    degree, because otherwise a single node with little weight would be the best cut of many graphs.
    """
    seeds = np.full(graph.n_nodes, -1, np.int64)
    seeds[labels.nodes] = labels.classes
    naming = _Naming(
        graph=graph, seeds=seeds, harmonic=harmonic, known=known, parallel=parallel, watch=watch
    )
    classes = np.full(graph.n_nodes, -1, np.int64)
    n_cuts, n_expected, status = 0, labels.n_classes - 1, Status.CONVERGED
    everything = np.flatnonzero(np.isin(graph.component, graph.component[labels.nodes]))
    waiting = list(naming.by_component(everything, None))
    while waiting:
        nodes, own = waiting.pop()
        if own.size == 1:
            classes[nodes] = own[0]
            continue
        if nodes.size <= own.size:
            classes[nodes] = own[harmonic[np.ix_(nodes, own)].argmax(axis=1)]
            continue
        watch.step("cut", n_cuts, max(n_expected, n_cuts + 1))
        above, ended = naming.cut(nodes)
        n_cuts, status = n_cuts + 1, first_failure(status, ended)
        goes_up = naming.shared_out(nodes, above, own)
        for side, share in ((above, own[goes_up]), (~above, own[~goes_up])):
            waiting.extend(naming.by_component(nodes[side], share))
    watch.step("cut", n_cuts, n_cuts)
    n_missed = int(np.count_nonzero(classes[labels.nodes] != labels.classes))
    return NamedCut(classes=classes, n_cuts=n_cuts, n_missed=n_missed, status=status)


def cut_starts(graph: Graph, watch: Watch) -> tuple[FloatArray, Status]:
    """(n_nodes, n_starts) functions to cut a connected graph from, and the status of their making.

    Three eigenvectors of the normalized Laplacian, sum and difference of the first two.
    """
    starts, status = spectral_embedding(graph, _N_EIGENVECTORS, watch)
    if starts.shape[1] > 1:
        one, other = starts[:, 0], starts[:, 1]
        starts = np.column_stack([starts, one + other, one - other])
    return starts, status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Naming:
    """What cuts and their names are made from; ``seeds`` are labels, -1 elsewhere."""

    graph: Graph
    seeds: Int64Array
    harmonic: FloatArray
    known: Cuts
    parallel: Parallel
    watch: Watch

    def by_component(
        self, nodes: Int64Array, classes: Int64Array | None
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Connected parts of ``nodes``, each with the classes that it is to be cut into.

        Those are the classes of its labels; without label, the class that the harmonic function
        leans to. Classes without label among the nodes go to the largest part.
        """
        component = self.graph.subgraph(nodes).component
        seeds = self.seeds[nodes]
        allowed = seeds >= 0 if classes is None else np.isin(seeds, classes)
        order = np.argsort(component, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(component))[:-1])
        largest = max(range(len(parts)), key=lambda number: parts[number].size)
        for number, part in enumerate(parts):
            own = np.unique(seeds[part][allowed[part]])
            if classes is not None and number == largest:
                own = np.union1d(own, np.setdiff1d(classes, seeds[allowed]))
            if own.size == 0 and classes is not None:
                sums = self.harmonic[nodes[part]][:, classes].sum(axis=0)
                own = classes[[int(sums.argmax())]]
            yield nodes[part], own

    def cut(self, nodes: Int64Array) -> tuple[BoolArray, Status]:
        """Which of some connected nodes lie above the best cut, and the cut's status."""
        key = sha256(nodes.tobytes()).digest()
        if key not in self.known:
            above, status = self._best_cut(nodes)
            while len(self.known) >= _MAX_KNOWN:
                self.known.pop(next(iter(self.known)))
            self.known[key] = np.packbits(above), status
        bits, status = self.known[key]
        return np.unpackbits(bits, count=nodes.size).astype(bool), status

    def _best_cut(self, nodes: Int64Array) -> tuple[BoolArray, Status]:
        part = self.graph.subgraph(nodes)
        starts, status = cut_starts(part, self.watch)
        best = best_cut(
            part, starts, part.degree, parallel=self.parallel, watch=self.watch.silent()
        )
        return best.above, first_failure(status, best.status)

    def shared_out(self, nodes: Int64Array, above: BoolArray, classes: Int64Array) -> BoolArray:
        """Which classes go to the nodes above: at least one, and not all.

        The majority of a class's labels decides; without majority, its harmonic function if it
        prefers that side more than those of the other classes do.
        """
        seeds, harmonic = self.seeds[nodes], self.harmonic[nodes][:, classes]
        votes = np.array(
            [np.sum(seeds[above] == k) - np.sum(seeds[~above] == k) for k in classes], float
        )
        difference = harmonic[above].mean(axis=0) - harmonic[~above].mean(axis=0)
        mean = harmonic.mean(axis=0)
        leaning = np.divide(difference, mean, out=np.zeros_like(mean), where=mean > 0)
        leaning -= leaning.mean()
        goes_up = np.where(votes != 0, votes > 0, leaning > 0)
        if goes_up.all() or not goes_up.any():
            towards = 1.0 if goes_up.all() else -1.0
            weakest = np.lexsort((towards * leaning, np.abs(votes)))[0]
            goes_up[weakest] = not goes_up[weakest]
        return np.asarray(goes_up)
