"""Proof of a solve: labels that all edges would give, by passes over them."""

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from peewit.service.tasks.solving.all_edges import all_edges
from peewit.service.tasks.solving.state import Solving, require_whole
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.models.contract.provable_model import Proof, Provable, prove
from peewit.solvers.models.contract.refinable_model import change_of
from peewit.solvers.proof.spectral_ends import EXACT, FAILURE, MOST_STEPS, N_VECTORS, SpectralEnds
from peewit.solvers.solution import Solution
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.certificate_store import Certificate, CertificateStore
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

_CHOSEN: Final = ("graph_penalty", "class_mass")
"""Stats of what was chosen on the edges kept, and stays."""


def prove_answer(solving: Solving) -> None:
    """Answer with what all edges say, as far as few labels stay unproven.

    Raises as `peewit.service.tasks.solving.refine.refine_on_all_edges`, and `RunStopped`.
    """
    began, meta = time.monotonic(), solving.graph.snapshot.meta
    before, labels = solving.answer.solution, solving.answer.labels
    if meta.is_whole:
        solution, proof = _prove_whole(solving)
    else:
        solution, proof = _prove_by_passes(solving)
        solution = replace(
            solution,
            stats={
                **solution.stats,
                "refined": 1,
                "passes": proof.n_passes,
                "residual": proof.residual,
                **change_of(labels, before, solution),
            },
        )
    solving.take(solution)
    require_whole(solution)
    solving.assessment.proven = proof.is_proven
    weights = solving.graph.used_relations
    solving.proof = {
        "share": proof.share,
        "shares": [round(share, 6) for share in proof.shares],
        "n_reached": proof.n_reached,
        "n_proven": proof.n_proven,
        "most_unproven": solving.options.prove,
        "is_enough": proof.n_reached - proof.n_proven <= solving.options.prove * proof.n_reached,
        "ended_by": proof.status.value,
        "n_edges": _n_edges(solving),
        "passes": 0 if meta.is_whole else proof.n_passes,
        "seconds": time.monotonic() - began,
        "failure": proof.failure,
        "low": proof.ends.low,
        "high": proof.ends.high if np.isfinite(proof.ends.high) else None,
        "as_chosen": {name: before.stats[name] for name in _CHOSEN if name in before.stats},
        "relations": {} if len(weights) < 2 or meta.is_whole else weights,
        "walks_on": solution.stats.get("walks_on"),
    }


def _n_edges(solving: Solving) -> int:
    """Edges of the relations that count."""
    meta, used = solving.graph.snapshot.meta, solving.graph.used_relations
    if len(meta.relations) < 2:
        return meta.n_edges
    return sum(each.n_edges for each in meta.relations if each.name in used)


def _prove_whole(solving: Solving) -> tuple[Solution, Proof]:
    """All edges are in memory: what is left is what solver and rounding may miss."""
    graph = solving.graph.snapshot.graph
    return _prove(
        solving,
        graph.laplacian_product,
        lambda: FullDegrees(graph.degree, np.diff(graph.adjacency.indptr)),
        known_ends=EXACT,
    )


def _prove_by_passes(solving: Solving) -> tuple[Solution, Proof]:
    graph, task = solving.graph, solving.task
    meta, paths = graph.snapshot.meta, GraphPaths(root=task.graph_directory)
    store = CertificateStore(paths.snapshots)
    known = store.get(meta.number)
    began = time.monotonic()
    with all_edges(graph, task, solving.stages, max_passes=solving.options.max_passes) as passes:
        solution, proof = _prove(
            solving,
            passes,
            passes.degrees,
            known_ends=ends_of(known),
            looks_on=known is not None and _is_short(known),
            progress=passes.report_solving,
            on_share=passes.report_proven,
        )
    is_of_all = len(meta.relations) < 2 and all(weight == 1.0 for weight in graph.weights.values())
    ends, before = proof.found_ends, ends_of(known)
    is_closer = ends is not None and ends[0].outer > (0.0 if before is None else before.low)
    if ends is None or not (is_of_all and is_closer):
        return solution, proof
    with suppress(SnapshotNotFound):  # retired since
        if SnapshotStore(paths.snapshots).meta(meta.number).n_erased == meta.n_erased:
            store.put(
                Certificate.of_ends(
                    ends,
                    snapshot=meta.number,
                    status="max-passes",
                    probability=1.0 - FAILURE,
                    n_edges=meta.n_edges,
                    n_passes=proof.n_passes,
                    n_vectors=N_VECTORS,
                    seed=_seed(solving),
                    seconds=time.monotonic() - began,
                    created_at=time.time(),
                )
            )
    return solution, proof


def _prove(solving: Solving, product: Any, degrees: Any, **how: Any) -> tuple[Solution, Proof]:
    answer, options, watch = solving.answer, solving.options, solving.watch
    progress = how.pop("progress", watch.progress)
    return prove(
        cast(Provable, answer.model),
        solving.first.prepared,
        cast(Labels, answer.labels),
        answer.solution,
        product,
        degrees,
        most_unproven=options.prove,
        max_passes=options.max_passes,
        seed=_seed(solving),
        watch=replace(watch, progress=progress),
        **how,
    )


def _is_short(certificate: Certificate) -> bool:
    """Whether few passes looked for the ends, so that others may find closer ones."""
    is_final = certificate.status in {"converged", "inexact"}
    return not is_final and (certificate.n_passes <= MOST_STEPS or certificate.outer_max is None)


def ends_of(certificate: Certificate | None) -> SpectralEnds | None:
    """The ends that a certificate knows; None where it knows none."""
    if certificate is None or not certificate.outer_min or certificate.outer_min <= 0:
        return None
    high = certificate.outer_max
    return SpectralEnds(
        low=certificate.outer_min,
        high=np.inf if high is None else high,
        failure=1.0 - certificate.probability,
    )


def _seed(solving: Solving) -> int:
    """Of random vectors, which must not depend on the coins of the snapshot."""
    meta = solving.graph.snapshot.meta
    return int(np.random.SeedSequence([1, meta.seed, meta.number]).generate_state(1)[0])
