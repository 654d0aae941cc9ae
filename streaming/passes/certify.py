"""Certification of a snapshot: the extreme eigenvalues of L_H^+ L_G, by block Lanczos.

Each step is one pass over the raw edges (`peewit.solvers.laplacian.extreme_eigenvalues`). The state
after each pass is on the disk, so a killed run resumes where it was.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Progress, ProgressReport
from peewit.solvers.laplacian.extreme_eigenvalues import (
    End,
    Krylov,
    advance_krylov,
    spectrum_ends,
    start_krylov,
)
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from peewit.streaming.durable_files import (
    publish_file,
    publish_json,
    remove_abandoned,
    remove_unfinished,
)
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.certificate_store import (
    Certificate,
    CertificateStatus,
    CertificateStore,
    CertifySettings,
    epsilon_between,
    joined_certificates,
)
from peewit.streaming.passes.edge_folds import RawComponents
from peewit.streaming.passes.edge_passes import EdgePasses, PassStopped
from peewit.streaming.passes.raw_edge_passes import snapshot_edges, spool_directory
from peewit.streaming.snapshots.store import Snapshot, SnapshotStore

_SMALLEST_GAP: Final = 1e-3
"""Bounds closer than this are close enough for any accuracy."""
_FORMAT: Final = 1


def certify(
    paths: GraphPaths,
    number: int,
    settings: CertifySettings | None = None,
    *,
    keep_raw: bool = True,
    owner: str | None = None,
    n_threads: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
) -> Certificate:
    """Measure a snapshot against its raw edges and store the certificate beside it.

    Where the graph has several relations each is measured by itself, and the certificate holds for
    every weighed sum of them at once (B29). The result does not depend on ``n_threads``, nor on
    ``scheduler``, a dask scheduler whose workers compute the passes; linear solves stay here.
    Without ``keep_raw`` spooled edges are removed at the end. ``owner``, part of a directory name,
    is needed where two equal runs may go on at once: it resumes its own run, or takes over one that
    was stopped.

    The next call resumes after the last whole pass, whether a stop or the scheduler ended this one.
    `RawEdgesGone` lists the files that are missing or changed.
    """
    settings = CertifySettings() if settings is None else settings
    names = [each.name for each in SnapshotStore(paths.snapshots).meta(number).relations]
    several: Sequence[str | None] = [None]
    of_each = settings
    if len(names) > 1:  # each may fail with its share of the chance of error
        several = names
        failure = (1.0 - settings.probability) / len(names)
        of_each = replace(settings, probability=1.0 - failure)
    certificate = joined_certificates(
        [
            _measured(
                paths,
                number,
                of_each,
                relation=relation,
                weights={name: 0.0 for name in names if relation not in {None, name}},
                keep_raw=keep_raw,
                owner=owner,
                n_threads=n_threads,
                scheduler=scheduler,
                progress=progress,
                cancelled=cancelled,
                clock=clock,
                wall_clock=wall_clock,
            )
            for relation in several
        ],
        probability=settings.probability,
    )
    CertificateStore(paths.snapshots).put(certificate)
    return certificate


def _measured(
    paths: GraphPaths,
    number: int,
    settings: CertifySettings,
    *,
    relation: str | None,
    weights: Mapping[str, float],
    keep_raw: bool,
    owner: str | None,
    n_threads: int,
    scheduler: str | None,
    progress: Progress | None,
    cancelled: Callable[[], bool],
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
) -> Certificate:
    """The certificate of one relation, or of all edges; arguments as of `certify`."""
    began = clock()
    reporter = _Reporter(progress, settings.passes, relation)
    reporter("loading", 0, 0.0)
    snapshot = SnapshotStore(paths.snapshots, weights=weights).load(number)
    work = _Work(
        paths.root / "certify", number, settings, relation=relation, owner=owner, now=wall_clock()
    )
    try:
        with snapshot_edges(
            paths,
            snapshot.meta,
            spool=spool_directory(paths, work.edges, keep_raw=keep_raw),
            staging=work.directory / "staging",
            n_threads=n_threads,
            scheduler=scheduler,
            weights=weights,
        ) as edges:
            edges.open(on_fraction=reporter.of("reading"), cancelled=cancelled)
            components = edges.components(
                on_fraction=reporter.of("components", 1), cancelled=cancelled
            )
            with ThreadPoolExecutor(n_threads, thread_name_prefix="certify") as pool:
                solver = RefinedSolver(snapshot.graph, parallel=pool.map, cancelled=cancelled)
                run = _Run(settings, edges, solver, work, reporter, cancelled)
                status, ends, n_products = run.measure(snapshot, components)
    except ValueError:  # another attempt would meet it again
        work.remove()
        raise
    except PassStopped:
        work.hand_over()
        raise
    finally:
        work.forget_edges()
    work.remove()
    return Certificate.of_ends(
        ends,
        snapshot=number,
        status=status,
        probability=settings.probability,
        n_edges=components.n_edges,
        n_passes=1 + n_products,
        n_vectors=settings.n_vectors,
        seed=settings.seed,
        seconds=clock() - began,
        created_at=wall_clock(),
    )


class _Reporter:
    def __init__(self, progress: Progress | None, passes: int, relation: str | None) -> None:
        self._progress = progress
        self._passes = passes
        self._of = f"{relation}: " if relation else ""

    def __call__(self, phase: str, n_passes: int, fraction: float) -> None:
        if self._progress is not None:
            report = ProgressReport(
                phase=self._of + phase, n_iter=n_passes, max_iter=self._passes, fraction=fraction
            )
            self._progress(report)

    def of(self, phase: str, n_passes: int = 0) -> Callable[[float], None]:
        self(phase, n_passes, 0.0)
        return lambda fraction: self(phase, n_passes, fraction)


class _Run:
    """The passes of one certificate."""

    def __init__(
        self,
        settings: CertifySettings,
        edges: EdgePasses,
        solver: RefinedSolver,
        work: "_Work",
        reporter: _Reporter,
        cancelled: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._edges = edges
        self._solver = solver
        self._work = work
        self._reporter = reporter
        self._cancelled = cancelled

    def measure(
        self, snapshot: Snapshot, components: RawComponents
    ) -> tuple[CertificateStatus, tuple[End, End] | None, int]:
        """Status, both ends of the spectrum and the number of products."""
        if not _same_components(snapshot.graph, components):
            return "components-differ", None, 0
        if self._solver.dimension == 0:
            exact = End(ritz=1.0, residual=0.0, outer=1.0)
            return "converged", (exact, exact), 0
        krylov, basis = self._work.load() or self._start(snapshot)
        while True:
            if krylov.n_steps:
                ends = spectrum_ends(krylov, probability=self._settings.probability)
                if self._is_close(ends):
                    return "converged", ends, krylov.n_steps
                if krylov.is_exhausted:
                    return "inexact", ends, krylov.n_steps
                if 1 + krylov.n_steps >= self._settings.passes:
                    return "max-passes", ends, krylov.n_steps
            krylov, following = self._step(krylov, basis)
            basis.append(self._work.save(krylov, following))

    def _start(self, snapshot: Snapshot) -> tuple[Krylov, list[FloatArray]]:
        self._reporter("start", 1, 0.0)
        drawn = np.random.SeedSequence(
            [self._settings.seed, snapshot.meta.seed, snapshot.meta.number]
        )
        seed = int(drawn.generate_state(1, np.uint64)[0])
        krylov, first = start_krylov(self._solver, n_vectors=self._settings.n_vectors, seed=seed)
        self._raise_if_stopped()
        return krylov, [self._work.save(krylov, first)]

    def _step(self, krylov: Krylov, basis: Sequence[FloatArray]) -> tuple[Krylov, FloatArray]:
        n_passes = krylov.n_steps + 2
        product = self._edges.laplacian_product(
            basis[-1],
            on_fraction=self._reporter.of(f"pass {n_passes}", n_passes),
            cancelled=self._cancelled,
        )
        self._reporter(f"pass {n_passes}: solving", n_passes, 0.0)
        advanced = advance_krylov(krylov, self._solver, basis, product)
        self._raise_if_stopped()
        return advanced

    def _is_close(self, ends: tuple[End, End]) -> bool:
        least, certified = _epsilons(ends)
        return certified - least <= max(self._settings.gap * least, _SMALLEST_GAP)

    def _raise_if_stopped(self) -> None:
        """Raise where the run is cancelled: a solve that was cut short must not enter the state."""
        if self._cancelled():
            raise PassStopped


class _Work:
    """The state of a run on the disk, from which a killed run resumes after its last pass.

    One directory per snapshot, block size, seed, relation and owner. The same run writes the same
    bytes whoever owns it. A stopped run leaves its directory to the next owner, who takes it by
    renaming, as only one can. What other runs have left untouched for a day is removed.
    """

    def __init__(
        self,
        root: Path,
        number: int,
        settings: CertifySettings,
        *,
        relation: str | None,
        owner: str | None,
        now: float,
    ) -> None:
        name = f"{number:08d}-{settings.n_vectors}-{settings.seed}"
        if relation is not None:
            name += f"-{hashlib.sha256(relation.encode()).hexdigest()[:16]}"
        self._left = root / name
        self.directory = root / (name if owner is None else f"{name}-{owner}")
        if not self.directory.exists():
            with suppress(FileNotFoundError):
                self._left.rename(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.directory)
        remove_abandoned(root, keep=self.directory, now=now)

    def load(self) -> tuple[Krylov, list[FloatArray]] | None:
        """The state after the last whole pass with its basis, None at the beginning."""
        try:
            values = json.loads(self._state.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if values.pop("format") != _FORMAT:
            return None
        krylov = Krylov(
            dimension=values["dimension"],
            widths=tuple(values["widths"]),
            projected=_matrix(values["projected"]),
            coupling=_matrix(values["coupling"]),
            errors=tuple(values["errors"]),
            start_error=values["start_error"],
        )
        return krylov, [self._block(number) for number in range(len(krylov.widths))]

    def save(self, krylov: Krylov, block: FloatArray) -> FloatArray:
        """Keep the newest block of the basis, then the state; the block as a map of its file."""
        number = len(krylov.widths) - 1
        publish_file(
            self._block_path(number), lambda path: np.save(path, block, allow_pickle=False)
        )
        values = {item.name: getattr(krylov, item.name) for item in fields(krylov)}
        for name in ("projected", "coupling"):
            values[name] = {"shape": values[name].shape, "values": values[name].ravel().tolist()}
        publish_json(self._state, {"format": _FORMAT, **values})
        return self._block(number)

    @property
    def edges(self) -> Path:
        """Where edges are spooled that must not stay."""
        return self.directory / "spool"

    def forget_edges(self) -> None:
        """Remove such edges, however the run ended."""
        shutil.rmtree(self.edges, ignore_errors=True)

    def hand_over(self) -> None:
        """Leave the run to its next owner, or remove it where another one was left already."""
        self.forget_edges()
        try:
            self.directory.rename(self._left)
        except OSError:
            self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _state(self) -> Path:
        return self.directory / "state.json"

    def _block_path(self, number: int) -> Path:
        return self.directory / f"basis-{number:04d}.npy"

    def _block(self, number: int) -> FloatArray:
        """A private map: the system may drop its pages and read them again."""
        mapped = np.load(self._block_path(number), mmap_mode="c", allow_pickle=False)
        block: FloatArray = np.asarray(mapped)
        return block


def _matrix(stored: dict[str, Any]) -> FloatArray:
    return np.array(stored["values"], dtype=np.float64).reshape(stored["shape"])


def _same_components(graph: Graph, raw: RawComponents) -> bool:
    """Whether both have as many components, and no raw one lies in two of the graph's."""
    is_inside = np.array_equal(graph.component[raw.component], graph.component)
    return is_inside and raw.n_components == graph.n_components


def _epsilons(ends: tuple[End, End]) -> tuple[float, float]:
    """The least epsilon possible, and the certified one."""
    low, high = ends
    return epsilon_between(low.ritz, high.ritz), epsilon_between(low.outer, high.outer)
