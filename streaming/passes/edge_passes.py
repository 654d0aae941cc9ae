"""Passes over the edges of one snapshot, in the memory of a few blocks per thread.

Passes are folds over spans of opened files (`edge_folds`), run by threads of this process or by the
workers of a dask scheduler, with the same bits. Subclasses decide which files are opened.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final, TypeAlias, TypeVar

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.streaming.cluster.ordered_folds import Fold, FoldExecutor, ThreadExecutor
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.parts import StagedFile
from peewit.streaming.kernels.edge_passes import LANE_COLUMNS
from peewit.streaming.passes.edge_folds import (
    Arcs,
    ArcSums,
    Components,
    Degrees,
    LaplacianProduct,
    OpenedFile,
    RawComponents,
    Span,
    cut_spans,
    n_lanes,
)

_SHOWN_FILES: Final = 3

OnFraction: TypeAlias = Callable[[float], None]
_SharedT = TypeVar("_SharedT")
_PartialT = TypeVar("_PartialT")


class RawEdgesGone(ValueError):
    """Files of the snapshot are missing or hold other content than was absorbed.

    ``files`` has the path and fault of every such file.
    """

    def __init__(self, files: Sequence[tuple[str, str]]) -> None:
        self.files = tuple(files)
        shown = "; ".join(f"{path}: {fault}" for path, fault in files[:_SHOWN_FILES])
        more = len(files) - _SHOWN_FILES
        super().__init__(
            f"raw edges must be those that were ingested, got {len(files)} files that are not: "
            + shown
            + (f"; and {more} more" if more > 0 else "")
        )


class PassStopped(Exception):
    """A pass was cancelled and has no result."""


class EdgePasses(ABC):
    """Edges of one snapshot, read anew for every pass.

    ``executor`` computes the passes; None does it in ``n_threads`` threads, as far as their memory
    allows. Results depend on neither. ``weights`` are those of relations, by name, 1 of others.
    """

    def __init__(
        self,
        *,
        n_nodes: int,
        n_threads: int,
        executor: FoldExecutor | None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self._n_nodes = n_nodes
        self._n_threads = n_threads
        self._weights = dict(weights or {})
        self._executor = executor or ThreadExecutor(min(n_threads, n_lanes(n_nodes)))
        self._spans: list[Span] = []
        self._opened: list[tuple[OpenedFile, int]] = []

    @property
    @abstractmethod
    def n_edges(self) -> int:
        """Edges of all files, as counted before any pass."""

    @abstractmethod
    def open(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make all files ready to be read; to be called before the other methods.

        Raises `RawEdgesGone` with the list of missing or changed files, `PassStopped` once
        ``cancelled()`` is true, and OSError where a file cannot be read, which is no fault of its
        content.
        """

    def _cut(self, opened: Sequence[tuple[OpenedFile, int]]) -> None:
        """Take opened files, each with its number of rows."""
        self._opened = list(opened)
        self._spans = cut_spans(opened, self._n_nodes, self._weights)

    def components(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> RawComponents:
        """Connected components of the raw graph, in one pass.

        Raises as `open`, and `RawEdgesGone` when there are more or fewer edges than were absorbed.
        """
        result = self._fold(Components(n_nodes=self._n_nodes), None, on_fraction, cancelled)
        self._require_all(result.n_edges)
        return result

    def _require_all(self, n_edges: int) -> None:
        if n_edges != self.n_edges:
            raise RawEdgesGone(
                [("all files", f"{self.n_edges} edges were absorbed, got {n_edges}")]
            )

    def laplacian_product(
        self,
        block: FloatArray,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """(n_nodes, k) Laplacian of the raw graph times ``block`` of that shape, in one pass.

        Differences are summed edge by edge, so that constant vectors give exactly zero; the bits
        are the same whatever the threads and the executor. Memory: `edge_folds.product_bytes`.
        ``on_fraction`` takes the part of the pass that is done, in any thread, one at a time.
        ``cancelled`` is called between chunks; several times a second where others compute. Raises
        as `open`, ValueError for another shape, and ClusterError of an executor that is a cluster.
        """
        if block.ndim != 2 or block.shape[0] != self._n_nodes:
            raise ValueError(f"block must have shape ({self._n_nodes}, k), got {block.shape}")
        product = np.empty_like(block, order="C")
        fold = LaplacianProduct(n_nodes=self._n_nodes)
        products = self._fold(fold, block, on_fraction, cancelled)
        for group, sums in enumerate(products):
            product[:, group * LANE_COLUMNS : (group + 1) * LANE_COLUMNS] = sums
        return product

    def degrees(
        self,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> FullDegrees:
        """Weights and numbers of the edges at every node, in one pass.

        Raises as `open`, and `RawEdgesGone` when there are more or fewer edges than were absorbed.
        """
        result = self._fold(Degrees(n_nodes=self._n_nodes), None, on_fraction, cancelled)
        self._require_all(int(result.n_edges.sum()) // 2)
        return result

    def arcs(
        self,
        relation: str,
        *,
        on_fraction: OnFraction = lambda _fraction: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> ArcSums:
        """What every node sends and receives in one relation, in one pass over its edges.

        Raises as `open`.
        """
        spans = cut_spans(self._opened, self._n_nodes, only=relation)
        return self._fold(Arcs(n_nodes=self._n_nodes), None, on_fraction, cancelled, spans)

    def _fold(
        self,
        fold: Fold[Span, _SharedT, _PartialT],
        shared: _SharedT,
        on_fraction: OnFraction,
        cancelled: Callable[[], bool],
        spans: Sequence[Span] | None = None,
    ) -> _PartialT:
        """Result of a fold over some spans, by default all."""
        self._require_unchanged()
        items = self._spans if spans is None else spans
        n_rows = max(sum(span.n_rows for span in items), 1)
        n_done = 0
        counting = Lock()

        def advance(n_more: int) -> None:
            nonlocal n_done
            if cancelled():
                raise PassStopped
            with counting:
                n_done += n_more
                if n_more:
                    on_fraction(n_done / n_rows)

        with self._content_faults():
            result = self._executor.fold(fold, items, shared, advance)
        self._require_unchanged()
        return result

    @contextmanager
    def _content_faults(self) -> Iterator[None]:
        """Raise RawEdgesGone for what a file that changes during a pass leads to."""
        try:
            yield
        except (BadEdges, FileNotFoundError) as error:
            self._require_unchanged()
            raise RawEdgesGone([("a file", str(error))]) from error

    def _require_unchanged(self) -> None:
        """Raise RawEdgesGone where a file that is read in place has changed."""
        raise_if_any(
            [
                (file.file.path, "it is missing, or has changed since it was checked")
                for file, _ in self._opened
                if isinstance(file, StagedFile) and not file.is_unchanged()
            ]
        )


def raise_if_any(faults: Sequence[tuple[str, str]]) -> None:
    """Raise RawEdgesGone with the paths and faults of files, if there are any."""
    if faults:
        raise RawEdgesGone(faults)
